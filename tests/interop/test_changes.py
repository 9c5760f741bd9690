"""Changes in tables that pylance and we have written: equal to a naive comparison of two scans."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from tests.breadth import daily

import lancewood as lw
from lancewood.jobs.counts import RowCounts
from lancewood.table.diffs import Changes

Rows = dict[int, dict[str, Any]]


def rows(first: int, count: int) -> pa.Table:
    numbers = range(first, first + count)
    return pa.table({"k": pa.array(numbers, pa.int64()), "v": pa.array(numbers, pa.int64())})


def create(uri: str, count: int = 20, per_file: int = 7) -> Any:
    return lance.write_dataset(
        rows(0, count), uri, enable_stable_row_ids=True, max_rows_per_file=per_file
    )


def by_id(table: pa.Table) -> Rows:
    return {each.pop("_rowid"): each for each in table.to_pylist()}


def scanned(uri: str, version: int) -> Rows:
    """A full scan by pylance, the judge."""
    dataset: Any = lance.dataset(uri, version=version)
    return by_id(dataset.to_table(with_row_id=True))


def seen_as(row: dict[str, Any], columns: list[str]) -> dict[str, Any]:
    return {each: row.get(each) for each in columns}


def check(uri: str, since: int, until: int) -> Changes:
    """Ours against a comparison of two full scans; every change of a history changes values."""
    table = lw.open(uri, version=until)
    found = table.changes(since)
    before, after = scanned(uri, since), scanned(uri, until)
    columns = table.schema.names
    inserted = {each: after[each] for each in after.keys() - before.keys()}
    deleted = {each: seen_as(before[each], columns) for each in before.keys() - after.keys()}
    common = [each for each in columns if all(each in row for row in before.values())]
    updated = {
        each: after[each]
        for each in after.keys() & before.keys()
        if seen_as(after[each], common) != seen_as(before[each], common)
    }
    assert by_id(found.inserted.to_arrow()) == inserted
    assert by_id(found.deleted.to_arrow()) == deleted
    assert by_id(found.updated.to_arrow()) == updated
    assert found.counts == RowCounts(
        inserted=len(inserted), updated=len(updated), deleted=len(deleted)
    )
    together = found.to_arrow()
    assert together.column_names == ["_rowid", *columns, "_change"]
    assert sorted(
        zip(*(together.column(each).to_pylist() for each in ("_rowid", "_change")), strict=True)
    ) == sorted(
        (number, kind)
        for kind, part in (("inserted", inserted), ("deleted", deleted), ("updated", updated))
        for number in part
    )
    return found


class History:
    """A table that is changed at random, by pylance or by us."""

    def __init__(self, uri: str, seed: int) -> None:
        self.uri, self.random = uri, random.Random(seed)
        self.next, self.columns, self.values = 20, 0, 0
        create(uri)

    @property
    def dataset(self) -> Any:
        return lance.dataset(self.uri)

    def some_keys(self) -> str:
        keys = self.dataset.to_table(columns=["k"]).column("k").to_pylist()
        chosen = self.random.sample(keys, self.random.randint(1, max(1, len(keys) // 3)))
        return f"k in ({', '.join(map(str, chosen))})"

    def new_value(self) -> int:
        """So far from the others that no row gets a value which it ever had."""
        self.values += 1
        return self.values * 1_000_000

    def append(self) -> None:
        count = self.random.randint(1, 12)
        lance.write_dataset(rows(self.next, count).select(["k", "v"]), self.uri, mode="append")
        self.next += count

    def delete(self) -> None:
        self.dataset.delete(self.some_keys())

    def update(self) -> None:
        self.dataset.update({"v": f"{self.new_value()} + k"}, where=self.some_keys())

    def merge(self) -> None:
        keys = self.dataset.to_table(columns=["k"]).column("k").to_pylist()
        chosen = self.random.sample(keys, min(4, len(keys)))
        new = [self.next, self.next + 1]
        value = self.new_value()
        self.next += 2
        source = pa.table(
            {
                "k": pa.array(chosen + new, pa.int64()),
                "v": pa.array([value + each for each in range(len(chosen + new))], pa.int64()),
            }
        )
        self.dataset.merge_insert(
            "k"
        ).when_matched_update_all().when_not_matched_insert_all().execute(source)

    def compact(self) -> None:
        self.dataset.optimize.compact_files(target_rows_per_fragment=self.random.choice([8, 100]))

    def compact_ours(self) -> None:
        lw.open(self.uri).compact(target_rows=self.random.choice([8, 100]))

    def delete_ours(self) -> None:
        lw.open(self.uri).delete(self.some_keys())

    def update_ours(self) -> None:
        way = self.random.choice(["rows", "columns"])
        value = f"{self.new_value()} + k"
        lw.open(self.uri).update({"v": value}, self.some_keys(), rewrite=way)  # type: ignore[arg-type]

    def add_column_ours(self) -> None:
        self.columns += 1
        lw.open(self.uri).add_columns({f"c{self.columns}": f"k + {self.columns}"})

    def add_column(self) -> None:
        self.columns += 1
        self.dataset.add_columns({f"c{self.columns}": f"k + {self.columns}"})

    def drop_column(self) -> None:
        if self.columns and f"c{self.columns}" in self.dataset.schema.names:
            self.dataset.drop_columns([f"c{self.columns}"])

    def restore(self) -> None:
        latest = self.dataset.latest_version
        lance.dataset(self.uri, version=self.random.randint(1, latest)).restore()

    def step(self) -> None:
        steps: list[Callable[[], None]] = [
            self.append,
            self.delete,
            self.delete_ours,
            self.update,
            self.update_ours,
            self.compact,
            self.compact_ours,
            self.add_column,
            self.add_column_ours,
            self.drop_column,
            self.restore,
        ]
        if not self.columns:
            steps.append(self.merge)
        self.random.choice(steps)()


@pytest.mark.parametrize("seed", range(daily(3, of=6)))
def test_changes_between_any_two_versions_equal_a_comparison_of_two_scans(
    uri: str, seed: int
) -> None:
    history = History(uri, seed)
    for _ in range(10):
        history.step()
    newest = history.dataset.latest_version
    pairs = [(a, b) for b in range(1, newest + 1) for a in range(1, b + 1)]
    for since, until in history.random.sample(pairs, min(25, len(pairs))):
        check(uri, since, until)
    check(uri, 1, newest)


def test_a_row_that_came_and_went_is_not_there(uri: str) -> None:
    dataset = create(uri)
    lance.write_dataset(rows(50, 3), uri, mode="append")
    dataset = lance.dataset(uri)
    dataset.delete("k = 51")
    found = check(uri, 1, 3)
    assert found.inserted.to_arrow().column("k").to_pylist() == [50, 52]
    assert found.counts == RowCounts(inserted=2)


def test_a_row_that_was_updated_and_deleted_is_deleted_with_its_old_value(uri: str) -> None:
    dataset = create(uri)
    dataset.update({"v": "-1"}, where="k = 3")
    dataset.delete("k = 3")
    found = check(uri, 1, 3)
    assert found.deleted.to_arrow().to_pylist() == [{"_rowid": 3, "k": 3, "v": 3}]


def test_a_version_that_only_adds_a_column_updates_nothing(uri: str) -> None:
    dataset = create(uri)
    dataset.add_columns({"w": "v * 2"})
    assert check(uri, 1, 2).counts == RowCounts()


def test_a_version_that_only_casts_a_column_updates_nothing(uri: str) -> None:
    dataset = create(uri)
    dataset.alter_columns({"path": "v", "data_type": pa.int32()})
    dataset.delete("k = 2")
    found = check(uri, 1, 3)
    assert found.counts == RowCounts(deleted=1)
    assert found.deleted.to_arrow().to_pylist() == [{"_rowid": 2, "k": 2, "v": 2}]


def test_updates_before_and_after_an_added_column_are_found_behind_its_marks(uri: str) -> None:
    dataset = create(uri)
    dataset.update({"v": "v + 100"}, where="k in (1, 8)")
    dataset.add_columns({"w": "k"})
    dataset.update({"v": "v + 100"}, where="k in (8, 9)")
    dataset.add_columns({"x": "k"})
    dataset.optimize.compact_files(target_rows_per_fragment=100)
    newest = dataset.latest_version
    found = check(uri, 1, newest)
    assert sorted(found.updated.to_arrow().column("k").to_pylist()) == [1, 8, 9]
    assert check(uri, 3, newest).counts == RowCounts(updated=2)


def test_a_column_rewritten_in_place_is_an_update_of_the_rows_it_was_made_for(uri: str) -> None:
    dataset = create(uri)
    dataset.add_columns({"w": "k"})
    part = pa.table({"k": pa.array([2, 9], pa.int64()), "v": pa.array([-2, -9], pa.int64())})
    dataset = lance.dataset(uri)
    dataset.merge_insert("k").when_matched_update_all().execute(part)
    newest = dataset.latest_version
    assert sorted(check(uri, 1, newest).updated.to_arrow().column("k").to_pylist()) == [2, 9]
    dataset = lance.dataset(uri)
    dataset.add_columns({"x": "k"})
    dataset.optimize.compact_files(target_rows_per_fragment=100)
    check(uri, 1, dataset.latest_version)


def test_after_an_overwrite_all_old_rows_are_deleted_and_all_new_ones_inserted(uri: str) -> None:
    create(uri)
    lance.write_dataset(rows(0, 4), uri, mode="overwrite")
    assert check(uri, 1, 2).counts == RowCounts(inserted=4, deleted=20)


def test_a_restore_brings_rows_back_and_takes_updates_away(uri: str) -> None:
    dataset = create(uri)
    dataset.update({"v": "-1"}, where="k < 3")
    dataset.delete("k = 5")
    lance.write_dataset(rows(90, 2), uri, mode="append")
    lance.dataset(uri, version=1).restore()
    assert check(uri, 1, 5).counts == RowCounts()
    assert check(uri, 4, 5).counts == RowCounts(inserted=1, updated=3, deleted=2)


def test_renamed_and_dropped_columns_are_seen_by_their_ids(uri: str) -> None:
    dataset = create(uri)
    dataset.alter_columns({"path": "v", "name": "value"})
    dataset.delete("k = 4")
    found = lw.open(uri).changes(1)
    assert found.deleted.to_arrow().to_pylist() == [{"_rowid": 4, "k": 4, "value": 4}]
    dataset = lance.dataset(uri)
    dataset.drop_columns(["value"])
    assert check(uri, 1, 4).counts == RowCounts(deleted=1)


def test_changes_are_refused_where_a_version_that_decides_was_cleaned_up(uri: str) -> None:
    dataset = create(uri)
    dataset.add_columns({"w": "k"})
    dataset.optimize.compact_files(target_rows_per_fragment=100)
    newest = lance.dataset(uri).latest_version
    names = sorted((Path(uri) / "_versions").glob("*.manifest"), reverse=True)
    names[1].unlink()
    with pytest.raises(lw.NotFoundError, match=r"only added columns.*version 2"):
        _ = lw.open(uri, version=newest).changes(1).counts
    assert lw.open(uri, version=newest).changes(newest - 1).counts == RowCounts()


def update_in_place(
    uri: str, keys: list[int], mode: str | None = "rewrite_columns", at: int = 0
) -> int:
    """New values of ``v`` through pylance's fragments, which marks no row; the version."""
    dataset: Any = lance.dataset(uri)
    values = [each * 100 + dataset.version for each in keys]
    part = pa.table({"k": pa.array(keys, pa.int64()), "v": pa.array(values, pa.int64())})
    image, fields = dataset.get_fragment(at).update_columns(part, left_on="k", right_on="k")
    update: Any = lance.LanceOperation.Update
    operation = update(updated_fragments=[image], fields_modified=fields, update_mode=mode)
    done: Any = lance.LanceDataset.commit(uri, operation, read_version=dataset.version)
    return int(done.version)


