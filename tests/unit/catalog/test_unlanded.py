"""What commits pin and no branch of a table holds yet: oldest first, and no further than needed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.unit.catalog.world import ROWS, World, append

import lancewood as lw
from lancewood.catalog.pin import Pin
from lancewood.catalog.reachable import waiting
from lancewood.errors import NotFoundError
from lancewood.git.repository import GitRepository
from lancewood.git.values import Hash
from lancewood.table.table import Table


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path / "repo")
    made.commit({"photos": made.create("photos"), "labels": made.create("labels")})
    return made


def missing(
    world: World, names: list[str] | None = None, branch: str = "main"
) -> list[tuple[str, Pin]]:
    tip = world.tip(branch)
    assert tip is not None
    git = GitRepository.open(world.path)
    return [(each.name, each.pin) for each in waiting(git, tip, world.path, names=names)]


def test_tables_that_were_pinned_as_they_stood_have_landed(world: World) -> None:
    assert missing(world) == []


def test_a_state_waits_until_it_has_landed(world: World) -> None:
    pin = world.staged("photos")
    world.commit({"photos": pin})
    assert missing(world) == [("photos", pin)]
    world.land(pin)
    assert missing(world) == []


def test_several_states_of_a_table_come_oldest_first(world: World) -> None:
    first = world.staged("photos", append, append)
    world.commit({"photos": first})
    world.land(first)
    second = world.staged("photos")
    world.commit({"photos": second})
    (world.home("photos") / "_versions" / _name(world, "photos")).unlink()
    (world.home("photos") / "_versions" / _name(world, "photos")).unlink()
    labels = world.staged("labels")
    world.commit({"labels": labels})
    assert missing(world) == [("photos", first), ("photos", second), ("labels", labels)]
    assert missing(world, ["labels"]) == [("labels", labels)]
    for _, each in missing(world):
        world.land(each)
    assert missing(world) == []
    assert lw.open(world.home("photos")).version == 4


def _name(world: World, name: str) -> str:
    """The file of the newest version."""
    head = world.head(name).manifest.name
    return head.rpartition("/")[2]


def test_the_walk_stops_at_what_has_landed(world: World) -> None:
    old = world.staged("photos")
    world.commit({"photos": old})
    world.land(old)
    new = world.staged("photos")
    tip = world.commit({"photos": new})
    # What is further down is not read: it is not even there.
    parent = world.git.objects.commit(tip).parents[0]
    (below,) = world.git.objects.commit(parent).parents
    (world.path / "objects" / below[:2] / below[2:]).unlink()
    assert missing(world, ["photos"]) == [("photos", new)]


def test_an_ordinary_pin_ends_the_walk_of_its_table(world: World) -> None:
    world.commit({"photos": world.staged("photos")})
    lw.open(world.home("photos")).append(ROWS)
    world.commit({"photos": world.standing("photos")})
    assert missing(world) == []


def test_a_table_that_the_tip_does_not_pin_is_nobodys_duty(world: World) -> None:
    world.commit({"photos": world.staged("photos")})
    world.commit({"photos": None})
    assert missing(world) == []


def test_states_of_a_merged_branch_are_not_looked_at(world: World) -> None:
    base = world.tip()
    assert base is not None
    side = world.commit({"photos": world.staged("photos")}, "exp", parents=[base])
    world.commit({}, parents=[base, side])
    assert missing(world) == []
    assert len(missing(world, branch="exp")) == 1


def test_a_divergence_is_told_with_its_conflict(world: World) -> None:
    def overwrite(table: Table) -> object:
        return table.delete("a > 1")

    pin = world.staged("photos", overwrite)
    made = world.commit({"photos": pin})
    lw.open(world.home("photos")).overwrite(ROWS)
    (found,) = waiting(world.git, made, world.path)
    assert (found.name, found.pin, found.commit) == ("photos", pin, made)
    assert found.location.uri == str(world.home("photos"))
    assert found.state.is_diverged


def test_a_table_of_a_branch_is_looked_for_on_that_branch(world: World) -> None:
    lw.open(world.home("photos")).branches.create("exp")
    base = world.tip()
    assert base is not None
    pin = world.staged("photos", branch="exp")
    world.commit({"photos": pin}, "exp", parents=[base])
    assert missing(world, branch="exp") == [("photos", pin)]
    world.land(pin)
    assert missing(world, branch="exp") == []


def test_a_table_that_was_dropped_is_an_error_and_not_landed(world: World) -> None:
    world.commit({"photos": world.staged("photos")})
    shutil.rmtree(world.home("photos"))
    with pytest.raises(NotFoundError):
        missing(world)


def test_a_commit_that_is_not_there_is_an_error(world: World) -> None:
    with pytest.raises(NotFoundError):
        waiting(world.git, Hash("ab" * 32), world.path)
