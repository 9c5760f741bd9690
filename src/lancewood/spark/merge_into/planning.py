"""Cutting a merge into tasks, on the driver: those that read keys, and those that change rows.

Knows fragments as bytes of the manifest, and how many rows are to be changed in each; never a row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from lancewood.engine.snapshot import Snapshot
from lancewood.jobs.job import MOST_FRAGMENTS, TASKS_PER_SLOT
from lancewood.model.ids import FragmentId
from lancewood.spark.merge_into.keys import source_message
from lancewood.spark.merge_into.staged_source import StagedFiles
from lancewood.spark.reading.task import TablePortion

_LEAST_KEYS = 65_536
_MOST_KEYS = 1 << 26
_LEAST_MOVED = 65_536
_LEAST_INSERTED = 262_144
_MOST_WRITTEN = 1_048_576


@dataclass(frozen=True)
class ChangeTasks:
    """The tasks that change rows, and which of them has which rows."""

    messages: list[bytes] = field(repr=False)
    targets: Mapping[int, int]
    """The task of each fragment of the table that rows change in."""
    sources: Mapping[int, int]
    """The task of each staged file that rows are inserted from."""


def table_messages(snapshot: Snapshot, slots: int) -> list[bytes]:
    """Messages for tasks that read the keys of the table: all fragments, undecoded."""
    raw, rows = snapshot.manifest.message.fragments, snapshot.manifest.rows_by_fragment
    counts = np.ones(len(raw), np.int64) * _LEAST_KEYS if rows is None else np.asarray(rows)
    return [TablePortion(raw[first:last]).encode() for first, last in _cut(counts, slots)]


def source_messages(staged: StagedFiles, slots: int) -> list[bytes]:
    """Messages for tasks that read the keys of the source."""
    cuts = _cut(np.asarray(staged.rows, np.int64), slots)
    return [source_message(range(first, last)) for first, last in cuts]


def _cut(rows: npt.NDArray[np.int64], slots: int) -> Iterator[tuple[int, int]]:
    """Neighbours of about the same number of rows together, a few groups for each slot."""
    if not len(rows):
        return
    ends = np.cumsum(rows)
    share = int(ends[-1]) // max(1, slots * TASKS_PER_SLOT)
    share = min(max(share, _LEAST_KEYS), _MOST_KEYS)
    groups = (ends - rows) // share
    by_rows = np.flatnonzero(np.diff(groups)) + 1
    by_number = np.arange(0, len(rows), MOST_FRAGMENTS)
    yield from pairwise(np.unique(np.concatenate((by_rows, by_number, [0, len(rows)]))).tolist())


def plan_changes(
    snapshot: Snapshot,
    changed: Mapping[int, int],
    inserted: Mapping[int, int],
    slots: int,
) -> ChangeTasks:
    """Tasks that change rows of the table and insert rows of the source, of about equal size.

    ``changed`` says for each fragment with rows to change how many rows that makes to write,
    ``inserted`` for each staged file how many of its rows are inserted. Each task makes new
    fragments of its own, so there are neither many nor few. The first inserted rows go with the
    last of those that move.
    """
    targets = list(_packed(changed, _share(changed, slots, _LEAST_MOVED)))
    sources = list(_packed(inserted, _share(inserted, slots, _LEAST_INSERTED)))
    first = max(len(targets) - 1, 0)
    count = max(len(targets), first + len(sources) if sources else 0)
    snapshot.manifest.expect_lookups(len(changed))
    return ChangeTasks(
        [_message(snapshot, targets[n] if n < len(targets) else ()) for n in range(count)],
        {each: n for n, group in enumerate(targets) for each in group},
        {each: n + first for n, group in enumerate(sources) for each in group},
    )


def one_each(snapshot: Snapshot, fragments: Sequence[int]) -> ChangeTasks:
    messages = [_message(snapshot, (each,)) for each in fragments]
    return ChangeTasks(messages, {each: n for n, each in enumerate(fragments)}, {})


def in_table_order(snapshot: Snapshot, fragments: Sequence[int]) -> list[int]:
    """Ids of fragments in the order of the manifest."""
    snapshot.manifest.expect_lookups(len(fragments))
    locations = {each: snapshot.manifest.position_of(FragmentId(each)) or 0 for each in fragments}
    return sorted(fragments, key=locations.__getitem__)


def _message(snapshot: Snapshot, fragments: Sequence[int]) -> bytes:
    found = [snapshot.manifest.fragment(FragmentId(each)) for each in fragments]
    return TablePortion([each.message.SerializeToString() for each in found]).encode()


def _share(rows: Mapping[int, int], slots: int, least: int) -> int:
    return min(max(sum(rows.values()) // max(slots, 1), least), _MOST_WRITTEN)


def _packed(rows: Mapping[int, int], share: int) -> Iterator[list[int]]:
    group: list[int] = []
    held = 0
    for each, count in rows.items():
        if group and held + count > _MOST_WRITTEN:
            yield group
            group, held = [], 0
        group.append(each)
        held += count
        if held >= share or len(group) >= MOST_FRAGMENTS:
            yield group
            group, held = [], 0
    if group:
        yield group
