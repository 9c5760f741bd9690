"""SQL that writes: from the text of a script to checked statements, and what they do to tables.

``model`` has a value for each statement. ``script`` makes them of a text: it decides by the first
words, ``rows`` and ``tables`` read the rest with a ``reader`` of tokens, which hands conditions,
queries and types to sqlglot. ``types`` are those of columns in Arrow, and ``words`` say what a
statement would do.

``sequence`` runs a script from end to end; ``workplace`` knows where its tables are, and the
transaction of a repository. ``running`` changes rows: ``queries`` ask an engine which ones and to
what, ``values`` brings them into the types of the table, and what is ``plain`` needs no engine.
``shaping`` changes tables as a whole.
"""
