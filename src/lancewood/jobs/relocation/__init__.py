"""Writing down where a table is, after it was moved."""
