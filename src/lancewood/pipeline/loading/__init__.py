"""Frames into the tables of a run's branch: targets, and the quarantine of bad rows."""
