"""An unanswered put, settled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

import pytest

from lancewood.errors import CommitUnknownError, StorageError
from lancewood.store.base import PutOutcome, Store
from lancewood.store.memory import MemoryStore
from lancewood.store.readback import put_new_settled
from lancewood.store.retry import UNCLEAR_PUTS
from lancewood.testing.faults import FaultyStore, Killed, WatchedStore

T = TypeVar("T")


class Scripted(WatchedStore):
    """Each put, get or sync takes the next letter: ``.`` works, ``b`` fails before, ``a`` after,
    ``n`` fails before and says that nothing landed. After the last letter all work."""

    def __init__(self, inner: Store, puts: str = "", gets: str = "", syncs: str = "") -> None:
        super().__init__(inner)
        self.scripts = {"put_new": [*puts], "get": [*gets], "sync": [*syncs]}
        self.verbs: list[str] = []

    def _call(self, verb: str, key: str, action: Callable[[], T]) -> T:
        self.verbs.append(verb)
        script = self.scripts[verb]
        letter = script.pop(0) if script else "."
        if letter == "n":
            raise StorageError("refused", landed=False)
        if letter == "b":
            raise StorageError("no answer")
        answer = action()
        if letter == "a":
            raise StorageError("answer lost")
        return answer


def settle(store: Store, attempts: int = 6) -> PutOutcome:
    return put_new_settled(
        store, "k", b"mine", replace(UNCLEAR_PUTS, attempts=attempts, sleep=lambda _: None)
    )


def test_a_clear_answer_costs_no_read() -> None:
    store = Scripted(MemoryStore())
    assert settle(store) is PutOutcome.CREATED
    assert settle(store) is PutOutcome.EXISTS
    assert store.verbs == ["put_new", "put_new"]


@pytest.mark.parametrize("puts", ["a", "ba", "bba", "na"])
def test_a_lost_answer_about_our_own_put_is_created(puts: str) -> None:
    store = Scripted(MemoryStore(), puts)
    assert settle(store) is PutOutcome.CREATED
    assert store.verbs[-2:] == ["get", "sync"]
    assert store.verbs.count("put_new") == len(puts)


@pytest.mark.parametrize("puts", ["b", "bb", "nn", "bn"])
def test_a_put_that_did_not_land_is_tried_again(puts: str) -> None:
    store = Scripted(MemoryStore(), puts)
    assert settle(store) is PutOutcome.CREATED
    assert store.get("k") == b"mine"


@pytest.mark.parametrize("puts", ["b", "a", "n"])
def test_the_bytes_of_another_have_won(puts: str) -> None:
    inner = MemoryStore()
    inner.put("k", b"theirs")
    assert settle(Scripted(inner, puts)) is PutOutcome.EXISTS
    assert inner.get("k") == b"theirs"


def test_a_put_that_lands_late_is_recognised_when_the_next_one_meets_it() -> None:
    inner = MemoryStore()

    class Late(Scripted):
        def get(self, key: str) -> bytes:
            try:
                return super().get(key)
            finally:
                inner.put_new("k", b"mine")  # on its way all the time, here only now

    store = Late(inner, puts="b")
    assert settle(store) is PutOutcome.CREATED
    assert store.verbs == ["put_new", "get", "put_new", "get", "sync"]


def test_exists_after_an_unclear_attempt_compares_the_bytes() -> None:
    inner = MemoryStore()

    class Overtaken(Scripted):
        def get(self, key: str) -> bytes:
            try:
                return super().get(key)
            finally:
                inner.put_new("k", b"theirs")

    store = Overtaken(inner, puts="b")
    assert settle(store) is PutOutcome.EXISTS
    assert store.verbs == ["put_new", "get", "put_new", "get"]


def test_a_read_that_fails_for_a_moment_is_repeated() -> None:
    store = Scripted(MemoryStore(), puts="a", gets="bbb")
    assert settle(store) is PutOutcome.CREATED


def test_what_cannot_be_read_back_stays_unknown_and_is_not_deleted() -> None:
    inner = MemoryStore()
    with pytest.raises(CommitUnknownError, match="cannot be read back"):
        settle(Scripted(inner, puts="a", gets="b" * 10), attempts=3)
    assert inner.get("k") == b"mine"


def test_what_is_not_proven_durable_stays_unknown() -> None:
    inner = MemoryStore()
    with pytest.raises(CommitUnknownError, match="power cut"):
        settle(Scripted(inner, puts="a", syncs="b"))
    assert inner.get("k") == b"mine"


def test_silence_to_the_end_is_unknown_since_a_put_may_still_be_on_its_way() -> None:
    store = Scripted(MemoryStore(), puts="bnn")
    with pytest.raises(CommitUnknownError, match="3 attempts") as caught:
        settle(store, attempts=3)
    assert isinstance(caught.value.__cause__, StorageError)


def test_a_store_that_vouches_that_nothing_landed_is_believed() -> None:
    store = Scripted(MemoryStore(), puts="nnn")
    with pytest.raises(StorageError, match="refused"):
        settle(store, attempts=3)


def test_pauses_grow_and_are_jittered() -> None:
    pauses: list[float] = []
    store = Scripted(MemoryStore(), puts="bbbb")
    put_new_settled(
        store, "k", b"mine", replace(UNCLEAR_PUTS, sleep=pauses.append, jitter=lambda: 1.0)
    )
    assert pauses == [0.02, 0.04, 0.08, 0.16]
    shorter: list[float] = []
    store = Scripted(MemoryStore(), puts="bbbb")
    put_new_settled(
        store, "k", b"mine", replace(UNCLEAR_PUTS, sleep=shorter.append, jitter=lambda: 0.0)
    )
    assert shorter == [pause / 2 for pause in pauses]


def test_death_is_not_an_unclear_answer() -> None:
    store = FaultyStore(MemoryStore(), at=1, mode="kill-after")
    with pytest.raises(Killed):
        settle(store)
    assert store.calls == [("put_new", "k")]
