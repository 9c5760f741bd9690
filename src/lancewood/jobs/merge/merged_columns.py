"""Three states of a table -> one schema: which columns are the same in them, under which ids the
merged ones are kept, and what only rows tell about them.

``rules.merged_schema`` decides what becomes of each column. That reads manifests and transactions
only. Rows are asked whether a dropped column was changed on the other side, and whether rows of one
side have nulls that the other forbids.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lancewood.engine.rows import Ids, find_stretches
from lancewood.engine.schema import next_field_id
from lancewood.engine.snapshot import Snapshot, common_version
from lancewood.errors import InvalidInputError, MergeConflictError, UnsupportedError
from lancewood.format.schema import encode_schema
from lancewood.jobs.diff import (
    ColumnPair,
    Comparing,
    Comparison,
    DifferingRows,
    RowReader,
    differing_rows,
    paired_columns,
    plan_diff,
    portions,
)
from lancewood.jobs.merge.merge_bases import Bases
from lancewood.jobs.merge.resolve import ColumnChoice, Resolve
from lancewood.model.ids import FieldId
from lancewood.model.schema import ROW_ID, Field, Schema, check_primary_key
from lancewood.model.transaction import FieldMessages
from lancewood.rules.columns_side_by_side import Lineages
from lancewood.rules.lineage import Lineage, as_in, is_held, moved_names, unheld
from lancewood.rules.merged_schema import (
    LostColumn,
    MergedSchema,
    SchemaConflict,
    SchemaDecisions,
    merge_schemas,
)
from lancewood.rules.three_way import same_fields


def comparing(base: Snapshot, state: Snapshot, new: Collection[FieldId] = frozenset()) -> Comparing:
    """The comparison of a base with a state that comes from it, with all columns of the state.

    Those that the base has not, and such fields inside of others, are compared as if it had them,
    without a value; so are ``new`` ones, by their ids in the base. The columns of the base have the
    names of the state.
    """
    common = common_version(base, state)
    paired = {each.after.id: each for each in paired_columns(base, state, common)}
    found = {number: old for pair in paired.values() for number, old in pair.ids.items()}
    ids = {number: old for number, old in found.items() if old not in new}
    earlier, first_free = base.schema.by_id, cache(lambda: next_field_id(base.manifest))

    def unheld_field(field: Field) -> Field:
        """The field under ids that no file of the base has, also none of a dropped column."""
        if field.id not in earlier and field.id >= first_free():
            return field
        return replace(unheld(field), children=tuple(map(unheld_field, field.children)))

    def absent(field: Field) -> Field:
        made = unheld_field(field)
        ids.update(zip((e.id for e in field.walk()), (e.id for e in made.walk()), strict=True))
        return made

    columns = []
    for each in state.schema.fields:
        before = as_in(each, ids, earlier, absent) or absent(each)
        is_cast = each.id in paired and paired[each.id].is_cast_before
        columns.append(ColumnPair(before, each, ids, is_cast_before=is_cast))
    return Comparing(base, state, common, tuple(columns))


def is_new(pair: ColumnPair) -> bool:
    """Whether the base does not have a column that it is compared in."""
    return pair.before is pair.after or not is_held(pair.before.id)


def changes_rows(columns: Iterable[ColumnPair], ours: Snapshot) -> bool:
    """Whether columns of theirs change rows of ours: new ones do not, unless ours has them too."""
    return not all(is_new(each) and each.name not in ours.schema.by_name for each in columns)


V = TypeVar("V")


@dataclass(frozen=True)
class MergedColumns(MergedSchema):
    """The schema of a merge of two versions. A field of theirs that is not in it, or has another
    type there, is not in ``theirs_ids``: its values must not be read from files of theirs."""

    fields: FieldMessages
    """The columns as a manifest writes them."""
    is_changed: bool
    """Whether the fields or the metadata are other ones than ours'."""

    @property
    def rewritten(self) -> Lineage:
        """Ids of ours by those of the united schema, for fields of ours that get others."""
        pairs = (_same(each.field, each.ours) for each in self.columns)
        return {new: old for each in pairs for new, old in each if new != old}

    @property
    def of_theirs(self) -> Lineage:
        """Ids of theirs by those of the united schema, whatever their types are."""
        pairs = (_same(each.field, each.theirs) for each in self.columns)
        return {new: old for each in pairs for new, old in each}

    @property
    def schema(self) -> Schema:
        """The columns as a tree."""
        return Schema(tuple(each.field for each in self.columns), self.metadata)


def merge_columns(
    base: Snapshot | None, ours: Snapshot, theirs: Snapshot, schema: SchemaDecisions = None
) -> MergedColumns:
    """The schema that has the changes of both sides since the base. Without a base both sides are
    taken to have added all of their columns.

    Raises InvalidInputError for a decision about an unknown column.
    """
    merged = merge_schemas(
        Schema(()) if base is None else base.schema,
        ours.schema,
        theirs.schema,
        Lineages(*(_lineage(base, each) for each in (ours, theirs))),
        first_id=next_field_id(ours.manifest),
        decisions=schema,
    )
    tree = Schema(tuple(each.field for each in merged.columns), merged.metadata)
    fields = tuple(encode_schema(tree))
    if not merged.conflicts:
        check_primary_key(fields)
    is_changed = not same_fields(fields, tuple(encode_schema(ours.schema)))
    is_changed |= dict(merged.metadata) != dict(ours.schema.metadata)
    return MergedColumns(**vars(merged), fields=fields, is_changed=is_changed)


