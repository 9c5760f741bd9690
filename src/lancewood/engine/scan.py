"""Reading rows: which fragments, which rows of them, in which tasks.

Deleted rows never leave this module. Filters are evaluated batch by batch; what comes out is in
the order of the table.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import pyarrow as pa

from lancewood.engine.fanout import Task, in_order
from lancewood.engine.fragments import open_fragment
from lancewood.engine.limits import as_list, check_number
from lancewood.engine.projection import Projection, project, system_field
from lancewood.engine.rows import RowFacts
from lancewood.engine.snapshot import Snapshot
from lancewood.errors import InvalidInputError
from lancewood.expr import Predicate, parse_predicate
from lancewood.model.fragment import Fragment
from lancewood.model.ids import FragmentId
from lancewood.model.schema import SYSTEM_COLUMNS, Schema

_MOST_ROWS = (1 << 63) - 1
_MOST_BATCH_ROWS = 1 << 20


@dataclass(frozen=True, kw_only=True)
class ScanRequest:
    """What a caller asks a scan for."""

    columns: Sequence[str] | None = None
    where: str | None = None
    limit: int | None = None
    offset: int = 0
    batch_rows: int | None = None
    with_row_id: bool = False
    with_row_address: bool = False
    fragments: Sequence[Fragment] | None = field(default=None, repr=False)
    """Only these; None means all."""


@dataclass(frozen=True)
class _Slice:
    """Rows of one fragment: live rows ``skip`` to ``skip + count`` (None: to the end)."""

    fragment: Fragment
    skip: int = 0
    count: int | None = None


@dataclass(frozen=True)
class ScanPlan:
    """A checked request against one snapshot. Making it reads no data file."""

    snapshot: Snapshot
    request: ScanRequest

    def __getstate__(self) -> dict[str, Any]:
        """Without what is worked out again elsewhere."""
        return {"snapshot": self.snapshot, "request": self.request}

    def __post_init__(self) -> None:
        _ = self.projection, self.predicate  # wrong names and filters are told now

    @cached_property
    def projection(self) -> Projection:
        return project(
            self.snapshot.schema,
            self.request.columns,
            with_row_id=self.request.with_row_id,
            with_row_address=self.request.with_row_address,
        )

    @cached_property
    def predicate(self) -> Predicate | None:
        if self.request.where is None:
            return None
        stored = self.snapshot.arrow_schema
        return parse_predicate(
            self.request.where, pa.schema([*stored, *map(system_field, SYSTEM_COLUMNS)])
        )

    @cached_property
    def schema(self) -> pa.Schema:
        """The schema of the batches."""
        return self.projection.arrow_schema()

    @cached_property
    def _filter_columns(self) -> frozenset[str]:
        return frozenset(() if self.predicate is None else self.predicate.columns)

    @cached_property
    def _stored(self) -> Schema:
        """The stored columns to read: those asked for, and whole ones for the filter."""
        asked = {each.name: each for each in self.projection.stored.fields}
        for each in self.snapshot.schema.fields:
            if each.name in self._filter_columns:
                asked[each.name] = each
        return Schema(tuple(asked.values()), self.snapshot.schema.metadata)

    @cached_property
    def _system(self) -> frozenset[str]:
        return (self._filter_columns | set(self.projection.names)) & frozenset(SYSTEM_COLUMNS)

    @cached_property
    def fragments(self) -> Sequence[Fragment]:
        chosen = self.request.fragments
        return self.snapshot.manifest.fragments if chosen is None else chosen

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows, never an empty batch."""
        limit, offset = self.request.limit, self.request.offset
        if limit == 0:
            return
        slices = self._slices()
        counted = slices is not None
        tasks: list[Task[pa.RecordBatch]] = [
            partial(self._read, each)
            for each in (slices if slices is not None else map(_Slice, self.fragments))
        ]
        skip = 0 if counted else offset
        left = None if counted else limit
        for batch in in_order(tasks, workers=_workers()):
            if skip >= batch.num_rows:
                skip -= batch.num_rows
                continue
            batch, skip = batch.slice(skip), 0
            if left is not None:
                batch = batch.slice(0, left)
                left -= batch.num_rows
            yield batch
            if left == 0:
                return

    def count(self) -> int:
        """How many rows come out; from the manifest alone where that is enough."""
        offset, limit = self.request.offset, self.request.limit
        if self.predicate is None and self._counts is not None:
            total = sum(self._counts)
        else:
            bare = ScanRequest(
                where=self.request.where, columns=(), fragments=self.request.fragments
            )
            total = sum(each.num_rows for each in ScanPlan(self.snapshot, bare).batches())
        rest = max(total - offset, 0)
        return rest if limit is None else min(rest, limit)

    def explain(self) -> str:
        """What will be read, in words. Decodes the list of fragments, opens nothing."""
        slices = self._slices()
        read = len(self.fragments) if slices is None else len(slices)
        snapshot = self.snapshot
        text = (
            f"{snapshot.place.uri} version {snapshot.manifest.version}: "
            f"{read} of {len(self.fragments)} fragments, "
            f"columns {', '.join(each.name for each in self._stored.fields) or 'none'}"
        )
        if self.request.where is not None:
            text += f", filter {self.request.where}"
        if self.request.limit is not None or self.request.offset:
            text += f", rows {self.request.offset} to "
            end = self.request.limit
            text += "the end" if end is None else str(self.request.offset + end)
        return text

    @cached_property
    def _counts(self) -> Sequence[int] | None:
        """The live rows of each fragment; None where a writer left one of them out."""
        if self.request.fragments is None:
            return self.snapshot.manifest.rows_by_fragment
        counts = [each.num_rows for each in self.request.fragments]
        known = [each for each in counts if each is not None]
        return known if len(known) == len(counts) else None

    def _slices(self) -> list[_Slice] | None:
        """The slices that limit and offset leave; None where only reading can tell."""
        limit, offset = self.request.limit, self.request.offset
        if limit is None and not offset:
            return [_Slice(each) for each in self.fragments]
        if self.predicate is not None or self._counts is None:
            return None
        slices = []
        for each, rows in zip(self.fragments, self._counts, strict=True):
            if offset >= rows:
                offset -= rows
                continue
            take = rows - offset if limit is None else min(rows - offset, limit)
            slices.append(_Slice(each, offset, take))
            offset = 0
            if limit is not None:
                limit -= take
                if limit == 0:
                    break
        return slices

    def _read(self, part: _Slice) -> Iterator[pa.RecordBatch]:
        """The rows of one slice: read, rid of deleted ones, filtered, in output order."""
        facts = RowFacts(self.snapshot, part.fragment)
        reader = open_fragment(self.snapshot, part.fragment, self._stored)
        physical = part.fragment.physical_rows or reader.physical_rows()
        start, stop = facts.physical_range(part.skip, part.count, physical)
        position = start
        for batch in reader.batches(start, stop, self.request.batch_rows):
            first, position = position, position + batch.num_rows
            yield from self._finish(batch, facts, first)

    def _finish(
        self, batch: pa.RecordBatch, facts: RowFacts, first: int
    ) -> Iterator[pa.RecordBatch]:
        live = facts.live_mask(first, batch.num_rows)
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        for name in self._system:
            columns[name] = facts.column(name, first, batch.num_rows)
        whole = _batch(columns, batch.num_rows)
        if live is not None:
            whole = whole.filter(pa.array(live))
        if self.predicate is not None and whole.num_rows:
            mask = self.predicate.mask(whole)
            if mask.false_count:
                whole = whole.filter(mask)
        if whole.num_rows:
            yield self._shape(whole)

    def _shape(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if not self.schema.names:
            return batch.select([])
        arrays = []
        for each in self.schema:
            array = batch.column(each.name)
            arrays.append(array if array.type == each.type else _narrow(array, each.type))
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def plan_scan(
    snapshot: Snapshot,
    *,
    columns: Sequence[str] | None = None,
    where: str | None = None,
    limit: int | None = None,
    offset: int = 0,
    batch_rows: int | None = None,
    with_row_id: bool = False,
    with_row_address: bool = False,
    fragment_ids: Sequence[int] | None = None,
) -> ScanPlan:
    """A plan for what a caller asks for; raises InvalidInputError or NotFoundError at once."""
    chosen = None
    if fragment_ids is not None:
        ids = [
            check_number("a fragment id", each) for each in as_list("fragment_ids", fragment_ids)
        ]
        chosen = [snapshot.manifest.fragment(FragmentId(each)) for each in ids]
    if where is not None and not isinstance(where, str):
        raise InvalidInputError(f"where takes SQL text, got {where!r}")
    request = ScanRequest(
        columns=None if columns is None else as_list("columns", columns),
        where=where,
        limit=None if limit is None else min(check_number("limit", limit), _MOST_ROWS),
        offset=min(check_number("offset", offset), _MOST_ROWS),
        batch_rows=None
        if batch_rows is None
        else min(check_number("batch_rows", batch_rows, least=1), _MOST_BATCH_ROWS),
        with_row_id=with_row_id,
        with_row_address=with_row_address,
        fragments=chosen,
    )
    return ScanPlan(snapshot, request)


def _batch(columns: dict[str, Any], rows: int) -> pa.RecordBatch:
    if columns:
        return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
    return pa.RecordBatch.from_struct_array(
        pa.StructArray.from_buffers(pa.struct([]), rows, [None])
    )


def _narrow(array: Any, wanted: pa.DataType) -> Any:
    """A struct that the filter needed whole, cut to the children that were asked for."""
    arrays = [
        _narrow(array.field(each.name), each.type)
        if array.type.field(each.name).type != each.type
        else array.field(each.name)
        for each in wanted
    ]
    return pa.StructArray.from_arrays(
        arrays, fields=list(wanted), mask=array.is_null() if array.null_count else None
    )


def _workers() -> int:
    return min(8, max(2, os.cpu_count() or 2))
