"""SQL that writes: from the text of a script to checked statements.

``model`` has a value for each statement. ``script`` makes them of a text: it decides by the first
words, ``rows`` and ``tables`` read the rest with a ``reader`` of tokens, which hands conditions,
queries and types to sqlglot. ``words`` says what a statement would do. Nothing is looked up and
nothing is changed here.
"""
