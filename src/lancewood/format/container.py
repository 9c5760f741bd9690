"""The container of a data file: footer, offset tables, and the lists of its columns' pages.

Every offset and size is checked against the size of the file. How pages are encoded does not matter
here, except for the two wrappings of the pages of blobs, and the numbers of a model inside the
files of an index. Pure: the caller reads the bytes.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import numpy as np
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.message import DecodeError, Message
from numpy.typing import NDArray

from lancewood.errors import FormatError, UnsupportedError
from lancewood.format.schema import encode_schema
from lancewood.model.schema import Schema
from lancewood.proto import file_pb2, index_pb2, schema_pb2

ColumnPages: TypeAlias = file_pb2.ColumnMetadata
"""The pages of one physical column: where their buffers lie, and how many rows they hold."""
Page: TypeAlias = file_pb2.ColumnMetadata.Page

_FOOTER = struct.Struct("<QQQIIHH4s")
_ENTRY = struct.Struct("<QQ")
_MAGIC = b"LANC"
_MAX_COLUMNS = 1 << 20

FOOTER_SIZE = _FOOTER.size
ENTRY_SIZE = _ENTRY.size


@dataclass(frozen=True)
class Footer:
    """What the last bytes of a data file say."""

    version: tuple[int, int]
    """(major, minor) as the file itself spells it: (0, 3) for 2.0."""
    num_columns: int
    columns_at: int
    """The position of the table of columns."""
    descriptor_at: int
    """The position of the entry for the file's own schema."""


def decode_footer(data: bytes, name: str, size: int) -> Footer:
    """The footer of the file called ``name``; raises FormatError."""
    if len(data) != FOOTER_SIZE or data[-4:] != _MAGIC:
        raise FormatError(f"data file {name} does not end like a Lance file", file=name)
    _, columns_at, buffers_at, buffers, columns, major, minor, _ = _FOOTER.unpack(data)
    if not buffers or columns > _MAX_COLUMNS:
        raise FormatError(
            f"data file {name} claims {columns} columns and {buffers} global buffers", file=name
        )
    check_inside(name, size, columns_at, ENTRY_SIZE * columns, "the table of columns")
    check_inside(name, size, buffers_at, ENTRY_SIZE, "the table of buffers")
    return Footer((major, minor), columns, columns_at, buffers_at)


def decode_entry(data: bytes, name: str, size: int, what: str) -> tuple[int, int]:
    """The position and length of something, from an entry of an offset table."""
    if len(data) != ENTRY_SIZE:
        raise FormatError(f"data file {name}: the place of {what} is cut short", file=name)
    start, length = _ENTRY.unpack(data)
    check_inside(name, size, start, length, what)
    return start, length


def decode_rows(descriptor: bytes, name: str) -> int:
    """The number of rows that the file's own schema records."""
    try:
        return schema_pb2.FileDescriptor.FromString(descriptor).length
    except DecodeError as cause:
        raise FormatError(
            f"data file {name}: the file's own schema cannot be decoded", file=name
        ) from cause


def decode_pages(data: bytes, name: str, size: int, index: int) -> ColumnPages:
    """The pages of a column; those of a blob are the pages of its descriptors.

    Raises FormatError for buffers that leave the file, UnsupportedError for encodings that are
    stored elsewhere.
    """
    try:
        column = ColumnPages.FromString(data)
        _unwrap(column.encoding, file_pb2.ColumnEncoding(), "ColumnEncoding", "blob", "inner")
        for page in column.pages:
            _unwrap(
                page.encoding, file_pb2.PageLayout(), "PageLayout", "blob_layout", "inner_layout"
            )
    except DecodeError as cause:
        raise FormatError(
            f"data file {name}: the pages of column {index} cannot be decoded", file=name
        ) from cause
    except LookupError as cause:
        raise UnsupportedError(
            f"data file {name}: column {index} keeps its encoding elsewhere; read the table "
            "through pylance",
            file=name,
        ) from cause
    holders: list[ColumnPages | Page] = [column, *column.pages]
    for each in holders:
        if len(each.buffer_offsets) != len(each.buffer_sizes):
            raise FormatError(
                f"data file {name}: column {index} has buffers without sizes", file=name
            )
        for start, length in zip(each.buffer_offsets, each.buffer_sizes, strict=True):
            check_inside(name, size, start, length, f"a page of column {index}")
    return column


