"""The file: from TOML to checked values, before anything runs."""
