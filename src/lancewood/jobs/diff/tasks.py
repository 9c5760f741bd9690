"""The rows of a diff as Arrow batches: what became of each, and both of its states side by side.

``DiffTask`` makes them of a comparison, or of a portion of one: here of the whole, on Spark of what
a task was sent. A condition is asked about what comes out: ``before.price``, ``after.price``,
``_change``. A bare ``price`` is that of the later state, or for a deleted row that of the earlier
one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lancewood.engine.base import WORKERS, in_order
from lancewood.engine.rows import LiveRows
from lancewood.expr import Predicate, parse_predicate
from lancewood.format.schema import to_scan_schema
from lancewood.jobs.diff.columns import ColumnPair
from lancewood.jobs.diff.states import Comparison, Doubt, Places, State
from lancewood.jobs.diff.values import (
    DifferingRows,
    RowReader,
    cast_or_null,
    differing_rows,
    portions,
)
from lancewood.model.schema import ROW_ID, Field, Schema

CHANGE, COLUMNS, BEFORE, AFTER = "_change", "_columns", "before", "after"
DELETED, INSERTED, UPDATED = "deleted", "inserted", "updated"
KINDS = (DELETED, INSERTED, UPDATED)
"""In the order in which they come."""


@dataclass(frozen=True)
class DiffShape:
    """Which rows are asked for, and which columns are compared and shown. Pickles."""

    paired: tuple[ColumnPair, ...]
    """All columns that both states have."""
    columns: tuple[ColumnPair, ...]
    """The columns that are compared."""
    before: tuple[Field, ...]
    """The columns that are shown of the earlier state."""
    after: tuple[Field, ...]
    is_by_key: bool
    """Whether two rows may be the same by their key alone, and have other ids."""
    kinds: tuple[str, ...] = KINDS
    where: str | None = None

    @cached_property
    def schema(self) -> pa.Schema:
        """What comes out."""
        return pa.schema(
            [
                pa.field(CHANGE, pa.string(), nullable=False),
                pa.field(ROW_ID, pa.uint64()),
                pa.field(COLUMNS, pa.list_(pa.string())),
                pa.field(BEFORE, _struct(self.before)),
                pa.field(AFTER, _struct(self.after)),
            ]
        )

    @cached_property
    def predicate(self) -> Predicate | None:
        """The condition; raises InvalidInputError if it cannot be understood."""
        if self.where is None:
            return None
        bare = [pa.field(name, kind) for name, (kind, *_) in self._bare.items()]
        return parse_predicate(self.where, pa.schema([*self.schema, *bare]))

    def compared_in(self, doubt: Doubt) -> tuple[ColumnPair, ...]:
        """The columns that are compared, of those in which rows may differ."""
        return tuple(each for each in doubt.columns if each in self.columns)

    def kept(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of a batch for which the condition holds."""
        if self.predicate is None:
            return batch
        needed = set(self.predicate.columns)
        arrays, names = list(batch.columns), list(batch.schema.names)
        for name, (_, *of) in self._bare.items():
            if name in needed:
                arrays.append(of[0](batch))
                names.append(name)
        return batch.filter(self.predicate.mask(pa.RecordBatch.from_arrays(arrays, names=names)))

    @cached_property
    def _bare(self) -> Mapping[str, tuple[pa.DataType, Callable[[pa.RecordBatch], Any]]]:
        """Columns by their names alone: their types, and how they come out of a batch."""
        earlier = {each.name: each.before.name for each in self.paired}
        old, new = self.schema.field(BEFORE).type, self.schema.field(AFTER).type
        found = dict[str, tuple[pa.DataType, Callable[[pa.RecordBatch], Any]]]()
        for each in old:
            found[each.name] = each.type, partial(_bare, None, each.name)
        for each in new:
            before = earlier.get(each.name)
            is_shown = before is not None and old.get_field_index(before) >= 0
            found[each.name] = each.type, partial(_bare, each.name, before if is_shown else None)
        return {name: each for name, each in found.items() if name not in self.schema.names}


