"""Three schemas of a table, put together: what two sides made of the columns of a base. Pure.

What only one side did to a column is taken from that side; what goes together holds of both; what
does not is a conflict, and ours' holds until it is decided. A column is known by the ids that are
said to mean the same in the base and on a side, else by its name. Fields inside of plain structs
are united like columns, as long as at most one side changed which there are.

Rows are not looked at: where they decide, the answer says which columns to look at.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from lancewood.errors import InvalidInputError
from lancewood.model.field_keys import (
    CLUSTERING_KEY_POSITION,
    PRIMARY_KEY,
    PRIMARY_KEY_POSITION,
)
from lancewood.model.ids import FieldId
from lancewood.model.schema import Field, Schema
from lancewood.rules.columns_side_by_side import (
    LAYOUT,
    Known,
    Three,
    change_of,
    declared,
    go_together,
    is_plain_struct,
    naming_of,
    shape_of,
    side_by_side,
)

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

    base: Field
    kept: Field
    dropped_by: Side
    base_path: tuple[str, ...]
    """Its name in the base, after those of the structs around it."""
    kept_path: tuple[str, ...]
    """The same on the side that has it."""
    is_kept: bool = False
    """Whether a decision for the other side keeps it then: unite again with "keep" for it."""

    @property
    def name(self) -> str:
        """What decisions call it."""
        return ".".join(self.base_path)


@dataclass(frozen=True)
class UnitedColumn:
    """A column of the united schema, and the same as each state has it. One that is kept although a
    side dropped it is as if the other had added it: it has no base, so that no row loses its cell.
    So it is with a field inside of a struct, which the base then is shown without.
    """

    field: Field
    base: Field | None
    ours: Field | None
    theirs: Field | None
    tightened_by: Literal["ours", "theirs", "both"] | None = None
    """Which side forbade nulls, in the column or inside of it, that the other one allows: rows that
    the other side wrote are to be checked."""


@dataclass(frozen=True)
class UnitedSchema:
    """The united columns, and what was found on the way."""

    columns: tuple[UnitedColumn, ...]
    """In the order of ours, then those that only theirs has."""
    metadata: Mapping[str, bytes]
    theirs_ids: Mapping[FieldId, FieldId]
    conflicts: tuple[SchemaConflict, ...]
    lost: tuple[LostColumn, ...]
    kept: frozenset[FieldId]
    """Fields that stay although a side dropped them, by their ids on the side that has them."""


def unite_schemas(
    base: Schema,
    ours: Schema,
    theirs: Schema,
    known: Known,
    *,
    first_id: int,
    decisions: SchemaDecisions = None,
) -> UnitedSchema:
    """The schema with the changes of both sides; ids from ``first_id`` on were never given in ours.

    Raises InvalidInputError for a decision about a column that none of the three has.
    """
    _check_decisions(decisions, (base, ours, theirs))
    highest = max((each.id for each in theirs.walk()), default=-1)
    uniting = _Uniting(known, decisions, _NewIds(first_id, max(first_id, highest + 1)))
    metadata = uniting.maps((), base.metadata, ours.metadata, theirs.metadata)
    threes = side_by_side(base.fields, ours.fields, theirs.fields, known)
    uniting.choose_keys(threes)
    made = uniting.level(threes, (), None)
    held = {node.id for each in made for node in each.field.walk()}
    return UnitedSchema(
        tuple(
            UnitedColumn(
                each.field,
                _without(each.three.base, uniting.kept),
                each.three.ours,
                each.three.theirs,
                each.tightened_by,
            )
            for each in made
        ),
        metadata,
        {old: new for new, old in uniting.theirs_ids.items() if new in held},
        tuple(uniting.conflicts),
        tuple(uniting.lost),
        frozenset(uniting.kept),
    )


_Path: TypeAlias = tuple[Three, ...]
"""The structs around a field, the outermost first."""


@dataclass(frozen=True)
class _Made:
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
class _Uniting:
    known: Known
    decisions: SchemaDecisions
    ids: _NewIds
    theirs_ids: dict[FieldId, FieldId] = field(default_factory=dict)
    """From ids of the united schema to those of theirs."""
    conflicts: list[SchemaConflict] = field(default_factory=list)
    lost: list[LostColumn] = field(default_factory=list)
    kept: set[FieldId] = field(default_factory=set)
    """In the base, and on the side that has them: fields that stay although a side dropped them."""
    _key_sides: dict[str, Side] = field(default_factory=dict)
    """From which side a key of metadata is taken that declares a key of the table."""

    def level(self, threes: Iterable[Three], path: _Path, settled: Side | None) -> list[_Made]:
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
        united: dict[str, bytes] = {}
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
                united[key] = taken
        return united

    def _one(self, three: Three, path: _Path, settled: Side | None) -> _Made | None:
        base, ours, theirs = three.base, three.ours, three.theirs
        if ours is None or theirs is None:
            if base is not None:
                if not self._is_kept(three, path, settled):
                    return None
                self.kept.update((base.id, (ours or theirs or base).id))
                three = replace(three, base=None)
            kept: Side = "theirs" if ours is None else "ours"
            return self._alone(three, kept, path)
        here = (*path, three)
        if settled is None and not go_together(three):
            texts = (change_of(base, each) for each in (ours, theirs))
            settled = self._settle(_dotted(here), "column", *texts)
            self._keep(three, settled)
        if settled is not None:
            base = theirs if settled == "ours" else ours
        if base is None:
            base = replace(
                ours, metadata={}, nullable=ours.nullable and theirs.nullable, children=()
            )
        return self._both(base, ours, theirs, here, settled)

    def _keep(self, three: Three, settled: Side) -> None:
        """Remember what stays inside of a struct although the side that is not taken dropped it."""
        assert three.ours is not None
        assert three.theirs is not None
        ours, theirs = ({each.id for each in side.walk()} for side in (three.ours, three.theirs))
        if settled == "ours":
            held, dropped = ours & self.known.ours, theirs
        else:
            held, dropped = theirs & self.known.theirs, ours
        old = () if three.base is None else three.base.walk()
        self.kept.update(each.id for each in old if each.id in held and each.id not in dropped)

    def _both(
        self, base: Field, ours: Field, theirs: Field, here: _Path, settled: Side | None
    ) -> _Made:
        """A field that both sides have, and whose name and type go together."""
        tightened: list[str] = []
        if shape_of(ours) == shape_of(theirs) or all(map(is_plain_struct, (base, ours, theirs))):
            below = self.level(
                side_by_side(base.children, ours.children, theirs.children, self.known),
                here,
                settled,
            )
            tightened += [each.tightened_by for each in below if each.tightened_by]
            self.theirs_ids[ours.id] = theirs.id
            source = replace(ours, children=tuple(each.field for each in below))
        elif shape_of(theirs) == shape_of(base):
            source = ours
        else:
            source = self._brought(theirs)
        nullable = theirs.nullable if ours.nullable == base.nullable else ours.nullable
        if not nullable and ours.nullable != theirs.nullable:
            tightened.append("theirs" if ours.nullable else "ours")
        before, mine, others = (_loose(each.metadata) for each in (base, ours, theirs))
        metadata = self.maps(here, before, mine, others)
        layout = {key: source.metadata[key] for key in LAYOUT if key in source.metadata}
        name = theirs.name if ours.name == base.name else ours.name
        united = replace(source, name=name, nullable=nullable, metadata={**metadata, **layout})
        return _Made(united, here[-1], _together(tightened))

    def _alone(self, three: Three, side: Side, path: _Path) -> _Made:
        """A field that only one side has, with the keys of the table that are of that side."""
        own = three.ours if side == "ours" else three.theirs
        assert own is not None
        made = own if side == "ours" else self._brought(own)
        is_strict = bool(path) and three.base is None and not own.nullable
        return _Made(self._with_keys(made, side), three, side if is_strict else None)

    def _brought(self, theirs: Field) -> Field:
        """A field of theirs under ids of its own."""
        number = self.ids.for_field(theirs.id)
        self.theirs_ids[number] = theirs.id
        return replace(theirs, id=number, children=tuple(map(self._brought, theirs.children)))

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
        if kept.name != base.name or shape_of(kept) != shape_of(base):
            texts = (change_of(base, each) for each in (three.ours, three.theirs))
            return self._settle(name, "column", *texts) == holder
        if overall in (None, holder):
            dropper: Side = "ours" if holder == "theirs" else "theirs"
            base_path, kept_path = (
                tuple(getattr(each, state).name for each in here) for state in ("base", holder)
            )
            self.lost.append(
                LostColumn(base, kept, dropper, base_path, kept_path, is_kept=overall == holder)
            )
        return False

    def _named(self, made: list[_Made], path: _Path, settled: Side | None) -> list[_Made]:
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


def _without(base: Field | None, kept: Set[FieldId]) -> Field | None:
    """A column of the base without fields that count as added by a side."""
    if base is None or kept.isdisjoint(each.id for each in base.walk()):
        return base
    left = (_without(each, kept) for each in base.children if each.id not in kept)
    return replace(base, children=tuple(each for each in left if each is not None))


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


def _loose(metadata: Mapping[str, bytes]) -> dict[str, bytes]:
    return {key: value for key, value in metadata.items() if key not in LAYOUT}


def _together(sides: Sequence[str]) -> Literal["ours", "theirs", "both"] | None:
    if len(set(sides)) > 1 or "both" in sides:
        return "both"
    return None if not sides else "ours" if sides[0] == "ours" else "theirs"


def _twice(made: Sequence[_Made]) -> tuple[int, int] | None:
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
