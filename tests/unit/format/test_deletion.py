"""Deletion files as bytes: what is written, what is read, what is refused."""

from __future__ import annotations

import base64
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyroaring import BitMap, FrozenBitMap
from tests.bounded import bounded

from lancewood.errors import FormatError, InvalidInputError
from lancewood.format.deletion import (
    ARROW_ARRAY,
    BITMAP,
    Kind,
    decode_deletions,
    deletion_file_name,
    encode_deletions,
)
from lancewood.model.ids import FragmentId, Version

# Rows 3, 12 and 700 of 1,000, deleted by pylance 14.0.2.
BY_PYLANCE = zlib.decompress(
    base64.b64decode(
        "eNpzDAryDzdkIBv8B4IKIC0A5nEx8AAxJwMLkISKMbIwcAAhAwMLlAQKAbEIWF4MrIYfLMoBZksAsQzEaCYJ"
        "MMUGlGEBkgwMClA7Qeyi/PL4zBSI/TugdvEATRViEATbxAM1pwHmUGYWoJgMUB0P2DyQfAwQ60D1MiP5iRGN"
        "DwNMSGxOKO0ApUXgMiD3soPdCDWKYPiBAQXhDwI8UDfvYSJdP7L7IWGICKMcIO6Axy9t4xJk1gGoOIxuQHPv"
        "CiB2BKdZAAcHMKA="
    )
)


def _arrow(
    *batches: Any, name: str = "row_id", nullable: bool = False, compression: str | None = None
) -> bytes:
    schema = pa.schema([pa.field(name, batches[0].type, nullable=nullable)])
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_file(sink, schema, options=options) as writer:
        for each in batches:
            writer.write_batch(pa.record_batch([each], schema=schema))
    return bytes(sink.getvalue())


def _read(data: bytes, is_bitmap: bool, rows: int = 1000, expected: int | None = None) -> BitMap:
    return decode_deletions(
        data, is_bitmap, path="_deletions/3-12-9.x", physical_rows=rows, expected=expected
    )


def _refused(data: bytes, is_bitmap: bool, reason: str, **given: int) -> None:
    with pytest.raises(FormatError, match=reason) as caught:
        _read(data, is_bitmap, **given)
    assert "_deletions/3-12-9.x" in str(caught.value)
    assert "_deletions/3-12-9.x" in str(caught.value)


def test_names_are_fragment_version_and_id() -> None:
    assert deletion_file_name(FragmentId(3), Version(12), 9348, False) == "3-12-9348.arrow"
    largest = deletion_file_name(FragmentId(0), Version(1), (1 << 64) - 1, True)
    assert largest == "0-1-18446744073709551615.bin"


@pytest.mark.parametrize(("count", "kind"), [(1, ARROW_ARRAY), (4999, ARROW_ARRAY), (5000, BITMAP)])
def test_five_thousand_deleted_rows_make_a_bitmap(count: int, kind: Kind) -> None:
    offsets = BitMap(range(0, 3 * count, 3))
    found, data = encode_deletions(offsets)
    assert found == kind
    assert _read(data, found == BITMAP, rows=3 * count, expected=count) == offsets


@pytest.mark.parametrize("kind", [ARROW_ARRAY, BITMAP])
def test_the_kind_can_be_told(kind: Kind) -> None:
    for offsets in (BitMap([2, 9]), FrozenBitMap(range(6000))):
        found, data = encode_deletions(offsets, kind=kind)
        assert found == kind
        assert _read(data, kind == BITMAP, rows=6000) == offsets


def test_arrow_files_have_the_one_schema_that_pylance_takes() -> None:
    _, data = encode_deletions(BitMap([7, 2]))
    table = pa.ipc.open_file(data).read_all()
    assert table.schema == pa.schema([pa.field("row_id", pa.uint32(), nullable=False)])
    assert table.num_rows == 2
    assert pa.ipc.open_file(data).num_record_batches == 1


def test_bitmaps_are_the_portable_serialisation() -> None:
    _, data = encode_deletions(BitMap([5, 70_000]), kind=BITMAP)
    header = struct.pack("<II HHHH II", 12346, 2, 0, 0, 1, 0, 24, 26)
    assert data == header + struct.pack("<HH", 5, 70_000 - 65_536)


def test_the_same_rows_give_the_same_bytes() -> None:
    for kind in (ARROW_ARRAY, BITMAP):
        first = encode_deletions(BitMap([9, 1, 4]), kind=kind)
        assert first == encode_deletions(BitMap([4, 9, 1]), kind=kind)


def test_nothing_deleted_is_no_file() -> None:
    with pytest.raises(InvalidInputError, match="leave the deletion file out"):
        encode_deletions(BitMap())


