"""A table that only one repository may write: its configuration says which.

The key is in every version that the repository writes, and with it a writer flag that no other
program knows (``model.manifest.FLAG_EXCLUSIVE``): a program that does not know a flag may read but
refuses to write. A clone elsewhere belongs to nobody, and has no such key. Plain values;
``rules.features`` says what follows for writers.
"""

from __future__ import annotations

from collections.abc import Sequence

from lancewood.model.manifest import ManifestHead
from lancewood.model.operations import MapUpdate, Operation, UpdateConfig

EXCLUSIVE_KEY = "lancewood.exclusive"
"""The key of the repository's identity in a table's configuration."""
ANY_REPOSITORY = "*"
"""The identity that may write to any table: what is already committed must land anywhere."""


def keeper_of(head: ManifestHead) -> str | None:
    """The only repository that may write the table; None where anybody may."""
    found = head.message.config.get(EXCLUSIVE_KEY)
    return None if found is None else str(found)


def keeping(repository: str | None) -> UpdateConfig:
    """The change that reserves a table for a repository, or with None opens it to everybody."""
    return UpdateConfig(config=MapUpdate({EXCLUSIVE_KEY: repository}))


def frees(operations: Sequence[Operation]) -> bool:
    """Whether the operations only open the table to everybody: anybody may do that, because the
    repository may be gone."""
    return list(operations) == [keeping(None)]
