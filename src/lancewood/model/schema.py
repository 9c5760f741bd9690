"""The schema of a table: a tree of fields with ids that outlive names.

``format.schema`` converts it to Arrow and to bytes. A column is found by id in data files; names
are only for callers. Of the keys of field metadata that the format knows by name, some are mirrored
in a field's message, and some may not change once rows were written under them. The keys of
encodings are not here: they are hints for ``data``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from lancewood.errors import InvalidInputError
from lancewood.model.ids import FieldId
from lancewood.proto import schema_pb2

BLOB = "lance-encoding:blob"
BLOB_V1_TYPES = ("large_binary", "binary")
BLOB_V2 = b"lance.blob.v2"
PACKED = "lance-encoding:packed"
OLD_PACKED = "packed"
"""The key that earlier writers used; the codec still honours it."""

ROW_ID = "_rowid"
ROW_ADDRESS = "_rowaddr"
CREATED_AT = "_row_created_at_version"
LAST_UPDATED_AT = "_row_last_updated_at_version"
SYSTEM_COLUMNS = (ROW_ID, ROW_ADDRESS, CREATED_AT, LAST_UPDATED_AT)
"""Columns that every row has without being stored; no stored column may have such a name."""


@dataclass(frozen=True)
class Field:
    """One node of the tree. ``children`` are in schema order."""

    id: FieldId
    name: str
    logical_type: str
    nullable: bool = True
    metadata: Mapping[str, bytes] = field(default_factory=dict)
    children: tuple[Field, ...] = ()
    message: schema_pb2.Field | None = field(default=None, compare=False, repr=False)
    """The message it was read from, so that unknown fields are written back."""

    def walk(self) -> Iterator[Field]:
        """The field and all below it, parents first."""
        yield self
        for child in self.children:
            yield from child.walk()

    @property
    def is_packed(self) -> bool:
        """Whether this is a struct stored as one physical column."""
        return self.logical_type == "struct" and any(
            self.metadata.get(key, b"").lower() == b"true" for key in (PACKED, OLD_PACKED)
        )

    @property
    def is_blob_v1(self) -> bool:
        """Whether the bytes are stored outside the pages of their file. Any value of the key
        counts, as it does for every writer so far."""
        return self.logical_type in BLOB_V1_TYPES and BLOB in self.metadata

    @property
    def is_blob_v2(self) -> bool:
        """Whether this is a struct of the blob v2 layout, stored as one physical column."""
        if self.logical_type != "struct":
            return False
        return self.metadata.get("ARROW:extension:name") == BLOB_V2 or BLOB in self.metadata

    @property
    def is_blob(self) -> bool:
        """Whether a scan returns descriptors of the values, and ``take_blobs`` the bytes."""
        return self.is_blob_v1 or self.is_blob_v2

    @property
    def is_column_leaf(self) -> bool:
        """Whether file versions 2.1 and later store the node as its own physical column."""
        return not self.children or self.is_packed or self.is_blob_v2


@dataclass(frozen=True)
class Schema:
    """The top-level fields and the schema's own metadata."""

    fields: tuple[Field, ...]
    metadata: Mapping[str, bytes] = field(default_factory=dict)

    def walk(self) -> Iterator[Field]:
        """Every field of the tree, depth first, parents before children."""
        for top in self.fields:
            yield from top.walk()

    def along(self, path: Sequence[str]) -> tuple[Field, ...]:
        """The nodes from a top-level column down to the end of an existing path."""
        nodes = [self.by_name[path[0]]]
        for name in path[1:]:
            nodes.append(next(each for each in nodes[-1].children if each.name == name))
        return tuple(nodes)

    @cached_property
    def by_id(self) -> Mapping[FieldId, Field]:
        """Every field of the tree by its id."""
        return {each.id: each for each in self.walk()}

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the top-level columns."""
        return tuple(each.name for each in self.fields)

    @cached_property
    def by_name(self) -> Mapping[str, Field]:
        """The top-level fields by name."""
        return {each.name: each for each in self.fields}


EXTENSION_NAME = "ARROW:extension:name"
EXTENSION_METADATA = "ARROW:extension:metadata"
PRIMARY_KEY = "lance-schema:unenforced-primary-key"
PRIMARY_KEY_POSITION = "lance-schema:unenforced-primary-key:position"
CLUSTERING_KEY_POSITION = "lance-schema:unenforced-clustering-key:position"

_FIXED = {
    EXTENSION_NAME: "it is part of the column's type",
    EXTENSION_METADATA: "it is part of the column's type",
    BLOB: "the files that are there are laid out by it",
    PACKED: "the files that are there are laid out by it",
    "packed": "the files that are there are laid out by it",
}

Fields = Sequence[schema_pb2.Field]


def mirror_metadata(message: schema_pb2.Field, before: Mapping[str, bytes]) -> None:
    """Set the fields of a field's message that mirror its metadata.

    ``before`` is the metadata that the message had: where a key was never set, what an unknown
    writer put in its field stays.
    """
    after = message.metadata
    message.extension_name = after.get(EXTENSION_NAME, b"").decode(errors="replace")
    if _any_in((PRIMARY_KEY, PRIMARY_KEY_POSITION), before, after):
        position = _position(after.get(PRIMARY_KEY_POSITION))
        is_key = position is not None or _is_true(after.get(PRIMARY_KEY, b""))
        message.unenforced_primary_key = is_key
        message.unenforced_primary_key_position = position or 0
    if _any_in((CLUSTERING_KEY_POSITION,), before, after):
        position = _position(after.get(CLUSTERING_KEY_POSITION))
        message.unenforced_clustering_key_position = position or 0


def check_metadata_change(before: Fields, after: Fields) -> None:
    """Raise InvalidInputError for a change of field metadata that existing rows forbid.

    Both lists hold the same fields, their messages mirrored.
    """
    for old, new in zip(before, after, strict=True):
        for key, why in _FIXED.items():
            if old.metadata.get(key) != new.metadata.get(key):
                raise InvalidInputError(
                    f"the metadata {key!r} of column {new.name!r} cannot be changed: {why}. "
                    "Write the table anew with it",
                    column=new.name,
                    key=key,
                )
    _check_key_change(before, after, "primary key", (PRIMARY_KEY, PRIMARY_KEY_POSITION))
    _check_key_change(before, after, "clustering key", (CLUSTERING_KEY_POSITION,))
    check_primary_key(after)


def check_primary_key(fields: Fields) -> None:
    """Raise InvalidInputError for a primary key that no row could have."""
    by_id = {each.id: each for each in fields}
    parents = {each.parent_id for each in fields}
    for each in fields:
        if not each.unenforced_primary_key:
            continue
        above: list[schema_pb2.Field] = []
        node: schema_pb2.Field | None = each
        while node is not None and node not in above:
            above.append(node)
            node = by_id.get(node.parent_id)
        why = None
        if each.id in parents:
            why = "it has columns below it"
        elif any(outer.logical_type != "struct" for outer in above[1:]):
            why = "it is inside a list"
        elif any(node.nullable for node in above):
            why = "it may be null"
        if why:
            raise InvalidInputError(
                f"column {each.name!r} cannot be a primary key: {why}", column=each.name
            )


def _check_key_change(before: Fields, after: Fields, what: str, keys: Sequence[str]) -> None:
    old = {each.id: _values(each, keys) for each in before if _is_key(each, keys)}
    new = {each.id: _values(each, keys) for each in after}
    if old and any(values != old.get(each, {}) for each, values in new.items()):
        raise InvalidInputError(
            f"the {what} of a table cannot be changed once it is set; write the table anew",
            key=keys[0],
        )
    for each in after:
        if not old and new[each.id] and not _is_key(each, keys):
            shown = ", ".join(f"{key!r} = {value!r}" for key, value in new[each.id].items())
            raise InvalidInputError(
                f"column {each.name!r}: {shown} does not make a {what}", column=each.name
            )


def _values(field: schema_pb2.Field, keys: Sequence[str]) -> dict[str, bytes]:
    return {key: field.metadata[key] for key in keys if key in field.metadata}


def _is_key(field: schema_pb2.Field, keys: Sequence[str]) -> bool:
    if PRIMARY_KEY in keys:
        return field.unenforced_primary_key
    return _position(field.metadata.get(CLUSTERING_KEY_POSITION)) is not None


def _any_in(keys: Sequence[str], *metadata: Mapping[str, bytes]) -> bool:
    return any(key in each for key in keys for each in metadata)


def _is_true(value: bytes) -> bool:
    return value.lower() in (b"true", b"1", b"yes")


def _position(value: bytes | None) -> int | None:
    """A position as the format counts it; None for anything that is not a 32-bit number."""
    if value is None or not value.isdigit() or len(value) > 10 or int(value) >= 1 << 32:
        return None
    return int(value)
