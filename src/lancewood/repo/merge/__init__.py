"""Bringing what commits did to a branch: merge, revert, cherry-pick."""
