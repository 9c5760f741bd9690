"""The columns that two versions of a table have in common, whatever they are called there.

A column is known by the one of the version that both come from, else by its name: two branches give
the same id to different new columns. Reads no data file.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from lancewood.engine.schema import merged_columns, merged_from_others, related_columns
from lancewood.engine.snapshot import Snapshot
from lancewood.model.fragment import Fragment
from lancewood.model.ids import FieldId
from lancewood.model.schema import Field
from lancewood.rules.lineage import (
    Lineage,
    Related,
    composed,
    paired,
    reversed_,
    shared,
    unchanged,
    untold_names,
)

_Place: TypeAlias = tuple[str, int, int] | None
"""File, its size, and column; None for a field that no file holds. The root does not count: a file
of the same name and size in another root is a copy. Our own moves give copies fresh names."""

_ALIKE = "rename, cast or drop columns until both sides have the same ones, and try again"


@dataclass(frozen=True)
class ColumnPair:
    """One column as two versions have it."""

    before: Field
    after: Field
    ids: Lineage = field(default_factory=dict)
    """From ids in the later version to those of the same fields in the earlier one, those inside
    of structs and lists included."""
    is_cast_before: bool = False
    """Whether it is the first state in which the column was cast, so that its type is the newer."""

    @property
    def name(self) -> str:
        """The name of the later version."""
        return self.after.name

    def compared(self) -> tuple[Field, Field]:
        """Both, with only the fields inside structs that both have: a new one changes no row."""
        return _common(self.before, self.after, self.ids)

    @property
    def is_alike(self) -> bool:
        """Whether both have the fields that are compared under the same ids, so that the same files
        hold the same values."""
        before, after = self.compared()
        return [each.id for each in before.walk()] == [each.id for each in after.walk()]


def paired_columns(
    one: Snapshot,
    other: Snapshot,
    common: Snapshot | None,
    asked: Collection[str] | None = None,
    way_out: str = _ALIKE,
) -> tuple[ColumnPair, ...]:
    """The columns that are the same in both, in the order of the later version.

    ``common`` is the version that both come from, if it is known. Raises UnsupportedError, which
    ends with ``way_out``, if nobody knows what became of a column; of those ``asked`` for alone.
    """

    def check(found: Related, of: Snapshot) -> None:
        told = found if asked is None else found.only(asked)
        told.check(f"the columns of {of.location.uri} cannot be followed", way_out)

    mine, theirs = (_origins(common, each) for each in (one, other))
    for each in (mine, theirs):
        check(each, one if common is None else common)
    merged = Related({}) if common is None else _merged(one, other, mine, theirs)
    check(merged, one)
    old = frozenset(mine.ids), frozenset(theirs.ids)
    ids = paired(one.schema, other.schema, shared(mine, theirs, merged.ids), old)
    known = one.schema.by_id
    return tuple(
        _paired(known[ids[each.id]], mine.ids, each, theirs.ids, ids)
        for each in other.schema.fields
        if each.id in ids
    )


def places(fragment: Fragment, field: Field) -> tuple[_Place, ...]:
    """Where a fragment holds a field and those below it: the same places hold the same values."""
    return tuple(_places(fragment, [each.id for each in field.walk()]))


def _places(fragment: Fragment, ids: Sequence[FieldId]) -> Iterator[_Place]:
    found: dict[int, _Place] = {}
    for file in fragment.message.files:
        for number, column in zip(file.fields, file.column_indices, strict=False):
            found[number] = file.path, file.file_size_bytes, column
    return (found.get(each) for each in ids)


def _origins(common: Snapshot | None, later: Snapshot) -> Related:
    """The lineage of a version back to the one that both come from."""
    if common is None:
        return Related({})
    return Related(unchanged(later.schema)) if common is later else related_columns(common, later)


def _merged(one: Snapshot, other: Snapshot, mine: Related, theirs: Related) -> Related:
    """The lineage of columns that both have, and not from the version that both come from: one
    merged them from the other, or both from a third line. Unknown where a merge is gone, and names
    do not tell."""
    news, olds = theirs.certain.keys(), mine.certain.keys()
    if news >= other.schema.by_id.keys() or olds >= one.schema.by_id.keys():
        return Related({})
    back = merged_columns(other, one)
    direct = merged_columns(one, other), None if back is None else reversed_(back)
    ways, found = [*direct, *merged_from_others(one, other)], dict[FieldId, FieldId]()
    for way in ways:
        found = {**(way or {}), **found}
    if None not in ways:
        return Related(found)
    certain = composed(theirs.certain, reversed_(mine.certain))
    return Related(found, untold_names(one.schema, other.schema, found, certain))


def _paired(
    before: Field, mine: Lineage, after: Field, theirs: Lineage, ids: Lineage
) -> ColumnPair:
    """The pair of two columns. One that was cast since both parted has another id."""
    below = {each.id: ids[each.id] for each in after.walk() if each.id in ids}
    is_cast = any(mine.get(each, each) != each for each in below.values())
    is_kept = all(theirs.get(each) == each for each in below)
    return ColumnPair(before, after, below, is_cast_before=is_cast and is_kept)


def _common(one: Field, other: Field, ids: Lineage) -> tuple[Field, Field]:
    if one.logical_type != other.logical_type or not one.children or one.is_blob or other.is_blob:
        return one, other
    known = {each.id: each for each in one.children}
    found = ((known.get(ids[each.id]), each) for each in other.children if each.id in ids)
    both = [_common(before, after, ids) for before, after in found if before is not None]
    return (
        replace(one, children=tuple(before for before, _ in both)),
        replace(other, children=tuple(after for _, after in both)),
    )