@dataclass(frozen=True, eq=False)
class DiffTask:
    """The rows of a comparison, or of a portion of one."""

    shape: DiffShape
    found: Comparison

    def batches(self, workers: int = WORKERS) -> Iterator[pa.RecordBatch]:
        """The rows, within a bounded memory: what was deleted, inserted, updated."""
        made: dict[str, Callable[[int], Iterator[pa.RecordBatch]]] = {
            DELETED: partial(self._alone, self.found.before, self.found.deleted, DELETED),
            INSERTED: partial(self._alone, self.found.after, self.found.inserted, INSERTED),
            UPDATED: self._updated,
        }
        for kind in self.shape.kinds:
            for batch in made[kind](workers):
                chosen = self.shape.kept(batch)
                if chosen.num_rows:
                    yield chosen

    def differing(self, workers: int = WORKERS) -> Iterator[DifferingRows]:
        """The updated rows, by place, with the cells that differ."""
        for doubt in self.found.doubts:
            yield from differing_rows(self.found, doubt, self.shape.columns, workers)

    def _alone(
        self, state: State, rows: LiveRows, kind: str, workers: int
    ) -> Iterator[pa.RecordBatch]:
        """Rows that only one state has."""
        is_new = kind == INSERTED
        fields = self.shape.after if is_new else self.shape.before
        reader = RowReader(state, fields)

        def read(places: Places) -> Iterator[pa.RecordBatch]:
            count = len(places.parts)
            values = _as_struct(reader.at(places), fields, count)
            none = pa.nulls(count, self.shape.schema.field(BEFORE if is_new else AFTER).type)
            yield self._batch(
                kind,
                pa.array(state.row_ids(places)),
                pa.nulls(count, pa.list_(pa.string())),
                none if is_new else values,
                values if is_new else none,
            )

        tasks = (partial(read, *each) for each in portions(state.portion_rows(fields), rows))
        return in_order(tasks, workers=workers)

    def _updated(self, workers: int) -> Iterator[pa.RecordBatch]:
        before, after = self.found.before, self.found.after
        sides = _Rest(before, self.shape.before), _Rest(after, self.shape.after)
        for rows in self.differing(workers):
            places = rows.before, rows.after
            old, new = (
                _as_struct(side.added(read, at), side.fields, len(rows))
                for side, read, at in zip(sides, rows.read, places, strict=True)
            )
            ids = after.row_ids(rows.after)
            is_other = ids != before.row_ids(rows.before) if self.shape.is_by_key else None
            yield self._batch(UPDATED, pa.array(ids, mask=is_other), _names(rows), old, new)

    def _batch(self, kind: str, *columns: pa.Array) -> pa.RecordBatch:
        said = pa.repeat(pa.scalar(kind, pa.string()), len(columns[0]))
        return pa.RecordBatch.from_arrays([said, *columns], schema=self.shape.schema)


class _Rest:
    """Columns of rows that are shown, and that were not read to compare the rows."""

    def __init__(self, state: State, fields: Sequence[Field]) -> None:
        self._state, self.fields = state, fields

    def added(self, read: Mapping[str, pa.Array], places: Places) -> Mapping[str, pa.Array]:
        missing = [each for each in self.fields if each.name not in read]
        if not missing:
            return read
        return {**read, **RowReader(self._state, missing).at(places)}


def _bare(after: str | None, before: str | None, batch: pa.RecordBatch) -> Any:
    """A column of the later state, or for rows that were deleted that of the earlier one, in the
    later type: null where it does not fit. All rows of a batch are of one kind."""
    sides = [(BEFORE, before), (AFTER, after)]
    found = [pc.struct_field(batch.column(side), [name]) for side, name in sides if name]
    if len(found) == 1 or batch.column(CHANGE)[0].as_py() != DELETED:
        return found[-1]
    return cast_or_null(found[0], found[-1].type)


def _struct(fields: Sequence[Field]) -> pa.DataType:
    known = to_scan_schema(Schema(tuple(fields)))
    return pa.struct([each.with_nullable(True) for each in known])


def _as_struct(columns: Mapping[str, pa.Array], fields: Sequence[Field], count: int) -> pa.Array:
    kind = _struct(fields)
    if not fields:
        return pa.array([{}] * count, kind)
    return pa.StructArray.from_arrays([columns[each.name] for each in kind], fields=list(kind))


def _names(rows: DifferingRows) -> pa.Array:
    """The names of the cells that differ, row by row."""
    names = pa.array([each.name for each in rows.columns], pa.string())
    _, at = np.nonzero(rows.cells)
    counts = rows.cells.sum(axis=1)
    offsets = np.concatenate(([0], np.cumsum(counts))).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), names.take(pa.array(at)))
