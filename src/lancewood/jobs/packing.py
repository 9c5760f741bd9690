"""Cutting the fragments of a table, or other things of which there are many, into tasks.

One task per fragment would make a hundred thousand tasks of a table of small fragments, and as
many tiny new files; one task for all would keep one core busy.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from lancewood.model.fragment import Fragment

T = TypeVar("T")

TASKS_PER_SLOT = 4
MOST_FRAGMENTS = 1_000
"""A task's message stays small however small the fragments are."""
AT_ONCE = 4
"""Fragments that a task works on at once: most of the time of a small one is spent waiting."""


def pack_fragments(
    fragments: Iterable[Fragment], slots: int, *, least_bytes: int = 0
) -> Iterator[tuple[Fragment, ...]]:
    """Neighbouring fragments in groups of about the same number of rows, a few for each slot.

    ``least_bytes`` of data files are in every group but the last, for work whose results are
    files: those would be tiny otherwise.
    """
    chosen = list(fragments)
    rows = sum(each.physical_rows for each in chosen)
    share = max(1, rows // max(1, slots * TASKS_PER_SLOT))
    group: list[Fragment] = []
    held = size = 0
    for each in chosen:
        group.append(each)
        held += each.physical_rows
        size += sum(file.file_size_bytes for file in each.message.files)
        if (held >= share and size >= least_bytes) or len(group) >= MOST_FRAGMENTS:
            yield tuple(group)
            group, held, size = [], 0, 0
    if group:
        yield tuple(group)


def shares(items: Sequence[T], slots: int, most: int) -> list[tuple[T, ...]]:
    """Neighbouring items in groups of one size, a few groups for each slot, of ``most`` at most."""
    share = -(-len(items) // max(1, slots * TASKS_PER_SLOT))
    return chunks(items, min(max(1, share), most))


def chunks(items: Sequence[T], size: int) -> list[tuple[T, ...]]:
    """Neighbouring items in groups of this size."""
    return [tuple(items[at : at + size]) for at in range(0, len(items), size)]
