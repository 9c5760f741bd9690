"""What the commits of a repository say about tables: pins, and which versions they need."""
