"""Indices in a repository: they come with commits and go with them, though they change no row."""

from __future__ import annotations

import lance
import pytest
from tests.unit.repo.rows import rows

import lancewood as lw
from lancewood.repo.inspect.status import State

pytestmark = pytest.mark.usefixtures("unsynced")


def standing(repo: lw.Repository) -> lw.Table:
    """The table itself, as one opens it who does not know the repository."""
    return lw.open(repo.path / "tables" / "photos.lance")


def committed(repo: lw.Repository, revision: str = "HEAD") -> list[str]:
    return [each.name for each in repo.at(revision).table("photos").indices]


def state(repo: lw.Repository) -> State:
    return next(each.state for each in repo.status().tables if each.name == "photos")


def index(repo: lw.Repository, branch: str, name: str) -> None:
    with repo.transaction(branch, f"{name} on {branch}") as changes:
        changes.table("photos").indices.create("id", "BTREE", name=name)


def test_an_index_made_beside_the_repository_is_a_change_that_is_committed(
    repo: lw.Repository,
) -> None:
    made = standing(repo).indices.create("id", "BTREE")
    assert state(repo) is State.MODIFIED
    done = repo.commit("an index")
    assert (done.is_new, done.tables, committed(repo)) == (True, ("photos",), ["id_idx"])
    assert (committed(repo, "HEAD~1"), state(repo)) == ([], State.CLEAN)
    assert [each.kind for each in repo.diff("HEAD~1", "HEAD")] == ["moved"]
    made.set_config({"lancewood.test": "1"})
    assert not repo.commit("nothing that is committed").is_new
    standing(repo).indices.drop("id_idx")
    assert repo.commit("none again").is_new
    assert committed(repo) == []


def test_what_became_of_indices_is_told(repo: lw.Repository) -> None:
    standing(repo).indices.create("id", "BTREE")
    (status,) = (each for each in repo.status().tables if each.name == "photos")
    assert (status.state, status.why) == (State.MODIFIED, "only its indices")
    (change,) = repo.diff("HEAD", None)
    assert change.added_indices == (("id_idx", "BTREE"),)
    repo.commit("an index")
    made = standing(repo).indices.create("id", "ZONEMAP", name="id_idx", replace=True)
    made.indices.create("id", "BITMAP", name="bits")
    repo.commit("others")
    (change,) = repo.show("HEAD").changes
    assert change.added_indices == (("bits", "BITMAP"), ("id_idx", "ZONEMAP"))
    assert change.removed_indices == (("id_idx", "BTREE"),)
    (change,) = repo.diff("HEAD", "HEAD~1")
    assert change.removed_indices == (("bits", "BITMAP"), ("id_idx", "ZONEMAP"))
    standing(repo).indices.create("id", "BITMAP", name="bits", replace=True)
    repo.commit("the same anew")
    (change,) = repo.show("HEAD").changes
    assert (change.added_indices, change.removed_indices) == ((), ())
    assert change.changed_indices == (("bits", "BITMAP"),)
    standing(repo).append(rows(7)).indices.extend()
    repo.commit("rows as well")
    (change,) = repo.show("HEAD").changes
    assert change.kind == "changed"
    assert change.changed_indices == (("bits", "BITMAP"), ("id_idx", "ZONEMAP"))
    standing(repo).append(rows(8)).indices.drop("bits")
    repo.commit("rows, and an index less")
    (change,) = repo.show("HEAD").changes
    assert (change.changed_indices, change.removed_indices) == ((), (("bits", "BITMAP"),))


def test_a_reset_takes_an_index_back_and_brings_it_again(repo: lw.Repository) -> None:
    standing(repo).indices.create("id", "BTREE")
    repo.reset("HEAD")
    assert (state(repo), [*standing(repo).indices]) == (State.CLEAN, [])
    index(repo, "main", "kept")
    tip = next(iter(repo.log())).hash
    repo.reset("HEAD~1")
    assert (committed(repo), [*standing(repo).indices]) == ([], [])
    repo.reset(tip)
    assert committed(repo) == [each.name for each in standing(repo).indices] == ["kept"]
    assert state(repo) is State.CLEAN


@pytest.mark.parametrize("squash", [False, True])
def test_a_merge_brings_an_index_that_came_without_rows(repo: lw.Repository, squash: bool) -> None:
    index(repo, "exp", "by_id")
    done = repo.merge("exp", squash=squash)
    assert (done.tables, committed(repo)) == (("photos",), ["by_id"])
    with repo.transaction("main", "more") as changes:
        changes.table("photos").append(rows(4))
    assert standing(repo).scan(where="id = 2").to_arrow().num_rows == 1
    found = lance.dataset(standing(repo).uri)
    plan = found.scanner(filter="id = 2").explain_plan()
    assert "ScalarIndexQuery" in plan
    assert found.count_rows("id = 2") == found.count_rows("id = 4") == 1
    assert repo.fsck(deep=True).is_ok


def test_an_index_whose_name_is_taken_stays_on_its_branch_and_that_is_told(
    repo: lw.Repository,
) -> None:
    repo.branches.create("other")
    for branch, kind in (("exp", "BTREE"), ("other", "BITMAP")):
        with repo.transaction(branch, "an index") as changes:
            changes.table("photos").indices.create("id", kind, name="taken")
    repo.merge("exp")
    assert repo.merge("other", dry_run=True).left_out_indices == (("photos", ("taken",)),)
    done = repo.merge("other")
    assert done.left_out_indices == (("photos", ("taken",)),)
    kinds = [repo.at(each).table("photos").indices.list()[0].kind for each in ("main", "other")]
    assert kinds == ["BTREE", "BITMAP"]


def test_a_branch_that_changed_nothing_brings_nothing_by_a_squashed_merge(
    repo: lw.Repository,
) -> None:
    index(repo, "exp", "by_id")
    with repo.transaction("exp", "not that one") as changes:
        changes.table("photos").indices.drop("by_id")
    assert not repo.merge("exp", squash=True).is_new
    assert committed(repo) == []
