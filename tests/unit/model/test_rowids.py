"""Row id sequences and row versions, value by value."""

from __future__ import annotations

import pickle
from collections.abc import Sequence

import numpy as np
import pytest
from pyroaring import BitMap

from lancewood.errors import FormatError, InvalidInputError
from lancewood.model.ids import MAX_U64
from lancewood.model.rowids import RowIdSequence, RowVersions
from lancewood.model.segments import MAX_ROWS
from lancewood.proto.rowids_pb2 import (
    EncodedU64Array,
    RowDatasetVersionRun,
    RowDatasetVersionSequence,
    U64Segment,
)
from lancewood.proto.rowids_pb2 import RowIdSequence as Message


def _u64(*values: int) -> EncodedU64Array:
    return EncodedU64Array(u64_array={"values": np.array(values, "<u8").tobytes()})


def _wire(*segments: U64Segment) -> bytes:
    return Message(segments=segments).SerializeToString()


def _range(start: int, end: int) -> U64Segment:
    return U64Segment(range={"start": start, "end": end})


def _holes(start: int, end: int, holes: EncodedU64Array | None) -> U64Segment:
    return U64Segment(range_with_holes={"start": start, "end": end, "holes": holes})


def _bitmap(start: int, end: int, bitmap: bytes) -> U64Segment:
    return U64Segment(range_with_bitmap={"start": start, "end": end, "bitmap": bitmap})


def _kinds(data: bytes) -> list[str | None]:
    return [each.WhichOneof("segment") for each in Message.FromString(data).segments]


def _ids(values: Sequence[int]) -> RowIdSequence:
    return RowIdSequence.from_values(values)


# The byte examples of the format reference, seen in pylance's manifests.
EXAMPLES = [
    ("0a040a02100a", list(range(10))),
    ("0a060a04080a100f", [10, 11, 12, 13, 14]),
    ("0a060a04080210040a060a04080c100d", [2, 3, 12]),
    ("0a0a1a080801100a1a02f101", [1, 5, 6, 7, 8, 9]),
    ("0a0a1a08080410101a020108", [4, 15]),
]


@pytest.mark.parametrize(("data", "values"), EXAMPLES)
def test_the_examples_of_the_format_are_read(data: str, values: list[int]) -> None:
    sequence = RowIdSequence.decode(bytes.fromhex(data))
    assert list(sequence) == values
    assert sequence.encode().hex() == data


@pytest.mark.parametrize(("data", "values"), [each for each in EXAMPLES if each[1] != [2, 3, 12]])
def test_new_sequences_are_written_as_pylance_writes_them(data: str, values: list[int]) -> None:
    assert _ids(values).encode().hex() == data


def test_bitmaps_start_at_the_least_significant_bit() -> None:
    assert list(RowIdSequence.decode(_wire(_bitmap(100, 109, b"\x01\x01")))) == [100, 108]


def test_holes_are_absolute_values() -> None:
    sequence = RowIdSequence.decode(_wire(_holes(10, 16, _u64(10, 12, 13))))
    assert list(sequence) == [11, 14, 15]


@pytest.mark.parametrize(
    "array",
    [
        EncodedU64Array(u16_array={"base": 2, "offsets": np.array([7, 0, 65535], "<u2").tobytes()}),
        EncodedU64Array(u32_array={"base": 2, "offsets": np.array([7, 0, 65535], "<u4").tobytes()}),
        _u64(9, 2, 65537),
    ],
)
def test_arrays_of_every_width_are_read(array: EncodedU64Array) -> None:
    assert list(RowIdSequence.decode(_wire(U64Segment(array=array)))) == [9, 2, 65537]


def test_segments_follow_each_other_and_may_be_empty() -> None:
    data = _wire(_range(5, 5), _bitmap(3, 3, b""), _range(7, 9), U64Segment(array=_u64(1)))
    sequence = RowIdSequence.decode(data)
    assert list(sequence) == [7, 8, 1]
    assert sequence.encode() == data


