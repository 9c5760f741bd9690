"""Refs in a bucket: two or three movers, stepped at every store call."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from tests.breadth import EVERY_CASE

from lancewood.errors import AlreadyExistsError, RetryableConflictError
from lancewood.git.bucket.refs import BucketRefs
from lancewood.git.bucket.repository import BucketRepository
from lancewood.git.values import ZERO, Hash, Signature
from lancewood.store.base import Store
from lancewood.store.memory import MemoryStore
from lancewood.store.retry import UNCLEAR_PUTS
from lancewood.testing.schedule import ScheduleOutcome, Writer, explore

ONE, BELOW = "refs/heads/a", "refs/heads/a/b"
ADA = Signature("Ada", "ada@example.org", 1_700_000_000, 0)
A, B, C, D = (Hash(each * 64) for each in "abcd")
RUNS = 4000 if EVERY_CASE else 80
STEPS = ("head", "get_range", "put_new", "replace", "delete", "list")
"""All that is done to refs; lines of logs are put under names of one's own."""


def refs_of(store: Store) -> BucketRefs:
    return BucketRefs(store, retry=replace(UNCLEAR_PUTS, sleep=lambda seconds: None))


def mover(name: str, old: Hash | None, new: Hash | None) -> Writer:
    """Returns what ``move`` answers, or the refusal."""

    def write(store: Store) -> object:
        try:
            return refs_of(store).move(name, old, new, why=f"to {new}", by=ADA)
        except (AlreadyExistsError, RetryableConflictError) as refusal:
            return refusal

    return write


def stage(*given: tuple[str, Hash]) -> Callable[[], Store]:
    def make() -> Store:
        store = MemoryStore()
        BucketRepository.init(store.uri)
        store.put("HEAD", b"ref: refs/heads/main\n")
        for name, value in given:
            assert refs_of(store).move(name, None, value, why="begin", by=ADA)
        return store

    return make


def runs(
    make: Callable[[], Store], *writers: Writer
) -> Iterator[tuple[ScheduleOutcome, BucketRefs]]:
    count = 0
    for found in explore(make, writers, RUNS, seed=7, verbs=STEPS):
        for each in found.results:
            assert not isinstance(each, BaseException) or isinstance(
                each, AlreadyExistsError | RetryableConflictError
            ), found
        count += 1
        yield found, refs_of(found.store)
    assert count > 20, "hardly any order was tried"


def wins(found: ScheduleOutcome) -> list[int]:
    return [number for number, each in enumerate(found.results) if each is True]


def test_of_movers_from_one_value_one_wins_and_only_its_move_is_told() -> None:
    writers = [mover(ONE, A, each) for each in (B, C, D)]
    for found, refs in runs(stage((ONE, A)), *writers):
        (won,) = wins(found)
        assert refs.read(ONE) == (B, C, D)[won]
        told = [(each.old, each.new) for each in refs.log(ONE)]
        assert told == [(A, (B, C, D)[won]), (ZERO, A)]


def test_of_makers_of_one_name_one_wins() -> None:
    for found, refs in runs(stage(), mover(ONE, None, A), mover(ONE, None, B)):
        assert len(wins(found)) <= 1, found
        value = refs.read(ONE)
        assert value == ((A, B)[wins(found)[0]] if wins(found) else None)
        if value is not None:
            assert [each.new for each in refs.log(ONE)] == [value]


def test_two_names_of_which_one_is_a_directory_of_the_other_are_never_both_made() -> None:
    ends = set()
    for found, refs in runs(stage(), mover(ONE, None, A), mover(BELOW, None, B)):
        made = refs.names("refs/heads/")
        assert len(made) == len(wins(found)) <= 1, found
        assert made == {(ONE, BELOW)[each]: (A, B)[each] for each in wins(found)}
        ends.add(tuple(made))
    assert {(ONE,), (BELOW,)} <= ends


def test_a_deletion_beside_a_move_takes_nothing_that_came_after() -> None:
    ends = set()
    for found, refs in runs(stage((ONE, A)), mover(ONE, A, None), mover(ONE, A, B)):
        (won,) = wins(found)
        assert refs.read(ONE) == (None, B)[won]
        assert found.results[1 - won] is False
        ends.add(won)
    assert ends == {0, 1}


def test_what_is_made_again_after_a_deletion_stays() -> None:
    """The deletion removes its marker at last; whoever makes the ref anew must not be under it."""

    def delete_and_make(store: Store) -> object:
        done = mover(ONE, A, None)(store)
        return done, mover(ONE, None, C)(store)

    for found, refs in runs(stage((ONE, A)), delete_and_make, mover(ONE, None, B)):
        first, second = found.results
        assert isinstance(first, tuple)
        assert first[0] is True
        made = [value for value, each in ((C, first[1]), (B, second)) if each is True]
        assert refs.read(ONE) == (made[0] if made else None), found
        assert len(made) <= 1
        if made:
            assert next(refs.log(ONE)).new == made[0]


def test_two_deletions_of_one_ref_are_one() -> None:
    for found, refs in runs(stage((ONE, A)), mover(ONE, A, None), mover(ONE, A, None)):
        assert len(wins(found)) == 1
        assert refs.read(ONE) is None


@pytest.mark.parametrize("packed", [False, True])
def test_a_deletion_beside_a_name_below_lets_it_in_or_keeps_it_out(packed: bool) -> None:
    def make() -> Store:
        store = stage()()
        if packed:
            store.put("packed-refs", f"{A} {ONE}\n".encode())
        else:
            assert refs_of(store).move(ONE, None, A, why="begin", by=ADA)
        return store

    for found, refs in runs(make, mover(ONE, A, None), mover(BELOW, None, B)):
        assert found.results[0] is True
        expected = {BELOW: B} if found.results[1] is True else {}
        assert refs.names("refs/heads/") == expected


def test_folding_beside_moves_and_other_folding_loses_no_line() -> None:
    def fold(store: Store) -> object:
        return refs_of(store).tidy(dry_run=False)

    for found, refs in runs(stage((ONE, A)), fold, fold, mover(ONE, A, B)):
        assert wins(found) == [2]
        assert [each.new for each in refs.log(ONE)] == [B, A]
        refs.tidy(dry_run=False)
        assert [each.new for each in refs.log(ONE)] == [B, A]
        assert found.store.get(f"logs/{ONE}").count(b"\n") == 2
