"""How tables stand to what HEAD pins."""

from __future__ import annotations

import shutil
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lancewood as lw
from lancewood.errors import StorageError
from lancewood.repo.inspect.status import State
from lancewood.repo.outcome import NotLandedWarning

ROWS = pa.table({"id": [1, 2, 3]})


@pytest.fixture
def repo(tmp_path: Path) -> lw.Repository:
    made = lw.Repository.init(tmp_path / "r", fsync=False)
    with made.transaction("main", "first") as changes:
        changes.create_table("photos", ROWS)
    return made


def home(repo: lw.Repository) -> str:
    return str(repo.path / "tables/photos.lance")


def state(repo: lw.Repository) -> tuple[State, str]:
    (found,) = lw.Repository.open(repo.path).status().tables
    return found.state, found.why


def unlanded(repo: lw.Repository, monkeypatch: pytest.MonkeyPatch, verb: str = "append") -> None:
    def fail(*_: object, **__: object) -> None:
        raise StorageError("no answer")

    changes = repo.transaction("main", "not landed")
    table = changes.table("photos")
    table.append(ROWS) if verb == "append" else table.delete("id = 1")
    with monkeypatch.context() as patch:
        patch.setattr("lancewood.repo.commit.transaction.land", fail)
        with pytest.warns(NotLandedWarning):
            changes.commit()


def test_an_empty_repository_has_a_branch_and_nothing_else(tmp_path: Path) -> None:
    status = lw.Repository.init(tmp_path / "empty", fsync=False).status()
    assert (status.branch, status.hash, status.tables) == ("main", None, ())
    assert status.is_clean


def test_a_table_as_it_is_pinned_is_clean(repo: lw.Repository) -> None:
    status = repo.status()
    assert status.is_clean
    assert status.hash == repo.at().hash
    assert [each.version for each in status.tables] == [1]


def test_rows_that_were_written_since_make_it_modified(repo: lw.Repository) -> None:
    lance.write_dataset(ROWS, home(repo), mode="append")
    assert state(repo)[0] is State.MODIFIED
    assert not repo.status().is_clean
    repo.commit("recorded")
    assert state(repo)[0] is State.CLEAN
    lw.open(home(repo)).rename_column("id", "number")
    assert state(repo)[0] is State.MODIFIED


def test_a_commit_that_has_not_landed_is_told_apart_from_one_that_cannot(
    repo: lw.Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    unlanded(repo, monkeypatch, "delete")
    assert state(repo)[0] is State.UNLANDED
    lance.write_dataset(ROWS, home(repo), mode="overwrite")
    found, why = state(repo)
    assert found is State.DIVERGED
    assert why


def test_an_append_that_can_still_land_beside_others_is_not_diverged(
    repo: lw.Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    unlanded(repo, monkeypatch)
    lance.write_dataset(ROWS, home(repo), mode="append")
    assert state(repo)[0] is State.UNLANDED


def test_a_table_that_is_gone_is_missing_and_says_why(repo: lw.Repository) -> None:
    shutil.rmtree(home(repo))
    found, why = state(repo)
    assert found is State.MISSING
    assert "photos.lance" in why


def test_what_is_pinned_and_damaged_is_missing_as_well(repo: lw.Repository) -> None:
    repo.detach()
    (staged,) = (repo.path / "tables/photos.lance/_versions").glob("d*.manifest")
    staged.write_bytes(b"damaged")
    found, why = state(repo)
    assert found is State.MISSING
    assert staged.name in why


def test_a_branch_that_never_wrote_a_table_has_it_as_it_is_pinned(repo: lw.Repository) -> None:
    repo.switch("exp", create=True)
    lance.write_dataset(ROWS, home(repo), mode="append")
    assert state(repo)[0] is State.CLEAN


@pytest.mark.parametrize("maker", ["main", "exp"])
def test_tables_that_another_branch_made_are_not_untracked(repo: lw.Repository, maker: str) -> None:
    repo.branches.create("exp")
    with repo.transaction(maker, "made") as changes:
        changes.create_table("birds", ROWS)
    repo.switch("exp" if maker == "main" else "main")
    found = repo.status()
    assert (found.untracked, found.elsewhere) == ((), {"birds": (maker,)})
    lw.open(repo.path / "tables/birds.lance").append(ROWS)
    found = repo.status()
    assert (found.untracked, found.elsewhere) == (("birds",), {}), "rows wait to be taken in"


def test_tables_that_head_does_not_pin_are_untracked(repo: lw.Repository) -> None:
    lw.create(repo.path / "tables/loose.lance", ROWS)
    (repo.path / "tables/notes.txt").write_text("no table")
    (repo.path / "tables/empty.lance").mkdir()
    assert repo.status().untracked == ("loose",)
    assert repo.status().is_clean
