"""Producers in threads, their items in order."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from functools import partial

import pytest

from lancewood.engine.base import fanout
from lancewood.engine.base.fanout import Task, in_order


@pytest.fixture(params=["here", "threads"])
def location(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Whether the work is done right here or in threads."""
    monkeypatch.setattr(fanout, "_QUICK_SECONDS", 60.0 if request.param == "here" else 0.0)
    return str(request.param)


def count(first: int, items: int) -> Iterator[int]:
    return iter(range(first, first + items))


def running() -> int:
    return sum(1 for each in threading.enumerate() if each.name == "lancewood-scan")


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_items_come_in_the_order_of_the_tasks(location: str, workers: int) -> None:
    tasks = [partial(count, 100 * number, number % 7) for number in range(40)]
    expected = [item for task in tasks for item in task()]
    assert list(in_order(tasks, workers=workers)) == expected
    assert list(in_order(iter(tasks), workers=workers, depth=1)) == expected
    assert list(in_order([], workers=workers)) == []
    assert running() == 0


def test_tasks_that_are_slow_to_begin_go_to_threads() -> None:
    seen: list[str] = []

    def slow(number: int) -> Iterator[int]:
        seen.append(threading.current_thread().name)
        time.sleep(2 * fanout._QUICK_SECONDS)
        return iter([number])

    tasks = [partial(slow, number) for number in range(5)]
    assert list(in_order(tasks, workers=2)) == [*range(5)]
    assert seen[0] == threading.main_thread().name
    assert set(seen[1:]) == {"lancewood-scan"}


def test_an_error_is_raised_where_its_items_would_have_come(location: str) -> None:
    def broken() -> Iterator[int]:
        yield 7
        raise LookupError("in the middle")

    def unbegun() -> Iterator[int]:
        raise LookupError("at the start")

    for bad, seen in ((broken, [0, 1, 2, 7]), (unbegun, [0, 1, 2])):
        tasks: list[Task[int]] = [partial(count, 0, 3), bad, partial(count, 9, 3)]
        found: list[int] = []
        with pytest.raises(LookupError):
            found.extend(in_order(tasks, workers=3))
        assert found == seen
    assert running() == 0


def test_an_error_of_the_list_of_tasks_itself_is_raised(location: str) -> None:
    def tasks() -> Iterator[partial[Iterator[int]]]:
        yield partial(count, 0, 2)
        raise LookupError("no more tasks")

    with pytest.raises(LookupError, match="no more tasks"):
        list(in_order(tasks(), workers=2))
    assert running() == 0


def test_producers_wait_for_the_consumer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fanout, "_QUICK_SECONDS", 0.0)
    made = []

    def noted(number: int) -> Iterator[int]:
        for item in range(100):
            made.append((number, item))
            yield item

    items = in_order([partial(noted, number) for number in range(50)], workers=2, depth=2)
    next(items)
    next(items)
    del items
    assert len({number for number, _ in made}) <= 4
    assert len(made) <= 20


def test_an_iterator_that_is_left_stops_its_threads_and_frees_its_tasks(location: str) -> None:
    class Held:
        pass

    kept = [Held() for _ in range(6)]
    known = [weakref.ref(each) for each in kept]

    def holding(held: Held) -> Iterator[Held]:
        while True:
            yield held

    gc.disable()
    try:
        items = in_order([partial(holding, each) for each in kept], workers=3)
        next(items)
        next(items)
        assert running() == (0 if location == "here" else 3)
        kept.clear()
        del items
        assert running() == 0
        assert [each() for each in known] == [None] * 6
    finally:
        gc.enable()


def test_tasks_that_are_done_in_no_time_need_no_thread() -> None:
    seen = [running() for _ in in_order([partial(count, 0, 2)] * 10, workers=4)]
    assert set(seen) == {0}


PROGRAM = """
import sys, threading
from lancewood.engine.base import fanout

fanout._QUICK_SECONDS = 0.0

def endless():
    while True:
        yield 1

def few():
    yield from range(1000)

{body}
"""


@pytest.mark.parametrize(
    "body",
    [
        "held = fanout.in_order([endless] * 8, workers=2)\nnext(held), next(held)\nprint('done')",
        "def drain():\n"
        "    threading.main_thread().join()\n"
        "    assert sum(1 for _ in fanout.in_order([few] * 8, workers=2)) == 8000\n"
        "    print('done')\n"
        "threading.Thread(target=drain).start()",
        "try:\n"
        "    for number, _ in enumerate(fanout.in_order([endless] * 8, workers=2)):\n"
        "        if number == 50:\n"
        "            raise KeyboardInterrupt\n"
        "except KeyboardInterrupt:\n"
        "    print('done')",
    ],
    ids=["an iterator held to the end", "a thread that outlives the main one", "an interrupt"],
)
def test_a_process_ends_whatever_its_scans_do(body: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(body=body)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "done", "")


@pytest.mark.parametrize(("quick_ones", "is_forgiven"), [(0, False), (3, False), (20, True)])
def test_a_hiccup_after_many_quick_tasks_brings_no_threads(
    monkeypatch: pytest.MonkeyPatch, quick_ones: int, is_forgiven: bool
) -> None:
    now = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    threads: list[str] = []

    def task(seconds: float) -> Iterator[int]:
        now[0] += seconds
        threads.append(threading.current_thread().name)
        yield 1

    durations = [*[0.001] * quick_ones, 0.02, *[0.001] * 20]
    assert sum(in_order([partial(task, each) for each in durations], workers=2)) == len(durations)
    assert ("lancewood-scan" not in threads) == is_forgiven


def test_tasks_that_stay_slow_get_threads_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    threads: list[str] = []

    def task(seconds: float) -> Iterator[int]:
        now[0] += seconds
        threads.append(threading.current_thread().name)
        yield 1

    durations = [*[0.001] * 20, *[0.02] * 10]
    assert sum(in_order([partial(task, each) for each in durations], workers=2)) == len(durations)
    assert threads[-1] == "lancewood-scan"
