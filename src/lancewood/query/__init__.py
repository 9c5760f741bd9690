"""SQL over tables at revisions, in DuckDB's words, answered by DuckDB in this process.

How a text is answered, in order:

1. ``names`` finds the tables that it names, by DuckDB's own ``tokens`` and parser, and ``sources``
   the version that each of them means, each once. The text stays as it was written, except where
   a revision stands.
2. ``answer`` gives each version, or the diff of two, to DuckDB in columns of types that it has.
   DuckDB's optimizer asks for columns and offers conditions, of which a scan takes those that it
   decides exactly, and gains from. What DuckDB computes is read batch by batch, in a database that
   reaches nothing else (``expr.database``).

A text may also be a script that changes tables: ``statements`` reads and runs it in this process,
``lancewood.spark.dialect`` has the same statements in Spark's words.
"""
