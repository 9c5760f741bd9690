from __future__ import annotations

from dataclasses import replace

import pytest
from pyroaring import BitMap
from tests.metadata import data_file
from tests.unit.rules.manifests import (
    after,
    coverage,
    created_at,
    fragment,
    get,
    index,
    last_updated_at,
    row_ids,
    start,
    with_deleted,
    with_indices,
)

from lancewood.errors import InvalidInputError, NotFoundError, UnsupportedError
from lancewood.model.fragment import Fragment
from lancewood.model.ids import FieldId, FragmentId
from lancewood.model.index import RewrittenIndex
from lancewood.model.manifest import Manifest
from lancewood.model.rowids import RowIdSequence, RowVersions
from lancewood.model.transaction import (
    Append,
    Delete,
    Project,
    ReserveFragments,
    Rewrite,
    RewriteGroup,
    Update,
)
from lancewood.proto import transaction_pb2

ZERO, ONE = FragmentId(0), FragmentId(1)
A, B = FieldId(0), FieldId(1)


@pytest.fixture
def table() -> Manifest:
    """Version 2: fragments of 4 and 3 rows, the second made in version 2."""
    return after(start(fragment("f", 4)), Append((fragment("g", 3),)))


def ids(*values: int) -> RowIdSequence:
    return RowIdSequence.from_values(values)


# Delete


def test_a_delete_takes_nothing_but_the_deletion_file_from_its_image(table: Manifest) -> None:
    """The image is old: since then the fragment has got another file."""
    image = with_deleted(get(table, 0), 1)
    newer = get(table, 0).with_columns(data_file("h", 1))
    table = after(table, Update((), (newer,), (), (B,), rewrites_columns=True))
    new = get(after(table, Delete((image,), ())), 0)
    assert [each.path for each in new.files] == ["f", "h"]
    assert new.num_rows == 3
    assert last_updated_at(new) == [3, 3, 3, 3]


def test_a_delete_without_a_deletion_file_is_refused(table: Manifest) -> None:
    with pytest.raises(InvalidInputError, match=r"fragment 0 .* no deletion file"):
        after(table, Delete((get(table, 0),), ()))


def test_a_delete_in_a_fragment_that_is_gone_is_refused(table: Manifest) -> None:
    image = with_deleted(get(table, 0), 1)
    table = after(table, Delete((), (ZERO,)))
    with pytest.raises(NotFoundError, match="fragment 0"):
        after(table, Delete((image,), ()))


def test_a_delete_leaves_ids_and_indices_alone(table: Manifest) -> None:
    table = with_indices(table, index("i", [0], [0, 1], "BTree"))
    new = after(table, Delete((with_deleted(get(table, 0), 1),), (ONE,)))
    assert row_ids(get(new, 0)) == [0, 1, 2, 3]
    assert new.next_row_id == 7
    assert new.max_fragment_id == 1
    assert new.index_section == table.index_section


# Update that moves rows


def moved(*values: int, rows: int | None = None, created: RowVersions | None = None) -> Fragment:
    return fragment("new", rows or len(values)).with_lineage(ids(*values), created, None)


def test_moved_rows_keep_ids_and_creation_and_inserted_ones_follow(table: Manifest) -> None:
    images = (with_deleted(get(table, 0), 1), with_deleted(get(table, 1), 1))
    given = RowVersions.from_values([2, 1])
    new = after(table, Update((), images, (moved(5, 2, rows=4, created=given),)))
    assert row_ids(get(new, 2)) == [5, 2, 7, 8]
    assert created_at(get(new, 2)) == [2, 1, 3, 3]
    assert last_updated_at(get(new, 2)) == [3, 3, 3, 3]
    assert new.next_row_id == 9
    assert [each.num_rows for each in new.fragments] == [3, 2, 4]
    assert last_updated_at(get(new, 0)) == [1, 1, 1, 1]


def test_creation_is_looked_up_where_a_writer_left_it_to_the_commit(table: Manifest) -> None:
    """Also in a fragment that goes."""
    images = (with_deleted(get(table, 0), 1),)
    new = after(table, Update((ONE,), images, (moved(6, 5, 2, 4),)))
    assert [each.id for each in new.fragments] == [0, 2]
    assert row_ids(get(new, 2)) == [6, 5, 2, 4]
    assert created_at(get(new, 2)) == [2, 2, 1, 2]


def test_creation_is_version_1_where_nobody_recorded_it(table: Manifest) -> None:
    bare = get(table, 1).with_lineage(ids(4, 5, 6), None, None)
    message = type(table.message)()
    message.CopyFrom(table.message)
    message.fragments[1] = bare.message.SerializeToString()
    table = Manifest(message, name="m")
    image = with_deleted(get(table, 1), 1)
    new = after(table, Update((), (image,), (moved(5),)))
    assert created_at(get(new, 2)) == [1]


def test_a_moved_row_that_none_of_the_fragments_had_is_refused(table: Manifest) -> None:
    image = with_deleted(get(table, 0), 1)
    with pytest.raises(InvalidInputError, match="none of the old ones has"):
        after(table, Update((), (image,), (moved(5),)))


