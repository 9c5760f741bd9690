"""Indices as manifests describe them, segment by segment, and the kinds that we build and search.

What we do not understand stays in the message and is written back unchanged. What may be done with
the segments of a kind was measured with pylance 14, which is the engine that builds them. Segments
of one index that hold the same row are told apart by some kinds only: *exact* ones answer with what
any segment says, so that a row must never be in two of them, however old one is.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Literal, NamedTuple, TypeAlias

from google.protobuf.message import DecodeError
from pyroaring import BitMap

from lancewood.errors import FormatError
from lancewood.model.bitmap import decode_bitmap
from lancewood.model.ids import BaseId, FieldId, Version
from lancewood.proto import index_pb2, table_pb2, transaction_pb2

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


class Merging(Enum):
    """Which segments can become one."""

    ALWAYS = "always"
    """Any segments; of vectors, those with one model."""
    CLEAN = "clean"
    """Segments whose rows have not changed since; a stale row would stay in the result for ever."""
    NEW = "new"
    """Segments that were just built with one model."""
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class IndexKind:
    """One kind of index, by the name that pylance has for it."""

    name: str
    details: str
    """The name of the message with which the manifest describes it."""
    merging: Merging
    is_exact: bool = False
    """A row in two segments is answered wrongly; by zone maps and filters, if it was null."""
    is_vector: bool = False

    @property
    def codes(self) -> str | None:
        """How vectors are coded: PQ, SQ or RQ; None where they are kept as they are."""
        last = self.name.rpartition("_")[2]
        return last if self.is_vector and last != "FLAT" else None

    @property
    def has_graph(self) -> bool:
        """Whether there is a graph of the vectors in each partition."""
        return self.is_vector and "HNSW" in self.name

    def __str__(self) -> str:
        return self.name


def _vectors(name: str, merging: Merging) -> IndexKind:
    return IndexKind(name, "VectorIndexDetails", merging, is_vector=True)


BTREE = IndexKind("BTREE", "BTreeIndexDetails", Merging.ALWAYS, is_exact=True)
BITMAP = IndexKind("BITMAP", "BitmapIndexDetails", Merging.ALWAYS, is_exact=True)
LABEL_LIST = IndexKind("LABEL_LIST", "LabelListIndexDetails", Merging.CLEAN, is_exact=True)
INVERTED = IndexKind("INVERTED", "InvertedIndexDetails", Merging.CLEAN, is_exact=True)
NGRAM = IndexKind("NGRAM", "NGramIndexDetails", Merging.ALWAYS)
ZONEMAP = IndexKind("ZONEMAP", "ZoneMapIndexDetails", Merging.CLEAN, is_exact=True)
BLOOMFILTER = IndexKind("BLOOMFILTER", "BloomFilterIndexDetails", Merging.CLEAN, is_exact=True)
IVF_FLAT = _vectors("IVF_FLAT", Merging.ALWAYS)
IVF_PQ = _vectors("IVF_PQ", Merging.NEW)
IVF_SQ = _vectors("IVF_SQ", Merging.NEVER)
IVF_RQ = _vectors("IVF_RQ", Merging.NEW)
IVF_HNSW_FLAT = _vectors("IVF_HNSW_FLAT", Merging.ALWAYS)
IVF_HNSW_PQ = _vectors("IVF_HNSW_PQ", Merging.NEW)
IVF_HNSW_SQ = _vectors("IVF_HNSW_SQ", Merging.NEVER)

KINDS: Mapping[str, IndexKind] = {
    each.name: each
    for each in (
        *(BTREE, BITMAP, LABEL_LIST, INVERTED, NGRAM, ZONEMAP, BLOOMFILTER),
        *(IVF_FLAT, IVF_PQ, IVF_SQ, IVF_RQ, IVF_HNSW_FLAT, IVF_HNSW_PQ, IVF_HNSW_SQ),
    )
}
_ALONE = {each.details: each for each in KINDS.values() if not each.is_vector}
_VECTORS = {
    ("whole", False): IVF_FLAT,
    ("product", False): IVF_PQ,
    ("scalar", False): IVF_SQ,
    ("rabit", False): IVF_RQ,
    ("whole", True): IVF_HNSW_FLAT,
    ("product", True): IVF_HNSW_PQ,
    ("scalar", True): IVF_HNSW_SQ,
}


METRICS = ("l2", "cosine", "dot", "hamming")
"""How vectors are compared, by the numbers that manifests have for it."""


def kind_of(index: Index) -> IndexKind | None:
    """The kind of an index, from the manifest alone; None for one that we do not know."""
    if index.kind != IVF_FLAT.details:
        return _ALONE.get(index.kind)
    details = vector_details(index)
    return _VECTORS.get((details.WhichOneof("stored") or "", details.HasField("graph")))


def kind_name(index: Index) -> str:
    """The kind of an index for people; that of one we do not know is called as its details are."""
    kind = kind_of(index)
    return index.kind if kind is None else kind.name


def vector_details(index: Index) -> index_pb2.VectorIndexDetails:
    """What a vector index says about itself; raises FormatError for bytes that say nothing."""
    try:
        return index_pb2.VectorIndexDetails.FromString(index.message.index_details.value)
    except DecodeError as cause:
        raise FormatError(f"the details of index {index.name!r} cannot be read: {cause}") from cause


def inverted_details(index: Index) -> index_pb2.InvertedIndexDetails:
    """What an index of words says about itself; raises FormatError for bytes that say nothing."""
    try:
        return index_pb2.InvertedIndexDetails.FromString(index.message.index_details.value)
    except DecodeError as cause:
        raise FormatError(f"the details of index {index.name!r} cannot be read: {cause}") from cause


def metric_of(index: Index) -> str:
    """How a vector index compares; raises FormatError for a way that is not known."""
    number = vector_details(index).metric
    if number >= len(METRICS):
        raise FormatError(
            f"index {index.name!r} compares by metric {number}, and known are {', '.join(METRICS)}"
        )
    return METRICS[number]
