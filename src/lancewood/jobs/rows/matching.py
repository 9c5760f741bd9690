"""Rows that match a condition, and rows that move to new fragments.

A condition is checked against the schema before anything is read. It is matched by reading its own
columns in fragments that can match, where an index tells in the stretch of rows that can; other
columns are read only for matching rows.

Rows that move keep their ids and first versions. They are written to new data files, to which
nothing refers before a commit. ``engine.write.mark_deleted`` deletes them in the old place.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property, partial
from itertools import chain
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap

from lancewood.data.encodings import check_encodings
from lancewood.data.wanted import WantedColumns
from lancewood.data.writer import write_fragments
from lancewood.engine.base import Addresses, FileLimits, Task, addresses_in, in_order, offsets_of
from lancewood.engine.rows import (
    FragmentScan,
    GroupScan,
    RowFacts,
    RowShape,
    ScanPlan,
    ScanRequest,
    nameless,
    open_fragment,
    pick_rows,
)
from lancewood.engine.schema import Parameters, project
from lancewood.engine.snapshot import Snapshot
from lancewood.errors import InvalidInputError
from lancewood.expr import Predicate
from lancewood.format.schema import to_arrow_schema
from lancewood.jobs.job import AT_ONCE, pack_fragments
from lancewood.jobs.rows.blob_values import with_blob_values
from lancewood.jobs.runner import Runner
from lancewood.model.bitmap import bitmap_of, numbers_in
from lancewood.model.fragment import Fragment
from lancewood.model.ids import FragmentId
from lancewood.model.rowids import RowIdSequence, RowVersions
from lancewood.model.schema import CREATED_AT, ROW_ADDRESS, ROW_ID

_Numbers: TypeAlias = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class Matching:
    """A condition on one version of a table; tasks get it with a bare snapshot."""

    snapshot: Snapshot
    where: str | None
    """The condition; None: every row."""
    parameters: Parameters = field(default=None, repr=False)
    stretches: Mapping[FragmentId, tuple[int, int]] = field(default_factory=dict, repr=False)
    """Where in these fragments all matching rows are, from the first to before the second."""

    def __post_init__(self) -> None:
        if self.where is None:
            if self.parameters is not None and not isinstance(self.parameters, Mapping):
                raise InvalidInputError("a list of parameters is for where, which is not given")
        elif not isinstance(self.where, str):
            raise InvalidInputError(f"where takes SQL text, got {self.where!r}")
        _ = self.predicate  # raises for a wrong name or type now

    def __getstate__(self) -> dict[str, Any]:
        """Pickle without cached values."""
        return {each.name: self.__dict__[each.name] for each in fields(self)}

    @cached_property
    def predicate(self) -> Predicate | None:
        return self._plan.predicate

    @cached_property
    def _plan(self) -> ScanPlan:
        parameters = None if self.where is None else self.parameters
        request = ScanRequest(columns=(), where=self.where, parameters=parameters)
        return ScanPlan(self.snapshot, request)

    def bare(self) -> Matching:
        """This match without fragments, for tasks, to which they are sent separately."""
        where, parameters = self.where, self.parameters
        return Matching(self.snapshot.bare(), where, parameters, self._plan.stretches())

    @cached_property
    def is_every_row(self) -> bool:
        """Whether the condition reads no column and is true; raises InvalidInputError if computing
        it fails."""
        if self.predicate is None:
            return True
        return not self.predicate.columns and bool(self.predicate.mask(nameless(1))[0].as_py())

    def fragments(self) -> Iterator[Fragment]:
        """The fragments that can have a matching row, judged by the manifest and by indices."""
        return self._plan.matching()

    def offsets(self, fragment: Fragment) -> BitMap:
        """The physical offsets of the matching live rows of a fragment.

        Raises FormatError if the manifest has no row count.
        """
        fragment.check_counted()
        if self.is_every_row:
            deleted = RowFacts(self.snapshot, fragment).deleted
            return BitMap(range(fragment.physical_rows)) - deleted
        parts = [
            offsets_of(batch.column(0).to_numpy())
            for batch in self._scan_of(self._shape, fragment).batches()
        ]
        return bitmap_of(np.concatenate([np.empty(0, np.int64), *parts]))

    def count(self, runner: Runner) -> tuple[int, int]:
        """How many live rows match, and in how many fragments they are."""
        if self.is_every_row:
            rows = ScanPlan(self.snapshot, ScanRequest()).count()
            return rows, self.snapshot.manifest.fragment_count
        tasks = list(pack_fragments(self.fragments(), runner.slots))
        found = runner.run(partial(count_in, self.bare()), tasks, what="counting rows")
        counts = [each for some in found for each in some]
        return sum(counts), len(counts)

    def groups(self, fragments: Sequence[Fragment]) -> Iterator[tuple[Fragment, ...]]:
        """The fragments, in groups that are best searched together."""
        if self.is_every_row:
            return ((each,) for each in fragments)
        return self._scan.groups(fragments)

    def found(self, group: Sequence[Fragment]) -> Iterator[tuple[Fragment, BitMap, BitMap]]:
        """The fragments of a group that have matching rows, with the physical offsets of those
        rows and of rows that are deleted already."""
        read, positions = self._scan.found(group)
        assert positions is not None, "there is a condition"
        for number, locations in read.by_fragment(positions):
            yield group[number], bitmap_of(locations), read.facts(number).deleted

    def row_groups(self, fragments: Iterable[Fragment]) -> Iterator[tuple[Fragment, ...]]:
        """The fragments, in groups whose rows are best read together."""
        return self._row_scan.groups(fragments)

    def rows(self, group: Sequence[Fragment]) -> Iterator[MovingRows]:
        """The matching live rows of a group of fragments, found and read in one go.

        Raises FormatError if the manifest has no row count.
        """
        if len(group) > 1:
            yield from map(self._moving, self._row_scan.batches(group))
            return
        (fragment,) = group
        fragment.check_counted()
        for batch in self._scan_of(self._whole_rows, fragment).batches():
            yield from map(self._moving, with_blob_values(self.snapshot, fragment, batch))

    def _scan_of(self, shape: RowShape, fragment: Fragment) -> FragmentScan:
        return FragmentScan(shape, fragment, self.stretches.get(fragment.id))

    def _moving(self, batch: pa.RecordBatch) -> MovingRows:
        ids = created = None
        if self.snapshot.manifest.has_stable_row_ids:
            ids = batch.column(ROW_ID).to_numpy()
            created = batch.column(CREATED_AT).to_numpy()
        rows = batch.select(self.snapshot.schema.names)
        return MovingRows(rows, batch.column(ROW_ADDRESS).to_numpy(), ids, created)

    @cached_property
    def _shape(self) -> RowShape:
        return self._shape_of([ROW_ADDRESS])

    @cached_property
    def _scan(self) -> GroupScan:
        return GroupScan(self._shape)

    @cached_property
    def _row_scan(self) -> GroupScan:
        return GroupScan(self._whole_rows)

    @cached_property
    def _whole_rows(self) -> RowShape:
        stays = (ROW_ID, CREATED_AT) if self.snapshot.manifest.has_stable_row_ids else ()
        return self._shape_of([*self.snapshot.schema.names, ROW_ADDRESS, *stays])

    def _shape_of(self, columns: Sequence[str]) -> RowShape:
        projection = project(self.snapshot.schema, columns)
        return RowShape(snapshot=self.snapshot, projection=projection, predicate=self.predicate)


def count_in(matching: Matching, fragments: Sequence[Fragment]) -> list[int]:
    """The task: how many rows match in each fragment in which any do."""
    return list(in_order(_counting(matching, fragments), workers=AT_ONCE))


def _counting(matching: Matching, fragments: Sequence[Fragment]) -> Iterator[Task[int]]:
    for group in matching.groups(fragments):
        yield partial(_counts, matching, group)


def _counts(matching: Matching, group: Sequence[Fragment]) -> Iterator[int]:
    if len(group) > 1:
        yield from (len(offsets) for _, offsets, _ in matching.found(group))
    elif rows := len(matching.offsets(group[0])):
        yield rows


@dataclass(frozen=True, slots=True)
class MovingRows:
    """Rows with every column of the table, their addresses, ids and first versions."""

    rows: pa.RecordBatch
    addresses: Addresses
    """Addresses that the rows had before they moved."""
    ids: _Numbers | None
    """None on a table without stable row ids."""
    created_at: _Numbers | None
    """None on a table without stable row ids."""

    def part(self, start: int, rows: int) -> MovingRows:
        """A slice of the rows."""
        stop = start + rows
        return MovingRows(
            self.rows.slice(start, rows),
            self.addresses[start:stop],
            None if self.ids is None else self.ids[start:stop],
            None if self.created_at is None else self.created_at[start:stop],
        )

    def with_rows(self, rows: pa.RecordBatch) -> MovingRows:
        """The rows with other values, at their addresses and with their ids."""
        return MovingRows(rows, self.addresses, self.ids, self.created_at)


def check_movable(snapshot: Snapshot) -> None:
    """Raise UnsupportedError if whole rows of the table cannot be rewritten."""
    check_encodings(snapshot.schema, snapshot.manifest.file_version)


def whole_rows(snapshot: Snapshot) -> WantedColumns:
    """Every column of the table, for ``read_moving``."""
    return WantedColumns(snapshot.schema)


def read_moving(
    snapshot: Snapshot, fragment: Fragment, offsets: BitMap, wanted: WantedColumns | None = None
) -> Iterator[MovingRows]:
    """The rows at physical offsets of a fragment, in order, in batches of a few megabytes.

    Blob columns come with their bytes. ``snapshot`` may be bare. For many fragments, pass its
    ``whole_rows`` as ``wanted``.
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


def write_moved(
    snapshot: Snapshot, moved: Iterable[MovingRows], inserted: Iterable[pa.RecordBatch] = ()
) -> tuple[Fragment, ...]:
    """New fragments, without ids, of moved rows followed by inserted rows.

    Batches have the table's columns in any order, with exactly its types. On a table with stable
    row ids a fragment lists the ids and first versions of its moved rows, which come first; the
    commit adds those of the others. ``snapshot`` may be bare. Memory holds one batch and the ids.
    Raises InvalidInputError for a null in a column that forbids it; on any error no file is left.
    """
    arrow = to_arrow_schema(snapshot.schema).remove_metadata()
    lineage = _Lineage()
    batches = chain(lineage.noted(moved), inserted)
    limits = FileLimits()
    written = write_fragments(
        pa.RecordBatchReader.from_batches(arrow, (_as_table(each, arrow) for each in batches)),
        snapshot.schema,
        file_roots=[snapshot.default_file_root],
        file_version=snapshot.manifest.file_version,
        max_rows=limits.max_rows,
        max_bytes=limits.max_bytes,
    )
    return tuple(lineage.handed_out(written))


class _Lineage:
    """The ids and first versions of the rows of one write, in order."""

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
