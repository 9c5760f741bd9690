"""The schema of a table: a tree of fields with ids that outlive names.

``format.arrow`` converts it to Arrow, ``format.schema`` to bytes. A column is found by id in data
files; names are only for callers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

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
