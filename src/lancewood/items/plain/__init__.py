"""Snapshots in the plain layout of ADR-019, imported into a repository."""
