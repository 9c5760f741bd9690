"""Rows that move to new fragments and stay the rows they were: ids and first versions go along.

Reads whole rows at given offsets, and writes rows into new data files. Does not know why they
move, nor what happens at their old place: see ``engine.deletions``. Nothing refers to the new files
until a commit does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap

from lancewood.data.encodings import check_encodings
from lancewood.data.wanted import WantedColumns
from lancewood.data.writer import write_fragments
from lancewood.engine.addresses import Addresses, addresses_in
from lancewood.engine.fragments import open_fragment
from lancewood.engine.limits import FileLimits
from lancewood.engine.picking import pick_rows
from lancewood.engine.rows import RowFacts
from lancewood.engine.snapshot import Snapshot
from lancewood.format.arrow import to_arrow_schema
from lancewood.jobs.rows.blob_values import with_blob_values
from lancewood.model.bitmap import numbers_in
from lancewood.model.fragment import Fragment
from lancewood.model.rowids import RowIdSequence, RowVersions
from lancewood.model.schema import CREATED_AT, ROW_ID

_Numbers: TypeAlias = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class MovingRows:
    """Some rows, with every column of the table, and what stays the same about each of them."""

    rows: pa.RecordBatch
    addresses: Addresses
    """Where they were."""
    ids: _Numbers | None
    """Their stable row ids; None on a table without them."""
    created_at: _Numbers | None
    """The versions that made them; None on a table without stable row ids."""

    def part(self, start: int, rows: int) -> MovingRows:
        """Some of them."""
        stop = start + rows
        return MovingRows(
            self.rows.slice(start, rows),
            self.addresses[start:stop],
            None if self.ids is None else self.ids[start:stop],
            None if self.created_at is None else self.created_at[start:stop],
        )

    def with_rows(self, rows: pa.RecordBatch) -> MovingRows:
        """The same rows with other values."""
        return MovingRows(rows, self.addresses, self.ids, self.created_at)


def check_movable(snapshot: Snapshot) -> None:
    """Raise UnsupportedError where whole rows of the table cannot be written again."""
    check_encodings(snapshot.schema, snapshot.manifest.file_version)


def read_moving(
    snapshot: Snapshot,
    fragment: Fragment,
    offsets: BitMap,
    wanted: WantedColumns | None = None,
) -> Iterator[MovingRows]:
    """The rows at physical offsets of a fragment, in order, in batches of a few megabytes.

    ``snapshot`` may be bare. ``wanted`` is ``whole_rows`` of it, from a caller with many fragments.
    Of blob columns the bytes come.
    """
    if not offsets:
        return
    wanted = whole_rows(snapshot) if wanted is None else wanted
    facts = RowFacts(snapshot, fragment)
    asked = numbers_in(offsets)
    at = 0
    for batch in pick_rows(open_fragment(snapshot, fragment, wanted), wanted, asked):
        for rows in with_blob_values(snapshot, fragment, batch):
            here = asked[at : at + rows.num_rows]
            at += rows.num_rows
            ids = created = None
            if snapshot.manifest.has_stable_row_ids:
                ids = facts.column_at(ROW_ID, here).to_numpy()
                created = facts.column_at(CREATED_AT, here).to_numpy()
            yield MovingRows(rows, addresses_in(fragment.id, here), ids, created)


def whole_rows(snapshot: Snapshot) -> WantedColumns:
    """Every column of the table, for ``read_moving``."""
    return WantedColumns(snapshot.schema)


def write_moved(
    snapshot: Snapshot, moved: Iterable[MovingRows], inserted: Iterable[pa.RecordBatch] = ()
) -> tuple[Fragment, ...]:
    """New fragments, without ids, of rows that moved and then of rows that are new.

    Batches have the table's columns in any order, of exactly its types. On a table with stable row
    ids a fragment lists the ids and first versions of the rows that moved into it, which come
    first; the commit adds those of the others. ``snapshot`` may be bare. Nothing is held but one
    batch and the ids. Raises InvalidInputError for a null where none is allowed; on any error no
    file is left.
    """
    arrow = to_arrow_schema(snapshot.schema).remove_metadata()
    lineage = _Lineage()
    batches = chain(lineage.noted(moved), inserted)
    limits = FileLimits()
    written = write_fragments(
        pa.RecordBatchReader.from_batches(arrow, (_as_table(each, arrow) for each in batches)),
        snapshot.schema,
        homes=[snapshot.data_home],
        file_version=snapshot.manifest.file_version,
        max_rows=limits.max_rows,
        max_bytes=limits.max_bytes,
    )
    return tuple(lineage.handed_out(written))


class _Lineage:
    """What stays the same about the rows of one write, in their order."""

    def __init__(self) -> None:
        self._ids: list[RowIdSequence] = []
        self._created: list[RowVersions] = []

    def noted(self, moved: Iterable[MovingRows]) -> Iterator[pa.RecordBatch]:
        for each in moved:
            if each.ids is not None and each.created_at is not None:
                self._ids.append(RowIdSequence.from_values(each.ids))
                self._created.append(RowVersions.from_values(each.created_at))
            yield each.rows

    def handed_out(self, fragments: Iterable[Fragment]) -> Iterator[Fragment]:
        ids, created = RowIdSequence.concat(self._ids), RowVersions.concat(self._created)
        start = 0
        for each in fragments:
            stop = min(start + each.physical_rows, len(ids))
            if stop > start:
                each = each.with_lineage(ids.slice(start, stop), created.slice(start, stop), None)
            start = stop
            yield each


def _as_table(batch: pa.RecordBatch, arrow: pa.Schema) -> pa.RecordBatch:
    columns = [batch.column(each.name) for each in arrow]
    return pa.RecordBatch.from_arrays(columns, schema=arrow)
