"""What a write did, as the type that the verb answers."""

from __future__ import annotations

from typing import TypeVar

from lancewood.table.handle import Handle

T = TypeVar("T")


def counts_of(table: Handle, kind: type[T]) -> T:
    """The counts of a handle, which are of this type."""
    counts = table.counts
    assert isinstance(counts, kind)
    return counts
