"""A move beside other writers, stepped at what they share: nobody's work is lost, in any order.

Data files are only named: nobody opens them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import pytest
from pyroaring import BitMap
from tests.breadth import EVERY_CASE

from lancewood.engine.commit.commit import CommitPolicy, commit
from lancewood.engine.location.location import Location
from lancewood.engine.location.vectors import load_deletions, write_deletions
from lancewood.engine.versions.finding import list_versions, load_version
from lancewood.errors import RetryableConflictError
from lancewood.format.layout import NamingScheme
from lancewood.format.manifest import empty_manifest
from lancewood.model.fragment import DataFile, Fragment
from lancewood.model.ids import BaseId, FieldId, FragmentId, Version
from lancewood.model.manifest import Manifest
from lancewood.model.operations import (
    Append,
    Delete,
    Operation,
    Overwrite,
    Update,
)
from lancewood.model.rowids import RowIdSequence
from lancewood.model.transaction import Transaction
from lancewood.proto import schema_pb2, table_pb2
from lancewood.rules.moves import moved_files, same_elsewhere
from lancewood.store.base import Store
from lancewood.store.memory import MemoryStore
from lancewood.testing.schedule import ScheduleOutcome, explore

FIELDS = (
    schema_pb2.Field(id=0, name="a", parent_id=-1, logical_type="int64"),
    schema_pb2.Field(id=1, name="b", parent_id=-1, logical_type="int64"),
)
COLD = table_pb2.BasePath(id=1, name="cold", path="memory://cold")
ROWS = 6
ZERO, ONE = FragmentId(0), FragmentId(1)
SHARED = {"names", "put_new"}
Build: TypeAlias = Callable[[Store, Manifest], Operation]
FileRoots: TypeAlias = dict[str, BaseId | None]


def file(name: str, *fields: int) -> DataFile:
    ids = [FieldId(each) for each in fields]
    return DataFile.make(name, ids, range(len(ids)), (2, 2), 1)


def fragment(name: str, rows: int = ROWS) -> Fragment:
    return Fragment.make([file(name, 0, 1)], rows)


def policy() -> CommitPolicy:
    return CommitPolicy(sleep=lambda seconds: None)


def fresh() -> Store:
    """A table at version 1: two fragments in the own root, and a base path."""
    store = MemoryStore()
    images = (fragment("first"), fragment("second"))
    begin = Transaction.new(Version(0), Overwrite(images, FIELDS, initial_bases=(COLD,)))
    commit(Location(store), empty_manifest("2.2", flags=2), NamingScheme.V2, begin, policy())
    return store


def moves(*numbers: FragmentId, name: str = "cold") -> Build:
    """Brings fragments to the cold base."""

    def build(store: Store, manifest: Manifest) -> Operation:
        images = []
        for number in numbers:
            now = manifest.fragment(number)
            files = [
                same_elsewhere(each, f"{name}-{each.path}", BaseId(1))
                if each.base_id is None
                else each
                for each in now.files
            ]
            images.append(now.with_files(files))
        return moved_files(images)

    return build


def deletes(*rows: int) -> Build:
    """Takes rows out of the first fragment."""

    def build(store: Store, manifest: Manifest) -> Operation:
        now = manifest.fragment(ZERO)
        before = load_deletions(Location(store), manifest, now) or BitMap()
        left = write_deletions(store, manifest.version, now, before | BitMap(rows))
        return Delete((), (ZERO,)) if left is None else Delete((left,), ())

    return build


def updates(*rows: int) -> Build:
    """Moves rows of the first fragment into a new one; they keep their ids."""

    def build(store: Store, manifest: Manifest) -> Operation:
        left = write_deletions(store, manifest.version, manifest.fragment(ZERO), BitMap(rows))
        assert left is not None
        ids = RowIdSequence.from_values(rows)
        return Update((), (left,), (fragment("new", len(rows)).with_lineage(ids, None, None),))

    return build


def rewrites_a_column(store: Store, manifest: Manifest) -> Operation:
    now = manifest.fragment(ZERO)
    image = now.with_columns(file("column", 1))
    return Update((), (image,), (), (FieldId(1),), rewrites_columns=True)


def appends(store: Store, manifest: Manifest) -> Operation:
    return Append((fragment("more", 2),))


def writer(build: Build) -> Callable[[Store], object]:
    """Builds on version 1, and commits once."""

    def write(store: Store) -> object:
        base, scheme = load_version(store, 1)
        transaction = Transaction.new(base.version, build(store, base))
        return commit(Location(store), base, scheme, transaction, policy()).version

    return write


def file_roots(manifest: Manifest) -> FileRoots:
    return {file.path: file.base_id for each in manifest.fragments for file in each.files}


def live_rows(store: Store, manifest: Manifest) -> list[int]:
    """The ids of all live rows; each of their fragments knows as many deletions as it has."""
    found: list[int] = []
    for each in manifest.fragments:
        assert each.row_ids is not None
        gone = load_deletions(Location(store), manifest, each) or BitMap()
        assert each.num_deleted_rows == len(gone)
        found += each.row_ids.without(gone)
    return sorted(found)


def check(outcome: ScheduleOutcome, may_fail: Sequence[int] = ()) -> tuple[Manifest, set[int]]:
    """The newest version, and who got through: all but those that may fail."""
    landed = set()
    for number, each in enumerate(outcome.results):
        if isinstance(each, int):
            landed.add(number)
        else:
            assert number in may_fail, outcome
            assert isinstance(each, RetryableConflictError), outcome
    assert list_versions(outcome.store).versions == tuple(range(1 + len(landed), 0, -1))
    return load_version(outcome.store)[0], landed


CASES: dict[str, tuple[Build, list[int], FileRoots]] = {
    "an append": (appends, [*range(14)], {"cold-first": BaseId(1), "more": None}),
    "a delete": (deletes(1, 2), [0, 3, 4, 5, *range(6, 12)], {"cold-first": BaseId(1)}),
    "an update of rows": (updates(1), [*range(12)], {"cold-first": BaseId(1), "new": None}),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_a_move_and_another_both_land_in_every_order(
    case: tuple[Build, list[int], FileRoots],
) -> None:
    build, rows, wanted = case
    runs = 0
    for outcome in explore(fresh, [writer(moves(ZERO)), writer(build)], verbs=SHARED):
        newest, landed = check(outcome)
        assert landed == {0, 1}
        assert live_rows(outcome.store, newest) == rows
        assert file_roots(newest) == {"second": None, **wanted}
        runs += 1
    assert runs >= 6


def test_a_move_never_brings_back_a_fragment_that_was_deleted_whole() -> None:
    builds = [writer(moves(ZERO, ONE)), writer(deletes(*range(ROWS)))]
    for outcome in explore(fresh, builds, verbs=SHARED):
        newest, landed = check(outcome)
        assert landed == {0, 1}
        assert file_roots(newest) == {"cold-second": BaseId(1)}
        assert live_rows(outcome.store, newest) == [*range(6, 12)]


def test_a_column_rewritten_on_the_old_files_is_run_again_after_a_move_never_before() -> None:
    results = set()
    builds = [writer(moves(ZERO)), writer(rewrites_a_column)]
    for outcome in explore(fresh, builds, verbs=SHARED):
        newest, landed = check(outcome, may_fail=[1])
        found = file_roots(newest)
        wanted: FileRoots = {"cold-first": BaseId(1), "second": None}
        assert found == (wanted | {"column": None} if 1 in landed else wanted)
        assert all(each.last_updated_at is not None for each in newest.fragments)
        marks = list(newest.fragment(ZERO).last_updated_at or ())
        assert (marks == [1] * ROWS) == (1 not in landed)
        results.add(frozenset(landed))
    assert results == {frozenset({0}), frozenset({0, 1})}


def test_of_two_moves_of_the_same_fragment_one_has_nothing_left_to_do() -> None:
    builds = [writer(moves(ZERO, name="x")), writer(moves(ZERO, name="y"))]
    for outcome in explore(fresh, builds, verbs=SHARED):
        newest, landed = check(outcome, may_fail=[0, 1])
        assert len(landed) == 1
        name = "x" if landed == {0} else "y"
        assert file_roots(newest) == {f"{name}-first": BaseId(1), "second": None}


def test_two_moves_that_share_a_fragment_both_land() -> None:
    builds = [writer(moves(ZERO, ONE, name="x")), writer(moves(ONE, name="y"))]
    for outcome in explore(fresh, builds, verbs=SHARED):
        newest, landed = check(outcome, may_fail=[1])
        found = file_roots(newest)
        assert set(found.values()) == {BaseId(1)}
        assert found.keys() in ({"x-first", "x-second"}, {"x-first", "y-second"})
        assert ("y-second" in found) == (landed == {0, 1})


def test_a_move_a_delete_and_an_append_all_land_in_every_order() -> None:
    builds = [writer(moves(ZERO, ONE)), writer(deletes(3)), writer(appends)]
    runs = 0
    limit = None if EVERY_CASE else 500
    for outcome in explore(fresh, builds, limit, verbs=SHARED):
        newest, landed = check(outcome)
        assert landed == {0, 1, 2}
        cold = BaseId(1)
        assert file_roots(newest) == {"cold-first": cold, "cold-second": cold, "more": None}
        assert live_rows(outcome.store, newest) == sorted({*range(14)} - {3})
        runs += 1
    assert runs > 90
