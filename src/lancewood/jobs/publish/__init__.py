"""Bringing the work on a branch to the branch it came from, as one commit.

``publish`` closes the branch (``closing``), collects its ``work`` and prepares it (``preparing``):
``judging`` compares it with what happened on the target, ``same_keys`` finds equal primary keys,
``copies`` brings files over. ``composing`` then builds the version for whatever is newest by then,
of ``fragments`` and numbers that ``placing`` gives. ``reset`` begins a branch again. A merge of a
repository uses ``work``, ``preparing`` and ``composing`` in the same way.
"""
