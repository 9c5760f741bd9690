"""Pure decisions over manifests and transactions; no bytes, no clock, no store.

- What follows from a commit: ``apply``, with ``apply_rows``; ``numbering`` gives ids, ``indices``
  keeps indices right, ``features`` sets the flags, and ``patching`` makes the patch.
- Whether it may follow others: ``conflicts`` is the table of pairs, ``overlaps`` its conditions and
  outcomes, also for the operations of one transaction; ``columns`` looks closer.
- Two branches: ``three_way``. Files that moved: ``moves``.
- Who may write at all: ``features`` (a published branch is closed, a batch is there).
"""