def encode_tail(
    at: int, version: tuple[int, int], schema: Schema, rows: int, columns: Sequence[ColumnPages]
) -> bytes:
    """What follows the buffers of a file, which end at ``at``: schema, lists of pages, footer."""
    descriptor = schema_pb2.FileDescriptor(length=rows)
    descriptor.schema.fields.extend(encode_schema(schema))
    out = bytearray(descriptor.SerializeToString())
    described = len(out)
    places = []
    for each in columns:
        raw = each.SerializeToString()
        places.append((at + len(out), len(raw)))
        out += raw
    columns_at = at + len(out)
    for place in places:
        out += _ENTRY.pack(*place)
    buffers_at = at + len(out)
    out += _ENTRY.pack(at, described)
    out += _FOOTER.pack(at + described, columns_at, buffers_at, 1, len(columns), *version, _MAGIC)
    return bytes(out)


def check_inside(name: str, size: int, start: int, length: int, what: str) -> None:
    """Raise FormatError for a range that a file of this size does not have."""
    if start + length > size:
        raise FormatError(
            f"data file {name} has {size} bytes, {what} would take {length} from {start}",
            file=name,
        )


def _unwrap(
    encoding: file_pb2.PageEncoding, kind: Message, name: str, wrapping: str, inner: str
) -> None:
    if not encoding.HasField("direct"):
        raise LookupError
    packed = AnyMessage.FromString(encoding.direct.encoding)
    if not packed.type_url.endswith(f".{name}"):
        return
    kind.ParseFromString(packed.value)
    if kind.HasField(wrapping):
        packed.value = getattr(getattr(kind, wrapping), inner)
        encoding.direct.encoding = packed.SerializeToString()


def encode_varint(number: int) -> bytes:
    """The bytes of a non-negative number."""
    found = bytearray()
    while number >= 0x80:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)


_M = TypeVar("_M", bound=Message)
_Tensor = index_pb2.Tensor
_TYPES: Mapping[int, np.dtype[Any]] = {
    _Tensor.FLOAT16: np.dtype("<f2"),
    _Tensor.FLOAT32: np.dtype("<f4"),
    _Tensor.FLOAT64: np.dtype("<f8"),
    _Tensor.UINT8: np.dtype("u1"),
}


def decode_tensor(data: bytes, name: str) -> NDArray[Any]:
    """The array in the bytes of a ``Tensor``; raises FormatError, which names the file."""
    return _array(_parsed(_Tensor, data, name), name)


def decode_centroids(data: bytes, name: str) -> NDArray[Any]:
    """The centroids in the bytes of ``Partitions``, one in a row; raises FormatError, too."""
    message = _parsed(index_pb2.Partitions, data, name)
    found = _array(message.centroids, name)
    if found.ndim != 2 or not found.size:
        raise FormatError(f"{name}: has partitions without centroids", file=name)
    return found


def _parsed(kind: type[_M], data: bytes, name: str) -> _M:
    try:
        return kind.FromString(data)
    except DecodeError as cause:
        raise FormatError(f"{name}: the numbers of a model cannot be read", file=name) from cause


def _array(message: index_pb2.Tensor, name: str) -> NDArray[Any]:
    kind = _TYPES.get(message.data_type)
    if kind is None:
        raise FormatError(f"{name}: a model has numbers of type {message.data_type}", file=name)
    if len(message.data) != math.prod(message.shape) * kind.itemsize:
        raise FormatError(
            f"{name}: a model of shape {tuple(message.shape)} has {len(message.data)} bytes of "
            f"{kind}",
            file=name,
        )
    return np.frombuffer(message.data, kind).reshape(tuple(message.shape))
