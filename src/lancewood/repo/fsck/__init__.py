"""Looking whether a repository is whole, and telling every problem."""