def test_a_file_of_pylance_is_read() -> None:
    assert _read(BY_PYLANCE, False, expected=3) == BitMap([3, 12, 700])


@pytest.mark.parametrize(
    "kind",
    [
        *[pa.int8(), pa.int16(), pa.int32(), pa.int64()],
        *[pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()],
    ],
    ids=str,
)
@pytest.mark.parametrize("nullable", [False, True])
def test_any_integer_column_is_read_as_a_set(kind: Any, nullable: bool) -> None:
    data = _arrow(pa.array([12, 3, 12, 100], kind), name="offset", nullable=nullable)
    assert _read(data, False, expected=3) == BitMap([3, 12, 100])


@pytest.mark.parametrize("compression", [None, "zstd", "lz4"])
def test_compressed_columns_are_read(compression: str | None) -> None:
    data = _arrow(pa.array(range(900), pa.uint32()), compression=compression)
    assert _read(data, False) == BitMap(range(900))


def test_several_batches_and_none_are_read() -> None:
    halves = (pa.array([4, 1], pa.uint32()), pa.array([], pa.uint32()), pa.array([9], pa.uint32()))
    assert _read(_arrow(*halves), False) == BitMap([1, 4, 9])
    assert _read(_arrow(pa.array([], pa.uint32())), False) == BitMap()


@pytest.mark.parametrize(
    "offsets",
    [
        BitMap([1]),
        BitMap(range(100)),
        BitMap(range(0, 200_000, 2)),
        BitMap(range(5, 400_000)),
        BitMap([*range(70_000), *range(131_072, 140_000, 3), 200_000]),
        BitMap([*range(4096)]),
        BitMap([*range(0, 2 * 4097, 2)]),
        BitMap([65_535, 65_536, 399_999]),
    ],
    ids=lambda each: f"{len(each)} rows",
)
def test_array_bitset_and_run_containers_are_read(offsets: BitMap) -> None:
    for runs in (False, True):
        copy = offsets.copy()
        if runs:
            copy.run_optimize()
        assert _read(copy.serialize(), True, rows=400_000, expected=len(offsets)) == offsets


def test_rows_beyond_the_fragment_are_refused() -> None:
    for kind in (ARROW_ARRAY, BITMAP):
        _, data = encode_deletions(BitMap([3, 10]), kind=kind)
        _refused(data, kind == BITMAP, "deletes row 10 of 10 rows", rows=10)
        assert _read(data, kind == BITMAP, rows=11) == BitMap([3, 10])
        assert _read(data, kind == BITMAP, rows=0) == BitMap([3, 10])


def test_a_wrong_number_of_rows_is_refused_unless_it_is_unknown() -> None:
    for kind in (ARROW_ARRAY, BITMAP):
        _, data = encode_deletions(BitMap([3, 10]), kind=kind)
        _refused(data, kind == BITMAP, "deletes 2 rows, but the manifest says 3", expected=3)
        assert len(_read(data, kind == BITMAP, expected=0)) == 2
        assert len(_read(data, kind == BITMAP, expected=None)) == 2


@pytest.mark.parametrize(
    ("column", "reason"),
    [
        (pa.array([1, -2], pa.int32()), "-2 is no row offset"),
        (pa.array([1, 1 << 32], pa.int64()), "4294967296 is no row offset"),
        (pa.array([1 << 63], pa.uint64()), "is no row offset"),
        (pa.array([1, None], pa.uint32()), "1 of its offsets are null"),
        (pa.array([1.0]), "columns of"),
        (pa.array(["1"]), "columns of"),
        (pa.array([[1]]), "columns of"),
    ],
    ids=str,
)
def test_columns_that_are_no_offsets_are_refused(column: Any, reason: str) -> None:
    _refused(_arrow(column, nullable=True), False, reason)


def test_a_file_of_two_columns_is_refused() -> None:
    sink = pa.BufferOutputStream()
    table = pa.table({"row_id": pa.array([1], pa.uint32()), "b": pa.array([1], pa.uint32())})
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    _refused(bytes(sink.getvalue()), False, "columns of")


@pytest.mark.parametrize("data", [b"", b"ARROW1", b"ARROW1\0\0" * 4, b"\0" * 400, BY_PYLANCE[:-1]])
def test_bytes_that_are_no_arrow_file_are_refused(data: bytes) -> None:
    _refused(data, False, "is broken")


def _containers(*entries: tuple[int, int, bytes]) -> bytes:
    """A bitmap without runs from (key, claimed number of values, body)."""
    head = struct.pack("<II", 12346, len(entries))
    head += b"".join(struct.pack("<HH", key, size - 1) for key, size, _ in entries)
    position = len(head) + 4 * len(entries)
    for _, _, body in entries:
        head += struct.pack("<I", position)
        position += len(body)
    return head + b"".join(body for _, _, body in entries)