def test_an_empty_message_is_an_empty_sequence() -> None:
    empty = RowIdSequence.decode(b"")
    assert len(empty) == 0
    assert list(empty) == []
    assert empty.max_value() is None
    assert empty == RowIdSequence.concat([]) == _ids([]) == RowIdSequence.from_range(4, 0)
    assert empty.find([3]).tolist() == [-1]
    assert empty.to_numpy().dtype == np.uint64


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\x0a\x05\x0a", "not a message"),
        (b"\xff" * 12, "not a message"),
        (_wire(_range(9, 4)), "range ends at 4, before its start 9"),
        (_wire(_range(0, 3), U64Segment()), "no known kind"),
        (b"\x0a\x03\x32\x01\x00", "no known kind"),
        (_wire(_holes(0, 5, None)), "no known width"),
        (_wire(_holes(0, 5, EncodedU64Array())), "no known width"),
        (_wire(_holes(5, 0, _u64())), "before its start"),
        (_wire(_holes(2, 5, _u64(1))), "leave their range 2 to 5"),
        (_wire(_holes(2, 5, _u64(5))), "leave their range 2 to 5"),
        (_wire(_holes(0, 5, _u64(3, 1))), "does not strictly ascend"),
        (_wire(_holes(0, 5, _u64(2, 2))), "does not strictly ascend"),
        (_wire(_bitmap(0, 9, b"\xff")), "1 bytes for 9 numbers"),
        (_wire(_bitmap(0, 8, b"\xff\x00")), "2 bytes for 8 numbers"),
        (_wire(_bitmap(4, 8, b"\xfb")), "beyond its 4 numbers"),
        (_wire(_bitmap(9, 4, b"")), "before its start"),
        (_wire(_bitmap(0, MAX_U64, b"\xff")), "1 bytes for"),
        (_wire(U64Segment(sorted_array=_u64(3, 1))), "does not strictly ascend"),
        (_wire(U64Segment(sorted_array=_u64(3, 3))), "does not strictly ascend"),
        (_wire(U64Segment(array=EncodedU64Array())), "no known width"),
        (_wire(U64Segment(array=EncodedU64Array(u16_array={"offsets": b"abc"}))), "3 bytes"),
        (_wire(U64Segment(array=EncodedU64Array(u32_array={"offsets": b"abcdef"}))), "6 bytes"),
        (_wire(U64Segment(array=EncodedU64Array(u64_array={"values": b"abcd"}))), "4 bytes"),
        (
            _wire(U64Segment(array={"u16_array": {"base": MAX_U64, "offsets": b"\x01\x00"}})),
            "pass 64 bits",
        ),
        (
            _wire(U64Segment(array={"u32_array": {"base": MAX_U64 - 4, "offsets": b"\x05\0\0\0"}})),
            "pass 64 bits",
        ),
    ],
)
def test_broken_sequences_are_refused(data: bytes, reason: str) -> None:
    with pytest.raises(FormatError, match=reason):
        RowIdSequence.decode(data)


@pytest.mark.parametrize(
    "segments",
    [
        [_range(0, 1 << 63)],
        [_range(0, MAX_U64)],
        [_range(0, MAX_ROWS + 1)],
        [_range(0, MAX_ROWS), _range(0, 1)],
        [_holes(0, MAX_U64, _u64(0, 1 << 62))],
        [_range(0, MAX_U64)] * 3,
    ],
)
def test_claims_beyond_a_fragment_are_refused_before_they_cost_memory(
    segments: list[U64Segment],
) -> None:
    with pytest.raises(FormatError, match="a fragment has at most"):
        RowIdSequence.decode(_wire(*segments))
    runs = [RowDatasetVersionRun(span=each, version=1) for each in segments]
    with pytest.raises(FormatError, match="a fragment has at most"):
        RowVersions.decode(RowDatasetVersionSequence(runs=runs).SerializeToString())


def test_the_length_check_hears_the_true_length() -> None:
    heard: list[tuple[str, int]] = []
    RowIdSequence.decode(_wire(_range(3, 9)), lambda what, length: heard.append((what, length)))
    RowVersions.decode(RowVersions.uniform(4, 7).encode(), lambda *found: heard.append(found))
    with pytest.raises(FormatError):
        RowIdSequence.decode(_wire(_range(0, 1 << 63)), lambda *found: heard.append(found))
    assert heard == [
        ("row id sequence", 6),
        ("row version sequence", 7),
        ("row id sequence", 1 << 63),
    ]


def test_the_largest_id_is_written_although_no_range_can_end_after_it() -> None:
    top = _ids([MAX_U64 - 2, MAX_U64 - 1, MAX_U64])
    assert _kinds(top.encode()) == ["sorted_array"]
    assert RowIdSequence.decode(top.encode()) == top
    assert top.max_value() == MAX_U64
    assert list(_ids([MAX_U64, 0]).runs()) == [(0, MAX_U64, 1), (1, 0, 1)]
    assert _ids([MAX_U64, 0, MAX_U64]).find([MAX_U64, 0]).tolist() == [2, 1]