def test_without_stable_ids_an_update_hands_out_no_lineage() -> None:
    table = start(fragment("f", 4), stable=False)
    new = after(table, Update((), (with_deleted(get(table, 0), 1),), (fragment("new", 1),)))
    assert get(new, 1).row_ids is None
    assert get(new, 1).last_updated_at is None


def test_an_update_that_inserts_only_touches_no_fragment(table: Manifest) -> None:
    new = after(table, Update((), (), (fragment("new", 2),)))
    assert list(new.message.fragments)[:2] == list(table.message.fragments)
    assert row_ids(get(new, 2)) == [7, 8]
    assert created_at(get(new, 2)) == [3, 3]


INDICES = (
    index("a by id", [0], [0, 1], "Bitmap"),
    index("b by id", [1], [0, 1], "Bitmap"),
    index("b by address", [1], [0, 1], "BTree"),
    index("b of 0", [1], [0], "Bitmap"),
)


def update_of_a(table: Manifest, *new: Fragment) -> Update:
    images = (with_deleted(get(table, 0), 1), with_deleted(get(table, 1), 1))
    return Update((), images, new, fields_for_preserving_frag_bitmap=(A,))


def test_indices_by_id_on_other_columns_follow_moved_rows(table: Manifest) -> None:
    table = with_indices(table, *INDICES)
    new = after(table, update_of_a(table, moved(2, 5)))
    assert coverage(new) == {
        "a by id": {0, 1},
        "b by id": {0, 1, 2},
        "b by address": {0, 1},
        "b of 0": {0},
    }


def test_no_index_follows_into_a_fragment_with_inserted_rows(table: Manifest) -> None:
    table = with_indices(table, *INDICES)
    new = after(table, update_of_a(table, moved(2, 5, rows=3), moved(1)))
    assert coverage(new)["b by id"] == {0, 1, 3}


def test_no_index_follows_if_the_writer_does_not_say_what_changed(table: Manifest) -> None:
    table = with_indices(table, *INDICES)
    silent = replace(update_of_a(table, moved(2, 5)), fields_for_preserving_frag_bitmap=())
    assert coverage(after(table, silent)) == coverage(table)


def test_no_index_follows_without_stable_ids() -> None:
    table = start(fragment("f", 4), fragment("g", 3), stable=False)
    table = with_indices(table, *INDICES)
    new = after(table, update_of_a(table, fragment("new", 2)))
    assert coverage(new) == coverage(table)


# Update in place


def test_columns_written_in_place_stamp_the_rows_that_changed(table: Manifest) -> None:
    images = tuple(each.with_columns(data_file(f"h{each.id}", 1)) for each in table.fragments)
    offsets = {ZERO: BitMap([1, 3])}
    change = Update((), images, (), (B,), rewrites_columns=True, updated_offsets=offsets)
    new = after(table, change)
    assert last_updated_at(get(new, 0)) == [1, 3, 1, 3]
    assert last_updated_at(get(new, 1)) == [3, 3, 3], "which rows, nobody said"
    assert created_at(get(new, 0)) == [1, 1, 1, 1]
    assert row_ids(get(new, 0)) == [0, 1, 2, 3]
    assert [each.fields for each in get(new, 0).files] == [(0, -2), (1,)]


def test_an_offset_beyond_the_rows_is_refused(table: Manifest) -> None:
    image = get(table, 0).with_columns(data_file("h", 1))
    change = Update(
        (), (image,), (), (B,), rewrites_columns=True, updated_offsets={ZERO: BitMap([4])}
    )
    with pytest.raises(InvalidInputError):
        after(table, change)


def test_a_dropped_column_does_not_come_back_with_its_new_file(table: Manifest) -> None:
    image = get(table, 0).with_columns(data_file("h", 1))
    table = after(table, Project(table.fields[:1]))
    new = get(after(table, Update((), (image,), (), (B,), rewrites_columns=True)), 0)
    assert [(each.path, each.fields) for each in new.files] == [("f", (0, -2))]


def test_nor_does_the_old_file_of_another_column_that_was_dropped() -> None:
    two = Fragment.make([data_file("f", 0), data_file("g", 1)], 3)
    table = start(two)
    image = get(table, 0).with_columns(data_file("h", 1))
    table = after(table, Project(table.fields[1:]))
    new = get(after(table, Update((), (image,), (), (B,), rewrites_columns=True)), 0)
    assert [each.path for each in new.files] == ["h"]


def test_indices_on_columns_written_in_place_lose_the_fragment(table: Manifest) -> None:
    table = with_indices(table, *INDICES)
    image = get(table, 0).with_columns(data_file("h", 1))
    new = after(table, Update((), (image,), (), (B,), rewrites_columns=True))
    assert coverage(new) == {
        "a by id": {0, 1},
        "b by id": {1},
        "b by address": {1},
        "b of 0": set(),
    }


