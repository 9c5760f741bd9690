"""A death, a failure or a lost answer at every step of every kind of commit.

Whoever reads through the repository sees both tables moved or neither, at once and without writing
anything; the next writer lands what is missing; and pylance then sees what the commits say.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pyarrow as pa
import pytest
from tests.repo.faults import (
    MOST_STEPS,
    FileMode,
    Steps,
    at_file_step,
    at_store_call,
    outcome,
)
from tests.repo.locations import Where, every_day, everywhere, in_a_bucket
from tests.repo.scene import ONE, TWO, Scene, rows

from lancewood.errors import AlreadyExistsError, NotFoundError
from lancewood.repo.inspect.status import State
from lancewood.repo.outcome import NotLandedWarning
from lancewood.repo.repository import Repository
from lancewood.store import probe
from lancewood.testing.faults import Mode

pytestmark = pytest.mark.sliced(3)

Hurt = Callable[[int], AbstractContextManager[Steps]]


@contextmanager
def _told() -> Iterator[None]:
    """A table that could not land is told by a warning; any other stays an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotLandedWarning)
        yield


def each_step(
    hurt: Hurt,
    act: Callable[[], object],
    check: Callable[[str], None],
    steps: range = range(1, MOST_STEPS),
) -> list[str]:
    """Run it once for every step, hurt there, and look at what is left; what was seen."""
    seen: list[str] = []
    for at in steps:
        with _told(), hurt(at) as done:
            end = outcome(act)
        if done.is_over:
            assert end == "done", done.calls
            assert len(seen) > 5, "hardly anything was hurt"
            return seen
        check(end)
        seen.append(end)
    pytest.fail("the work never came to its end")


def at_step_of_git(scene: Scene, at: int) -> AbstractContextManager[Steps]:
    """Die at the n-th step of git's: a file, or in a bucket a store call."""
    if scene.where.is_on_disk:
        return at_file_step(scene.path, at, "kill")
    return at_store_call(at, "kill", scene.where)


