"""Who runs tasks, and how fragments are cut into them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lancewood as lw
from lancewood.errors import InvalidInputError
from lancewood.jobs.job import MOST_FRAGMENTS, TASKS_PER_SLOT, pack_fragments
from lancewood.jobs.runner import LocalRunner
from lancewood.model.fragment import DataFile, Fragment
from lancewood.model.ids import FieldId, FragmentId


def test_results_come_in_the_order_of_the_tasks_whoever_is_faster() -> None:
    last_is_done = threading.Event()

    def work(task: int) -> int:
        if task == 0:
            assert last_is_done.wait(30)
        if task == 3:
            last_is_done.set()
        return task * 10

    assert list(LocalRunner(4).run(work, range(4), what="waiting")) == [0, 10, 20, 30]


@pytest.mark.parametrize("workers", [0, -1, 1.5, "2", None])
def test_a_number_of_threads_that_is_none_is_refused(workers: Any) -> None:
    with pytest.raises(InvalidInputError, match="workers"):
        LocalRunner(workers)


def test_what_runs_nothing_is_refused_by_every_verb(tmp_path: Path) -> None:
    table = lw.create(str(tmp_path / "t"), pa.table({"a": [1, 2]}), access=lw.Access(fsync=False))
    nothing: Any = 5
    with pytest.raises(InvalidInputError, match="runner"):
        table.delete("a = 1", runner=nothing)
    with pytest.raises(InvalidInputError, match="runner"):
        table.update({"a": 1}, runner=nothing)
    with pytest.raises(InvalidInputError, match="runner"):
        table.merge(pa.table({"a": [1]}), "a", runner=nothing)


@pytest.mark.parametrize("workers", [1, 3])
def test_no_tasks_are_no_results(workers: int) -> None:
    assert list(LocalRunner(workers).run(str, [], what="nothing")) == []


@pytest.mark.parametrize("workers", [1, 2])
def test_the_first_error_is_raised_and_later_tasks_are_not_begun(workers: int) -> None:
    begun: list[int] = []

    def work(task: int) -> int:
        begun.append(task)
        if task == 1:
            raise ValueError(f"task {task}")
        return task

    results = LocalRunner(workers).run(work, range(1000), what="failing")
    assert next(results) == 0
    with pytest.raises(ValueError, match="task 1"):
        list(results)
    assert len(begun) < 20


def test_results_whose_turn_never_came_are_told() -> None:
    second_is_done = threading.Event()
    left: list[int] = []

    def work(task: int) -> int:
        if task == 0:
            assert second_is_done.wait(30)
            raise ValueError("task 0")
        second_is_done.set()
        return task

    with pytest.raises(ValueError, match="task 0"):
        list(LocalRunner(2).run(work, range(2), what="failing", leftover=left.append))
    assert left == [1]


def test_ctrl_c_while_waiting_stops_the_job() -> None:
    begun: list[int] = []
    finished: list[int] = []

    def progress(what: str, done: int, total: int) -> None:
        if done == 3:
            raise KeyboardInterrupt

    def work(task: int) -> int:
        begun.append(task)
        finished.append(task)
        return task

    with pytest.raises(KeyboardInterrupt):
        list(LocalRunner(2, progress).run(work, range(1000), what="counting"))
    assert len(begun) < 20
    assert sorted(begun) == sorted(finished), "what was begun is waited for"


def test_leaving_the_results_stops_the_job() -> None:
    begun: list[int] = []

    def work(task: int) -> int:
        begun.append(task)
        return task

    results = LocalRunner(2).run(work, range(1000), what="leaving")
    assert next(results) == 0
    assert isinstance(results, Iterator)
    results.close()  # type: ignore[attr-defined]
    assert len(begun) < 20


@pytest.mark.parametrize("workers", [1, 2])
def test_progress_is_told_from_nothing_to_everything(workers: int) -> None:
    told: list[tuple[str, int, int]] = []
    runner = LocalRunner(workers, lambda *each: told.append(each))
    assert list(runner.run(str, range(3), what="naming")) == ["0", "1", "2"]
    assert told[0] == ("naming", 0, 3)
    assert told[-1] == ("naming", 3, 3)
    assert [done for _, done, _ in told] == sorted(done for _, done, _ in told)


def fragment(number: int, rows: int, size: int = 0) -> Fragment:
    file = DataFile.make(f"{number}.lance", [FieldId(0)], [0], (2, 2), size)
    return Fragment.make([file], rows).numbered(FragmentId(number))


def ids(groups: Iterator[tuple[Fragment, ...]]) -> list[list[int]]:
    return [[each.id for each in group] for group in groups]


def test_packing_keeps_every_fragment_once_and_in_order() -> None:
    fragments = [fragment(number, 10 + number) for number in range(100)]
    groups = ids(pack_fragments(fragments, 2))
    assert [each for group in groups for each in group] == list(range(100))
    assert TASKS_PER_SLOT <= len(groups) <= 2 * TASKS_PER_SLOT + 1


def test_a_large_fragment_is_a_task_by_itself() -> None:
    fragments = [fragment(0, 10**6), *(fragment(number, 1) for number in range(1, 50))]
    groups = ids(pack_fragments(fragments, 4))
    assert groups == [[0], list(range(1, 50))]


def test_tiny_fragments_make_no_huge_tasks() -> None:
    fragments = (fragment(number, 1) for number in range(3 * MOST_FRAGMENTS + 5))
    groups = ids(pack_fragments(fragments, 0))
    assert max(map(len, groups)) <= MOST_FRAGMENTS


def test_fragments_of_few_bytes_share_a_task_where_that_is_asked_for() -> None:
    fragments = [fragment(number, 100, size=1000) for number in range(10)]
    assert len(ids(pack_fragments(fragments, 10))) == 10
    groups = ids(pack_fragments(fragments, 10, least_bytes=4000))
    assert groups == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]
    assert len(ids(pack_fragments(fragments, 10, least_bytes=20_000))) == 1
    unknown = [fragment(number, 100) for number in range(10)]
    assert len(ids(pack_fragments(unknown, 10, least_bytes=4000))) == 10


def test_groups_have_about_the_same_number_of_rows() -> None:
    fragments = [fragment(number, 1000 + number % 3) for number in range(10)]
    assert ids(pack_fragments(fragments, 2, per_slot=1)) == [[*range(5)], [*range(5, 10)]]
    assert len(ids(pack_fragments(fragments, 2))) == 2 * TASKS_PER_SLOT


def test_no_fragments_are_no_tasks() -> None:
    assert ids(pack_fragments([], 4)) == []