def test_also_if_the_writer_forgot_to_name_the_column(table: Manifest) -> None:
    table = with_indices(table, *INDICES)
    image = get(table, 0).with_columns(data_file("h", 1))
    new = after(table, Update((), (image,), (), (), rewrites_columns=True))
    assert coverage(new)["b by id"] == {1}
    assert coverage(new)["a by id"] == {0, 1}


def test_an_update_in_place_may_insert_rows_too(table: Manifest) -> None:
    image = get(table, 0).with_columns(data_file("h", 1))
    change = Update((), (image,), (fragment("new", 2),), (B,), rewrites_columns=True)
    new = after(table, change)
    assert row_ids(get(new, 2)) == [7, 8]
    assert created_at(get(new, 2)) == [3, 3]


# Rewrite


@pytest.fixture
def reserved(table: Manifest) -> Manifest:
    """Version 4: fragment 0 without one row, and the ids 2 and 3 set aside."""
    table = after(table, Delete((with_deleted(get(table, 0), 1),), ()))
    return after(table, ReserveFragments(2))


def compacted(number: int = 2, rows: int = 6) -> Fragment:
    live = [0, 1, 3, 4, 5, 6][:rows]
    made = fragment("new", rows).with_lineage(
        ids(*live), RowVersions.uniform(1, rows), RowVersions.uniform(2, rows)
    )
    return made.numbered(FragmentId(number))


def rewrite(table: Manifest, *new: Fragment) -> Rewrite:
    return Rewrite((RewriteGroup((get(table, 0), get(table, 1)), new),))


def test_a_compaction_puts_the_same_rows_into_the_reserved_fragment(reserved: Manifest) -> None:
    new = after(reserved, rewrite(reserved, compacted()))
    assert [each.id for each in new.fragments] == [2]
    assert row_ids(get(new, 2)) == [0, 1, 3, 4, 5, 6]
    assert last_updated_at(get(new, 2)) == [2] * 6
    assert (new.max_fragment_id, new.next_row_id) == (3, 7)


@pytest.mark.parametrize("rows", [5, 4])
def test_a_compaction_that_would_lose_rows_is_refused(reserved: Manifest, rows: int) -> None:
    with pytest.raises(InvalidInputError, match=f"of 6 rows wrote {rows}"):
        after(reserved, rewrite(reserved, compacted(rows=rows)))


def test_a_compaction_of_rows_that_were_deleted_since_is_refused(reserved: Manifest) -> None:
    change = rewrite(reserved, compacted())
    fewer = after(reserved, Delete((with_deleted(get(reserved, 1), 1),), ()))
    with pytest.raises(InvalidInputError, match="of 5 rows wrote 6"):
        after(fewer, change)


@pytest.mark.parametrize("number", [1, 4])
def test_a_compaction_into_an_id_that_was_not_reserved_is_refused(
    reserved: Manifest, number: int
) -> None:
    with pytest.raises(InvalidInputError, match=f"id {number}, which was not reserved"):
        after(reserved, rewrite(reserved, compacted(number)))


def test_two_new_fragments_with_one_id_are_refused(reserved: Manifest) -> None:
    halves = [compacted(2, 3), compacted(2, 3)]
    with pytest.raises(InvalidInputError, match="same id"):
        after(reserved, rewrite(reserved, *halves))


def test_a_compaction_without_row_ids_is_refused(reserved: Manifest) -> None:
    bare = compacted().with_lineage(None, None, None)
    with pytest.raises(InvalidInputError, match="rows have no ids"):
        after(reserved, rewrite(reserved, bare))


def test_a_fragment_is_not_rewritten_twice(reserved: Manifest) -> None:
    group = rewrite(reserved, compacted()).groups[0]
    with pytest.raises(InvalidInputError, match="rewritten twice"):
        after(reserved, Rewrite((group, group)))


def test_a_new_fragment_of_a_compaction_has_no_deleted_rows(reserved: Manifest) -> None:
    with pytest.raises(InvalidInputError, match="deletion file"):
        after(reserved, rewrite(reserved, with_deleted(compacted(), 1)))


def test_a_compaction_waits_for_a_deferred_remapping(reserved: Manifest) -> None:
    change = rewrite(reserved, compacted())
    reuse = index("__lance_frag_reuse", [], [], "FragmentReuse")
    with pytest.raises(UnsupportedError, match="__lance_frag_reuse"):
        after(with_indices(reserved, reuse), change)


def test_indices_that_somebody_rewrote_are_not_ours_to_commit(reserved: Manifest) -> None:
    renamed = RewrittenIndex(transaction_pb2.Transaction.Rewrite.RewrittenIndex())
    change = Rewrite(rewrite(reserved, compacted()).groups, (renamed,))
    with pytest.raises(UnsupportedError, match="rewritten"):
        after(reserved, change)


def test_indices_follow_a_compaction_or_leave_it(reserved: Manifest) -> None:
    new = after(with_indices(reserved, *INDICES), rewrite(reserved, compacted()))
    assert coverage(new) == {
        "a by id": {2},
        "b by id": {2},
        "b by address": set(),
        "b of 0": set(),
    }
