"""Writing frames: executors write files and answer with a few bytes, the driver commits once."""
