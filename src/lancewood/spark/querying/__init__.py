"""SQL over tables at revisions: what a query needs is found here, Spark executes it.

The way of a query: ``text`` (tokens and tree) → ``names`` (which tables, at which revisions) →
``sources`` (their versions, each found once) → ``reads`` (which columns, rows and limits each
occurrence needs) → ``query`` (frames into the text, and the text to Spark).
"""
