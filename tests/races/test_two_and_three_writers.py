"""Two and three writers stepped at every store call: each outcome equals some serial order.

Fragments here have no data files: what is raced for is the metadata, and that is all in the store.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from tests.breadth import EVERY_CASE, daily
from tests.metadata import FIELDS, QUIET, begun, commit_to, fragment

from lancewood.engine.commit.commit import commit
from lancewood.engine.location.location import Location
from lancewood.engine.versions.finding import list_versions, load_manifest, load_version
from lancewood.errors import ConflictError, LancewoodError
from lancewood.format.layout import NamingScheme
from lancewood.format.manifest import empty_manifest
from lancewood.model.ids import Version
from lancewood.model.manifest import Manifest
from lancewood.model.transaction import (
    Append,
    MapUpdate,
    Operation,
    Overwrite,
    Restore,
    Transaction,
    UpdateConfig,
)
from lancewood.store.base import Store
from lancewood.store.memory import MemoryStore
from lancewood.testing.schedule import ScheduleOutcome, explore

pytestmark = pytest.mark.sliced(4)

SMALL = daily(50, of=400)
"""How many orders of a case that has more are tried."""
MANY = None if EVERY_CASE else 150
"""The same for a case of which ``make campaigns`` tries all."""


def fresh() -> Store:
    """A table at version 1 with one fragment."""
    return begun(Overwrite((fragment("first"),), FIELDS))


def writer(*operations: Operation) -> Callable[[Store], object]:
    return lambda store: commit_to(store, *operations, read=1)


def content(manifest: Manifest) -> object:
    return (
        sorted(file.path for each in manifest.fragments for file in each.files),
        sorted(manifest.config.items()),
    )


def serial_contents(
    operations: Sequence[tuple[Operation, ...]],
) -> list[tuple[object, set[int]]]:
    """What each order of whole commits gives: the content, and who got through."""
    found = []
    for order in itertools.permutations(range(len(operations))):
        store = fresh()
        landed = set()
        for number in order:
            try:
                writer(*operations[number])(store)
                landed.add(number)
            except ConflictError:
                pass
        found.append((content(load_version(store)[0]), landed))
    return found


def check(
    outcome: ScheduleOutcome,
    operations: Sequence[tuple[Operation, ...]],
    serial: list[tuple[object, set[int]]],
) -> None:
    landed = {n for n, each in enumerate(outcome.results) if isinstance(each, int)}
    for each in outcome.results:
        assert isinstance(each, int | ConflictError), outcome
    versions = list_versions(outcome.store)
    expected = 1 + sum(len(operations[n]) for n in landed)
    assert versions.versions == tuple(range(expected, 0, -1)), outcome
    newest = load_manifest(outcome.store, Version(expected), versions.scheme)
    assert (content(newest), landed) in serial, (content(newest), landed, outcome.calls)
    check_ids(newest)


def check_ids(manifest: Manifest) -> None:
    ids = [each.id for each in manifest.fragments]
    assert len(set(ids)) == len(ids)
    rows = [row for each in manifest.fragments for row in each.row_ids or ()]
    assert len(set(rows)) == len(rows)
    assert all(row < manifest.next_row_id for row in rows)


A = (Append((fragment("A"),)),)
B = (Append((fragment("B"), fragment("B2"))),)
C = (Append((fragment("C"),)),)
OVER = (Overwrite((fragment("O"),), FIELDS),)
CONFIG = (UpdateConfig(config=MapUpdate({"k": "1"})),)
CONFIG_TOO = (UpdateConfig(config=MapUpdate({"k": "2"})),)
OTHER_KEY = (UpdateConfig(config=MapUpdate({"l": "2"})),)
RESTORE = (Restore(Version(1)),)

PAIRS = {
    "append append": (A, B),
    "append overwrite": (A, OVER),
    "overwrite overwrite": (OVER, (Overwrite((fragment("P"),), FIELDS),)),
    "append config": (A, CONFIG),
    "one key": (CONFIG, CONFIG_TOO),
    "two keys": (CONFIG, OTHER_KEY),
    "restore append": (RESTORE, A),
    "restore config": (RESTORE, CONFIG),
}


@pytest.mark.parametrize("case", PAIRS.values(), ids=PAIRS.keys())
def test_two_writers_in_every_order(case: tuple[tuple[Operation, ...], ...]) -> None:
    runs, serial = 0, serial_contents(case)
    for outcome in explore(fresh, [writer(*each) for each in case], MANY):
        check(outcome, case, serial)
        runs += 1
    assert runs > 20


TRIPLES = {
    "three appends": (A, B, C),
    "append overwrite config": (A, OVER, CONFIG),
    "two keys and one twice": (CONFIG, CONFIG_TOO, OTHER_KEY),
}


@pytest.mark.parametrize("case", TRIPLES.values(), ids=TRIPLES.keys())
def test_three_writers_in_many_orders(case: tuple[tuple[Operation, ...], ...]) -> None:
    runs, serial = 0, serial_contents(case)
    for outcome in explore(fresh, [writer(*each) for each in case], limit=SMALL, seed=11):
        check(outcome, case, serial)
        runs += 1
    assert runs == SMALL


@pytest.mark.parametrize("case", TRIPLES.values(), ids=TRIPLES.keys())
def test_three_writers_in_every_order_of_what_they_share(
    case: tuple[tuple[Operation, ...], ...],
) -> None:
    """Listing and publishing are all that does not commute: the rest is reads of files that never
    change, and transactions under names of their own."""
    runs, serial = 0, serial_contents(case)
    shared = {"names", "put_new"}
    for outcome in explore(fresh, [writer(*each) for each in case], MANY, verbs=shared):
        check(outcome, case, serial)
        runs += 1
    assert runs > 90


def test_three_appends_all_land_in_every_order_tried() -> None:
    writers = [writer(*each) for each in (A, B, C)]
    for outcome in explore(fresh, writers, limit=SMALL, seed=3):
        assert sorted(outcome.results) == [2, 3, 4]  # type: ignore[type-var]


def test_a_list_of_operations_beside_an_append() -> None:
    case = ((*A, *CONFIG), B)
    for outcome in explore(fresh, [writer(*each) for each in case], limit=SMALL, seed=5):
        assert all(isinstance(each, int) for each in outcome.results), outcome
        newest = load_version(outcome.store)[0]
        assert newest.version == 4
        assert content(newest) == (["A", "B", "B2", "first"], [("k", "1")])
        check_ids(newest)


def create(name: str) -> Callable[[Store], object]:
    def write(store: Store) -> object:
        first = Transaction.new(Version(0), Overwrite((fragment(name),), FIELDS))
        only = replace(QUIET, serializable=True)
        base = empty_manifest("2.2", flags=2)
        return commit(Location(store), base, NamingScheme.V2, first, only).version

    return write


def test_of_two_creators_exactly_one_wins() -> None:
    for outcome in explore(MemoryStore, [create("one"), create("two")], SMALL):
        wins = [n for n, each in enumerate(outcome.results) if each == 1]
        assert len(wins) == 1, outcome
        assert isinstance(outcome.results[1 - wins[0]], LancewoodError)
        assert content(load_version(outcome.store)[0])[0] == [("one", "two")[wins[0]]]  # type: ignore[index]


def test_a_reader_never_sees_a_half_written_version() -> None:
    def read(store: Store) -> object:
        return [content(load_version(store)[0]) for _ in range(2)]

    allowed: list[object] = [(["first"], []), (["A", "first"], [])]
    for outcome in explore(fresh, [writer(*A), read], SMALL):
        seen = outcome.results[1]
        assert isinstance(seen, list), outcome
        assert all(each in allowed for each in seen)
        assert seen == sorted(seen, key=allowed.index)
