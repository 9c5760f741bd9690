"""Many small requests at once: a bucket takes as long for thirty as for one.

Knows works without arguments. Does not know what they ask for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")

_AT_ONCE = 32


def at_once(works: Sequence[Callable[[], T]]) -> list[T]:
    """What each of them returns, in order; the first failure is raised when all are done."""
    if len(works) < 2:
        return [work() for work in works]
    with ThreadPoolExecutor(min(_AT_ONCE, len(works)), "lancewood-bucket") as pool:
        futures = [pool.submit(work) for work in works]
    return [each.result() for each in futures]
