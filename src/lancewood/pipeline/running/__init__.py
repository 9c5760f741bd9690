"""A run: from the branch it works on to the commit it publishes, exactly once."""
