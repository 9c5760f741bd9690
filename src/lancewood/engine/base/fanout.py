"""Several producers at once, their items in order, within bounded memory.

Producers run in threads of the call and may be ``depth`` items ahead of the consumer. Leaving or
closing the generator stops them, and so does the end of the process.
"""

from __future__ import annotations

import atexit
import os
import queue
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar, cast

T = TypeVar("T")
Task: TypeAlias = Callable[[], Iterator[T]]

WORKERS = min(8, max(2, os.cpu_count() or 2))
"""Threads for work that the codec and Arrow do without holding the GIL."""

_END = object()
_QUICK_SECONDS = 0.005
_HICCUP_SECONDS = 0.05
_PROVEN = 8
_BEGUN = 2
_LEAVE_SECONDS = 10.0


class _Begun(NamedTuple, Generic[T]):
    """The items of a task, and the seconds that it took to begin it."""

    items: Iterator[T]
    seconds: float


class _Failure:
    def __init__(self, cause: BaseException) -> None:
        self.cause = cause


def in_order(tasks: Iterable[Task[T]], *, workers: int, depth: int = 2) -> Iterator[T]:
    """All items of the first task, then all of the second, and so on.

    Calling a task begins its work, iterating does it. Tasks are requested when there is room for
    them. While they are fast, they are iterated in the calling thread, with the next ones already
    begun: passing items between threads would cost more. One slow task after many fast ones is
    tolerated, since on a busy machine it was probably waiting for its turn. An error of a task is
    raised where its items would have come.
    """
    waiting = iter(tasks)
    crew: _Crew[T] = _Crew(workers, depth)
    begun: deque[_Begun[T]] = deque()
    is_quick, proven = False, 0
    try:
        while True:
            room = 1 + (_BEGUN if is_quick else 0) - len(begun)
            begun.extend(_begin(task) for task in islice(waiting, room))
            if not begun:
                break
            items, spent = begun.popleft()
            limit = _QUICK_SECONDS if proven < _PROVEN else _HICCUP_SECONDS
            while True:
                start = time.perf_counter()
                item = next(items, _END)
                spent += time.perf_counter() - start
                is_quick = spent < limit or workers <= 1
                if item is _END:
                    break
                yield cast(T, item)
                if not is_quick:
                    crew.fill(waiting, begun)
            proven = proven + 1 if spent < _QUICK_SECONDS else 0
            if not is_quick:
                break
        crew.fill(waiting, begun)
        while crew.is_busy:
            yield from crew.oldest()
            crew.fill(waiting, begun)
    finally:
        crew.dismiss()


def _begin(task: Task[T]) -> _Begun[T]:
    start = time.perf_counter()
    try:
        items = task()
    except Exception as cause:
        items = _raising(cause)
    return _Begun(items, time.perf_counter() - start)


def _raising(cause: Exception) -> Iterator[Any]:
    raise cause
    yield


class _Channel:
    """A bounded queue that either end can close."""

    def __init__(self, depth: int) -> None:
        self._depth = depth
        self._items: deque[Any] = deque()
        self.is_closed = False
        self._changed = threading.Condition(threading.Lock())

    def put(self, item: object) -> bool:
        """Wait for room; returns whether there was still a consumer."""
        with self._changed:
            while len(self._items) >= self._depth and not self.is_closed:
                self._changed.wait()
            if not self.is_closed:
                self._items.append(item)
                self._changed.notify()
            return not self.is_closed

    def get(self) -> Any:
        with self._changed:
            while not self._items:
                self._changed.wait()
            self._changed.notify()
            return self._items.popleft()

    def close(self) -> None:
        with self._changed:
            self.is_closed = True
            self._items.clear()
            self._changed.notify_all()


def _itself(items: Iterator[T]) -> Iterator[T]:
    return items


class _Crew(Generic[T]):
    """Threads that work for one consumer."""

    def __init__(self, workers: int, depth: int) -> None:
        self._workers, self._depth = workers, depth
        self._jobs: queue.SimpleQueue[tuple[Task[T], _Channel] | None] = queue.SimpleQueue()
        self._running: deque[_Channel] = deque()
        self._threads: list[threading.Thread] = []
        self._process = os.getpid()

    @property
    def is_busy(self) -> bool:
        return bool(self._running)

    def fill(self, waiting: Iterator[Task[T]], begun: deque[_Begun[T]]) -> None:
        """Take over what was begun, and begin as many tasks as there is room for."""
        while begun:
            self._begin(partial(_itself, begun.popleft().items))
        while len(self._running) < 2 * self._workers and (task := next(waiting, None)) is not None:
            self._begin(task)

    def _begin(self, task: Task[T]) -> None:
        channel = _Channel(self._depth)
        self._running.append(channel)
        self._jobs.put((task, channel))
        if len(self._threads) < self._workers:
            # A daemon: an abandoned iterator must not keep the process alive.
            thread = threading.Thread(
                target=_work, args=(self._jobs,), name="lancewood-scan", daemon=True
            )
            self._threads.append(thread)
            _crews.add(self)
            thread.start()

    def oldest(self) -> Iterator[T]:
        """The items of the earliest unfinished task."""
        channel = self._running[0]
        while (item := channel.get()) is not _END:
            if isinstance(item, _Failure):
                raise item.cause
            yield item
        self._running.popleft()

    def dismiss(self) -> None:
        """Stop all threads and wait for them: a read of the codec cannot be interrupted."""
        if self._process != os.getpid():
            return  # the threads stayed in the parent
        for channel in self._running:
            channel.close()
        for _ in self._threads:
            self._jobs.put(None)
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(_LEAVE_SECONDS)
        _crews.discard(self)


_crews: weakref.WeakSet[_Crew[Any]] = weakref.WeakSet()


@atexit.register
def _dismiss_all() -> None:
    """Stop iterators that are still alive at exit: their threads must not run in a dying
    interpreter."""
    for each in list(_crews):
        each.dismiss()


def _work(jobs: queue.SimpleQueue[tuple[Task[Any], _Channel] | None]) -> None:
    while (job := jobs.get()) is not None:
        _produce(*job)
        del job


def _produce(task: Task[Any], channel: _Channel) -> None:
    try:
        if channel.is_closed:
            return
        for item in task():
            if not channel.put(item):
                return
            del item
        channel.put(_END)
    except BaseException as cause:
        channel.put(_Failure(cause))
