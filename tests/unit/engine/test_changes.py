"""Changes: what is opened for them, what they are made of, and when they are refused."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.manifests import edit_manifest
from tests.pylance import lance

import lancewood as lw
from lancewood.data import open_files
from lancewood.data.codec import FileReader, open_reader
from lancewood.engine.rows.live_rows import LiveRows, Stretches, cut_at
from lancewood.errors import FormatError, InvalidInputError, NotFoundError, UnsupportedError
from lancewood.jobs.counts import RowCounts
from lancewood.model.transaction import Append, Transaction
from lancewood.proto import table_pb2

FRAGMENTS, ROWS = 5, 20


def rows(first: int, count: int = ROWS) -> pa.Table:
    numbers = range(first, first + count)
    return pa.table(
        {
            "k": pa.array(numbers, pa.int64()),
            "s": [f"row {each}" for each in numbers],
            "p": [{"x": each, "y": -each} for each in numbers],
        }
    )


@pytest.fixture
def table(tmp_path: Path) -> lw.Table:
    """Five fragments of 20 rows, whose ids are their keys."""
    return lw.create(
        str(tmp_path / "t"),
        rows(0, ROWS * FRAGMENTS),
        layout=lw.Layout(max_rows_per_file=ROWS),
        access=lw.Access(fsync=False),
    )


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The data files that are opened from now on."""
    seen: list[str] = []

    def noted(location: str, paths: Sequence[str] | None, options: Any) -> FileReader:
        seen.append(Path(location).name)
        return open_reader(location, paths, options)

    open_files.OPEN_FILES.close()
    monkeypatch.setattr(open_files, "open_reader", noted)
    return seen


def keys(part: Any) -> list[int]:
    found: list[int] = part.to_arrow().column("k").to_pylist()
    return found


def test_only_the_fragments_of_changed_rows_are_opened(table: lw.Table, opened: list[str]) -> None:
    after = table.append(rows(100, 5)).delete("k in (3, 70)")
    opened.clear()
    found = after.changes(1)
    assert found.counts == RowCounts(inserted=5, deleted=2)
    assert opened == [], "to count is to look at manifests and deletion files"
    assert keys(found.inserted) == [100, 101, 102, 103, 104]
    assert set(opened) == {after.fragments[-1].files[0].path}
    opened.clear()
    open_files.OPEN_FILES.close()
    assert keys(found.deleted) == [3, 70]
    assert set(opened) == {table.fragments[at].files[0].path for at in (0, 3)}


def test_a_compaction_alone_changes_nothing_and_opens_nothing(
    table: lw.Table, opened: list[str]
) -> None:
    after = table.compact()
    opened.clear()
    found = after.changes(1)
    assert found.counts == RowCounts()
    assert found.to_arrow().num_rows == 0
    assert opened == []


def test_updates_of_ours_are_found_after_a_compaction_and_an_added_column(table: lw.Table) -> None:
    after = table.update({"s": "'new'"}, "k in (1, 50, 99)").compact()
    lance.dataset(table.uri).add_columns({"b": "k"})
    newest = after.latest().compact(target_rows=30)
    found = newest.changes(1)
    assert sorted(keys(found.updated)) == [1, 50, 99]
    assert set(found.updated.to_arrow().column("s").to_pylist()) == {"new"}
    assert newest.changes(after.version).counts == RowCounts()


def test_values_replaced_before_a_cast_or_a_drop_are_updates(table: lw.Table) -> None:
    replaced = table.replace_columns([1], pa.table({"s": [str(each) for each in range(ROWS)]}))
    cast = replaced.cast_column("s", pa.large_string())
    assert cast.changes(1).counts == RowCounts(updated=ROWS)
    assert cast.changes(1).updated.to_arrow().column("s")[3].as_py() == "3"
    assert cast.changes(2).counts == RowCounts()
    assert cast.drop_columns(["s"]).changes(1).counts == RowCounts(updated=ROWS)
    deleted = cast.latest().delete("k in (20, 50)")
    assert deleted.changes(1).counts == RowCounts(updated=ROWS - 1, deleted=2)


@pytest.mark.parametrize("file_version", ["2.0", "2.1", "2.2"])
def test_a_cast_below_a_column_and_a_drop_of_all_that_is_stored_update_nothing(
    tmp_path: Path, file_version: str
) -> None:
    items = pa.list_(pa.struct([("a", pa.int64()), ("b", pa.int64())]))
    data = rows(0).append_column(
        "l", pa.array([[{"a": 1, "b": each}] for each in range(ROWS)], items)
    )
    table = lw.create(str(tmp_path / "t"), data, layout=lw.Layout(file_version=file_version))
    for path in ("l.item.a", "p.x"):
        table = table.cast_column(path, pa.int32())
        assert table.changes(table.version - 1).counts == table.changes(1).counts == RowCounts()
    table = table.add_columns(pa.field("n", pa.int8()))
    table = table.drop_columns([each for each in table.schema.names if each != "n"])
    assert len(table.fragments[0].files) == 1
    assert table.changes(table.version - 1).counts == table.changes(1).counts == RowCounts()


