"""How often something is attempted, and how long the pauses in between are, for all rooms.

A policy does not say what may be attempted again: that is for the caller to know. A call whose
answer was lost may have been carried out.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any


@dataclass(frozen=True, slots=True)
class Retry:
    """A number of attempts, with pauses that grow at random up to a limit.

    Iterating over a policy counts attempts from 0, and pauses before each but the first.
    """

    attempts: int = 10
    first_pause: float = 0.0
    """The first pause in seconds, like all durations here."""
    longest_pause: float = 0.0
    growth: float = 2.0
    """Each pause is drawn from a span this many times as long as the one before."""
    least: float = 0.5
    """The smallest part of a span that is drawn; 0 spreads competitors the most."""
    seconds: float | None = None
    """No attempt begins later than this after the first."""
    sleep: Callable[[float], None] | None = None
    clock: Callable[[], float] = time.monotonic
    jitter: Callable[[], float] = random.random

    def __iter__(self) -> Iterator[int]:
        start = self.clock()
        yield 0
        for number in range(1, self.attempts):
            pause = self.pause_before(number)
            if self.seconds is not None and self.clock() + pause - start > self.seconds:
                return
            self._sleep(pause)
            yield number

    @property
    def last(self) -> int:
        """The number of the last attempt."""
        return self.attempts - 1

    def pause(self, number: int) -> None:
        """Sleep as long as before the attempt of this number."""
        self._sleep(self.pause_before(number))

    def pause_before(self, number: int) -> float:
        """How long to sleep before the attempt of this number, from 1."""
        if not self.first_pause:
            return 0.0
        span: float = self.longest_pause
        if number < 64:  # a power beyond that is longer than any pause, and may overflow
            span = min(span, self.first_pause * self.growth ** (number - 1))
        return span * (self.least + self.jitter() * (1 - self.least))

    def as_obstore(self) -> dict[str, Any]:
        """This policy as options of obstore, which sends requests again by itself."""
        return {
            "max_retries": self.attempts - 1,
            "retry_timeout": timedelta(seconds=self.seconds or 0),
            "backoff": {
                "init_backoff": timedelta(seconds=self.first_pause),
                "max_backoff": timedelta(seconds=self.longest_pause),
                "base": self.growth,
            },
        }

    def _sleep(self, seconds: float) -> None:
        if seconds:
            (self.sleep or time.sleep)(seconds)


REQUESTS = Retry(attempts=11, first_pause=0.1, longest_pause=15.0, seconds=180.0)
"""A request that a store turned away, and that may pass later; options of a store change it."""
UNCLEAR_PUTS = Retry(attempts=6, first_pause=0.02, longest_pause=1.0)
"""A put without a clear answer: what is there is read back before the next attempt."""
LOST_RACES = Retry(attempts=10)
"""A small object that another writer replaced first: it is read and judged again at once."""
COMMITS = Retry(attempts=64, first_pause=0.002, longest_pause=0.25, growth=1.6, least=0.0)
"""The next version of a table, which another writer took."""
SWAPS = Retry(attempts=256, first_pause=0.001, longest_pause=0.1, growth=1.5, least=0.0)
"""The next commit on a branch of a repository, which another writer took."""
JOBS = Retry(attempts=10, first_pause=0.02, longest_pause=2.0)
"""A whole change, prepared again because another one conflicts with it."""
BRANCH_WORK = Retry(attempts=20)
"""Work on a branch of a repository that moved meanwhile: planned again for its new commit."""
BUCKET_RACES = Retry(attempts=10, first_pause=0.02, longest_pause=1.0)
"""A file of a repository in a bucket that many may replace, such as its packed refs."""
REF_RACES = Retry(attempts=40)
"""A ref in a bucket, whose move has several steps; ``UNCLEAR_PUTS`` has its pauses."""
CROWDED_FOLDERS = Retry(attempts=100)
"""A folder that others make and remove meanwhile."""
