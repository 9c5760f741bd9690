"""Columns of three states of a table, side by side: which are the same, and what a side changed.

The lineages of both sides say which of their columns are which of the base. What both sides added
is the same by its name: two branches give the same id to different new columns. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from lancewood.model.ids import FieldId
from lancewood.model.schema import (
    BLOB,
    EXTENSION_METADATA,
    EXTENSION_NAME,
    OLD_PACKED,
    PACKED,
    Field,
)
from lancewood.rules.lineage import Lineage, reversed_

LAYOUT = (EXTENSION_NAME, EXTENSION_METADATA, BLOB, PACKED, OLD_PACKED)
"""Metadata that is part of the type of a column."""


@dataclass(frozen=True)
class Lineages:
    """What two sides made of the fields of a base."""

    ours: Lineage = field(default_factory=dict)
    theirs: Lineage = field(default_factory=dict)

    @cached_property
    def by_base(self) -> Lineage:
        """The fields of theirs, by those of the base."""
        return reversed_(self.theirs)


@dataclass(frozen=True)
class Three:
    """One field as the three states have it."""

    base: Field | None
    ours: Field | None
    theirs: Field | None

    @property
    def name(self) -> str:
        return next(each.name for each in (self.base, self.ours, self.theirs) if each is not None)


def side_by_side(
    base: Sequence[Field], ours: Sequence[Field], theirs: Sequence[Field], lineages: Lineages
) -> list[Three]:
    """The fields of one level, each as the three states have it: ours' in their order, then those
    that ours has not."""
    known = {each.id: each for each in base}
    of_ours, of_theirs = (
        {each.id: known[ids[each.id]] for each in side if ids.get(each.id) in known}
        for side, ids in ((ours, lineages.ours), (theirs, lineages.theirs))
    )
    by_base = {of_theirs[each.id].id: each for each in theirs if each.id in of_theirs}
    new = {each.name: each for each in theirs if each.id not in of_theirs}
    found: list[Three] = []
    for each in ours:
        older = of_ours.get(each.id)
        other = new.get(each.name) if older is None else by_base.get(older.id)
        found.append(Three(older, each, other))
    taken = {each.theirs.id for each in found if each.theirs is not None}
    left = (each for each in theirs if each.id not in taken)
    return [*found, *(Three(of_theirs.get(each.id), None, each) for each in left)]


def go_together(three: Three, lineages: Lineages) -> bool:
    """Whether at most one side changed the name of a field, and at most one its type, or both did
    the same. What is inside of lists and the like is judged with them, as far as it is not united
    field by field."""
    base, ours, theirs = three.base, three.ours, three.theirs
    assert ours is not None
    assert theirs is not None
    shapes = shape_of(ours, lineages.ours), shape_of(theirs, lineages.theirs)
    if shapes[0] != shapes[1]:
        if base is None or shape_of(base) not in shapes:
            return False
        if not is_by_fields(three, lineages) and not _keeps_names(three, shapes, lineages):
            return False
    return base is None or ours.name == theirs.name or base.name in (ours.name, theirs.name)


def is_by_fields(three: Three, lineages: Lineages) -> bool:
    """Whether the fields below one are united one by one: those of plain structs, which have
    columns of their own, and what is inside of lists and the like as long as all states have the
    same fields there, whatever they are called."""
    states = three.base, three.ours, three.theirs
    if all(each is not None and is_plain_struct(each) for each in states):
        return True
    has_fields = all(each is not None and each.children for each in states)
    return has_fields and _pairs_up(three, lineages)


def _pairs_up(three: Three, lineages: Lineages) -> bool:
    base, ours, theirs = three.base, three.ours, three.theirs
    if base is None or ours is None or theirs is None:
        return False
    if not (base.children and ours.children and theirs.children):
        return not (base.children or ours.children or theirs.children)
    kinds = {(each.logical_type, _layout_of(each)) for each in (base, ours, theirs)}
    below = side_by_side(base.children, ours.children, theirs.children, lineages)
    return len(kinds) == 1 and all(
        _is_as_nullable(each) and _pairs_up(each, lineages) for each in below
    )


def _is_as_nullable(three: Three) -> bool:
    return len({each.nullable for each in (three.base, three.ours, three.theirs) if each}) == 1


def _keeps_names(three: Three, shapes: tuple[object, object], lineages: Lineages) -> bool:
    """Whether the side whose type is not taken, as the other one changed it, left all names below
    the field alone."""
    base = three.base
    if base is None:
        return True
    is_ours = shapes[0] == shape_of(base)
    side, ids = (three.ours, lineages.ours) if is_ours else (three.theirs, lineages.theirs)
    assert side is not None
    names = {each.id: each.name for each in base.walk()}
    return all(
        names.get(ids.get(each.id, each.id), each.name) == each.name
        for each in side.walk()
        if each is not side
    )


def is_plain_struct(each: Field) -> bool:
    """Whether its children have columns of their own, so that each of them can be taken alone."""
    return each.logical_type == "struct" and not each.is_packed and not each.is_blob_v2


def shape_of(each: Field, lineage: Lineage | None = None, *, is_part: bool = False) -> object:
    """The type of a field, whatever the order of the fields inside of structs is, and what those
    are called that a ``lineage`` knows; without one it is a field of the base itself. Lists and the
    like are taken as a whole: in ``is_part`` of them it counts what may be null."""
    is_part = is_part or not is_plain_struct(each)
    below = {
        _label(child, lineage): (
            shape_of(child, lineage, is_part=is_part),
            is_part and child.nullable,
        )
        for child in each.children
    }
    order = list(below) if is_part else None
    return each.logical_type, _layout_of(each), below, order


def _label(each: Field, lineage: Lineage | None) -> FieldId | str:
    return each.id if lineage is None else lineage.get(each.id, each.name)


def _layout_of(each: Field) -> tuple[tuple[str, bytes], ...]:
    return tuple((key, each.metadata[key]) for key in LAYOUT if key in each.metadata)


def change_of(base: Field | None, side: Field | None, lineage: Lineage) -> str:
    """What a side did to a field, for people."""
    if side is None:
        return "dropped"
    if base is None:
        return f"added as {_type_text(side)}"
    done = [f"renamed to {side.name}"] if side.name != base.name else []
    if shape_of(side, lineage) != shape_of(base) or _inner_names(side) != _inner_names(base):
        done.append(_type_text(side))
    return ", ".join(done) or "unchanged"


def _inner_names(each: Field) -> list[str]:
    return [below.name for below in each.walk()][1:]


def naming_of(three: Three, side: Field | None) -> str:
    """How a side came to have a field of a name that the other one gave to another field."""
    if three.base is None:
        return change_of(None, side, {})
    assert side is not None
    if side.name == three.base.name:
        return "unchanged"
    return f"{three.base.name} renamed to {side.name}"


def _type_text(each: Field) -> str:
    if not each.children:
        return each.logical_type
    below = ", ".join(f"{child.name}: {_type_text(child)}" for child in each.children)
    return f"{each.logical_type}<{below}>"


def declared(
    threes: Sequence[Three], state: str, keys: Iterable[str]
) -> dict[tuple[object, ...], str]:
    """The parts of a key that a state declares, and what they are called."""
    found: dict[tuple[object, ...], str] = {}

    def look(node: Field, at: tuple[object, ...], name: str) -> None:
        values = tuple(node.metadata.get(key) for key in keys)
        if any(value is not None for value in values):
            found[(*at, values)] = name
        for child in node.children:
            look(child, (*at, child.name), f"{name}.{child.name}")

    for at, each in enumerate(threes):
        top: Field | None = getattr(each, state)
        if top is not None:
            look(top, (at,), top.name)
    return found