@pytest.mark.parametrize(
    ("values", "kinds"),
    [
        (range(3, 1000), ["range"]),
        ([5, 4, 3], ["array"]),
        ([7, 7], ["array"]),
        ([*range(50), *range(51, 100)], ["range_with_holes"]),
        ([*range(0, 100, 2)], ["range_with_bitmap"]),
        ([*range(0, 10_000, 100)], ["sorted_array"]),
        ([*range(1000), *range(10**12, 10**12 + 1000)], ["range", "range"]),
        ([*range(1000), 7, 3, 9000, *range(2000, 3000)], ["range", "array", "range"]),
        ([*range(500, 1000), *range(500)], ["range", "range"]),
    ],
)
def test_the_kind_of_segment_follows_the_values(values: Sequence[int], kinds: list[str]) -> None:
    data = _ids(values).encode()
    assert _kinds(data) == kinds
    assert list(RowIdSequence.decode(data)) == list(values)


@pytest.mark.parametrize(
    ("values", "width"),
    [
        ([65535, 0], "u16_array"),
        ([65536, 0], "u32_array"),
        ([(1 << 32) - 1, 0], "u32_array"),
        ([1 << 32, 0], "u64_array"),
        ([10**15 + 65535, 10**15], "u16_array"),
    ],
)
def test_arrays_are_as_wide_as_their_spread(values: list[int], width: str) -> None:
    message = Message.FromString(_ids(values).encode())
    assert message.segments[0].array.WhichOneof("array") == width


def test_huge_ranges_stay_ranges() -> None:
    huge = RowIdSequence.concat(
        [RowIdSequence.from_range(7, MAX_ROWS), RowIdSequence.from_range(1 << 50, 10)]
    )
    assert huge.value_at(MAX_ROWS + 3) == (1 << 50) + 3
    assert huge.find([6, 7, 6 + MAX_ROWS, 7 + MAX_ROWS]).tolist() == [-1, 0, MAX_ROWS - 1, -1]
    assert len(huge.slice(5, MAX_ROWS)) == MAX_ROWS - 5
    assert len(huge.without([9, MAX_ROWS + 9])) == MAX_ROWS + 8
    assert len(huge.encode()) < 40
    assert next(iter(huge)) == 7


def test_selections_keep_the_order_of_rows() -> None:
    sequence = _ids([10, 11, 12, 40, 41, 3])
    assert list(sequence.runs()) == [(0, 10, 3), (3, 40, 2), (5, 3, 1)]
    assert list(sequence.slice(2, 5)) == [12, 40, 41]
    assert list(sequence.slice(4, 4)) == list(sequence.slice(6, 6)) == []
    assert list(sequence.take(np.array([5, 0, 0, 4]))) == [3, 10, 10, 41]
    assert list(sequence.without(BitMap([0, 4]))) == [11, 12, 40, 3]
    assert list(sequence.without(np.array([4, 0, 4]))) == [11, 12, 40, 3]
    assert list(sequence.without(range(6))) == []
    assert list(RowIdSequence.concat([sequence, sequence.slice(5, 6)])) == [
        10,
        11,
        12,
        40,
        41,
        3,
        3,
    ]
    assert sequence.value_at(3) == 40
    assert sequence.max_value() == 41
    assert sequence.to_numpy().tolist() == [10, 11, 12, 40, 41, 3]


def test_what_changes_nothing_keeps_the_bytes() -> None:
    data = bytes.fromhex("0a060a04080210040a060a04080c100d")
    sequence = RowIdSequence.decode(data)
    assert sequence.slice(0, 3).encode() == data
    assert sequence.without(BitMap()).encode() == data
    assert RowIdSequence.concat([sequence]).encode() == data
    assert sequence == _ids([2, 3, 12])
    assert sequence.take([0, 1, 2]).encode() != data


def test_fields_of_a_later_format_survive_as_long_as_nothing_changes() -> None:
    data = _wire(_range(0, 3)) + b"\x9a\x06\x03abc"
    assert RowIdSequence.decode(data).encode() == data


def test_an_id_that_occurs_twice_is_found_at_its_last_offset() -> None:
    sequence = _ids([5, 6, 7, 8, 6, 7, 100, 5])
    assert sequence.find(np.array([5, 6, 7, 8, 9, 100])).tolist() == [7, 4, 5, 3, -1, 6]


def test_sequences_differ_by_values_and_by_kind() -> None:
    assert _ids([1, 2]) != _ids([2, 1])
    assert _ids([1, 2]) != _ids([1, 2, 3])
    assert _ids([1, 1]) != RowVersions.from_values([1, 1])
    assert _ids([1]) != [1]


def test_sequences_survive_pickling() -> None:
    assert pickle.loads(pickle.dumps(_ids([1, 2, 9]))) == _ids([1, 2, 9])
    assert pickle.loads(pickle.dumps(RowVersions.uniform(3, 4))) == RowVersions.uniform(3, 4)


@pytest.mark.parametrize(
    "values",
    [[-1], [1 << 64], [1.5], ["1"], np.array([-1]), np.array([1.0]), np.array([[1, 2]])],
)
def test_only_unsigned_64_bit_numbers_are_taken(values: list[int]) -> None:
    with pytest.raises(InvalidInputError):
        RowIdSequence.from_values(values)
    with pytest.raises(InvalidInputError):
        RowIdSequence.from_range(0, 5).find(values)


