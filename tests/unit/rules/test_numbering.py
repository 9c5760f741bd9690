from __future__ import annotations

import pytest
from tests.unit.rules.manifests import FIELDS, created_at, fragment, row_ids, start, with_deleted

from lancewood.errors import (
    FormatError,
    InvalidInputError,
    RetryableConflictError,
    UnsupportedError,
)
from lancewood.model.manifest import FLAG_FIELD_IDS_NOT_REUSED, Manifest
from lancewood.model.rowids import RowIdSequence, RowVersions
from lancewood.proto import table_pb2
from lancewood.rules.numbering import (
    check_field_ids,
    check_fragment_id,
    field_mark,
    hand_out_ids,
    next_fragment_id,
)

TABLE = start(fragment("f", 4), fragment("g", 3))


def ids(*values: int) -> RowIdSequence:
    return RowIdSequence.from_values(values)


def ones(rows: RowIdSequence) -> RowVersions:
    return RowVersions.uniform(1, len(rows))


def test_new_rows_get_new_ids_whatever_the_fragments_carry() -> None:
    carrying = fragment("h", 2).with_lineage(ids(0, 1), RowVersions.uniform(9, 2), None)
    (one, two), marks = hand_out_ids(TABLE, [carrying, fragment("i", 1)])
    assert [one.id, two.id] == [2, 3]
    assert [row_ids(one), row_ids(two)] == [[7, 8], [9]]
    assert created_at(one) == [2, 2]
    assert (marks.max_fragment_id, marks.next_row_id) == (3, 10)


def test_rows_that_moved_keep_their_ids_and_the_tail_gets_new_ones() -> None:
    moved = fragment("h", 3).with_lineage(ids(5, 0), RowVersions.from_values([1, 1]), None)
    more = fragment("i", 2).with_lineage(ids(2), RowVersions.uniform(1, 1), None)
    (one, two), marks = hand_out_ids(TABLE, [moved, more], ones)
    assert row_ids(one) == [5, 0, 7]
    assert created_at(one) == [1, 1, 2]
    assert list(one.last_updated_at or ()) == [2, 2, 2]
    assert row_ids(two) == [2, 8]
    assert created_at(two) == [1, 2]
    assert marks.next_row_id == 9


def test_creation_versions_are_looked_up_where_they_are_not_given() -> None:
    def look_up(rows: RowIdSequence) -> RowVersions:
        return RowVersions.from_values([int(each) + 10 for each in rows])

    bare = fragment("h", 2).with_lineage(ids(5, 0), None, None)
    ((one,), _) = hand_out_ids(TABLE, [bare], look_up)
    assert created_at(one) == [15, 10]
    short = fragment("h", 2).with_lineage(ids(5, 0), RowVersions.uniform(4, 1), None)
    ((two,), _) = hand_out_ids(TABLE, [short], look_up)
    assert created_at(two) == [15, 10]


def test_a_table_without_stable_ids_hands_out_fragment_ids_only() -> None:
    plain = start(fragment("f", 4), stable=False)
    carrying = fragment("h", 2).with_lineage(ids(0, 1), RowVersions.uniform(9, 2), None)
    ((one,), marks) = hand_out_ids(plain, [carrying], ones)
    assert one.id == 1
    assert one.row_ids is None
    assert one.created_at is None
    assert marks.next_row_id is None


def test_more_ids_than_rows_are_refused() -> None:
    moved = fragment("h", 1).with_lineage(ids(5, 0), None, None)
    with pytest.raises(InvalidInputError, match="1 rows lists 2 row ids"):
        hand_out_ids(TABLE, [moved], ones)


def test_an_id_that_was_never_handed_out_is_refused() -> None:
    moved = fragment("h", 1).with_lineage(ids(7), None, None)
    with pytest.raises(InvalidInputError, match="row id 7, which was never handed out"):
        hand_out_ids(TABLE, [moved], ones)


def test_a_fragment_that_does_not_count_its_rows_is_refused() -> None:
    with pytest.raises(FormatError, match="how many rows"):
        hand_out_ids(TABLE, [fragment("h", 0)])


def test_a_new_fragment_brings_no_deletion_file() -> None:
    with pytest.raises(InvalidInputError, match="deletion file"):
        hand_out_ids(TABLE, [with_deleted(fragment("h", 2), 1)])


def test_fragment_ids_begin_at_zero_and_end_with_the_address_space() -> None:
    assert next_fragment_id(start()) == 0
    assert next_fragment_id(TABLE) == 2
    assert check_fragment_id(2**32 - 1) == 2**32 - 1
    with pytest.raises(UnsupportedError, match="fragment ids"):
        check_fragment_id(2**32)


def with_field_mark(mark: int) -> Manifest:
    message = table_pb2.Manifest()
    message.CopyFrom(TABLE.message)
    message.writer_feature_flags |= FLAG_FIELD_IDS_NOT_REUSED
    message.max_allocated_field_id = mark
    return Manifest(message, name="m")


def test_field_ids_are_not_used_twice_where_a_table_says_so() -> None:
    check_field_ids(TABLE, [0])
    check_field_ids(with_field_mark(5), [6, 7])
    check_field_ids(with_field_mark(5), [])
    with pytest.raises(RetryableConflictError, match="up to 5"):
        check_field_ids(with_field_mark(5), [5, 6])


def test_the_mark_of_field_ids_never_falls() -> None:
    assert field_mark(TABLE, FIELDS) is None
    assert field_mark(with_field_mark(5), FIELDS) == 5
    assert field_mark(with_field_mark(0), FIELDS) == 1
