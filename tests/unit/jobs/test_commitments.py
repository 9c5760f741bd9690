"""Cleanup of tables of a repository: it lands first, and keeps what any commit needs."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TypeVar

import pytest
from tests.unit.catalog.world import ID, ROWS, World, append

import lancewood as lw
from lancewood.catalog.membership import join, member_tag
from lancewood.catalog.opening import open_pin, pin_of
from lancewood.catalog.pin import Pin
from lancewood.catalog.reachable import PinWalk, pinned, waiting
from lancewood.engine.location.location import Location
from lancewood.engine.snapshot.snapshot import load_snapshot
from lancewood.engine.staging.landing import find_landing
from lancewood.errors import FormatError, NotFoundError
from lancewood.git.repository import GitRepository
from lancewood.jobs.runner import LocalRunner
from lancewood.jobs.upkeep.cleanup import CleanupReport
from lancewood.jobs.upkeep.commitments import NeededVersions
from lancewood.model.ids import Version
from lancewood.store.disk import DiskStore
from lancewood.table.table import Table

pytestmark = pytest.mark.usefixtures("no_commit_under_way")

T = TypeVar("T")
R = TypeVar("R")


@pytest.fixture(autouse=True)
def _unsynced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANCEWOOD_FSYNC", "0")


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Table ``photos`` at version 1, which a commit pins."""
    made = World(tmp_path / "repo")
    made.commit({"photos": made.create("photos")})
    return made


def table(world: World) -> Table:
    return lw.open(world.home("photos"))


def grow(world: World, count: int) -> None:
    """Versions by a writer that does not know the repository."""
    for _ in range(count):
        table(world).append(ROWS)


def clean(world: World, *, dry_run: bool = False, branch: str | None = None) -> CleanupReport:
    found = lw.open(world.home("photos"), branch=branch)
    return found.cleanup(keep_versions=1, in_flight=timedelta(0), dry_run=dry_run)


def why(report: CleanupReport) -> dict[int, str]:
    return {each.version: each.why for each in report.kept}


def check_all_open(world: World) -> None:
    """Every pin of every commit that can be reached."""
    for name in ("photos", "labels"):
        for each in pinned(world.git, name):
            found = Table(open_pin(each.pin, world.path)).to_arrow()
            assert found.num_rows == each.pin.rows


def test_a_version_that_a_commit_pins_stays_and_the_report_says_which(world: World) -> None:
    grow(world, 2)
    made = world.commit({"photos": world.standing("photos")})
    grow(world, 2)
    report = clean(world)
    assert report.versions == (2, 4)
    assert why(report)[3] == f"commit {made[:7]} pins it"
    assert sorted(why(report)) == [1, 3]
    check_all_open(world)


def test_a_dry_run_says_the_same(world: World) -> None:
    grow(world, 2)
    world.commit({"photos": world.standing("photos")})
    grow(world, 2)
    told = clean(world, dry_run=True)
    done = clean(world)
    assert told.dry_run
    assert (told.versions, told.kept, told.bytes) == (done.versions, done.kept, done.bytes)


def test_a_commit_that_only_a_reflog_leads_to_still_holds(world: World) -> None:
    grow(world, 1)
    lost = world.commit({"photos": world.standing("photos")})
    base = world.git.objects.commit(lost).parents[0]
    assert world.git.refs.move("refs/heads/main", lost, base, why="reset", by=world.by())
    grow(world, 1)
    assert why(clean(world))[2] == f"commit {lost[:7]} pins it"
    check_all_open(world)


def test_what_no_commit_can_be_reached_for_goes(world: World) -> None:
    grow(world, 1)
    tip = world.tip()
    assert tip is not None
    lost = world.commit({"photos": world.standing("photos")}, "exp", parents=[tip])
    grow(world, 1)
    assert clean(world, dry_run=True).versions == ()
    assert world.git.refs.move("refs/heads/exp", lost, None, why="delete", by=world.by())
    assert clean(world).versions == (2,)
    check_all_open(world)


