"""New columns of a table, computed by Spark expressions."""
