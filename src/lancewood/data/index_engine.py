"""pylance as the engine of indices: it trains models, builds segments and makes one of several.

A segment is a directory below ``_indices/`` of the root that its version is in; what a manifest is
to say about it comes back. Nothing is committed here, and whether a change of an index is right is
decided in ``jobs.index``.

pylance's own dataset class is opened here alone, for the engine and for people who ask for it; no
other table operation is built on it. What the files of a segment tell (with which options it was
built, and with which model) pylance does not tell, or not for every column. The files are Lance
files; what they tell is in the metadata of their schemas and in their global buffers.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from numpy.typing import NDArray
from pyroaring import BitMap

from lancewood.data.codec import FileReader, StorageOptions, Translated, not_imported, open_reader
from lancewood.errors import (
    FormatError,
    LancewoodError,
    NotFoundError,
    StorageError,
    UnsupportedError,
)
from lancewood.format.container import decode_centroids, decode_tensor
from lancewood.model.ids import Version
from lancewood.model.index import BLOOMFILTER, INVERTED, ZONEMAP, Index, IndexFile, IndexKind

if TYPE_CHECKING:
    import lance
    from lance.dataset import Index as TheirIndex


@dataclass(frozen=True)
class DatasetAddress:
    """Where pylance finds one version of a table. Small, and pickles."""

    uri: str
    """The root of main."""
    version: Version
    branch: str | None = None
    """None: main."""
    storage_options: StorageOptions = field(default=None, repr=False)
    base_options: Mapping[str, Mapping[str, str]] = field(default_factory=dict, repr=False)
    """Storage options by base path, where they differ from the table's."""

    def open(self, session: lance.Session | None = None) -> lance.LanceDataset:
        """pylance's dataset at exactly this version.

        Raises NotFoundError where pylance finds no such version, StorageError where it fails
        otherwise, UnsupportedError where there is no pylance.
        """
        options: dict[str, Any] = {
            "storage_options": dict(self.storage_options) if self.storage_options else None,
            "session": session,
        }
        if self.base_options:
            options["base_store_params"] = {
                path: dict(each) for path, each in self.base_options.items()
            }
        with Translated(self._judge):
            import lance

            if self.branch is None:
                return lance.dataset(self.uri, version=int(self.version), **options)
            found = lance.dataset(self.uri, **options)
            return found.checkout_version((self.branch, int(self.version)))

    def _judge(self, text: str, cause: BaseException) -> LancewoodError:
        if isinstance(cause, ImportError):
            return not_imported(f"cannot open {self}", text, uri=self.uri)
        if "not found" in text.lower():
            return NotFoundError(f"{self} not found by pylance: {text}", uri=self.uri)
        return StorageError(f"pylance cannot open {self}: {text}", uri=self.uri)

    def __str__(self) -> str:
        on = f" on branch {self.branch!r}" if self.branch else ""
        return f"version {self.version} of {self.uri}{on}"


_PARTITIONS, _CODES = "index.idx", "auxiliary.idx"
"""The files with the partitions of a vector index, and with the codes of its vectors."""
_TOLD_IN: Mapping[IndexKind, str] = {
    INVERTED: "metadata.lance",
    ZONEMAP: "zonemap.lance",
    BLOOMFILTER: "bloomfilter.lance",
}
"""Kinds that have options, and the file of a segment that tells them."""


def told_options(
    kind: IndexKind, directory: str, storage_options: StorageOptions
) -> Mapping[str, Any]:
    """The options that a segment was built with, as its files in ``directory`` tell them.

    Those of vectors are in the manifest.
    """
    name = _TOLD_IN.get(kind)
    if name is None:
        return {}
    location = f"{directory}/{name}"
    told = open_reader(location, None, storage_options).facts.schema.metadata
    try:
        if kind == INVERTED:
            return dict(json.loads(told["params"]))
        if kind == ZONEMAP:
            return {"rows_per_zone": int(told["rows_per_zone"])}
        return {
            "number_of_items": int(told["bloomfilter_item"]),
            "probability": float(told["bloomfilter_probability"]),
        }
    except (KeyError, ValueError, TypeError) as cause:
        text = f"{location} does not tell with which options a {kind} index was built"
        raise FormatError(f"{text}; build it anew", file=location) from cause