@pytest.mark.parametrize("rewrite", ["rows", "columns"])
def test_an_update_of_a_new_column_counts_however_it_is_written(
    table: lw.Table, rewrite: Any
) -> None:
    added = table.add_columns({"n": "k"})
    updated = added.update({"n": "n + 1"}, "k in (3, 30)", rewrite=rewrite)
    assert added.changes(1).counts == RowCounts()
    assert updated.changes(1).counts == updated.changes(2).counts == RowCounts(updated=2)


def test_the_same_version_twice_has_no_changes(table: lw.Table) -> None:
    assert table.changes(1).counts == RowCounts()
    assert table.changes(1, 1).to_arrow().num_rows == 0


def test_until_is_any_version_of_the_table(table: lw.Table) -> None:
    after = table.append(rows(100, 1)).append(rows(101, 1))
    assert keys(after.changes(1, 2).inserted) == [100]
    assert keys(table.changes(2, 3).inserted) == [101]
    found = table.changes(1, after.version)
    assert (found.since, found.until) == (1, 3)
    assert "from version 1 to version 3" in repr(found)


def test_columns_are_chosen_by_name_after_the_row_id(table: lw.Table) -> None:
    after = table.delete("k = 4").append(rows(100, 1))
    found = after.changes(1, columns=["p.y", "k"])
    assert found.schema.names == ["_rowid", "p", "k", "_change"]
    assert found.to_arrow().to_pylist() == [
        {"_rowid": 4, "p": {"y": -4}, "k": 4, "_change": "deleted"},
        {"_rowid": 100, "p": {"y": -100}, "k": 100, "_change": "inserted"},
    ]
    bare = after.changes(1, columns=[]).to_arrow()
    assert bare.column_names == ["_rowid", "_change"]
    versions = after.changes(1, columns=["_row_created_at_version"]).inserted.to_arrow()
    assert versions.to_pylist() == [{"_rowid": 100, "_row_created_at_version": 3}]


def test_an_unknown_column_is_told_at_once(table: lw.Table) -> None:
    with pytest.raises(InvalidInputError, match="nothing_like_it"):
        table.changes(1, columns=["nothing_like_it"])
    wrong: Any = {"k": "k + 1"}
    with pytest.raises(InvalidInputError, match="give names"):
        table.changes(1, columns=wrong)


def test_changes_are_read_by_whoever_takes_a_stream(table: lw.Table) -> None:
    found = table.delete("k = 4").changes(1)
    assert pa.table(found).column("_change").to_pylist() == ["deleted"]
    assert pa.table(found.deleted).column("k").to_pylist() == [4]


def test_a_column_called_change_is_in_the_way_of_one_table_only(tmp_path: Path) -> None:
    made = lw.create(str(tmp_path / "c"), pa.table({"_change": [1, 2]}))
    found = made.append(pa.table({"_change": [3]})).changes(1)
    assert found.inserted.to_arrow().column("_change").to_pylist() == [3]
    with pytest.raises(InvalidInputError, match="each by itself"):
        found.to_arrow()


def test_a_newer_field_inside_a_struct_is_null_in_deleted_rows(table: lw.Table) -> None:
    after = table.delete("k = 7").append(rows(100, 1))

    def widen(manifest: table_pb2.Manifest) -> None:
        (parent,) = (each.id for each in manifest.fields if each.name == "p")
        manifest.fields.add(name="z", id=77, parent_id=parent, logical_type="int64", nullable=True)

    edit_manifest(table.uri, widen)
    found = lw.open(after.uri).changes(1, columns=["p"])
    assert found.deleted.to_arrow().to_pylist() == [
        {"_rowid": 7, "p": {"x": 7, "y": -7, "z": None}}
    ]
    assert found.inserted.schema == found.deleted.schema


def test_a_field_dropped_from_a_struct_is_not_shown_in_deleted_rows(table: lw.Table) -> None:
    narrow = table.delete("k = 7")
    lance.dataset(table.uri).drop_columns(["p.y"])
    found = narrow.latest().changes(1)
    assert found.deleted.to_arrow().to_pylist() == [
        {"_rowid": 7, "k": 7, "s": "row 7", "p": {"x": 7}}
    ]


