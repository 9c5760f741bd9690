from __future__ import annotations

import pytest

from lancewood.errors import IncompatibleConflictError
from lancewood.proto import schema_pb2
from lancewood.rules.three_way import merged_fields, merged_map, same_fields, same_structure

FORK = {"a": "1", "b": "2", "c": "3"}


def field(number: int, name: str, **metadata: bytes) -> schema_pb2.Field:
    return schema_pb2.Field(
        id=number, name=name, parent_id=-1, logical_type="int64", metadata=metadata
    )


def test_a_map_has_the_changes_of_both() -> None:
    mine = {"a": "9", "c": "3", "d": "4"}
    theirs = {"a": "1", "b": "2", "c": "8", "e": "5"}
    merged = merged_map("configuration", FORK, mine, theirs)
    assert merged == {"a": "9", "c": "8", "d": "4", "e": "5"}


def test_a_map_that_i_did_not_change_stays() -> None:
    assert merged_map("configuration", FORK, FORK, {"x": "y"}) is None


def test_the_same_change_on_both_sides_is_no_conflict() -> None:
    assert merged_map("configuration", FORK, {**FORK, "a": "9"}, {**FORK, "a": "9"}) is None


@pytest.mark.parametrize("theirs", [{**FORK, "a": "7"}, {"b": "2", "c": "3"}])
def test_a_key_that_both_changed_is_a_conflict(theirs: dict[str, str]) -> None:
    with pytest.raises(IncompatibleConflictError, match="both change the configuration 'a'"):
        merged_map("configuration", FORK, {**FORK, "a": "9"}, theirs)


def test_fields_that_only_one_side_changed_are_that_sides() -> None:
    fork = (field(0, "a"), field(1, "b"))
    other = (field(0, "a"), field(1, "c"), field(2, "d"))
    assert merged_fields(fork, other, fork) == other
    assert merged_fields(fork, fork, other) is None
    assert merged_fields(fork, other, other) is None


def test_what_writers_fill_in_as_they_like_is_no_change() -> None:
    one, other = field(0, "a"), field(0, "a")
    other.type, other.encoding = schema_pb2.Field.LEAF, schema_pb2.Field.PLAIN
    assert same_fields((one,), (other,))
    assert merged_fields((one,), (other,), (field(0, "b"),)) is None


def test_my_metadata_goes_together_with_their_new_name() -> None:
    fork = (field(0, "a"), field(1, "b"))
    mine = (field(0, "a", unit=b"cm"), field(1, "b"))
    theirs = (field(0, "x"), field(1, "b"), field(2, "c"))
    merged = merged_fields(fork, mine, theirs)
    assert merged == (field(0, "x", unit=b"cm"), field(1, "b"), field(2, "c"))


def test_two_names_of_one_field_are_a_conflict() -> None:
    fork = (field(0, "a"), field(1, "b"))
    with pytest.raises(IncompatibleConflictError, match="both change the name of column 'a'"):
        merged_fields(fork, (field(0, "x"), field(1, "b")), (field(0, "y"), field(1, "b")))


def test_columns_added_on_both_sides_are_a_conflict() -> None:
    fork = (field(0, "a"),)
    with pytest.raises(IncompatibleConflictError, match="both change the columns"):
        merged_fields(fork, (*fork, field(1, "b")), (*fork, field(1, "c")))


def test_a_field_that_i_changed_and_they_dropped_is_a_conflict() -> None:
    fork = (field(0, "a"), field(1, "b"))
    with pytest.raises(IncompatibleConflictError, match="'b', which is changed, was dropped"):
        merged_fields(fork, (field(0, "a"), field(1, "b", unit=b"cm")), (field(0, "a"),))


def test_metadata_is_not_structure() -> None:
    assert same_structure((field(0, "a"),), (field(0, "a", unit=b"cm"),))
    assert not same_structure((field(0, "a"),), (field(0, "b"),))
