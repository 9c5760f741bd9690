"""Columns of three states of a table, side by side: which are the same, and what a side changed.

A column is known by the ids that are said to mean the same in the base and on a side, else by its
name: two branches give the same id to different new columns. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lancewood.model.field_keys import EXTENSION_METADATA, EXTENSION_NAME
from lancewood.model.ids import FieldId
from lancewood.model.schema import BLOB, OLD_PACKED, PACKED, Field

LAYOUT = (EXTENSION_NAME, EXTENSION_METADATA, BLOB, PACKED, OLD_PACKED)
"""Metadata that is part of the type of a column."""


@dataclass(frozen=True)
class Known:
    """The ids that mean the same field in the base and on each side."""

    ours: frozenset[FieldId] = frozenset()
    theirs: frozenset[FieldId] = frozenset()


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
    base: Sequence[Field], ours: Sequence[Field], theirs: Sequence[Field], known: Known
) -> list[Three]:
    """The fields of one level, each as the three states have it: ours' in their order, then those
    that ours has not."""
    of_ours, of_theirs = _paired(base, ours, known.ours), _paired(base, theirs, known.theirs)
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


def _paired(
    base: Sequence[Field], side: Sequence[Field], known: frozenset[FieldId]
) -> dict[FieldId, Field]:
    """The fields of the base, by the ids that a side has for them."""
    by_id = {each.id: each for each in base if each.id in known}
    found = {each.id: by_id[each.id] for each in side if each.id in by_id}
    claimed = {each.id for each in found.values()}
    by_name = {each.name: each for each in base if each.id not in claimed}
    for each in side:
        if each.id not in found and each.name in by_name:
            found[each.id] = by_name[each.name]
    return found


def go_together(three: Three) -> bool:
    """Whether at most one side changed the name of a field, and at most one its type, or both did
    the same."""
    base, ours, theirs = three.base, three.ours, three.theirs
    assert ours is not None
    assert theirs is not None
    if shape_of(ours) != shape_of(theirs) and (
        base is None or shape_of(base) not in (shape_of(ours), shape_of(theirs))
    ):
        return False
    return base is None or ours.name == theirs.name or base.name in (ours.name, theirs.name)


def is_plain_struct(each: Field) -> bool:
    """Whether its children have columns of their own, so that each of them can be taken alone."""
    return each.logical_type == "struct" and not each.is_packed and not each.is_blob_v2


def shape_of(each: Field, *, is_part: bool = False) -> object:
    """The type of a field, whatever the ids and the order of the fields inside of structs are.
    Lists and the like are taken as a whole: in ``is_part`` of them it counts what may be null."""
    layout = {key: each.metadata[key] for key in LAYOUT if key in each.metadata}
    is_part = is_part or not is_plain_struct(each)
    below = {
        child.name: (shape_of(child, is_part=is_part), is_part and child.nullable)
        for child in each.children
    }
    order = list(below) if is_part else None
    return each.logical_type, layout, below, order


def change_of(base: Field | None, side: Field | None) -> str:
    """What a side did to a field, for people."""
    if side is None:
        return "dropped"
    if base is None:
        return f"added as {_type_text(side)}"
    done = [f"renamed to {side.name}"] if side.name != base.name else []
    if shape_of(side) != shape_of(base):
        done.append(_type_text(side))
    return ", ".join(done) or "unchanged"


def naming_of(three: Three, side: Field | None) -> str:
    """How a side came to have a field of a name that the other one gave to another field."""
    if three.base is None:
        return change_of(None, side)
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
