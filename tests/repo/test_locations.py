"""A repository that is copied elsewhere, tables that are outside of it, and branches of tables."""

from __future__ import annotations

import shutil
import warnings
from datetime import timedelta
from pathlib import Path

import lance
import pytest
from tests.repo.judge import judge, rows_of
from tests.repo.locations import everywhere
from tests.repo.scene import ONE, TWO, Scene, rows

import lancewood as lw
from lancewood.errors import (
    AlreadyExistsError,
    IncompatibleConflictError,
    IntegrityError,
    InvalidInputError,
    NotFoundError,
)
from lancewood.git.values import Signature
from lancewood.repo.inspect.status import State
from lancewood.repo.outcome import NotLandedWarning
from lancewood.repo.repository import Repository

MESSAGE = "moved"


def test_a_copy_opens_every_commit_and_writes_on_every_branch(scene: Scene, tmp_path: Path) -> None:
    repo = scene.repo
    scene.both(4)
    repo.tags.create("v1")
    repo.switch("exp", create=True)
    scene.both(5, branch="exp")
    scene.table().checkout(branch="exp").append(rows(6))
    repo.commit("exp as it stands")
    repo.switch("deep/er", create=True)
    scene.both(7, branch="deep/er")
    scene.outside(50)
    repo.commit("main as it stands", branch="main")
    repo.branches.create("unwritten", at="main")
    every = {each.hash for name in repo.branches for each in repo.log(name)}
    before = {each: rows_of(repo, each) for each in every}
    copy = tmp_path / "elsewhere" / "copy"
    shutil.copytree(scene.path, copy)
    shutil.rmtree(scene.path)

    moved = Repository.open(copy)
    assert {each: rows_of(moved, each) for each in every} == before
    assert moved.status().is_clean
    for name in moved.branches:
        was = rows_of(moved, name)
        with moved.transaction(name, message=MESSAGE) as changes:
            for each in (ONE, TWO):
                assert changes.table(each).append(rows(90)).count_rows() == was[each] + 1
        assert rows_of(moved, name) == {each: was[each] + 1 for each in was}
    assert {each: rows_of(moved, each) for each in every} == before
    assert lance.dataset(str(copy / "tables" / f"{ONE}.lance")).count_rows() == 6
    assert not scene.path.exists(), "nothing was written where it was"
    judge(copy)


@pytest.mark.parametrize("is_written", [False, True], ids=["committed", "transaction"])
def test_a_cleanup_keeps_what_a_copy_pins_of_a_table_outside(
    scene: Scene, tmp_path: Path, is_written: bool
) -> None:
    away = str(tmp_path / "away.lance")
    lance.write_dataset(rows(1), away)
    scene.repo.add("away", away)
    shutil.copytree(scene.path, tmp_path / "copy")
    copy = Repository.open(tmp_path / "copy")
    if is_written:
        with copy.transaction(message=MESSAGE) as changes:
            changes.table("away").append(rows(2))
    lw.open(away).append(rows(3))
    copy.commit("in the copy")
    pinned = copy.at().table("away").version
    expected = rows_of(copy, "HEAD")
    lw.open(away).overwrite(rows(4))
    lw.open(away).overwrite(rows(5))
    report = lw.open(away).cleanup(keep_versions=1, in_flight=timedelta(0))
    assert pinned not in report.versions
    assert report.versions
    assert rows_of(copy, "HEAD") == expected
    assert scene.repo.at().table("away").count_rows() == 1


def test_a_table_outside_of_the_repository_takes_part(scene: Scene, tmp_path: Path) -> None:
    away = str(tmp_path / "away.lance")
    lance.write_dataset(rows(1), away)
    scene.repo.add("away", away)
    with scene.repo.transaction("main", message="both places") as changes:
        changes.table("away").append(rows(2))
        changes.table(ONE).append(rows(2))
    assert lance.dataset(away).count_rows() == 2
    assert scene.repo.at().pin("away").uri == away
    scene.repo.branches.create("exp")
    with scene.repo.transaction("exp", message="there as well") as changes:
        changes.table("away").append(rows(3))
    assert rows_of(scene.repo, "exp")["away"] == 3
    assert rows_of(scene.repo, "main")["away"] == 2
    lw.open(away).cleanup(older_than=timedelta(0), keep_versions=1)
    assert [rows_of(scene.repo, f"main{each}").get("away") for each in ("", "~1", "~2")] == [
        2,
        1,
        None,
    ]
    scene.repo.remove("away")
    assert "away" not in scene.repo.tables
    assert lance.dataset(away).count_rows() == 2


