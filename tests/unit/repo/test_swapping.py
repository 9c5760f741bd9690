"""The commit point."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.catalog.pins import some_pin

from lancewood.catalog.tables import TableTree
from lancewood.errors import (
    AlreadyExistsError,
    CommitUnknownError,
    RetryableConflictError,
    StorageError,
)
from lancewood.git.objects import Signature
from lancewood.git.refs import Refs
from lancewood.git.repository import GitRepository
from lancewood.git.values import Hash
from lancewood.repo.commit.swapping import has_landed, swap
from lancewood.repo.context import RepoContext
from lancewood.repo.identity import first_line
from lancewood.store.retry import SWAPS

ADA = Signature("Ada", "ada@example.org", 1_700_000_000, 0)


class Counting:
    """Adds one table, and lets others be faster a few times."""

    def __init__(self, context: RepoContext, name: str, faster: int = 0) -> None:
        self.context = context
        self.name = name
        self.faster = faster
        self.tips: list[Hash | None] = []

    def tree(self, tip: Hash | None) -> TableTree | None:
        self.tips.append(tip)
        if self.faster:
            self.faster -= 1
            other = Counting(self.context, f"other{self.faster}")
            assert swap(self.context, "main", other, message="faster", author=ADA)
        return self.context.tree(tip).with_pins({self.name: some_pin(self.name)})


class Nothing:
    def tree(self, tip: Hash | None) -> TableTree | None:
        return None


@pytest.fixture
def context(tmp_path: Path) -> RepoContext:
    return RepoContext(GitRepository.init(tmp_path / "r", fsync=False), fsync=False)


def commit(context: RepoContext, name: str, **options: int) -> Hash:
    made = swap(context, "main", Counting(context, name), message=name, author=ADA, **options)  # type: ignore[arg-type]
    assert made is not None
    return made


def test_a_branch_moves_to_a_commit_whose_parent_is_where_it_was(context: RepoContext) -> None:
    first = commit(context, "one")
    second = commit(context, "two")
    assert context.tip("main") == second
    assert context.git.objects.commit(second).parents == (first,)
    assert context.git.objects.commit(first).parents == ()
    assert context.tree(second).names() == ("one", "two")
    reasons = [each.why for each in context.git.refs.log("refs/heads/main")]
    assert reasons == ["commit: two", "commit (initial): one"]


def test_who_loses_the_race_looks_again_and_keeps_what_the_winner_did(context: RepoContext) -> None:
    begun = commit(context, "begun")
    slow = Counting(context, "slow", faster=2)
    pauses: list[float] = []
    made = swap(
        context,
        "main",
        slow,
        message="m",
        author=ADA,
        retry=replace(SWAPS, attempts=5, sleep=pauses.append),
    )
    assert made == context.tip("main")
    assert slow.tips[0] == begun
    assert len(set(slow.tips)) == 3
    assert len(pauses) == 2
    assert context.tree(made).names() == ("begun", "other0", "other1", "slow")


def test_who_loses_too_often_is_told_so_and_nothing_is_visible(context: RepoContext) -> None:
    slow = Counting(context, "slow", faster=9)
    with pytest.raises(RetryableConflictError, match="moved 3 times"):
        swap(
            context,
            "main",
            slow,
            message="m",
            author=ADA,
            retry=replace(SWAPS, attempts=3, sleep=lambda _: None),
        )
    assert "slow" not in context.tree(context.tip("main")).names()


def test_nothing_to_commit_is_no_commit(context: RepoContext) -> None:
    assert swap(context, "main", Nothing(), message="m", author=ADA) is None
    assert context.tip("main") is None


def test_further_parents_are_written_after_the_branch_s_own(context: RepoContext) -> None:
    first, other = commit(context, "one"), commit(context, "two")
    made = swap(
        context, "main", Counting(context, "three"), message="m", author=ADA, merged=[first]
    )
    assert made is not None
    assert context.git.objects.commit(made).parents == (other, first)


def test_a_refusal_of_git_is_told_as_it_is(context: RepoContext) -> None:
    tip = commit(context, "one")
    assert context.git.refs.move("refs/heads/a/b", None, tip, why="made", by=ADA)
    with pytest.raises(AlreadyExistsError, match="directory of another"):
        swap(context, "a", Counting(context, "two"), message="m", author=ADA)


def test_a_move_that_fails_is_looked_up(
    context: RepoContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Refs.move

    def lost(self: Refs, *given: object, **told: object) -> bool:
        assert real(self, *given, **told)  # type: ignore[arg-type]
        raise StorageError("lost")

    def failed(self: Refs, *given: object, **told: object) -> bool:
        raise StorageError("failed")

    monkeypatch.setattr(Refs, "move", lost)
    made = commit(context, "one")
    assert context.tip("main") == made
    monkeypatch.setattr(Refs, "move", failed)
    with pytest.raises(StorageError, match="failed"):
        commit(context, "two")
    assert context.tip("main") == made
    monkeypatch.setattr("lancewood.repo.commit.swapping.has_landed", lambda *_, **__: None)
    with pytest.raises(CommitUnknownError, match="nobody can tell") as told:
        commit(context, "two")
    assert told.value.facts["branch"] == "main"


def test_a_commit_is_looked_for_down_to_where_it_began(context: RepoContext) -> None:
    first, second, third = (commit(context, each) for each in ("one", "two", "three"))
    assert has_landed(context, "refs/heads/main", third, since=second)
    assert has_landed(context, "refs/heads/main", second, since=first)
    assert not has_landed(context, "refs/heads/main", first, since=second)
    assert not has_landed(context, "refs/heads/none", first, since=None)
    (context.git.path / "refs/heads/main").write_text("damaged\n")
    assert has_landed(context, "refs/heads/main", first, since=None) is None


def test_one_line_stands_for_a_message() -> None:
    assert first_line("\n  day 3\n\nmore") == "day 3"
