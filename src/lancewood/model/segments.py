"""The segments of a sequence on the wire: five kinds, three widths of array.

Pure functions between messages and runs of numbers (first values and counts), with every claim of
the bytes checked before it is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise

import numpy as np
from google.protobuf.message import DecodeError
from numpy.typing import NDArray

from lancewood.errors import FormatError
from lancewood.model.ids import MAX_U64
from lancewood.proto import rowids_pb2

Values = NDArray[np.uint64]
Counts = NDArray[np.int64]
CheckLength = Callable[[str, int], None]

MAX_ROWS = 1 << 32
"""The most rows a fragment can address: a row address has 32 bits for the offset."""

# A gap longer than this costs more as holes or zero bits than another segment does, and a run of
# ids shorter than this costs less inside its neighbours' array than as a separate segment.
_FAR_GAP = 128
_OWN_SEGMENT = 32


def last_values(firsts: Values, counts: Counts, step: int) -> Values:
    """The last value of each run. An inclusive end, because 2**64 is not a u64."""
    return firsts + (counts - 1).astype(np.uint64) if step else firsts


def expand(firsts: Values, counts: Counts, step: int) -> Values:
    if not step:
        return np.repeat(firsts, counts)
    begins = (np.cumsum(counts) - counts).astype(np.uint64)
    values: Values = np.repeat(firsts - begins, counts)
    values += np.arange(len(values), dtype=np.uint64)
    return values


def parse_sequence(
    message: rowids_pb2.RowIdSequence | rowids_pb2.RowDatasetVersionSequence,
    data: bytes,
    what: str,
) -> None:
    try:
        message.ParseFromString(data)
    except DecodeError as cause:
        raise FormatError(f"{what} of {len(data)} bytes is not a message: {cause}") from cause


def check_total(what: str, total: int, check_length: CheckLength | None) -> None:
    if check_length is not None:
        check_length(what, total)
    if total > MAX_ROWS:
        raise FormatError(f"{what} claims {total} values; a fragment has at most {MAX_ROWS} rows")


def decode_segment(segment: rowids_pb2.U64Segment, what: str) -> tuple[Values, Counts, int]:
    """The runs of a segment, and how many values they hold together."""
    kind = segment.WhichOneof("segment")
    if kind == "range":
        return _decode_range(segment.range.start, segment.range.end, what)
    if kind == "range_with_holes":
        return _decode_holes(segment.range_with_holes, what)
    if kind == "range_with_bitmap":
        return _decode_bitmap(segment.range_with_bitmap, what)
    if kind == "sorted_array":
        values = _decode_array(segment.sorted_array, what)
        _check_ascending(values, f"{what}: sorted array")
    elif kind == "array":
        values = _decode_array(segment.array, what)
    else:
        raise FormatError(f"{what} has a segment of no known kind")
    return values, np.ones(len(values), dtype=np.int64), len(values)


def decode_span(span: rowids_pb2.U64Segment, what: str) -> int:
    """How many values a span holds; for a range, the usual kind, a subtraction."""
    found = span.range
    if span.WhichOneof("segment") == "range" and found.end >= found.start:
        return found.end - found.start
    return decode_segment(span, what)[2]


def _decode_range(start: int, end: int, what: str) -> tuple[Values, Counts, int]:
    if end < start:
        raise FormatError(f"{what}: range ends at {end}, before its start {start}")
    # A claim that no fragment can hold is refused once all segments are counted; here it only has
    # to fit the array.
    count = min(end - start, MAX_ROWS + 1)
    return np.array([start], np.uint64), np.array([count], np.int64), end - start


def _decode_holes(
    found: rowids_pb2.U64Segment.RangeWithHoles, what: str
) -> tuple[Values, Counts, int]:
    _decode_range(found.start, found.end, what)
    holes = _decode_array(found.holes, f"{what}: holes")
    _check_ascending(holes, f"{what}: holes")
    if len(holes) and (int(holes[0]) < found.start or int(holes[-1]) >= found.end):
        bounds = f"{found.start} to {found.end}"
        raise FormatError(f"{what}: holes {holes[0]} to {holes[-1]} leave their range {bounds}")
    starts = np.concatenate((np.array([found.start], np.uint64), holes + np.uint64(1)))
    sizes = np.append(holes, np.uint64(found.end)) - starts
    counts = np.minimum(sizes, np.uint64(MAX_ROWS + 1)).astype(np.int64)
    return starts, counts, found.end - found.start - len(holes)


def _decode_bitmap(
    found: rowids_pb2.U64Segment.RangeWithBitmap, what: str
) -> tuple[Values, Counts, int]:
    _decode_range(found.start, found.end, what)
    slots = found.end - found.start
    if len(found.bitmap) != (slots + 7) // 8:
        raise FormatError(f"{what}: a bitmap of {len(found.bitmap)} bytes for {slots} numbers")
    bits = np.unpackbits(np.frombuffer(found.bitmap, np.uint8), bitorder="little")
    if bits[slots:].any():
        raise FormatError(f"{what}: bits are set in the bitmap beyond its {slots} numbers")
    turns = np.flatnonzero(np.diff(bits, prepend=np.uint8(0), append=np.uint8(0)))
    begins, ends = turns[::2], turns[1::2]
    starts = begins.astype(np.uint64) + np.uint64(found.start)
    return starts, ends - begins, int((ends - begins).sum())


def _decode_array(found: rowids_pb2.EncodedU64Array, what: str) -> Values:
    kind = found.WhichOneof("array")
    if kind == "u16_array":
        base, raw, width = found.u16_array.base, found.u16_array.offsets, 2
    elif kind == "u32_array":
        base, raw, width = found.u32_array.base, found.u32_array.offsets, 4
    elif kind == "u64_array":
        base, raw, width = 0, found.u64_array.values, 8
    else:
        raise FormatError(f"{what}: an array of no known width")
    if len(raw) % width:
        raise FormatError(f"{what}: {len(raw)} bytes in an array of {width} bytes each")
    values: Values = np.frombuffer(raw, dtype=f"<u{width}").astype(np.uint64)
    if len(values) and base + int(values.max()) > MAX_U64:
        raise FormatError(f"{what}: base {base} and offset {values.max()} pass 64 bits")
    return values + np.uint64(base)


def _check_ascending(values: Values, what: str) -> None:
    if not bool((values[1:] > values[:-1]).all()):
        raise FormatError(f"{what} does not strictly ascend")


def encode_segments(firsts: Values, counts: Counts) -> Iterator[rowids_pb2.U64Segment]:
    """Segments for the runs: a long ascending run gets its own, those in between share one."""
    if not len(firsts):
        return
    before = last_values(firsts, counts, 1)[:-1]
    near = (firsts[1:] > before) & (firsts[1:] - before <= _FAR_GAP + 1)
    heads = np.flatnonzero(np.concatenate(([True], ~near)))
    own = np.add.reduceat(counts, heads) >= _OWN_SEGMENT
    opens = own | np.concatenate(([True], own[:-1]))
    bounds = [*heads[opens].tolist(), len(firsts)]
    for begin, end in pairwise(bounds):
        yield _encode_segment(firsts[begin:end], counts[begin:end])


def _encode_segment(firsts: Values, counts: Counts) -> rowids_pb2.U64Segment:
    """One segment: a range, else the smallest of holes, bitmap and array by the format's rule."""
    segment = rowids_pb2.U64Segment()
    lasts = last_values(firsts, counts, 1)
    start, end = int(firsts[0]), int(lasts[-1]) + 1
    if not bool((firsts[1:] > lasts[:-1]).all()):
        segment.array.CopyFrom(_encode_array(expand(firsts, counts, 1)))
        return segment
    if len(firsts) == 1 and end <= MAX_U64:
        segment.range.start, segment.range.end = start, end
        return segment
    slots, present = end - start, int(counts.sum())
    sizes = {"holes": 4 * (slots - present), "bitmap": (slots + 7) // 8, "array": 2 * present}
    kind = min(sizes, key=lambda each: sizes[each]) if end <= MAX_U64 else "array"
    if kind == "holes":
        gaps = (firsts[1:] - lasts[:-1]).astype(np.int64) - 1
        holes = _encode_array(expand(lasts[:-1] + np.uint64(1), gaps, 1))
        segment.range_with_holes.start, segment.range_with_holes.end = start, end
        segment.range_with_holes.holes.CopyFrom(holes)
        return segment
    values = expand(firsts, counts, 1)
    if kind == "bitmap":
        bits = np.zeros(slots, dtype=np.uint8)
        bits[(values - np.uint64(start)).astype(np.int64)] = 1
        segment.range_with_bitmap.start, segment.range_with_bitmap.end = start, end
        segment.range_with_bitmap.bitmap = np.packbits(bits, bitorder="little").tobytes()
        return segment
    segment.sorted_array.CopyFrom(_encode_array(values))
    return segment


def _encode_array(values: Values) -> rowids_pb2.EncodedU64Array:
    encoded = rowids_pb2.EncodedU64Array()
    base = int(values.min()) if len(values) else 0
    spread = int(values.max()) - base if len(values) else MAX_U64
    offsets = values - np.uint64(base)
    if spread < 1 << 16:
        encoded.u16_array.base, encoded.u16_array.offsets = base, offsets.astype("<u2").tobytes()
    elif spread < 1 << 32:
        encoded.u32_array.base, encoded.u32_array.offsets = base, offsets.astype("<u4").tobytes()
    else:
        encoded.u64_array.values = values.astype("<u8").tobytes()
    return encoded
