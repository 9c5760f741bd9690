"""Git repositories in a bucket: git's layout over a ``Store``, moved by conditional puts."""