class Twins:
    """Two tables that get the same rows in every commit."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.count = 3
        self.commits = len([*scene.repo.log()])

    def act(self) -> None:
        """What is hurt: by a process that has just opened the repository."""
        repo = self.scene.again()
        with repo.transaction("main", message="hurt") as changes:
            changes.table(ONE).append(rows(10)).append(rows(11))
            changes.table(TWO).append(rows(10, 11))

    def check(self, end: str) -> None:
        scene = self.scene
        commits = len([*scene.again().log()])
        has_moved = commits == self.commits + 1
        assert has_moved or commits == self.commits
        if end == "done":
            assert has_moved
        if end == "failed":
            assert not has_moved, "reported as failed, but the branch moved"
        self.count += 2 * has_moved
        assert scene.counts() == (self.count, self.count)
        states = {each.state for each in scene.again().status().tables}
        assert states <= {State.CLEAN, State.UNLANDED}
        assert max(scene.landed()) <= self.count, "nothing lands that is not committed"
        scene.both(12, repo=scene.again())
        self.count += 1
        self.commits = commits + 1
        assert scene.counts() == scene.landed() == (self.count, self.count)
        assert scene.again().status().is_clean

    def check_rows(self) -> None:
        """Every row is there once, for everybody."""
        scene = self.scene
        assert scene.seen(name=ONE) == scene.values(ONE) == scene.values(TWO)
        assert len(scene.values()) == self.count + 2


@everywhere
@pytest.mark.parametrize("mode", ["before", "after", "kill", "kill-after"])
def test_a_transaction_hurt_at_any_store_call_is_whole_or_absent(scene: Scene, mode: Mode) -> None:
    twins, where = Twins(scene), scene.where
    seen = each_step(lambda at: at_store_call(at, mode, where), twins.act, twins.check)
    assert ("dead" in seen) == mode.startswith("kill")
    twins.check_rows()


@every_day
@in_a_bucket
def test_a_transaction_whose_answer_is_lost_at_some_store_call_is_whole_or_absent(
    scene: Scene,
) -> None:
    twins, where = Twins(scene), scene.where
    steps = range(1, MOST_STEPS, 10)
    each_step(lambda at: at_store_call(at, "after", where), twins.act, twins.check, steps)
    twins.check_rows()


@pytest.mark.parametrize("mode", ["kill", "torn", "error", "lost"])
def test_a_transaction_hurt_at_any_step_of_git_is_whole_or_absent(
    scene: Scene, mode: FileMode
) -> None:
    twins = Twins(scene)
    seen = each_step(lambda at: at_file_step(scene.path, at, mode), twins.act, twins.check)
    assert ("dead" in seen) == (mode in ("kill", "torn"))
    assert mode in ("kill", "torn") or "done" in seen, "once the branch moved, it is done"
    twins.check_rows()


@everywhere
def test_a_commit_of_what_stands_is_made_or_not(scene: Scene) -> None:
    expected = {"rows": 3, "commits": 1}

    def hurt(at: int) -> AbstractContextManager[Steps]:
        scene.outside(20 + at)
        expected["rows"] += 1
        return at_store_call(at, "kill", scene.where)

    def check(end: str) -> None:
        found = len([*scene.again().log()])
        assert found - expected["commits"] in (0, 1)
        if found > expected["commits"]:
            assert scene.counts() == (expected["rows"], 3)
        else:
            assert scene.again().commit("again").is_new
            found += 1
        assert scene.counts() == (expected["rows"], 3)
        assert scene.landed() == (expected["rows"], 3)
        expected["commits"] = found

    each_step(hurt, lambda: scene.again().commit("hurt"), check)


@everywhere
@pytest.mark.parametrize("branch", ["main", "exp"])
@pytest.mark.parametrize("is_twice", [False, True], ids=["once", "twice"])
def test_a_new_table_is_there_or_can_be_made(scene: Scene, branch: str, is_twice: bool) -> None:
    """``is_twice``: the other branch has a table of its own under that name."""
    scene.repo.switch("exp", create=True)
    other = "exp" if branch == "main" else "main"
    numbers = iter(range(MOST_STEPS))
    names: list[str] = []

    def hurt(at: int) -> AbstractContextManager[Steps]:
        names.append(f"new{next(numbers)}")
        if is_twice:
            with scene.repo.transaction(other, message="theirs") as changes:
                changes.create_table(names[-1], rows(7))
        return at_store_call(at, "kill", scene.where)

    def create(repo: Repository) -> None:
        with repo.transaction(branch, message="create") as changes:
            changes.create_table(names[-1], rows(1, 2))
            changes.table(ONE).append(rows(9))

    def check(end: str) -> None:
        name, tables = names[-1], scene.again().at(branch).tables
        if name in tables:
            assert scene.seen(branch, name) == [1, 2]
            with scene.again().transaction(branch, message="go on") as changes:
                changes.table(name).append(rows(3))
        else:
            with pytest.raises(NotFoundError):
                scene.again().at(branch).table(name)
            create(scene.again())
            with scene.again().transaction(branch, message="go on") as changes:
                changes.table(name).append(rows(3))
        assert scene.seen(branch, name) == [1, 2, 3]
        if branch == "main":
            assert scene.values(name) == [1, 2, 3]
        if is_twice:
            assert scene.seen(other, name) == [7]

    each_step(hurt, lambda: create(scene.again()), check)
    made = [*scene.again().at(branch).tables]
    assert sorted(names) == sorted(each for each in made if each.startswith("new"))
    others = scene.again().at(other).tables
    assert set(others) == {TWO, ONE, *(names if is_twice else ())}


@everywhere
def test_the_first_write_on_a_branch_is_made_or_not(scene: Scene) -> None:
    numbers = iter(range(MOST_STEPS))
    names: list[str] = []

    def hurt(at: int) -> AbstractContextManager[Steps]:
        names.append(f"b{next(numbers)}")
        scene.repo.branches.create(names[-1], at="main")
        return at_store_call(at, "kill", scene.where)

    def act() -> None:
        scene.both(50, branch=names[-1], repo=scene.again())

    def check(end: str) -> None:
        branch = names[-1]
        before = scene.counts(branch)
        assert before in ((3, 3), (4, 4))
        scene.both(51, branch=branch, repo=scene.again())
        after = scene.counts(branch)
        assert after == (before[0] + 1, before[1] + 1)
        landed = scene.table().checkout(branch=branch)
        assert landed.count_rows() == after[0]
        assert scene.pylance().checkout_version((branch, None)).count_rows() == after[0]

    each_step(hurt, act, check)
    assert scene.counts("main") == (3, 3)
    assert scene.values() == [1, 2, 3]


@everywhere
def test_a_tag_is_made_or_not_and_protects_when_it_is_there(scene: Scene) -> None:
    numbers = iter(range(MOST_STEPS))
    names: list[str] = []

    def hurt(at: int) -> AbstractContextManager[Steps]:
        names.append(f"v{next(numbers)}")
        return at_step_of_git(scene, at)

    def check(end: str) -> None:
        repo = scene.again()
        if names[-1] not in repo.tags:
            repo.tags.create(names[-1])
        with pytest.raises(AlreadyExistsError):
            repo.tags.create(names[-1])
        assert len(scene.pylance().tags.list()) == len(names)

    each_step(hurt, lambda: scene.again().tags.create(names[-1]), check)


@everywhere
def test_a_switch_to_a_new_branch_leaves_head_on_one_that_is_there(scene: Scene) -> None:
    numbers = iter(range(MOST_STEPS))
    names = ["main"]

    def hurt(at: int) -> AbstractContextManager[Steps]:
        names.append(f"s{next(numbers)}")
        return at_step_of_git(scene, at)

    def check(end: str) -> None:
        repo = scene.again()
        head = repo.head
        assert head.branch in (names[-1], names[-2])
        assert head.branch in repo.branches, "the ref is written before HEAD names it"
        repo.switch(names[-1], create=names[-1] not in repo.branches)

    each_step(hurt, lambda: scene.again().switch(names[-1], create=True), check)


@every_day
@everywhere
def test_an_init_that_died_is_no_repository_or_a_whole_one(where: Where) -> None:
    numbers = iter(range(MOST_STEPS))
    locations: list[Where] = [where]

    def hurt(at: int) -> AbstractContextManager[Steps]:
        locations.append(where.beside(f"init{next(numbers)}"))
        if where.is_on_disk:
            return at_file_step(Path(locations[-1].root), at, "kill")
        return at_store_call(at, "kill", where)

    def init() -> None:
        Repository.init(locations[-1].root, storage_options=where.options)

    def check(end: str) -> None:
        repo = Repository.open_or_init(locations[-1].root, storage_options=where.options)
        with repo.transaction("main", message="first") as changes:
            changes.create_table("t", pa.table({"a": [1]}))
        assert repo.at().table("t").count_rows() == 1

    probe._swaps_proven.clear()
    each_step(hurt, init, check)
