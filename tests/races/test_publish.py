"""Publishers beside other writers, stepped at every store call: work is published once, and no
append is lost.

Deletion files are real ones, data files are only named: nobody opens them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import pytest
from pyroaring import BitMap
from tests.breadth import daily
from tests.metadata import FIELDS, PERSISTENT, SHARED, begun, fragment, live_rows

from lancewood.engine.location.deletion_vectors import write_deletions
from lancewood.engine.location.location import Location
from lancewood.engine.snapshot.revisions import branch_location
from lancewood.engine.snapshot.snapshot import Snapshot, load_snapshot
from lancewood.engine.versions.finding import list_versions, load_version
from lancewood.engine.versions.history import load_transaction_of
from lancewood.engine.write.cloning import write_clone
from lancewood.errors import ConflictError, IncompatibleConflictError
from lancewood.format.layout import NamingScheme
from lancewood.format.refs import branch_key, encode_branch
from lancewood.jobs.job import Change, execute
from lancewood.jobs.publish.closed_branch import reset
from lancewood.jobs.publish.publish import BRANCH_PROPERTY, publish
from lancewood.jobs.runner import LocalRunner
from lancewood.model.fragment import Fragment
from lancewood.model.ids import FragmentId, Version
from lancewood.model.refs import Branch, BranchName
from lancewood.model.table_config import PUBLISHED_KEY
from lancewood.model.transaction import Append, Delete, Operation, Overwrite
from lancewood.store.base import Store
from lancewood.testing.schedule import ScheduleOutcome, explore

Writer: TypeAlias = Callable[[Store], object]
EXP = BranchName("exp")
MANY = daily(30, of=120)
"""How many orders of a case that has more are tried."""


def fresh() -> Store:
    """Version 1 has rows 0 to 5; on the branch row 1 is gone, and two rows were appended, of which
    one is gone."""
    store = begun(Overwrite((fragment("first", 6),), FIELDS))
    location = Location(store)
    made = write_clone(load_snapshot(location), branch_location(location, EXP), branch=EXP)
    record = Branch(
        name=EXP,
        parent_branch=None,
        parent_version=Version(1),
        created_at_seconds=1,
        manifest_size=made.manifest.size,
    )
    store.put(branch_key(EXP), encode_branch(record))
    branch = change(made, lambda _: Append((fragment("work", 2, base=0),)))
    change(branch, lambda now: Delete((without(now, 0, [1]), without(now, 1, [0])), ()))
    return store


def without(snapshot: Snapshot, number: int, offsets: Sequence[int]) -> Fragment:
    now = snapshot.manifest.fragment(FragmentId(number))
    before = snapshot.deletions(now) or BitMap()
    store, version = snapshot.location.store, snapshot.manifest.version
    left = write_deletions(store, version, now, before | BitMap(offsets))
    assert left is not None
    return left


def change(snapshot: Snapshot, build: Callable[[Snapshot], Operation]) -> Snapshot:
    done, _ = execute(snapshot, lambda now: Change(build(now), None), PERSISTENT)
    return done


def publishes(store: Store) -> object:
    location = Location(store)
    found, _ = publish(
        load_snapshot(location),
        "exp",
        None,
        adopt=True,
        commit_options=PERSISTENT,
        runner=LocalRunner(1),
    )
    return found.manifest.version


def appends(name: str) -> Writer:
    def write(store: Store) -> object:
        first = load_snapshot(Location(store), version=1)
        return change(first, lambda _: Append((fragment(name, 3),))).manifest.version

    return write


def appends_to_the_branch(store: Store) -> object:
    branch = load_snapshot(branch_location(Location(store), EXP), version=3)
    return change(branch, lambda _: Append((fragment("late", 3, base=0),))).manifest.version


def deletes(row: int) -> Writer:
    def write(store: Store) -> object:
        first = load_snapshot(Location(store), version=1)
        return change(first, lambda now: Delete((without(now, 0, [row]),), ())).manifest.version

    return write


def resets(store: Store) -> object:
    return reset(load_snapshot(Location(store)), "exp", None, force=False).manifest.version


def publishings(store: Store) -> list[int]:
    """The versions of main that are the work of the branch."""
    return [
        version
        for version in list_versions(store).versions
        if BRANCH_PROPERTY in load_transaction_of(store, version, NamingScheme.V2).properties
    ]


def is_closed(store: Store) -> bool:
    return PUBLISHED_KEY in load_version(store.at("tree/exp"))[0].config


def orders(writers: Sequence[Writer], seed: int) -> list[ScheduleOutcome]:
    few = list(explore(fresh, writers, verbs=SHARED, limit=MANY, seed=seed))
    return [*few, *explore(fresh, writers, limit=MANY // 2, seed=seed + 1)]


def test_an_append_beside_a_publisher_is_never_lost() -> None:
    for outcome in orders([publishes, appends("more"), appends("and more")], 3):
        assert sorted(outcome.results) == [2, 3, 4], outcome  # type: ignore[type-var]
        rows = live_rows(outcome.store)
        assert {name: len(each) for name, each in rows.items()} == {
            "first": 5,
            "work": 1,
            "more": 3,
            "and more": 3,
        }
        assert publishings(outcome.store) == [outcome.results[0]]


def test_two_publishers_publish_once() -> None:
    for outcome in orders([publishes, publishes], 5):
        assert outcome.results == [2, 2], outcome
        assert publishings(outcome.store) == [2]
        assert live_rows(outcome.store) == {"first": [0, 2, 3, 4, 5], "work": [7]}


def test_two_publishers_and_an_append_publish_once() -> None:
    for outcome in orders([publishes, publishes, appends("more")], 7):
        one, other, _ = outcome.results
        assert one == other, outcome
        assert publishings(outcome.store) == [one]
        assert sorted(map(len, live_rows(outcome.store).values())) == [1, 3, 5]


def test_what_is_written_to_the_branch_is_published_or_refused() -> None:
    seen = set()
    for outcome in orders([publishes, appends_to_the_branch], 9):
        done, late = outcome.results
        assert done == 2, outcome
        assert isinstance(late, int | IncompatibleConflictError), outcome
        assert ("late" in live_rows(outcome.store)) == isinstance(late, int), outcome
        seen.add(type(late))
    assert seen == {int, IncompatibleConflictError}


@pytest.mark.parametrize("row", [1, 4])
def test_a_delete_beside_a_publisher_goes_first_or_second(row: int) -> None:
    """Row 1 is deleted on the branch as well: who comes second is refused, or deletes again."""
    seen = set()
    for outcome in orders([publishes, deletes(row)], 11):
        done, deleted = outcome.results
        assert isinstance(done, int | ConflictError), outcome
        assert isinstance(deleted, int), outcome
        assert is_closed(outcome.store) == isinstance(done, int), outcome
        assert len(publishings(outcome.store)) == isinstance(done, int), outcome
        rows = live_rows(outcome.store)["first"]
        assert rows == [
            each for each in range(6) if each not in ({1, row} if isinstance(done, int) else {row})
        ]
        seen.add(type(done))
    assert int in seen


def test_a_reset_beside_a_publisher_never_loses_the_work() -> None:
    for outcome in orders([publishes, resets], 13):
        done, began = outcome.results
        assert isinstance(done, int), outcome
        assert isinstance(began, int | ConflictError), outcome
        assert publishings(outcome.store) == [2]
        assert live_rows(outcome.store) == {"first": [0, 2, 3, 4, 5], "work": [7]}