def test_what_waits_lands_first(world: World) -> None:
    first = world.staged("photos", append, append)
    world.commit({"photos": first})
    report = clean(world)
    assert report.landed == (2, 3)
    assert table(world).version == 3
    assert table(world).count_rows() == 9
    assert report.versions == (2,)
    assert clean(world).landed == ()
    check_all_open(world)


def test_a_dry_run_lands_nothing_and_counts_what_waits_as_needed(world: World) -> None:
    grow(world, 2)
    base = world.tip()
    assert base is not None
    made = world.commit({"photos": world.staged("photos")})
    grow(world, 2)
    told = clean(world, dry_run=True)
    assert told.landed == ()
    assert table(world).version == 5
    assert told.versions == (2,)
    assert why(told)[3] == f"commit {made[:7]} has not landed"
    done = clean(world)
    assert done.landed == (6,)
    assert table(world).count_rows() == 18


def test_versions_from_the_base_of_a_commit_that_cannot_land_stay(world: World) -> None:
    grow(world, 2)
    made = world.commit({"photos": world.staged("photos", lambda each: each.delete("a > 1"))})
    table(world).overwrite(ROWS)
    grow(world, 2)
    report = clean(world)
    assert report.landed == ()
    assert report.versions == (2,)
    assert {each: text for each, text in why(report).items() if each >= 3} == {
        3: f"commit {made[:7]} has not landed",
        4: f"commit {made[:7]} pins it",
        5: f"commit {made[:7]} has not landed",
    }
    tip = world.tip()
    assert tip is not None
    assert waiting(world.git, tip, world.path)
    check_all_open(world)


def test_a_state_that_is_lost_holds_what_it_was_built_on(world: World) -> None:
    grow(world, 2)
    pin = world.staged("photos")
    made = world.commit({"photos": pin})
    grow(world, 2)
    (world.home("photos") / pin.manifest).unlink()
    report = clean(world)
    assert report.landed == ()
    assert report.versions == (2,)
    assert why(report)[3] == f"commit {made[:7]} has not landed"


def test_a_divergence_that_was_settled_holds_no_more(world: World) -> None:
    world.commit({"photos": world.staged("photos", lambda each: each.delete("a > 1"))})
    table(world).overwrite(ROWS)
    grow(world, 2)
    world.commit({"photos": world.standing("photos")})
    grow(world, 1)
    assert clean(world).versions == (3,)
    check_all_open(world)


def test_of_steps_that_landed_in_place_the_last_alone_stays(world: World) -> None:
    pins = []
    for _ in range(3):
        pins.append(world.staged("photos", append, append))
        world.commit({"photos": pins[-1]})
        world.land(pins[-1])
    grow(world, 2)
    assert clean(world, dry_run=True).versions == (2, 4, 6, 8)
    assert clean(world).versions == (2, 4, 6, 8)
    location = world.location("photos")
    for each in pins:
        assert each.landing is not None
        assert find_landing(location, each.landing).is_exact
        assert find_landing(location, each.landing).is_landed
    assert clean(world).versions == ()
    check_all_open(world)


def test_all_steps_stay_where_others_wrote_before_they_landed(world: World) -> None:
    pin = world.staged("photos", append, append)
    world.commit({"photos": pin})
    grow(world, 1)
    assert world.land(pin).versions == (3, 4)
    grow(world, 1)
    assert clean(world).versions == ()
    assert pin.landing is not None
    assert find_landing(world.location("photos"), pin.landing).versions == (3, 4)


def test_a_tip_that_landed_after_others_is_still_found_to_have_landed(world: World) -> None:
    pin = world.staged("photos")
    made = world.commit({"photos": pin})
    grow(world, 3)
    assert world.land(pin).versions == (5,)
    grow(world, 2)
    report = clean(world)
    assert why(report)[5] == f"commit {made[:7]} landed there"
    assert report.versions == (3, 4, 6)
    assert waiting(world.git, made, world.path) == []
    check_all_open(world)


