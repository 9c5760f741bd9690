"""Pins and tags of a repository, judged by others: stock git reads the pins, pylance the versions.

What pylance's own cleanup leaves of pinned versions is tried here, too.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import lance as pylance
import pyarrow as pa
import pytest
from tests.interop.git_judge import check, git
from tests.unit.catalog.world import ID, ROWS, World, append

import lancewood as lw
from lancewood.catalog.membership import (
    join,
    member_tag,
    protect,
    protection_tag,
    repositories_of,
    unprotect,
)
from lancewood.catalog.opening import open_pin
from lancewood.catalog.pin import Pin
from lancewood.catalog.reachable import pinned
from lancewood.catalog.tables import TableTree
from lancewood.engine.location.location import Location
from lancewood.engine.snapshot.snapshot import load_snapshot
from lancewood.git.values import Hash
from lancewood.store.disk import DiskStore

pytestmark = pytest.mark.usefixtures("no_commit_under_way")

lance: Any = pylance
REF = "refs/tags/v1"


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path / "repo")
    made.commit({"photos": made.create("photos")})
    return made


def theirs(world: World, pin: Pin) -> pa.Table:
    uri = str(world.home("photos"))
    if pin.branch is None:
        return lance.dataset(uri, version=pin.version).to_table()
    return lance.dataset(uri).checkout_version((str(pin.branch), pin.version)).to_table()


def cleanup_by_pylance(world: World) -> None:
    lance.dataset(str(world.home("photos"))).cleanup_old_versions(
        timedelta(0), delete_unverified=True, error_if_tagged_old_versions=False
    )


def test_pylance_reads_at_every_pin_what_we_read(world: World) -> None:
    lw.open(world.home("photos")).branches.create("exp").append(ROWS)
    pins = [
        world.standing("photos"),
        world.standing("photos", "exp"),
        world.staged("photos", append, lambda each: each.delete("a = 2")),
        world.staged("photos", branch="exp"),
    ]
    for pin in pins:
        ours = lw.Table(open_pin(pin, world.path)).to_arrow()
        assert ours.num_rows == pin.rows
        assert theirs(world, pin).to_pydict() == ours.to_pydict()


def test_a_pin_of_a_table_by_pylance_says_what_pylance_says(world: World) -> None:
    uri = str(world.home("theirs"))
    data = pa.table({"id": pa.array([1, 2], pa.int64()), "vector": [[1.0, 2.0], [3.0, 4.0]]})
    dataset = lance.write_dataset(data, uri)
    dataset = lance.write_dataset(data, uri, mode="append")
    dataset.delete("id = 1")
    pin = world.standing("theirs")
    assert (pin.version, pin.rows, pin.fragments) == (3, 2, 2)
    assert [column for column, _ in pin.schema] == dataset.schema.names
    assert lw.Table(open_pin(pin, world.path)).to_arrow() == lance.dataset(uri).to_table()


def test_git_shows_a_change_of_a_table_line_by_line(world: World) -> None:
    lw.open(world.home("photos")).append(ROWS).add_columns({"b": "a + 1"})
    world.commit({"photos": world.standing("photos")})
    check(world.path)
    diff = git(world.path, "diff", "-U0", "main~1", "main", "--", "tables/photos.json")
    lines = [each for each in diff.splitlines() if each[:1] in "+-" and each[:3] not in "+++---"]
    assert '-  "version": 1,' in lines
    assert '+  "version": 3,' in lines
    assert '-  "rows": 3,' in lines
    assert '+  "rows": 6,' in lines
    assert '+    "b: int64"' in lines
    assert not [each for each in lines if "uri" in each or "branch" in each]
    assert git(world.path, "ls-tree", "-r", "--name-only", "main") == "tables/photos.json"


def test_files_that_git_put_into_a_commit_stay_in_the_next(world: World) -> None:
    blob = git(world.path, "hash-object", "-w", "--stdin", given="read me\n")
    inner = git(world.path, "rev-parse", "main:tables")
    tree = git(
        world.path,
        "mktree",
        given=f"100644 blob {blob}\tREADME.md\n040000 tree {inner}\ttables\n",
    )
    made = git(world.path, "commit-tree", tree, "-p", "main", "-m", "by git")
    git(world.path, "update-ref", "refs/heads/main", made)
    lw.open(world.home("photos")).append(ROWS)
    world.commit({"photos": world.standing("photos")})
    check(world.path)
    assert git(world.path, "show", "main:README.md") == "read me"
    changed = git(world.path, "diff", "--name-only", "main~1", "main")
    assert changed == "tables/photos.json"


def test_pins_are_found_behind_tags_of_git(world: World) -> None:
    for _ in range(3):
        lw.open(world.home("photos")).append(ROWS)
        world.commit({"photos": world.standing("photos")})
    alone = git(world.path, "commit-tree", "main~1^{tree}", "-m", "an orphan")
    git(world.path, "tag", "-a", "v1", "-m", "a tag with words", alone)
    git(world.path, "tag", "-a", "v2", "-m", "a tag of a tag", "v1")
    git(world.path, "tag", "-d", "v1")
    git(world.path, "tag", "-a", "v3", "-m", "of a file", "main:tables/photos.json")
    git(world.path, "update-ref", "refs/heads/main", "main~3")
    git(world.path, "reflog", "expire", "--expire=now", "--expire-unreachable=now", "--all")
    assert sorted(each.pin.version for each in pinned(world.git, "photos")) == [1, 3]


def test_pins_are_found_after_gits_own_gc(world: World) -> None:
    for _ in range(3):
        lw.open(world.home("photos")).append(ROWS)
        world.commit({"photos": world.standing("photos")})
    git(world.path, "update-ref", "refs/heads/main", "main~3")
    git(world.path, "pack-refs", "--all")
    git(world.path, "gc", "--prune=now", "--quiet")
    assert sorted(each.pin.version for each in pinned(world.git, "photos")) == [1, 2, 3, 4]
    git(world.path, "reflog", "expire", "--expire=now", "--expire-unreachable=now", "--all")
    git(world.path, "gc", "--prune=now", "--quiet")
    assert sorted(each.pin.version for each in pinned(world.git, "photos")) == [1]


def test_identical_tables_have_identical_trees_whoever_writes_them(world: World) -> None:
    tip = world.tip()
    assert tip is not None
    ours = world.tree(tip).put()
    text = git(world.path, "cat-file", "blob", "main:tables/photos.json") + "\n"
    blob = git(world.path, "hash-object", "-w", "--stdin", given=text)
    inner = git(world.path, "mktree", given=f"100644 blob {blob}\tphotos.json\n")
    assert git(world.path, "mktree", given=f"040000 tree {inner}\ttables\n") == ours
    assert TableTree.of(world.git.objects, Hash(ours)).blob_hash("photos") == blob


def test_what_a_tag_protects_survives_the_cleanup_of_both(world: World) -> None:
    pins = []
    for _ in range(3):
        pins.append(world.staged("photos", append, append))
        world.commit({"photos": pins[-1]})
        world.land(pins[-1])
    landed = load_snapshot(world.location("photos"), version=5)
    assert protect(landed, REF, ID)
    name = str(protection_tag(REF))
    listed = lance.dataset(str(world.home("photos"))).tags.list()
    assert listed[name]["version"] == 5
    lw.open(world.home("photos")).append(ROWS)
    cleanup_by_pylance(world)
    kept = [each["version"] for each in lance.dataset(str(world.home("photos"))).versions()]
    assert kept == [5, 8]
    assert lw.Table(open_pin(pins[1], world.path)).to_arrow().num_rows == 15
    lw.open(world.home("photos")).cleanup(keep_versions=1, in_flight=timedelta(0))
    assert lw.Table(open_pin(pins[1], world.path)).to_arrow().num_rows == 15
    dataset = lance.dataset(str(world.home("photos")), version=name)
    dataset.validate()
    assert dataset.count_rows() == 15
    assert unprotect(world.location("photos"), REF, ID)
    assert name not in lance.dataset(str(world.home("photos"))).tags.list()


def test_every_commit_opens_after_our_cleanup_and_pylance_reads_on(world: World) -> None:
    for _ in range(3):
        pin = world.staged("photos", append, lambda each: each.delete("a = 3"))
        world.commit({"photos": pin})
        world.land(pin)
        lance.write_dataset(ROWS, str(world.home("photos")), mode="append")
    world.commit({"photos": world.staged("photos")})
    lance.write_dataset(ROWS, str(world.home("photos")), mode="append")
    report = lw.open(world.home("photos")).cleanup(keep_versions=1, in_flight=timedelta(0))
    assert report.landed == (12,)
    for each in pinned(world.git, "photos"):
        found = lw.Table(open_pin(each.pin, world.path)).to_arrow()
        assert found.num_rows == each.pin.rows
        assert theirs(world, each.pin).to_pydict() == found.to_pydict()
    dataset = lance.dataset(str(world.home("photos")))
    dataset.validate()
    assert dataset.version == lw.open(world.home("photos")).version


def test_the_tag_of_a_repository_survives_pylance_and_names_it(tmp_path: Path) -> None:
    world = World(tmp_path / "repo")
    uri = str(tmp_path / "away.lance")
    lance.write_dataset(ROWS, uri)
    snapshot = load_snapshot(Location(DiskStore(uri)))
    assert join(snapshot, world.path, ID, "away")
    dataset = lance.write_dataset(ROWS, uri, mode="append")
    assert dataset.tags.list()[str(member_tag(ID))]["version"] == 1
    dataset.cleanup_old_versions(
        timedelta(0), delete_unverified=True, error_if_tagged_old_versions=False
    )
    (found,) = repositories_of(load_snapshot(Location(DiskStore(uri))))
    assert (found.repository, found.names) == (world.path, ("away",))
    assert lance.dataset(uri, version=1).count_rows() == 3
