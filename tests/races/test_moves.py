"""A move beside other writers, stepped at what they share: nobody's work is lost, in any order.

Data files are only named: nobody opens them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import pytest
from pyroaring import BitMap
from tests.breadth import EVERY_CASE
from tests.metadata import SHARED, begun, data_file, field, live_rows, writer
from tests.metadata import fragment as fragment_of

from lancewood.engine.location.deletion_vectors import load_deletions, write_deletions
from lancewood.engine.location.location import Location
from lancewood.engine.versions.finding import list_versions, load_version
from lancewood.errors import RetryableConflictError
from lancewood.model.fragment import Fragment
from lancewood.model.ids import BaseId, FieldId, FragmentId
from lancewood.model.manifest import Manifest
from lancewood.model.rowids import RowIdSequence
from lancewood.model.transaction import (
    Append,
    Delete,
    Operation,
    Overwrite,
    Update,
)
from lancewood.proto import table_pb2
from lancewood.rules.moves import moved_files, same_elsewhere
from lancewood.store.base import Store
from lancewood.testing.schedule import ScheduleOutcome, explore

FIELDS = (field(0, "a"), field(1, "b"))
COLD = table_pb2.BasePath(id=1, name="cold", path="memory://cold")
ROWS = 6
ZERO, ONE = FragmentId(0), FragmentId(1)
Build: TypeAlias = Callable[[Store, Manifest], Operation]
FileRoots: TypeAlias = dict[str, BaseId | None]


def fragment(name: str, rows: int = ROWS) -> Fragment:
    return fragment_of(name, rows, 0, 1)


def fresh() -> Store:
    """A table at version 1: two fragments in the own root, and a base path."""
    images = (fragment("first"), fragment("second"))
    return begun(Overwrite(images, FIELDS, initial_bases=(COLD,)))


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
    image = now.with_columns(data_file("column", 1))
    return Update((), (image,), (), (FieldId(1),), rewrites_columns=True)


def appends(store: Store, manifest: Manifest) -> Operation:
    return Append((fragment("more", 2),))


def file_roots(manifest: Manifest) -> FileRoots:
    return {file.path: file.base_id for each in manifest.fragments for file in each.files}


def all_rows(store: Store) -> list[int]:
    return sorted(row for each in live_rows(store).values() for row in each)


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
        assert all_rows(outcome.store) == rows
        assert file_roots(newest) == {"second": None, **wanted}
        runs += 1
    assert runs >= 6


def test_a_move_never_brings_back_a_fragment_that_was_deleted_whole() -> None:
    builds = [writer(moves(ZERO, ONE)), writer(deletes(*range(ROWS)))]
    for outcome in explore(fresh, builds, verbs=SHARED):
        newest, landed = check(outcome)
        assert landed == {0, 1}
        assert file_roots(newest) == {"cold-second": BaseId(1)}
        assert all_rows(outcome.store) == [*range(6, 12)]


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
    limit = None if EVERY_CASE else 200
    for outcome in explore(fresh, builds, limit, verbs=SHARED):
        newest, landed = check(outcome)
        assert landed == {0, 1, 2}
        cold = BaseId(1)
        assert file_roots(newest) == {"cold-first": cold, "cold-second": cold, "more": None}
        assert all_rows(outcome.store) == sorted({*range(14)} - {3})
        runs += 1
    assert runs > 90
