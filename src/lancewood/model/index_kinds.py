"""The kinds of indices that we build and search, and what may be done with their segments.

Measured with pylance 14, which is the engine that builds them. Segments of one index that hold the
same row are told apart by some kinds only: *exact* ones answer with what any segment says, so that
a row must never be in two of them, however old one is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from google.protobuf.message import DecodeError

from lancewood.errors import FormatError
from lancewood.model.index import Index
from lancewood.proto import index_pb2


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
