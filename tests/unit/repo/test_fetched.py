"""A branch that git fetched from a copy of the repository: its commits are here, its tables are
not."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pyarrow as pa
import pytest

import lancewood as lw
from lancewood.errors import IncompatibleConflictError, NotFoundError


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64())})


@pytest.fixture
def here(tmp_path: Path) -> lw.Repository:
    """A repository that fetched branches exp and theirs from a copy: exp has a branch of the table
    of its own there, theirs is the main of the copy."""
    repo = lw.Repository.init(tmp_path / "here", fsync=False)
    with repo.transaction("main", message="one") as changes:
        changes.create_table("orders", rows(1, 2))
    shutil.copytree(tmp_path / "here", tmp_path / "copy")
    copy = lw.Repository.open(tmp_path / "copy", fsync=False)
    copy.branches.create("exp")
    for branch in ("exp", "main"):
        with copy.transaction(branch, message=f"work on {branch}") as changes:
            changes.table("orders").append(rows(3))
    subprocess.run(
        ["git", "fetch", "-q", "../copy", "exp:exp", "main:theirs"], cwd=repo.path, check=True
    )
    return lw.Repository.open(repo.path, fsync=False)


def test_a_merge_says_that_the_tables_of_the_branch_are_elsewhere(here: lw.Repository) -> None:
    tip = here.at("main").hash
    with pytest.raises(IncompatibleConflictError, match="and nothing has changed") as refused:
        here.merge("exp")
    told = str(refused.value)
    assert "git fetch brought this commit from ../copy, and no tables" in told
    assert "merge the branch there" in told
    assert "deleted" not in told
    assert here.at("main").hash == tip


@pytest.mark.parametrize("branch", ["exp", "theirs"])
def test_reading_says_so_too(here: lw.Repository, branch: str) -> None:
    with pytest.raises(NotFoundError, match=r"git fetch brought this commit from \.\./copy"):
        here.at(branch).table("orders").count_rows()


def test_a_merge_of_what_is_main_in_the_copy_says_so(here: lw.Repository) -> None:
    with pytest.raises(NotFoundError, match=r"git fetch brought this commit from \.\./copy"):
        here.merge("theirs")


def test_a_branch_of_a_table_that_another_program_deleted_is_told_as_before(
    tmp_path: Path,
) -> None:
    repo = lw.Repository.init(tmp_path / "alone", fsync=False)
    with repo.transaction("main", message="one") as changes:
        changes.create_table("orders", rows(1, 2))
    repo.branches.create("exp")
    with repo.transaction("exp", message="two") as changes:
        changes.table("orders").append(rows(3))
    table = repo.path / "tables" / "orders.lance"
    shutil.rmtree(table / "tree" / "exp")
    (table / "_refs" / "branches" / "exp.json").unlink()
    with pytest.raises(IncompatibleConflictError, match="another program deleted it"):
        repo.merge("exp")
