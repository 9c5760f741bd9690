"""A table that one repository keeps for itself: its configuration says which.

The key stands in every version that the repository writes, and with it a writer flag that no other
program knows (``model.manifest.FLAG_EXCLUSIVE``): whoever does not know a flag reads, and refuses
to write. A clone elsewhere is nobody's, and does not have it. Plain values; what follows for
writers is said in ``rules.features``.
"""

from __future__ import annotations

from collections.abc import Sequence

from lancewood.model.manifest import ManifestHead
from lancewood.model.operations import MapUpdate, Operation, UpdateConfig

EXCLUSIVE_KEY = "lancewood.exclusive"
"""The key in a table's configuration under which the identity of the repository stands."""
ANY_REPOSITORY = "*"
"""Whoever writes in the name of all: what was committed already lands wherever it belongs."""


def keeper_of(head: ManifestHead) -> str | None:
    """The repository that keeps the table for itself; None where anybody may write."""
    found = head.message.config.get(EXCLUSIVE_KEY)
    return None if found is None else str(found)


def keeping(repository: str | None) -> UpdateConfig:
    """The change after which a table is the repository's alone, or with None everybody's."""
    return UpdateConfig(config=MapUpdate({EXCLUSIVE_KEY: repository}))


def frees(operations: Sequence[Operation]) -> bool:
    """Whether they do nothing but give the table back to everybody: anybody may do that, for the
    repository may be gone."""
    return list(operations) == [keeping(None)]
