"""SQL that writes: from the text of a script to checked statements.

``model`` has a value for each statement. ``script`` makes them of a text: it decides by the first
words, ``rows`` and ``tables`` read the rest with a ``reader`` of tokens, which hands conditions,
queries and types to sqlglot. ``types`` are those of its columns in Arrow, ``words`` say
what it would do.
"""