def test_a_table_that_was_made_again_is_not_what_was_pinned(scene: Scene) -> None:
    scene.both(4)
    lw.drop(scene.uri())
    assert {each.state for each in scene.repo.status().tables} == {State.CLEAN, State.MISSING}
    with pytest.raises(NotFoundError, match="which the commit pins, is gone"):
        scene.repo.at().table(ONE)
    lance.write_dataset(rows(1, 2), scene.uri())
    scene.repo.commit("another one")
    assert scene.seen() == [1, 2]
    lw.drop(scene.uri())
    lance.write_dataset(rows(3), scene.uri())
    with pytest.raises(IntegrityError, match="is not what the commit pins"):
        scene.repo.at().table(ONE)
    (found,) = [each for each in scene.repo.status().tables if each.name == ONE]
    assert found.state is State.MISSING
    assert "made again" in found.why
    scene.outside(4)
    scene.repo.commit("and another")
    assert scene.seen() == [3, 4]


@everywhere
def test_a_branch_that_has_the_name_of_a_deleted_one_begins_anew(scene: Scene) -> None:
    repo = scene.repo
    repo.switch("exp", create=True)
    scene.both(70, branch="exp")
    old = repo.at("exp").hash
    repo.switch("main")
    repo.branches.delete("exp", force=True)
    repo.switch("exp", create=True)
    assert repo.status().is_clean
    assert not repo.commit("nothing").is_new
    scene.both(71, branch="exp")
    assert scene.seen("exp") == [1, 2, 3, 71]
    assert scene.seen(old) == [1, 2, 3, 70]
    assert scene.pylance().checkout_version(("exp", None)).count_rows() == 4


def test_what_others_wrote_on_a_prepared_branch_is_taken_in(scene: Scene) -> None:
    repo = scene.repo
    repo.switch("exp", create=True)
    given_up = repo.transaction("exp", "given up")
    given_up.table(ONE)
    given_up.abandon()
    on_branch = lance.dataset(scene.uri()).checkout_version(("exp", None))
    lance.write_dataset(rows(80), on_branch, mode="append")
    assert {each.name: each.state for each in repo.status().tables} == {
        ONE: State.MODIFIED,
        TWO: State.CLEAN,
    }
    scene.both(81, branch="exp")
    assert scene.seen("exp") == [1, 2, 3, 80, 81]
    assert scene.seen("main") == [1, 2, 3]


def test_a_branch_of_a_table_that_somebody_else_made_is_refused_or_adopted(scene: Scene) -> None:
    made = lance.dataset(scene.uri()).create_branch("exp")
    lance.write_dataset(rows(80), made, mode="append")
    scene.repo.branches.create("exp")
    with pytest.raises(IncompatibleConflictError, match="did not make"):
        scene.both(81, branch="exp")
    assert scene.counts("exp") == (3, 3)
    with scene.repo.transaction("exp", message="adopted", adopt=True) as changes:
        changes.table(ONE).append(rows(81))
    assert scene.seen("exp") == [1, 2, 3, 80, 81]


@everywhere
def test_a_cleanup_that_does_not_know_the_repository_blocks_nobody_for_good(scene: Scene) -> None:
    scene.both(4)
    scene.outside(50)
    scene.outside(51)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scene.pylance().cleanup_old_versions(timedelta(0), delete_unverified=True)
    (found,) = [each for each in scene.repo.status().tables if each.name == ONE]
    assert found.state is State.DIVERGED
    assert "whether it landed among them cannot be told" in found.why
    with pytest.raises(IncompatibleConflictError, match="takes the table as it stands"):
        scene.both(5)
    assert scene.values() == [1, 2, 3, 4, 50, 51], "and it is not landed twice"
    scene.repo.commit("as it stands")
    scene.both(5)
    assert scene.seen() == scene.values() == [1, 2, 3, 4, 5, 50, 51]


