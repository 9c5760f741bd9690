"""Three schemas of a table, put together: what two sides made of the columns of a base. Pure.

What only one side did to a column is taken from that side; what goes together holds of both; what
does not is a conflict, and ours' holds until it is decided. Which columns are the same is told by
the lineages of both sides (``lineage``). Fields inside of plain structs are united like columns, as
long as at most one side changed which there are; so are those inside of lists whose fields are the
same in all three.

Rows are not looked at: where they decide, the answer says which columns to look at.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import repeat
from typing import Literal, TypeAlias

from lancewood.errors import InvalidInputError
from lancewood.model.ids import FieldId
from lancewood.model.schema import (
    CLUSTERING_KEY_POSITION,
    PRIMARY_KEY,
    PRIMARY_KEY_POSITION,
    Field,
    Schema,
)
from lancewood.rules.columns_side_by_side import (
    LAYOUT,
    Lineages,
    Three,
    change_of,
    declared,
    go_together,
    is_by_fields,
    naming_of,
    shape_of,
    side_by_side,
)
from lancewood.rules.lineage import Lineage, as_in, composed, is_held, paired, reversed_, unchanged

Side: TypeAlias = Literal["ours", "theirs"]
ColumnDecision: TypeAlias = Literal["ours", "theirs", "drop", "keep"]
SchemaDecisions: TypeAlias = Side | Mapping[str, ColumnDecision] | None
"""One side for all conflicts, or what becomes of single columns, by their names in conflicts; "*"
is the side for all others."""

_KEYS = {
    "primary key": (PRIMARY_KEY, PRIMARY_KEY_POSITION),
    "clustering key": (CLUSTERING_KEY_POSITION,),
}
"""Metadata that declares something of the table as a whole: taken from one side, or not at all."""
_OTHERS = "*"
_TABLE = ""
"""The column of conflicts about the schema's own metadata."""


@dataclass(frozen=True)
class SchemaConflict:
    """What two sides did to a column, or to the schema, that does not go together."""

    column: str
    """The name in the base, with those of the structs around it; of a new column its own. Empty for
    the metadata of the schema."""
    kind: Literal["column", "key", "metadata", "null"]
    """``null``: rows of one side have nulls that the other forbids, which only rows can tell."""
    ours: str
    theirs: str


@dataclass(frozen=True)
class LostColumn:
    """A column that one side dropped, and that is not in the united schema: a conflict if the other
    side changed cells of it."""

    name: str
    """What decisions call it: its name in the base, after those of the structs around it."""
    base: Field
    kept: Field
    dropped_by: Side
    is_kept: bool = False
    """Whether a decision for the other side keeps it then: unite again with "keep" for it."""


@dataclass(frozen=True)
class MergedColumn:
    """A column of the united schema, and how each state has it: with its own ids and types there,
    under the names of the united schema. One that is kept although a side dropped it is as if the
    other had added it: it has no base, so that no row loses its cell. So it is with a field inside
    of a struct, which the base is read without.
    """

    field: Field
    base: Field | None
    ours: Field | None
    theirs: Field | None
    unchecked: tuple[Side, ...] = ()
    """The sides whose rows may have nulls, in the column or inside of it, that it forbids."""

    @property
    def is_ours(self) -> bool:
        """Whether files of ours hold the column as it is, as far as they hold it."""
        return self.ours is None or _is_held_as(self.ours, self.field, None)

    def is_theirs(self, theirs_ids: Lineage) -> bool:
        """Whether files of theirs hold the column as it is, as far as they hold it, once fields
        have the ids that they get."""
        return self.theirs is None or _is_held_as(self.theirs, self.field, theirs_ids)


@dataclass(frozen=True)
class MergedSchema:
    """The united columns, and what was found on the way."""

    columns: tuple[MergedColumn, ...]
    """Columns in the order of ours, then those that only theirs has."""
    metadata: Mapping[str, bytes]
    theirs_ids: Lineage
    """Ids of the united schema by those of theirs, for fields whose stored values fit it."""
    base_ids: Lineage
    """Ids of the base by those of the united schema, without what is ``kept``."""
    conflicts: tuple[SchemaConflict, ...]
    lost: tuple[LostColumn, ...]
    kept: frozenset[FieldId]
    """Fields that stay although a side dropped them, by their ids in the base."""