def with_columns_first(bases: Bases[Snapshot], ours: Snapshot, theirs: Snapshot) -> Bases[Snapshot]:
    """Several bases, first one with the columns that all of them add up to, as far as the two sides
    differ in them: what a side took back since must not come again. So it is with a column of a
    base that a side has under another name, and the other side not at all under the old one.

    Raises UnsupportedError if none of them has those columns, and if a name means one column in a
    base and another one in a side: names do not tell then what the bases add up to.
    """
    mine, yours = _described(ours), _described(theirs)
    whole = combined(bases.each(_described))
    ways = [
        (base.schema, side.schema, _lineage(base, side))
        for base in bases.all
        for side in (ours, theirs)
    ]
    names = [name for name in {**mine, **yours} if mine.get(name) != yours.get(name)]
    earlier = {
        base.by_id[ids[each.id]].name
        for base, side, ids in ways
        for each in side.fields
        if each.id in ids and each.name in names
    }
    names += [name for name in whole if name in earlier and name not in {**mine, **yours}]

    def has_them(base: Snapshot) -> bool:
        known = _described(base)
        return all(known.get(name) == whole.get(name) for name in names)

    reused = {name for way in ways for name in moved_names(*way)}
    if reused:
        names = [*reused]
    elif has_them(bases.first):
        return bases
    elif len(bases.others) == 1 and not bases.steps and has_them(bases.others[0][0]):
        ((other, low),) = bases.others
        return Bases(other, ((bases.first, low),))
    raise UnsupportedError(
        "the two were merged crosswise before, and both had changed columns until then, of which "
        f"some differ again: {', '.join(sorted(names))}; make their columns the same, and merge",
        columns=sorted(names),
    )


def names_in_bases(bases: Bases[Snapshot]) -> frozenset[str]:
    """The columns that several bases add up to."""
    return frozenset(combined(bases.each(_described)))


def combined(bases: Bases[Mapping[str, V]]) -> Mapping[str, V]:
    """What entries of several bases add up to: those that one of them changed, or if two changed
    one, as it was below both."""

    def join(low: Mapping[str, V], one: Mapping[str, V], other: Mapping[str, V]) -> Mapping[str, V]:
        found = dict(one)
        for name in one.keys() | other.keys():
            mine, theirs, old = one.get(name), other.get(name), low.get(name)
            value = mine if theirs in (old, mine) else theirs if mine == old else old
            if value is None:
                found.pop(name, None)
            else:
                found[name] = value
        return found

    return bases.joined(join)


def _same(merged: Field, side: Field | None) -> Iterator[tuple[FieldId, FieldId]]:
    """The ids of a field and of those below it, with the ids that a side has for them."""
    if side is None or not is_held(side.id):
        return
    yield merged.id, side.id
    if merged.logical_type == side.logical_type:
        for one, other in zip(merged.children, side.children, strict=False):
            yield from _same(one, other)


def _described(state: Snapshot) -> Mapping[str, Field]:
    """The columns of a state by name, without ids, which branches give out by themselves."""
    return {each.name: _unnumbered(each) for each in state.schema.fields}


def _unnumbered(field: Field) -> Field:
    return replace(field, id=FieldId(0), children=tuple(map(_unnumbered, field.children)))


def _lineage(base: Snapshot | None, side: Snapshot) -> Lineage:
    """The lineage of the fields of a side back to the base. A base that was merged earlier may be
    of another branch. Raises UnsupportedError where it is unknown."""
    if base is None:
        return {}
    pairs = paired_columns(base, side, common_version(base, side))
    return {new: old for each in pairs for new, old in each.ids.items()}


def checked_columns(
    bases: Bases[Snapshot], ours: Snapshot, theirs: Snapshot, resolve: Resolve
) -> MergedColumns:
    """The merged columns; raises MergeConflictError with all that do not go together."""
    found = merge_columns(bases.first, ours, theirs, resolve.schema)
    sides = {"ours": _Side(bases, ours), "theirs": _Side(bases, theirs)}
    others = {"ours": "theirs", "theirs": "ours"}
    conflicts, kept = list(found.conflicts), dict[str, ColumnChoice]()
    for each in found.lost:
        holder = others[each.dropped_by]
        if not sides[holder].has_changed(each):
            continue
        if each.is_kept:
            kept[each.name] = "keep"
        else:
            texts = {each.dropped_by: "dropped", holder: "cells changed"}
            conflicts.append(SchemaConflict(each.name, "column", **texts))
    for column in found.columns:
        for holder in column.unchecked:
            side = column.ours if holder == "ours" else column.theirs
            if sides[holder].has_null(side, column.field):
                texts = {holder: "has nulls", others[holder]: "forbids nulls"}
                conflicts.append(SchemaConflict(column.field.name, "null", **texts))
    if conflicts:
        told = "; ".join(
            f"{each.kind if not each.column else f'column {each.column!r}'}: {each.ours} here, "
            f"{each.theirs} there"
            for each in conflicts
        )
        raise MergeConflictError(
            f"both sides changed the columns: {told}. Resolve(schema=) decides that, and nothing "
            "has changed",
            schema=[(each.column, each.kind, each.ours, each.theirs) for each in conflicts],
        )
    if kept:
        given = {"*": resolve.schema} if isinstance(resolve.schema, str) else resolve.schema
        return checked_columns(
            bases, ours, theirs, replace(resolve, schema={**(given or {}), **kept})
        )
    return found


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
        return bool((find_stretches(self.begins, self.ends, addresses) >= 0).any())


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
