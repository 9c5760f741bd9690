"""A ref in a bucket, hurt at every store call of every kind of move: old or new, never between."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Never

import pytest
from tests.faults.hurting import MODES, Attempt, every_call

from lancewood.errors import (
    CommitUnknownError,
    LancewoodError,
    RetryableConflictError,
    StorageError,
)
from lancewood.git.bucket import ref_objects, refs
from lancewood.git.bucket.ref_objects import Seen
from lancewood.git.bucket.refs import BucketRefs
from lancewood.git.bucket.repository import BucketRepository
from lancewood.git.values import ZERO, Hash, Signature
from lancewood.store.base import Store
from lancewood.store.memory import MemoryStore
from lancewood.store.retry import UNCLEAR_PUTS
from lancewood.testing.faults import FaultyStore, Mode

MAIN, OTHER, DEEP = "refs/heads/main", "refs/heads/a", "refs/heads/a/b"
ADA = Signature("Ada", "ada@example.org", 1_700_000_000, 0)
A, B = (Hash(each * 64) for each in "ab")


def refs_of(store: Store) -> BucketRefs:
    return BucketRefs(store, retry=replace(UNCLEAR_PUTS, sleep=lambda seconds: None))


def move(refs: BucketRefs, name: str, old: Hash | None, new: Hash | None) -> bool:
    return refs.move(name, old, new, why="test", by=ADA)


@pytest.fixture
def nobody_at_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever put a marker is taken for gone at once."""
    for module in (ref_objects, refs):
        monkeypatch.setattr(module, "ABANDONED", timedelta(seconds=-1))


@pytest.mark.usefixtures("nobody_at_work")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        pytest.param(MAIN, A, B, id="moved"),
        pytest.param(MAIN, None, A, id="made"),
        pytest.param(OTHER, None, A, id="made-where-another-was-being-made-below"),
        pytest.param(MAIN, A, None, id="deleted"),
        pytest.param("refs/tags/packed", A, B, id="packed-and-moved"),
        pytest.param("refs/tags/packed", A, None, id="packed-and-deleted"),
    ],
)
def test_a_ref_has_its_old_value_or_its_new_one(
    name: str, old: Hash | None, new: Hash | None, mode: Mode
) -> None:
    def begin(at: int) -> MemoryStore:
        store = MemoryStore()
        BucketRepository.init(store.uri)
        if name == OTHER:
            store.put(DEEP, ref_objects.making())
        elif old is not None and "packed" in name:
            store.put("packed-refs", f"{B} refs/tags/kept\n{old} {name}\n".encode())
        elif old is not None:
            assert move(refs_of(store), name, None, old)
        return store

    for attempt in every_call(mode, begin, more_than=1):
        attempt.run(move, refs_of(attempt.store), name, old, new, failures=(LancewoodError,))
        check(attempt, name, old, new)
    assert attempt.outcome == "done"


def check(attempt: Attempt, name: str, old: Hash | None, new: Hash | None) -> None:
    store = attempt.inner
    refs = refs_of(store)
    value = refs.read(name)
    attempt.check(value, old, new)
    assert refs.names("refs/").get(name) == value
    if value is not None and "packed" not in name:
        assert next(refs.log(name)).new == value, "every move is told"
    refs_of(store).tidy(dry_run=False)
    assert refs.read(name) == value
    assert not [each.key for each in store.list("refs") if each.size == ref_objects.MARKER_SIZE]
    kept = refs.names("refs/tags/").get("refs/tags/kept")
    assert kept == (B if "packed" in name else None)
    assert move(refs, name, value, B if value != B else A)
    moved = refs.read(name)
    assert moved == (B if value != B else A)
    assert next(refs.log(name)).new == moved


@pytest.mark.parametrize("mode", MODES)
def test_head_names_the_old_branch_or_the_new_one(mode: Mode) -> None:
    def begin(at: int) -> MemoryStore:
        store = MemoryStore()
        BucketRepository.init(store.uri)
        assert move(refs_of(store), MAIN, None, A)
        return store

    def switch(store: Store) -> None:
        refs_of(store).switch_head("a", why="switch", by=ADA)

    for attempt in every_call(mode, begin, more_than=1):
        attempt.run(switch, attempt.store, failures=(LancewoodError,))
        attempt.check(refs_of(attempt.inner).current(), "main", "a")


