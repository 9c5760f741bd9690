"""Compaction: rows of many fragments are written into fewer."""
