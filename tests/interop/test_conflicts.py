"""Checklist lines 34 to 38, 43 and 44: two writers on the same rows, columns and indices.

The whole matrix is in ``test_matrix``; here is what its one table cannot show.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from lance.commit import CommitConflictError
from pyroaring import BitMap
from tests.interop.matrix.ours import OURS
from tests.interop.matrix.tables import BASE
from tests.interop.matrix.world import World
from tests.manifests import newest_manifest
from tests.pylance import judged

import lancewood as lw
from lancewood.engine.write.column_file import ColumnFileWriter, mark_deleted
from lancewood.format.schema import decode_schema
from lancewood.jobs.merge_into.key_hashes import hash_keys
from lancewood.model.fragment import DataFile
from lancewood.model.ids import FieldId, FragmentId, Version
from lancewood.model.index import Index
from lancewood.model.transaction import (
    Append,
    CreateIndex,
    DataReplacement,
    Delete,
    Merge,
    Operation,
    Project,
    Replacement,
    Restore,
    Update,
)
from lancewood.rules.overlaps import make_key_filter

pytestmark = pytest.mark.sliced(4)

ROWS = pa.table({"k": range(10), "c": range(100, 110)})


@pytest.fixture(params=[True, False], ids=["ids", "addresses"])
def table(request: pytest.FixtureRequest, uri: str) -> lw.Table:
    """Ten rows in one fragment, written by pylance."""
    lance.write_dataset(ROWS, uri, enable_stable_row_ids=request.param)
    return lw.open(uri)


def delete(table: lw.Table, *offsets: int) -> Operation:
    """A Delete of rows of fragment 0."""
    fragment = table._snapshot.manifest.fragment(FragmentId(0))
    image = mark_deleted(table._snapshot, fragment, BitMap(offsets))
    return Delete((), (fragment.id,)) if image is None else Delete((image,), ())


def commit(table: lw.Table, operation: Operation) -> lw.Table:
    return table.commit(table.transaction(operation))


def column_file(table: lw.Table, column: str, values: pa.Array, number: int = 0) -> DataFile:
    """A file of one column for a fragment."""
    manifest = table._snapshot.manifest
    fields = decode_schema(manifest.fields, {}).by_name[column]
    messages = [each for each in manifest.fields if each.id in {f.id for f in fields.walk()}]
    batch = pa.record_batch({column: values})
    fragment = manifest.fragment(FragmentId(number))
    return ColumnFileWriter(table._snapshot, decode_schema(messages, {})).write(fragment, [batch])


def keys(uri: str, where: str | None = None) -> list[int]:
    """What pylance reads, after a look at the whole table."""
    dataset = judged(uri)
    return sorted(dataset.to_table(columns=["k"], filter=where)["k"].to_pylist())


def left_over(*gone: int) -> list[int]:
    return [each for each in range(10) if each not in gone]


# Rows


def test_line_34_ours_after_theirs_both_lose_their_rows(table: lw.Table, uri: str) -> None:
    ours = delete(table, 3)
    lance.dataset(uri).delete("k = 9")
    done = commit(table, ours)
    assert keys(uri) == left_over(3, 9)
    (fragment,) = done.fragments
    assert fragment.num_deleted_rows == 2
    assert fragment.deletion_file is not None
    assert fragment.deletion_file.is_bitmap
    assert fragment.deletion_file.read_version == 2
    assert lance.dataset(uri).read_transaction(3).read_version == 2
    lance.dataset(uri).delete("k = 5")
    assert keys(uri) == left_over(3, 5, 9)


def test_line_34_theirs_after_ours_both_lose_their_rows(table: lw.Table, uri: str) -> None:
    theirs: Any = lance.dataset(uri)
    commit(table, delete(table, 3))
    theirs.delete("k = 9")
    assert keys(uri) == left_over(3, 9)


def test_line_34_three_of_theirs_and_then_ours(table: lw.Table, uri: str) -> None:
    ours = delete(table, 3, 4)
    for each in (9, 1, 7):
        lance.dataset(uri).delete(f"k = {each}")
    assert commit(table, ours).version == 5
    assert keys(uri) == left_over(1, 3, 4, 7, 9)


def test_line_34_rows_that_were_deleted_before_both_are_no_conflict(
    table: lw.Table, uri: str
) -> None:
    lance.dataset(uri).delete("k = 0")
    table = table.latest()
    ours = delete(table, 3)
    lance.dataset(uri).delete("k = 9")
    commit(table, ours)
    assert keys(uri) == left_over(0, 3, 9)


def test_line_34_together_they_empty_the_fragment(table: lw.Table, uri: str) -> None:
    table = table.append(pa.table({"k": [10], "c": [1]}))
    ours = delete(table, *range(5))
    lance.dataset(uri).delete("k >= 5 and k < 10")
    done = commit(table, ours)
    assert [each.id for each in done.fragments] == [1]
    assert keys(uri) == [10]
    read: Any = lance.dataset(uri).read_transaction(done.version).operation
    assert (read.updated_fragments, read.deleted_fragment_ids) == ([], [0])


@pytest.mark.parametrize("theirs", ["k = 3", "k in (3, 9)", "k < 10"])
def test_line_35_the_same_row_twice_is_run_again(table: lw.Table, uri: str, theirs: str) -> None:
    ours = delete(table, 3)
    lance.dataset(uri).delete(theirs)
    with pytest.raises(lw.RetryableConflictError, match=r"version 2"):
        commit(table, ours)
    assert lw.open(uri).version == 2


def test_line_35_theirs_after_ours_is_executed_again_by_pylance(table: lw.Table, uri: str) -> None:
    theirs: Any = lance.dataset(uri)
    commit(table, delete(table, 3))
    theirs.delete("k in (3, 9)")
    assert keys(uri) == left_over(3, 9)


def test_line_35_an_updated_row_is_not_deleted_where_it_was(table: lw.Table, uri: str) -> None:
    ours = delete(table, 3)
    lance.dataset(uri).update({"c": "7"}, where="k = 3")
    with pytest.raises(lw.RetryableConflictError, match=r"both change .*row.* 3"):
        commit(table, ours)
    assert keys(uri) == left_over()
    assert keys(uri, "c = 7") == [3]


def test_line_36_no_delete_survives_an_overwrite(table: lw.Table, uri: str) -> None:
    ours = delete(table, 3)
    lance.write_dataset(ROWS, uri, mode="overwrite")
    with pytest.raises(lw.IncompatibleConflictError, match="Overwrite in version 2"):
        commit(table, ours)
    assert keys(uri) == left_over()


def test_line_36_and_none_of_pylance_an_overwrite_of_ours(table: lw.Table, uri: str) -> None:
    fragment: Any = lance.fragment.LanceFragment.create(uri, ROWS)
    table.overwrite(ROWS)
    with pytest.raises(CommitConflictError) as caught:
        lance.LanceDataset.commit(uri, lance.LanceOperation.Append([fragment]), read_version=1)
    assert not caught.value.retryable
    assert keys(uri) == left_over()


def test_line_37_a_fragment_that_was_compacted_is_changed_again(table: lw.Table, uri: str) -> None:
    table = table.append(pa.table({"k": [10], "c": [1]}))
    ours = delete(table, 3)
    lance.dataset(uri).optimize.compact_files()
    with pytest.raises(lw.RetryableConflictError, match=r"Rewrite .* both change fragment 0"):
        commit(table, ours)
    newest = lw.open(uri)
    (fragment,) = newest.fragments
    image = mark_deleted(newest._snapshot, fragment, BitMap([3]))
    assert image is not None
    commit(newest, Delete((image,), ()))
    assert keys(uri) == [*left_over(3), 10]


def test_line_38_an_append_lands_where_nulls_are_allowed(table: lw.Table, uri: str) -> None:
    ours = Append(table.write_fragments(pa.table({"k": [10], "c": [1]})))
    lance.dataset(uri).add_columns({"e": "nullif(k, -1)"})
    commit(table, ours)
    assert keys(uri, "e is null") == [10]


def test_line_38_and_is_run_again_where_they_may_not_be(table: lw.Table, uri: str) -> None:
    ours = Append(table.write_fragments(pa.table({"k": [10], "c": pa.array([None], pa.int64())})))
    lance.dataset(uri).alter_columns({"path": "c", "nullable": False})
    with pytest.raises(lw.RetryableConflictError, match="non-nullable"):
        commit(table, ours)
    assert keys(uri) == left_over()


@pytest.mark.parametrize("mine", OURS)
def test_line_43_pylance_decodes_every_operation_of_ours(tmp_path: Path, mine: str) -> None:
    world = World(tmp_path, stable=True, only=mine)
    done = world.commit_late(mine, world.base)
    ours = world.operation(mine)
    read: Any = lance.dataset(world.base).read_transaction(done.version)
    assert read.read_version == BASE
    kind = type(ours).__name__
    if kind in ("ReserveFragments", "UpdateBases"):
        assert type(read.operation).__name__ == "BaseOperation"  # known to it, not to Python
        return
    assert type(read.operation).__name__ == kind
    for name in ("fragments", "updated_fragments", "new_fragments", "old_fragments"):
        given = getattr(ours, name, ())
        found = getattr(read.operation, name, [])
        assert [(each.id, each.physical_rows) for each in given] == [
            (each.id, each.physical_rows) for each in found
        ]
        assert [[file.path for file in each.files] for each in given] == [
            [file.path for file in each.files] for each in found
        ]
    for name in ("deleted_fragment_ids", "removed_fragment_ids", "fields_modified"):
        assert [*getattr(ours, name, ())] == getattr(read.operation, name, [])
    for name in ("version", "predicate", "preserves_nullability"):
        assert getattr(ours, name, None) == getattr(read.operation, name, None)


def test_line_44_a_restore_brings_deleted_rows_back_and_ids_do_not_collide(
    table: lw.Table, uri: str
) -> None:
    table = commit(table, delete(table, 3)).append(pa.table({"k": [10], "c": [1]}))
    table = commit(table, Restore(Version(1)))
    assert keys(uri) == left_over()
    lance.write_dataset(pa.table({"k": [11], "c": [1]}), uri, mode="append")
    commit(lw.open(uri), delete(lw.open(uri), 4))
    assert keys(uri) == [*left_over(4), 11]
    assert [each.fragment_id for each in lance.dataset(uri).get_fragments()] == [0, 2]
    ids = lance.dataset(uri).scanner(with_row_id=True).to_table()["_rowid"].to_pylist()
    assert len(set(ids)) == 10


def test_an_upsert_is_run_again_if_a_key_was_written_in_place(table: lw.Table, uri: str) -> None:
    table = table.append(pa.table({"k": [10], "c": [1]}))
    (fragment,) = table.write_fragments(pa.table({"k": [77], "c": [1]}))
    hashes = hash_keys([pa.array([77], pa.int64())])
    filled = make_key_filter([FieldId(0)], hashes, is_known_to_pylance=True)
    ours = Update((), (), (fragment,), inserted_rows=filled)
    dataset: Any = lance.dataset(uri)
    new = pa.table({"c": pa.array([1], pa.int64()), "k": pa.array([77], pa.int64())})
    image, fields = dataset.get_fragment(1).update_columns(new, left_on="c")
    change = lance.LanceOperation.Update(
        updated_fragments=[image], fields_modified=fields, update_mode="rewrite_columns"
    )
    lance.LanceDataset.commit(dataset, change, read_version=2)
    with pytest.raises(lw.RetryableConflictError, match="key column"):
        commit(table, ours)
    assert keys(uri, "k = 77") == [77]


# Lists of operations


def test_a_list_that_changes_a_fragment_twice_is_refused(table: lw.Table, uri: str) -> None:
    """The second was built without the first, and would bring row 3 back."""
    both = table.transaction(delete(table, 3), delete(table, 4))
    with pytest.raises(lw.InvalidInputError, match="both change fragment 0"):
        table.commit(both)
    assert lw.open(uri).version == 1


def test_a_list_that_changes_other_fragments_lands(table: lw.Table, uri: str) -> None:
    table = table.append(pa.table({"k": [10, 11], "c": [1, 1]}))
    image = mark_deleted(table._snapshot, table.fragments[1], BitMap([1]))
    assert image is not None
    table.commit(table.transaction(delete(table, 3), Delete((image,), ())))
    assert keys(uri) == [*left_over(3), 10]


def test_a_list_is_not_rebased(table: lw.Table, uri: str) -> None:
    both = table.transaction(delete(table, 3), Append(table.write_fragments(ROWS)))
    lance.dataset(uri).delete("k = 9")
    with pytest.raises(lw.RetryableConflictError):
        table.commit(both)
    assert keys(uri) == left_over(9)


# Columns


def test_a_column_that_was_dropped_does_not_come_back_with_its_new_file(
    table: lw.Table, uri: str
) -> None:
    file = column_file(table, "c", pa.array(range(10), pa.int64()))
    ours = Update(
        (), (table.fragments[0].with_columns(file),), (), (FieldId(1),), rewrites_columns=True
    )
    lance.dataset(uri).drop_columns(["c"])
    with pytest.raises(lw.RetryableConflictError, match="column 'c', which gets new values"):
        commit(table, ours)
    assert lance.dataset(uri).to_table() == ROWS.select(["k"])
    lance.dataset(uri).validate()


def test_rows_of_which_no_column_is_left_are_written_again(table: lw.Table, uri: str) -> None:
    ours = Append(table.write_fragments(pa.table({"c": [1]})))
    lance.dataset(uri).drop_columns(["c"])
    with pytest.raises(lw.RetryableConflictError, match="no column is left"):
        commit(table, ours)
    assert keys(uri) == left_over()


def test_the_last_column_of_a_fragment_is_not_dropped_under_its_rows(
    table: lw.Table, uri: str
) -> None:
    """pylance drops it, and can then not even count the rows."""
    fields = table._snapshot.manifest.fields
    ours = Project(fields[:1], preserves_nullability=True)
    lance.write_dataset(pa.table({"c": [1]}), uri, mode="append")
    with pytest.raises(lw.RetryableConflictError, match="no file left"):
        commit(table, ours)
    assert lance.dataset(uri).count_rows() == 11


# Indices


def index_of(table: lw.Table, name: str) -> Index:
    (found,) = (each for each in table.indices if each.name == name)
    return found


def with_dropped_index(uri: str, column: str, kind: str = "BITMAP") -> Index:
    """An index that pylance made of the newest version and dropped again."""
    dataset: Any = lance.dataset(uri)
    dataset.create_scalar_index(column, kind, name="late")
    made = index_of(lw.open(uri), "late")
    dataset.drop_index("late")
    return made


def test_a_new_index_does_not_answer_for_a_column_that_was_rewritten(
    table: lw.Table, uri: str
) -> None:
    table.append(pa.table({"k": [10], "c": [1]}))
    made = with_dropped_index(uri, "c")
    ours = lw.open(uri)
    dataset: Any = lance.dataset(uri)
    new = pa.table({"k": pa.array([10], pa.int64()), "c": pa.array([2], pa.int64())})
    image, fields = dataset.get_fragment(1).update_columns(new, left_on="k")
    change = lance.LanceOperation.Update(
        updated_fragments=[image], fields_modified=fields, update_mode="rewrite_columns"
    )
    lance.LanceDataset.commit(dataset, change, read_version=dataset.version)
    done = commit(ours, CreateIndex((made,), ()))
    assert set(index_of(done, "late").fragments) == {0}
    assert keys(uri, "c = 2") == [10]
    assert keys(uri, "c = 1") == []


def test_a_new_index_never_answers_for_a_column_that_got_the_id(table: lw.Table, uri: str) -> None:
    lance.dataset(uri).add_columns({"d": "nullif(k, -1)"})
    made = with_dropped_index(uri, "d")
    ours = lw.open(uri)
    dataset: Any = lance.dataset(uri)
    dataset.drop_columns(["d"])
    dataset.add_columns({"e": "nullif(k + 50, -1)"})
    ids = {each.name: each.id for each in newest_manifest(uri).fields}
    assert [ids["e"]] == list(made.fields)
    with pytest.raises(lw.RetryableConflictError, match="indexed column 'd' was dropped"):
        commit(ours, CreateIndex((made,), ()))
    assert keys(uri, "e = 53") == [3]


TAGS = pa.table({"k": [0, 1], "tags": pa.array([["x"], ["y"]], pa.list_(pa.string()))})
OTHER_TAGS = pa.array([["y"], ["z"]], pa.list_(pa.string()))


@pytest.mark.parametrize("stable", [True, False])
@pytest.mark.parametrize("in_place", [True, False], ids=["Update", "DataReplacement"])
def test_an_index_on_a_list_does_not_answer_for_items_that_were_replaced(
    uri: str, stable: bool, in_place: bool
) -> None:
    """The index names the list, the data file the items inside of it."""
    dataset: Any = lance.write_dataset(TAGS, uri, enable_stable_row_ids=stable)
    dataset.create_scalar_index("tags", "LABEL_LIST")
    table = lw.open(uri)
    file = column_file(table, "tags", OTHER_TAGS)
    assert not set(file.fields) & set(table.indices[0].fields)
    ours: Operation = DataReplacement((Replacement(FragmentId(0), file),))
    if in_place:
        image = table.fragments[0].with_columns(file)
        ours = Update((), (image,), (), file.fields, rewrites_columns=True)
    commit(table, ours)
    assert keys(uri, "array_has_any(tags, ['y'])") == [0]
    assert keys(uri, "array_has_any(tags, ['x'])") == []


@pytest.mark.parametrize("stable", [True, False])
def test_a_new_index_on_a_list_neither(uri: str, stable: bool) -> None:
    lance.write_dataset(TAGS, uri, enable_stable_row_ids=stable)
    made = with_dropped_index(uri, "tags", "LABEL_LIST")
    ours = lw.open(uri)
    theirs = lw.open(uri)
    commit(
        theirs,
        DataReplacement((Replacement(FragmentId(0), column_file(theirs, "tags", OTHER_TAGS)),)),
    )
    done = commit(ours, CreateIndex((made,), ()))
    assert not done.indices[0].fragments
    assert keys(uri, "array_has_any(tags, ['y'])") == [0]


@pytest.mark.parametrize("how", ["Merge", "Update", "DataReplacement"])
def test_an_index_does_not_answer_for_a_column_that_was_null_so_far(
    table: lw.Table, uri: str, how: str
) -> None:
    """Rows that came without the column are indexed as nulls."""
    table = table.append(pa.table({"k": [10]}))
    lance.dataset(uri).create_scalar_index("c", "BTREE")
    table = lw.open(uri)
    assert set(table.indices[0].fragments) == {0, 1}
    file = column_file(table, "c", pa.array([5], pa.int64()), number=1)
    image = table.fragments[1].with_columns(file)
    manifest = table._snapshot.manifest
    ours: Operation = DataReplacement((Replacement(image.id, file),))
    if how == "Merge":
        ours = Merge((table.fragments[0], image), manifest.fields, preserves_nullability=True)
    elif how == "Update":
        ours = Update((), (image,), (), rewrites_columns=True)
    done = commit(table, ours)
    assert set(done.indices[0].fragments) == {0}
    assert keys(uri, "c = 5") == [10]


@pytest.mark.parametrize("kind", ["BTREE", "BITMAP"])
@pytest.mark.parametrize("how", ["Merge", "Update", "DataReplacement"])
def test_line_64_a_column_is_rewritten_although_its_index_is_not_remapped(
    uri: str, kind: str, how: str
) -> None:
    """The bitmap of the index names fragments 0 and 1, which are fragment 2 now."""
    dataset: Any = lance.write_dataset(ROWS, uri, max_rows_per_file=5)
    dataset.create_scalar_index("c", kind)
    dataset.optimize.compact_files(defer_index_remap=True)
    table = lw.open(uri)
    (fragment,) = table.fragments
    assert set(index_of(table, "c_idx").fragments) == {0, 1}
    file = column_file(table, "c", pa.array(range(10), pa.int64()), number=fragment.id)
    image = fragment.with_columns(file)
    ours: Operation = DataReplacement((Replacement(image.id, file),))
    if how == "Merge":
        ours = Merge((image,), table._snapshot.manifest.fields, preserves_nullability=True)
    elif how == "Update":
        ours = Update((), (image,), (), file.fields, rewrites_columns=True)
    done = commit(table, ours)
    assert keys(uri, "c = 3") == [3]
    assert keys(uri, "c = 103") == []
    assert index_of(done, "__lance_frag_reuse") == index_of(table, "__lance_frag_reuse")


def test_dropping_an_index_that_was_rewritten_meanwhile_is_run_again(
    table: lw.Table, uri: str
) -> None:
    table.append(pa.table({"k": [10], "c": [1]}))
    lance.dataset(uri).create_scalar_index("c", "BTREE")
    ours = lw.open(uri)
    lance.dataset(uri).optimize.compact_files()
    with pytest.raises(lw.RetryableConflictError, match="was rewritten, too"):
        commit(ours, CreateIndex((), tuple(ours.indices)))
    newest = lw.open(uri)
    assert not commit(newest, CreateIndex((), tuple(newest.indices))).indices


def test_a_compaction_before_an_overwrite_does_not_hide_it(uri: str) -> None:
    lance.write_dataset(ROWS, uri, max_rows_per_file=5, enable_stable_row_ids=True)
    old = lw.open(uri)
    lance.dataset(uri).optimize.compact_files()
    lance.write_dataset(ROWS, uri, mode="overwrite")
    with pytest.raises(lw.IncompatibleConflictError, match="Overwrite"):
        old.delete("k = 2")
    assert keys(uri) == left_over()