def test_who_finds_a_deletion_under_way_waits_and_does_not_write_over_it() -> None:
    store = MemoryStore()
    BucketRepository.init(store.uri)
    store.put(OTHER, ref_objects.deleted())
    assert refs_of(store).read(OTHER) is None
    with pytest.raises(RetryableConflictError, match="somebody is just deleting it"):
        move(refs_of(store), OTHER, None, A)
    assert store.get(OTHER).startswith(b"lancewood: ")
    assert refs_of(store).tidy(dry_run=False) == [], "its maker may be about to remove it"


def test_a_deletion_that_died_is_finished_later(nobody_at_work: None) -> None:
    store = MemoryStore()
    BucketRepository.init(store.uri)
    store.put(OTHER, ref_objects.deleted())
    assert refs_of(store).tidy(dry_run=True) == [f"{store.uri}/{OTHER}"]
    assert refs_of(store).tidy(dry_run=False) == [f"{store.uri}/{OTHER}"]
    assert [*store.list("refs")] == []
    store.put(OTHER, ref_objects.deleted())
    assert move(refs_of(store), OTHER, None, A), "whoever makes one there does not need gc"


def test_a_lost_answer_beside_a_third_value_is_unknown() -> None:
    store = MemoryStore()
    BucketRepository.init(store.uri)
    assert move(refs_of(store), MAIN, None, A)

    class Overtaken(FaultyStore):
        """Somebody moves the ref on, right after ours that was not answered."""

        def replace(self, key: str, data: bytes, expected_etag: str):  # type: ignore[no-untyped-def]
            try:
                return super().replace(key, data, expected_etag)
            finally:
                store.put(MAIN, b"c" * 64 + b"\n")

    calls = FaultyStore(store)
    assert move(refs_of(calls), MAIN, A, B)
    at = [verb for verb, _ in calls.calls].index("replace") + 1
    store.put(MAIN, A.encode() + b"\n")
    with pytest.raises(CommitUnknownError, match="third value"):
        move(refs_of(Overtaken(store, at, "after")), MAIN, A, B)


def test_a_move_that_lost_and_cannot_look_again_leaves_no_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = MemoryStore()
    mine, theirs = refs_of(store), refs_of(store)
    move(mine, MAIN, None, A)
    swap = mine._objects.swap

    def overtaken(name: str, seen: Seen, data: bytes) -> bool:
        move(theirs, MAIN, A, B)
        monkeypatch.setattr(mine._reader, "look", unreadable)
        return swap(name, seen, data)

    def unreadable(name: str) -> Never:
        raise StorageError("the store is away")

    monkeypatch.setattr(mine._objects, "swap", overtaken)
    with pytest.raises(StorageError, match="is away"):
        move(mine, MAIN, A, Hash("c" * 64))
    assert [each.new for each in theirs.log(MAIN)] == [B, A]


def test_lines_that_are_folded_and_not_removed_are_told_once() -> None:
    store = MemoryStore()
    BucketRepository.init(store.uri)
    values = [A, B]
    assert move(refs_of(store), MAIN, None, values[0])
    for number in range(20):
        assert move(refs_of(store), MAIN, values[number % 2], values[(number + 1) % 2])
    before = [*refs_of(store).log(MAIN)]
    assert len(before) == 21
    for attempt in every_call("kill-after", lambda _: store, more_than=1):
        attempt.run(lambda hurt: refs_of(hurt).tidy(dry_run=False), attempt.store)
        told = {(each.old, each.new) for each in refs_of(store).log(MAIN)}
        assert told == {(ZERO, A), (A, B), (B, A)}
    assert attempt.outcome == "done"
    assert [*refs_of(store).log(MAIN)] == before
    assert [*store.list("lancewood/moves")] == []
    assert store.get(f"logs/{MAIN}").count(b"\n") == 21
