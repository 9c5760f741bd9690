"""What only rows tell about merged columns: whether a dropped one was changed on the other side,
and whether rows of one side have nulls that the other side forbids.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lancewood.engine.comparing import (
    ColumnPair,
    Comparing,
    Comparison,
    RowReader,
    differing_rows,
    paired_columns,
    portions,
)
from lancewood.engine.rows import Ids
from lancewood.engine.snapshot import Snapshot, common_version
from lancewood.errors import InvalidInputError, MergeConflictError
from lancewood.jobs.diffing.plan import plan_diff
from lancewood.jobs.uniting.bases import Bases
from lancewood.jobs.uniting.columns import UnitedColumns, unite_columns
from lancewood.jobs.uniting.compared import comparing
from lancewood.jobs.uniting.resolving import ColumnChoice, Resolve
from lancewood.model.ids import FieldId
from lancewood.model.schema import ROW_ID, Field
from lancewood.rules.lineage import is_held
from lancewood.rules.uniting_columns import LostColumn, SchemaConflict

_DROPPED = "dropped"


def checked_columns(
    bases: Bases[Snapshot], ours: Snapshot, theirs: Snapshot, resolve: Resolve
) -> UnitedColumns:
    """The merged columns; raises MergeConflictError with all that do not go together."""
    found = unite_columns(bases.first, ours, theirs, resolve.schema)
    sides = {"ours": _Side(bases, ours), "theirs": _Side(bases, theirs)}
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
        for holder in column.unchecked:
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
        return checked_columns(bases, ours, theirs, replace(resolve, schema=decisions))
    return found


def _other(side: str) -> str:
    return "theirs" if side == "ours" else "ours"


def _by_column(resolve: Resolve) -> dict[str, ColumnChoice]:
    """The decisions about columns, by name; ``*`` is for all."""
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
    """What one side did to the rows of the bases."""

    bases: Bases[Snapshot]
    state: Snapshot

    @cached_property
    def _comparing(self) -> Comparing:
        return comparing(self.bases.first, self.state)

    def has_changed(self, lost: LostColumn) -> bool:
        """Whether a cell of a column that the other side dropped has another value than in what the
        bases add up to. Rows that were deleted and inserted again are the same by the primary key;
        where two have one key, so that it does not tell, they count as changed."""
        try:
            return self._has_other_cells(lost.kept.id)
        except InvalidInputError:
            return True

    def _has_other_cells(self, kept: FieldId) -> bool:
        """Whether this side changed a cell of a column. Of two bases the one counts that changed a
        cell: so a cell that is as in one base, and not as in the other, was changed if that other
        one differs from what is below both. A base without the column says nothing of its cells."""
        first, changed = self.bases.first, _differing(self.bases.first, self.state, kept)
        if not self.bases.is_crossed_once:
            return any(len(ids) for ids in changed)
        ((other, below),) = self.bases.others
        mine, theirs = _all(changed), _all(_differing(other, self.state, kept))
        if not all([*_ids_at(each, self.state, kept)] for each in (first, other)):
            return bool(mine.size or theirs.size)
        if np.intersect1d(mine, theirs).size:
            return True
        return any(
            np.intersect1d(ids, _all(_differing(below.first, base, number))).size
            for ids, base in ((mine, first), (theirs, other))
            if ids.size
            for number in _ids_at(base, self.state, kept)
        )

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


def _differing(earlier: Snapshot, later: Snapshot, number: FieldId) -> Iterator[Ids]:
    """The ids of rows that differ in a column, or in a field inside of one, by its later id."""
    for found in plan_diff(earlier, later).comparisons():
        pair = next(filter(None, (_narrowed_to(each, number) for each in found.columns)), None)
        if pair is None:
            continue
        for doubt in found.doubts:
            for rows in differing_rows(found, doubt, [pair]):
                for part, at in rows.after.by_part():
                    facts = found.after.parts[part].facts
                    yield facts.column_at(ROW_ID, rows.after.offsets[at]).to_numpy()


def _all(ids: Iterator[Ids]) -> Ids:
    return np.concatenate([np.empty(0, np.uint64), *ids])


def _ids_at(earlier: Snapshot, later: Snapshot, number: FieldId) -> Iterator[FieldId]:
    """The id that the earlier state has for a field of the later one, if it has it."""
    for each in paired_columns(earlier, later, common_version(earlier, later)):
        if number in each.ids:
            yield each.ids[number]


def _narrowed_to(pair: ColumnPair, number: FieldId) -> ColumnPair | None:
    """A column, or of its struct no more than one field, if it is there in both states."""
    after, earlier = _narrowed(pair.after, number), pair.ids.get(number)
    if after is None or earlier is None or not is_held(earlier):
        return None
    before = _narrowed(pair.before, earlier)
    return None if before is None else replace(pair, before=before, after=after)


def _narrowed(field: Field, number: FieldId) -> Field | None:
    """The path to the field with an id; None if it is not there."""
    if field.id == number:
        return field
    for each in field.children:
        below = _narrowed(each, number)
        if below is not None:
            return replace(field, children=(below,))
    return None
