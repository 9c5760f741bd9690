"""Where a table is written on a branch of the repository."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lancewood as lw
from lancewood.engine.versions.refs import load_branch
from lancewood.errors import IncompatibleConflictError
from lancewood.git.values import Hash
from lancewood.model.refs import BranchName
from lancewood.repo.writable import BranchMovedError, goes_on, landed_source, writable_head

ROWS = pa.table({"id": [1, 2, 3]})


@pytest.fixture
def repo(tmp_path: Path) -> lw.Repository:
    """One table on main, at version 1; exp and dev are at the same commit."""
    made = lw.Repository.init(tmp_path / "r", fsync=False)
    with made.transaction("main", "first") as changes:
        changes.create_table("photos", ROWS)
    made.branches.create("exp")
    made.branches.create("dev")
    return made


def home(repo: lw.Repository) -> str:
    return str(repo.path / "tables/photos.lance")


def head(repo: lw.Repository, branch: str, tip: Hash | None = None) -> lw.Table:
    """The writable head for somebody who last saw the branch at ``tip``."""
    context = repo._context
    tip = tip or context.tip(branch)
    pin = context.tree(tip).pin("photos")
    return lw.Table(writable_head(context, branch, tip, "photos", pin))


def append(repo: lw.Repository, branch: str) -> None:
    with repo.transaction(branch, f"more on {branch}") as changes:
        changes.table("photos").append(ROWS)


def test_main_is_written_where_it_is(repo: lw.Repository) -> None:
    lance.write_dataset(ROWS, home(repo), mode="append")
    found = head(repo, "main")
    assert (found.branch, found.version) == (None, 2)


def test_a_branch_of_the_table_is_made_from_what_is_pinned_and_marked_as_ours(
    repo: lw.Repository,
) -> None:
    lance.write_dataset(ROWS, home(repo), mode="append")
    found = head(repo, "exp")
    assert (found.branch, found.version, found.count_rows()) == ("exp", 1, 3)
    record = load_branch(lw.open(home(repo))._snapshot.location.store, BranchName("exp"))
    assert record is not None
    assert record.metadata["lancewood.repository"] == repo._context.id
    assert head(repo, "exp").version == 1, "it is made once"


def test_a_branch_with_work_of_an_earlier_branch_begins_anew_after_it(repo: lw.Repository) -> None:
    append(repo, "exp")
    repo.branches.delete("exp", force=True)
    repo.branches.create("exp", at="main")
    found = head(repo, "exp")
    assert (found.version, found.count_rows()) == (3, 3)
    assert head(repo, "exp").version == 3, "an attempt that was cut off is gone on with"
    append(repo, "main")
    repo.branches.delete("exp", force=True)
    repo.branches.create("exp", at="main")
    found = head(repo, "exp")
    assert (found.version, found.count_rows()) == (4, 6)


def test_a_branch_that_moved_meanwhile_is_not_begun_anew(repo: lw.Repository) -> None:
    tip = repo.at("exp").hash
    append(repo, "exp")
    with pytest.raises(BranchMovedError):
        head(repo, "exp", tip)
    assert lw.open(home(repo), branch="exp").count_rows() == 6
    assert head(repo, "exp").count_rows() == 6


def test_a_branch_made_from_another_parent_is_not_taken(repo: lw.Repository) -> None:
    append(repo, "exp")
    append(repo, "dev")
    repo.branches.delete("exp", force=True)
    repo.branches.create("exp", at="dev")
    with pytest.raises(IncompatibleConflictError, match="was made from"):
        head(repo, "exp")
    repo.branches.create("other", at="dev")
    assert head(repo, "other").count_rows() == 6


def test_what_only_others_wrote_since_it_was_made_goes_on(repo: lw.Repository) -> None:
    made = head(repo, "exp")
    location, version = made._snapshot.location, made._snapshot.manifest.version
    assert goes_on(location, None, version)
    made.append(ROWS)
    assert goes_on(location, None, version)
    assert not goes_on(location, "dev", version)
    assert head(repo, "exp").count_rows() == 6
    append(repo, "exp")
    assert not goes_on(location, None, version)


def test_no_branch_is_made_from_a_state_that_no_version_has(
    repo: lw.Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lancewood.engine.staging import landing

    real = landing.land

    def late(*given: object, **known: object) -> object:
        lance.write_dataset(ROWS, home(repo), mode="append")
        return real(*given, **known)  # type: ignore[arg-type]

    monkeypatch.setattr("lancewood.repo.commit.transaction.land", late)
    append(repo, "main")
    monkeypatch.undo()
    repo.branches.create("late")
    with pytest.raises(IncompatibleConflictError, match="landed together with a write"):
        head(repo, "late")
    pin = repo.at("main").pin("photos")
    with pytest.raises(IncompatibleConflictError, match="commit\\(\\) where it stands"):
        landed_source(repo._context, "photos", pin)
    repo.commit("where it stands")
    repo.branches.create("later")
    assert head(repo, "later").count_rows() == 9
