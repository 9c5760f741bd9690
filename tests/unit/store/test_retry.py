"""Pauses that grow, with jitter, and an end."""

from __future__ import annotations

from lancewood.store.retry import RetryPolicy, attempts


class Time:
    def __init__(self) -> None:
        self.now = 0.0
        self.pauses: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.pauses.append(seconds)

    def clock(self) -> float:
        return self.now


def test_attempts_are_bounded_in_number_and_their_pauses_double() -> None:
    time = Time()
    policy = RetryPolicy(retries=5, seconds=100, first_pause=1, longest_pause=4)
    made = list(attempts(policy, sleep=time.sleep, clock=time.clock, jitter=lambda: 1.0))
    assert made == [0, 1, 2, 3, 4, 5]
    assert time.pauses == [1, 2, 4, 4, 4]


def test_attempts_are_bounded_in_time() -> None:
    time = Time()
    policy = RetryPolicy(retries=50, seconds=10, first_pause=1, longest_pause=4)
    made = list(attempts(policy, sleep=time.sleep, clock=time.clock, jitter=lambda: 1.0))
    assert made == [0, 1, 2, 3]
    assert time.now <= 10


def test_jitter_takes_up_to_half_of_a_pause_away() -> None:
    time = Time()
    policy = RetryPolicy(retries=2, seconds=10, first_pause=1, longest_pause=4)
    list(attempts(policy, sleep=time.sleep, clock=time.clock, jitter=lambda: 0.0))
    assert time.pauses == [0.5, 1.0]


def test_without_retries_there_is_one_attempt() -> None:
    assert list(attempts(RetryPolicy(retries=0))) == [0]
