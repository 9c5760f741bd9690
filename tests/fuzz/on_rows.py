"""Targets: deletion files of both kinds, row-id sequences, row versions, JSON values."""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Iterator
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
from pyroaring import BitMap
from tests.fuzz.bend import EDGES, bend
from tests.fuzz.message import bend_message
from tests.fuzz.target import Context, Target, Trial, expect

from lancewood.data.arrays import decode_jsonb
from lancewood.errors import InvalidInputError
from lancewood.format.deletion import decode_deletions, encode_deletions
from lancewood.model.ids import MAX_U64
from lancewood.model.rowids import RowIdSequence, RowVersions
from lancewood.proto import rowids_pb2

_SPELL_OUT = 100_000
"""Longer sequences are not spelled out: the law is about what bytes cost that nobody asked for."""


def targets(context: Context) -> Iterator[Target]:
    corpus = context.corpus
    yield Target(
        "deletion-arrow",
        lambda rng: _bent_arrow(rng, corpus.arrow_deletions),
        lambda data, trial: check_deletions(data, trial, is_bitmap=False),
    )
    yield Target(
        "deletion-bitmap",
        lambda rng: _bent_bitmap(rng, corpus.bitmap_deletions),
        lambda data, trial: check_deletions(data, trial, is_bitmap=True),
    )
    yield Target("row-ids", lambda rng: _bent_ids(rng, corpus.row_ids), check_row_ids)
    yield Target(
        "row-versions", lambda rng: _bent_versions(rng, corpus.row_versions), check_row_versions
    )
    yield Target("jsonb", lambda rng: _bent_jsonb(rng, corpus.jsonb), check_jsonb)


def _bent_arrow(rng: Random, corpus: list[bytes]) -> bytes:
    if rng.random() < 0.7:
        return bend(rng, rng.choice(corpus), corpus)
    return _odd_arrow(rng)


def _odd_arrow(rng: Random) -> bytes:
    """An Arrow file that is whole and no deletion file: other types, bombs, other shapes."""
    rows = rng.choice((0, 1, 5, 100_000))
    kind = rng.choice((pa.uint32(), pa.int64(), pa.int8(), pa.uint64(), pa.float64(), pa.string()))
    column = pa.array(np.zeros(rows, np.int8)).cast(kind)
    arrays = rng.choice(
        (
            [column],
            [column.dictionary_encode()],
            [column, column],
            [pa.nulls(rows, pa.uint32())],
            [pa.array([rng.choice((-1, 1 << 32, 1 << 62))] * rows, pa.int64())],
            [pa.ListArray.from_arrays(pa.array([0, rows], pa.int32()), column)],
            [pa.RunEndEncodedArray.from_arrays([1 << 30], pa.array([1], pa.uint32()))],
        )
    )
    table = pa.table(arrays, names=[f"row_id{n or ''}" for n in range(len(arrays))])
    sink = io.BytesIO()
    options = pa.ipc.IpcWriteOptions(compression=rng.choice((None, "lz4", "zstd")))
    make: Any = pa.ipc.new_file if rng.random() < 0.9 else pa.ipc.new_stream
    with make(sink, table.schema, options=options) as writer:
        for _ in range(rng.choice((1, 1, 3))):
            writer.write_table(table)
    data = sink.getvalue()
    return data if rng.random() < 0.5 else bend(rng, data)


def _bent_bitmap(rng: Random, corpus: list[bytes]) -> bytes:
    what = rng.random()
    if what < 0.6:
        return bend(rng, rng.choice(corpus), corpus)
    if what < 0.63:  # every number of 32 bits, in half a megabyte
        return full_bitmap(rng.choice((1, 7, 300, 300, 300, 300, 300, 1 << 16)))
    values = {rng.randrange(1 << rng.choice((4, 17, 32))) for _ in range(rng.choice((0, 3, 5000)))}
    bitmap = BitMap(values)
    if rng.random() < 0.5:
        bitmap.run_optimize()
    data = bytes(bitmap.serialize())
    return data if rng.random() < 0.2 else bend(rng, data)


