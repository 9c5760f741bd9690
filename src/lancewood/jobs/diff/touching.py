"""Whether rows that a condition is about differ between two states of a table.

A row counts if it differs and matched before or matches after. Of rows that only one state has, the
columns of the condition are read; of others, those that may differ.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from lancewood.engine.rows import plan_scan
from lancewood.engine.snapshot import Snapshot
from lancewood.errors import InvalidInputError
from lancewood.expr import Predicate
from lancewood.jobs.diff.plan import is_one_table, plan_diff
from lancewood.jobs.diff.rows import DiffRows
from lancewood.model.schema import ROW_ID, Field


@dataclass(frozen=True)
class Touching:
    """A condition over the columns of a table."""

    where: str

    def check(self, state: Snapshot) -> None:
        """Raise InvalidInputError for a condition that cannot be asked of a state."""
        self._predicate(state)

    def _predicate(self, state: Snapshot) -> Predicate:
        found = plan_scan(state, columns=[], where=self.where).predicate
        assert found is not None, "the condition was given"
        for name in found.columns:
            if name != ROW_ID and name not in state.schema.by_name:
                raise InvalidInputError(
                    f"{name} is a fact of a version, and where is about rows of many: give columns "
                    "of the table"
                )
        return found

    def is_between(self, before: Snapshot | None, after: Snapshot | None) -> bool:
        """Whether such rows differ; None is a table that is not there. A state without the columns
        of the condition has no such row."""
        if before is None or after is None or not is_one_table(before, after):
            return any(each is not None and self._is_in(each) for each in (before, after))
        return any(self._matches(before, after))

    def _is_in(self, state: Snapshot) -> bool:
        with contextlib.suppress(InvalidInputError):
            self.check(state)
            return plan_scan(state, columns=[], where=self.where, limit=1).count() > 0
        return False

    def _matches(self, before: Snapshot, after: Snapshot) -> Iterator[bool]:
        """For each portion of the rows that differ whether some of them match."""
        sides, needed = dict[str, Predicate](), dict[str, tuple[Field, ...]]()
        for name, state in (("before", before), ("after", after)):
            needed[name] = ()
            with contextlib.suppress(InvalidInputError):
                found = sides[name] = self._predicate(state)
                columns = (each for each in state.schema.fields if each.name in found.columns)
                needed[name] = tuple(columns)
        if sides:
            plan = plan_diff(before, after)
            plan = replace(plan, before=needed["before"], after=needed["after"])
            for batch in DiffRows(plan).batches():
                for name, predicate in sides.items():
                    yield bool(pc.any(predicate.mask(_one_side(batch, name))).as_py())


def _one_side(batch: pa.RecordBatch, name: str) -> pa.RecordBatch:
    """The rows of a diff as they were before, or are after, as far as they were there."""
    rows = batch.filter(batch.column(name).is_valid())
    values = rows.column(name)
    names = [each.name for each in values.type]
    arrays = [pc.struct_field(values, [each]) for each in names]
    return pa.RecordBatch.from_arrays([rows.column(ROW_ID), *arrays], names=[ROW_ID, *names])