def _runs(size: int, *runs: tuple[int, int]) -> bytes:
    """A bitmap of one run container from (first, number of further values)."""
    head = struct.pack("<IBHHH", 12347, 1, 0, size - 1, len(runs))
    return head + b"".join(struct.pack("<HH", *each) for each in runs)


def test_handmade_bitmaps_are_read() -> None:
    body = np.array([1, 5], "<u2").tobytes()
    assert _read(_containers((0, 2, body)), True) == BitMap([1, 5])
    assert _read(_runs(5, (0, 1), (7, 2)), True) == BitMap([0, 1, 7, 8, 9])


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "is broken"),
        (b"\x3a\x30", "is broken"),
        (b"\x3a\x30\0\0", "is broken"),
        (b"\0" * 64, "no roaring bitmap"),
        (b"ARROW1\0\0", "no roaring bitmap"),
        (struct.pack("<II", 12346, 0xFFFFFFFF), "claims 4294967295 containers"),
        (struct.pack("<II", 12346, 65536), "it ends at 8"),
        (struct.pack("<HH", 12347, 0xFFFF), "it ends at 4"),
        (BitMap([1, 2]).serialize()[:-1], "it ends at"),
        (BitMap([1, 2]).serialize() + b"\0", "1 bytes follow its end"),
        (_containers((0, 2, b"\5\0\1\0")), "out of order"),
        (_containers((0, 2, b"\5\0\5\0")), "out of order"),
        (_containers((1, 1, b"\5\0"), (0, 1, b"\5\0")), "containers are out of order"),
        (_containers((1, 1, b"\5\0"), (1, 1, b"\6\0")), "containers are out of order"),
        (_containers((0, 5000, b"\xff" * 8192)), "does not hold 5000 values"),
        (_containers((0, 5000, b"\xff" * 8191)), "it ends at"),
        (_containers((0, 1, b"\5\0"))[:12] + b"\x12\0\0\0\5\0", "container 0 is at 16, not at 18"),
        (_runs(5, (0, 1), (1, 2)), "do not make up 5 values"),
        (_runs(5, (0, 1), (2, 2)), "do not make up 5 values"),
        (_runs(4, (0, 1), (7, 2)), "do not make up 4 values"),
        (_runs(5, (7, 2), (0, 1)), "do not make up 5 values"),
        (_runs(3, (65534, 2)), "do not make up 3 values"),
        (_runs(1), "do not make up 1 values"),
        (_runs(5, (0, 1), (7, 2))[:-1], "it ends at"),
    ],
)
def test_broken_bitmaps_are_refused(data: bytes, reason: str) -> None:
    _refused(data, True, reason, rows=1 << 20)


BOMB = """
import pyarrow as pa
from lancewood.format.deletion import decode_deletions
"""
DECODE = """
with open(sys.argv[1], "rb") as file:
    data = file.read()
print(len(decode_deletions(data, False, path="a", physical_rows=int(sys.argv[2]), expected=None)))
"""


@pytest.mark.parametrize("compression", ["zstd", "lz4"])
@pytest.mark.parametrize("rows", [1000, 0])
def test_a_small_file_is_not_inflated_to_more_offsets_than_the_fragment_has(
    tmp_path: Path, compression: str, rows: int
) -> None:
    file = tmp_path / "bomb.arrow"
    schema = pa.schema([pa.field("row_id", pa.uint32(), nullable=False)])
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_file(sink, schema, options=options) as out:
        out.write(pa.record_batch([pa.array(np.zeros(1 << 27, np.uint32))], schema=schema))
    assert file.stat().st_size < 3 << 20
    told = bounded(BOMB, DECODE, str(file), str(rows), megabytes=300)
    assert told.startswith("FormatError: deletion file a claims more than")


def test_a_header_that_claims_fewer_rows_than_are_inflated_is_not_believed(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("row_id", pa.uint32(), nullable=False)])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(
        sink, schema, options=pa.ipc.IpcWriteOptions(compression="zstd")
    ) as writer:
        writer.write(pa.record_batch([pa.array(np.zeros(1 << 20, np.uint32))], schema=schema))
    size = struct.pack("<q", 1 << 20)
    data = sink.getvalue().to_pybytes()
    assert size in data
    _refused(data.replace(size, struct.pack("<q", 10)), False, "claims more than 1,000 rows")


def test_batches_count_together() -> None:
    data = _arrow(*(pa.array(each) for each in ([1, 2, 3], [4, 5, 6], [7])))
    assert _read(data, False, rows=8) == BitMap(range(1, 8))
    _refused(data, False, "claims more than 6 rows", rows=6)
