"""Deletion files: which physical rows of one fragment are deleted, as bytes and back.

Two kinds: an Arrow IPC file with one column of offsets, and a 32-bit roaring bitmap in its portable
serialisation. Either lists *all* deleted offsets of the fragment.

Spec: "Deletion" in the table format. The specification says Int32Array; pylance accepts nothing but
a non-null uint32 column named ``row_id``, so that is what is written, while every integer type is
read.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pyroaring import AbstractBitMap, BitMap

from lancewood.errors import FormatError, InvalidInputError
from lancewood.model.bitmap import bitmap_of, decode_bitmap
from lancewood.model.ids import FragmentId, Version
from lancewood.proto import table_pb2

Kind = table_pb2.DeletionFile.Kind
ARROW_ARRAY = table_pb2.DeletionFile.ARROW_ARRAY
BITMAP = table_pb2.DeletionFile.BITMAP

FEWEST_FOR_BITMAP = 5_000
"""Number of deleted rows from which on a bitmap is written."""

_MAX_OFFSET = (1 << 32) - 1
_MOST_UNKNOWN = 1 << 26
"""The most offsets in an Arrow file of a fragment whose number of rows is not recorded."""
_WIDEST = 8
"""Bytes of the widest offset."""
_PADDING = 64
_ARROW_END = struct.calcsize("<i6s")


def deletion_file_name(
    fragment_id: FragmentId, read_version: Version, id: int, is_bitmap: bool
) -> str:
    """The name of a deletion file below ``_deletions``, for example ``3-12-9348.arrow``."""
    return f"{fragment_id}-{read_version}-{id}.{'bin' if is_bitmap else 'arrow'}"


def encode_deletions(offsets: AbstractBitMap, kind: Kind | None = None) -> tuple[Kind, bytes]:
    """The kind of file and its bytes: Arrow below 5,000 offsets, else a bitmap, unless ``kind`` is
    given.

    Raises InvalidInputError for no offsets at all: a fragment without deleted rows has no deletion
    file. Offsets are not checked against the fragment's number of rows.
    """
    if not offsets:
        raise InvalidInputError("no deleted rows to write; leave the deletion file out instead")
    if kind is None:
        kind = ARROW_ARRAY if len(offsets) < FEWEST_FOR_BITMAP else BITMAP
    return kind, offsets.serialize() if kind == BITMAP else _encode_arrow(offsets)


def decode_deletions(
    data: bytes, is_bitmap: bool, *, path: str, physical_rows: int, expected: int | None
) -> BitMap:
    """The deleted offsets, whatever their order in the file.

    ``physical_rows`` 0 and ``expected`` None or 0 mean that the manifest does not record them, and
    skip that check. Raises FormatError, which names ``path``, for bytes that are neither kind, for
    an offset beyond the fragment and for a number of offsets other than the expected one. A file
    that would decode to more offsets than the fragment has rows is not decoded.
    """
    if is_bitmap:
        found = _decode_bitmap(data, path)
    else:
        own = _decode_framed(data, expected)
        most = physical_rows or expected or _MOST_UNKNOWN
        found = _decode_arrow(data, path, most) if own is None else own
    if found and physical_rows and found.max() >= physical_rows:
        raise FormatError(
            f"deletion file {path} deletes row {found.max()} of {physical_rows} rows", path=path
        )
    if expected and len(found) != expected:
        raise FormatError(
            f"deletion file {path} deletes {len(found)} rows, but the manifest says {expected}",
            path=path,
        )
    return found


def _broken(path: str, why: str) -> FormatError:
    return FormatError(f"deletion file {path} is broken: {why}", path=path)


def _encode_arrow(offsets: AbstractBitMap) -> bytes:
    values = np.frombuffer(offsets.to_array(), dtype="<u4")
    if len(values) >= FEWEST_FOR_BITMAP:
        return _write_arrow(values)
    before, after = _frame(len(values))
    return before + values.tobytes() + after


def _write_arrow(values: NDArray[np.uint32]) -> bytes:
    import pyarrow as pa

    schema = pa.schema([pa.field("row_id", pa.uint32(), nullable=False)])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, schema) as writer:
        writer.write_batch(pa.record_batch([pa.array(values)], schema=schema))
    return bytes(sink.getvalue())


@lru_cache(maxsize=1024)
def _frame(count: int) -> tuple[bytes, bytes]:
    """What pyarrow writes before and after this many offsets, whatever they are.

    Writing many small files through pyarrow costs more than everything else about them.
    """
    ones, zeros = (_write_arrow(np.full(count, each, np.uint32)) for each in (_MAX_OFFSET, 0))
    start = next(at for at, (one, zero) in enumerate(zip(ones, zeros, strict=True)) if one != zero)
    return ones[:start], ones[start + 4 * count :]


def _decode_bitmap(data: bytes, path: str) -> BitMap:
    try:
        return decode_bitmap(data, f"deletion file {path}")
    except FormatError as cause:
        raise FormatError(cause.message, path=path) from cause


def _decode_framed(data: bytes, count: int | None) -> BitMap | None:
    """The offsets in a file that was written by ``_encode_arrow``; None for any other."""
    if not count or count >= FEWEST_FOR_BITMAP or len(data) < 4 * count:
        return None
    before, after = _frame(count)
    if len(data) != len(before) + 4 * count + len(after):
        return None
    if not (data.startswith(before) and data.endswith(after)):
        return None
    return bitmap_of(np.frombuffer(data, "<u4", count, len(before)))


def _decode_arrow(data: bytes, path: str, most: int) -> BitMap:
    import pyarrow as pa

    found = BitMap()
    try:
        _check_claims(data, path, most)
        with pa.ipc.open_file(pa.BufferReader(data)) as reader:
            # The schema is checked first: a batch of any other shape is not read.
            types = reader.schema.types
            if len(types) != 1 or not pa.types.is_integer(types[0]):
                raise _broken(path, f"it has columns of {[str(each) for each in types]}")
            for each in range(reader.num_record_batches):
                column = reader.get_batch(each).column(0)
                column.validate(full=True)
                if column.null_count:
                    raise _broken(path, f"{column.null_count} of its offsets are null")
                found |= _to_bitmap(column.to_numpy(), path)
    except (pa.ArrowException, OSError, ValueError, struct.error) as cause:
        raise _broken(path, str(cause)) from cause
    return found


def _check_claims(data: bytes, path: str, most: int) -> None:
    """Raise FormatError if the batches of an Arrow file would hold more than ``most`` offsets, by
    the rows in their headers and the decompressed size of their buffers.

    Read from the flatbuffers of the format, since pyarrow reports sizes only after decompressing.
    """
    size, _ = struct.unpack_from("<i6s", data, len(data) - _ARROW_END)
    footer = _root(data, len(data) - _ARROW_END - size)
    rows = 0
    for block in _vector(data, _field(data, footer, 3), 24):
        at, metadata_size = struct.unpack_from("<qi", data, block)
        is_marked = data[at : at + 4] == b"\xff\xff\xff\xff"  # files from before 2019 have no mark
        message = _root(data, at + (8 if is_marked else 4))
        batch = _target(data, _field(data, message, 2))
        if batch is None:
            continue
        length = _field(data, batch, 0)
        if length is not None:
            rows += max(struct.unpack_from("<q", data, length)[0], 0)
        inflated = 0
        if _field(data, batch, 3) is not None:
            for buffer in _vector(data, _field(data, batch, 2), 16):
                start, stored = struct.unpack_from("<qq", data, buffer)
                if stored > 0:
                    (claimed,) = struct.unpack_from("<q", data, at + metadata_size + start)
                    inflated = max(inflated, claimed)
        if rows > most or inflated > _WIDEST * most + _PADDING:
            raise FormatError(
                f"deletion file {path} claims more than {most:,} rows of a fragment: {rows:,} "
                f"offsets, or {inflated:,} bytes of them",
                path=path,
            )


def _root(data: bytes, at: int) -> int:
    return at + int(struct.unpack_from("<I", data, at)[0])


def _field(data: bytes, table: int, number: int) -> int | None:
    """The position of a field in a table; None if it is left out."""
    fields = table - struct.unpack_from("<i", data, table)[0]
    size, place = struct.unpack_from("<H", data, fields)[0], 4 + 2 * number
    if place + 2 > size:
        return None
    (offset,) = struct.unpack_from("<H", data, fields + place)
    return table + offset if offset else None


def _target(data: bytes, at: int | None) -> int | None:
    return None if at is None else _root(data, at)


def _vector(data: bytes, at: int | None, width: int) -> range:
    """The position of a vector's elements; raises ValueError for more than there can be."""
    start = _target(data, at)
    if start is None:
        return range(0)
    (count,) = struct.unpack_from("<I", data, start)
    if count * width > len(data):
        raise ValueError(f"it claims {count} elements in {len(data)} bytes")
    return range(start + 4, start + 4 + count * width, width)


def _to_bitmap(offsets: NDArray[Any], path: str) -> BitMap:
    if len(offsets) and (offsets.min() < 0 or offsets.max() > _MAX_OFFSET):
        wrong = offsets.min() if offsets.min() < 0 else offsets.max()
        raise _broken(path, f"{wrong} is no row offset")
    return bitmap_of(offsets)
