"""The part of the store contract that is about many at once: one of them wins, nobody sees half."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from lancewood.store.base import PutOutcome, ReplaceOutcome, Store


def race_put_new(store: Store, key: str, data: bytes) -> PutOutcome:
    """One process of a race; here, so that a spawned interpreter can import it."""
    return store.put_new(key, data)


class RacesContract:
    """A part of ``StoreContract``."""

    def test_of_many_threads_one_creates(self, store: Store) -> None:
        def create(key: str, me: int) -> PutOutcome:
            return store.put_new(key, b"%d" % me)

        for key in (f"race/{attempt}" for attempt in range(20)):
            outcomes = self._race(8, partial(create, key))
            winners = [me for me, found in outcomes.items() if found is PutOutcome.CREATED]
            assert len(winners) == 1
            assert store.get(key) == b"%d" % winners[0]

    def test_of_many_threads_one_replaces(self, store: Store) -> None:
        def swap(etag: str, turn: int, me: int) -> ReplaceOutcome:
            return store.replace("k", b"%d in turn %d" % (me, turn), etag)

        store.put_new("k", b"start")
        for turn in range(10):
            outcomes = self._race(8, partial(swap, store.head("k").etag, turn))
            winners = [me for me, found in outcomes.items() if found is ReplaceOutcome.REPLACED]
            assert len(winners) == 1
            assert store.get("k") == b"%d in turn %d" % (winners[0], turn)

    def test_a_counter_kept_by_replace_loses_no_step(self, store: Store) -> None:
        store.put_new("counter", b"0")

        def count(_: int) -> None:
            done = 0
            while done < 10:
                etag = store.head("counter").etag
                following = b"%d" % (int(store.get("counter")) + 1)
                done += store.replace("counter", following, etag) is ReplaceOutcome.REPLACED

        self._race(4, count)
        assert store.get("counter") == b"40"

    def test_readers_never_see_half_an_object(self, store: Store) -> None:
        size = 200_000
        store.put("k", b"0" * size)
        over = threading.Event()

        def write(me: int) -> None:
            try:
                for number in range(30):
                    store.put("k", b"%d" % (number % 10) * size)
                    store.put_new(f"new/{number}", b"%d" % (number % 10) * size)
            finally:
                over.set()

        def read(me: int) -> int:
            seen = 0
            while not (seen and over.is_set()):
                for key in ("k", *(f"new/{name}" for name in [*store.names("new")][-2:])):
                    data = store.get(key)
                    assert data == data[:1] * size
                    seen += 1
            return seen

        outcomes = self._race(3, lambda me: read(me) if me else write(me))
        assert outcomes[0] is None
        assert store.get("new/29") == b"9" * size

    @staticmethod
    def _race(many: int, act: Callable[[int], object]) -> dict[int, object]:
        """What each of ``many`` threads that start together came to; errors are raised here."""
        together = threading.Barrier(many)

        def run(me: int) -> object:
            together.wait(timeout=30)
            return act(me)

        with ThreadPoolExecutor(many) as pool:
            return dict(enumerate(pool.map(run, range(many))))
