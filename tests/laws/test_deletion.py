"""Laws of deletion files: what was written comes back, and no bytes do anything but fail."""

from __future__ import annotations

import random
import resource
import struct

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyroaring import BitMap

from lancewood.errors import FormatError
from lancewood.format.deletion import ARROW_ARRAY, BITMAP, Kind, decode_deletions, encode_deletions

_LAW = settings(deadline=None, max_examples=100)
_STRETCH = st.builds(
    lambda start, count, step: range(start, start + count * step, step),
    st.integers(0, 300_000),
    st.integers(1, 9000),
    st.integers(1, 30),
)
_OFFSETS = st.builds(
    lambda stretches, single: BitMap(single).union(*[BitMap(each) for each in stretches]),
    st.lists(_STRETCH, min_size=1, max_size=4),
    st.sets(st.integers(0, (1 << 32) - 1), max_size=30),
)


def _read(data: bytes, is_bitmap: bool, expected: int | None = None) -> BitMap:
    return decode_deletions(data, is_bitmap, path="x", physical_rows=(1 << 32), expected=expected)


@_LAW
@given(_OFFSETS, st.sampled_from([None, ARROW_ARRAY, BITMAP]), st.booleans())
def test_deleted_rows_come_back_from_their_bytes(
    offsets: BitMap, kind: Kind | None, runs: bool
) -> None:
    if runs:
        offsets.run_optimize()
    found, data = encode_deletions(offsets, kind=kind)
    assert found == (kind if kind is not None else int(len(offsets) >= 5000))
    assert _read(data, found == BITMAP, expected=len(offsets)) == offsets


@_LAW
@given(st.binary(max_size=200), st.sampled_from([b"", b"\x3a\x30\0\0", b"\x3b\x30", b"ARROW1\0\0"]))
def test_random_bytes_are_read_whole_or_refused(data: bytes, start: bytes) -> None:
    for is_bitmap in (False, True):
        try:
            found = _read(start + data, is_bitmap)
        except FormatError:
            continue
        assert is_bitmap
        assert BitMap(found.to_array()) == found


def _originals(is_bitmap: bool) -> list[bytes]:
    sets = [
        BitMap([3, 12, 700]),
        BitMap(range(3000)),
        BitMap(range(0, 9000, 2)),
        BitMap([*range(70_000), *range(131_072, 140_000, 3), 200_000, 300_000, 400_000]),
    ]
    if is_bitmap:
        return [each.serialize() for each in sets]
    files = []
    for each in sets[:3]:
        for compression in (None, "zstd", "lz4"):
            column = pa.array(np.array(each.to_array()))
            batch = pa.record_batch([column], names=["row_id"])
            sink = pa.BufferOutputStream()
            options = pa.ipc.IpcWriteOptions(compression=compression)
            with pa.ipc.new_file(sink, batch.schema, options=options) as writer:
                writer.write_batch(batch)
            files.append(bytes(sink.getvalue()))
    return files


def _mutated(data: bytes, seeded: random.Random) -> bytes:
    """The data with a few bytes changed, a number made hostile, a piece cut out or doubled."""
    changed = bytearray(data)
    head = min(len(changed), seeded.choice([16, 64, len(changed)]))
    for _ in range(seeded.randrange(1, 4)):
        at = seeded.randrange(head)
        match seeded.randrange(5):
            case 0:
                changed[at] = seeded.randrange(256)
            case 1:
                changed[at : at + 4] = struct.pack("<I", seeded.choice([0, 1 << 31, 0xFFFFFFFF]))
            case 2:
                changed[at : at + 8] = struct.pack("<Q", seeded.choice([1 << 40, 1 << 62]))
            case 3:
                del changed[at : at + seeded.randrange(1, 40)]
            case _:
                changed[at:at] = changed[at : at + seeded.randrange(1, 40)]
        head = max(1, min(head, len(changed)))
        if not changed:
            break
    return bytes(changed)


@pytest.mark.parametrize(("is_bitmap", "turns"), [(True, 6000), (False, 4000)])
def test_mutated_files_never_crash_nor_cost_memory(is_bitmap: bool, turns: int) -> None:
    seeded = random.Random(5)
    originals = _originals(is_bitmap)
    for each in originals:
        assert len(_read(each, is_bitmap)) > 0
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    refused = 0
    for _ in range(turns):
        data = _mutated(seeded.choice(originals), seeded)
        try:
            found = _read(data, is_bitmap)
        except FormatError:
            refused += 1
            continue
        assert BitMap(found.to_array()) == found
        assert len(found) <= 65_536 * max(1, len(data))
    assert refused > turns // 10
    grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown_kib < 200 * 1024


@pytest.mark.parametrize("is_bitmap", [True, False])
def test_every_truncation_is_refused(is_bitmap: bool) -> None:
    kind = BITMAP if is_bitmap else ARROW_ARRAY
    _, data = encode_deletions(BitMap([3, 12, *range(60, 90), 70_000]), kind=kind)
    for length in range(len(data)):
        with pytest.raises(FormatError, match="deletion file x"):
            _read(data[:length], is_bitmap)


@_LAW
@given(st.sets(st.integers(0, (1 << 32) - 1), min_size=1, max_size=200))
def test_small_arrow_files_are_byte_by_byte_what_pyarrow_writes(offsets: set[int]) -> None:
    schema = pa.schema([pa.field("row_id", pa.uint32(), nullable=False)])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, schema) as writer:
        column = pa.array(sorted(offsets), pa.uint32())
        writer.write_batch(pa.record_batch([column], schema=schema))
    assert encode_deletions(BitMap(offsets), ARROW_ARRAY)[1] == bytes(sink.getvalue())


@_LAW
@given(
    st.sets(st.integers(0, 5000), min_size=1, max_size=200), st.integers(0, 9), st.integers(0, 255)
)
def test_a_changed_byte_of_a_small_arrow_file_is_other_offsets_or_an_error(
    offsets: set[int], place: int, value: int
) -> None:
    data = bytearray(encode_deletions(BitMap(offsets), ARROW_ARRAY)[1])
    at = place * (len(data) - 1) // 9
    data[at] = value
    for expected in (len(offsets), None):
        try:
            found = _read(bytes(data), is_bitmap=False, expected=expected)
        except FormatError:
            continue
        assert expected is None or len(found) == expected
        with pa.ipc.open_file(pa.BufferReader(bytes(data))) as reader:
            stored = reader.read_all().column(0).to_pylist()
        assert set(found) == set(stored)
