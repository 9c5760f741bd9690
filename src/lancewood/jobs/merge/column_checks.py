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
    DifferingRows,
    RowReader,
    differing_rows,
    paired_columns,
    portions,
)
from lancewood.engine.rows import Ids
from lancewood.engine.snapshot import Snapshot, common_version
from lancewood.errors import InvalidInputError, MergeConflictError
from lancewood.jobs.diffing.plan import plan_diff
from lancewood.jobs.merge.bases import Bases
from lancewood.jobs.merge.columns import UnitedColumns, unite_columns
from lancewood.jobs.merge.compared import comparing
from lancewood.jobs.merge.resolving import ColumnChoice, Resolve
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
        one differs from what is below both. A base without the column, or without the row, says
        nothing of a cell."""
        bases, state = self.bases, self.state
        if not bases.others:
            return any(
                len(rows.after.offsets)
                for found in plan_diff(bases.first, state).comparisons()
                for rows in _differing(found, kept)
            )
        by_first, *by_others = (_Cells.of(each, state, kept) for each in bases.all)
        if not bases.is_crossed_once:
            is_new = any(by_first.has_new(each.addresses) for each in by_others)
            return bool(by_first.ids.size) or is_new
        ((other, below),) = bases.others
        (by_other,) = by_others
        if not all([*_ids_at(each, state, kept)] for each in (bases.first, other)):
            return bool(by_first.ids.size or by_other.ids.size)
        if np.intersect1d(by_first.addresses, by_other.addresses).size:
            return True
        if by_other.has_new(by_first.addresses) or by_first.has_new(by_other.addresses):
            return True
        return any(
            np.intersect1d(each.ids, _Cells.of(below.first, base, number).ids).size
            for each, base in ((by_first, bases.first), (by_other, other))
            if each.ids.size
            for number in _ids_at(base, state, kept)
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


@dataclass(frozen=True, eq=False)
class _Cells:
    """The cells of a column in a state, compared with those of an earlier one."""

    ids: Ids
    """Row ids of the rows whose cells differ."""
    addresses: Ids
    """Where they are in the state."""
    begins: Ids
    """The first address of each stretch of rows that the earlier state does not have, sorted."""
    ends: Ids

    @classmethod
    def of(cls, earlier: Snapshot, later: Snapshot, number: FieldId) -> _Cells:
        """The cells of a column, or of a field inside of one, by its later id."""
        none = np.empty(0, np.uint64)
        ids, addresses, begins, counts = [none], [none], [none], [none]
        for found in plan_diff(earlier, later).comparisons():
            parts = found.after.parts
            starts = np.array([each.fragment.id << 32 for each in parts], np.uint64)
            begins.append(
                starts[found.inserted.fragments] + found.inserted.offsets.astype(np.uint64)
            )
            counts.append(found.inserted.counts.astype(np.uint64))
            for rows in _differing(found, number):
                for part, at in rows.after.by_part():
                    offsets = rows.after.offsets[at]
                    ids.append(parts[part].facts.column_at(ROW_ID, offsets).to_numpy())
                    addresses.append(starts[part] + offsets.astype(np.uint64))
        first, count = np.concatenate(begins), np.concatenate(counts)
        order = np.argsort(first)
        return cls(
            np.concatenate(ids),
            np.concatenate(addresses),
            first[order],
            first[order] + count[order],
        )

    def has_new(self, addresses: Ids) -> bool:
        """Whether some of the addresses are of rows that the earlier state does not have."""
        before = np.searchsorted(self.begins, addresses, side="right")
        known = addresses[before > 0]
        return bool((known < self.ends[before[before > 0] - 1]).any())


def _differing(found: Comparison, number: FieldId) -> Iterator[DifferingRows]:
    """The rows that differ in a column, or in a field inside of one, by its later id."""
    pair = next(filter(None, (_narrowed_to(each, number) for each in found.columns)), None)
    if pair is not None:
        for doubt in found.doubts:
            yield from differing_rows(found, doubt, [pair])


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
