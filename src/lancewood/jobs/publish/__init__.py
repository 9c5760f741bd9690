"""Bringing the operations of a branch to the branch it came from, as one commit, exactly once.

``publish`` closes the branch (``closed_branch``, which also begins it again), collects its
``branch_work`` and makes a ``Publication`` of it (``prepare``): ``operation_judge`` compares it
with what happened on the target. ``publication`` then builds the version for whatever is newest by
then, of ``fragments`` as they stand on the target. A merge of a repository uses ``branch_work``,
``prepare`` and ``publication`` in the same way.
"""
