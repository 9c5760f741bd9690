"""Merge, reset, revert and cherry-pick, told by pylance, which reads and writes the tables, and by
stock git, which reads the history."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from tests.interop.git_judge import check, git

import lancewood as lw
from lancewood.repo.inspect.status import State


def rows(*values: int) -> pa.Table:
    return pa.table({"id": pa.array(values, pa.int64()), "name": [f"n{each}" for each in values]})


@pytest.fixture
def repo(tmp_path: Path) -> lw.Repository:
    """One table on main with an index by pylance, and a branch exp at the same commit."""
    made = lw.Repository.init(tmp_path / "r")
    with made.transaction("main", "begin") as changes:
        changes.create_table("photos", rows(*range(1, 11)))
    dataset(made).create_scalar_index("id", "BTREE")
    made.commit("an index by pylance")
    made.branches.create("exp")
    return made


def uri(repo: lw.Repository) -> str:
    return str(repo.path / "tables" / "photos.lance")


def dataset(repo: lw.Repository, branch: str | None = None) -> Any:
    found = lance.dataset(uri(repo))
    if branch is not None:
        found = found.checkout_version((branch, None))
    found.validate()
    return found


def ids(opened: Any, where: str | None = None) -> list[int]:
    return sorted(opened.to_table(filter=where)["id"].to_pylist())


def append(repo: lw.Repository, branch: str, *values: int) -> None:
    with repo.transaction(branch, f"{branch} gets {values}") as changes:
        changes.table("photos").append(rows(*values))


def test_a_merge_is_one_version_for_pylance_and_has_two_parents_for_git(
    repo: lw.Repository,
) -> None:
    with repo.transaction("exp", "three at once") as changes:
        table = changes.table("photos").append(rows(21, 22))
        table.delete("id = 3").update({"name": "'other'"}, "id = 4")
    append(repo, "main", 31)
    before = dataset(repo).version
    repo.merge("exp")
    opened = dataset(repo)
    assert opened.version == before + 1
    assert ids(opened) == [1, 2, *range(4, 11), 21, 22, 31]
    assert ids(opened, "id = 22") == [22], "by the index and by what came after it"
    assert opened.to_table(filter="id = 4")["name"].to_pylist() == ["other"]
    marked = opened.to_table(columns=["id"], with_row_id=True)["_rowid"].to_pylist()
    assert len({*marked}) == 12
    opened.insert(rows(41), mode="append")
    assert repo.status().tables[0].state is State.MODIFIED
    parents = git(repo.path, "rev-list", "--parents", "-1", "main").split()[1:]
    assert parents == [*repo.at("main").commit.parents]
    assert parents[1] == git(repo.path, "rev-parse", "exp")
    graph = git(repo.path, "log", "--graph", "--format=%s", "main").splitlines()
    assert graph[0] == "*   Merge branch 'exp'"
    assert graph[1].startswith("|\\")
    assert git(repo.path, "merge-base", "main", "exp") == parents[1]
    check(repo.path)


def test_git_tells_where_branches_were(repo: lw.Repository) -> None:
    append(repo, "exp", 21)
    repo.merge("exp")
    repo.merge("main", branch="exp")
    append(repo, "exp", 22)
    repo.revert("exp", branch="exp")
    repo.cherry_pick("exp~1")
    repo.reset("HEAD~1")
    told = git(repo.path, "reflog", "show", "--format=%gs", "main").splitlines()
    assert told[:3] == [
        "reset: moving to HEAD~1",
        "cherry-pick: exp gets (22,)",
        "merge exp: Merge branch 'exp'",
    ]
    on_exp = git(repo.path, "reflog", "show", "--format=%gs", "exp").splitlines()
    assert on_exp[0] == 'revert: Revert "exp gets (22,)"'
    assert on_exp[2] == "merge main: Fast-forward"
    assert git(repo.path, "rev-parse", "main@{1}") == next(repo.reflog("main")).old
    check(repo.path)


def test_a_merge_by_git_of_what_did_not_touch_the_same_tables_is_read_and_gone_on_from(
    repo: lw.Repository,
) -> None:
    with repo.transaction("main", "more") as changes:
        changes.create_table("labels", rows(1))
    append(repo, "exp", 21)
    tree = git(repo.path, "rev-parse", "main^{tree}")
    tips = git(repo.path, "rev-parse", "main", "exp").split()
    made = git(repo.path, "commit-tree", tree, "-p", tips[0], "-p", tips[1], "-m", "by git")
    git(repo.path, "update-ref", "refs/heads/main", made)
    assert not repo.merge("exp").is_new, "git says that it is merged"
    append(repo, "main", 22)
    assert ids(dataset(repo)) == [*range(1, 11), 22]
    check(repo.path)


def test_pylance_writes_on_after_a_reset(repo: lw.Repository) -> None:
    append(repo, "main", 21)
    version = dataset(repo).version
    repo.reset("HEAD~1")
    opened = dataset(repo)
    assert opened.version == version + 1
    assert ids(opened) == ids(opened.checkout_version(version - 1)) == [*range(1, 11)]
    assert ids(opened, "id = 7") == [7]
    opened.insert(rows(31), mode="append")
    repo.commit("by pylance")
    assert ids(dataset(repo)) == [*range(1, 11), 31]
    append(repo, "main", 32)
    assert ids(dataset(repo)) == [*range(1, 11), 31, 32]
    assert len({each["_rowid"] for each in _rows(dataset(repo))}) == 12


def _rows(opened: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = opened.to_table(with_row_id=True).to_pylist()
    return found


def test_pylance_reads_a_branch_that_went_back_and_one_that_began_anew(
    repo: lw.Repository,
) -> None:
    append(repo, "exp", 21)
    append(repo, "exp", 22)
    repo.reset("exp~1", branch="exp")
    assert ids(dataset(repo, "exp")) == [*range(1, 11), 21]
    repo.reset("main", branch="exp")
    assert ids(dataset(repo, "exp")) == [*range(1, 11)]
    dataset(repo, "exp").insert(rows(23), mode="append")
    repo.commit("by pylance", branch="exp")
    repo.merge("exp")
    assert ids(dataset(repo)) == [*range(1, 11), 23]


def test_a_state_that_never_landed_comes_back_where_pylance_was_faster(
    repo: lw.Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = repo.transaction("main", "delete")
    changes.table("photos").delete("id < 9")
    with monkeypatch.context() as patch:
        patch.setattr("lancewood.repo.commit.transaction.land", _fail)
        with pytest.warns(UserWarning, match="could not land"):
            changes.commit()
    lance.write_dataset(rows(1), uri(repo), mode="overwrite")
    assert repo.status().tables[0].state is State.DIVERGED
    repo.reset()
    assert repo.status().is_clean
    opened = dataset(repo)
    assert ids(opened) == [9, 10]
    assert opened.get_transactions(1)[0] is not None
    append(repo, "main", 11)
    assert ids(dataset(repo)) == [9, 10, 11]


def _fail(*_: object, **__: object) -> None:
    raise OSError("no answer")


@pytest.mark.usefixtures("pages_decoded_here")
def test_pylance_s_work_on_a_branch_is_merged_and_leaves_the_branch_free(
    repo: lw.Repository,
) -> None:
    repo.prepare("photos", branch="exp")
    dataset(repo, "exp").insert(rows(21), mode="append")
    dataset(repo, "exp").delete("id = 2")
    repo.commit("by pylance", branch="exp")
    repo.merge("exp")
    assert ids(dataset(repo)) == [1, *range(3, 11), 21]
    lw.open(uri(repo)).branches.delete("exp", force=True)
    assert ids(dataset(repo)) == [1, *range(3, 11), 21], "nothing is read from the branch"
    assert lw.open(uri(repo)).verify(deep=True).ok


def test_a_pick_brings_what_pylance_wrote_elsewhere(repo: lw.Repository) -> None:
    repo.prepare("photos", branch="exp")
    dataset(repo, "exp").delete("id = 2")
    repo.commit("by pylance", branch="exp")
    repo.cherry_pick("exp")
    assert ids(dataset(repo)) == [1, *range(3, 11)]
    repo.merge("exp")
    assert ids(dataset(repo)) == [1, *range(3, 11)], "it is there already"


def test_a_copy_of_the_repository_is_merged_and_reset_by_itself(
    repo: lw.Repository, tmp_path: Path
) -> None:
    append(repo, "exp", 21)
    with repo.transaction("exp", "delete") as changes:
        changes.table("photos").delete("id = 1")
    shutil.copytree(repo.path, tmp_path / "copy")
    shutil.rmtree(repo.path)
    copy = lw.Repository.open(tmp_path / "copy")
    copy.merge("exp")
    assert ids(dataset(copy)) == [*range(2, 11), 21]
    copy.reset("HEAD~1")
    assert ids(dataset(copy)) == [*range(1, 11)]
    copy.cherry_pick("exp~1")
    assert ids(dataset(copy)) == [*range(1, 11), 21]
