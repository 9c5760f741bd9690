"""The clock of the benchmarks: turns, the dropped pass, and what is not counted."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest
from bench.measure import CpuClock, interleave, interleave_by


def test_contenders_take_turns_and_every_other_pass_goes_backwards() -> None:
    calls: list[str] = []
    interleave({"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}, passes=2)
    assert calls == ["b", "a", "a", "b", "b", "a"]


def test_what_is_done_before_is_done_each_time_and_not_counted() -> None:
    calls: list[str] = []

    def prepare() -> None:
        calls.append("before")
        time.sleep(0.05)

    found = interleave({"a": lambda: calls.append("a")}, passes=2, before={"a": prepare})
    assert calls == ["before", "a"] * 3
    assert min(found["a"]) < 50


def test_first_pass_is_run_but_not_counted() -> None:
    pauses = iter([0.05, 0.0, 0.0, 0.0])
    found = interleave({"a": lambda: time.sleep(next(pauses))}, passes=3)
    assert len(found["a"]) == 3
    assert min(found["a"]) < 50


def test_samples_are_milliseconds() -> None:
    found = interleave({"a": lambda: time.sleep(0.02)}, passes=1)
    assert 20 <= found["a"][0] < 2_000


def test_letting_go_of_a_result_is_not_counted() -> None:
    class SlowToLeave:
        def __del__(self) -> None:
            time.sleep(0.05)

    assert min(interleave({"a": SlowToLeave}, passes=3)["a"]) < 50


def test_without_a_counted_pass_there_is_nothing_to_measure() -> None:
    with pytest.raises(ValueError, match="at least one pass"):
        interleave({"a": lambda: None}, passes=0)


def test_several_clocks_are_read_around_the_same_work() -> None:
    read: list[str] = []

    def clock(name: str) -> float:
        read.append(name)
        return float(len(read))

    found = interleave_by(
        {"a": lambda: read.append("work")},
        1,
        (lambda: clock("outer"), lambda: clock("inner")),
        times=2,
    )
    assert read[-6:] == ["outer", "inner", "work", "work", "inner", "outer"]
    assert [each["a"] for each in found] == [(2.5,), (1.5,)]


def test_cpu_clock_counts_processes_that_were_started_and_have_ended() -> None:
    busy = "import time\nwhile time.process_time() < 0.3: pass"
    clock = CpuClock()
    start = clock()
    running = subprocess.Popen(
        [sys.executable, "-c", f"{busy}\nprint(flush=True)\ninput()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert running.stdout is not None
    running.stdout.readline()
    while_it_runs = clock()
    running.communicate(b"\n")
    assert 250 <= while_it_runs - start <= clock() - start < 60_000
