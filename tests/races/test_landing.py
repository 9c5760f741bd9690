"""Two landers, and landers beside writers from outside, stepped at every store call.

Every step lands once, whoever brings it, and an outcome equals some order of whole commits.
Fragments have no data files: what is raced for is the metadata.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from tests.breadth import EVERY_CASE, daily
from tests.metadata import FIELDS, QUIET, SHARED, fragment
from tests.races.test_two_and_three_writers import (
    CONFIG,
    CONFIG_TOO,
    OVER,
    A,
    B,
    C,
    check_ids,
    content,
    fresh,
    writer,
)

from lancewood.engine.location.location import Location
from lancewood.engine.snapshot.snapshot import Snapshot, load_snapshot
from lancewood.engine.staging.landing import Landed, find_landing, land
from lancewood.engine.staging.staging import Stage
from lancewood.engine.versions.finding import list_versions, load_version
from lancewood.engine.versions.history import load_transaction_of
from lancewood.errors import ConflictError
from lancewood.format.layout import NamingScheme
from lancewood.format.manifest import empty_manifest
from lancewood.model.ids import Version
from lancewood.model.lines import Landing
from lancewood.model.transaction import Operation, Overwrite, Transaction
from lancewood.store.base import Store
from lancewood.store.memory import MemoryStore
from lancewood.testing.schedule import ScheduleOutcome, explore

ORDERS = daily(50, of=300)


class Prepared:
    """Fresh stores on which the same operations are staged, and how to land them."""

    def __init__(self, *operations: Operation, is_new: bool = False) -> None:
        self._operations = operations
        self._is_new = is_new
        self.landings: dict[str, Landing] = {}

    def store(self) -> Store:
        store = MemoryStore() if self._is_new else fresh()
        self.landings[store.uri] = self._stage(Location(store))
        return store

    def _stage(self, location: Location) -> Landing:
        if self._is_new:
            begin = Snapshot(location, empty_manifest("2.2", flags=2), NamingScheme.V2)
        else:
            begin = load_snapshot(location)
        stage = Stage(begin)
        for each in self._operations:
            newest = stage.snapshot.manifest.version
            stage.snapshot.commit(Transaction.new(newest, each), QUIET)
        for made in stage.snapshot.manifest.fragments:
            location.store.put(f"data/{made.files[0].path}", b"rows")
        return stage.publish()

    def lander(self, store: Store) -> object:
        return land(Location(store), self.landing(store), QUIET)

    def landing(self, store: Store) -> Landing:
        return self.landings[store.uri]


def uuids(store: Store) -> list[str]:
    found = list_versions(store)
    return [load_transaction_of(store, each, found.scheme).uuid for each in found.versions[::-1]]


def check_once(outcome: ScheduleOutcome, landing: Landing) -> None:
    """No step is there twice, and they are in order."""
    mine = [each for each in uuids(outcome.store) if each in landing.uuids]
    assert mine == list(landing.uuids[: len(mine)]), outcome
    check_ids(load_version(outcome.store)[0])


@pytest.mark.parametrize("is_new", [False, True], ids=["table", "new"])
def test_two_landers_in_every_order_land_each_step_once(is_new: bool) -> None:
    steps = (*(OVER if is_new else A), *B, *CONFIG)
    case, runs = Prepared(*steps, is_new=is_new), 0
    limit = None if EVERY_CASE else ORDERS
    for outcome in explore(case.store, [case.lander, case.lander], limit, verbs=SHARED):
        landing = case.landing(outcome.store)
        first = landing.base + 1
        expected = Landed(tuple(Version(first + at) for at in range(3)), is_exact=True)
        assert outcome.results == [expected, expected], outcome
        assert uuids(outcome.store)[-3:] == list(landing.uuids)
        assert list_versions(outcome.store).newest == first + 2
        check_once(outcome, landing)
        runs += 1
    assert runs > 20


def test_two_landers_stepped_at_every_call() -> None:
    case = Prepared(*A, *CONFIG)
    for outcome in explore(case.store, [case.lander, case.lander], limit=ORDERS, seed=2):
        assert all(each == Landed((Version(2), Version(3)), True) for each in outcome.results)
        check_once(outcome, case.landing(outcome.store))


def test_a_lander_beside_a_writer_from_outside_in_every_order() -> None:
    case, runs = Prepared(*A, *CONFIG), 0
    seen = set()
    for outcome in explore(case.store, [case.lander, writer(*B)], verbs=SHARED):
        landed, theirs = outcome.results
        assert isinstance(landed, Landed), outcome
        assert isinstance(theirs, int), outcome
        assert sorted((*landed.versions, theirs)) == [2, 3, 4]
        assert landed.is_exact == (theirs == 4)
        newest = load_version(outcome.store)[0]
        assert content(newest) == (["A", "B", "B2", "first"], [("k", "1")])
        check_once(outcome, case.landing(outcome.store))
        seen.add(theirs)
        runs += 1
    assert seen == {2, 3, 4}
    assert runs > 10


@pytest.mark.parametrize(
    ("steps", "others"),
    [((*A, *CONFIG), B), ((*A, *CONFIG), CONFIG_TOO), ((*A, *C), OVER)],
    ids=["append", "same key", "overwrite"],
)
def test_two_landers_beside_a_writer_from_outside(
    steps: Sequence[Operation], others: Sequence[Operation]
) -> None:
    case = Prepared(*steps)
    writers: list[Callable[[Store], object]] = [case.lander, case.lander, writer(*others)]
    for outcome in explore(case.store, writers, limit=ORDERS, seed=7, verbs=SHARED):
        landing = case.landing(outcome.store)
        check_once(outcome, landing)
        mine = [each for each in uuids(outcome.store) if each in landing.uuids]
        *landers, theirs = outcome.results
        for each in landers:
            assert isinstance(each, Landed | ConflictError), outcome
        assert isinstance(theirs, int | ConflictError), outcome
        count = len(mine) + isinstance(theirs, int)
        assert list_versions(outcome.store).newest == 1 + count
        state = find_landing(Location(outcome.store), landing)
        assert state.is_landed == (len(mine) == 2)
        assert not state.is_waiting
        for each in landers:
            assert isinstance(each, Landed) == state.is_landed, outcome


def test_two_new_tables_at_one_place_are_one_and_a_divergence() -> None:
    one = Prepared(*OVER, is_new=True)
    two = Prepared(Overwrite((fragment("P"),), FIELDS), is_new=True)

    def both() -> Store:
        store = one.store()
        two.landings[store.uri] = two._stage(Location(store))
        return store

    winners = set()
    for outcome in explore(both, [one.lander, two.lander], verbs=SHARED):
        kinds = [isinstance(each, Landed) for each in outcome.results]
        assert sorted(kinds) == [False, True], outcome
        loser = outcome.results[kinds.index(False)]
        assert isinstance(loser, ConflictError), outcome
        assert list_versions(outcome.store).versions == (1,)
        winners.add(kinds.index(True))
    assert winners == {0, 1}
