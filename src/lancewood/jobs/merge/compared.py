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
from lancewood.rules.lineage import as_in, is_held, unheld


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
    known, earlier = _KnownIds(base), base.schema.by_id

    def absent(field: Field) -> Field:
        made = _absent(field, known)
        ids.update(zip((e.id for e in field.walk()), (e.id for e in made.walk()), strict=True))
        return made

    columns = []
    for each in state.schema.fields:
        before = as_in(each, ids, earlier, absent) or absent(each)
        is_cast = each.id in paired and paired[each.id].is_cast_before
        columns.append(ColumnPair(before, each, ids, is_cast_before=is_cast))
    return Comparing(base, state, common, tuple(columns))


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
    return replace(unheld(field), children=children)


def is_new(pair: ColumnPair) -> bool:
    """Whether the base does not have a column that it is compared in."""
    return pair.before is pair.after or not is_held(pair.before.id)


def changes_rows(columns: Iterable[ColumnPair], ours: Snapshot) -> bool:
    """Whether columns of theirs change rows of ours: new ones do not, unless ours has them too."""
    return not all(is_new(each) and each.name not in ours.schema.by_name for each in columns)
