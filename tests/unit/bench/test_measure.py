"""The clock of the benchmarks: turns, the dropped pass, and what is not counted."""

from __future__ import annotations

import time

import pytest
from bench.measure import interleave


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
