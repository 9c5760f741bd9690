"""Two or three writers, stepped at every store call: every order of a small case, not luck.

Writers must be deterministic, and not sleep in real time (pass them a sleep function that returns
at once).
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TypeVar

from lancewood.store.base import Store, check_directory
from lancewood.testing.faults import WatchedStore

T = TypeVar("T")
Writer = Callable[[Store], object]
PATIENCE = 60.0
"""Seconds that a writer may compute between two store calls before the run is aborted."""


@dataclass(frozen=True, slots=True)
class ScheduleOutcome:
    """One run: the order of calls, and what they led to.

    ``results`` holds, by writer, what it returned or the exception that it raised. ``calls`` lists
    each step as (writer, verb, key).
    """

    schedule: tuple[int, ...]
    store: Store
    results: list[object]
    calls: tuple[tuple[int, str, str], ...]


def explore(
    make_store: Callable[[], Store],
    writers: Sequence[Writer],
    limit: int | None = None,
    *,
    seed: int = 0,
    verbs: Collection[str] | None = None,
) -> Iterator[ScheduleOutcome]:
    """Run the writers in every order of their store calls, each order once, on a fresh store.

    With a ``limit`` the orders are drawn at random from a seeded generator, never the same twice,
    so that few runs still cover very different orders; if there are no more than ``limit`` orders,
    all of them are run. With ``verbs`` only those calls are steps; the others must commute with
    everything that another writer does (reads of objects that nobody changes, writes under a unique
    name), and then no outcome is missed. Raises ``RuntimeError`` if a writer hangs, or is not
    deterministic.
    """
    draw = None if limit is None else random.Random(seed)
    root = _Fork()
    runs = 0
    while not root.is_exhausted and (limit is None or runs < limit):
        yield _Run(make_store(), writers, verbs).play(root, draw)
        runs += 1


@dataclass(slots=True)
class _Fork:
    """A point at which several writers wait. ``open`` are the choices not fully explored; the
    others are forgotten."""

    waiting: tuple[int, ...] | None = None
    open: list[int] = field(default_factory=list)
    after: dict[int, _Fork] = field(default_factory=dict)

    @property
    def is_exhausted(self) -> bool:
        return self.waiting is not None and not self.open

    def arrive(self, waiting: tuple[int, ...]) -> None:
        if self.waiting is None:
            self.waiting, self.open = waiting, [*waiting]
        elif self.waiting != waiting:
            raise RuntimeError(
                f"after the same steps writers {self.waiting} waited before and {waiting} now: "
                "a writer must do the same when it sees the same"
            )

    def close(self, choice: int) -> None:
        self.open.remove(choice)
        self.after.pop(choice, None)


class _Baton:
    """One writer's turn: it moves only while it holds the baton."""

    def __init__(self, number: int, writer: Writer, run: _Run) -> None:
        self.number = number
        self.result: object = None
        self.is_done = False
        self._run = run
        self._go = threading.Semaphore(0)
        self._back = threading.Semaphore(0)
        self._one_call = threading.Lock()
        store = SteppingStore(run.store, self)
        self._thread = threading.Thread(target=self._live, args=(writer, store), daemon=True)

    def start(self) -> None:
        self._thread.start()
        self.move()

    def move(self) -> None:
        """Let the writer make its call and go on to the next one, or to its end."""
        self._go.release()
        if not self._back.acquire(timeout=PATIENCE):
            raise RuntimeError(
                f"writer {self.number} made no store call for {PATIENCE:g} s "
                f"after {self._run.calls}: it waits for something that no other writer gives"
            )
        if self.is_done:
            self._thread.join()

    def step(self, verb: str, key: str, action: Callable[[], T]) -> T:
        """Wait for the baton, then act. A writer's own threads get here one after the other."""
        if self._run.verbs is not None and verb not in self._run.verbs:
            return action()
        with self._one_call:
            self._back.release()
            self._go.acquire()
            self._run.calls.append((self.number, verb, key))
            return action()

    def _live(self, writer: Writer, store: Store) -> None:
        self._go.acquire()
        try:
            self.result = writer(store)
        except BaseException as error:
            self.result = error
        self.is_done = True
        self._back.release()


class SteppingStore(WatchedStore):
    """A store that waits for the baton before each call. ``turn`` lets everyone in at once, to
    expose code that is correct only thanks to the queue."""

    def __init__(self, inner: Store, baton: _Baton) -> None:
        super().__init__(inner)
        self._baton = baton

    def _call(self, verb: str, key: str, action: Callable[[], T]) -> T:
        return self._baton.step(verb, key, action)

    def turn(self, directory: str) -> AbstractContextManager[None]:
        check_directory(directory)
        return nullcontext()


class _Run:
    """All writers from start to end, in one order."""

    def __init__(
        self, store: Store, writers: Sequence[Writer], verbs: Collection[str] | None
    ) -> None:
        self.store = store
        self.verbs = verbs
        self.calls: list[tuple[int, str, str]] = []
        self._batons = [_Baton(number, writer, self) for number, writer in enumerate(writers)]

    def play(self, root: _Fork, draw: random.Random | None) -> ScheduleOutcome:
        """Run once in an order not tried before, and mark it as explored."""
        for baton in self._batons:
            baton.start()
        way: list[tuple[_Fork, int]] = []
        fork = root
        stay = draw.random() if draw else 0.0
        while waiting := tuple(each.number for each in self._batons if not each.is_done):
            fork.arrive(waiting)
            choice = self._choose(fork, way, draw, stay)
            way.append((fork, choice))
            self._batons[choice].move()
            fork = fork.after.setdefault(choice, _Fork())
        fork.arrive(())
        for passed, choice in reversed(way):
            passed.close(choice)
            if passed.open:
                break
        return ScheduleOutcome(
            tuple(choice for _, choice in way),
            self.store,
            [each.result for each in self._batons],
            tuple(self.calls),
        )

    @staticmethod
    def _choose(
        fork: _Fork, way: list[tuple[_Fork, int]], draw: random.Random | None, stay: float
    ) -> int:
        if draw is None:
            return fork.open[0]
        # Each run has its own bias towards staying with the same writer: some switch once or twice,
        # as most lost updates need, others at nearly every call.
        if way and way[-1][1] in fork.open and draw.random() < stay:
            return way[-1][1]
        return draw.choice(fork.open)
