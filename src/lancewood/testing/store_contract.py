"""What every store must do: one class of tests. A backend's test file says how to build a store.

These are the tests of objects and of races; ``store_names`` has those of names. They use only the
``Store`` protocol, and measure no speed.
"""

from __future__ import annotations

import pickle
import random
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest

from lancewood.errors import InvalidInputError, NotFoundError, StorageError
from lancewood.store.base import PutOutcome, ReplaceOutcome, Store
from lancewood.testing.store_names import NamesContract


def race_put_new(store: Store, key: str, data: bytes) -> PutOutcome:
    """One process of a race; at module level, so that a spawned interpreter can import it."""
    return store.put_new(key, data)


class RacesContract:
    """The part about concurrency: one writer wins, and readers never see half an object."""

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
        """The results of ``many`` threads that start together; errors are raised here."""
        together = threading.Barrier(many)

        def run(me: int) -> object:
            together.wait(timeout=30)
            return act(me)

        with ThreadPoolExecutor(many) as pool:
            return dict(enumerate(pool.map(run, range(many))))


class StoreContract(NamesContract, RacesContract):
    """Subclass it as ``Test…`` and define ``make``."""

    etags_are_hashes = False
    """Whether equal bytes always have the same etag."""
    random_steps = 400

    def make(self, place: Path) -> Store:
        """An empty store; ``place`` is an empty directory for this test."""
        raise NotImplementedError

    @pytest.fixture
    def store(self, tmp_path: Path) -> Store:
        return self.make(tmp_path)

    @pytest.mark.parametrize("data", [b"", b"x", bytes(range(256)) * 4096])
    def test_what_was_put_is_what_get_returns(self, store: Store, data: bytes) -> None:
        store.put("a/b", data)
        assert store.get("a/b") == data

    @pytest.mark.parametrize("parts", [[], [b""], [b"x"], [b"x", b"", b"y" * 300_000, b"z"]])
    def test_parts_become_one_object_over_an_old_one(
        self, store: Store, parts: list[bytes]
    ) -> None:
        store.put("a/b", b"an older and longer object")
        store.put_parts("a/b", iter(parts))
        assert store.get("a/b") == b"".join(parts)

    def test_parts_that_fail_leave_what_was_there(self, store: Store) -> None:
        def failing() -> Iterator[bytes]:
            yield b"1" * 100_000
            yield b"2"
            raise StorageError("the source is gone")

        store.put("kept", b"old")
        for key in ("kept", "fresh"):
            with pytest.raises(StorageError, match="the source is gone"):
                store.put_parts(key, failing())
        assert [(each.key, each.size) for each in store.list()] == [("kept", 3)]

    @pytest.mark.parametrize("may_link", [False, True])
    def test_an_object_of_another_root_is_copied_by_the_store_itself(
        self, store: Store, may_link: bool
    ) -> None:
        here, there = store.at("here"), store.at("far/there")
        there.put("a", b"bytes")
        assert here.copy_from(there, there.head("a"), "b/c", may_link=may_link)
        there.delete(["a"])
        assert here.get("b/c") == b"bytes"

    def test_an_object_that_is_gone_cannot_be_copied_from_another_root(self, store: Store) -> None:
        here, there = store.at("here"), store.at("there")
        there.put("a", b"bytes")
        found = there.head("a")
        there.delete(["a"])
        with pytest.raises(NotFoundError, match="'a' not found"):
            here.copy_from(there, found, "b")
        assert [*store.list()] == []

    @pytest.mark.parametrize("key", ["missing", "a/missing", "a/b/c", "a"])
    def test_a_missing_object_is_not_found(self, store: Store, key: str) -> None:
        store.put("a/b", b"1")
        reads: list[Callable[[], object]] = [
            lambda: store.get(key),
            lambda: store.get_range(key, 0, 1),
            lambda: store.head(key),
            lambda: store.copy(key, "target"),
        ]
        for read in reads:
            with pytest.raises(NotFoundError, match=key):
                read()
        assert [info.key for info in store.list()] == ["a/b"]

    @pytest.mark.parametrize(
        ("start", "length", "found"),
        [
            (0, 6, b"abcdef"),
            (2, 3, b"cde"),
            (4, 100, b"ef"),
            (6, 1, b""),
            (99, 1, b""),
            (3, 0, b""),
        ],
    )
    def test_a_range_ends_where_the_object_ends(
        self, store: Store, start: int, length: int, found: bytes
    ) -> None:
        store.put("k", b"abcdef")
        assert store.get_range("k", start, length) == found

    @pytest.mark.parametrize(("start", "length"), [(-1, 1), (0, -1)])
    def test_a_negative_range_is_refused(self, store: Store, start: int, length: int) -> None:
        store.put("k", b"abcdef")
        with pytest.raises(InvalidInputError, match="negative"):
            store.get_range("k", start, length)

    def test_head_tells_key_size_time_and_etag(self, store: Store) -> None:
        before = datetime.now(UTC) - timedelta(seconds=5)
        store.put("a/b", b"123")
        info = store.head("a/b")
        assert (info.key, info.size) == ("a/b", 3)
        assert info.modified.utcoffset() == timedelta(0)
        assert before < info.modified < datetime.now(UTC) + timedelta(seconds=5)
        assert [*store.list("a")] == [info]

    def test_the_etag_stays_until_the_next_write_and_never_comes_back(self, store: Store) -> None:
        seen = set()
        for turn in range(10 if self.etags_are_hashes else 50):
            store.put("k", b"same" if not self.etags_are_hashes else b"%d" % turn)
            etag = store.head("k").etag
            assert etag == store.head("k").etag
            again = b"same" if not self.etags_are_hashes else b"again %d" % turn
            assert store.replace("k", again, etag) is ReplaceOutcome.REPLACED
            seen |= {etag, store.head("k").etag}
            assert len(seen) == 2 * (turn + 1)

    def test_put_overwrites(self, store: Store) -> None:
        store.put("k", b"long before")
        store.put("k", b"new")
        assert store.get("k") == b"new"

    def test_put_new_never_overwrites(self, store: Store) -> None:
        assert store.put_new("a/k", b"first") is PutOutcome.CREATED
        etag = store.head("a/k").etag
        assert store.put_new("a/k", b"second") is PutOutcome.EXISTS
        assert store.put_new("a/k", b"first") is PutOutcome.EXISTS
        assert store.get("a/k") == b"first"
        assert store.head("a/k").etag == etag

    def test_put_new_works_again_after_delete(self, store: Store) -> None:
        store.put_new("k", b"first")
        store.delete(["k"])
        assert store.put_new("k", b"second") is PutOutcome.CREATED
        assert store.get("k") == b"second"

    def test_replace_swaps_only_what_was_expected(self, store: Store) -> None:
        store.put_new("a/k", b"1")
        old = store.head("a/k").etag
        assert store.replace("a/k", b"2", old) is ReplaceOutcome.REPLACED
        assert store.replace("a/k", b"3", old) is ReplaceOutcome.CHANGED
        assert store.get("a/k") == b"2"
        assert [*store.names("a")] == ["k"]

    def test_replace_of_a_missing_object_is_changed(self, store: Store) -> None:
        store.put("k", b"1")
        etag = store.head("k").etag
        store.delete(["k"])
        assert store.replace("k", b"2", etag) is ReplaceOutcome.CHANGED
        assert store.replace("no/such/k", b"2", etag) is ReplaceOutcome.CHANGED
        assert [*store.list()] == []

    def test_copy_makes_an_object_of_its_own(self, store: Store) -> None:
        data = bytes(range(256)) * 5000
        store.put("a/one", data)
        store.put("b/two", b"old")
        store.copy("a/one", "b/two")
        store.copy("a/one", "new/deep/three")
        store.put("a/one", b"changed")
        assert store.get("b/two") == store.get("new/deep/three") == data

    def test_an_empty_object_can_be_copied(self, store: Store) -> None:
        store.put("one", b"")
        store.copy("one", "two")
        assert store.get("two") == b""

    def test_several_objects_are_put_together_over_old_ones_and_into_new_places(
        self, store: Store
    ) -> None:
        store.put("a/old", b"old")
        objects = {"a/old": b"new", "a/other": b"", "b/deep/er": bytes(range(256)) * 5000}
        store.put_together(objects)
        assert {info.key: store.get(info.key) for info in store.list()} == objects
        store.put_together({})

    def test_delete_removes_all_and_forgives_what_is_missing(self, store: Store) -> None:
        for key in ("a/1", "a/2", "b"):
            store.put(key, b"x")
        store.delete(key for key in ("a/1", "missing", "no/such", "b/under", "b", "b"))
        assert [info.key for info in store.list()] == ["a/2"]
        store.delete([])

    def test_sync_takes_what_is_there_and_nothing(self, store: Store) -> None:
        for number in range(5):
            store.put(f"d{number % 2}/{number}", b"x")
        store.sync([])
        store.sync(["d0/0"])
        store.sync([f"d{number % 2}/{number}" for number in range(5)])
        assert len([*store.list()]) == 5

    def test_a_turn_can_be_taken_anywhere_and_passes_errors_on(self, store: Store) -> None:
        store.put("a/k", b"1")
        for directory in ("", "a", "a/", "missing"):
            with store.turn(directory):
                assert store.get("a/k") == b"1"
        with pytest.raises(ZeroDivisionError), store.turn("a"):
            raise ZeroDivisionError
        with store.turn("a"):
            store.put("a/k", b"2")

    def test_a_pickled_store_is_the_same_store(self, store: Store) -> None:
        store.at("tree").put("k", b"1")
        again: Store = pickle.loads(pickle.dumps(store))
        deeper: Store = pickle.loads(pickle.dumps(store.at("tree")))
        assert again.uri == store.uri
        assert again.get("tree/k") == deeper.get("k") == b"1"
        again.put("back", b"2")
        assert store.get("back") == b"2"

    def test_random_steps_agree_with_a_dictionary(self, store: Store) -> None:
        dice = random.Random(5)
        keys = ["a", "d/a", "d/b", "d/e/a", "f/g/h"]
        plain: dict[str, bytes] = {}
        for number in range(self.random_steps):
            key, data = dice.choice(keys), b"%d" % number
            match dice.randrange(5):
                case 0:
                    store.put(key, data)
                    plain[key] = data
                case 1:
                    created = store.put_new(key, data) is PutOutcome.CREATED
                    assert created == (key not in plain)
                    plain.setdefault(key, data)
                case 2:
                    store.delete([key])
                    plain.pop(key, None)
                case 3 if key in plain:
                    target = dice.choice(keys)
                    store.copy(key, target)
                    plain[target] = plain[key]
                case 4 if key in plain:
                    swapped = store.replace(key, data, store.head(key).etag)
                    assert swapped is ReplaceOutcome.REPLACED
                    plain[key] = data
            assert {info.key: store.get(info.key) for info in store.list()} == plain