def test_a_table_that_comes_into_being_with_a_commit_lands_too(world: World) -> None:
    lw.create(world.home("labels"), ROWS, access=lw.Access(fsync=False))
    pin = world.staged("labels")
    world.commit({"labels": pin})
    report = lw.open(world.home("labels")).cleanup(keep_versions=1, in_flight=timedelta(0))
    assert report.landed == (2,)
    check_all_open(world)


def test_a_branch_is_kept_by_the_pins_of_that_branch_and_main_by_its_own(world: World) -> None:
    table(world).branches.create("exp")
    lw.open(world.home("photos"), branch="exp").append(ROWS).append(ROWS)
    base = world.tip()
    assert base is not None
    made = world.commit({"photos": world.standing("photos", "exp")}, "exp", parents=[base])
    staged = world.staged("photos", branch="exp")
    world.commit({"photos": staged}, "exp")
    lw.open(world.home("photos"), branch="exp").append(ROWS)
    grow(world, 3)
    on_branch = clean(world, branch="exp")
    assert on_branch.landed == (5,)
    assert on_branch.versions == (1, 2)
    assert why(on_branch)[3] == f"commit {made[:7]} pins it"
    on_main = clean(world)
    assert on_main.landed == ()
    assert on_main.versions == (2, 3)
    check_all_open(world)


def test_a_state_of_another_branch_is_not_landed_on_this_one(world: World) -> None:
    table(world).branches.create("exp")
    base = world.tip()
    assert base is not None
    pin = world.staged("photos", branch="exp")
    world.commit({"photos": pin}, "exp", parents=[base])
    assert clean(world).landed == ()
    assert lw.open(world.home("photos"), branch="exp").version == 1


class _Meanwhile(LocalRunner):
    """Does something before the manifests are read."""

    def __init__(self, act: Callable[[], object]) -> None:
        super().__init__()
        self._act: Callable[[], object] | None = act

    def run(
        self,
        work: Callable[[T], R],
        tasks: Sequence[T],
        *,
        what: str,
        leftover: Callable[[R], object] | None = None,
    ) -> Iterator[R]:
        act, self._act = self._act, None
        if act is not None:
            act()
        return super().run(work, tasks, what=what, leftover=leftover)


def test_a_commit_that_is_made_while_manifests_are_read_is_seen(world: World) -> None:
    grow(world, 3)
    runner = _Meanwhile(lambda: world.commit({"photos": world.standing("photos", version=2)}))
    report = table(world).cleanup(keep_versions=1, in_flight=timedelta(0), runner=runner)
    assert report.versions == (3,)
    check_all_open(world)


def test_what_a_commit_was_built_on_that_is_made_meanwhile_stays_until_it_lands(
    world: World,
) -> None:
    grow(world, 2)
    pin = world.staged("photos")
    grow(world, 2)
    runner = _Meanwhile(lambda: world.commit({"photos": pin}))
    report = table(world).cleanup(keep_versions=1, in_flight=timedelta(0), runner=runner)
    assert report.versions == (2,)
    assert world.land(pin).versions == (6,)


