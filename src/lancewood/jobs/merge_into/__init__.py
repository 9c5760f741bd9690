"""Merging rows by key: what the source and the table have in common, and what becomes of it."""
