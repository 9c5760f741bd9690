"""Merging by rows: what two sides made of a table since a common base becomes one version.

``columns`` unites the schemas, and ``column_checks`` asks rows about them. ``meeting`` finds which
rows both may have changed, without reading a value. ``tasks`` read those, let ``deciding`` say what
becomes of each by the rules in ``resolving``, and write what is merged; ``conflicts`` are what
nothing decides. ``gathering`` sorts all of it by fragment, and ``composing`` makes the version of
that. ``plan`` puts them together, ``unite`` is the verb.
"""
