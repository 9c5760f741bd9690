"""An index is built beside other writers: what they do meanwhile is told by pylance's answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pytest
from tests.counted import counts_of
from tests.index_scene import OneThread
from tests.interop.test_index_jobs import PER_FILE, WIDTH, directories, found, made, named, rows
from tests.pylance import judged

import lancewood as lw
from lancewood.jobs.index import building

T = TypeVar("T")
R = TypeVar("R")


@pytest.fixture(autouse=True)
def _small_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A task for every few fragments, however small."""
    monkeypatch.setattr(building, "LEAST_BYTES", 0)


@pytest.fixture
def table(tmp_path: Path) -> lw.Table:
    return made(tmp_path / "t.lance")


class Meddling(OneThread):
    """Does something else to the table once tasks of a kind are done."""

    def __init__(self, act: Callable[[], object], *, after: str = "indexing") -> None:
        super().__init__()
        self._act: Callable[[], object] | None = act
        self._after = after
        self.tasks: list[tuple[str, int]] = []

    def run(
        self,
        work: Callable[[T], R],
        tasks: Sequence[T],
        *,
        what: str,
        leftover: Callable[[R], object] | None = None,
    ) -> Iterator[R]:
        self.tasks.append((what, len(tasks)))
        yield from super().run(work, tasks, what=what, leftover=leftover)
        if what == self._after and self._act is not None:
            act, self._act = self._act, None
            act()


@pytest.mark.parametrize("stable", [True, False])
def test_rows_that_others_append_meanwhile_are_left_to_extend(tmp_path: Path, stable: bool) -> None:
    table = made(tmp_path / "t", stable=stable)
    meddling = Meddling(lambda: table.append(rows(600, 620)).delete("id = 5"))
    after = table.indices.create("id", runner=meddling)
    (info,) = after.indices.list()
    assert (info.rows_covered, info.rows_uncovered) == (599, 20)
    assert found(judged(after.uri), "id IN (5, 7, 610)") == [7, 610]
    assert found(judged(after.indices.extend().uri), "id IN (5, 7, 610)") == [7, 610]


@pytest.mark.parametrize("kind", ["BTREE", "BITMAP"])
@pytest.mark.parametrize("stable", [True, False])
def test_a_column_that_others_rewrite_meanwhile_is_scanned(
    tmp_path: Path, stable: bool, kind: str
) -> None:
    table = made(tmp_path / "t", stable=stable)
    meddling = Meddling(lambda: table.update({"tag": 9}, "id = 150", rewrite="columns"))
    after = table.indices.create("tag", kind, runner=meddling)
    assert sorted(after.indices[0].fragments) == [0, 2, 3, 4, 5]
    assert found(judged(after.uri), "tag = 9", name="tag_idx") == [150]
    assert 150 not in found(judged(after.uri), "tag = 0", name="tag_idx")
    after = after.indices.extend()
    assert found(judged(after.uri), "tag = 9", name="tag_idx") == [150]
    assert 150 not in found(judged(after.uri), "tag = 0", name="tag_idx")


@pytest.mark.parametrize("column", ["id", "tag", "words", "labels", "vector"])
@pytest.mark.parametrize("stable", [True, False])
def test_after_a_compaction_meanwhile_only_what_it_changed_is_built_again(
    tmp_path: Path, stable: bool, column: str
) -> None:
    table = made(tmp_path / "t", stable=stable)

    def compact() -> None:
        table.delete("id < 200 AND id % 2 = 0").compact(target_rows=PER_FILE)

    meddling = Meddling(compact)
    kind = "search" if column == "words" else None
    after = table.indices.create(column, kind, runner=meddling)
    assert [count for what, count in meddling.tasks if what == "indexing"] == [3, 1]
    assert directories(after) == named(after)
    (info,) = after.indices.list()
    assert (info.rows_uncovered, info.segments) == (0, 1)
    assert after.indices[0].dataset_version == after.version - 1
    dataset = judged(after.uri)
    assert found(dataset, "id IN (100, 101, 250)") == [101, 250]
    assert len(found(dataset, "array_has_any(labels, ['blue'])")) == 334
    nearest = {"column": "vector", "q": [0.5] * WIDTH, "k": 10, "nprobes": 4}
    one = dataset.to_table(columns=["id"], nearest=nearest)["id"].to_pylist()
    brute = {**nearest, "use_index": False}
    assert one == dataset.to_table(columns=["id"], nearest=brute)["id"].to_pylist()
    text = {"query": "word3", "columns": ["words"]}
    if column == "words":
        got = dataset.to_table(columns=["id"], full_text_query=text)["id"].to_pylist()
        assert sorted(got) == found(dataset, "words = 'word3 and more'")


def test_of_two_builders_of_one_name_the_second_is_refused_and_leaves_nothing(
    table: lw.Table,
) -> None:
    first: list[lw.Table] = []
    meddling = Meddling(lambda: first.append(table.indices.create("id")))
    with pytest.raises(lw.AlreadyExistsError, match="index 'id_idx' already"):
        table.indices.create("id", runner=meddling)
    assert directories(table) == named(first[0])
    assert table.latest().version == first[0].version
    after = table.indices.create("id", replace=True, runner=Meddling(lambda: None))
    assert counts_of(after, lw.IndexCounts).segments_removed == 1
    assert [each.name for each in after.indices] == ["id_idx"]


