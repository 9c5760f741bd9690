"""SQL over tables at revisions: what a query names and needs of tables, and DuckDB to answer it.

The way of a query: ``text`` (tokens and tree) → ``names`` (which tables, at which revisions) →
``sources`` (their versions, each found once) → ``reads`` (which columns, rows and limits each
occurrence needs) → an engine: ``duckdb`` here, or Spark in ``lancewood.spark.querying``.
The SQL is Spark's on both.
"""
