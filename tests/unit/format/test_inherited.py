"""Fragments of a clone, written all at once: the same as one by one, whatever their shapes."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lancewood.errors import FormatError, UnsupportedError
from lancewood.format.inherited import inherited_fragments, refer_one_by_one
from lancewood.model.ids import BaseId
from lancewood.model.manifest import Manifest
from lancewood.proto import table_pb2

SMALL = st.integers(0, 300)
U64 = st.one_of(SMALL, st.integers(0, 2**64 - 1))
NAMES = st.one_of(st.just("0101" * 14 + ".lance"), st.text("ab", min_size=1, max_size=130))
UNKNOWN = st.sampled_from(
    [
        b"",
        b"\x7a\x02hi",  # field 15, bytes
        b"\x78\x85\x01",  # field 15, a number
        b"\x79" + b"x" * 8,  # field 15, eight bytes
        b"\x7d" + b"x" * 4,  # field 15, four bytes
        b"\xa2\x06\x03abc",  # field 100: a tag of two bytes
        b"\x3a\x01\x07",  # field 7, but not a number
    ]
)


@st.composite
def data_files(draw: st.DrawFn) -> bytes:
    file = table_pb2.DataFile(
        path=draw(NAMES),
        fields=draw(st.lists(st.integers(-2, 200), max_size=4)),
        column_indices=draw(st.lists(st.integers(-1, 200), max_size=4)),
        file_major_version=2,
        file_minor_version=draw(st.integers(0, 2)),
        file_size_bytes=draw(U64),
        base_id=draw(st.one_of(st.none(), st.integers(0, 2**32 - 1))),
    )
    return draw(UNKNOWN) + file.SerializeToString() + draw(UNKNOWN)


@st.composite
def deletion_files(draw: st.DrawFn) -> bytes:
    deletion = table_pb2.DeletionFile(
        file_type=draw(st.sampled_from(["ARROW_ARRAY", "BITMAP"])),
        read_version=draw(U64),
        id=draw(U64),
        num_deleted_rows=draw(SMALL),
        base_id=draw(st.one_of(st.none(), SMALL)),
    )
    return deletion.SerializeToString() + draw(UNKNOWN)


def part(tag: int, content: bytes) -> bytes:
    """One field that has a length, at most 16,383 bytes long."""
    low, high = len(content) & 0x7F, len(content) >> 7
    return bytes([tag, low | 0x80, high] if high else [tag, low]) + content


@st.composite
def fragments(draw: st.DrawFn) -> bytes:
    message = table_pb2.DataFragment(id=draw(U64), physical_rows=draw(U64))
    if draw(st.booleans()):
        message.inline_row_ids = draw(st.binary(max_size=20))
    if draw(st.booleans()):
        message.column_created_at_versions.SetInParent()
    parts = [message.SerializeToString(), draw(UNKNOWN)]
    parts += [part(0x12, each) for each in draw(st.lists(data_files(), max_size=3))]
    parts += [part(0x1A, each) for each in draw(st.lists(deletion_files(), max_size=2))]
    return b"".join(draw(st.permutations(parts)))


def manifest(raw: Sequence[bytes]) -> Manifest:
    return Manifest(table_pb2.Manifest(fragments=raw), name="m")


def fast(raw: Sequence[bytes], base_id: int) -> list[bytes]:
    wire = inherited_fragments(manifest(raw), BaseId(base_id))
    return list(table_pb2.Manifest.FromString(wire).fragments)


def decoded(raw: Sequence[bytes]) -> list[table_pb2.DataFragment]:
    return [table_pb2.DataFragment.FromString(each) for each in raw]


@settings(deadline=None)
@given(st.lists(st.tuples(fragments(), st.integers(1, 40)), max_size=8), st.integers(0, 2**32 - 1))
@example([(b"", 40)], 0)
@example([], 7)
def test_all_at_once_is_the_same_as_one_by_one(
    shapes: list[tuple[bytes, int]], base_id: int
) -> None:
    raw = [shape for shape, count in shapes for _ in range(count)]
    raw = [*raw[::2], *raw[1::2]]
    slow = list(refer_one_by_one(raw, BaseId(base_id), "m"))
    assert decoded(fast(raw, base_id)) == decoded(slow)


def plain(number: int, deleted: bool = False) -> bytes:
    file = table_pb2.DataFile(
        path=f"{number:056d}.lance", fields=[0, 1], column_indices=[0, 1], file_major_version=2
    )
    file.file_size_bytes = 100 + number
    message = table_pb2.DataFragment(id=number, files=[file], physical_rows=10)
    if deleted:
        message.deletion_file.id = number
        message.deletion_file.num_deleted_rows = 1
    return message.SerializeToString()


def test_fragments_of_the_usual_shapes_come_out_byte_for_byte() -> None:
    raw = [plain(number, deleted=number % 3 == 0) for number in range(20_000)]
    assert fast(raw, 3) == list(refer_one_by_one(raw, BaseId(3), "m"))


@pytest.mark.parametrize("count", [3, 300])
def test_the_source_stays_as_it_is(count: int) -> None:
    source = manifest([plain(number, deleted=True) for number in range(count)])
    _ = source.fragments
    inherited_fragments(source, BaseId(3))
    assert {each.files[0].base_id for each in source.fragments} == {None}
    assert {each.message.deletion_file.HasField("base_id") for each in source.fragments} == {False}


def test_more_shapes_than_are_worth_it_are_still_right() -> None:
    raw = [
        table_pb2.DataFragment(
            id=size, files=[table_pb2.DataFile(path="p")], inline_row_ids=b"x" * size
        ).SerializeToString()
        for size in range(1, 300)
        for _ in range(5)
    ]
    assert fast(raw, 0) == list(refer_one_by_one(raw, BaseId(0), "m"))


def test_overlays_are_referred_to_as_well() -> None:
    overlay = table_pb2.DataOverlayFile(data_file=table_pb2.DataFile(path="o"))
    raw = [table_pb2.DataFragment(id=1, overlays=[overlay]).SerializeToString()] * 40
    assert {each.overlays[0].data_file.base_id for each in decoded(fast(raw, 5))} == {5}


@pytest.mark.parametrize("count", [1, 40])
def test_row_ids_outside_the_manifest_cannot_be_referred_to(count: int) -> None:
    message = table_pb2.DataFragment(id=4)
    message.external_row_ids.path = "ids"
    with pytest.raises(UnsupportedError, match="fragment 4 keeps the ids or versions"):
        fast([message.SerializeToString()] * count, 0)


@pytest.mark.parametrize("count", [1, 40])
@pytest.mark.parametrize("broken", [b"\x12\x7f", b"\x12\x05\x0a\x7f", b"\x08" + b"\xff" * 11])
def test_a_fragment_that_cannot_be_decoded_is_an_error(broken: bytes, count: int) -> None:
    with pytest.raises(FormatError, match="cannot be decoded"):
        fast([broken] * count, 0)
