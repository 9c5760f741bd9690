"""Rows that differ, as a frame: numbers on the driver, values in tasks."""
