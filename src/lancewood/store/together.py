"""Running several short tasks at once: syncing files on a disk, or any request to a remote store.

A disk that gets eight flushes at a time does them as one.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from typing import TypeVar

from lancewood.store.base import Store

A = TypeVar("A")
B = TypeVar("B")
_THREADS = 8


def together(works: list[Callable[[], None]]) -> None:
    """Run all of them, concurrently as far as possible; raise the first failure when all are done,
    and an interrupt before any other."""
    if not works:
        return
    batch = _Batch(works)
    if len(works) > 1:
        _crew().call(batch, len(works) - 1)
    batch.work()
    batch.wait()
    if batch.failures:
        raise min(batch.failures, key=lambda each: isinstance(each, Exception))


def both(store: Store, one: Callable[[], A], other: Callable[[], B]) -> tuple[A, B]:
    """The results of two calls, made at once where the store is far, else in this order."""
    if not store.is_far:
        return one(), other()
    ones: list[A] = []
    others: list[B] = []
    together([lambda: ones.append(one()), lambda: others.append(other())])
    return ones[0], others[0]


class _Batch:
    """Tasks that any idle thread takes one by one. A pool of the standard library does the same,
    but takes longer to hand over a task than a fast disk takes to do it."""

    def __init__(self, works: list[Callable[[], None]]) -> None:
        self.failures: list[BaseException] = []
        self._left = deque(works)
        self._others = [None] * (len(works) - 1)
        """One for each work that is not done, but the last."""
        self._is_running = threading.Lock()
        self._is_running.acquire()

    def work(self) -> None:
        """Run what nobody has begun."""
        while True:
            try:
                work = self._left.popleft()
            except IndexError:
                return
            try:
                work()
            except BaseException as error:
                self.failures.append(error)
            try:
                self._others.pop()
            except IndexError:  # none is left
                self._is_running.release()

    def wait(self) -> None:
        """Return when all tasks are done, including those that others began."""
        while True:
            try:
                self._is_running.acquire()
                return
            except BaseException as error:  # an interrupt does not end what others are doing
                self.failures.append(error)


class _Crew:
    """Threads that wait for batches. Nothing depends on them: the caller runs what they do not
    take."""

    def __init__(self) -> None:
        self._calls: SimpleQueue[_Batch] = SimpleQueue()
        self._lock = threading.Lock()
        self._size = 0
        self._called = 0
        """Number of threads that are called and not done yet."""

    def call(self, batch: _Batch, wanted: int) -> None:
        """Have this many threads help."""
        wanted = min(wanted, _THREADS)
        with self._lock:
            self._called += wanted
            self._grow(min(self._called, _THREADS))
        for _ in range(wanted):
            self._calls.put(batch)

    def _grow(self, wanted: int) -> None:
        while self._size < wanted:
            try:
                threading.Thread(target=self._help, name="lancewood-sync", daemon=True).start()
            except RuntimeError:  # the interpreter is ending, or there are too many threads
                return
            self._size += 1

    def _help(self) -> None:
        while True:
            self._calls.get().work()
            with self._lock:
                self._called -= 1


_crews: dict[int, _Crew] = {}


def _crew() -> _Crew:
    """The crew of this process: threads do not survive a fork."""
    crew = _crews.get(os.getpid())
    return _crews.setdefault(os.getpid(), _Crew()) if crew is None else crew
