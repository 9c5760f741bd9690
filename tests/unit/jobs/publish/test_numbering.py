from __future__ import annotations

from pyroaring import BitMap

from lancewood.jobs.publish.fragments import Numbering, number_work
from lancewood.model.fragment import Fragment
from lancewood.model.ids import FragmentId, Version
from lancewood.model.manifest import FLAG_STABLE_ROW_IDS, ManifestHead
from lancewood.model.rowids import RowIdSequence, RowVersions
from lancewood.proto import table_pb2


def head(version: int, fragments: int, rows: int, *, stable: bool = True) -> ManifestHead:
    """A version that has handed out so many ids."""
    message = table_pb2.Manifest(version=version, next_row_id=rows if stable else 0)
    message.reader_feature_flags = FLAG_STABLE_ROW_IDS if stable else 0
    if fragments:
        message.max_fragment_id = fragments - 1
    return ManifestHead(message)


def fragment(number: int, ids: list[int], versions: list[int]) -> Fragment:
    made = Fragment(table_pb2.DataFragment(id=number, physical_rows=len(ids)))
    marks = RowVersions.from_values(versions)
    return made.with_lineage(RowIdSequence.from_values(ids), marks, marks)


FIRST, HEAD = head(5, 3, 30), head(8, 6, 50)
ADDED = [fragment(3, [30, 31, 7], [6, 6, 2]), fragment(5, [40], [8])]


def number(newest: ManifestHead, least_shift: int = 0) -> Numbering:
    return number_work(FIRST, HEAD, ADDED, newest, Version(5), least_shift)


def test_nothing_is_renumbered_where_the_target_handed_out_nothing() -> None:
    numbering = number(head(9, 3, 30))
    assert not numbering.is_shifted
    assert numbering.fragment_id(FragmentId(3)) == 3
    assert (numbering.max_fragment_id, numbering.next_row_id) == (5, 50)
    assert numbering.covered(BitMap([0, 3, 4])) == BitMap([0, 3, 4])


def test_what_was_born_on_the_branch_moves_behind_what_was_born_on_the_target() -> None:
    numbering = number(head(9, 7, 34))
    assert [numbering.fragment_id(each.id) for each in ADDED] == [7, 9]
    assert (numbering.max_fragment_id, numbering.next_row_id) == (9, 54)
    moved = numbering.lineage(ADDED[0])
    assert moved.row_ids is not None
    assert list(moved.row_ids) == [34, 35, 7]
    assert moved.created_at is not None
    assert list(moved.created_at) == [10, 10, 2]
    assert moved.last_updated_at == moved.created_at


def test_a_fragment_that_is_gone_gives_its_id_to_nobody() -> None:
    assert number(head(9, 7, 34)).covered(BitMap([0, 2, 3, 4, 5])) == BitMap([0, 2, 7, 9])


def test_rows_may_move_although_fragments_do_not() -> None:
    numbering = number(head(9, 3, 34))
    assert numbering.is_shifted
    assert numbering.fragment_id(FragmentId(5)) == 5
    assert numbering.next_row_id == 54


def test_room_is_left_where_ids_were_taken_once() -> None:
    assert number(head(9, 7, 34), least_shift=1000).fragment_shift == 1000
    assert number(head(9, 3, 30), least_shift=1000).fragment_shift == 0


def test_a_fragment_under_a_reserved_id_of_before_the_fork_gets_one_of_its_own() -> None:
    stray = [fragment(1, [30], [6]), *ADDED]
    same = number_work(FIRST, HEAD, stray, head(9, 3, 30), Version(5))
    assert same.fragment_id(FragmentId(1)) == 1
    moved = number_work(FIRST, HEAD, stray, head(9, 7, 34), Version(5))
    assert [moved.fragment_id(each.id) for each in stray] == [10, 7, 9]
    assert moved.max_fragment_id == 10


def test_a_table_without_stable_ids_keeps_its_fragments_as_they_are() -> None:
    plain = head(5, 3, 0, stable=False)
    work = head(8, 6, 0, stable=False)
    numbering = number_work(plain, work, ADDED, head(9, 7, 0, stable=False), Version(5))
    assert numbering.next_row_id is None
    assert numbering.lineage(ADDED[0]) is ADDED[0]


def test_a_branch_without_new_fragments_leaves_the_mark_alone() -> None:
    numbering = number_work(FIRST, head(8, 3, 30), [], head(9, 7, 34), Version(5))
    assert numbering.max_fragment_id is None
