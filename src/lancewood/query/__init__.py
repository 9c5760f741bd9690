"""SQL over tables at revisions: what a query names and needs of tables, and DuckDB to answer it.

How a text is answered, in order:

1. ``text`` parses it: tokens and sqlglot's tree, in Spark's dialect (``settings`` say which one).
2. ``names`` finds the tables in the tree, and which revision each is asked at, and ``diffs`` what
   is to be compared; ``sources`` finds the version that is meant, each once. ``plan`` does all, and
   reports on it (``--explain``).
3. ``reads`` says what is read of each table: which columns; ``joins`` which conditions and limits
   may be asked before tables are joined, ``predicates`` how those are said to a scan.
4. An engine answers: Spark in ``lancewood.spark.querying``, with the text as it was written; or
   DuckDB in ``answer``, with a text of our own. That is compiled from the outside in:
   ``relations`` (SELECT, joins, WITH, UNION; ``clauses`` looks at single ones), ``scopes`` (what a
   name means), ``expressions``, and what they are made of: ``literals``, ``functions`` and
   ``aggregates``. Every piece is ``typed`` in the ``kinds`` that Spark would give it; what is not
   known to mean the same in Spark is refused (``typed.only_spark``).

The SQL is Spark's on both engines. A text may also be a script that changes tables
(``statements``): ``here`` runs it in this process, ``lancewood.spark.scripts`` on Spark.
"""