def test_ranges_must_fit() -> None:
    for start, count in [(-1, 2), (0, -1), (MAX_U64, 1), (0, MAX_ROWS + 1)]:
        with pytest.raises(InvalidInputError, match="do not fit a fragment"):
            RowIdSequence.from_range(start, count)
    with pytest.raises(InvalidInputError):
        RowVersions.uniform(1, -1)
    with pytest.raises(InvalidInputError):
        RowVersions.uniform(-1, 1)


def test_offsets_outside_the_rows_are_refused() -> None:
    sequence = RowIdSequence.from_range(0, 4)
    for offset in (-1, 4, 1 << 40):
        with pytest.raises(InvalidInputError, match="asked of 4 rows"):
            sequence.value_at(offset)
        with pytest.raises(InvalidInputError, match="asked of 4 rows"):
            sequence.take(np.array([0, offset]))
        with pytest.raises(InvalidInputError, match="asked of 4 rows"):
            sequence.without([offset])
    with pytest.raises(InvalidInputError, match="asked of 4 rows"):
        sequence.without(BitMap([4]))
    with pytest.raises(InvalidInputError, match="list of integers"):
        sequence.take(np.array([0.5]))
    for start, stop in [(-1, 2), (3, 2), (0, 5)]:
        with pytest.raises(InvalidInputError):
            sequence.slice(start, stop)


def test_ten_rows_of_version_1_are_written_as_pylance_writes_them() -> None:
    data = bytes.fromhex("0a080a040a02100a1001")
    assert RowVersions.uniform(1, 10).encode() == data
    assert list(RowVersions.decode(data)) == [1] * 10


def test_a_second_stretch_spans_the_positions_of_its_rows() -> None:
    message = RowDatasetVersionSequence.FromString(RowVersions.from_values([4, 4, 9]).encode())
    found = [(run.span.range.start, run.span.range.end, run.version) for run in message.runs]
    assert found == [(0, 2, 4), (2, 3, 9)]


def test_of_a_span_only_the_number_of_values_counts() -> None:
    spans = [(_range(0, 2), 5), (_range(0, 1), 6), (_bitmap(70, 78, b"\x15"), 5)]
    runs = [RowDatasetVersionRun(span=span, version=version) for span, version in spans]
    data = RowDatasetVersionSequence(runs=runs).SerializeToString()
    versions = RowVersions.decode(data)
    assert list(versions) == [5, 5, 6, 5, 5, 5]
    assert versions.encode() == data


@pytest.mark.parametrize(
    "data",
    [
        b"\x0a\x02\x10\x01",  # a run without a span
        RowDatasetVersionSequence(runs=[{"span": _range(4, 3)}]).SerializeToString(),
        RowDatasetVersionSequence(runs=[{"span": _bitmap(0, 9, b"")}]).SerializeToString(),
        b"\x0a\xff",
    ],
)
def test_broken_versions_are_refused(data: bytes) -> None:
    with pytest.raises(FormatError, match="row version sequence"):
        RowVersions.decode(data)


def test_versions_are_selected_like_ids() -> None:
    versions = RowVersions.from_values(np.array([1, 1, 1, 4, 4, 2]))
    assert list(versions.runs()) == [(3, 1), (2, 4), (1, 2)]
    assert list(versions.slice(2, 4)) == [1, 4]
    assert list(versions.take([5, 3, 0])) == [2, 4, 1]
    assert list(versions.without(BitMap([0, 3, 4]))) == [1, 1, 2]
    assert RowVersions.concat([versions, RowVersions.uniform(2, 2)]).to_numpy().tolist() == [
        *[1, 1, 1, 4, 4, 2],
        *[2, 2],
    ]
    assert versions.value_at(4) == 4
    assert versions.max_value() == 4


def test_versions_from_the_future_are_stamped_anew() -> None:
    versions = RowVersions.from_values([3, 8, 5, 9])
    assert list(versions.restamp(above=5, to=6)) == [3, 6, 5, 6]
    assert versions.restamp(above=9, to=1) is versions


def test_chosen_rows_get_a_version() -> None:
    versions = RowVersions.uniform(3, 6)
    assert list(versions.with_value_at(BitMap([1, 2, 5]), 7)) == [3, 7, 7, 3, 3, 7]
    assert list(versions.with_value_at(np.array([5, 0, 5]), 7)) == [7, 3, 3, 3, 3, 7]
    assert versions.with_value_at([], 7) is versions
    assert list(versions) == [3] * 6
    with pytest.raises(InvalidInputError):
        versions.with_value_at([6], 7)
