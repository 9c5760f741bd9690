"""What else has to be stored when columns are dropped, so that the rows left stay what they are.

A fragment none of whose files is left cannot be read, and a struct is known to be there only
through something stored inside it. Where a drop takes the last such column of a fragment, one that
is null everywhere has to be written in its place. Pure: looks at ids, not into files.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from lancewood.engine.evolve import Chain, path_of
from lancewood.engine.new_columns import NewColumns, cut_to
from lancewood.model.fragment import Fragment
from lancewood.model.ids import FieldId
from lancewood.model.schema import Field, Schema


@dataclass(frozen=True)
class Drop:
    """A schema before and after columns were dropped from it."""

    before: Schema
    after: Schema

    @cached_property
    def live(self) -> frozenset[FieldId]:
        """The ids that are left."""
        return frozenset(each.id for each in self.after.walk())

    @cached_property
    def _live_leaves(self) -> frozenset[FieldId]:
        return frozenset().union(*map(_ids, self.after.fields))

    @cached_property
    def _cut_structs(self) -> tuple[tuple[Chain, frozenset[FieldId], frozenset[FieldId]], ...]:
        """Structs that lose some of their fields, the deepest first, with the ids they had and
        have."""
        found = []
        for chain in _structs(self.after):
            old = self.before.by_id[chain[-1].id]
            if len(list(old.walk())) > len(list(chain[-1].walk())):
                found.append((chain, _ids(old), _ids(chain[-1])))
        return tuple(reversed(found))

    def anchors(self, stored: frozenset[int]) -> frozenset[FieldId]:
        """The columns to write as nulls for a fragment whose files hold these fields."""
        wanted: set[FieldId] = set()
        for chain, had, has in self._cut_structs:
            if not stored.isdisjoint(had) and stored.isdisjoint(has) and wanted.isdisjoint(has):
                wanted.add(_nearest_leaf(chain[-1]).id)
        if not wanted and stored.isdisjoint(self._live_leaves):
            plain = (each for each in self.after.fields if not each.children and not each.is_blob)
            wanted.add(_nearest_leaf(next(plain, self.after.fields[0])).id)
        return frozenset(wanted)

    def columns(self, anchors: frozenset[FieldId]) -> NewColumns:
        """How the nulls are written."""
        flat, parents = [], []
        for chain in _nodes(self.after):
            if chain[-1].id in anchors:
                flat.append(replace(chain[-1], name=path_of(chain)))
                parents += [path_of(chain[:-1])] if len(chain) > 1 else []
        return NewColumns(
            self.after, cut_to(self.after, anchors), Schema(tuple(flat)), tuple(parents)
        )


def stored_fields(fragment: Fragment) -> frozenset[int]:
    """The fields that the files of a fragment hold."""
    return frozenset(each for file in fragment.message.files for each in file.fields)


def _ids(field: Field) -> frozenset[FieldId]:
    """Of what has values of its own; version 2.0 files list the structs around it too."""
    return frozenset(each.id for each in field.walk() if each.is_column_leaf)


def _nearest_leaf(field: Field) -> Field:
    while field.logical_type == "struct" and not field.is_column_leaf:
        plain = (each for each in field.children if not each.children and not each.is_blob)
        field = next(plain, field.children[0])
    return field


def _nodes(schema: Schema) -> Iterator[Chain]:
    def below(chain: Chain) -> Iterator[Chain]:
        yield chain
        if chain[-1].logical_type == "struct" and not chain[-1].is_column_leaf:
            for child in chain[-1].children:
                yield from below((*chain, child))

    for top in schema.fields:
        yield from below((top,))


def _structs(schema: Schema) -> Iterator[Chain]:
    return (
        each
        for each in _nodes(schema)
        if each[-1].logical_type == "struct" and not each[-1].is_column_leaf
    )
