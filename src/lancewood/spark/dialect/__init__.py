"""SQL in Spark's own words: what `lancewood.spark.sql` and `lw sql --spark` read.

`text` parses a query with sqlglot, in the dialect that the `settings` of a session say; `names`
finds the tables in it, `plan` their versions, and `querying` puts frames in their place: Spark has
the text as it was written, and decides itself what it reads. `script`, `reader`, `rows` and
`tables` read statements that write, `change_queries` and `types` say them in Spark's words, and
`scripts` runs them as in one process (`lancewood.query.statements`), on Spark's executors.
"""
