"""Doing several short works at once: above all asking the disk to make files durable.

A disk that is asked for eight flushes at a time does them as one. Knows nothing of files.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

_THREADS = 8
_pools: dict[int, ThreadPoolExecutor] = {}


def together(works: list[Callable[[], None]]) -> None:
    """Do all of it, at once as far as possible; raise the first failure when all are done."""
    if not works:
        return
    started: list[Future[None]] = []
    own = works[:1]
    for work in works[1:]:
        try:
            started.append(_pool().submit(work))
        except RuntimeError:  # the interpreter is ending and starts no threads any more
            own.append(work)
    failures: list[BaseException] = []
    for wait in [*own, *(each.result for each in started)]:
        try:
            wait()
        except BaseException as error:
            failures.append(error)
    if failures:
        raise failures[0]


def _pool() -> ThreadPoolExecutor:
    """One for each process: threads do not survive a fork."""
    pool = _pools.get(os.getpid())
    if pool is None:
        pool = ThreadPoolExecutor(_THREADS, "lancewood-sync")
        pool = _pools.setdefault(os.getpid(), pool)
    return pool
