"""Merging a frame into a table by key: Spark joins keys, executors change rows, one commit."""
