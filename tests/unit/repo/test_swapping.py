"""The commit point."""

from __future__ import annotations

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
from lancewood.git.hashes import Hash
from lancewood.git.objects import Signature
from lancewood.git.refs import Refs
from lancewood.git.repository import GitRepository
from lancewood.repo.committing.swapping import Patience, has_landed, swap
from lancewood.repo.grounds import RepoContext
from lancewood.repo.identity import first_line

ADA = Signature("Ada", "ada@example.org", 1_700_000_000, 0)


class Counting:
    """Adds one table, and lets others be faster a few times."""

    def __init__(self, grounds: RepoContext, name: str, faster: int = 0) -> None:
        self.grounds = grounds
        self.name = name
        self.faster = faster
        self.tips: list[Hash | None] = []

    def tree(self, tip: Hash | None) -> TableTree | None:
        self.tips.append(tip)
        if self.faster:
            self.faster -= 1
            other = Counting(self.grounds, f"other{self.faster}")
            assert swap(self.grounds, "main", other, message="faster", author=ADA)
        return self.grounds.tree(tip).with_pins({self.name: some_pin(self.name)})


class Nothing:
    def tree(self, tip: Hash | None) -> TableTree | None:
        return None


@pytest.fixture
def grounds(tmp_path: Path) -> RepoContext:
    return RepoContext(GitRepository.init(tmp_path / "r", fsync=False), fsync=False)


def commit(grounds: RepoContext, name: str, **options: int) -> Hash:
    made = swap(grounds, "main", Counting(grounds, name), message=name, author=ADA, **options)  # type: ignore[arg-type]
    assert made is not None
    return made


def test_a_branch_moves_to_a_commit_whose_parent_is_where_it_was(grounds: RepoContext) -> None:
    first = commit(grounds, "one")
    second = commit(grounds, "two")
    assert grounds.tip("main") == second
    assert grounds.git.objects.commit(second).parents == (first,)
    assert grounds.git.objects.commit(first).parents == ()
    assert grounds.tree(second).names() == ("one", "two")
    reasons = [each.why for each in grounds.git.refs.log("refs/heads/main")]
    assert reasons == ["commit: two", "commit (initial): one"]


def test_who_loses_the_race_looks_again_and_keeps_what_the_winner_did(grounds: RepoContext) -> None:
    begun = commit(grounds, "begun")
    slow = Counting(grounds, "slow", faster=2)
    pauses: list[float] = []
    made = swap(grounds, "main", slow, message="m", author=ADA, patience=Patience(5, pauses.append))
    assert made == grounds.tip("main")
    assert slow.tips[0] == begun
    assert len(set(slow.tips)) == 3
    assert len(pauses) == 2
    assert grounds.tree(made).names() == ("begun", "other0", "other1", "slow")


def test_who_loses_too_often_is_told_so_and_nothing_is_visible(grounds: RepoContext) -> None:
    slow = Counting(grounds, "slow", faster=9)
    with pytest.raises(RetryableConflictError, match="moved 3 times"):
        swap(grounds, "main", slow, message="m", author=ADA, patience=Patience(3, lambda _: None))
    assert "slow" not in grounds.tree(grounds.tip("main")).names()


def test_nothing_to_commit_is_no_commit(grounds: RepoContext) -> None:
    assert swap(grounds, "main", Nothing(), message="m", author=ADA) is None
    assert grounds.tip("main") is None


def test_further_parents_are_written_after_the_branch_s_own(grounds: RepoContext) -> None:
    first, other = commit(grounds, "one"), commit(grounds, "two")
    made = swap(
        grounds, "main", Counting(grounds, "three"), message="m", author=ADA, merged=[first]
    )
    assert made is not None
    assert grounds.git.objects.commit(made).parents == (other, first)


def test_a_refusal_of_git_is_told_as_it_is(grounds: RepoContext) -> None:
    tip = commit(grounds, "one")
    assert grounds.git.refs.move("refs/heads/a/b", None, tip, why="made", by=ADA)
    with pytest.raises(AlreadyExistsError, match="directory of another"):
        swap(grounds, "a", Counting(grounds, "two"), message="m", author=ADA)


def test_a_move_that_fails_is_looked_up(
    grounds: RepoContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Refs.move

    def lost(self: Refs, *given: object, **told: object) -> bool:
        assert real(self, *given, **told)  # type: ignore[arg-type]
        raise StorageError("lost")

    def failed(self: Refs, *given: object, **told: object) -> bool:
        raise StorageError("failed")

    monkeypatch.setattr(Refs, "move", lost)
    made = commit(grounds, "one")
    assert grounds.tip("main") == made
    monkeypatch.setattr(Refs, "move", failed)
    with pytest.raises(StorageError, match="failed"):
        commit(grounds, "two")
    assert grounds.tip("main") == made
    monkeypatch.setattr("lancewood.repo.committing.swapping.has_landed", lambda *_, **__: None)
    with pytest.raises(CommitUnknownError, match="nobody can tell") as told:
        commit(grounds, "two")
    assert told.value.facts["branch"] == "main"


def test_a_commit_is_looked_for_down_to_where_it_began(grounds: RepoContext) -> None:
    first, second, third = (commit(grounds, each) for each in ("one", "two", "three"))
    assert has_landed(grounds, "main", third, since=second)
    assert has_landed(grounds, "main", second, since=first)
    assert not has_landed(grounds, "main", first, since=second)
    assert not has_landed(grounds, "none", first, since=None)
    (grounds.git.path / "refs/heads/main").write_text("damaged\n")
    assert has_landed(grounds, "main", first, since=None) is None


def test_one_line_stands_for_a_message() -> None:
    assert first_line("\n  day 3\n\nmore") == "day 3"
