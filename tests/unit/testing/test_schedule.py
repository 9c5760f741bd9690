"""The stepper finds what luck would miss, and comes to an end."""

from __future__ import annotations

import threading
from itertools import pairwise
from math import comb

import pytest

from lancewood.store.base import PutOutcome, ReplaceOutcome, Store
from lancewood.store.memory import MemoryStore
from lancewood.testing import schedule
from lancewood.testing.faults import FaultyStore, Killed
from lancewood.testing.schedule import explore


def counter_at_zero() -> Store:
    store = MemoryStore()
    store.put("counter", b"0")
    return store


def racy_increment(store: Store) -> int:
    """Reads, then writes: correct only when alone."""
    value = int(store.get("counter")) + 1
    store.put("counter", b"%d" % value)
    return value


def swapped_increment(store: Store) -> int:
    while True:
        etag = store.head("counter").etag
        value = int(store.get("counter")) + 1
        if store.replace("counter", b"%d" % value, etag) is ReplaceOutcome.REPLACED:
            return value


def new_increment(store: Store) -> int:
    """A counter whose value is the number of objects; each is created once."""
    while True:
        value = len([*store.names("counts")]) + 1
        if store.put_new(f"counts/{value}", b"") is PutOutcome.CREATED:
            return value


def test_a_lost_update_is_found_in_every_order_that_loses_it() -> None:
    found = {each.schedule: each for each in explore(counter_at_zero, [racy_increment] * 2)}
    assert len(found) == comb(4, 2)
    lost = {way for way, each in found.items() if each.store.get("counter") == b"1"}
    assert lost == {(0, 1, 0, 1), (0, 1, 1, 0), (1, 0, 0, 1), (1, 0, 1, 0)}
    assert found[0, 0, 1, 1].results == [1, 2]
    assert found[1, 1, 0, 0].results == [2, 1]
    assert found[0, 1, 0, 1].calls == (
        (0, "get", "counter"),
        (1, "get", "counter"),
        (0, "put", "counter"),
        (1, "put", "counter"),
    )


def test_put_new_loses_no_update_in_any_order() -> None:
    for writers, orders in ((2, 6), (3, 498)):
        runs = 0
        for each in explore(MemoryStore, [new_increment] * writers):
            assert {*each.results} == {*range(1, writers + 1)}
            assert len([*each.store.names("counts")]) == writers
            runs += 1
        assert runs == orders


def test_replace_loses_no_update_in_any_order() -> None:
    schedules = set()
    for each in explore(counter_at_zero, [swapped_increment] * 2):
        assert each.store.get("counter") == b"2"
        schedules.add(each.schedule)
    assert len(schedules) == comb(6, 3)
    # Whoever goes second alone needs three calls; whoever lost a race goes round once more.
    assert {len(way) for way in schedules} == {6, 9}


def test_every_order_comes_once_and_the_same_ones_each_time() -> None:
    first = [each.schedule for each in explore(MemoryStore, [new_increment] * 2)]
    again = [each.schedule for each in explore(MemoryStore, [new_increment] * 2)]
    assert first == again
    assert len(set(first)) == len(first)


def test_a_limit_above_all_orders_gives_all_of_them() -> None:
    every = {each.schedule for each in explore(MemoryStore, [new_increment] * 2)}
    drawn = [each.schedule for each in explore(MemoryStore, [new_increment] * 2, 10_000, seed=3)]
    assert set(drawn) == every
    assert len(drawn) == len(every)


def test_a_limit_draws_orders_that_lie_apart_and_never_twice() -> None:
    def drawn(seed: int) -> list[tuple[int, ...]]:
        runs = explore(counter_at_zero, [swapped_increment] * 3, limit=60, seed=seed)
        return [each.schedule for each in runs]

    sample = drawn(7)
    assert len(set(sample)) == len(sample) == 60
    assert {way[0] for way in sample} == {0, 1, 2}
    assert {way[-1] for way in sample} == {0, 1, 2}
    switches = [sum(a != b for a, b in pairwise(way)) for way in sample]
    assert min(switches) <= 3
    assert max(switches) >= 6
    assert drawn(7) == sample
    assert drawn(8) != sample


def test_writers_may_differ_in_length_and_may_do_nothing() -> None:
    def short(store: Store) -> str:
        store.put("s", b"")
        return "short"

    def idle(store: Store) -> str:
        return "idle"

    outcomes = [*explore(counter_at_zero, [racy_increment, short, idle])]
    assert {each.schedule for each in outcomes} == {(0, 0, 1), (0, 1, 0), (1, 0, 0)}
    assert all(each.results == [1, "short", "idle"] for each in outcomes)
    assert [each.schedule for each in explore(MemoryStore, [idle])] == [()]
    assert [each.schedule for each in explore(MemoryStore, [])] == [()]


def test_what_a_writer_raises_is_its_result() -> None:
    def failing(store: Store) -> None:
        store.put("a", b"")
        raise ZeroDivisionError

    def dying(store: Store) -> None:
        FaultyStore(store, at=1, mode="kill-after").put("b", b"")

    for each in explore(MemoryStore, [failing, dying]):
        assert [type(result) for result in each.results] == [ZeroDivisionError, Killed]
        assert [*each.store.names("")] == ["a", "b"]


def test_a_turn_lets_everyone_in_and_deeper_stores_step_too() -> None:
    def queued(store: Store) -> None:
        with store.turn(""):
            racy_increment(store.at("deep"))

    def make() -> Store:
        store = MemoryStore()
        store.put("deep/counter", b"0")
        return store

    outcomes = [*explore(make, [queued] * 2)]
    assert len(outcomes) == comb(4, 2)
    assert {each.store.get("deep/counter") for each in outcomes} == {b"1", b"2"}
    assert outcomes[0].calls[0] == (0, "get", "deep/counter")


def test_a_listing_is_one_step() -> None:
    def lister(store: Store) -> list[str]:
        return [*store.names("")]

    def putter(store: Store) -> None:
        store.put("a", b"")

    outcomes = {each.schedule: each.results[0] for each in explore(MemoryStore, [lister, putter])}
    assert outcomes == {(0, 1): [], (1, 0): ["a"]}


def test_a_writer_that_changes_its_mind_is_found_out() -> None:
    runs: list[int] = []

    def moody(store: Store) -> None:
        runs.append(1)
        for number in range(1 + len(runs) % 2):
            store.put(f"{number}", b"")

    def steady(store: Store) -> None:
        store.put("x", b"")
        store.put("y", b"")

    with pytest.raises(RuntimeError, match="must do the same"):
        for _ in explore(MemoryStore, [moody, steady]):
            pass


def test_a_writer_that_hangs_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedule, "PATIENCE", 0.05)
    free = threading.Event()

    def hanging(store: Store) -> None:
        store.put("a", b"")
        free.wait(10)

    try:
        with pytest.raises(RuntimeError, match="writer 0 made no store call"):
            next(explore(MemoryStore, [hanging]))
    finally:
        free.set()


def test_a_writers_own_threads_step_one_after_the_other() -> None:
    def parallel(store: Store) -> None:
        threads = [threading.Thread(target=store.put, args=(f"{n}", b"")) for n in range(3)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()

    for each in explore(MemoryStore, [parallel, lambda store: store.put("x", b"")]):
        assert [*each.store.names("")] == ["0", "1", "2", "x"]
