"""Rows that got other values in place without a mark, because a writer rewrote columns.

pylance does not mark rows when columns of a fragment are updated by hand and committed as an
Update. The files of the fragments show that columns were rewritten; which rows changed is known
from the transactions, or else from the values: those columns are read at both versions side by
side, some megabytes at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import pyarrow as pa

from lancewood.data.differing import Mask, differing
from lancewood.data.reader import in_step
from lancewood.data.wanted import WantedColumns
from lancewood.engine.base import WORKERS, in_order
from lancewood.engine.rows import Ids, Ints, LiveRows, open_fragment, pick_rows
from lancewood.engine.schema import find_earlier
from lancewood.engine.snapshot import Descent, Snapshot
from lancewood.jobs.diff.change_marks import moved_fields
from lancewood.model.fragment import Fragment
from lancewood.model.ids import FieldId, FragmentId, Version
from lancewood.model.schema import Field, Schema
from lancewood.model.transaction import (
    DataOverlay,
    MissingTransaction,
    Operation,
    Overwrite,
    Restore,
    UnknownOperation,
    Update,
)
from lancewood.rules.moves import moves_files

_MOST_VERSIONS = 256
"""If the versions are further apart, values are compared without reading the transactions in
between."""
_SAY_NOTHING = (DataOverlay, MissingTransaction, Overwrite, Restore, UnknownOperation)
"""Operations after which any fragment may have other columns."""


@dataclass
class Unmarked:
    """Columns that were rewritten between two versions without marking rows."""

    since: Snapshot
    until: Snapshot

    def is_in(self, number: FragmentId) -> bool:
        """Whether a version is known to have rewritten columns of a fragment without saying in
        which rows."""
        return self._fragments is not None and number in self._fragments

    def may_be_in(self, number: FragmentId) -> bool:
        """Whether a version may have rewritten columns of a fragment and not said in which rows."""
        return self._fragments is None or number in self._fragments

    def rows(
        self,
        then: Sequence[Fragment],
        now: Sequence[Fragment],
        doubtful: LiveRows,
        fields: frozenset[FieldId],
    ) -> tuple[Ids, Ints]:
        """Of rows that stayed in place, given as stretches of ``until``, those with other values in
        the fields, as stretches by id. ``then`` and ``now`` are the fragments of both sides.

        Blobs are not read for this: if their column was rewritten, all rows count as changed.
        """
        if not len(doubtful.firsts):
            return doubtful.firsts, doubtful.counts
        before = {each.id: each for each in then}

        def differ(at: int, offsets: Ints) -> Iterator[tuple[int, Ints]]:
            mask = self._differ(before[now[at].id], now[at], offsets, fields)
            yield at, offsets[mask]

        tasks = (partial(differ, at, offsets) for at, offsets in doubtful.by_fragment())
        return _stretches(doubtful, in_order(tasks, workers=WORKERS))

    def _differ(
        self, then: Fragment, now: Fragment, offsets: Ints, fields: frozenset[FieldId]
    ) -> Mask:
        written = moved_fields(then, now, fields)
        columns = [
            each
            for each in self.until.schema.fields
            if each.name in self._earlier and any(part.id in written for part in each.walk())
        ]
        if any(part.is_blob for each in columns for part in each.walk()):
            return np.ones(len(offsets), np.bool_)
        if not columns:
            return np.zeros(len(offsets), np.bool_)
        earlier = [self._earlier[each.name] for each in columns]
        batches = in_step(
            [
                _read(self.since, then, earlier, offsets),
                _read(self.until, now, columns, offsets),
            ]
        )
        return np.concatenate([_any_differs(old, new) for old, new in batches])

    @cached_property
    def _earlier(self) -> Mapping[str, Field]:
        """The columns that both versions have, by their later names, as the earlier one reads them.
        An id reused after a column was dropped does not count as a common column."""
        columns = self.until.schema
        found = find_earlier(self.since, self.until, columns)
        return {name: each for name, each in found.items() if each.id == columns.by_name[name].id}

    @cached_property
    def _fragments(self) -> frozenset[FragmentId] | None:
        """Fragments of which a version in between rewrote columns without saying in which rows;
        None if unknown."""
        first, last = self.since.manifest.version + 1, self.until.manifest.version
        if last - first >= _MOST_VERSIONS:
            return None
        descent = Descent(self.until)

        def look(version: Version) -> Iterator[frozenset[FragmentId] | None]:
            for operation in descent.transaction(version).operations:
                yield _rewritten(operation)

        found = set[FragmentId]()
        tasks = (partial(look, Version(each)) for each in range(first, last + 1))
        for each in in_order(tasks, workers=WORKERS):
            if each is None:
                return None
            found |= each
        return frozenset(found)


def _rewritten(operation: Operation) -> frozenset[FragmentId] | None:
    if isinstance(operation, _SAY_NOTHING):
        return None
    if not isinstance(operation, Update) or moves_files(operation):
        return frozenset()
    images = (each.id for each in operation.updated_fragments)
    return frozenset(each for each in images if each not in operation.updated_offsets)


def _read(
    snapshot: Snapshot, fragment: Fragment, columns: Sequence[Field], offsets: Ints
) -> Iterator[pa.RecordBatch]:
    wanted = WantedColumns(Schema(tuple(columns)))
    return pick_rows(open_fragment(snapshot, fragment, wanted), wanted, offsets)


def _any_differs(old: pa.RecordBatch, new: pa.RecordBatch) -> Mask:
    found = np.zeros(new.num_rows, np.bool_)
    for one, other in zip(old.columns, new.columns, strict=True):
        found |= differing(one, other)
    return found


def _stretches(rows: LiveRows, chosen: Iterator[tuple[int, Ints]]) -> tuple[Ids, Ints]:
    """Chosen offsets of fragments, by position, as stretches of adjacent rows."""
    order = np.lexsort((rows.offsets, rows.fragments))
    owners, starts, firsts = rows.fragments[order], rows.offsets[order], rows.firsts[order]
    found = [(np.empty(0, np.uint64), np.empty(0, np.int64))]
    for number, offsets in chosen:
        if not len(offsets):
            continue
        low, high = np.searchsorted(owners, (number, number + 1))
        at = low + np.searchsorted(starts[low:high], offsets, side="right") - 1
        is_first = np.ones(len(offsets), np.bool_)
        is_first[1:] = (np.diff(offsets) != 1) | (np.diff(at) != 0)
        heads = np.flatnonzero(is_first)
        ids = firsts[at[heads]] + (offsets[heads] - starts[at[heads]]).astype(np.uint64)
        found.append((ids, np.diff(np.append(heads, len(offsets)))))
    ids, counts = (np.concatenate(each) for each in zip(*found, strict=True))
    return ids, counts
