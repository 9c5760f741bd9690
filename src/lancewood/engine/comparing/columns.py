"""The columns that two versions of a table have in common, whatever they are called there.

A column is known by its id if the version that both come from has it, else by its name: two
branches give the same id to different new columns. Reads nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from lancewood.engine.schema import find_earlier
from lancewood.engine.snapshot import Snapshot
from lancewood.model.fragment import Fragment
from lancewood.model.ids import FieldId
from lancewood.model.schema import Field

_Place: TypeAlias = tuple[str, int, int] | None
"""File, its size, and column; None for a field that no file holds. A file that was moved to another
root keeps its name, which is like no other."""


@dataclass(frozen=True)
class ColumnPair:
    """One column as two versions have it."""

    before: Field
    after: Field

    @property
    def name(self) -> str:
        """The name of the later version."""
        return self.after.name

    def compared(self) -> tuple[Field, Field]:
        """Both, with only the fields inside structs that both have: a new one changes no row."""
        return _common(self.before, self.after)


def paired_columns(
    one: Snapshot, other: Snapshot, common: Snapshot | None
) -> tuple[ColumnPair, ...]:
    """The columns that are the same in both, in the order of the later version. ``common`` is the
    version that both come from, if it is known."""
    if common is None:
        mine, theirs = dict[FieldId, Field](), dict[str, FieldId]()
    else:
        mine = {known: one.schema.by_name[name] for name, known in _known(common, one).items()}
        theirs = dict(_known(common, other))
    pairs = {
        name: ColumnPair(mine[known], other.schema.by_name[name])
        for name, known in theirs.items()
        if known in mine
    }
    claimed = {each.before.name for each in pairs.values()}
    for each in other.schema.fields:
        before = one.schema.by_name.get(each.name)
        if before is not None and each.name not in pairs and before.name not in claimed:
            pairs[each.name] = ColumnPair(before, each)
    return tuple(pairs[each.name] for each in other.schema.fields if each.name in pairs)


def places(fragment: Fragment, field: Field) -> tuple[_Place, ...]:
    """Where a fragment holds a field and those below it: the same places hold the same values."""
    return tuple(_places(fragment, tuple(each.id for each in field.walk())))


def _places(fragment: Fragment, ids: tuple[FieldId, ...]) -> Iterator[_Place]:
    found: dict[int, _Place] = {}
    for file in fragment.message.files:
        for number, column in zip(file.fields, file.column_indices, strict=False):
            found[number] = file.path, file.file_size_bytes, column
    return (found.get(each) for each in ids)


def _known(common: Snapshot, later: Snapshot) -> Mapping[str, FieldId]:
    """The columns of a version by name, with their ids, as far as an earlier one has them under the
    same ids: one that was cast since has another."""
    known = {each.name: each.id for each in later.schema.fields}
    if common is later:
        return known
    found = find_earlier(common, later, later.schema)
    return {name: each.id for name, each in found.items() if each.id == known[name]}


def _common(one: Field, other: Field) -> tuple[Field, Field]:
    if {one.logical_type, other.logical_type} != {"struct"} or one.is_blob or other.is_blob:
        return one, other
    names = {each.name for each in other.children}
    mine = {each.id: each for each in one.children if each.name not in names}
    named = {each.name: each for each in one.children}
    pairs = ((named.get(each.name) or mine.get(each.id), each) for each in other.children)
    both = [_common(before, after) for before, after in pairs if before is not None]
    return (
        replace(one, children=tuple(before for before, _ in both)),
        replace(other, children=tuple(after for _, after in both)),
    )
