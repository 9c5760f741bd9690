"""Indices as manifests describe them, segment by segment.

What we do not understand stays in the message and is written back unchanged.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from pyroaring import BitMap

from lancewood.errors import FormatError
from lancewood.model.bitmap import decode_bitmap
from lancewood.model.ids import BaseId, FieldId, Version
from lancewood.proto import table_pb2, transaction_pb2

MEM_WAL = "__lance_mem_wal"
FRAGMENT_REUSE = "__lance_frag_reuse"
SYSTEM_INDICES = frozenset({FRAGMENT_REUSE, MEM_WAL})
"""What the format keeps among the indices, and is none."""
RowNames: TypeAlias = Literal["ids", "addresses"]
_ROW_NAMES: Mapping[str, Mapping[int, RowNames]] = {
    "BTreeIndexDetails": {1: "addresses"},
    "ZoneMapIndexDetails": {0: "addresses"},
    "BloomFilterIndexDetails": {0: "addresses"},
    "BitmapIndexDetails": {0: "ids"},
    "LabelListIndexDetails": {1: "ids"},
    "InvertedIndexDetails": dict.fromkeys((1, 2, 3), "ids"),
    "NGramIndexDetails": {0: "ids"},
    "VectorIndexDetails": dict.fromkeys((1, 2), "ids"),
}
"""How the content of an index names rows of a table with stable ids, for each version of which that
is known: measured by what pylance 14 does to them when rows move. The oldest BTREE is not among
them: nothing says which of its ids have been given to other rows since."""


class IndexFile(NamedTuple):
    """A file in the directory of a segment."""

    path: str
    size: int


@dataclass(frozen=True, slots=True)
class Index:
    """One segment of a secondary index."""

    message: table_pb2.IndexMetadata

    @classmethod
    def made(
        cls,
        identity: uuid.UUID,
        name: str,
        fields: Iterable[int],
        fragments: BitMap,
        *,
        dataset_version: int,
        details: tuple[str, bytes],
        index_version: int,
        created_at_ms: int | None,
        files: Iterable[IndexFile],
    ) -> Index:
        """A segment that was just built, with its files in the own root of its table.

        ``details`` are the type url of its details message and the bytes of that.
        """
        message = table_pb2.IndexMetadata(
            fields=fields,
            name=name,
            dataset_version=dataset_version,
            fragment_bitmap=fragments.serialize(),
            index_version=index_version,
            created_at=created_at_ms,
            files=[table_pb2.IndexFile(path=path, size_bytes=size) for path, size in files],
        )
        message.uuid.uuid = identity.bytes
        message.index_details.type_url, message.index_details.value = details
        return cls(message)

    @property
    def uuid(self) -> uuid.UUID:
        raw = self.message.uuid.uuid
        if len(raw) != 16:
            raise FormatError(f"index {self.name!r} has a uuid of {len(raw)} bytes, not 16")
        return uuid.UUID(bytes=raw)

    @property
    def name(self) -> str:
        return self.message.name

    @property
    def fields(self) -> tuple[FieldId, ...]:
        return tuple(FieldId(each) for each in self.message.fields)

    @property
    def dataset_version(self) -> Version:
        return Version(self.message.dataset_version)

    @property
    def kind(self) -> str:
        """The name of its details message, for example ``BTreeIndexDetails``."""
        return self.message.index_details.type_url.rpartition("/")[2].rpartition(".")[2]

    @property
    def base_id(self) -> BaseId | None:
        return BaseId(self.message.base_id) if self.message.HasField("base_id") else None

    @property
    def fragments(self) -> BitMap:
        """The ids of the fragments it covers; some may no longer exist."""
        if not self.message.fragment_bitmap:
            return BitMap()
        return decode_bitmap(
            self.message.fragment_bitmap, f"the fragment bitmap of index {self.name!r}"
        )

    @property
    def row_names(self) -> RowNames | None:
        """How the content of the index names rows where ids are stable; None if unknown."""
        if not self.message.HasField("index_version"):
            return None
        return _ROW_NAMES.get(self.kind, {}).get(self.message.index_version)

    @property
    def holds_row_ids(self) -> bool:
        """Whether the index names rows by id where ids are stable. What is not known counts as
        holding addresses, which costs a scan and is never wrong."""
        return self.row_names == "ids"

    @property
    def files(self) -> tuple[IndexFile, ...]:
        """Files of the index, below its directory; none where a writer did not record them."""
        return tuple(IndexFile(each.path, each.size_bytes) for each in self.message.files)

    def under(self, base_id: BaseId | None) -> Index:
        """This index with its files under another base path; None is the own root."""
        copy = table_pb2.IndexMetadata()
        copy.CopyFrom(self.message)
        copy.ClearField("base_id")
        if base_id is not None:
            copy.base_id = base_id
        return Index(copy)

    def covering(self, fragments: BitMap) -> Index:
        copy = table_pb2.IndexMetadata()
        copy.CopyFrom(self.message)
        copy.fragment_bitmap = fragments.serialize()
        return Index(copy)

    def built_at(self, version: Version) -> Index:
        """This index, said to be built at another version."""
        copy = table_pb2.IndexMetadata()
        copy.CopyFrom(self.message)
        copy.dataset_version = version
        return Index(copy)

    def with_file(self, file: IndexFile) -> Index:
        copy = table_pb2.IndexMetadata()
        copy.CopyFrom(self.message)
        copy.files.add(path=file.path, size_bytes=file.size)
        return Index(copy)

    def touches(self, fields: frozenset[FieldId]) -> bool:
        """Whether one of the fields is indexed or covered by the index."""
        return not fields.isdisjoint(self.message.fields) or not fields.isdisjoint(
            self.message.covering_fields
        )


@dataclass(frozen=True, slots=True)
class RewrittenIndex:
    """An index whose content was rewritten together with the fragments it covers."""

    message: transaction_pb2.Transaction.Rewrite.RewrittenIndex

    @property
    def old_uuid(self) -> bytes:
        """The uuid that the index had before."""
        return self.message.old_id.uuid