@pytest.mark.parametrize("mode", ["rewrite_columns", None])
def test_columns_that_pylance_wrote_in_place_without_marks_are_updates(
    uri: str, mode: str | None
) -> None:
    create(uri)
    newest = update_in_place(uri, [3, 4], mode)
    assert check(uri, 1, newest).counts == RowCounts(updated=2)


def test_columns_in_place_without_marks_are_found_beside_all_that_marks_and_moves(uri: str) -> None:
    create(uri)
    update_in_place(uri, [3, 4])  # 2
    table = lw.open(uri).update({"v": "-1"}, "k in (1, 3)", rewrite="columns")  # 3, marked
    table = table.add_columns({"w": "k * 2"}).delete("k = 5")  # 4, which marks all, and 5
    update_in_place(uri, [0, 6])  # 6
    lance.dataset(uri).update({"v": "v + 1000"}, where="k = 2")  # 7: the row moves
    table = lw.open(uri).restore(version=5)  # 8
    update_in_place(uri, [8], at=1)  # 9
    for until in range(1, 10):
        for since in range(1, until + 1):
            check(uri, since, until)


def test_a_column_in_place_on_a_branch_is_no_file_that_only_moved(uri: str) -> None:
    create(uri)
    update_in_place(uri, [3, 4])
    lance.dataset(uri).create_branch("b")
    root = f"{uri}/tree/b"
    newest = update_in_place(root, [5])
    found = lw.open(uri, branch="b").changes(2)
    assert (found.until, found.counts) == (newest, RowCounts(updated=1))
    assert found.updated.to_arrow()["k"].to_pylist() == [5]