@everywhere
def test_a_tagged_commit_survives_the_cleanup_of_pylance(scene: Scene) -> None:
    scene.both(4)
    scene.repo.tags.create("v1")
    for number in range(3):
        scene.outside(50 + number)
    scene.repo.commit("as it stands")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scene.pylance().cleanup_old_versions(
            timedelta(0), delete_unverified=True, error_if_tagged_old_versions=False
        )
    assert scene.seen("v1") == [1, 2, 3, 4]
    assert scene.seen() == scene.values() == [1, 2, 3, 4, 50, 51, 52]


@everywhere
@pytest.mark.parametrize("above", [0, 20])
def test_what_a_commit_pins_whose_clock_was_wrong_stays(scene: Scene, above: int) -> None:
    scene.repo.branches.create("work")
    scene.both(4, branch="work")
    git, tree = scene.repo._context.git, scene.repo.at("work").commit.tree
    long_ago = Signature("Ada", "ada@example.org", 1_000_000_000, 0)
    tip = git.objects.put_commit(tree, [scene.repo.at("main").hash], long_ago, "kept")
    for number in range(above):
        root = scene.repo.at("main").commit.tree
        tip = git.objects.put_commit(root, [tip], long_ago, f"above {number}")
    assert git.refs.move("refs/heads/kept", None, tip, why="kept", by=long_ago)
    scene.again().branches.delete("work", force=True, tables=True)
    assert scene.counts(f"kept~{above}") == (4, 4)


# A repository that somebody else made


@pytest.fixture
def received(scene: Scene, tmp_path: Path) -> tuple[Repository, Path]:
    """A repository that pins a table of ours by its absolute path, and never asked us."""
    mine = tmp_path / "mine.lance"
    lw.create(mine, rows(1, 2))
    scene.repo.add("theirs", mine)
    for tag in (mine / "_refs/tags").iterdir():
        tag.unlink()  # as it is where the repository was made on another machine
    return scene.again(), mine


def files_of(table: Path) -> dict[str, bytes]:
    found = (each for each in table.rglob("*") if each.is_file())
    return {str(each): each.read_bytes() for each in sorted(found)}


def test_nothing_is_written_to_a_table_elsewhere_that_was_never_added_here(
    received: tuple[Repository, Path],
) -> None:
    repo, mine = received
    before = files_of(mine)
    told = repo.gc(in_flight=timedelta(0), tables=True).stays
    assert [each.what for each in told] == ["everything of table theirs"]
    assert f"is at {mine}, which is not below the repository" in told[0].why
    assert f"add('theirs', '{mine}')" in told[0].why
    assert files_of(mine) == before
    with pytest.warns(NotLandedWarning, match="not tagged: table 'theirs' is at"):
        assert ONE in repo.protect()
    with pytest.warns(NotLandedWarning, match="not tagged"):
        repo.tags.create("v1")
    repo.branches.create("new")
    for act in (
        lambda: repo.transaction("main", "more").table("theirs").append(rows(3)),
        lambda: repo.prepare("theirs", branch="new"),
        lambda: repo.exclusive(True),
    ):
        with pytest.raises(InvalidInputError, match="which is not below the repository"):
            act()
    assert files_of(mine) == before
    with repo.transaction("main", "another table") as changes:
        changes.table(ONE).append(rows(9))
    repo.reset("HEAD~1")
    assert files_of(mine) == before
    assert repo.at().table("theirs").count_rows() == 2, "it is read as ever"


def test_a_direct_write_to_it_is_not_recorded_before_it_is_added(
    received: tuple[Repository, Path],
) -> None:
    repo, mine = received
    lw.open(mine).append(rows(3))
    before = files_of(mine)
    with pytest.raises(InvalidInputError, match="add\\('theirs'"):
        repo.commit("what stands there")
    assert files_of(mine) == before


def test_who_adds_it_says_yes(received: tuple[Repository, Path]) -> None:
    repo, mine = received
    assert not repo.add("theirs", mine).is_new
    assert repo.gc().stays == ()
    with repo.transaction("main", "more") as changes:
        changes.table("theirs").append(rows(3))
    assert lw.open(mine).count_rows() == 3
    with pytest.raises(AlreadyExistsError, match="choose another name"):
        repo.add(ONE, mine)