def merge_schemas(
    base: Schema,
    ours: Schema,
    theirs: Schema,
    lineages: Lineages,
    *,
    first_id: int,
    decisions: SchemaDecisions = None,
) -> MergedSchema:
    """The schema with the changes of both sides; ids from ``first_id`` on were never given in ours.

    Raises InvalidInputError for a decision about a column that none of the three has.
    """
    _check_decisions(decisions, (base, ours, theirs))
    highest = max((each.id for each in theirs.walk()), default=-1)
    known = composed(lineages.ours, lineages.by_base)
    old = frozenset(lineages.theirs), frozenset(lineages.ours)
    sides = _Sides(lineages, paired(theirs, ours, known, old), ours, theirs)
    merge = _SchemaMerge(sides, decisions, _NewIds(first_id, max(first_id, highest + 1)))
    metadata = merge.maps((), base.metadata, ours.metadata, theirs.metadata)
    threes = side_by_side(base.fields, ours.fields, theirs.fields, lineages)
    merge.choose_keys(threes)
    made = merge.level(threes, (), None)
    to = merge.lineages_of(each.field for each in made)
    columns = [
        MergedColumn(
            each.field,
            as_in(each.field, to[0], base.by_id),
            as_in(each.field, to[1], ours.by_id),
            as_in(each.field, to[2], theirs.by_id),
            tuple(_unchecked(each)),
        )
        for each in made
    ]
    held = {node.id for each in made for node in each.field.walk()}
    return MergedSchema(
        tuple(columns),
        metadata,
        {old: new for new, old in merge.theirs_ids.items() if new in held},
        to[0],
        tuple(merge.conflicts),
        tuple(merge.lost),
        frozenset(merge.kept),
    )


def _unchecked(made: _MergedField) -> Iterator[Side]:
    sides: tuple[tuple[Side, Side, Field | None], ...] = (
        ("ours", "theirs", made.three.ours),
        ("theirs", "ours", made.three.theirs),
    )
    for name, other, side in sides:
        is_tightened = made.tightened_by in (other, "both")
        if is_tightened or (not made.field.nullable and (side is None or side.nullable)):
            yield name


def _is_held_as(side: Field, merged: Field, ids: Lineage | None) -> bool:
    """Whether a field is held under the ids of the united schema, as far as it is held; ``ids`` are
    given to those of the side."""
    if not is_held(side.id):
        return True
    number = side.id if ids is None else ids.get(side.id)
    return (
        number == merged.id
        and len(side.children) == len(merged.children)
        and all(map(_is_held_as, side.children, merged.children, repeat(ids)))
    )


@dataclass(frozen=True)
class _Sides:
    """The two sides, and which of their fields are the same."""

    of_base: Lineages
    theirs_of_ours: Lineage
    """Fields of theirs, by those of ours."""
    ours: Schema
    theirs: Schema

    @cached_property
    def ours_of_theirs(self) -> Lineage:
        """Fields of ours, by those of theirs."""
        return reversed_(self.theirs_of_ours)

    def beside(self, settled: Side) -> Lineages:
        """The lineages if the side that is not taken were the base."""
        if settled == "ours":
            return Lineages(self.theirs_of_ours, unchanged(self.theirs))
        return Lineages(unchanged(self.ours), self.ours_of_theirs)


_Path: TypeAlias = tuple[Three, ...]
"""The structs around a field, the outermost first."""


@dataclass(frozen=True)
class _MergedField:
    field: Field
    three: Three
    tightened_by: Literal["ours", "theirs", "both"] | None = None


@dataclass
class _NewIds:
    """Ids for fields that ours has not: those of theirs, as far as ours never gave them."""

    first: int
    next: int

    def for_field(self, theirs: FieldId) -> FieldId:
        if theirs >= self.first:
            return theirs
        self.next += 1
        return FieldId(self.next - 1)


