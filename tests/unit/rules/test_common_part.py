from __future__ import annotations

from pyroaring import BitMap

from lancewood.model.fragment import DataFile, Fragment
from lancewood.model.ids import FieldId, FragmentId
from lancewood.model.index import Index
from lancewood.model.transaction import (
    Append,
    CreateIndex,
    DataOverlay,
    DataReplacement,
    Delete,
    Operation,
    Replacement,
    Rewrite,
    RewriteGroup,
    Update,
)
from lancewood.proto import table_pb2
from lancewood.rules.conflicts import judge_operations
from lancewood.rules.overlaps import Outcome, touched_fragments
from lancewood.rules.three_way import common_part

LAST = FragmentId(3)
IDS = tuple(map(FragmentId, (2, 3, 4)))


def fragment(number: int) -> Fragment:
    return Fragment(table_pb2.DataFragment(id=number, physical_rows=10))


FRAGMENTS = tuple(map(fragment, (1, 4)))


def operations() -> list[Operation]:
    file = DataFile.make("f", [FieldId(0)], [0], (2, 2), 1)
    return [
        Delete(FRAGMENTS, IDS),
        Update(IDS, FRAGMENTS, FRAGMENTS, updated_offsets={each: BitMap([1]) for each in IDS}),
        Rewrite((RewriteGroup(FRAGMENTS, FRAGMENTS), RewriteGroup((fragment(7),), ()))),
        DataReplacement(tuple(Replacement(each, file) for each in IDS)),
        DataOverlay(IDS, (FieldId(0),)),
    ]


def test_nothing_is_said_of_fragments_from_after_the_fork() -> None:
    for each in operations():
        assert max(touched_fragments(each)) > LAST
        left = touched_fragments(common_part(each, LAST))
        assert left == {number for number in touched_fragments(each) if number <= LAST}
        assert left
        assert not touched_fragments(common_part(each, None))


def test_offsets_and_new_fragments_are_kept_apart() -> None:
    left = common_part(operations()[1], LAST)
    assert isinstance(left, Update)
    assert set(left.updated_offsets) == {2, 3}
    assert left.new_fragments == FRAGMENTS


def test_an_index_covers_common_fragments_only() -> None:
    made = Index(table_pb2.IndexMetadata(name="i")).covering(BitMap([1, 3, 4]))
    left = common_part(CreateIndex((made,), ()), LAST)
    assert isinstance(left, CreateIndex)
    assert left.new_indices[0].fragments == BitMap([1, 3])


def test_other_operations_are_themselves() -> None:
    append = Append(FRAGMENTS)
    assert common_part(append, LAST) is append


def test_two_fragments_that_happen_to_have_one_id_do_not_meet() -> None:
    mine, theirs = Delete((fragment(4),), ()), Delete((fragment(4),), ())
    assert judge_operations(mine, theirs).outcome is Outcome.REBASE
    parts = common_part(mine, LAST), common_part(theirs, LAST)
    assert judge_operations(*parts).outcome is Outcome.COMPATIBLE
