"""Rows that differ, or that a merge leaves to decide: numbers on the driver, values in tasks."""
