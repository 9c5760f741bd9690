from __future__ import annotations

import pytest
from pyroaring import BitMap
from tests.metadata import data_file
from tests.unit.rules.manifests import field, fragment, index

from lancewood.errors import UnsupportedError
from lancewood.model.fragment import Fragment
from lancewood.model.ids import FieldId, FragmentId
from lancewood.model.index import Index
from lancewood.rules.indices import (
    Indices,
    changed_fields,
    check_no_fragment_reuse,
    on_live_fields,
    uncovered,
    with_moved_rows,
    with_relatives,
    with_rewritten_fragments,
)

BY_ID = index("ids", [1], [0, 1, 2], "Bitmap")
BY_ADDRESS = index("addresses", [1], [0, 1, 2], "BTree")
BOTH = (BY_ID, BY_ADDRESS)


def fields(*numbers: int) -> frozenset[FieldId]:
    return frozenset(map(FieldId, numbers))


def fragments(*numbers: int) -> list[FragmentId]:
    return [FragmentId(each) for each in numbers]


def covered(indices: Indices) -> list[set[int]]:
    return [set(each.fragments) for each in indices]


def test_relatives_are_what_is_above_and_what_is_below() -> None:
    tree = [
        field(0, "s", kind="struct"),
        field(1, "l", 0, "list"),
        field(2, "item", 1),
        field(3, "x", 0),
        field(4, "y"),
    ]
    assert with_relatives(tree, fields(2)) == {2, 1, 0}
    assert with_relatives(tree, fields(1)) == {2, 1, 0}
    assert with_relatives(tree, fields(0)) == {0, 1, 2, 3}
    assert with_relatives(tree, fields(4)) == {4}
    assert with_relatives(tree, fields(2, 0)) == {0, 1, 2, 3}
    assert with_relatives(tree, fields(9)) == {9}


def test_columns_change_with_the_file_they_come_from() -> None:
    old = Fragment.make([data_file("f", 0, 1), data_file("g", 2)], 3)
    assert changed_fields(old, old) == set()
    assert changed_fields(old, old.with_columns(data_file("h", 1))) == {1}
    assert changed_fields(old, old.with_columns(data_file("h", 0, 1, 2))) == {0, 1, 2}
    assert changed_fields(old, old.with_files(old.files[:1])) == {2}


def test_a_column_that_was_null_so_far_has_changed_too() -> None:
    old = fragment("f", 3, 0)
    assert changed_fields(old, old.with_columns(data_file("h", 1))) == {1}


def test_an_index_goes_with_one_of_its_columns() -> None:
    pair = index("pair", [0, 2], [0], "BTree")
    assert on_live_fields((*BOTH, pair), fields(0, 1)) == BOTH
    assert on_live_fields((*BOTH, pair), fields(0, 2)) == (pair,)


def test_an_index_on_a_rewritten_column_no_longer_answers_for_the_fragment() -> None:
    assert covered(uncovered(BOTH, fragments(1, 9), fields(1))) == [{0, 2}, {0, 2}]
    assert uncovered(BOTH, fragments(1), fields(0, 2)) == BOTH
    assert uncovered(BOTH, fragments(9), fields(1)) == BOTH


def test_where_the_remapping_is_deferred_such_an_index_answers_for_nothing() -> None:
    """Its bitmap names the fragments of before; a reader takes 0, 1 and 2 for what they became."""
    reuse = index("__lance_frag_reuse", [], [5], "FragmentReuse")
    other = index("other", [0], [0, 1, 2], "BTree")
    found = uncovered((*BOTH, other, reuse), fragments(5), fields(1))
    assert covered(found) == [set(), set(), {0, 1, 2}, {5}]
    assert uncovered((*BOTH, reuse), [], fields(1)) == (*BOTH, reuse)


def test_neither_does_one_that_only_carries_the_column_along() -> None:
    covering = index("covering", [0], [0, 1], "BTree")
    covering.message.covering_fields.append(1)
    assert covered(uncovered((covering,), fragments(1), fields(1))) == [{0}]


def test_an_index_that_holds_row_ids_follows_rows_that_moved() -> None:
    found = with_moved_rows(BOTH, fragments(0, 2), fragments(7), fields(0))
    assert covered(found) == [{0, 1, 2, 7}, {0, 1, 2}]


def test_but_not_if_one_of_its_columns_changed() -> None:
    assert with_moved_rows(BOTH, fragments(0), fragments(7), fields(0, 1)) == BOTH


def test_nor_if_it_did_not_answer_for_every_fragment_they_came_from() -> None:
    assert with_moved_rows(BOTH, fragments(0, 3), fragments(7), fields(0)) == BOTH


def rewritten(*groups: tuple[list[int], list[int]], stable: bool) -> list[set[int]]:
    bitmaps = [(BitMap(old), BitMap(new)) for old, new in groups]
    return covered(with_rewritten_fragments(BOTH, bitmaps, ids_are_stable=stable))


def test_an_index_that_holds_row_ids_follows_a_compaction_that_it_covers() -> None:
    assert rewritten(([0, 1], [7]), stable=True) == [{2, 7}, {2}]
    assert rewritten(([0], [7, 8]), ([1, 2], [9]), stable=True) == [{7, 8, 9}, set()]


def test_a_group_that_is_covered_in_part_is_uncovered() -> None:
    assert rewritten(([2, 3], [7]), stable=True) == [{0, 1}, {0, 1}]
    assert rewritten(([3, 4], [7]), stable=True) == [{0, 1, 2}, {0, 1, 2}]


def test_without_stable_ids_no_index_follows() -> None:
    assert rewritten(([0, 1], [7]), stable=False) == [{2}, {2}]


@pytest.mark.parametrize(
    ("kind", "by_id"),
    [
        ("Bitmap", {0}),
        ("LabelList", {1}),
        ("Inverted", {1, 2, 3}),
        ("NGram", {0}),
        ("Vector", {1, 2}),
        ("BTree", set()),
        ("ZoneMap", set()),
        ("BloomFilter", set()),
        ("SomethingNew", set()),
    ],
)
def test_which_kinds_and_versions_hold_row_ids(kind: str, by_id: set[int]) -> None:
    known = {each for each in range(9) if index("i", [0], [0], kind, each).holds_row_ids}
    assert known == by_id
    assert not index("i", [0], [0], kind, None).holds_row_ids


def test_an_index_of_a_newer_version_does_not_follow_rows_that_moved() -> None:
    newer = (index("newer", [1], [0, 1, 2], "Bitmap", 1),)
    assert with_moved_rows(newer, fragments(0), fragments(7), fields(0)) == newer
    groups = [(BitMap([0, 1]), BitMap([7]))]
    assert covered(with_rewritten_fragments(newer, groups, ids_are_stable=True)) == [{2}]


def test_what_an_index_says_besides_its_coverage_is_kept() -> None:
    raw = BY_ID.message.SerializeToString() + b"\xfa\x3f\x05hello"
    unknown = Index(type(BY_ID.message).FromString(raw))
    (changed,) = uncovered((unknown,), fragments(1), fields(1))
    assert b"\xfa\x3f\x05hello" in changed.message.SerializeToString()
    assert changed.uuid == BY_ID.uuid


def test_a_deferred_remapping_stands_in_the_way_of_moving_rows() -> None:
    check_no_fragment_reuse(BOTH, "a compaction")
    reuse = index("__lance_frag_reuse", [], [], "FragmentReuse")
    with pytest.raises(UnsupportedError, match=r"a compaction .*__lance_frag_reuse"):
        check_no_fragment_reuse((*BOTH, reuse), "a compaction")
