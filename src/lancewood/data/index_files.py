"""What the files of a segment tell: with which options it was built, and with which model.

pylance tells neither, or not for every column. The files are Lance files; what they tell is in the
metadata of their schemas and in their global buffers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from numpy.typing import NDArray

from lancewood.data.codec import FileReader, StorageOptions, open_reader
from lancewood.errors import FormatError
from lancewood.format.container import decode_centroids, decode_tensor
from lancewood.model.index import BLOOMFILTER, INVERTED, ZONEMAP, IndexKind

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
