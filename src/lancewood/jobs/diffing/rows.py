"""The rows of a diff as Arrow batches: what became of each, and both of its states side by side.

A condition is asked about what comes out: ``before.price``, ``after.price``, ``_change``. A bare
``price`` is that of the later state, or for a deleted row that of the earlier one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lancewood.engine.base import WORKERS, in_order
from lancewood.engine.comparing import (
    Comparison,
    DifferingRows,
    Doubt,
    Places,
    RowReader,
    State,
    differing_rows,
    portions,
)
from lancewood.engine.rows import LiveRows
from lancewood.errors import InvalidInputError
from lancewood.expr import Predicate, parse_predicate
from lancewood.files.json_text import json_text
from lancewood.files.text_forms import to_plain
from lancewood.format.arrow import to_scan_schema
from lancewood.jobs.counts import RowCounts
from lancewood.jobs.diffing.plan import DiffPlan, named
from lancewood.model.schema import ROW_ID, Field, Schema

CHANGE, COLUMNS, BEFORE, AFTER = "_change", "_columns", "before", "after"
DELETED, INSERTED, UPDATED = "deleted", "inserted", "updated"
KINDS = (DELETED, INSERTED, UPDATED)
"""In the order in which they come."""


@dataclass(frozen=True, eq=False)
class DiffRows:
    """The rows of a diff that are asked for."""

    plan: DiffPlan
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
                pa.field(BEFORE, _struct(self.plan.before)),
                pa.field(AFTER, _struct(self.plan.after)),
            ]
        )

    def check(self) -> None:
        """Raise InvalidInputError for a condition that cannot be understood."""
        _ = self.predicate

    @cached_property
    def predicate(self) -> Predicate | None:
        """The condition; raises InvalidInputError if it cannot be understood."""
        if self.where is None:
            return None
        bare = [pa.field(name, kind) for name, (kind, *_) in self._bare.items()]
        return parse_predicate(self.where, pa.schema([*self.schema, *bare]))

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows, within a bounded memory: what was deleted, inserted, updated."""
        predicate = self.predicate
        for found in self.plan.comparisons():
            for batch in self._batches(found):
                chosen = batch if predicate is None else self._kept(batch, predicate)
                if chosen.num_rows:
                    yield chosen

    def _batches(self, found: Comparison) -> Iterator[pa.RecordBatch]:
        made: dict[str, Callable[[], Iterator[pa.RecordBatch]]] = {
            DELETED: partial(self._alone, found.before, found.deleted, DELETED),
            INSERTED: partial(self._alone, found.after, found.inserted, INSERTED),
            UPDATED: partial(self._updated, found),
        }
        for kind in self.kinds:
            yield from made[kind]()

    def most(self) -> RowCounts:
        """How many rows differ at most, as far as it is known without values."""
        counts = dict.fromkeys(KINDS, 0)
        for found in self.plan.comparisons():
            counts[DELETED] += found.deleted.row_count
            counts[INSERTED] += found.inserted.row_count
            counts[UPDATED] += sum(
                each.after.row_count for each in found.doubts if self._concerns(each)
            )
        return RowCounts(**{kind: counts[kind] for kind in self.kinds})

    def _concerns(self, doubt: Doubt) -> bool:
        return any(each in self.plan.columns for each in doubt.columns)

    def stat(self) -> dict[str, Any]:
        """How many rows of each kind, how many are the same, and how many cells of each column."""
        if self.where is not None:
            return self._counted()
        counts, cells = dict.fromkeys(KINDS, 0), {each.name: 0 for each in self.plan.columns}
        for found in self.plan.comparisons():
            counts[DELETED] += found.deleted.row_count
            counts[INSERTED] += found.inserted.row_count
            for rows in self._differing(found) if UPDATED in self.kinds else ():
                counts[UPDATED] += len(rows)
                for column, number in zip(rows.columns, rows.cells.sum(axis=0), strict=True):
                    cells[column.name] += int(number)
        total = self.plan.other.manifest.row_count
        is_known = self.kinds == KINDS and total is not None
        same = (total or 0) - counts[INSERTED] - counts[UPDATED] if is_known else None
        return {
            **{kind: counts[kind] for kind in self.kinds},
            "unchanged": same,
            "cells": {name: number for name, number in cells.items() if number},
        }

    def _counted(self) -> dict[str, Any]:
        """The same for rows that a condition chooses."""
        counts, cells = dict.fromkeys(KINDS, 0), dict[str, int]()
        for batch in self.batches():
            for each in batch.column(CHANGE).value_counts().to_pylist():
                counts[each["values"]] += each["counts"]
            for each in batch.column(COLUMNS).flatten().value_counts().to_pylist():
                cells[each["values"]] = cells.get(each["values"], 0) + each["counts"]
        return {**counts, "cells": cells}

    @cached_property
    def cell_schema(self) -> pa.Schema:
        """What comes out cell by cell."""
        text = pa.string()
        known = self.schema.field(AFTER).type
        return pa.schema(
            [
                self.schema.field(ROW_ID),
                *(known.field(each) for each in self._key_columns),
                pa.field("column", text, nullable=False),
                pa.field(BEFORE, text),
                pa.field(AFTER, text),
            ]
        )

    def cells(self) -> Iterator[pa.RecordBatch]:
        """The cells that differ, values as JSON."""
        earlier = {each.name: each.before.name for each in self.plan.paired}
        for batch in self.batches():
            names = batch.column(COLUMNS)
            rows = names.value_parent_indices()
            shown = {
                name: (
                    _as_json(pc.struct_field(batch.column(BEFORE), [earlier[name]])),
                    _as_json(pc.struct_field(batch.column(AFTER), [name])),
                )
                for name in names.flatten().unique().to_pylist()
            }
            pairs = [
                (shown[name][0][row], shown[name][1][row])
                for row, name in zip(rows.to_pylist(), names.flatten().to_pylist(), strict=True)
            ]
            yield pa.RecordBatch.from_arrays(
                [
                    batch.column(ROW_ID).take(rows),
                    *(
                        pc.struct_field(batch.column(AFTER), [each]).take(rows)
                        for each in self._key_columns
                    ),
                    names.flatten(),
                    pa.array([before for before, _ in pairs], pa.string()),
                    pa.array([after for _, after in pairs], pa.string()),
                ],
                schema=self.cell_schema,
            )

    @property
    def _key_columns(self) -> tuple[str, ...]:
        """The columns of the key, as far as they are shown."""
        shown = {each.name for each in self.plan.after}
        paths = () if self.plan.key is None else self.plan.key.paths
        return tuple(dict.fromkeys(path[0] for path in paths if path[0] in shown))

    def explain(self) -> str:
        """How the states are compared, and what will be read."""
        plan, most = self.plan, self.most()
        doubtful = Counter[str]()
        for found in plan.comparisons():
            left = len(found.before.parts), len(found.after.parts)
            for doubt in filter(self._concerns, found.doubts):
                names = ", ".join(each.name for each in doubt.columns if each in plan.columns)
                doubtful[names] += doubt.after.row_count
        if plan.common is not None:
            kin = f"both come from {named(plan.common)}"
        elif plan.kind != "changed":
            kin = f"the table is {plan.kind}, with all of its rows"
        elif plan.is_one_table:
            kin = (
                "no version is known that both come from: rows are the same in the same files only"
            )
        else:
            kin = "two tables: rows are the same by their keys only"
        same = plan.one.manifest.fragment_count - left[0]
        lines = [
            f"from {plan.names[0]} to {plan.names[1]}",
            kin,
            f"fragments: {same:,} are the same; {left[0]:,} and {left[1]:,} others are compared",
            f"rows: {most.deleted:,} deleted, {most.inserted:,} inserted, {most.updated:,} to be "
            "compared by value",
        ]
        lines += [f"  in {names}: {rows:,}" for names, rows in doubtful.items()]
        if plan.key is not None:
            lines.append(f"key: {', '.join(plan.key.names)}, for rows that only one side has")
        return "\n".join(lines)

    def _differing(self, found: Comparison) -> Iterator[DifferingRows]:
        """The updated rows, by place, with the cells that differ."""
        for doubt in found.doubts:
            yield from differing_rows(found, doubt, self.plan.columns)

    def _alone(self, state: State, rows: LiveRows, kind: str) -> Iterator[pa.RecordBatch]:
        """Rows that only one state has."""
        is_new = kind == INSERTED
        fields = self.plan.after if is_new else self.plan.before
        reader = RowReader(state, fields)

        def read(places: Places) -> Iterator[pa.RecordBatch]:
            count = len(places.parts)
            values = _as_struct(reader.at(places), fields, count)
            none = pa.nulls(count, self.schema.field(BEFORE if is_new else AFTER).type)
            yield self._batch(
                kind,
                _row_ids(state, places),
                pa.nulls(count, pa.list_(pa.string())),
                none if is_new else values,
                values if is_new else none,
            )

        tasks = (partial(read, *each) for each in portions(state.portion_rows(fields), rows))
        return in_order(tasks, workers=WORKERS)

    def _updated(self, found: Comparison) -> Iterator[pa.RecordBatch]:
        rest = _Rest(found.before, self.plan.before), _Rest(found.after, self.plan.after)
        for rows in self._differing(found):
            before, after = (
                _as_struct(side.added(read, places), side.fields, len(rows))
                for side, read, places in zip(
                    rest, rows.read, (rows.before, rows.after), strict=True
                )
            )
            ids = _row_ids(found.after, rows.after)
            if not self.plan.is_one_table or self.plan.key is not None:
                same = pc.equal(ids, _row_ids(found.before, rows.before))
                ids = pc.if_else(same, ids, pa.scalar(None, pa.uint64()))
            yield self._batch(UPDATED, ids, _names(rows), before, after)

    def _batch(self, kind: str, *columns: pa.Array) -> pa.RecordBatch:
        said = pa.repeat(pa.scalar(kind, pa.string()), len(columns[0]))
        return pa.RecordBatch.from_arrays([said, *columns], schema=self.schema)

    def _kept(self, batch: pa.RecordBatch, predicate: Predicate) -> pa.RecordBatch:
        needed = set(predicate.columns)
        arrays, names = list(batch.columns), list(batch.schema.names)
        for name, (_, *of) in self._bare.items():
            if name in needed:
                arrays.append(of[0](batch))
                names.append(name)
        return batch.filter(predicate.mask(pa.RecordBatch.from_arrays(arrays, names=names)))

    @cached_property
    def _bare(self) -> Mapping[str, tuple[pa.DataType, Callable[[pa.RecordBatch], Any]]]:
        """Columns by their names alone: their types, and how they come out of a batch."""
        earlier = {each.name: each.before.name for each in self.plan.paired}
        old, new = self.schema.field(BEFORE).type, self.schema.field(AFTER).type
        found = dict[str, tuple[pa.DataType, Callable[[pa.RecordBatch], Any]]]()
        for each in old:
            found[each.name] = each.type, partial(_bare, None, each.name)
        for each in new:
            before = earlier.get(each.name)
            is_alike = before is not None and old.get_field_index(before) >= 0
            is_alike = is_alike and old.field(before).type == each.type
            found[each.name] = each.type, partial(_bare, each.name, before if is_alike else None)
        return {name: each for name, each in found.items() if name not in self.schema.names}


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
    sides = [(BEFORE, before), (AFTER, after)]
    found = [pc.struct_field(batch.column(side), [name]) for side, name in sides if name]
    if len(found) == 1:
        return found[0]
    return pc.if_else(pc.equal(batch.column(CHANGE), DELETED), *found)


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


def _as_json(values: Any) -> list[str | None]:
    return [None if each is None else json_text(each) for each in to_plain(values).to_pylist()]


def _row_ids(state: State, places: Places) -> pa.Array:
    """The ids of rows, stable or not, in the order of their places."""
    found = np.empty(len(places.parts), np.uint64)
    for number, here in places.by_part():
        facts = state.parts[number].facts
        found[here] = facts.column_at(ROW_ID, places.offsets[here]).to_numpy()
    return pa.array(found)


def check_kinds(change: str | Sequence[str] | None) -> tuple[str, ...]:
    """The kinds of change that are asked for; raises InvalidInputError for any other."""
    asked = KINDS if change is None else (change,) if isinstance(change, str) else tuple(change)
    for each in asked:
        if each not in KINDS:
            raise InvalidInputError(f"change takes {', '.join(KINDS)}, got {each!r}")
    return tuple(each for each in KINDS if each in asked)
