"""Bringing the work on a branch to the branch it came from, as one commit."""