def read_centroids(
    directory: str, storage_options: StorageOptions, dimension: int
) -> pa.FixedSizeListArray:
    """The centers of the partitions of a segment."""
    location = f"{directory}/{_PARTITIONS}"
    reader = open_reader(location, None, storage_options)
    try:
        position = int(reader.facts.schema.metadata["lance:ivf"])
    except (KeyError, ValueError) as cause:
        raise FormatError(
            f"{location} does not say where its centroids are", file=location
        ) from cause
    numbers = decode_centroids(_buffer(reader, position, location), location)
    if numbers.shape[1] != dimension:
        raise FormatError(
            f"the centroids in {location} have {numbers.shape[1]} numbers, and the vectors "
            f"{dimension}",
            file=location,
        )
    return _lists(numbers, dimension)


def read_codebook(
    directory: str, storage_options: StorageOptions, dimension: int, bits: int
) -> pa.FixedSizeListArray:
    """The codebook that the product codes of a segment were made with."""
    location = f"{directory}/{_CODES}"
    reader = open_reader(location, None, storage_options)
    try:
        (stored,) = json.loads(reader.facts.schema.metadata["storage_metadata"])
        position = int(json.loads(stored)["codebook_position"])
    except (KeyError, ValueError, TypeError) as cause:
        raise FormatError(
            f"{location} does not say where its codebook is", file=location
        ) from cause
    numbers = decode_tensor(_buffer(reader, position, location), location)
    if numbers.size != dimension * 2**bits:
        raise FormatError(
            f"the codebook in {location} has {numbers.size} numbers, and codes of {bits} bits for "
            f"vectors of {dimension} have {dimension * 2**bits}",
            file=location,
        )
    return _lists(numbers, dimension)


def _buffer(reader: FileReader, position: int, location: str) -> bytes:
    if position < 1:  # the first one is the schema
        raise FormatError(f"{location} names its global buffer {position}", file=location)
    return reader.buffer(position)


def _lists(numbers: NDArray[Any], width: int) -> pa.FixedSizeListArray:
    return pa.FixedSizeListArray.from_arrays(pa.array(numbers.reshape(-1)), width)


SAMPLE_RATE, MAX_ITERATIONS, NUM_BITS = "sample_rate", "max_iterations", "num_bits"
_FOR_TRAINING = (SAMPLE_RATE, MAX_ITERATIONS)
PQ_BITS, _RQ_BITS = 8, 5
_ROWS_PER_CENTROID, _ITERATIONS = 256, 50
_INDEX_CACHE_BYTES, _METADATA_CACHE_BYTES = 64 << 20, 256 << 20
_REFUSALS = ("Unprocessable", "LanceError(Index)")
_NO_VECTORS = "with 0 vectors"


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
    def is_of_one_piece(self) -> bool:
        """Whether several segments find less than one over all fragments: measured with pylance
        14, whose recall fell from 0.97 to 0.54."""
        return self.vectors is not None and self.kind.codes == "PQ" and self.vectors.metric == "dot"


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
        if spec.kind.codes == "PQ":
            bits = spec.options.get(NUM_BITS, PQ_BITS)
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


def committed_model(spec: IndexSpec, directory: str, storage_options: StorageOptions) -> IndexModel:
    """The model of an index, from one of its segments, whose files are in ``directory``.

    A rotation of codes is no part of what was learned, and a new one is made.
    """
    dimension = _vectors(spec).dimension
    centroids = read_centroids(directory, storage_options, dimension)
    codebook = None
    if spec.kind.codes == "PQ":
        bits = spec.options.get(NUM_BITS, PQ_BITS)
        codebook = read_codebook(directory, storage_options, dimension, bits)
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
    if spec.kind.codes != "RQ":
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


def _working(verb: str, spec: IndexSpec, address: DatasetAddress) -> Translated:
    """What pylance refuses is unsupported, anything else a failure of the store."""
    return Translated(partial(_judge, f"cannot {verb} {spec} in {address}", spec, address))


def _judge(
    asked: str, spec: IndexSpec, address: DatasetAddress, text: str, cause: BaseException
) -> LancewoodError:
    facts = {"uri": address.uri, "index": spec.name}
    if isinstance(cause, ImportError):
        return not_imported(asked, text, **facts)
    if _NO_VECTORS in text:
        text = (
            "it learns from vectors, and in this version all are null, or hold NaN or an infinity; "
            "make it when there are some"
        )
        return UnsupportedError(f"{asked}: {text}", **facts)
    refused = isinstance(cause, ValueError | TypeError | NotImplementedError)
    refused = refused or any(each in text for each in _REFUSALS)
    return (UnsupportedError if refused else StorageError)(f"pylance {asked}: {text}", **facts)
