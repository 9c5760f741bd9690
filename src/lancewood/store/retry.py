"""Retrying what a store turned away: pauses that grow, with jitter, bounded in number and time.

Only for calls that may be carried out twice, or that were certainly not carried out; the caller
decides which those are.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any, NamedTuple


class RetryPolicy(NamedTuple):
    """How often, and for how many seconds in all, a request that failed temporarily is retried."""

    retries: int = 10
    seconds: float = 180.0
    first_pause: float = 0.1
    longest_pause: float = 15.0

    def as_obstore(self) -> dict[str, Any]:
        return {
            "max_retries": self.retries,
            "retry_timeout": timedelta(seconds=self.seconds),
            "backoff": {
                "init_backoff": timedelta(seconds=self.first_pause),
                "max_backoff": timedelta(seconds=self.longest_pause),
                "base": 2,
            },
        }


def attempts(
    policy: RetryPolicy,
    *,
    sleep: Callable[[float], None] | None = None,
    clock: Callable[[], float] = time.monotonic,
    jitter: Callable[[], float] = random.random,
) -> Iterator[int]:
    """Count attempts from 0, pausing before each but the first; end when the policy does."""
    pause_for = sleep or time.sleep
    start = clock()
    yield 0
    for number in range(1, policy.retries + 1):
        pause = pause_before(number, policy.first_pause, policy.longest_pause, jitter)
        if clock() + pause - start > policy.seconds:
            return
        pause_for(pause)
        yield number


def pause_before(
    number: int, first: float, longest: float, jitter: Callable[[], float] = random.random
) -> float:
    """Seconds before the attempt of this number, from 1: between half and the whole of a span that
    doubles each time."""
    span: float = min(longest, first * 2 ** (number - 1))
    return span * (0.5 + jitter() / 2)
