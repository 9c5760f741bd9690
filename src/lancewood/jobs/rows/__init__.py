"""Deleting and updating rows: find them, then mark, move or rewrite them."""
