"""Merges of a table whose columns one side or both changed, with rows that changed as well."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.counted import counts_of
from tests.merging import FIRST, Scene, rows_of

import lancewood as lw
from lancewood.jobs.counts import Merged

KEY: dict[str, Any] = {"key": True, "nullable": False}
NEW = (4, 40, "n")


@pytest.fixture(params=[2, 100])
def scene(request: pytest.FixtureRequest, tmp_path: Path) -> Scene:
    return Scene(tmp_path, max_rows_per_file=request.param)


def test_a_column_added_there_and_rows_changed_here(scene: Scene) -> None:
    scene.on("exp").add_columns({"c": "a + 1"})
    scene.on().update({"b": "'m'"}, "k = 1").delete("k = 2")
    scene.on().append(rows_of([NEW]))
    scene.merge()
    assert scene.rows() == [(1, 10, "m", 11), (3, 30, "z", 31), (*NEW, None)]


def test_a_column_added_here_and_rows_changed_there(scene: Scene) -> None:
    scene.on().add_columns({"c": "a + 1"})
    scene.on("exp").update({"b": "'w'"}, "k = 1").delete("k = 2").append(rows_of([NEW]))
    scene.merge()
    assert scene.rows() == [(1, 10, "w", 11), (3, 30, "z", 31), (*NEW, None)]


def test_rows_deleted_here_and_a_column_with_values_added_there_dolt_6766(scene: Scene) -> None:
    scene.on().delete("k = 1")
    scene.on("exp").add_columns({"c": "a + 1"})
    assert scene.conflicts() == []
    scene.merge()
    assert scene.rows() == [(*FIRST[1], 21), (*FIRST[2], 31)]


def test_rows_deleted_there_and_a_column_with_values_added_here_dolt_6766(scene: Scene) -> None:
    scene.on().add_columns({"c": "a + 1"})
    scene.on("exp").delete("k = 1")
    assert scene.conflicts() == []
    scene.merge()
    assert scene.rows() == [(*FIRST[1], 21), (*FIRST[2], 31)]


@pytest.mark.parametrize(
    "replacing",
    [
        lambda it, row: it.delete("k = 1").append(rows_of([row], **KEY)),
        lambda it, row: it.overwrite(rows_of([row, *FIRST[1:]], **KEY)),
    ],
    ids=["deleted and inserted", "overwritten"],
)
def test_a_dropped_column_whose_cells_the_other_replaced_under_the_primary_key_is_a_conflict(
    tmp_path: Path, replacing: Callable[[lw.Table, tuple[Any, ...]], Any]
) -> None:
    scene = Scene(tmp_path, rows_of(FIRST, **KEY))
    scene.branch("same")
    scene.on().drop_columns(["b"])
    replacing(scene.on("exp"), (1, 10, "other"))
    replacing(scene.on("same"), (1, 11, "x"))
    facts = scene.refused()
    assert facts["schema"] == [("b", "column", "dropped", "cells changed")]
    scene.merge("same")
    assert scene.rows() == [(1, 11), (2, 20), (3, 30)]


@pytest.mark.parametrize(("dropping", "updating"), [("main", "exp"), ("exp", "main")])
def test_a_dropped_column_whose_cells_the_other_changed_is_a_conflict_dolt_6747(
    scene: Scene, dropping: str, updating: str
) -> None:
    scene.on(dropping).drop_columns(["b"])
    scene.on(updating).update({"b": "'w'"}, "k = 1")
    with pytest.raises(lw.MergeConflictError, match="'b'"):
        scene.merge()
    scene.merge(resolve=lw.Resolve(schema={"b": "drop"}))
    assert scene.rows() == [each[:2] for each in FIRST]


@pytest.mark.parametrize(("dropping", "updating"), [("main", "exp"), ("exp", "main")])
def test_a_dropped_column_is_kept_if_it_is_decided_so(
    scene: Scene, dropping: str, updating: str
) -> None:
    scene.on(dropping).drop_columns(["b"])
    scene.on(updating).update({"b": "'w'"}, "k = 1")
    scene.merge(resolve=lw.Resolve(schema={"b": "keep"}))
    assert scene.rows("main", "k", "b") == [(1, "w"), (2, "y"), (3, "z")]


@pytest.mark.parametrize(("dropping", "updating"), [("main", "exp"), ("exp", "main")])
def test_a_dropped_column_does_not_meet_changes_of_others(
    scene: Scene, dropping: str, updating: str
) -> None:
    scene.on(dropping).drop_columns(["b"])
    scene.on(updating).update({"a": "11"}, "k = 1").append(rows_of([NEW]))
    scene.merge()
    assert scene.rows() == [(1, 11), (2, 20), (3, 30), (4, 40)]


def test_a_column_dropped_by_both(scene: Scene) -> None:
    for branch in ("main", "exp"):
        scene.on(branch).drop_columns(["b"])
    scene.on("exp").update({"a": "11"}, "k = 1")
    scene.merge()
    assert scene.rows() == [(1, 11), (2, 20), (3, 30)]


def test_both_add_the_same_column_and_theirs_edits_and_deletes_doltlite_2306(scene: Scene) -> None:
    for branch in ("main", "exp"):
        scene.on(branch).add_columns({"c": "a + 1"})
    scene.on("exp").update({"a": "12"}, "k = 1").delete("k = 2")
    scene.merge()
    assert scene.rows() == [(1, 12, "x", 11), (3, 30, "z", 31)]


def test_a_column_that_came_by_a_merge_goes_on_after_a_compaction(scene: Scene) -> None:
    scene.branch("other")
    scene.on("exp").add_columns({"c": "a + 1"})
    scene.on("other").update({"b": "'o'"}, "k = 1")
    scene.merge()
    scene.on().compact(target_rows=100)
    scene.merge("main", into="other")
    assert scene.rows("other") == [(1, 10, "o", 11), (2, 20, "y", 21), (3, 30, "z", 31)]


def test_values_of_a_column_that_is_null_here_change_rows(scene: Scene) -> None:
    scene.on().add_columns(pa.field("c", pa.int64()))
    scene.on("exp").add_columns({"c": "a + 1"})
    before = scene.on().version
    after = scene.merge()
    assert scene.rows("main", "k", "c") == [(1, 11), (2, 21), (3, 31)]
    assert (counts_of(after, Merged).updated, counts_of(after, Merged).rewritten) == (0, 3)
    assert after.changes(since=before).counts.updated == 3


def test_both_add_different_columns(scene: Scene) -> None:
    scene.on().add_columns({"c": "a + 1"})
    scene.on("exp").add_columns({"d": "a + 2"}).update({"b": "'w'"}, "k = 1")
    scene.merge()
    assert scene.rows() == [(1, 10, "w", 11, 12), (2, 20, "y", 21, 22), (3, 30, "z", 31, 32)]


def test_both_add_a_column_with_other_values(scene: Scene) -> None:
    scene.on().add_columns({"c": "a + 1"})
    scene.on("exp").add_columns({"c": "CASE WHEN k = 1 THEN 0 ELSE a + 1 END"})
    assert scene.conflicts() == [("update/update", "c")]
    scene.merge(resolve="theirs")
    assert scene.rows("main", "k", "c") == [(1, 0), (2, 21), (3, 31)]


def test_both_add_a_column_of_other_types(scene: Scene) -> None:
    scene.on().add_columns({"c": "a + 1"})
    scene.on("exp").add_columns({"c": "'text'"})
    with pytest.raises(lw.MergeConflictError, match="'c'"):
        scene.merge()


@pytest.mark.parametrize(("renaming", "updating"), [("main", "exp"), ("exp", "main")])
def test_a_renamed_column_gets_the_cells_of_the_other_side(
    scene: Scene, renaming: str, updating: str
) -> None:
    scene.on(renaming).rename_column("b", "name")
    scene.on(updating).update({"b": "'w'"}, "k = 1").append(rows_of([NEW])).delete("k = 2")
    scene.merge()
    assert scene.on().schema.names == ["k", "a", "name"]
    assert scene.rows() == [(1, 10, "w"), FIRST[2], NEW]


def test_renamed_and_deleted_here_added_there(scene: Scene) -> None:
    scene.on().rename_column("b", "name").delete("k = 1")
    scene.on("exp").add_columns({"c": "a + 1"})
    scene.merge()
    assert scene.on().schema.names == ["k", "a", "name", "c"]
    assert scene.rows() == [(*FIRST[1], 21), (*FIRST[2], 31)]


@pytest.mark.parametrize(("casting", "updating"), [("main", "exp"), ("exp", "main")])
def test_a_cast_column_gets_the_cells_of_the_other_side(
    scene: Scene, casting: str, updating: str
) -> None:
    scene.on(casting).cast_column("a", pa.int32())
    scene.on(updating).update({"a": "11"}, "k = 1").append(rows_of([NEW])).delete("k = 2")
    assert scene.conflicts() == []
    scene.merge()
    assert scene.on().schema.field("a").type == pa.int32()
    assert scene.rows() == [(1, 11, "x"), FIRST[2], NEW]


@pytest.mark.parametrize(("casting", "updating"), [("main", "exp"), ("exp", "main")])
def test_a_value_that_does_not_fit_a_cast_column_is_a_conflict(
    scene: Scene, casting: str, updating: str
) -> None:
    scene.on(casting).cast_column("a", pa.int8())
    scene.on(updating).update({"a": "1000"}, "k = 1")
    before = scene.on().version
    with pytest.raises(lw.MergeConflictError, match="1000"):
        scene.merge()
    assert scene.on().version == before


@pytest.mark.parametrize("change", ["rename", "drop", "cast"])
def test_columns_come_once_and_are_not_undone_later(scene: Scene, change: str) -> None:
    verbs: dict[str, Callable[[lw.Table], Any]] = {
        "rename": lambda table: table.rename_column("b", "name"),
        "drop": lambda table: table.drop_columns(["b"]),
        "cast": lambda table: table.cast_column("a", pa.int32()),
    }
    verbs[change](scene.on("exp"))
    scene.merge()
    scene.on("exp").update({"a": "11"}, "k = 1")
    scene.on().update({"a": "21"}, "k = 2")
    scene.merge()
    scene.merge("main", into="exp")
    assert scene.rows() == scene.rows("exp")
    assert scene.rows("main", "k", "a") == [(1, 11), (2, 21), (3, 30)]
