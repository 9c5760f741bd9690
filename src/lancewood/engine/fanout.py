"""Several producers at once, their items in order, within a bounded memory.

Each producer runs in a thread of its own and may be ``depth`` items ahead of the consumer.
Closing the generator early stops them. Knows nothing of tables.
"""

from __future__ import annotations

import os
import queue
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeAlias, TypeVar

T = TypeVar("T")
Task: TypeAlias = Callable[[], Iterator[T]]

_END = object()
_POLL_SECONDS = 0.05
_KEPT_THREADS = 8


class _Failure:
    def __init__(self, cause: BaseException) -> None:
        self.cause = cause


def in_order(tasks: Sequence[Task[T]], *, workers: int, depth: int = 4) -> Iterator[T]:
    """All items of the first task, then all of the second, and so on.

    An error of a task is raised where its items would have come.
    """
    if len(tasks) <= 1 or workers <= 1:
        for task in tasks:
            yield from task()
        return
    stop = threading.Event()
    waiting = deque(tasks)
    running: deque[queue.Queue[Any]] = deque()
    pool = ThreadPoolExecutor(workers, thread_name_prefix="lancewood-scan")
    try:
        while waiting or running:
            while waiting and len(running) < workers:
                channel: queue.Queue[Any] = queue.Queue(depth)
                running.append(channel)
                pool.submit(_produce, waiting.popleft(), channel, stop)
            yield from _drain(running[0])
            running.popleft()
    finally:
        stop.set()
        pool.shutdown(wait=True, cancel_futures=True)


def run_all(tasks: Sequence[Callable[[], T]]) -> Iterator[T]:
    """What each task returns, in order; several run at once, in threads that are kept."""
    if len(tasks) <= 1:
        return iter([task() for task in tasks])
    return _pool().map(_call, tasks)


def _call(task: Callable[[], T]) -> T:
    return task()


_pools: dict[int, ThreadPoolExecutor] = {}
"""By process: the threads of a parent do not live on in a forked child."""


def _pool() -> ThreadPoolExecutor:
    pool = _pools.get(os.getpid())
    if pool is None:
        pool = ThreadPoolExecutor(_KEPT_THREADS, thread_name_prefix="lancewood-take")
        pool = _pools.setdefault(os.getpid(), pool)
    return pool


def _drain(channel: queue.Queue[Any]) -> Iterator[Any]:
    while True:
        item = channel.get()
        if item is _END:
            return
        if isinstance(item, _Failure):
            raise item.cause
        yield item


def _produce(task: Task[T], channel: queue.Queue[Any], stop: threading.Event) -> None:
    try:
        for item in task():
            if not _offer(channel, item, stop):
                return
        _offer(channel, _END, stop)
    except BaseException as cause:
        _offer(channel, _Failure(cause), stop)


def _offer(channel: queue.Queue[Any], item: object, stop: threading.Event) -> bool:
    while not stop.is_set():
        try:
            channel.put(item, timeout=_POLL_SECONDS)
        except queue.Full:
            continue
        return True
    return False
