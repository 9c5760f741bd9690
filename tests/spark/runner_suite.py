"""What a runner on executors promises besides results, for a session of any kind.

Where the order of things matters, tasks wait for files that others make: nothing rests on time.
Functions for executors are made inside of others, so that they travel by value.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.spark.job_suite import make_table

import lancewood as lw
from lancewood.spark import runner

MANY = 300


def wait_for(*files: Path) -> Callable[[], None]:
    """On an executor: until these are there."""

    def wait() -> None:
        while not all(each.exists() for each in files):
            time.sleep(0.01)

    return wait


def results_come_in_the_order_of_tasks_and_every_step_is_told(spark: Any, root: Path) -> None:
    told: list[tuple[str, int, int]] = []
    second = root / "1"
    wait = wait_for(second)

    def squared(number: int) -> int:
        if number == 0:
            wait()
        (root / str(number)).touch()
        return number * number

    steps = runner(spark, progress=lambda *each: told.append(each))
    assert list(steps.run(squared, range(5), what="squaring")) == [0, 1, 4, 9, 16]
    assert told == [("squaring", done, 5) for done in range(6)]


def no_tasks_have_no_results(spark: Any, root: Path) -> None:
    assert list(runner(spark).run(abs, [], what="nothing")) == []


def error_of_ours_arrives_as_itself_and_is_not_tried_again(spark: Any, root: Path) -> None:
    log = root / "log"

    def fail(number: int) -> int:
        if number == 1:
            with log.open("a") as attempts:
                attempts.write("x")
            raise lw.InvalidInputError("column 'x' is not there", column="x")
        return number

    leftover: list[int] = []
    with pytest.raises(lw.InvalidInputError, match=r"^column 'x' is not there$") as raised:
        list(runner(spark).run(fail, range(4), what="w", leftover=leftover.append))
    assert raised.value.facts == {"column": "x"}
    assert log.read_text() == "x"
    assert 1 not in leftover


def error_of_a_task_ends_the_job_while_others_are_at_work(spark: Any, root: Path) -> None:
    go = root / "go"
    wait = wait_for(go)

    def fail(number: int) -> None:
        (root / f"task {number}").touch()
        if number == 0:
            raise lw.FormatError("broken")
        wait()

    with pytest.raises(lw.FormatError, match=r"^broken$"):
        list(runner(spark).run(fail, range(MANY), what="w"))
    _check_cancelled(spark, root, go)


def leaving_early_cancels_the_job(spark: Any, root: Path) -> None:
    go = root / "go"
    wait = wait_for(go)

    def note(number: int) -> int:
        (root / f"task {number}").touch()
        if number:
            wait()
        return number

    leftover: list[int] = []
    results: Any = runner(spark).run(note, range(MANY), what="w", leftover=leftover.append)
    assert next(results) == 0
    results.close()
    assert leftover == []
    _check_cancelled(spark, root, go)


def _check_cancelled(spark: Any, root: Path, go: Path) -> None:
    """Whatever still runs may end; a job that comes later waits for all tasks before it."""
    go.touch()
    assert list(runner(spark).run(abs, range(-4, 0), what="later")) == [4, 3, 2, 1]
    assert len([*root.glob("task *")]) < MANY


def finished_results_of_a_failed_job_are_left_over(spark: Any, root: Path) -> None:
    table = make_table(root / "t.lance")
    data = root / "t.lance" / "data"
    before = sorted(data.iterdir())
    rows = 1_000
    enough = len(before) + 5
    others = root / "others are done"
    is_told = not _lost_on_connect(spark)

    def note(_: str, done: int, count: int) -> None:
        if done == count - 1:
            others.touch()

    def fail(batch: pa.RecordBatch) -> pa.RecordBatch:
        if batch["id"][0].as_py() >= rows:
            while not (others.exists() if is_told else len([*data.glob("*.lance")]) >= enough):
                time.sleep(0.01)
            raise lw.InvalidInputError("no value")
        return batch.rename_columns(["n"])

    schema = pa.schema([("n", pa.int64())])
    steps = runner(spark, progress=note)
    with pytest.raises(lw.InvalidInputError, match=r"^no value$"):
        table.add_columns(fail, schema=schema, columns_read=["id"], runner=steps)
    left = [each for each in data.iterdir() if each not in before]
    assert len(left) <= _lost_on_connect(spark)
    assert table.latest().version == table.version


def _lost_on_connect(spark: Any) -> int:
    """Over Connect results arrive in the order of tasks, so those after the one that failed may
    not."""
    from lancewood.spark.tasks import is_connect

    return 5 if is_connect(spark) else 0


def storage_error_is_tried_again_until_it_passes(spark: Any, root: Path) -> None:
    log = root / "log"

    def pass_the_third_time(number: int) -> int:
        if number == 1:
            with log.open("a") as attempts:
                attempts.write("x")
            if len(log.read_text()) < 3:
                raise lw.StorageError("the store does not answer")
        return number

    assert list(runner(spark).run(pass_the_third_time, range(3), what="w")) == [0, 1, 2]
    assert log.read_text() == "xxx"


def storage_error_that_stays_arrives_as_itself(spark: Any, root: Path) -> None:
    def fail(number: int) -> None:
        raise lw.StorageError("the store does not answer", key="k")

    with pytest.raises(lw.StorageError, match=r"^the store does not answer$") as raised:
        list(runner(spark).run(fail, [0], what="w"))
    assert raised.value.facts == {"key": "k"}


def exception_of_somebody_else_is_told_without_stacks_of_java(spark: Any, root: Path) -> None:
    class Odd(Exception):
        pass

    def fail(number: int) -> None:
        raise Odd("row 7 is odd")

    expected = r"^squaring failed on an executor: Odd: row 7 is odd$"
    with pytest.raises(lw.LancewoodError, match=expected) as raised:
        list(runner(spark).run(fail, [0], what="squaring"))
    assert isinstance(raised.value.__cause__, Odd)
    assert raised.value.facts == {"what": "squaring"}


def death_of_a_worker_is_told_without_stacks_of_java(spark: Any, root: Path) -> None:
    def die(number: int) -> None:
        os._exit(7)

    with pytest.raises(lw.LancewoodError, match=r"^dying failed on Spark: ") as raised:
        list(runner(spark).run(die, [0], what="dying"))
    assert "\tat " not in str(raised.value)
    assert "\n" not in str(raised.value)


def runs_at_once_in_one_session_do_not_meet(spark: Any, root: Path) -> None:
    found: dict[int, list[int]] = {}

    def added(start: int, number: int) -> int:
        return start + number

    def run(start: int) -> None:
        found[start] = list(runner(spark).run(partial(added, start), range(4), what="adding"))

    threads = [threading.Thread(target=run, args=(start,)) for start in (10, 20)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert found == {10: [10, 11, 12, 13], 20: [20, 21, 22, 23]}


def long_answers_arrive_whole(spark: Any, root: Path) -> None:
    def lengthen(number: int) -> bytes:
        return bytes([number]) * (3 << 20)

    found = list(runner(spark).run(lengthen, [1, 2], what="w"))
    assert found == [b"\x01" * (3 << 20), b"\x02" * (3 << 20)]


CHECKS: tuple[Callable[[Any, Path], None], ...] = (
    results_come_in_the_order_of_tasks_and_every_step_is_told,
    no_tasks_have_no_results,
    error_of_ours_arrives_as_itself_and_is_not_tried_again,
    error_of_a_task_ends_the_job_while_others_are_at_work,
    leaving_early_cancels_the_job,
    finished_results_of_a_failed_job_are_left_over,
    storage_error_is_tried_again_until_it_passes,
    storage_error_that_stays_arrives_as_itself,
    exception_of_somebody_else_is_told_without_stacks_of_java,
    death_of_a_worker_is_told_without_stacks_of_java,
    runs_at_once_in_one_session_do_not_meet,
    long_answers_arrive_whole,
)
