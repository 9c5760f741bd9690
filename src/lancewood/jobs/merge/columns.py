"""Three states of a table -> one schema: which columns are the same in them, and under which ids
the united ones are kept. ``rules.uniting_columns`` decides what becomes of each. Reads manifests
and transactions only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from lancewood.engine.comparing import paired_columns
from lancewood.engine.schema import next_field_id
from lancewood.engine.snapshot import Snapshot, common_version
from lancewood.errors import UnsupportedError
from lancewood.format.schema import encode_schema
from lancewood.jobs.merge.bases import Bases
from lancewood.model.ids import FieldId
from lancewood.model.schema import Field, Schema, check_primary_key
from lancewood.model.transaction import FieldMessages
from lancewood.rules.columns_side_by_side import Lineages
from lancewood.rules.lineage import Lineage, is_held, moved_names
from lancewood.rules.three_way import same_fields
from lancewood.rules.uniting_columns import (
    LostColumn,
    SchemaConflict,
    SchemaDecisions,
    UnitedColumn,
    unite_schemas,
)

V = TypeVar("V")


@dataclass(frozen=True)
class UnitedColumns:
    """The schema of a merge."""

    columns: tuple[UnitedColumn, ...]
    """Columns in the order of ours, then those that only theirs has."""
    fields: FieldMessages
    """The columns as a manifest writes them."""
    metadata: Mapping[str, bytes]
    """The metadata of the schema itself, not of its columns."""
    theirs_ids: Lineage
    """Ids of the united schema by those in files of theirs. A field of theirs that is not in it, or
    has another type there, has none: its values must not be read from those files."""
    base_ids: Lineage
    """Ids of the base by those of the united schema, without what is ``kept``."""
    conflicts: tuple[SchemaConflict, ...]
    lost: tuple[LostColumn, ...]
    kept: frozenset[FieldId]
    """Fields that stay although a side dropped them, by their ids in the base."""
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


def unite_columns(
    base: Snapshot | None, ours: Snapshot, theirs: Snapshot, schema: SchemaDecisions = None
) -> UnitedColumns:
    """The schema that has the changes of both sides since the base. Without a base both sides are
    taken to have added all of their columns.

    Raises InvalidInputError for a decision about an unknown column.
    """
    united = unite_schemas(
        Schema(()) if base is None else base.schema,
        ours.schema,
        theirs.schema,
        Lineages(*(_lineage(base, each) for each in (ours, theirs))),
        first_id=next_field_id(ours.manifest),
        decisions=schema,
    )
    tree = Schema(tuple(each.field for each in united.columns), united.metadata)
    fields = tuple(encode_schema(tree))
    if not united.conflicts:
        check_primary_key(fields)
    is_changed = not same_fields(fields, tuple(encode_schema(ours.schema)))
    return UnitedColumns(
        united.columns,
        fields,
        united.metadata,
        united.theirs_ids,
        united.base_ids,
        united.conflicts,
        united.lost,
        united.kept,
        is_changed or dict(united.metadata) != dict(ours.schema.metadata),
    )


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


def _same(united: Field, side: Field | None) -> Iterator[tuple[FieldId, FieldId]]:
    """The ids of a field and of those below it, with the ids that a side has for them."""
    if side is None or not is_held(side.id):
        return
    yield united.id, side.id
    if united.logical_type == side.logical_type:
        for one, other in zip(united.children, side.children, strict=False):
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
