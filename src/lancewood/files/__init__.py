"""Files of rows, in and out: CSV, JSON lines, Parquet and Arrow, and how values are written in
them.
"""
