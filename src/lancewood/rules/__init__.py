"""Pure decisions over manifests and transactions; no bytes, no clock, no store.

- What follows from a commit: ``apply`` leads to ``apply_rows``, ``apply_columns`` and
  ``apply_settings``; ``numbering`` gives ids, ``indices`` keeps indices right, ``features`` sets
  the flags, and ``patching`` makes the patch.
- Whether it may follow others: ``conflicts`` is the table of pairs, ``overlaps`` its conditions,
  ``verdicts`` its outcomes; ``columns`` and ``inserted_keys`` look closer, and ``lists`` judges
  operations of one transaction.
- Two branches: ``three_way``. Files that moved: ``moves``.
- Who may write at all: ``closed`` (a published branch), ``applied`` (a batch that is there).
"""
