"""What is asked of a diff: its rows, how many there are, single cells, and how it was found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lancewood.engine.snapshot import Snapshot
from lancewood.errors import InvalidInputError
from lancewood.files.text_forms import as_json_texts
from lancewood.jobs.counts import RowCounts
from lancewood.jobs.diff.plan import DiffPlan, DiffRequest, is_one_table, named, plan_diff
from lancewood.jobs.diff.states import Doubt
from lancewood.jobs.diff.tasks import (
    AFTER,
    BEFORE,
    CHANGE,
    COLUMNS,
    DELETED,
    INSERTED,
    KINDS,
    UPDATED,
    DiffShape,
    DiffTask,
)
from lancewood.model.schema import ROW_ID, Field

COLUMN = "column"


@dataclass(frozen=True, eq=False)
class DiffRows:
    """The rows of a diff that are asked for."""

    plan: DiffPlan
    kinds: tuple[str, ...] = KINDS
    where: str | None = None
    shown: tuple[tuple[Field, ...], tuple[Field, ...]] | None = None
    """The columns that are shown of each state, if not those of the plan; all of the plan are
    compared."""

    @classmethod
    def of(
        cls, one: Snapshot, other: Snapshot, request: DiffRequest, *, is_key_needed: bool = True
    ) -> DiffRows:
        """The diff of two states, of one table or of two, which their locations say."""
        kinds, is_one = request.kinds, is_one_table(one, other)
        plan = plan_diff(one, other, request, is_one_table=is_one, is_key_needed=is_key_needed)
        return cls(plan, kinds, request.where)

    @property
    def schema(self) -> pa.Schema:
        """What comes out."""
        return self.shape.schema

    @cached_property
    def shape(self) -> DiffShape:
        """What is asked for, without what it is asked of."""
        plan = self.plan
        before, after = (plan.before, plan.after) if self.shown is None else self.shown
        is_by_key = not plan.is_one_table or plan.key is not None
        return DiffShape(
            plan.paired, plan.columns, before, after, is_by_key, self.kinds, self.where
        )

    def check(self) -> None:
        """Raise InvalidInputError for a condition that cannot be understood."""
        _ = self.shape.predicate

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows, within a bounded memory: what was deleted, inserted, updated."""
        _ = self.shape.predicate
        for found in self.plan.comparisons():
            yield from DiffTask(self.shape, found).batches()

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
        return bool(self.shape.compared_in(doubt))

    def stat(self) -> dict[str, Any]:
        """How many rows of each kind, how many are the same, and how many cells of each column."""
        if self.where is not None:
            return self._counted()
        counts, cells = dict.fromkeys(KINDS, 0), {each.name: 0 for each in self.plan.columns}
        for found in self.plan.comparisons():
            counts[DELETED] += found.deleted.row_count
            counts[INSERTED] += found.inserted.row_count
            task = DiffTask(self.shape, found)
            for rows in task.differing() if UPDATED in self.kinds else ():
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
        """What ``stat`` says, of the rows that the condition chooses."""
        counts, cells = dict.fromkeys(KINDS, 0), dict[str, int]()
        for batch in self.batches():
            for each in batch.column(CHANGE).value_counts().to_pylist():
                counts[each["values"]] += each["counts"]
            for each in batch.column(COLUMNS).flatten().value_counts().to_pylist():
                cells[each["values"]] = cells.get(each["values"], 0) + each["counts"]
        return {**counts, "cells": cells}

    @cached_property
    def cell_schema(self) -> pa.Schema:
        """What comes out cell by cell; raises InvalidInputError for a key column of such a name."""
        taken = {COLUMN, BEFORE, AFTER}.intersection(self._key_columns)
        if taken:
            raise InvalidInputError(
                f"cells come with the columns {COLUMN}, {BEFORE} and {AFTER}, and the key has "
                f"{', '.join(sorted(taken))} of its own; read rows instead, or rename it",
                column=min(taken),
            )
        text = pa.string()
        known = self.schema.field(AFTER).type
        return pa.schema(
            [
                self.schema.field(ROW_ID),
                *(known.field(each) for each in self._key_columns),
                pa.field(COLUMN, text, nullable=False),
                pa.field(BEFORE, text),
                pa.field(AFTER, text),
            ]
        )

    def cells(self) -> Iterator[pa.RecordBatch]:
        """The cells that differ, values as JSON; asked of rows ``with_key``."""
        earlier = {each.name: each.before.name for each in self.plan.paired}
        for batch in self.batches():
            names = batch.column(COLUMNS)
            rows = names.value_parent_indices()
            shown = {
                name: (
                    as_json_texts(pc.struct_field(batch.column(BEFORE), [earlier[name]])),
                    as_json_texts(pc.struct_field(batch.column(AFTER), [name])),
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

    def with_key(self) -> DiffRows:
        """These rows with the columns of the key shown whichever others are asked for."""
        before, after = self.shape.before, self.shape.after
        key = [each for each in self.plan.paired if each.name in self._key_columns]
        old = (*before, *(each.before for each in key if each.before not in before))
        new = (*after, *(each.after for each in key if each.after not in after))
        return replace(self, shown=(old, new))

    @property
    def _key_columns(self) -> tuple[str, ...]:
        paths = () if self.plan.key is None else self.plan.key.paths
        return tuple(dict.fromkeys(path[0] for path in paths))

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
