"""What a manifest says of its rows, where that cannot be."""

from __future__ import annotations

import pytest

from lancewood.errors import FormatError
from lancewood.model.manifest import Manifest, peek_fragment_id, peek_fragment_ids
from lancewood.proto import table_pb2


def manifest(physical_rows: int, deleted: int | None = None) -> Manifest:
    fragment = table_pb2.DataFragment(id=3, physical_rows=physical_rows)
    if deleted is not None:
        fragment.deletion_file.num_deleted_rows = deleted
    return Manifest(table_pb2.Manifest(fragments=[fragment.SerializeToString()]), name="m")


def test_rows_are_those_that_are_not_deleted() -> None:
    assert manifest(10, 4).rows_by_fragment == [6]
    assert manifest(10, 10).row_count == 0
    assert manifest(1 << 32).row_count == 1 << 32


def test_what_a_writer_left_out_is_not_known() -> None:
    assert manifest(0, 4).rows_by_fragment is None
    assert manifest(4, 0).rows_by_fragment is None


@pytest.mark.parametrize("deleted", [11, (1 << 64) - 1])
def test_more_deleted_rows_than_rows_are_a_format_error(deleted: int) -> None:
    """Fuzzing found it: such a table had a negative number of rows."""
    made = manifest(10, deleted)
    with pytest.raises(FormatError, match=f"^m: {deleted} of a fragment's 10 rows"):
        _ = made.row_count
    with pytest.raises(FormatError, match=f"{deleted} of 10 rows"):
        _ = made.fragments[0].num_rows


def test_more_rows_than_addresses_are_a_format_error() -> None:
    with pytest.raises(FormatError, match=f"a fragment has {(1 << 32) + 1} rows"):
        _ = manifest((1 << 32) + 1).row_count


def test_a_fragment_whose_id_is_written_twice_is_found_by_the_one_that_counts() -> None:
    """Fuzzing found it: the first of the two was looked at, and another fragment came back."""
    raw = [table_pb2.DataFragment(id=each, physical_rows=1).SerializeToString() for each in (1, 2)]
    for twice in ([b"\x08\x02" + raw[0], raw[1]], [raw[0] + b"\x08\x00", raw[1]]):
        made = Manifest(table_pb2.Manifest(fragments=twice), name="m")
        for fragment in made.fragments:
            assert made.fragment(fragment.id).id == fragment.id


def test_ids_are_seen_at_once_as_they_are_one_by_one() -> None:
    numbers = [
        0,
        1,
        127,
        128,
        300,
        1 << 14,
        (1 << 28) - 1,
        1 << 28,
        1 << 34,
        1 << 35,
        (1 << 64) - 1,
    ]
    raw = [
        table_pb2.DataFragment(id=each, physical_rows=1 << 20).SerializeToString()
        for each in numbers
    ]
    odd = b"\x20\x80\x80\x40\x08\x07"  # the id comes last
    for fragments in (raw, raw[::-1], [*raw, odd], [*raw, b""], [b"\x08\x05"], []):
        expected = [peek_fragment_id(each, "m") for each in fragments]
        assert peek_fragment_ids(fragments, "m") == expected
    assert peek_fragment_ids(raw, "m") == numbers
    with pytest.raises(FormatError, match="more than 64 bits"):
        peek_fragment_ids([b"\x08" + b"\xff" * 12], "m")
