"""New columns of a table, checked: their names, ids and positions in the tree; and what has to be
stored when columns are dropped, so that the remaining rows stay the same.

A dotted name means a new field inside an existing struct. Values are passed flat, one array for
each new column under its dotted name; ``NewColumns.nested`` puts those of structs into place.

A fragment without files cannot be read, and whether a struct is null is only known from something
stored inside it. Where a drop takes the last such column of a fragment, one that is all null has to
be written in its place. Pure: reads and writes nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import pyarrow as pa

from lancewood.data.encodings import check_encoding_keys
from lancewood.data.writer import check_columns
from lancewood.engine.schema.evolve import (
    Chain,
    chains,
    find_column,
    is_in_structs,
    path_of,
    with_node,
)
from lancewood.errors import InvalidInputError, UnsupportedError
from lancewood.format.schema import encode_schema, schema_from_arrow, to_arrow_field
from lancewood.model.fragment import Fragment
from lancewood.model.ids import FieldId
from lancewood.model.schema import CLUSTERING_KEY_POSITION, Field, Schema, check_primary_key


@dataclass(frozen=True)
class NewColumns:
    """New columns of a table, planned."""

    schema: Schema
    """The whole schema afterwards."""
    written: Schema
    """What the new files hold: the new columns, and the structs around the nested ones."""
    flat: Schema
    """The new columns alone, under their dotted names."""
    parents: tuple[str, ...] = ()
    """The structs that get new fields, which are null where the structs are."""

    @property
    def is_nullable(self) -> bool:
        """Whether rows that were written without them stay valid."""
        return all(each.nullable for each in self.flat.fields)

    def nested(self, flat: pa.RecordBatch, parents: pa.RecordBatch | None) -> pa.RecordBatch:
        """Flat columns as the files hold them; a row whose struct is null stays null."""
        new = {each.id: each.name for each in self.flat.fields}
        arrays = []
        for top in self.written.fields:
            above = None if parents is None or top.id in new else parents.column(top.name)
            arrays.append(_nested(top, flat, above, new))
        fields = [to_arrow_field(each) for each in self.written.fields]
        return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def plan_new_columns(
    schema: Schema,
    columns: pa.Schema,
    *,
    first_id: int,
    file_version: str,
    are_null: bool = False,
) -> NewColumns:
    """The plan for new columns; ``are_null``: no file is written for them.

    Raises InvalidInputError for names that are taken, repeated or not allowed, UnsupportedError for
    types that the table's files cannot hold.
    """
    if not len(columns):
        raise InvalidInputError("no column to add was given")
    name, times = Counter(columns.names).most_common(1)[0]
    if times > 1:
        raise InvalidInputError(f"column {name!r} is to be added twice", column=name)
    after, flat, parents = schema, [], dict[str, None]()
    for arrow in columns:
        above, _, own = arrow.name.rpartition(".")
        _check_free(after, arrow.name, above)
        if are_null and not arrow.nullable:
            raise InvalidInputError(
                f"column {arrow.name!r} is to hold nulls only, but may not be null",
                column=arrow.name,
            )
        (made,) = schema_from_arrow(pa.schema([arrow.with_name(own)]), first_id=first_id).fields
        first_id = max(each.id for each in made.walk()) + 1
        flat.append(replace(made, name=arrow.name))
        if not above:
            after = Schema((*after.fields, made), after.metadata)
            continue
        _check_struct(after, arrow, above, file_version, are_null=are_null)
        parents[above] = None
        chain = find_column(after, above)
        holder = replace(chain[-1], children=(*chain[-1].children, made))
        after = with_node(after, chain, holder)
    new = Schema(tuple(flat))
    check_encoding_keys(new)
    _check_keys(after, new)
    written = cut_to(after, frozenset(each.id for each in new.walk()))
    check_columns(written, file_version)
    return NewColumns(after, written, new, tuple(parents))


def missing_columns(table: pa.Schema, rows: pa.Schema) -> pa.Schema:
    """The columns, and the fields of structs by their dotted names, that rows have and a table has
    not; all of them nullable, for the rows that are there have none.

    Raises InvalidInputError for a name that differs from a known one in case alone, or has a dot.
    """
    return pa.schema(_missing(table, rows, ""))


def _missing(known: Iterable[pa.Field], given: Iterable[pa.Field], above: str) -> list[pa.Field]:
    names = {each.name: each for each in known}
    folded = {each.casefold(): each for each in names}
    found = []
    for each in given:
        path, there = above + each.name, names.get(each.name)
        if there is not None:
            if pa.types.is_struct(there.type) and pa.types.is_struct(each.type):
                found += _missing(there.type, each.type, f"{path}.")
            continue
        alike = folded.get(each.name.casefold())
        if alike is not None or "." in each.name:
            why = "a name has no '.' in it" if alike is None else f"there is {above + alike!r}"
            raise InvalidInputError(
                f"column {path!r} cannot be added: {why}; rename it", column=path
            )
        found.append(each.with_name(path).with_nullable(True))
    return found


def _check_free(schema: Schema, name: str, above: str) -> None:
    siblings: Iterable[Field] = schema.fields
    if "." in name:
        if above.partition(".")[0] not in schema.by_name:
            raise InvalidInputError(
                f"column {name!r} cannot be added: there is no struct {above!r}, and a name of a "
                "column has no '.' in it",
                column=name,
            )
        siblings = find_column(schema, above)[-1].children
    if any(each.name == name.rpartition(".")[2] for each in siblings):
        raise InvalidInputError(
            f"column {name!r} exists already: join by it with on=, or change its values with "
            "update or replace_columns",
            column=name,
        )


def _check_struct(
    schema: Schema, arrow: pa.Field, above: str, file_version: str, *, are_null: bool
) -> None:
    chain = find_column(schema, above)
    parent = chain[-1]
    if parent.logical_type != "struct" or parent.is_column_leaf or not is_in_structs(chain):
        raise UnsupportedError(
            f"column {arrow.name!r} cannot be added: {above!r} is no plain struct", column=above
        )
    if not arrow.nullable:
        raise InvalidInputError(
            f"column {arrow.name!r} is inside a struct and must be nullable", column=arrow.name
        )
    if file_version == "2.0" and not are_null:
        raise UnsupportedError(
            f"column {arrow.name!r} cannot be added: a struct of version 2.0 files is in one file "
            "as a whole; add it as nulls, or a column of its own",
            column=arrow.name,
        )


def nulls_of(schema: Schema, struct: str, fragment: Fragment) -> str:
    """A field inside a struct that a fragment stores and that shows where the struct is null."""
    stored = {each for file in fragment.message.files for each in file.fields}
    first = ""
    waiting = [find_column(schema, struct)]
    while waiting:
        chain = waiting.pop()
        field = chain[-1]
        if field.logical_type == "struct" and not field.is_column_leaf:
            waiting += [(*chain, each) for each in reversed(field.children)]
        elif not field.is_blob:
            first = first or path_of(chain)
            if any(each.id in stored for each in field.walk()):
                return path_of(chain)
    return first


def _check_keys(after: Schema, new: Schema) -> None:
    """Raise InvalidInputError for new key columns in a table that has a key already."""
    added = {each.id for each in new.walk()}
    messages = encode_schema(after)
    check_primary_key(messages)
    for what, keys in (
        ("primary key", [each for each in messages if each.unenforced_primary_key]),
        ("clustering key", [each for each in messages if CLUSTERING_KEY_POSITION in each.metadata]),
    ):
        fresh = [each.name for each in keys if each.id in added]
        if fresh and len(fresh) < len(keys):
            raise InvalidInputError(
                f"column {fresh[0]!r} cannot become part of the {what}: the table has one, which "
                "cannot be changed once it is set",
                column=fresh[0],
            )


def cut_to(schema: Schema, ids: frozenset[FieldId]) -> Schema:
    """The fields with these ids, and only what encloses them."""
    tops = (_cut(each, ids) for each in schema.fields)
    return Schema(tuple(each for each in tops if each is not None))


def _cut(field: Field, ids: frozenset[FieldId]) -> Field | None:
    if field.id in ids:
        return field
    children = tuple(each for each in (_cut(child, ids) for child in field.children) if each)
    return replace(field, children=children) if children else None


def _nested(
    field: Field, flat: pa.RecordBatch, above: pa.Array | None, new: Mapping[FieldId, str]
) -> pa.Array:
    if field.id in new:
        return flat.column(new[field.id])
    assert above is not None, "a struct around a new field is read along with it"
    children = []
    for child in field.children:
        below = None if child.id in new else above.field(child.name)
        children.append(_nested(child, flat, below, new))
    return pa.StructArray.from_arrays(
        children,
        fields=[to_arrow_field(each) for each in field.children],
        mask=above.is_null() if above.null_count else None,
    )


@dataclass(frozen=True)
class Drop:
    """A schema before and after columns were dropped from it."""

    before: Schema
    after: Schema

    @cached_property
    def live(self) -> frozenset[FieldId]:
        """The ids that remain."""
        return frozenset(each.id for each in self.after.walk())

    @cached_property
    def _live_leaves(self) -> frozenset[FieldId]:
        return frozenset().union(*map(_ids, self.after.fields))

    @cached_property
    def _cut_structs(self) -> tuple[tuple[Chain, frozenset[FieldId], frozenset[FieldId]], ...]:
        """Structs that lose some of their fields, the deepest first, with their ids before and
        after."""
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
        """The columns of nulls as files hold them."""
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
    """The ids of fields that have values of their own; version 2.0 files list the structs around
    them too."""
    return frozenset(each.id for each in field.walk() if each.is_column_leaf)


def _nearest_leaf(field: Field) -> Field:
    while field.logical_type == "struct" and not field.is_column_leaf:
        plain = (each for each in field.children if not each.children and not each.is_blob)
        field = next(plain, field.children[0])
    return field


def _nodes(schema: Schema) -> Iterator[Chain]:
    return filter(is_in_structs, chains(schema))


def _structs(schema: Schema) -> Iterator[Chain]:
    return (
        each
        for each in _nodes(schema)
        if each[-1].logical_type == "struct" and not each[-1].is_column_leaf
    )
