"""A base path that is set, or declared, while others write to it, stepped at every store call.

Nobody's commit is swallowed, and what lands after a base path was set was written to where it leads
now. Data files are only named, after the place that the writer saw.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.breadth import daily
from tests.metadata import FIELDS, PERSISTENT, QUIET, SHARED, begun
from tests.metadata import fragment as fragment_of

from lancewood.engine.location.location import Location
from lancewood.engine.snapshot.snapshot import load_snapshot
from lancewood.engine.versions.finding import list_versions, load_version
from lancewood.errors import ConflictError
from lancewood.jobs.base_changes import AddBase, SetBase
from lancewood.model.fragment import Fragment
from lancewood.model.ids import BaseId
from lancewood.model.manifest import Manifest
from lancewood.model.transaction import Append, Overwrite, Transaction
from lancewood.proto import table_pb2
from lancewood.store.base import Store
from lancewood.testing.schedule import ScheduleOutcome, Writer, explore

OLD, NEW = "memory://old", "memory://new"
COLD = BaseId(1)
MANY = daily(30, of=120)


def fragment(name: str) -> Fragment:
    return fragment_of(name, 6, base=COLD)


def fresh() -> Store:
    """A table at version 1 that declares one base path, and has a fragment there."""
    base = table_pb2.BasePath(id=COLD, path=OLD, name="cold")
    return begun(Overwrite((fragment("first"),), FIELDS, initial_bases=(base,)))


def sets(store: Store) -> Manifest:
    snapshot = load_snapshot(Location(store))
    return SetBase("cold", NEW, check=False).run(snapshot, PERSISTENT)[0].manifest


def adds(path: str) -> Writer:
    def act(store: Store) -> Manifest:
        snapshot = load_snapshot(Location(store))
        return AddBase(path).run(snapshot, PERSISTENT)[0].manifest

    return act


def writes(make: Callable[[Fragment], Append | Overwrite], name: str) -> Writer:
    """Writes a file to where the base path leads in the version that it read, then commits."""

    def act(store: Store) -> Manifest:
        snapshot = load_snapshot(Location(store))
        written = fragment(f"{name} at {_bare(snapshot.manifest.base_paths[0].path)}")
        transaction = Transaction.new(snapshot.manifest.version, make(written))
        return snapshot.commit(transaction, QUIET).manifest

    return act


def _bare(path: str) -> str:
    return path.removeprefix("memory://")


def appends(name: str) -> Writer:
    return writes(lambda new: Append((new,)), name)


def overwrites(name: str) -> Writer:
    return writes(lambda new: Overwrite((new,), FIELDS), name)


def names(manifest: Manifest) -> list[str]:
    return [each.files[0].path for each in manifest.fragments]


def newest(outcome: ScheduleOutcome) -> Manifest:
    return load_version(outcome.store, None)[0]


def check(outcome: ScheduleOutcome) -> None:
    where = outcome.calls
    done, *others = outcome.results
    assert isinstance(done, Manifest), where
    assert done.base_paths[0].path == NEW, where
    assert newest(outcome).base_paths[0].path == NEW, "nobody brings the old path back"
    landed = [each for each in others if isinstance(each, Manifest)]
    for each in others:
        assert isinstance(each, Manifest | ConflictError), (each, where)
    assert len(list_versions(outcome.store).versions) == 2 + len(landed), where
    for each in landed:
        mine = set(names(each)) - {"first"}
        if each.version > done.version:
            assert not any(name.endswith(_bare(OLD)) for name in mine - set(names(done))), where
        elif not any(name.startswith("over") for name in names(done)):
            assert mine <= set(names(done)), "a commit that landed before is not swallowed"


@pytest.mark.parametrize(
    "others",
    [
        [appends("one")],
        [overwrites("over")],
        [appends("one"), appends("two")],
        [appends("one"), overwrites("over")],
    ],
    ids=["append", "overwrite", "two appends", "append and overwrite"],
)
def test_who_writes_while_a_base_path_is_set_lands_where_it_leads_or_not_at_all(
    others: list[Writer],
) -> None:
    limit = None if len(others) == 1 else MANY
    seen = set()
    for outcome in explore(fresh, [sets, *others], limit, verbs=SHARED):
        check(outcome)
        seen |= {type(each).__name__ for each in outcome.results[1:]}
    assert len(seen) > 1, "some landed and some were told to run again"


def test_two_who_set_the_same_base_path_agree() -> None:
    for outcome in explore(fresh, [sets, sets], verbs=SHARED):
        assert all(isinstance(each, Manifest) for each in outcome.results), outcome.calls
        assert newest(outcome).base_paths[0].path == NEW
        assert newest(outcome).version in (2, 3)


def test_base_paths_declared_at_the_same_time_get_ids_of_their_own() -> None:
    for outcome in explore(
        fresh, [adds("memory://x"), adds("memory://y"), sets], MANY, verbs=SHARED
    ):
        assert all(isinstance(each, Manifest) for each in outcome.results), outcome.calls
        bases = {each.path: each.id for each in newest(outcome).base_paths}
        assert set(bases) == {NEW, "memory://x", "memory://y"}
        assert sorted(bases.values()) == [1, 2, 3]
