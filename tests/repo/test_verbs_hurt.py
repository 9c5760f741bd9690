"""A death or a failure at every step of merge, reset, revert, cherry-pick and a transaction in SQL.

Whoever reads through the repository sees all tables before or all after the verb. The next writer
finishes what was begun, and brings nothing back that was given up; pylance then sees what the
commits say.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.interop import git_judge
from tests.repo.faults import MOST_STEPS, Steps, at_file_step, at_store_call, hurting, outcome
from tests.repo.locations import Where, everywhere
from tests.repo.scene import ONE, TWO, Scene

import lancewood as lw
from lancewood.git.repository import open_git
from lancewood.repo.inspect.status import State
from lancewood.repo.outcome import NotLandedWarning
from lancewood.repo.repository import Repository

pytestmark = pytest.mark.sliced(3)

Values = tuple[list[int], list[int]]


def values(scene: Scene, revision: str) -> Values:
    """Both tables, as the repository says."""
    return scene.seen(revision, ONE), scene.seen(revision, TWO)


def standing(scene: Scene, branch: str) -> Values:
    """Both tables, as pylance says."""
    found = []
    for name in (ONE, TWO):
        opened = scene.dataset(name)
        if branch != "main":
            opened = opened.checkout_version((branch, None))
        opened.validate()
        found.append(sorted(opened.to_table()["id"].to_pylist()))
    return found[0], found[1]


@dataclass
class Verb:
    """What is done, on which branch, and what the tables hold before and after."""

    branch: str
    act: Callable[[Repository], object]
    before: list[int]
    after: list[int]
    stride: int = 1
    """Every how many steps it is hurt: what is an ordinary transaction is hurt elsewhere, too."""
    is_stuck: bool = False
    """Nothing can be written there before it is done."""

    def check(self, scene: Scene, end: str) -> None:
        now = values(scene, self.branch)
        assert now in ((self.before, self.before), (self.after, self.after))
        if end == "done":
            assert now[0] == self.after
        if end == "failed":
            assert now[0] == self.before, "reported as failed, but the branch moved"
        repo = scene.again()
        repo.switch(self.branch)
        states = {each.state for each in repo.status().tables}
        assert states <= {State.CLEAN, State.UNLANDED}, states
        expected = [*now[0], 99]
        if self.is_stuck and now[0] == self.before:
            self.act(repo)
            expected = [*self.after, 99]
        scene.both(99, branch=self.branch, repo=repo)
        assert values(scene, self.branch) == standing(scene, self.branch) == (expected, expected)
        assert repo.status().is_clean


def hurt_everywhere(
    start: Where, work: Where, verb: Verb, hurt: Callable[[int], AbstractContextManager[Steps]]
) -> set[str]:
    """Run the verb once for every step on a fresh copy, hurt there, and look at what is left."""
    seen: set[str] = set()
    for at in hurting(verb.stride) if work.is_on_disk else range(1, 2 * MOST_STEPS, 5):
        start.copy(work)
        scene = Scene.at(work)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NotLandedWarning)
            repo = scene.again()
            with hurt(at) as steps:
                end = outcome(lambda repo=repo: verb.act(repo))  # type: ignore[misc]
        verb.check(scene, end)
        if steps.is_over:
            assert end == "done", steps.calls
            assert at > 5, "hardly anything was hurt"
            judge_copy(work)
            return seen
        seen.add(end)
    pytest.fail("the work never came to its end")


def judge_copy(work: Where) -> None:
    """Stock git looks at it, or at a download of it."""
    with tempfile.TemporaryDirectory() as folder:
        if not isinstance(work.root, Path):
            open_git(work.root, storage_options=work.options).tidy()
            work.download(Path(folder))
        git_judge.check(work.root if isinstance(work.root, Path) else Path(folder))


def prepared(scene: Scene, name: str) -> Verb:
    """A history for a verb, and the verb."""
    scene.repo.branches.create("exp")
    if name == "merge":
        scene.both(4, branch="exp")
        scene.both(5)
        return Verb("main", lambda repo: repo.merge("exp"), [1, 2, 3, 5], [1, 2, 3, 4, 5], 2)
    if name == "merge by rows":
        scene.without("id < 3", branch="exp")
        scene.both(4, branch="exp")
        scene.without("id = 2")
        scene.both(5)
        return Verb("main", lambda repo: repo.merge("exp"), [1, 3, 5], [3, 4, 5], 3)
    if name == "revert by rows":
        scene.both(4)
        scene.both(5)
        act = lambda repo: repo.revert("HEAD~1")  # noqa: E731
        return Verb("main", act, [1, 2, 3, 4, 5], [1, 2, 3, 5], 3)
    if name == "squash by rows":
        scene.both(4, branch="exp")
        for branch, number in (("exp", "30"), ("main", "31")):
            with scene.repo.transaction(branch, "the same row") as changes:
                for table in (ONE, TWO):
                    changes.table(table).update({"id": number}, "id = 3")
        act = lambda repo: repo.merge("exp", squash=True, resolve="theirs")  # noqa: E731
        return Verb("main", act, [1, 2, 31], [1, 2, 4, 30], 4)
    if name == "move":
        scene.both(4, branch="exp")
        scene.repo.merge("exp")
        scene.both(5)
        act = lambda repo: repo.merge("main", branch="exp")  # noqa: E731
        return Verb("exp", act, [1, 2, 3, 4], [1, 2, 3, 4, 5], 3, is_stuck=True)
    if name == "reset":
        scene.both(4)
        return Verb("main", lambda repo: repo.reset("HEAD~1"), [1, 2, 3, 4], [1, 2, 3])
    if name == "reset to another branch of the tables":
        scene.both(4, branch="exp")
        act = lambda repo: repo.reset("exp~1", branch="exp")  # noqa: E731
        return Verb("exp", act, [1, 2, 3, 4], [1, 2, 3])
    if name == "revert":
        scene.both(4)
        return Verb("main", lambda repo: repo.revert("HEAD"), [1, 2, 3, 4], [1, 2, 3], 3)
    if name == "sql transaction":
        act = lambda repo: lw.sql(TRANSACTION, repository=repo)  # noqa: E731
        return Verb("main", act, [1, 2, 3], [1, 3, 4], 4)
    assert name == "cherry-pick"
    scene.both(4, branch="exp")
    return Verb("main", lambda repo: repo.cherry_pick("exp"), [1, 2, 3], [1, 2, 3, 4], 3)


TRANSACTION = f"""
BEGIN;
DELETE FROM {ONE} WHERE id * 1 = 2;
UPDATE {TWO} SET id = (SELECT max(id) FROM {TWO}) + 1 WHERE id = 2;
INSERT INTO {ONE} SELECT max(id) + 1 FROM {ONE};
COMMIT 'both lose 2 and get 4'
"""
VERBS = (
    "merge",
    "merge by rows",
    "squash by rows",
    "move",
    "reset",
    "reset to another branch of the tables",
    "revert",
    "revert by rows",
    "cherry-pick",
    "sql transaction",
)


@everywhere
@pytest.mark.parametrize("name", VERBS)
def test_a_verb_that_dies_at_any_store_call_is_done_or_not(scene: Scene, name: str) -> None:
    verb, work = prepared(scene, name), scene.where.beside("work")
    seen = hurt_everywhere(scene.where, work, verb, lambda at: at_store_call(at, "kill", work))
    assert seen == {"dead"}


@pytest.mark.parametrize("name", VERBS)
def test_a_verb_that_dies_at_any_step_of_git_or_of_its_notes_is_done_or_not(
    scene: Scene, name: str
) -> None:
    verb, work = prepared(scene, name), scene.path.with_name("work")
    hurt = lambda at: at_file_step(work, at, "kill")  # noqa: E731
    assert hurt_everywhere(scene.where, Where(work), verb, hurt) == {"dead"}


@everywhere
@pytest.mark.parametrize("name", ["reset", "merge by rows"])
def test_a_verb_whose_store_loses_any_answer_is_done_or_not(scene: Scene, name: str) -> None:
    verb, work = prepared(scene, name), scene.where.beside("work")
    hurt_everywhere(scene.where, work, verb, lambda at: at_store_call(at, "after", work))


def test_a_reset_whose_disk_fails_at_any_step_of_git_is_done_or_not(scene: Scene) -> None:
    verb, work = prepared(scene, "reset"), scene.path.with_name("work")
    hurt = lambda at: at_file_step(work, at, "lost")  # noqa: E731
    hurt_everywhere(scene.where, Where(work), verb, hurt)