def test_a_cast_that_a_deleted_row_does_not_fit_is_told(table: lw.Table) -> None:
    big = table.append(pa.table({"k": pa.array([1 << 40], pa.int64())}))
    big.delete("k > 1000")
    lance.dataset(table.uri).alter_columns({"path": "k", "data_type": pa.int32()})
    found = table.latest().changes(2)
    with pytest.raises(InvalidInputError, match="column 'k' was cast since version 2"):
        found.deleted.to_arrow()
    assert found.counts == RowCounts(deleted=1)
    assert table.latest().changes(2, columns=["s"]).deleted.to_arrow().num_rows == 1


def test_backwards_is_refused(table: lw.Table) -> None:
    after = table.append(rows(100, 1))
    with pytest.raises(InvalidInputError, match="backwards"):
        after.changes(2, 1)
    with pytest.raises(InvalidInputError, match="backwards"):
        table.changes(2)


@pytest.mark.parametrize("wrong", [0, -1, None, 1.0, True])
def test_what_is_no_version_is_refused(table: lw.Table, wrong: Any) -> None:
    with pytest.raises(InvalidInputError, match="since"):
        table.changes(wrong)


def test_an_unknown_version_is_not_found(table: lw.Table) -> None:
    with pytest.raises(NotFoundError, match="no tag or branch called '1'"):
        table.changes("1")
    with pytest.raises(NotFoundError, match=r"version 9 .* the newest is 1"):
        table.changes(9)
    with pytest.raises(NotFoundError, match=r"version 9 .* the newest is 1"):
        table.changes(1, 9)


def test_a_table_without_stable_ids_is_refused_with_the_reason(tmp_path: Path) -> None:
    uri = str(tmp_path / "plain")
    lance.write_dataset(rows(0), uri)
    lance.write_dataset(rows(20), uri, mode="append")
    with pytest.raises(UnsupportedError, match="no stable row ids"):
        lw.open(uri).changes(1)


def test_a_detached_version_is_refused(table: lw.Table) -> None:
    dataset = lance.dataset(table.uri)
    part = lance.fragment.write_fragments(rows(100, 1), dataset)
    detached = lance.LanceDataset.commit(
        dataset, lance.LanceOperation.Append(part), read_version=1, detached=True
    )
    with pytest.raises(InvalidInputError, match="detached"):
        lw.open(table.uri, version=detached.version).changes(1)


def test_a_row_id_that_two_rows_have_is_found(table: lw.Table) -> None:
    after = table.append(rows(100, ROWS))

    def change(manifest: Any) -> None:
        twin = after.fragments[0].numbered(after.fragments[-1].id)
        manifest.fragments[-1] = twin.message.SerializeToString()
        manifest.fragments[0] = (
            after.fragments[0].with_files(after.fragments[-1].files).message.SerializeToString()
        )

    edit_manifest(table.uri, change)
    with pytest.raises(FormatError, match="two live rows have the id 0"):
        _ = lw.open(table.uri).changes(1).counts


def test_changes_that_a_writer_made_by_hand_are_seen_too(table: lw.Table) -> None:
    fragments = table.write_fragments(rows(200, 3))
    transaction = Transaction.new(table._snapshot.manifest.version, Append(fragments))
    assert keys(table.commit(transaction).changes(1).inserted) == [200, 201, 202]


def stretches(firsts: list[int], counts: list[int], offsets: list[int]) -> Stretches:
    ones = np.ones(len(firsts), np.uint64)
    return Stretches(np.array(firsts, np.uint64), np.array(counts), np.array(offsets), ones, ones)


def test_live_rows_are_found_by_id_and_given_by_fragment() -> None:
    made = LiveRows.of(
        [stretches([50, 10], [5, 10], [0, 7]), stretches([20], [4], [100])], "a test"
    )
    assert made.firsts.tolist() == [10, 20, 50]
    assert made.row_count == 19
    ids = np.array([9, 10, 19, 20, 23, 24, 54, 55], np.uint64)
    assert made.find(ids).tolist() == [-1, 0, 0, 1, 1, -1, 2, -1]
    part = made.part(np.array([12, 21, 50], np.uint64), np.array([2, 1, 1]))
    assert [(at, offsets.tolist()) for at, offsets in part.by_fragment()] == [
        (0, [0, 9, 10]),
        (1, [101]),
    ]


def test_no_rows_are_no_stretches() -> None:
    none = LiveRows.of([], "a test")
    assert none.find(np.array([1], np.uint64)).tolist() == [-1]
    assert list(none.by_fragment()) == []


def test_stretches_are_cut_where_they_are_asked_to_be() -> None:
    firsts, counts = np.array([10, 30], np.uint64), np.array([10, 5])
    cut = cut_at(np.array([0, 12, 20, 25, 31, 90], np.uint64), firsts, counts)
    assert [each.tolist() for each in cut] == [[10, 12, 30, 31], [2, 8, 1, 4]]