def test_without_a_rule_no_commit_is_read(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    grow(world, 2)

    def refuse(self: PinWalk) -> tuple[()]:
        raise AssertionError("nothing may go, and still commits are read")

    monkeypatch.setattr(PinWalk, "more", refuse)
    assert table(world).cleanup().versions == ()
    with pytest.raises(AssertionError, match="still commits are read"):
        clean(world)


def test_a_repository_that_cannot_be_read_stops_it_before_anything_is_removed(
    world: World,
) -> None:
    grow(world, 2)
    tip = world.tip()
    assert tip is not None
    (world.path / "objects" / tip[:2] / tip[2:]).unlink()
    with pytest.raises(NotFoundError, match=tip):
        clean(world)
    (world.path / "config").write_text("[lancewood]\n\tid = x\n")
    with pytest.raises(NotFoundError, match="Repair it, or move the table out of it"):
        clean(world)
    assert [each.version for each in table(world).versions()] == [3, 2, 1]


# Tables elsewhere


@pytest.fixture
def away(world: World, tmp_path: Path) -> str:
    """A table that a repository took in, with versions 1 to 4, of which 1 and 2 are pinned."""
    uri = str(tmp_path / "away.lance")
    made = lw.create(uri, ROWS, access=lw.Access(fsync=False))
    snapshot = load_snapshot(Location(DiskStore(uri, fsync=False)))
    join(snapshot, world.path, ID, "other")
    world.commit({"other": _pin(uri)})
    made.append(ROWS)
    world.commit({"other": _pin(uri)})
    lw.open(uri).append(ROWS).append(ROWS)
    return uri


def _pin(uri: str) -> Pin:
    return pin_of(load_snapshot(Location(DiskStore(uri, fsync=False))), uri)


def clean_away(uri: str) -> CleanupReport:
    return lw.open(uri).cleanup(keep_versions=1, in_flight=timedelta(0))


def test_a_table_elsewhere_is_kept_for_the_repository_that_took_it_in(
    world: World, away: str
) -> None:
    tip = world.tip()
    assert tip is not None
    report = clean_away(away)
    assert report.versions == (3,)
    assert why(report) == {1: f"tag {member_tag(ID)}", 2: f"commit {tip[:7]} pins it"}


def test_a_repository_that_is_gone_is_an_error_with_the_way_out(world: World, away: str) -> None:
    shutil.rmtree(world.path)
    with pytest.raises(NotFoundError) as caught:
        clean_away(away)
    tag = str(member_tag(ID))
    assert f"belongs to the repository at {world.path}, and that cannot be opened" in str(
        caught.value
    )
    assert f"tags.delete({tag!r}, force=True)" in str(caught.value)
    assert caught.value.facts["tag"] == tag
    assert len(list(lw.open(away).versions())) == 4
    lw.open(away).tags.delete(tag, force=True)
    assert clean_away(away).versions == (1, 2, 3)


def test_another_repository_in_its_place_is_not_believed(world: World, away: str) -> None:
    shutil.rmtree(world.path)
    GitRepository.init(world.path, fsync=False).set("lancewood", "id", "another")
    with pytest.raises(NotFoundError, match="the one that is there now is another"):
        clean_away(away)


def test_a_repository_that_moved_is_found_again_once_it_has_told(
    world: World, away: str, tmp_path: Path
) -> None:
    shutil.move(world.path, tmp_path / "moved")
    with pytest.raises(NotFoundError):
        clean_away(away)
    join(load_snapshot(Location(DiskStore(away))), tmp_path / "moved", ID, "other")
    assert clean_away(away).versions == (3,)


def test_a_state_of_another_table_of_that_name_is_not_landed_here(
    world: World, away: str, tmp_path: Path
) -> None:
    """The name was given to another table since, whose state waits."""
    other = World(tmp_path / "another")
    other.create("other")
    staged = other.staged("other")
    elsewhere = replace(staged, uri=str(other.home("other")))
    world.commit({"other": elsewhere})
    assert clean_away(away).landed == ()
    assert lw.open(other.home("other")).version == 1


def test_a_tag_that_says_nothing_stops_it(away: str) -> None:
    lw.open(away).tags.create("lw.repo.ffffffffffff", force=True)
    with pytest.raises(FormatError, match="does not say which repository"):
        clean_away(away)


def test_git_is_not_loaded_for_tables_of_no_repository(tmp_path: Path) -> None:
    code = (
        "import sys, datetime, pyarrow, lancewood as lw\n"
        f"t = lw.create({str(tmp_path / 't.lance')!r}, pyarrow.table({{'a': [1]}}))\n"
        "t.append(pyarrow.table({'a': [1]})).cleanup(keep_versions=1)\n"
        "print('dulwich' in sys.modules, 'lancewood.jobs.upkeep.cleanup' in sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.split() == ["False", "True"]


def test_a_floor_holds_what_no_pin_names() -> None:
    held = NeededVersions({Version(2): "a pin"}, Version(4), "it has not landed")
    found = held.among([Version(each) for each in range(1, 7)])
    assert found == {
        2: "a pin",
        4: "it has not landed",
        5: "it has not landed",
        6: "it has not landed",
    }
    assert NeededVersions().among([Version(1)]) == {}
