"""The columns that two versions of a table have in common, whatever they are called there.

A column is known by the one of the version that both come from, else by its name: two branches give
the same id to different new columns. Reads no data file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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
    kept: frozenset[FieldId] = frozenset()
    """The ids that mean the same field in both, those inside structs included: both have them from
    the version that they come from. A column without any is only called the same."""
    is_cast_before: bool = False
    """Whether it is the first state in which the column was cast, so that its type is the newer."""

    @property
    def name(self) -> str:
        """The name of the later version."""
        return self.after.name

    def compared(self) -> tuple[Field, Field]:
        """Both, with only the fields inside structs that both have: a new one changes no row."""
        return _common(self.before, self.after, self.kept)

    @property
    def is_alike(self) -> bool:
        """Whether both have the fields that are compared under the same ids, so that the same files
        hold the same values."""
        before, after = self.compared()
        return [each.id for each in before.walk()] == [each.id for each in after.walk()]


def paired_columns(
    one: Snapshot, other: Snapshot, common: Snapshot | None
) -> tuple[ColumnPair, ...]:
    """The columns that are the same in both, in the order of the later version. ``common`` is the
    version that both come from, if it is known."""
    mine, theirs = (_origins(common, each) for each in (one, other))
    by_origin = {mine[each.name].id: each for each in one.schema.fields if each.name in mine}
    pairs = dict[str, ColumnPair]()
    for each in other.schema.fields:
        before = by_origin.get(theirs[each.name].id) if each.name in theirs else None
        if before is not None:
            pairs[each.name] = _paired(before, mine[before.name], each, theirs[each.name])
    claimed = {each.before.name for each in pairs.values()}
    for each in other.schema.fields:
        before = one.schema.by_name.get(each.name)
        if before is not None and each.name not in pairs and before.name not in claimed:
            pairs[each.name] = ColumnPair(before, each)
    return tuple(pairs[each.name] for each in other.schema.fields if each.name in pairs)


def places(fragment: Fragment, field: Field) -> tuple[_Place, ...]:
    """Where a fragment holds a field and those below it: the same places hold the same values."""
    return tuple(_places(fragment, [each.id for each in field.walk()]))


def _places(fragment: Fragment, ids: Sequence[FieldId]) -> Iterator[_Place]:
    found: dict[int, _Place] = {}
    for file in fragment.message.files:
        for number, column in zip(file.fields, file.column_indices, strict=False):
            found[number] = file.path, file.file_size_bytes, column
    return (found.get(each) for each in ids)


def _origins(common: Snapshot | None, later: Snapshot) -> Mapping[str, Field]:
    """What the version that both come from has for each column of a later one."""
    if common is None:
        return {}
    return later.schema.by_name if common is later else find_earlier(common, later, later.schema)


def _paired(before: Field, earlier: Field, after: Field, later: Field) -> ColumnPair:
    """The pair of two columns that come from the same one. One that was cast since has another
    id, and so none in common with it."""
    if before.id == earlier.id and after.id == later.id:
        kept = _ids(before) & _ids(earlier) & _ids(after) & _ids(later)
        return ColumnPair(before, after, kept)
    return ColumnPair(before, after, is_cast_before=after.id == later.id)


def _ids(field: Field) -> frozenset[FieldId]:
    return frozenset(each.id for each in field.walk())


def _common(one: Field, other: Field, kept: frozenset[FieldId]) -> tuple[Field, Field]:
    if {one.logical_type, other.logical_type} != {"struct"} or one.is_blob or other.is_blob:
        return one, other
    by_id = {each.id: each for each in one.children if each.id in kept}
    claimed = by_id.keys() & {each.id for each in other.children}
    by_name = {each.name: each for each in one.children if each.id not in claimed}
    pairs = (
        (by_id[each.id] if each.id in claimed else by_name.get(each.name), each)
        for each in other.children
    )
    both = [_common(before, after, kept) for before, after in pairs if before is not None]
    return (
        replace(one, children=tuple(before for before, _ in both)),
        replace(other, children=tuple(after for _, after in both)),
    )