@dataclass
class _SchemaMerge:
    sides: _Sides
    decisions: SchemaDecisions
    ids: _NewIds
    theirs_ids: dict[FieldId, FieldId] = field(default_factory=dict)
    """Ids of theirs by those of the united schema."""
    conflicts: list[SchemaConflict] = field(default_factory=list)
    lost: list[LostColumn] = field(default_factory=list)
    kept: set[FieldId] = field(default_factory=set)
    """Fields of the base that stay although a side dropped them."""
    brought: dict[FieldId, FieldId] = field(default_factory=dict)
    """Ids of theirs by the new ids that were given to their fields."""
    _key_sides: dict[str, Side] = field(default_factory=dict)
    """The side from which a key of metadata is taken that declares a key of the table."""

    def level(
        self, threes: Iterable[Three], path: _Path, settled: Side | None
    ) -> list[_MergedField]:
        """The fields of one level; ``settled``: the side whose they are, whatever they are."""
        made = [self._one(each, path, settled) for each in threes]
        return self._named([each for each in made if each is not None], path, settled)

    def choose_keys(self, threes: Sequence[Three]) -> None:
        """Decide from which side the keys of the table are."""
        for what, keys in _KEYS.items():
            base, ours, theirs = (declared(threes, side, keys) for side in _STATES)
            side: Side = "theirs" if ours == base else "ours"
            if theirs not in (base, ours) and ours != base:
                column = next(iter((ours or theirs).values()))
                side = self._settle(
                    column,
                    "key",
                    *(f"{what}: {', '.join(each.values()) or 'none'}" for each in (ours, theirs)),
                )
            self._key_sides.update(dict.fromkeys(keys, side))

    def maps(
        self,
        path: _Path,
        base: Mapping[str, bytes],
        ours: Mapping[str, bytes],
        theirs: Mapping[str, bytes],
    ) -> dict[str, bytes]:
        """Metadata of a field or of the schema, key by key."""
        merged: dict[str, bytes] = {}
        for key in dict.fromkeys((*ours, *theirs)):
            old, mine, other = base.get(key), ours.get(key), theirs.get(key)
            side: Side = "theirs" if mine == old else "ours"
            if key in self._key_sides:
                side = self._key_sides[key]
            elif other not in (old, mine) and mine != old:
                texts = (_shown(key, each) for each in (mine, other))
                side = self._settle(_dotted(path), "metadata", *texts)
            taken = mine if side == "ours" else other
            if taken is not None:
                merged[key] = taken
        return merged

    def lineages_of(self, merged: Iterable[Field]) -> tuple[Lineage, Lineage, Lineage]:
        """Lineages from united fields to those of the base, of ours and of theirs."""
        sides, known = self.sides, self.sides.of_base
        ours, theirs = dict[FieldId, FieldId](), dict[FieldId, FieldId]()
        base = dict[FieldId, FieldId | None]()
        for each in (node for top in merged for node in top.walk()):
            if each.id in self.brought:
                theirs[each.id] = self.brought[each.id]
                base[each.id] = known.theirs.get(theirs[each.id])
                mine = sides.ours_of_theirs.get(theirs[each.id])
                if mine is not None:
                    ours[each.id] = mine
            else:
                ours[each.id] = each.id
                base[each.id] = known.ours.get(each.id)
                other = sides.theirs_of_ours.get(each.id)
                if other is not None:
                    theirs[each.id] = other
        found = {number: old for number, old in base.items() if old is not None}
        return {n: old for n, old in found.items() if old not in self.kept}, ours, theirs

    def _changes(self, three: Three) -> tuple[str, str]:
        """What each side did to a field, for people."""
        lineages = self.sides.of_base
        return (
            change_of(three.base, three.ours, lineages.ours),
            change_of(three.base, three.theirs, lineages.theirs),
        )

    def _one(self, three: Three, path: _Path, settled: Side | None) -> _MergedField | None:
        base, ours, theirs = three.base, three.ours, three.theirs
        if ours is None or theirs is None:
            if base is not None:
                if not self._is_kept(three, path, settled):
                    return None
                self.kept.update(each.id for each in base.walk())
                three = replace(three, base=None)
            kept: Side = "theirs" if ours is None else "ours"
            return self._alone(three, kept, path)
        here = (*path, three)
        if settled is None and not go_together(three, self.sides.of_base):
            texts = self._changes(three)
            settled = self._settle(_dotted(here), "column", *texts)
            self._keep(three, settled)
        if settled is not None:
            base = theirs if settled == "ours" else ours
        if base is None:
            base = replace(
                ours, metadata={}, nullable=ours.nullable and theirs.nullable, children=()
            )
        return self._both(replace(three, base=base), here, settled)

    def _keep(self, three: Three, settled: Side) -> None:
        """Remember what stays inside of a struct although the side that is not taken dropped it."""
        lineages = self.sides.of_base
        of_ours, of_theirs = (
            {ids[each.id] for each in side.walk() if each.id in ids}
            for side, ids in ((three.ours, lineages.ours), (three.theirs, lineages.theirs))
            if side is not None
        )
        self.kept |= of_ours - of_theirs if settled == "ours" else of_theirs - of_ours

    def _both(self, three: Three, here: _Path, settled: Side | None) -> _MergedField:
        """A field that both sides have, and whose name and type go together."""
        base, ours, theirs = three.base, three.ours, three.theirs
        assert base is not None
        assert ours is not None
        assert theirs is not None
        lineages = self.sides.beside(settled) if settled else self.sides.of_base
        old = shape_of(base)
        tightened: list[str] = []
        if shape_of(ours, lineages.ours) == shape_of(theirs, lineages.theirs) or is_by_fields(
            three, lineages
        ):
            below = self.level(
                side_by_side(base.children, ours.children, theirs.children, lineages),
                here,
                settled,
            )
            tightened += [each.tightened_by for each in below if each.tightened_by]
            self.theirs_ids[ours.id] = theirs.id
            source = replace(ours, children=tuple(each.field for each in below))
        else:
            changed: Side = "ours" if shape_of(theirs, lineages.theirs) == old else "theirs"
            is_kept = settled is None and self._keeps_inside(three, here, changed)
            source = ours if (changed == "ours") is not is_kept else self._brought(theirs)
        nullable = theirs.nullable if ours.nullable == base.nullable else ours.nullable
        if not nullable and ours.nullable != theirs.nullable:
            tightened.append("theirs" if ours.nullable else "ours")
        before, mine, others = (_loose(each.metadata) for each in (base, ours, theirs))
        metadata = self.maps(here, before, mine, others)
        layout = {key: source.metadata[key] for key in LAYOUT if key in source.metadata}
        name = theirs.name if ours.name == base.name else ours.name
        merged = replace(source, name=name, nullable=nullable, metadata={**metadata, **layout})
        return _MergedField(merged, here[-1], _together(tightened))

    def _keeps_inside(self, three: Three, here: _Path, dropper: Side) -> bool:
        """Whether a field stays that one side dropped inside of a list or the like, which then is
        as the other side has it."""
        holder: Side = "theirs" if dropper == "ours" else "ours"
        lineages = self.sides.of_base
        held, dropped = getattr(lineages, holder), {*getattr(lineages, dropper).values()}
        side = three.theirs if holder == "theirs" else three.ours
        assert three.base is not None
        assert side is not None
        kept_by_base = {held[each.id]: each for each in side.walk() if each.id in held}
        gone = [
            (name, each)
            for name, each in _inside(three.base, _dotted(here))
            if each.id not in dropped and each.id in kept_by_base
        ]
        decisions = {each.id: self._decided(name) for name, each in gone}
        if any(each in ("keep", holder) for each in decisions.values()):
            self.kept.update(node.id for _, each in gone for node in each.walk())
            return True
        for name, each in gone:
            if decisions[each.id] is None and self._overall in (None, holder):
                is_kept = self._overall == holder
                kept = kept_by_base[each.id]
                self.lost.append(LostColumn(name, each, kept, dropper, is_kept=is_kept))
        return False

    def _alone(self, three: Three, side: Side, path: _Path) -> _MergedField:
        """A field that only one side has, with the keys of the table that are of that side."""
        own = three.ours if side == "ours" else three.theirs
        assert own is not None
        made = own if side == "ours" else self._brought(own)
        is_strict = bool(path) and three.base is None and not own.nullable
        return _MergedField(self._with_keys(made, side), three, side if is_strict else None)

    def _brought(self, theirs: Field) -> Field:
        """A field of theirs under ids of its own; under that of ours where ours has it with the
        same type, so that the files of both hold it as it is."""
        mine = self._alike_in_ours(theirs)
        number = self.ids.for_field(theirs.id) if mine is None else mine
        self.theirs_ids[number] = theirs.id
        if mine is None:
            self.brought[number] = theirs.id
        return replace(theirs, id=number, children=tuple(map(self._brought, theirs.children)))

    def _alike_in_ours(self, theirs: Field) -> FieldId | None:
        """The id that ours has for a field of theirs; None if it has not the field, or another type
        of it, or nulls where theirs has none."""
        number = self.sides.ours_of_theirs.get(theirs.id)
        mine = None if number is None else self.sides.ours.by_id[number]
        if mine is None or (mine.nullable and not theirs.nullable):
            return None
        is_alike = mine.logical_type == theirs.logical_type and all(
            mine.metadata.get(key) == theirs.metadata.get(key) for key in LAYOUT
        )
        return mine.id if is_alike else None

    def _with_keys(self, made: Field, side: Side) -> Field:
        foreign = {key for key, each in self._key_sides.items() if each != side}
        kept = {key: value for key, value in made.metadata.items() if key not in foreign}
        children = tuple(self._with_keys(each, side) for each in made.children)
        return replace(made, metadata=kept, children=children)

    def _is_kept(self, three: Three, path: _Path, settled: Side | None) -> bool:
        """Whether a field of the base stays that one side dropped."""
        here = (*path, three)
        name, base = _dotted(here), three.base
        kept = three.ours or three.theirs
        assert base is not None
        assert kept is not None
        holder: Side = "theirs" if three.ours is None else "ours"
        decided = settled or self._decided(name)
        if decided is not None:
            return decided in ("keep", holder)
        overall = self._overall
        lineage = getattr(self.sides.of_base, holder)
        if kept.name != base.name or shape_of(kept, lineage) != shape_of(base):
            texts = self._changes(three)
            return self._settle(name, "column", *texts) == holder
        if overall in (None, holder):
            dropper: Side = "ours" if holder == "theirs" else "theirs"
            self.lost.append(LostColumn(name, base, kept, dropper, is_kept=overall == holder))
        return False

    def _named(
        self, made: list[_MergedField], path: _Path, settled: Side | None
    ) -> list[_MergedField]:
        """The fields of a level under different names: of two with the same one, one has it from
        ours and the other from theirs."""
        for _ in range(2 * len(made)):
            twice = _twice(made)
            if twice is None:
                break
            mine, other = twice
            name = made[mine].field.name
            dotted = ".".join((*(each.name for each in path), name))
            texts = (
                naming_of(made[mine].three, made[mine].three.ours),
                naming_of(made[other].three, made[other].three.theirs),
            )
            side = settled or self._settle(dotted, "column", *texts)
            at = other if side == "ours" else mine
            fallback = getattr(made[at].three, side)
            if fallback is None:
                made.pop(at)
            else:
                made[at] = replace(made[at], field=replace(made[at].field, name=fallback.name))
        return made

    def _settle(
        self, column: str, kind: Literal["column", "key", "metadata"], ours: str, theirs: str
    ) -> Side:
        """The side that a decision is for; without one it is a conflict, and ours' holds."""
        decided = self._decided(column) or self._overall
        if decided == "ours" or decided == "theirs":
            return decided
        conflict = SchemaConflict(column, kind, ours, theirs)
        if conflict not in self.conflicts:
            self.conflicts.append(conflict)
        return "ours"

    @property
    def _overall(self) -> ColumnDecision | None:
        """The side for all conflicts that are not decided one by one."""
        return self._decided(_OTHERS) if isinstance(self.decisions, Mapping) else self.decisions

    def _decided(self, column: str) -> ColumnDecision | None:
        if isinstance(self.decisions, Mapping):
            return self.decisions.get(column)
        return None


