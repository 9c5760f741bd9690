"""Writers that take rows out of one fragment, stepped at every store call: a serial result each.

Deletion files are real ones, data files are only named: nobody opens them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import pytest
from pyroaring import BitMap
from tests.breadth import EVERY_CASE, daily
from tests.metadata import FIELDS, PERSISTENT, SHARED, begun, fragment, live_rows, writer

from lancewood.engine.location.deletion_vectors import load_deletions, write_deletions
from lancewood.engine.location.location import Location
from lancewood.engine.snapshot.snapshot import Snapshot, load_snapshot
from lancewood.engine.versions.finding import list_versions
from lancewood.errors import ConflictError, RetryableConflictError
from lancewood.jobs.job import Change, execute
from lancewood.model.fragment import Fragment
from lancewood.model.ids import FragmentId
from lancewood.model.manifest import Manifest
from lancewood.model.rowids import RowIdSequence
from lancewood.model.transaction import Append, Delete, Operation, Overwrite, Update
from lancewood.store.base import Store
from lancewood.testing.schedule import ScheduleOutcome, explore

pytestmark = pytest.mark.sliced(4)

ROWS = 6
ZERO = FragmentId(0)
MANY = daily(30, of=150)
"""How many orders of a case that has more are tried."""


def fresh() -> Store:
    """A table at version 1: one fragment whose rows have the ids 0 to 5."""
    return begun(Overwrite((fragment("first", ROWS),), FIELDS))


def image(store: Store, manifest: Manifest, rows: Sequence[int]) -> Fragment | None:
    """The first fragment without these rows, besides those that it has lost already."""
    now = manifest.fragment(ZERO)
    before = load_deletions(Location(store), manifest, now) or BitMap()
    return write_deletions(store, manifest.version, now, before | BitMap(rows))


@dataclass(frozen=True)
class Deletes:
    """Takes rows out of the first fragment."""

    rows: tuple[int, ...]

    def __call__(self, store: Store, manifest: Manifest) -> Operation:
        left = image(store, manifest, self.rows)
        return Delete((), (ZERO,)) if left is None else Delete((left,), ())


@dataclass(frozen=True)
class Updates:
    """Moves rows of the first fragment into a new one; they keep their ids."""

    rows: tuple[int, ...]
    name: str

    def __call__(self, store: Store, manifest: Manifest) -> Operation:
        left = image(store, manifest, self.rows)
        ids = RowIdSequence.from_values(self.rows)
        new = fragment(self.name, len(self.rows)).with_lineage(ids, None, None)
        return Update(() if left else (ZERO,), (left,) if left else (), (new,))


@dataclass(frozen=True)
class Appends:
    name: str

    def __call__(self, store: Store, manifest: Manifest) -> Operation:
        return Append((fragment(self.name, 2),))


Build: TypeAlias = Deletes | Updates | Appends


Result: TypeAlias = tuple[dict[str, list[int]], set[int]]


def serial_results(builds: Sequence[Build]) -> list[Result]:
    """What each order of whole commits gives: the rows, and who got through."""
    found = []
    for order in itertools.permutations(range(len(builds))):
        store, landed = fresh(), set()
        for number in order:
            try:
                writer(builds[number])(store)
                landed.add(number)
            except ConflictError:
                pass
        found.append((live_rows(store), landed))
    return found


def check(outcome: ScheduleOutcome, builds: Sequence[Build], serial: list[Result]) -> None:
    for each in outcome.results:
        assert isinstance(each, int | RetryableConflictError), outcome
    landed = {n for n, each in enumerate(outcome.results) if isinstance(each, int)}
    assert landed
    versions = list_versions(outcome.store).versions
    assert versions == tuple(range(1 + len(landed), 0, -1))
    rows = live_rows(outcome.store)
    assert (rows, landed) in serial, (rows, landed, outcome.calls)
    check_rows(rows, [builds[each] for each in landed])


def check_rows(rows: dict[str, list[int]], landed: Sequence[Build]) -> None:
    """The same without a commit: plain sets."""
    taken = [row for each in landed if not isinstance(each, Appends) for row in each.rows]
    assert len(set(taken)) == len(taken), "a row was taken out twice"
    wanted = {"first": [row for row in range(ROWS) if row not in taken]}
    wanted |= {each.name: [*each.rows] for each in landed if isinstance(each, Updates)}
    wanted |= {each.name: [6, 7] for each in landed if isinstance(each, Appends)}
    assert rows == {name: ids for name, ids in wanted.items() if ids}


PAIRS: dict[str, tuple[Build, ...]] = {
    "deletes of different rows": (Deletes((1,)), Deletes((2, 3))),
    "deletes of the same row": (Deletes((1, 2)), Deletes((2, 3))),
    "deletes that leave nothing": (Deletes((0, 1, 2)), Deletes((3, 4, 5))),
    "a delete and the whole fragment": (Deletes((1,)), Deletes((0, 1, 2, 3, 4, 5))),
    "an update and a delete elsewhere": (Updates((1,), "new"), Deletes((2,))),
    "an update and a delete of its row": (Updates((1, 2), "new"), Deletes((2,))),
    "updates of different rows": (Updates((1,), "one"), Updates((2,), "two")),
    "updates of the same row": (Updates((1,), "one"), Updates((1,), "two")),
    "an update and an append": (Updates((1,), "new"), Appends("more")),
}


@pytest.mark.parametrize("case", PAIRS.values(), ids=PAIRS.keys())
def test_two_writers_in_every_order_of_what_they_share(case: tuple[Build, ...]) -> None:
    runs, serial = 0, serial_results(case)
    for outcome in explore(fresh, [writer(each) for each in case], verbs=SHARED):
        check(outcome, case, serial)
        runs += 1
    assert runs >= 6


@pytest.mark.parametrize("case", PAIRS.values(), ids=PAIRS.keys())
def test_two_writers_in_many_orders_of_every_call(case: tuple[Build, ...]) -> None:
    serial = serial_results(case)
    for outcome in explore(fresh, [writer(each) for each in case], limit=MANY, seed=7):
        check(outcome, case, serial)


TRIPLES: dict[str, tuple[Build, ...]] = {
    "three deletes": (Deletes((1,)), Deletes((2,)), Deletes((3,))),
    "two of three meet": (Deletes((1,)), Deletes((1, 2)), Deletes((3,))),
    "three that leave nothing": (Deletes((0, 1)), Deletes((2, 3)), Deletes((4, 5))),
    "update, delete, append": (Updates((1,), "new"), Deletes((2,)), Appends("more")),
    "update, delete of its row, append": (Updates((1,), "new"), Deletes((1,)), Appends("more")),
}


@pytest.mark.parametrize("case", TRIPLES.values(), ids=TRIPLES.keys())
def test_three_writers_in_every_order_of_what_they_share(case: tuple[Build, ...]) -> None:
    runs, serial = 0, serial_results(case)
    limit = None if EVERY_CASE else 4 * MANY
    for outcome in explore(fresh, [writer(each) for each in case], limit, verbs=SHARED):
        check(outcome, case, serial)
        runs += 1
    assert runs > 90


def persistent(build: Build) -> Callable[[Store], object]:
    """Runs again on the newest version for as long as others are faster."""

    def prepare(snapshot: Snapshot) -> Change[None]:
        return Change(build(snapshot.location.store, snapshot.manifest), None)

    def write(store: Store) -> object:
        first = load_snapshot(Location(store), version=1)
        return execute(first, prepare, PERSISTENT)[0].manifest.version

    return write


def test_deletes_that_are_run_again_all_land() -> None:
    builds = (Deletes((1,)), Deletes((1, 2)), Deletes((3,)))
    writers = [persistent(each) for each in builds]
    for outcome in explore(fresh, writers, verbs=SHARED, limit=MANY, seed=13):
        assert sorted(outcome.results) == [2, 3, 4], outcome  # type: ignore[type-var]
        assert live_rows(outcome.store) == {"first": [0, 4, 5]}
