"""The columns in which a state is compared with a base: also those that the base has not, as if it
had them without a value. Reads manifests and transactions only.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable
from dataclasses import dataclass, replace
from functools import cached_property

from lancewood.engine.comparing import ColumnPair, Comparing, paired_columns
from lancewood.engine.schema import next_field_id
from lancewood.engine.snapshot import Snapshot, common_version
from lancewood.model.ids import FieldId
from lancewood.model.schema import Field

_UNHELD = -1_000
"""Ids from here downwards are in no data file, so that fields with them are read as null."""


def comparing(base: Snapshot, state: Snapshot, new: Collection[FieldId] = frozenset()) -> Comparing:
    """The comparison of a base with a state that comes from it, with all columns of the state.

    Those that the base has not, and such fields inside structs, are compared as if it had them,
    without a value; so are ``new`` ones of the state, whatever the base has.
    """
    common = common_version(base, state)
    known = _KnownIds(base)
    paired = [each for each in paired_columns(base, state, common) if each.after.id not in new]
    names = {each.name for each in paired}
    fresh = (each for each in state.schema.fields if each.name not in names)
    columns = (
        *(replace(each, before=_filled(each, new, known)) for each in paired),
        *(ColumnPair(_absent(each, known), each) for each in fresh),
    )
    return Comparing(base, state, common, columns)


def _filled(pair: ColumnPair, new: Collection[FieldId], known: Container[FieldId]) -> Field:
    """The earlier column with all fields that the later one has inside of its structs."""

    def fill(one: Field, other: Field) -> Field:
        if {one.logical_type, other.logical_type} != {"struct"} or one.is_blob or other.is_blob:
            return one
        by_id = {each.id: each for each in one.children if each.id in pair.kept}
        claimed = by_id.keys() & {each.id for each in other.children}
        by_name = {each.name: each for each in one.children if each.id not in claimed}
        children = []
        for each in other.children:
            older = by_id[each.id] if each.id in claimed else by_name.get(each.name)
            if older is None or each.id in new:
                children.append(_absent(each, known))
            else:
                children.append(fill(older, each))
        return replace(one, children=tuple(children))

    return fill(pair.before, pair.after)


@dataclass(frozen=True, eq=False)
class _KnownIds:
    """The ids of fields that a state gave out: its files may hold columns that were dropped."""

    state: Snapshot

    def __contains__(self, number: object) -> bool:
        is_known = number in self.state.schema.by_id
        return is_known or (isinstance(number, int) and number < self._next)

    @cached_property
    def _next(self) -> int:
        return next_field_id(self.state.manifest)


def _absent(field: Field, known: Container[FieldId]) -> Field:
    """A field under ids that no file of the base has."""
    if field.id not in known:
        return field
    children = tuple(_absent(each, known) for each in field.children)
    return replace(field, id=FieldId(_UNHELD - field.id), children=children)


def is_new(pair: ColumnPair) -> bool:
    """Whether the base does not have a column that it is compared in."""
    return pair.before is pair.after or pair.before.id <= _UNHELD


def changes_rows(columns: Iterable[ColumnPair], ours: Snapshot) -> bool:
    """Whether columns of theirs change rows of ours: new ones do not, unless ours has them too."""
    return not all(is_new(each) and each.name not in ours.schema.by_name for each in columns)
