"""SQL that writes: from the text of a script to checked statements, and what they do to tables.

``model`` has a value for each statement. ``script`` and ``table_grammar`` make them of a text, with
a ``reader`` of tokens, which has DuckDB parse conditions, queries and types.

``running`` takes a script from end to end. An ``engine`` says a change of rows as one SELECT,
answers it and writes; ``verbs`` has what each statement does. The ``workplace`` knows where
tables are, and the transaction of a repository.
"""
