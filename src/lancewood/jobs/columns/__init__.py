"""Changing columns: at most one new file beside the others of a fragment, and another schema."""