def test_a_column_that_others_drop_meanwhile_is_told_and_nothing_is_left(table: lw.Table) -> None:
    meddling = Meddling(lambda: table.drop_columns(["tag"]))
    with pytest.raises(lw.InvalidInputError, match="column 'tag' not found"):
        table.indices.create("tag", runner=meddling)
    assert directories(table) == set()


def test_a_serializable_build_tolerates_nobody(table: lw.Table) -> None:
    meddling = Meddling(lambda: table.append(rows(600, 601)))
    with pytest.raises(lw.RetryableConflictError, match="serializable"):
        table.indices.create("id", commit=lw.CommitOptions(serializable=True), runner=meddling)
    assert directories(table) == set()


def test_a_task_that_fails_leaves_nothing(table: lw.Table) -> None:
    def fail() -> None:
        raise lw.StorageError("the disk is full")

    with pytest.raises(lw.StorageError, match="the disk is full"):
        table.indices.create("id", runner=Meddling(fail))
    assert directories(table) == set()


def test_an_unknown_outcome_keeps_what_was_built(
    table: lw.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(*_: Any) -> None:
        raise lw.CommitUnknownError("no answer")

    monkeypatch.setattr("lancewood.engine.commit.commit", lost)
    with pytest.raises(lw.CommitUnknownError):
        table.indices.create("id")
    assert directories(table)


@pytest.mark.parametrize("kind", ["BTREE", "BITMAP", "INVERTED", "LABEL_LIST"])
@pytest.mark.parametrize("stable", [True, False])
def test_a_row_that_others_move_before_they_compact_is_found_by_its_new_value_alone(
    tmp_path: Path, stable: bool, kind: str
) -> None:
    table = made(tmp_path / "t", stable=stable)

    def move_and_compact() -> None:
        new = {"tag": 9, "words": "'renewed'", "labels": ["renewed"]}
        moved = table.update(new, "id = 450", rewrite="rows")
        moved.delete("id < 200 AND id % 2 = 0").compact(target_rows=PER_FILE)

    column = {"INVERTED": "words", "LABEL_LIST": "labels"}.get(kind, "tag")
    after = table.indices.create(column, kind, runner=Meddling(move_and_compact))
    after = after.indices.optimize()
    dataset = judged(after.uri)
    if kind == "INVERTED":
        for word, is_there in (("renewed", True), ("word0", False)):
            text = {"query": word, "columns": ["words"]}
            assert (450 in dataset.to_table(full_text_query=text)["id"].to_pylist()) is is_there
    elif kind == "LABEL_LIST":
        assert found(dataset, "array_has_any(labels, ['renewed'])") == [450]
        assert 450 not in found(dataset, "array_has_any(labels, ['blue', 'red', 'green'])")
    else:
        assert found(dataset, "tag = 9") == [450]
        assert 450 not in found(dataset, "tag < 9")


MEANWHILE: dict[str, Callable[[lw.Table], lw.Table]] = {
    "rewrite the column": lambda t: t.update({"tag": 8}, "id IN (31, 610)", rewrite="columns"),
    "update rows": lambda t: t.update({"tag": 8}, "id IN (31, 610)", rewrite="rows"),
    "update rows, another column": lambda t: t.update({"id": "id"}, "id = 31", rewrite="rows"),
    "delete and compact": lambda t: t.delete("id % 3 = 1").compact(target_rows=150),
    "append": lambda t: t.append(rows(800, 820)),
    "extend": lambda t: t.indices.extend(),
    "optimize": lambda t: t.indices.optimize(),
}


@pytest.mark.sliced(6)
@pytest.mark.parametrize("stable", [True, False])
@pytest.mark.parametrize("verb", ["extend", "optimize"])
@pytest.mark.parametrize("kind", ["BTREE", "BITMAP", "ZONEMAP"])
@pytest.mark.parametrize("after", ["indexing", "merging"])
@pytest.mark.parametrize("name", MEANWHILE)
def test_whatever_others_do_while_an_index_is_brought_up_to_date_answers_are_right(
    tmp_path: Path, stable: bool, verb: str, kind: str, after: str, name: str
) -> None:
    table = made(tmp_path / "t", stable=stable).indices.create("tag", kind)
    table = table.append(rows(600, 700)).update({"tag": 9}, "id IN (77, 333)", rewrite="columns")
    meddling = Meddling(lambda: MEANWHILE[name](table), after=after)
    table = getattr(table.indices, verb)(runner=meddling)
    for _ in range(2):
        dataset = judged(table.uri)
        for value in (1, 8, 9):
            assert found(dataset, f"tag = {value}") == sorted(
                table.scan(["id"], f"tag = {value}").to_arrow()["id"].to_pylist()
            )
        table = table.indices.extend()
        assert table.indices.list()[0].rows_uncovered == 0
    assert not table.verify().problems
