"""MERGE beside Delta's and Iceberg's, on one Spark: which rows are left, and what is an error.

``make merges`` asks all of them, and us in both engines, and records what the others answer;
``make test`` holds us to the record, and fetches nothing.
"""
