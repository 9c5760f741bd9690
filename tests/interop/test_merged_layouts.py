"""Merges where rows lie otherwise than usual: what pylance wrote without marks, moved tables, files
of several versions."""

from __future__ import annotations

import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.merging import FIRST, Scene, rows_of
from tests.pylance import lance

import lancewood as lw

NEW = (4, 40, "n")


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path, max_rows_per_file=2)


def rewrite_unmarked(scene: Scene, branch: str, key: int, value: int) -> None:
    """Change a cell as ``fragment.update_columns`` does, which leaves the marks of rows alone."""
    dataset: Any = lance.dataset(scene.uri)
    if branch != "main":
        dataset = dataset.checkout_version((branch, None))
    source = pa.table({"k": pa.array([key], pa.int64()), "a": pa.array([value], pa.int64())})
    found = next(
        each
        for each in dataset.get_fragments()
        if key in each.to_table(columns=["k"]).column("k").to_pylist()
    )
    made, fields = found.update_columns(source, left_on="k", right_on="k")
    change = lance.LanceOperation.Update(
        updated_fragments=[made], fields_modified=fields, update_mode="rewrite_columns"
    )
    lance.LanceDataset.commit(dataset, change, read_version=dataset.version)
    assert (key, value) in scene.rows(branch, "k", "a")


def test_columns_that_pylance_rewrote_without_marks_there(scene: Scene) -> None:
    rewrite_unmarked(scene, "exp", 1, 11)
    scene.on().update({"b": "'m'"}, "k = 1").append(rows_of([NEW]))
    scene.merge()
    assert scene.rows() == [(1, 11, "m"), *FIRST[1:], NEW]


def test_columns_that_pylance_rewrote_without_marks_here(scene: Scene) -> None:
    rewrite_unmarked(scene, "main", 1, 11)
    scene.on("exp").update({"b": "'w'"}, "k = 1").append(rows_of([NEW]))
    scene.merge()
    assert scene.rows() == [(1, 11, "w"), *FIRST[1:], NEW]


def test_columns_that_pylance_rewrote_without_marks_on_both_are_a_conflict(scene: Scene) -> None:
    rewrite_unmarked(scene, "main", 1, 11)
    rewrite_unmarked(scene, "exp", 1, 12)
    assert scene.conflicts() == [("update/update", "a")]


@pytest.mark.parametrize("side", ["main", "exp"])
def test_rows_that_only_pylance_compacted(scene: Scene, side: str) -> None:
    other = "exp" if side == "main" else "main"
    dataset: Any = lance.dataset(scene.uri)
    dataset = dataset if side == "main" else dataset.checkout_version((side, None))
    dataset.optimize.compact_files(target_rows_per_fragment=100)
    scene.on(other).update({"a": "11"}, "k = 1").delete("k = 2")
    scene.merge()
    assert scene.rows() == [(1, 11, "x"), FIRST[2]]


def test_a_table_that_was_moved(scene: Scene, tmp_path: Path) -> None:
    scene.on("exp").update({"a": "11"}, "k = 1").append(rows_of([NEW]))
    scene.on().update({"b": "'m'"}, "k = 1")
    moved = tmp_path / "elsewhere" / "t.lance"
    moved.parent.mkdir()
    shutil.move(scene.uri, moved)
    scene.uri = str(moved)
    lw.relocate(scene.uri, in_flight=timedelta(0))
    scene.merge()
    scene.merge("main", into="exp")
    assert scene.rows() == scene.rows("exp") == [(1, 11, "m"), *FIRST[1:], NEW]


@pytest.mark.parametrize("side", ["main", "exp"])
def test_files_in_another_base(scene: Scene, tmp_path: Path, side: str) -> None:
    cold = tmp_path / "cold"
    cold.mkdir()
    table = scene.on(side).add_base(cold, name="cold")
    table.append(rows_of([NEW, (5, 50, "f")]), layout=lw.Layout(into="cold")).update(
        {"a": "11"}, "k = 1"
    )
    scene.on("exp" if side == "main" else "main").update({"b": "'w'"}, "k = 1")
    before = sorted(cold.rglob("*.lance"))
    scene.merge()
    scene.merge("main", into="exp")
    assert scene.rows() == scene.rows("exp") == [(1, 11, "w"), *FIRST[1:], NEW, (5, 50, "f")]
    assert sorted(cold.rglob("*.lance")) == before


@pytest.mark.parametrize("versions", [("2.0", "2.2"), ("2.2", "2.1"), ("2.1", "2.0")])
def test_files_of_several_versions(tmp_path: Path, versions: tuple[str, str]) -> None:
    first, second = versions
    scene = Scene(tmp_path, max_rows_per_file=2, file_version=first)
    for branch, number in (("main", 11), ("exp", 12)):
        dataset: Any = lance.dataset(scene.uri)
        dataset = dataset if branch == "main" else dataset.checkout_version((branch, None))
        data = rows_of([(number, number, branch)])
        lance.write_dataset(data, dataset, mode="append", data_storage_version=second)
        scene.on(branch).update({"a" if branch == "main" else "b": "NULL"}, "k = 1")
    scene.merge()
    files = [file for each in scene.judged().get_fragments() for file in each.metadata.files]
    assert {f"2.{each.file_minor_version}" for each in files} == {*versions}
    assert scene.rows() == [
        (1, None, None),
        (11, 11, "main"),
        (12, 12, "exp"),
        *FIRST[1:],
    ]
