"""Landing what waits, and removing what no commit leads to."""
