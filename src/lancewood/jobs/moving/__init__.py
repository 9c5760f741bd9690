"""Bringing fragments to another home of the table."""
