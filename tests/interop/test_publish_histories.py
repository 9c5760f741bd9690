"""Publishing a branch after histories that a random search found to go wrong.

What the target holds, what ``changes`` tells of it, and what others may write to it afterwards.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import lance
import pyarrow as pa
import pytest
from tests.pylance import judged

import lancewood as lw

Change: TypeAlias = Callable[[lw.Table], lw.Table]


def rows(first: int, stop: int, *names: str) -> pa.Table:
    return pa.table({name: pa.array(range(first, stop), pa.int64()) for name in names})


def fresh(directory: Path) -> lw.Table:
    """Three fragments, with a column ``d`` in files of its own."""
    uri = str(directory / "t.lance")
    table = lw.create(uri, rows(0, 30, "k", "a"), layout=lw.Layout(max_rows_per_file=10))
    return table.add_columns({"d": "k * 7"})


def swap(table: lw.Table) -> lw.Table:
    """Drop a column and add one of nulls, which gets the same field id."""
    before = {each.name: each.id for each in table._snapshot.manifest.fields}
    table = table.drop_columns(["d"]).add_columns(pa.schema({"c": pa.int64()}))
    after = {each.name: each.id for each in table._snapshot.manifest.fields}
    assert after["c"] == before["d"]
    return table


def index(table: lw.Table) -> lw.Table:
    dataset: Any = lance.dataset(table.uri)
    dataset.create_scalar_index("d", "BTREE")
    return table.latest()


SCHEMA_ONLY: dict[str, Change] = {
    "rename": lambda table: table.rename_column("d", "e"),
    "drop": lambda table: table.drop_columns(["d"]),
    "add nulls": lambda table: table.add_columns(pa.schema({"z": pa.int64()})),
}
ROWS: dict[str, Change] = {
    "append": lambda table: table.append(rows(100, 110, "k", "a", "d")),
    "delete": lambda table: table.delete("k = 3"),
    "update rows": lambda table: table.update({"a": "a + 1"}, "k = 3", rewrite="rows"),
    "update columns": lambda table: table.update({"d": "d + 1"}, "k = 3", rewrite="columns"),
    "compact": lambda table: table.compact(target_rows=100),
    "index": index,
}


@pytest.mark.parametrize("is_moved", [False, True])
@pytest.mark.parametrize("rewrite", ["rows", "columns"])
@pytest.mark.parametrize("schema", SCHEMA_ONLY)
def test_updates_beside_a_change_of_the_schema_are_told_as_changes(
    tmp_path: Path, schema: str, rewrite: Any, is_moved: bool
) -> None:
    table = fresh(tmp_path)
    branch = table.branches.create("exp").update({"a": "a + 100"}, "k IN (3, 19)", rewrite=rewrite)
    SCHEMA_ONLY[schema](branch)
    before = table.set_config({"moved": "yes"}) if is_moved else table
    changes = before.branches.publish("exp").changes(since=before.version)
    assert changes.updated.to_arrow()["_rowid"].to_pylist() == [3, 19]
    assert (changes.inserted.count(), changes.deleted.count()) == (0, 0)


@pytest.mark.parametrize("move", ROWS)
def test_an_id_that_the_branch_gave_to_another_column_does_not_meet_rows_of_the_target(
    tmp_path: Path, move: str
) -> None:
    table = fresh(tmp_path)
    swap(table.branches.create("exp"))
    before = ROWS[move](table)
    with pytest.raises(lw.RetryableConflictError, match="'d' was given to 'c'"):
        table.branches.publish("exp")
    assert table.latest().version == before.version
    lw.open(f"{table.uri}@exp").set_config({"it": "is open"})


def test_an_id_that_the_target_gave_to_another_column_does_not_meet_compacted_rows(
    tmp_path: Path,
) -> None:
    table = fresh(tmp_path)
    ROWS["compact"](table.branches.create("exp"))
    swap(table)
    with pytest.raises(lw.RetryableConflictError, match="'d' was given to 'c'"):
        table.branches.publish("exp")


def test_nobody_writes_to_a_column_whose_id_means_another_one_after_publishing(
    tmp_path: Path,
) -> None:
    table = fresh(tmp_path)
    swap(table.branches.create("exp")).update({"a": "a + 1"}, "k < 3")
    dataset: Any = lance.dataset(table.uri)
    table = table.set_config({"moved": "yes"})
    after = table.branches.publish("exp")
    late = rows(100, 101, "k", "a", "d")
    with pytest.raises(lw.IncompatibleConflictError):
        table.append(late)
    with pytest.raises(OSError, match="incompatible"):
        dataset.insert(late)
    dataset = judged(table.uri)
    assert dataset.count_rows() == 30
    assert dataset.count_rows("c IS NOT NULL") == 0
    assert after.changes(since=table.version).updated.count() == 3
    assert after.append(rows(100, 101, "k", "a", "c")).count_rows() == 31


def test_a_branch_that_pylance_made_of_a_closed_one_was_not_published(tmp_path: Path) -> None:
    table = fresh(tmp_path)
    table.branches.create("exp").delete("k = 3")
    table.branches.publish("exp")
    closed: Any = lance.dataset(f"{table.uri}/tree/exp")
    closed.create_branch("child")
    child: Any = lance.dataset(f"{table.uri}/tree/child")
    child.delete("k = 4")
    with pytest.raises(lw.IncompatibleConflictError, match="'exp' is closed"):
        table.branches.publish("child")
    with pytest.raises(lw.IncompatibleConflictError, match="was not published"):
        table.branches.reset("child")
    again = table.branches.reset("child", force=True)
    assert again.delete("k = 5").count_rows() == 28


def test_a_clone_that_pylance_made_of_a_closed_branch_is_open(tmp_path: Path) -> None:
    table = fresh(tmp_path)
    table.branches.create("exp").delete("k = 3")
    table.branches.publish("exp")
    closed: Any = lance.dataset(f"{table.uri}/tree/exp")
    closed.shallow_clone(str(tmp_path / "clone.lance"), closed.version)
    clone = lw.open(str(tmp_path / "clone.lance"))
    assert clone.delete("k = 4").count_rows() == 28


def test_what_was_written_to_a_closed_branch_is_not_said_to_be_published(tmp_path: Path) -> None:
    table = fresh(tmp_path)
    table.branches.create("exp").delete("k = 3")
    after = table.branches.publish("exp")
    closed: Any = lance.dataset(f"{table.uri}/tree/exp")
    closed.delete("k = 4")
    with pytest.raises(lw.IncompatibleConflictError, match="wrote to it afterwards"):
        table.branches.publish("exp")
    assert table.latest().version == after.version


def test_a_version_from_before_a_reset_is_not_published_with_ids_of_other_rows(
    tmp_path: Path,
) -> None:
    table = fresh(tmp_path)
    branch = table.branches.create("exp").append(rows(100, 101, "k", "a", "d"))
    table.append(rows(200, 202, "k", "a", "d"))
    before = table.branches.publish("exp")
    table.branches.reset("exp").restore(branch.version)
    with pytest.raises(lw.IncompatibleConflictError, match="from before it was reset"):
        table.branches.publish("exp")
    assert table.latest().version == before.version
    assert table.branches.reset("exp", force=True).count_rows() == 33


def test_a_branch_in_an_object_store_is_published_and_reset(
    s3_root: str, s3_options: dict[str, str]
) -> None:
    uri = f"{s3_root}/t.lance"
    start = rows(0, 30, "k", "a")
    table = lw.create(
        uri,
        start,
        layout=lw.Layout(max_rows_per_file=10),
        access=lw.Access(storage_options=s3_options),
    )
    table.branches.create("exp/s3").append(rows(100, 110, "k", "a")).delete("k IN (3, 104)")
    late: Any = lance.dataset(f"{uri}/tree/exp/s3", storage_options=s3_options)
    late.insert(rows(200, 202, "k", "a"))
    table.append(rows(300, 303, "k", "a"))
    after = table.branches.publish("exp/s3")
    assert after.count_rows() == 43
    again = after.branches.reset("exp/s3").update({"a": "a + 1"}, "k = 100")
    after = again.branches.publish("exp/s3")
    after.branches.delete("exp/s3")
    dataset = judged(uri, storage_options=s3_options)
    found = dataset.to_table(columns=["k", "_rowid"])
    assert len(set(found["k"].to_pylist())) == len(set(found["_rowid"].to_pylist())) == 43
    assert dataset.count_rows("k = 100 AND a = 101") == 1
    assert after.verify().problems == ()
