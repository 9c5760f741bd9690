"""A table as the source and as the sink of a Spark stream, exactly once in both directions."""