def test_columns_in_place_that_say_their_rows_are_not_read(
    uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(uri)
    table = lw.open(uri).update({"v": "-1"}, "k in (1, 3)", rewrite="columns")

    def read(*_: object) -> None:
        raise AssertionError("what transactions say need not be read")

    monkeypatch.setattr("lancewood.jobs.diff.unmarked.pick_rows", read)
    assert table.changes(1).counts == RowCounts(updated=2)
    monkeypatch.setattr("lancewood.jobs.diff.unmarked._MOST_VERSIONS", 0)
    with pytest.raises(AssertionError, match="need not be read"):
        table.changes(1).counts  # noqa: B018


def test_values_decide_where_versions_are_too_far_apart_to_look_at_all(
    uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lancewood.jobs.diff.unmarked._MOST_VERSIONS", 0)
    create(uri)
    lw.open(uri).update({"v": "-1"}, "k in (1, 3)", rewrite="columns")
    newest = update_in_place(uri, [4])
    assert check(uri, 1, newest).counts == RowCounts(updated=3)


def test_a_column_under_the_id_of_one_that_was_dropped_is_not_compared_with_it(uri: str) -> None:
    create(uri)
    before = lw.open(uri).add_columns({"d": "k"})  # 2
    after = before.drop_columns(["d"]).add_columns(pa.schema({"c": pa.int64()}))  # 3, 4
    fields = [each._snapshot.schema.by_name for each in (before, after)]
    assert fields[0]["d"].id == fields[1]["c"].id
    newest = update_in_place(uri, [3])
    assert lw.open(uri).changes(2).updated.to_arrow()["k"].to_pylist() == [3]
    assert check(uri, 4, newest).counts == RowCounts(updated=1)
