"""A failure, a lost answer or a death at every store call of what a repository does to its tables.

A cleanup lands first: afterwards every commit still opens, and nothing has landed twice. A tag that
says to whom a table belongs, or keeps a version, is there or not, and the next attempt finishes it.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from tests.faults.hurting import MODES, ONE, copied, every_call, through
from tests.unit.catalog.world import ID, ROWS, World, append

import lancewood as lw
from lancewood.catalog.membership import (
    Membership,
    join,
    member_tag,
    protect,
    protection_tag,
    repositories_of,
)
from lancewood.catalog.opening import open_pin
from lancewood.catalog.reachable import pinned
from lancewood.engine.location.location import Location
from lancewood.engine.snapshot.snapshot import Snapshot, load_snapshot
from lancewood.engine.versions.refs import load_tag
from lancewood.store.base import Store
from lancewood.store.disk import DiskStore
from lancewood.testing.faults import Mode

pytestmark = pytest.mark.usefixtures("no_commit_under_way")

REF = "refs/tags/v1"


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Versions 1 to 4, of which 1 and 3 are pinned, and two states on 4 that wait."""
    made = World(tmp_path / "repo")
    made.commit({"photos": made.create("photos")})
    table = lw.open(made.home("photos")).append(ROWS).append(ROWS)
    made.commit({"photos": made.standing("photos")})
    table.append(ROWS)
    made.commit({"photos": made.staged("photos", append, append)})
    shutil.copytree(made.home("photos"), tmp_path / "copy")
    return made


def cleanup(store: Store) -> None:
    table = through(store.uri, store)
    table.cleanup(keep_versions=1, in_flight=timedelta(days=7), runner=ONE)


def check(world: World) -> None:
    for each in pinned(world.git, "photos"):
        assert lw.Table(open_pin(each.pin, world.path)).to_arrow().num_rows == each.pin.rows


@pytest.mark.parametrize("mode", ["after", "kill"])
def test_every_commit_opens_whatever_call_of_a_cleanup_goes_wrong(
    world: World, tmp_path: Path, mode: Mode
) -> None:
    outcomes = set()
    for attempt in every_call(mode, lambda _: copied(tmp_path / "copy", world.home("photos"))):
        outcomes.add(attempt.run(cleanup, attempt.store).replace("unknown", "failed"))
        check(world)
        cleanup(DiskStore(world.home("photos")))
        check(world)
        versions = [each.version for each in lw.open(world.home("photos")).versions()]
        # 4 is held if the handle was on it when the cleanup came to its end. 5, the first step of a
        # commit, is if a stopped cleanup had taken what shows that the last one has landed.
        assert set(versions) - {4, 5} == {1, 3, 6}, (attempt.at, versions)
        assert lw.open(world.home("photos")).count_rows() == 18
    assert outcomes == {"done", "dead" if mode == "kill" else "failed"}


def _join(snapshot: Snapshot, path: Path) -> bool:
    return join(snapshot, path, ID, "photos")


def _protect(snapshot: Snapshot, path: Path) -> bool:
    return protect(snapshot, REF, ID)


def _joined(store: Store, path: Path) -> bool:
    found = repositories_of(load_snapshot(Location(store)))
    assert found in ((), (Membership(path, ("photos",), ID, member_tag(ID)),))
    return bool(found)


def _protected(store: Store, path: Path) -> bool:
    found = load_tag(store, protection_tag(REF))
    assert found is None or found.version == 2
    return found is not None


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("verb", "is_done"), [(_join, _joined), (_protect, _protected)], ids=["join", "protect"]
)
def test_a_tag_is_there_or_not_and_the_next_attempt_finishes_it(
    tmp_path: Path,
    mode: Mode,
    verb: Callable[[Snapshot, Path], bool],
    is_done: Callable[[Store, Path], bool],
) -> None:
    uri = tmp_path / "t.lance"
    lw.create(uri, ROWS).append(ROWS)
    inner = DiskStore(uri)
    for attempt in every_call(mode, lambda _: inner, more_than=1):
        shutil.rmtree(uri / "_refs", ignore_errors=True)
        found = load_snapshot(Location(inner))
        outcome = attempt.run(verb, through(uri, attempt.store)._snapshot, tmp_path)
        assert is_done(inner, tmp_path) or outcome != "done"
        verb(found, tmp_path)
        assert is_done(inner, tmp_path)
        assert not verb(found, tmp_path)
    assert outcome == "done"
