"""The commands that run pipelines, and look after their runs."""
