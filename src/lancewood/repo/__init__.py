"""The repository: a git history over many tables."""
