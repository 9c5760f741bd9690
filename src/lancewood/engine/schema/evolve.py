"""The schema after a change of columns: dropped, renamed, of another type.

Decides by names, ids and the tree of fields which changes the format allows. Pure: reads and writes
nothing. New columns are planned in ``new_columns``.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import pyarrow as pa

from lancewood.data.writer import check_columns
from lancewood.engine.base import as_list
from lancewood.engine.schema.projection import unknown_column
from lancewood.errors import InvalidInputError, UnsupportedError
from lancewood.format.logical_type import list_size_of_structs
from lancewood.format.schema import check_names, encode_schema, schema_from_arrow, to_arrow_field
from lancewood.model.ids import FieldId
from lancewood.model.manifest import FLAG_FIELD_IDS_NOT_REUSED, Manifest
from lancewood.model.schema import (
    BLOB,
    CLUSTERING_KEY_POSITION,
    EXTENSION_METADATA,
    EXTENSION_NAME,
    Field,
    Schema,
    check_primary_key,
)

Chain: TypeAlias = tuple[Field, ...]
"""The nodes from a top-level column down to a nested one."""


def next_field_id(manifest: Manifest) -> int:
    """The lowest id that no field of the schema or of a data file has or had."""
    highest = max((each.id for each in manifest.fields), default=-1)
    if manifest.writer_flags & FLAG_FIELD_IDS_NOT_REUSED:
        highest = max(highest, manifest.message.max_allocated_field_id)
    for fragment in manifest.fragments:
        for file in fragment.message.files:
            highest = max((highest, *file.fields))
    return highest + 1


def chains(schema: Schema) -> Iterator[Chain]:
    """The chains to all nodes of the tree, depth first, parents before children."""

    def below(chain: Chain) -> Iterator[Chain]:
        yield chain
        for child in chain[-1].children:
            yield from below((*chain, child))

    for top in schema.fields:
        yield from below((top,))


def find_field(schema: Schema, number: FieldId) -> Chain | None:
    """The field with an id; None if the schema has none."""
    return next((each for each in chains(schema) if each[-1].id == number), None)


def find_column(schema: Schema, name: str) -> Chain:
    """The column of a dotted path; the item of a list is below it under its own name.

    Raises InvalidInputError, with the nearest existing name.
    """
    if not isinstance(name, str):
        raise InvalidInputError(f"a column is named by text, got {name!r}")
    known: dict[str, Chain] = {}
    for chain in chains(schema):
        known.setdefault(path_of(chain), chain)
    if name in known:
        return known[name]
    raise unknown_column(schema, name, list(known))


def path_of(chain: Chain) -> str:
    """The dotted path of a node."""
    return ".".join(each.name for each in chain)


def is_in_structs(chain: Chain) -> bool:
    """Whether all ancestors of the node are structs whose children have their own columns."""
    return all(each.logical_type == "struct" and not each.is_column_leaf for each in chain[:-1])


def drop_columns(schema: Schema, names: Sequence[str]) -> Schema:
    """The schema without these columns, and without structs and lists that become empty.

    Raises InvalidInputError for an unknown or repeated name, for a part of a table's key, for a
    field that cannot be dropped by itself, and if no column would be left.
    """
    asked = as_list("drop_columns", names)
    if not asked:
        raise InvalidInputError("drop_columns needs the name of at least one column")
    dropped: dict[FieldId, str] = {}
    for name in asked:
        chain = find_column(schema, name)
        if chain[-1].id in dropped:
            raise InvalidInputError(f"column {name!r} is asked for twice", column=name)
        _check_by_itself(chain, "dropped")
        _check_no_key(chain, name)
        dropped[chain[-1].id] = name
    kept = tuple(_pruned(each, dropped) for each in schema.fields)
    left = tuple(each for each in kept if each is not None)
    if not left:
        raise InvalidInputError(
            f"dropping {', '.join(map(repr, asked))} would leave no column; drop the table instead"
        )
    return Schema(left, schema.metadata)


def rename_column(schema: Schema, old: str, new: str) -> Schema:
    """The schema with another name for one column; ``new`` is the name alone, without a path.

    Raises InvalidInputError for an unknown column, a name that is taken at its level, and an
    invalid name.
    """
    chain = find_column(schema, old)
    if not isinstance(new, str) or not new:
        raise InvalidInputError(f"a column's new name must be a text, got {new!r}")
    if "." in new:
        way = f", give {new.rpartition('.')[2]!r} alone" if len(chain) > 1 else ""
        raise InvalidInputError(
            f"column {old!r} cannot be called {new!r}: a name has no '.' in it{way}", column=old
        )
    _check_by_itself(chain, "renamed")
    siblings = chain[-2].children if len(chain) > 1 else schema.fields
    if any(each.name == new and each.id != chain[-1].id for each in siblings):
        raise InvalidInputError(
            f"column {old!r} cannot be called {new!r}: there is a column of that name already",
            column=old,
        )
    changed = with_node(schema, chain, replace(chain[-1], name=new))
    check_names(changed)
    return changed


@dataclass(frozen=True)
class Cast:
    """A column of another type: its new field ids, and what has to be rewritten."""

    schema: Schema
    """The whole schema afterwards."""
    read: Schema
    """The old column, cut to what is read."""
    written: Schema
    """The column with the new type, as the new files hold it."""


def cast_column(
    schema: Schema, name: str, kind: pa.DataType, *, first_id: int, file_version: str
) -> Cast | None:
    """The change of a column's type; None if it has that type already.

    A field inside plain structs is written alone; one inside a list or a map, or of a table of
    version 2.0 files, with its whole top-level column. Metadata and nullability stay. Raises
    InvalidInputError for types between which there is no cast, UnsupportedError for what the
    table's files cannot hold.
    """
    chain = find_column(schema, name)
    if not isinstance(kind, pa.DataType):
        raise InvalidInputError(f"cast_column takes a pyarrow type, got {kind!r}")
    old = to_arrow_field(chain[-1])
    blob = next((each for top in chain[:1] for each in top.walk() if each.is_blob), None)
    if blob is not None:
        raise UnsupportedError(f"column {name!r} holds blobs, which are not cast", column=name)
    new = _of_type(chain[-1], kind, first_id, name)
    if to_arrow_field(new).type == old.type:
        return None
    changed = with_node(schema, chain, new)
    if not _is_castable(old.type, to_arrow_field(new).type):
        raise InvalidInputError(
            f"column {name!r} is {old.type}, which cannot be cast to {kind}; add a column with an "
            "SQL expression instead",
            column=name,
        )
    if is_in_structs(chain) and file_version != "2.0":
        read, written = _only(chain, chain[-1]), _only(chain, new)
    else:
        at = schema.fields.index(chain[0])
        read, written = chain[0], changed.fields[at]
    check_columns(Schema((written,)), file_version)
    check_primary_key(encode_schema(changed))
    return Cast(changed, Schema((read,)), Schema((written,)))


def with_node(schema: Schema, chain: Chain, new: Field) -> Schema:
    """The schema with another node at the end of the chain."""
    for parent, old in zip(reversed(chain[:-1]), reversed(chain), strict=False):
        children = tuple(new if each is old else each for each in parent.children)
        new = replace(parent, children=children)
    return Schema(
        tuple(new if each is chain[0] else each for each in schema.fields), schema.metadata
    )


def _only(chain: Chain, leaf: Field) -> Field:
    """The top-level column reduced to the path to one node."""
    for parent in reversed(chain[:-1]):
        leaf = replace(parent, children=(leaf,))
    return leaf


def _of_type(field: Field, kind: pa.DataType, first_id: int, path: str) -> Field:
    """The field with another type, under new ids."""
    kept = {
        key: value
        for key, value in field.metadata.items()
        if key not in (EXTENSION_NAME, EXTENSION_METADATA)
    }
    arrow = pa.field(field.name, kind, field.nullable, kept or None)
    (made,) = schema_from_arrow(pa.schema([arrow]), first_id=first_id).fields
    if made.is_blob or BLOB in made.metadata:
        raise UnsupportedError(f"column {path!r} cannot be made a blob by a cast", column=path)
    return made


def _is_castable(old: pa.DataType, new: pa.DataType) -> bool:
    try:
        pa.nulls(0, old).cast(new)
    except (pa.ArrowException, TypeError, ValueError):
        return False
    return True


def _pruned(field: Field, dropped: Container[FieldId]) -> Field | None:
    if field.id in dropped:
        return None
    if not field.children:
        return field
    children = tuple(_pruned(each, dropped) for each in field.children)
    left = tuple(each for each in children if each is not None)
    if not left:
        return None
    return field if left == field.children else replace(field, children=left)


def _check_by_itself(chain: Chain, verb: str) -> None:
    """Raise InvalidInputError for a node that files do not store apart from its siblings."""
    why = None
    for parent in chain[:-1]:
        if parent.logical_type == "map":
            why = f"it is part of the map {parent.name!r}"
        elif parent.is_packed or parent.is_blob:
            why = f"{parent.name!r} is stored as one column"
        elif list_size_of_structs(parent.logical_type) is not None:
            why = f"it is inside the fixed-size list {parent.name!r}"
    if why is None and len(chain) > 1 and chain[-2].logical_type != "struct":
        why = f"it is the item of the list {chain[-2].name!r}"
    if why:
        path = path_of(chain)
        raise InvalidInputError(f"column {path!r} cannot be {verb}: {why}", column=path)


def _check_no_key(chain: Chain, name: str) -> None:
    for message in encode_schema(Schema((chain[-1],))):
        for is_part, key in (
            (message.unenforced_primary_key, "primary key"),
            (CLUSTERING_KEY_POSITION in message.metadata, "clustering key"),
        ):
            if is_part:
                raise InvalidInputError(
                    f"column {name!r} cannot be dropped: {message.name!r} is part of the table's "
                    f"{key}, which cannot be changed once it is set; write the table anew",
                    column=name,
                )
