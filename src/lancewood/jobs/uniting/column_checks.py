"""What only rows tell about merged columns: whether a dropped one was changed on the other side,
and whether rows of one side have nulls that the other side forbids.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lancewood.engine.comparing import (
    ColumnPair,
    Comparing,
    Comparison,
    RowReader,
    differing_rows,
    portions,
)
from lancewood.engine.snapshot import Snapshot
from lancewood.errors import MergeConflictError
from lancewood.jobs.uniting.columns import UnitedColumns, unite_columns
from lancewood.jobs.uniting.compared import comparing
from lancewood.jobs.uniting.resolving import ColumnChoice, Resolve
from lancewood.model.schema import Field
from lancewood.rules.uniting_columns import LostColumn, SchemaConflict, UnitedColumn

_DROPPED = "dropped"


def checked_columns(
    base: Snapshot, ours: Snapshot, theirs: Snapshot, resolve: Resolve
) -> UnitedColumns:
    """The merged columns; raises MergeConflictError with all that do not go together."""
    found = unite_columns(base, ours, theirs, resolve.schema)
    sides = {"ours": _Side(base, ours), "theirs": _Side(base, theirs)}
    conflicts, kept = list(found.conflicts), list[str]()
    for each in found.lost:
        holder = "ours" if each.dropped_by == "theirs" else "theirs"
        if not sides[holder].has_changed(each):
            continue
        if each.is_kept:
            kept.append(each.name)
        else:
            texts = {each.dropped_by: _DROPPED, holder: "cells changed"}
            conflicts.append(SchemaConflict(each.name, "column", **texts))
    for column in found.columns:
        for holder in _unchecked(column):
            side = column.ours if holder == "ours" else column.theirs
            if sides[holder].has_null(side, column.field):
                texts = {holder: "has nulls", _other(holder): "forbids nulls"}
                conflicts.append(SchemaConflict(column.field.name, "null", **texts))
    if conflicts:
        raise _refusal(conflicts)
    if kept:
        decisions = _by_column(resolve)
        for name in kept:
            decisions[name] = "keep"
        return checked_columns(base, ours, theirs, replace(resolve, schema=decisions))
    return found


def _unchecked(column: UnitedColumn) -> Iterator[str]:
    """The sides whose rows may have nulls that the merged column forbids."""
    for name, side in (("ours", column.ours), ("theirs", column.theirs)):
        is_tightened = column.tightened_by in (_other(name), "both")
        if is_tightened or (not column.field.nullable and (side is None or side.nullable)):
            yield name


def _other(side: str) -> str:
    return "theirs" if side == "ours" else "ours"


def _by_column(resolve: Resolve) -> dict[str, ColumnChoice]:
    """What is decided about columns, one by one."""
    if isinstance(resolve.schema, str):
        return {"*": resolve.schema}
    return {} if resolve.schema is None else {**resolve.schema}


def _refusal(conflicts: Sequence[SchemaConflict]) -> MergeConflictError:
    told = "; ".join(
        f"{each.kind if not each.column else f'column {each.column!r}'}: {each.ours} here, "
        f"{each.theirs} there"
        for each in conflicts
    )
    return MergeConflictError(
        f"both sides changed the columns: {told}. Resolve(schema=) decides that, and nothing has "
        "changed",
        schema=[(each.column, each.kind, each.ours, each.theirs) for each in conflicts],
    )


@dataclass(frozen=True, eq=False)
class _Side:
    """What one side did to the rows of the base."""

    base: Snapshot
    state: Snapshot

    @cached_property
    def _comparing(self) -> Comparing:
        return comparing(self.base, self.state)

    def has_changed(self, lost: LostColumn) -> bool:
        """Whether a cell of a column that the other side dropped has another value."""
        for found in self._comparing.comparisons():
            pair = _pair(found.columns, lost)
            if pair is None:
                continue
            for doubt in found.doubts:
                if any(True for _ in differing_rows(found, doubt, [pair])):
                    return True
        return False

    def has_null(self, own: Field | None, merged: Field) -> bool:
        """Whether a row that this side wrote has a null that the merged column forbids."""
        return any(self._nulls(found, own, merged) for found in self._comparing.comparisons())

    def _nulls(self, found: Comparison, field: Field | None, merged: Field) -> bool:
        written = (found.inserted, *(each.after for each in found.doubts))
        if field is None:
            return bool(found.inserted.row_count)
        reader = RowReader(found.after, [field])
        return any(
            has_forbidden_null(reader.at(places)[field.name], merged)
            for rows in written
            for (places,) in portions(found.after.portion_rows([field]), rows)
        )


def has_forbidden_null(values: Any, field: Field) -> bool:
    """Whether there is a null where a field, or one inside its struct, may have none."""
    if not field.nullable and values.null_count:
        return True
    if not pa.types.is_struct(values.type):
        return False
    values = values.filter(values.is_valid()) if values.null_count else values
    own = {values.type.field(at).name for at in range(values.type.num_fields)}
    for child in field.children:
        if child.name not in own:
            if not child.nullable and len(values):
                return True
        elif has_forbidden_null(pc.struct_field(values, child.name), child):
            return True
    return False


def _pair(columns: Sequence[ColumnPair], lost: LostColumn) -> ColumnPair | None:
    """The lost column, or of its struct no more than the lost field."""
    for each in columns:
        if each.before.name == lost.base_path[0]:
            before = _narrowed(each.before, lost.base_path)
            return replace(each, before=before, after=_narrowed(each.after, lost.kept_path))
    return None


def _narrowed(field: Field, path: Sequence[str]) -> Field:
    if len(path) == 1:
        return field
    children = (each for each in field.children if each.name == path[1])
    return replace(field, children=tuple(_narrowed(each, path[1:]) for each in children))
