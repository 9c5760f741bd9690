"""pylance as the engine of indices: it trains models, builds segments and makes one of several.

A segment is a directory below ``_indices/`` of the root that its version is in; what a manifest is
to say about it comes back. Nothing is committed here, and whether a change of an index is right is
decided in ``jobs.indexing``.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyroaring import BitMap

from lancewood.data.codec import StorageOptions
from lancewood.data.lance_dataset import DatasetAddress
from lancewood.errors import FormatError, LancewoodError, StorageError, UnsupportedError
from lancewood.format.tensor import decode_tensor
from lancewood.model.index import Index, IndexFile
from lancewood.model.index_kinds import BLOOMFILTER, INVERTED, ZONEMAP, IndexKind

if TYPE_CHECKING:
    import lance
    from lance.dataset import Index as TheirIndex
    from lance.file import LanceFileReader

SAMPLE_RATE, MAX_ITERATIONS, NUM_BITS = "sample_rate", "max_iterations", "num_bits"
_FOR_TRAINING = (SAMPLE_RATE, MAX_ITERATIONS)
_ROWS_PER_CENTROID, _ITERATIONS, _PQ_BITS, _RQ_BITS = 256, 50, 8, 5
_INDEX_CACHE_BYTES, _METADATA_CACHE_BYTES = 64 << 20, 256 << 20
_REFUSALS = ("Unprocessable", "LanceError(Index)")
_CODES = "auxiliary.idx"
"""The file of a segment with the codes of its vectors, and with what they are codes of."""
_TOLD_IN = {
    "INVERTED": "metadata.lance",
    "ZONEMAP": "zonemap.lance",
    "BLOOMFILTER": "bloomfilter.lance",
}
"""Kinds that have options, and the file of a segment that tells them."""


@dataclass(frozen=True)
class VectorSpec:
    """How the vectors of an index are compared, grouped and coded."""

    dimension: int
    metric: str
    partitions: int
    sub_vectors: int | None = None
    """Into how many parts product codes cut a vector; None for other kinds."""


@dataclass(frozen=True)
class IndexSpec:
    """An index to build, in the words of pylance. Small, and pickles."""

    name: str
    column: str
    kind: IndexKind
    options: Mapping[str, Any] = field(default_factory=dict)
    vectors: VectorSpec | None = None

    def __str__(self) -> str:
        return f"index {self.name!r} ({self.kind}) on column {self.column}"

    @property
    def codes(self) -> str | None:
        """How vectors are coded: PQ, SQ or RQ; None where they are kept as they are."""
        last = self.kind.name.rpartition("_")[2]
        return last if self.vectors is not None and last != "FLAT" else None

    @property
    def is_of_one_piece(self) -> bool:
        """Whether several segments find less than one over all fragments: measured with pylance
        14, whose recall fell from 0.97 to 0.54."""
        return self.vectors is not None and self.codes == "PQ" and self.vectors.metric == "dot"


@dataclass(frozen=True, eq=False)
class IndexModel:
    """What the segments of a vector index share; with one model they can become one."""

    centroids: pa.FixedSizeListArray
    codebook: pa.FixedSizeListArray | None = None
    rotation: str | None = field(default=None, repr=False)


def train_model(address: DatasetAddress, spec: IndexSpec, rows: int) -> IndexModel:
    """The model of a vector index, from a sample of the ``rows`` of a version."""
    vectors = _vectors(spec)
    with _working("train", spec, address):
        from lance.lance import indices

        dataset = _opened(address)._ds
        iterations = spec.options.get(MAX_ITERATIONS, _ITERATIONS)
        rate = spec.options.get(SAMPLE_RATE, _ROWS_PER_CENTROID)
        centroids = indices.train_ivf_model(
            dataset,
            spec.column,
            vectors.dimension,
            vectors.partitions,
            vectors.metric,
            max(2, min(rate, rows // vectors.partitions)),
            iterations,
        )
        codebook = None
        if spec.codes == "PQ":
            bits = spec.options.get(NUM_BITS, _PQ_BITS)
            assert vectors.sub_vectors is not None
            codebook = indices.train_pq_model(
                dataset,
                spec.column,
                vectors.dimension,
                vectors.sub_vectors,
                vectors.metric,
                max(2, min(rate, rows // 2**bits)),
                iterations,
                centroids,
                None,
                bits,
            )
        return IndexModel(centroids, codebook, _rotation(spec))


def committed_model(
    address: DatasetAddress,
    spec: IndexSpec,
    directory: str,
    storage_options: StorageOptions,
) -> IndexModel:
    """The model of an index that the version at the address has, from one of its segments, whose
    files are in ``directory``.

    A rotation of codes is no part of what was learned, and a new one is made.
    """
    with _working("read the model of", spec, address):
        centroids = _opened(address).get_ivf_model(spec.name).centroids
        codebook = None
        if spec.codes == "PQ":
            codebook = _read_codebook(f"{directory}/{_CODES}", storage_options, spec)
        return IndexModel(centroids, codebook, _rotation(spec))


def build_segment(
    address: DatasetAddress, spec: IndexSpec, model: IndexModel | None, fragments: Sequence[int]
) -> Index:
    """A new segment over some fragments of the version at the address."""
    settings: dict[str, Any] = {
        key: value for key, value in spec.options.items() if key not in _FOR_TRAINING
    }
    if spec.vectors is not None:
        assert model is not None
        settings.update(_vector_settings(spec.vectors, model))
    with _working("build", spec, address):
        from lance.indices import IndexConfig

        kind: Any = spec.kind.name
        if spec.kind in (ZONEMAP, BLOOMFILTER):
            kind, settings = IndexConfig(spec.kind.name, settings), {}
        dataset = _opened(address)
        made = dataset.create_index_uncommitted(
            spec.column,
            kind,
            name=uuid.uuid4().hex,  # pylance would compare it with an index of the same name
            fragment_ids=list(fragments),
            **settings,
        )
        if spec.kind == INVERTED:  # unfinished otherwise: its postings are in parts
            made = dataset.merge_existing_index_segments([made])
        return _ours(made, spec)


def told_options(
    spec: IndexSpec, directory: str, storage_options: StorageOptions
) -> Mapping[str, Any]:
    """The options that a segment was built with, as its files in ``directory`` tell them.

    Those of vectors are in the manifest.
    """
    name = _TOLD_IN.get(spec.kind.name)
    if name is None:
        return {}
    location = f"{directory}/{name}"
    try:
        told = _reader(location, storage_options).metadata().schema.metadata or {}
        if spec.kind == INVERTED:
            return dict(json.loads(told[b"params"]))
        if spec.kind == ZONEMAP:
            return {"rows_per_zone": int(told[b"rows_per_zone"])}
        return {
            "number_of_items": int(told[b"bloomfilter_item"]),
            "probability": float(told[b"bloomfilter_probability"]),
        }
    except (KeyError, ValueError, TypeError) as cause:
        text = f"{location} does not tell with which options {spec} was built"
        raise FormatError(f"{text}; build it anew", file=location, index=spec.name) from cause


def merge_segments(address: DatasetAddress, spec: IndexSpec, segments: Sequence[Index]) -> Index:
    """One new segment with what several hold; theirs stay as they are."""
    with _working("merge the segments of", spec, address):
        dataset = _opened(address)
        return _ours(dataset.merge_existing_index_segments([*map(_theirs, segments)]), spec)


def _opened(address: DatasetAddress) -> lance.LanceDataset:
    """The version, with caches that are small: a task reads what it needs once."""
    import lance

    return address.open(
        lance.Session(
            index_cache_size_bytes=_INDEX_CACHE_BYTES,
            metadata_cache_size_bytes=_METADATA_CACHE_BYTES,
        )
    )


def _vectors(spec: IndexSpec) -> VectorSpec:
    assert spec.vectors is not None, "asked of an index on vectors"
    return spec.vectors


def _rotation(spec: IndexSpec) -> str | None:
    if spec.codes != "RQ":
        return None
    from lance.lance import indices

    bits = spec.options.get(NUM_BITS, _RQ_BITS)
    return indices.build_rq_model(_vectors(spec).dimension, bits)


def _vector_settings(vectors: VectorSpec, model: IndexModel) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "metric": vectors.metric,
        "num_partitions": len(model.centroids),
        "ivf_centroids": model.centroids,
    }
    if model.codebook is not None:
        settings |= {"num_sub_vectors": vectors.sub_vectors, "pq_codebook": model.codebook}
    if model.rotation is not None:
        settings["rabitq_model"] = model.rotation
    return settings


def _read_codebook(
    location: str, storage_options: StorageOptions, spec: IndexSpec
) -> pa.FixedSizeListArray:
    """The codebook that the product codes of a segment were made with."""
    reader = _reader(location, storage_options)
    try:
        (stored,) = json.loads((reader.metadata().schema.metadata or {})[b"storage_metadata"])
        position = json.loads(stored)["codebook_position"]
    except (KeyError, ValueError, TypeError) as cause:
        raise FormatError(
            f"{location} does not say where its codebook is", file=location
        ) from cause
    numbers = decode_tensor(reader.read_global_buffer(position), location)
    vectors = _vectors(spec)
    bits = spec.options.get(NUM_BITS, _PQ_BITS)
    if numbers.size != vectors.dimension * 2**bits:
        raise FormatError(
            f"the codebook in {location} has {numbers.size} numbers, and codes of {bits} bits for "
            f"vectors of {vectors.dimension} have {vectors.dimension * 2**bits}",
            file=location,
        )
    return pa.FixedSizeListArray.from_arrays(pa.array(numbers.reshape(-1)), vectors.dimension)


def _reader(location: str, storage_options: StorageOptions) -> LanceFileReader:
    from lance.file import LanceFileReader

    options = dict(storage_options) if storage_options else None
    return LanceFileReader(location, storage_options=options)


def _ours(made: TheirIndex, spec: IndexSpec) -> Index:
    """What pylance says about a segment, as the manifest says it."""
    if made.index_details is None:
        raise FormatError(f"pylance built {spec} without saying of which kind it is")
    moment = made.created_at
    return Index.made(
        uuid.UUID(made.uuid),
        spec.name,
        made.fields,
        BitMap(list(made.fragment_ids)),
        dataset_version=made.dataset_version,
        details=made.index_details,
        index_version=made.index_version,
        created_at_ms=None if moment is None else int(moment.timestamp() * 1000),
        files=[IndexFile(each.path, each.size_bytes) for each in made.files or ()],
    )


def _theirs(index: Index) -> TheirIndex:
    """A segment as pylance knows it."""
    from lance.dataset import Index as TheirIndex
    from lance.dataset import IndexFile as TheirFile

    message = index.message
    created = message.created_at if message.HasField("created_at") else None
    return TheirIndex(
        uuid=str(index.uuid),
        name=index.name,
        fields=list(message.fields),
        dataset_version=message.dataset_version,
        fragment_ids=set(index.fragments),
        index_version=message.index_version,
        created_at=None if created is None else datetime.fromtimestamp(created / 1000, UTC),
        base_id=index.base_id,
        files=[TheirFile(path, size) for path, size in index.files] or None,
        index_details=(message.index_details.type_url, message.index_details.value),
        covering_fields=list(message.covering_fields),
    )


@contextmanager
def _working(verb: str, spec: IndexSpec, address: DatasetAddress) -> Iterator[None]:
    """Errors of pylance become ours: what it refuses is unsupported, anything else a failure of
    the store."""
    try:
        yield
    except (LancewoodError, MemoryError):
        raise
    except BaseException as cause:
        # A panic of pylance is a BaseException; every other BaseException passes.
        if not isinstance(cause, Exception) and type(cause).__name__ != "PanicException":
            raise
        text = f"pylance cannot {verb} {spec} in {address}: {cause}"
        refused = isinstance(cause, ImportError | ValueError | TypeError | NotImplementedError)
        refused = refused or any(each in str(cause) for each in _REFUSALS)
        kind = UnsupportedError if refused else StorageError
        raise kind(text, uri=address.uri, index=spec.name) from cause