_STATES = ("base", "ours", "theirs")


def _check_decisions(decisions: SchemaDecisions, schemas: Sequence[Schema]) -> None:
    if not isinstance(decisions, Mapping):
        return
    names = {name for each in schemas for name in _dotted_names(each.fields)}
    for column in decisions:
        if column not in (_TABLE, _OTHERS) and column not in names:
            raise InvalidInputError(
                f"schema= decides about column {column!r}, which neither side nor their base has",
                column=column,
            )


def _dotted_names(fields: Iterable[Field], above: str = "") -> Iterator[str]:
    for each in fields:
        yield above + each.name
        yield from _dotted_names(each.children, f"{above}{each.name}.")


def _inside(each: Field, name: str) -> Iterator[tuple[str, Field]]:
    """The fields below one, with their dotted names."""
    for child in each.children:
        yield f"{name}.{child.name}", child
        yield from _inside(child, f"{name}.{child.name}")


def _loose(metadata: Mapping[str, bytes]) -> dict[str, bytes]:
    return {key: value for key, value in metadata.items() if key not in LAYOUT}


def _together(sides: Sequence[str]) -> Literal["ours", "theirs", "both"] | None:
    if len(set(sides)) > 1 or "both" in sides:
        return "both"
    return None if not sides else "ours" if sides[0] == "ours" else "theirs"


def _twice(made: Sequence[_MergedField]) -> tuple[int, int] | None:
    """Two fields with the same name: where the one is that ours calls so, and where the other."""
    seen: dict[str, int] = {}
    for at, each in enumerate(made):
        name = each.field.name
        if name in seen:
            earlier = made[seen[name]].three.ours
            is_ours = earlier is not None and earlier.name == name
            return (seen[name], at) if is_ours else (at, seen[name])
        seen[name] = at
    return None


def _dotted(path: _Path) -> str:
    return ".".join(each.name for each in path) if path else _TABLE


def _shown(key: str, value: bytes | None) -> str:
    return f"no {key}" if value is None else f"{key}={value.decode(errors='replace')}"
