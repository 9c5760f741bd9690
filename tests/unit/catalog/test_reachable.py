"""Which pins can still be reached: through refs, HEAD and reflogs, and at which cost."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.unit.catalog.pins import some_pin
from tests.unit.catalog.world import World

from lancewood.catalog import reachable, tables
from lancewood.catalog.pin import Pin
from lancewood.catalog.reachable import PinWalk, pinned
from lancewood.errors import FormatError, NotFoundError
from lancewood.git.objects import FILE, TREE, Commit, Objects, Signature, TreeEntry
from lancewood.git.repository import GitRepository
from lancewood.git.values import Hash


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "repo")


def pin(version: int, name: str = "photos") -> Pin:
    return some_pin(name, version)


def versions(world: World, name: str = "photos") -> list[int]:
    """What is pinned, to somebody who has just come."""
    return sorted(each.pin.version for each in pinned(GitRepository.open(world.path), name))


def test_a_repository_without_a_commit_pins_nothing(world: World) -> None:
    assert versions(world) == []


def test_every_commit_of_a_branch_counts_and_each_pin_once(world: World) -> None:
    for version in (1, 2, 2, 3):
        world.commit({"photos": pin(version), "other": pin(version + 10, "other")})
    assert versions(world) == [1, 2, 3]
    assert versions(world, "other") == [11, 12, 13]
    assert versions(world, "absent") == []


def test_a_pin_comes_with_a_commit_that_has_it(world: World) -> None:
    made = {world.commit({"photos": pin(each)}): each for each in (1, 2, 3)}
    assert {each.commit: each.pin.version for each in pinned(world.git, "photos")} == made


def test_a_table_that_was_removed_is_still_pinned_by_its_history(world: World) -> None:
    world.commit({"photos": pin(1)})
    world.commit({"photos": None})
    assert versions(world) == [1]


def test_branches_tags_and_merges_count(world: World) -> None:
    base = world.commit({"photos": pin(1)})
    one = world.commit({"photos": pin(2)})
    two = world.commit({"photos": pin(3)}, "exp", parents=[base])
    world.commit({}, parents=[one, two])
    tagged = world.git.objects.put_commit(
        world.tree(None).with_pins({"photos": pin(4)}).put(), (), world.by(), "alone"
    )
    assert world.git.refs.move("refs/tags/v1", None, tagged, why="tag", by=world.by())
    assert versions(world) == [1, 2, 3, 4]


def test_a_commit_that_only_the_reflog_knows_counts(world: World) -> None:
    base = world.commit({"photos": pin(1)})
    lost = world.commit({"photos": pin(2)})
    ref = "refs/heads/main"
    assert world.git.refs.move(ref, lost, base, why="reset", by=world.by())
    assert versions(world) == [1, 2]


def test_a_detached_head_counts(world: World) -> None:
    world.commit({"photos": pin(1)})
    alone = world.git.objects.put_commit(
        world.tree(None).with_pins({"photos": pin(9)}).put(), (), world.by(), "alone"
    )
    world.git.refs.detach_head(alone, why="checkout", by=world.by())
    assert versions(world) == [1, 9]


def test_what_git_removed_of_a_reflog_is_left_out(world: World) -> None:
    base = world.commit({"photos": pin(1)})
    lost = world.commit({"photos": pin(2)})
    assert world.git.refs.move("refs/heads/main", lost, base, why="reset", by=world.by())
    (world.path / "objects" / lost[:2] / lost[2:]).unlink()
    assert versions(world) == [1]


def test_a_missing_commit_of_a_branch_is_an_error_and_never_nothing(world: World) -> None:
    base = world.commit({"photos": pin(1)})
    tip = world.commit({"photos": pin(2)})
    (world.path / "objects" / base[:2] / base[2:]).unlink()
    with pytest.raises(NotFoundError, match="which versions of table 'photos' it pins is not kno"):
        versions(world)
    (world.path / "objects" / tip[:2] / tip[2:]).unlink()
    with pytest.raises(NotFoundError, match=tip):
        versions(world)


def test_a_pin_that_cannot_be_read_is_an_error_that_names_the_commit(world: World) -> None:
    objects = world.git.objects
    below = objects.put_tree({"photos.json": TreeEntry(FILE, objects.put_blob(b"{}"))})
    root = objects.put_tree({"tables": TreeEntry(TREE, below)})
    made = objects.put_commit(root, (), world.by(), "damaged")
    assert world.git.refs.move("refs/heads/main", None, made, why="commit", by=world.by())
    with pytest.raises(FormatError, match=rf"commit {made[:12]} .*tables/photos\.json"):
        versions(world)
    assert versions(world, "other") == []


def test_a_ref_to_a_file_pins_nothing(world: World) -> None:
    world.commit({"photos": pin(1)})
    blob = world.git.objects.put_blob(b"a key")
    assert world.git.refs.move("refs/tags/key", None, blob, why="tag", by=world.by())
    assert versions(world) == [1]


def test_asked_again_a_walk_gives_what_is_new(world: World) -> None:
    world.commit({"photos": pin(1)})
    walk = PinWalk(world.git, "photos")
    assert [each.pin.version for each in walk.more()] == [1]
    assert walk.more() == ()
    world.commit({"other": pin(7, "other")})
    world.commit({"photos": pin(2)})
    assert [each.pin.version for each in walk.more()] == [2]


def test_one_walk_gives_the_pins_of_all_tables(world: World) -> None:
    world.commit({"photos": pin(1), "other": pin(7, "other")})
    world.commit({"photos": pin(2)})
    walk = PinWalk(world.git)
    found = {(each.name, each.pin.version) for each in walk.more()}
    assert found == {("photos", 1), ("photos", 2), ("other", 7)}
    world.commit({"other": pin(8, "other"), "photos": pin(1)})
    assert [(each.name, each.pin.version) for each in walk.more()] == [("other", 8)]


def test_commits_that_share_their_tree_cost_one_read_each(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = {f"t{each}": pin(1, f"t{each}") for each in range(30)}
    world.commit({**many, "photos": pin(1)})
    for _ in range(50):
        world.commit({})
    world.commit({"t3": pin(2, "t3")})
    monkeypatch.setattr(tables, "_CACHE", tables._Cache())
    calls: Counter[str] = Counter()
    whole_commit, whole_tree, whole_blob = Objects.commit, Objects.tree, Objects.blob

    def commit(self: Objects, hash: Hash) -> Commit:
        calls["commit"] += 1
        return whole_commit(self, hash)

    def tree(self: Objects, hash: Hash) -> dict[str, TreeEntry]:
        calls["tree"] += 1
        return whole_tree(self, hash)

    def blob(self: Objects, hash: Hash) -> bytes:
        calls["blob"] += 1
        return whole_blob(self, hash)

    monkeypatch.setattr(Objects, "commit", commit)
    monkeypatch.setattr(Objects, "tree", tree)
    monkeypatch.setattr(Objects, "blob", blob)
    assert versions(world) == [1]
    assert calls == {"commit": 52, "tree": 4, "blob": 1}


def test_what_only_a_work_tree_of_git_has_checked_out_counts(world: World) -> None:
    base = world.commit({"photos": pin(1)})
    made = world.git.objects.put_commit(
        world.tree(base).with_pins({"photos": pin(2)}).put(), [base], world.by(), "apart"
    )
    world.git.objects.sync()
    there = world.path / "worktrees" / "work"
    there.mkdir(parents=True)
    (there / "HEAD").write_text(f"{made}\n")
    assert versions(world) == [1, 2]
    (there / "HEAD").write_text("half a ha")
    with pytest.raises(FormatError, match="worktrees/work/HEAD"):
        versions(world)


def test_what_only_a_ref_names_whose_name_is_not_utf8_counts(world: World) -> None:
    base = world.commit({"photos": pin(1)})
    made = world.git.objects.put_commit(
        world.tree(base).with_pins({"photos": pin(2)}).put(), [base], world.by(), "apart"
    )
    world.git.objects.sync()
    (world.path / "refs" / "heads" / os.fsdecode(b"caf\xe9")).write_text(f"{made}\n")
    assert versions(world) == [1, 2]


def test_who_looks_for_young_pins_does_not_read_all_old_commits(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    day = 24 * 60 * 60
    monkeypatch.setattr(reachable, "_OLD_IN_A_ROW", 1)
    for version in (1, 2, 3, 4, 5):
        by = Signature("Ada", "ada@example.org", 10**9 + version * day, 0)
        monkeypatch.setattr(world, "by", lambda by=by: by)
        world.commit({"photos": pin(version)})
    walk = PinWalk(world.git, "photos", since=10**9 + 5 * day)
    assert sorted(each.pin.version for each in walk.more()) == [3, 4, 5], "clocks differ by a day"
    assert walk.more() == ()
    whole = PinWalk(world.git, "photos", since=0)
    assert sorted(each.pin.version for each in whole.more()) == [1, 2, 3, 4, 5]


def test_what_many_branches_lead_to_is_asked_for_at_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a bucket a wave costs the time of one request, not of so many."""
    for number in range(20):
        tip = world.commit({"photos": pin(number + 1)})
        world.git.refs.move(f"refs/heads/b{number}", None, tip, why="made", by=world.by())
    sizes: list[int] = []

    def all_of(_: GitRepository, works: list[Callable[[], object]]) -> list[object]:
        sizes.append(len(works))
        return [work() for work in works]

    monkeypatch.setattr(GitRepository, "all_of", all_of)
    assert versions(world) == [*range(1, 21)]
    assert len(sizes) < 12
    assert sizes.count(20) >= 4
