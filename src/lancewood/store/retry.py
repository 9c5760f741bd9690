"""Trying again what a store turned away: pauses that grow, with jitter, bounded in number and time.

Knows no store. Only for calls that may be carried out twice, or that were certainly not carried
out; the caller decides which those are.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator

from lancewood.store.options import RetryPolicy


def attempts(
    policy: RetryPolicy,
    *,
    sleep: Callable[[float], None] | None = None,
    clock: Callable[[], float] = time.monotonic,
    jitter: Callable[[], float] = random.random,
) -> Iterator[int]:
    """Count attempts from 0, pausing before each but the first; end when the policy does.

    A pause is between half and the whole of a span that doubles each time.
    """
    pause_for = sleep or time.sleep
    start = clock()
    yield 0
    for number in range(1, policy.retries + 1):
        span = min(policy.longest_pause, policy.first_pause * 2 ** (number - 1))
        pause = span * (0.5 + jitter() / 2)
        if clock() + pause - start > policy.seconds:
            return
        pause_for(pause)
        yield number
