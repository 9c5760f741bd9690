"""What differs between two commits: a summary per table, from the pins alone.

No table is opened. Rows that changed are for ``Table.changes`` to tell.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from lancewood.catalog.pin import Pin
from lancewood.catalog.tables import TableTree
from lancewood.git.objects import Commit

Kind = Literal["added", "removed", "changed", "moved"]


@dataclass(frozen=True, slots=True)
class TableChange:
    """One table on both sides."""

    name: str
    kind: Kind
    """``moved``: the same rows and columns, recorded at another version or branch."""
    before: Pin | None
    after: Pin | None

    @property
    def rows(self) -> int | None:
        """How many rows more there are; None where a pin does not say."""
        counts = [0 if each is None else each.rows for each in (self.before, self.after)]
        if counts[0] is None or counts[1] is None:
            return None
        return counts[1] - counts[0]

    @property
    def fragments(self) -> int:
        """How many fragments more there are."""
        return _fragments(self.after) - _fragments(self.before)

    @property
    def added_columns(self) -> tuple[str, ...]:
        """Columns that are new, or of another type, as ``name: type``."""
        return tuple(each for each in _columns(self.after) if each not in _columns(self.before))

    @property
    def removed_columns(self) -> tuple[str, ...]:
        """Columns that are gone, or were of another type."""
        return tuple(each for each in _columns(self.before) if each not in _columns(self.after))


@dataclass(frozen=True, slots=True)
class Shown:
    """A commit, and the tables that it changed."""

    commit: Commit
    changes: tuple[TableChange, ...]


def compare(before: TableTree, after: TableTree) -> tuple[TableChange, ...]:
    """The tables that differ, by name; those that do not are not even decoded."""
    found = []
    for name in sorted({*before.names(), *after.names()}):
        one, other = before.blob_hash(name), after.blob_hash(name)
        if one == other:
            continue
        then = None if one is None else before.pin(name)
        now = None if other is None else after.pin(name)
        found.append(TableChange(name, _kind(then, now), then, now))
    return tuple(found)


def _kind(before: Pin | None, after: Pin | None) -> Kind:
    if before is None:
        return "added"
    if after is None:
        return "removed"
    return "moved" if before.content == after.content else "changed"


def _columns(pin: Pin | None) -> tuple[str, ...]:
    return () if pin is None else tuple(f"{name}: {kind}" for name, kind in pin.schema)


def _fragments(pin: Pin | None) -> int:
    return 0 if pin is None else pin.fragments