def full_bitmap(containers: int) -> bytes:
    """A bitmap of the first ``containers`` times 65,536 numbers, in a few bytes."""
    head = struct.pack("<I", 12347 | containers - 1 << 16) + b"\xff" * ((containers + 7) // 8)
    head += b"".join(struct.pack("<HH", key, 0xFFFF) for key in range(containers))
    if containers >= 4:
        start = len(head) + 4 * containers
        head += b"".join(struct.pack("<I", start + 6 * key) for key in range(containers))
    return head + struct.pack("<HHH", 1, 0, 0xFFFF) * containers


def check_deletions(data: bytes, trial: Trial, *, is_bitmap: bool) -> None:
    found = decode_deletions(data, is_bitmap, path="fuzzed", physical_rows=0, expected=None)
    expect(not found or found.max() < 1 << 32, "an offset has more than 32 bits")
    if found and len(found) < 10_000_000:
        kind, encoded = encode_deletions(found)
        is_now_bitmap = kind != 0
        again = decode_deletions(
            encoded, is_now_bitmap, path="again", physical_rows=0, expected=len(found)
        )
        expect(again == found, "rewritten deletions are other ones")
    aside = Trial()
    for rows in (1, 100, 11_000) if len(data) < 100_000 else (100,):
        inside = aside(
            lambda: decode_deletions(
                data,
                is_bitmap,
                path="fuzzed",
                physical_rows=rows,  # noqa: B023
                expected=None,
            )
        )
        expect(not inside or inside.max() < rows, f"more than {rows} rows are deleted")


def _edge(rng: Random) -> int:
    return rng.choice((rng.randrange(100), rng.choice(EDGES), rng.randrange(1 << 64)))


def _encoded_array(rng: Random, into: rowids_pb2.EncodedU64Array) -> None:
    raw = rng.randbytes(rng.choice((0, 2, 8, 16, 24, 64, 7)))
    if rng.random() < 0.5:
        raw = b"".join(struct.pack("<Q", n) for n in range(rng.randrange(6)))
    kind = rng.randrange(4)
    if kind == 0:
        into.u16_array.base, into.u16_array.offsets = _edge(rng), raw
    elif kind == 1:
        into.u32_array.base, into.u32_array.offsets = _edge(rng), raw
    elif kind == 2:
        into.u64_array.values = raw


def _segment(rng: Random, into: rowids_pb2.U64Segment) -> None:
    kind = rng.randrange(6)
    start = _edge(rng)
    end = rng.choice((_edge(rng), min(MAX_U64, start + rng.randrange(50))))
    if kind == 0:
        into.range.start, into.range.end = start, end
    elif kind == 1:
        into.range_with_holes.start, into.range_with_holes.end = start, end
        _encoded_array(rng, into.range_with_holes.holes)
    elif kind == 2:
        into.range_with_bitmap.start, into.range_with_bitmap.end = start, end
        size = (end - start + 7) // 8 if 0 <= end - start < 1000 else rng.randrange(9)
        into.range_with_bitmap.bitmap = rng.randbytes(size)
    elif kind == 3:
        _encoded_array(rng, into.sorted_array)
    elif kind == 4:
        _encoded_array(rng, into.array)


def _bent_ids(rng: Random, corpus: list[bytes]) -> bytes:
    if rng.random() < 0.5:
        return bend_message(rng, rng.choice(corpus), corpus)
    message = rowids_pb2.RowIdSequence()
    for _ in range(rng.choice((0, 1, 1, 2, 5, 30))):
        _segment(rng, message.segments.add())
    data = message.SerializeToString()
    return data if rng.random() < 0.7 else bend_message(rng, data, corpus)


def _bent_versions(rng: Random, corpus: list[bytes]) -> bytes:
    if rng.random() < 0.5:
        return bend_message(rng, rng.choice(corpus), corpus)
    message = rowids_pb2.RowDatasetVersionSequence()
    for _ in range(rng.choice((0, 1, 1, 2, 5, 30))):
        run = message.runs.add(version=_edge(rng))
        _segment(rng, run.span)
    data = message.SerializeToString()
    return data if rng.random() < 0.7 else bend_message(rng, data, corpus)


def check_row_ids(data: bytes, trial: Trial) -> None:
    sequence = RowIdSequence.decode(data)
    expect(sequence.encode() == data, "an unchanged sequence is written differently")
    length = _check_sequence(sequence)
    if length:
        first, last = sequence.value_at(0), sequence.value_at(length - 1)
        found = sequence.find([first, last])
        expect(sequence.value_at(int(found[0])) == first, "the first id is found elsewhere")
        expect(sequence.value_at(int(found[1])) == last, "the last id is found elsewhere")
        expect((sequence.max_value() or 0) >= max(first, last), "the largest id is not the largest")
        part = sequence.without([0])
        expect(len(part) == length - 1, "one id less is not one less")
        again = RowIdSequence.decode(part.encode())
        expect(again == part, "rewritten row ids are other ones")
    expect(sum(count for _, _, count in sequence.runs()) == length, "runs do not add up")
    if length <= _SPELL_OUT:
        values = sequence.to_numpy()
        expect(values.tolist() == list(sequence), "two spellings of the ids")
        expect(RowIdSequence.from_values(values) == sequence, "other ids come of the same ones")
        fresh = RowIdSequence.from_values(values).encode()
        expect(RowIdSequence.decode(fresh) == sequence, "encoded anew they are other ids")


def check_row_versions(data: bytes, trial: Trial) -> None:
    versions = RowVersions.decode(data)
    expect(versions.encode() == data, "unchanged versions are written differently")
    length = _check_sequence(versions)
    expect(sum(count for count, _ in versions.runs()) == length, "runs do not add up")
    stamped = versions.restamp(5, 5)
    expect(len(stamped) == length and (stamped.max_value() or 0) <= 5, "a restamp left some out")
    expect(RowVersions.decode(stamped.encode()) == stamped, "rewritten versions are other ones")
    if length:
        changed = versions.with_value_at([length - 1], 7)
        expect(changed.value_at(length - 1) == 7, "a version was not set")


def _check_sequence(sequence: RowIdSequence | RowVersions) -> int:
    length = len(sequence)
    expect(0 <= length <= 1 << 32, f"a sequence of {length} rows")
    half = length // 2
    parts = [sequence.slice(0, half), sequence.slice(half, length)]
    expect(sum(map(len, parts)) == length, "two halves are not the whole")
    try:
        sequence.value_at(length)
    except InvalidInputError:
        return length
    raise AssertionError("a value beyond the end")


_JSON_KINDS = (0x00, 0x10, 0x20, 0x30, 0x40, 0x50, 0x60, 0x70)


def _bent_jsonb(rng: Random, corpus: list[bytes]) -> bytes:
    what = rng.random()
    if what < 0.6:
        return bend(rng, rng.choice(corpus), corpus)
    if what < 0.75:  # containers that all say that they are of no length, one behind the other
        width, depth = rng.choice((2, 10, 100)), rng.choice((3, 20, 250, 400))
        header = struct.pack(">I", 0x80000000 | width)
        end = rng.choice((b"", struct.pack(">I", 0x80000000)))
        return (header + struct.pack(">I", 0x50000000) * width) * depth + end
    total = rng.randrange(6)
    kind = rng.choice((0x80000000, 0x40000000, 0x20000000, 0xE0000000))
    entries = [
        rng.choice(_JSON_KINDS) << 24 | rng.choice((0, 1, 4, 9, 1 << 20)) for _ in range(total)
    ]
    count = rng.choice((total, total // 2, rng.randrange(1 << 29)))
    raw = struct.pack(">I", kind | count) + b"".join(struct.pack(">I", each) for each in entries)
    return raw + rng.randbytes(rng.randrange(40))


def check_jsonb(data: bytes, trial: Trial) -> None:
    column = decode_jsonb(pa.array([data, None], pa.large_binary()))
    expect(len(column) == 2 and column[1].as_py() is None, "a null is gone")
    text = column[0].as_py()
    expect(isinstance(text, str), "no text came out")
    json.loads(text)
