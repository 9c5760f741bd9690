"""Attempts with pauses that grow, with jitter, and an end."""

from __future__ import annotations

from lancewood.store import retry
from lancewood.store.retry import Retry


class Time:
    def __init__(self) -> None:
        self.now = 0.0
        self.pauses: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.pauses.append(seconds)

    def clock(self) -> float:
        return self.now


def policy(time: Time, jitter: float, **numbers: float) -> Retry:
    given = {"first_pause": 1, "longest_pause": 4, **numbers}
    return Retry(sleep=time.sleep, clock=time.clock, jitter=lambda: jitter, **given)  # type: ignore[arg-type]


def test_attempts_are_bounded_in_number_and_their_pauses_double() -> None:
    time = Time()
    assert [*policy(time, 1.0, attempts=6, seconds=100)] == [0, 1, 2, 3, 4, 5]
    assert time.pauses == [1, 2, 4, 4, 4]


def test_attempts_are_bounded_in_time() -> None:
    time = Time()
    assert [*policy(time, 1.0, attempts=51, seconds=10)] == [0, 1, 2, 3]
    assert time.now <= 10


def test_jitter_takes_up_to_half_of_a_pause_away_or_what_is_said() -> None:
    time = Time()
    assert [*policy(time, 0.0, attempts=3)] == [0, 1, 2]
    assert time.pauses == [0.5, 1.0]
    assert policy(time, 0.0, attempts=3, least=0.0).pause_before(2) == 0
    assert policy(time, 1.0, attempts=3, growth=1.5).pause_before(2) == 1.5


def test_without_a_pause_nobody_sleeps() -> None:
    time = Time()
    assert [*Retry(attempts=3, sleep=time.sleep)] == [0, 1, 2]
    assert time.pauses == []


def test_a_long_row_of_attempts_does_not_overflow() -> None:
    assert policy(Time(), 1.0, attempts=10**6).pause_before(10**6 - 1) == 4


def test_one_attempt_is_the_last() -> None:
    assert [*Retry(attempts=1)] == [0]
    assert Retry(attempts=1).last == 0


def test_every_policy_ends() -> None:
    known = [each for each in vars(retry).values() if isinstance(each, Retry)]
    assert len(known) > 5
    assert all(1 < each.attempts < 1000 for each in known)
    assert all(each.first_pause <= each.longest_pause for each in known)
