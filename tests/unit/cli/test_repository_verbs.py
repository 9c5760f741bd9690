"""The verbs of ``lw`` that bring commits from one place to another, and that look after them."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lancewood as lw
from lancewood.cli.failing import ExitCode
from lancewood.repo.outcome import NotLandedWarning

Lw = Callable[..., Any]
ROWS = pa.table({"id": [1, 2, 3]})


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> lw.Repository:
    """Two tables on main; on exp one row more in photos; main is the current branch."""
    made = lw.Repository.init(tmp_path / "r")
    monkeypatch.chdir(made.path)
    with made.transaction("main", "first") as changes:
        changes.create_table("photos", ROWS)
        changes.create_table("labels", ROWS)
    made.branches.create("exp")
    write(made, "exp", "a fourth photo", "photos")
    return made


def write(repo: lw.Repository, branch: str, message: str, *tables: str) -> None:
    with repo.transaction(branch, message) as changes:
        for each in tables:
            changes.table(each).append(pa.table({"id": [4]}))


def rows(repo: lw.Repository, revision: str = "main") -> dict[str, int]:
    view = repo.at(revision)
    return {name: view.table(name).count_rows() for name in view.tables}


def git(*args: str) -> str:
    return subprocess.run(["git", *args], capture_output=True, text=True, check=True).stdout


def test_a_merge_has_two_parents_and_is_told_with_its_tables(
    lw_ok: Lw, repo: lw.Repository
) -> None:
    write(repo, "main", "a fourth label", "labels")
    before = git("for-each-ref")
    dry = lw_ok("merge", "exp", "--dry-run").out
    assert dry == "would merge exp into main: photos; nothing was changed\n"
    assert git("for-each-ref") == before
    told = lw_ok("merge", "exp").out.splitlines()
    commit = repo.at("main").commit
    assert told == [
        f"Merge made by publishing: {commit.hash[:12]}",
        " photos | 3 -> 4 rows (1 inserted), 1 -> 2 fragments",
        " 1 table changed, 1 row more",
    ]
    assert git("log", "-1", "--format=%s|%P").strip() == (
        f"Merge branch 'exp'|{commit.parents[0]} {repo.at('exp').hash}"
    )
    assert rows(repo) == {"photos": 4, "labels": 4}
    assert lance.dataset("tables/photos.lance").count_rows() == 4
    assert lw_ok("merge", "exp").out == "Already up to date.\n"
    assert lw_ok("merge", "exp", "--json").document["new"] is False
    assert lw_ok("log", "--graph", "--oneline").out == "".join(
        f"{line.rstrip()}\n"
        for line in git(
            "log", "--graph", "--oneline", "--decorate", "--abbrev=12", "--date-order"
        ).splitlines()
    )


def test_a_merge_into_another_branch_takes_a_message_of_its_own(
    lw_ok: Lw, repo: lw.Repository
) -> None:
    write(repo, "main", "a fourth label", "labels")
    repo.switch("exp")
    found = lw_ok("merge", "exp", "--into", "main", "-m", "release", "--json").document
    assert (found["branch"], found["merged"], found["new"]) == ("main", "exp", True)
    assert (found["fast_forward"], found["dry_run"], found["tables"]) == (False, False, ["photos"])
    assert repo.at("main").commit.message == "release"


def test_a_branch_that_fell_behind_is_moved_up(lw_ok: Lw, repo: lw.Repository) -> None:
    repo.merge("exp", branch="main")
    old, new = repo.at("exp").hash, repo.at("main").hash
    repo.switch("exp")
    told = lw_ok("merge", "main").out.splitlines()
    assert told[:2] == [f"Updating {old[:12]}..{new[:12]}", "Fast-forward"]
    assert repo.at("exp").hash == new


def test_a_merge_that_tables_refuse_names_them_and_changes_nothing(
    lw_run: Lw, repo: lw.Repository
) -> None:
    repo.remove("photos", branch="main")
    before = git("for-each-ref")
    ran = lw_run("merge", "exp", "--json")
    assert (ran.code, ran.out) == (ExitCode.CONFLICT, "")
    assert "photos" in ran.error["message"]
    assert git("for-each-ref") == before
    assert lw_run("merge", "nope").code == ExitCode.NOT_FOUND


def test_a_commit_is_taken_back_by_a_new_one(lw_ok: Lw, lw_run: Lw, repo: lw.Repository) -> None:
    write(repo, "main", "too much", "photos", "labels")
    would = "would revert HEAD on main: labels, photos; nothing was changed\n"
    assert lw_ok("revert", "HEAD", "--dry-run").out == would
    told = lw_ok("revert", "HEAD").out.splitlines()
    assert told[0] == f'[main {repo.at().hash[:12]}] Revert "too much"'
    assert told[-1] == " 2 tables changed, 2 rows fewer"
    assert rows(repo) == {"photos": 3, "labels": 3}
    write(repo, "main", "again", "photos")
    repo.remove("labels", branch="main")
    refused = lw_run("revert", "HEAD~2")
    assert refused.code == ExitCode.CONFLICT
    assert "table 'labels': there is no such table on this branch" in refused.err
    assert rows(repo) == {"photos": 4}


def test_a_commit_of_another_branch_is_done_again_here(
    lw_ok: Lw, lw_run: Lw, repo: lw.Repository
) -> None:
    write(repo, "main", "a fourth label", "labels")
    would = "would pick exp for main: photos; nothing was changed\n"
    assert lw_ok("cherry-pick", "exp", "--dry-run").out == would
    told = lw_ok("cherry-pick", "exp").out.splitlines()
    assert told[0] == f"[main {repo.at().hash[:12]}] a fourth photo"
    assert rows(repo) == {"photos": 4, "labels": 4}
    assert len(repo.at().commit.parents) == 1
    assert lw_ok("cherry-pick", "exp").out == "nothing to commit, tables clean\n"
    with repo.transaction("main", "other photos") as changes:
        changes.table("photos").overwrite(pa.table({"id": [9]}))
    lw_ok("cherry-pick", "exp")
    assert rows(repo) == {"photos": 2, "labels": 4}
    repo.remove("photos", branch="main")
    refused = lw_run("cherry-pick", "exp")
    assert refused.code == ExitCode.CONFLICT
    assert "table 'photos': there is no such table on this branch" in refused.err


def test_a_branch_and_its_tables_are_put_back(lw_ok: Lw, lw_run: Lw, repo: lw.Repository) -> None:
    write(repo, "main", "too much", "photos", "labels")
    tip, first = repo.at("main").hash, repo.at("main~1").hash
    assert lw_ok("reset", "HEAD~1", "--dry-run").out.startswith("would reset main to ")
    told = lw_ok("reset", "--hard", "HEAD~1").out
    assert told == f"HEAD is now at {first[:12]} first\n"
    assert repo.at("main").hash == first
    assert lance.dataset("tables/photos.lance").count_rows() == 3
    assert lw_ok("status").out == "On branch main\nnothing to commit, tables clean\n"
    assert lw_ok("reset", "main@{1}").out == f"HEAD is now at {tip[:12]} too much\n"
    assert lance.dataset("tables/photos.lance").count_rows() == 4
    assert lw_run("reset", "--soft", "--hard").code == ExitCode.USAGE


def test_a_soft_reset_leaves_tables_as_they_are(lw_ok: Lw, repo: lw.Repository) -> None:
    write(repo, "main", "too much", "photos")
    found = lw_ok("reset", "--soft", "HEAD~1", "--json").document
    assert (found["branch"], found["hash"]) == ("main", repo.at("main").hash)
    assert lance.dataset("tables/photos.lance").count_rows() == 4
    assert "modified:   photos" in lw_ok("status").out
    told = lw_ok("commit", "-m", "better words").out.splitlines()
    assert told[1] == " photos | 3 -> 4 rows (1 inserted), 1 -> 2 fragments"


def test_changes_that_were_not_committed_are_taken_back(lw_ok: Lw, repo: lw.Repository) -> None:
    lance.write_dataset(ROWS, "tables/photos.lance", mode="append")
    lw_ok("reset")
    assert lance.dataset("tables/photos.lance").count_rows() == 3
    assert lw_ok("status").out.endswith("tables clean\n")


def test_what_no_commit_leads_to_is_removed(lw_ok: Lw, lw_run: Lw, repo: lw.Repository) -> None:
    assert lw_ok("gc").out == "nothing to remove\n"
    repo.branches.delete("exp", force=True)
    for log in (repo.path / "logs").rglob("*"):
        if log.is_file():
            log.write_text("")
    would = lw_ok("gc", "--dry-run", "--in-flight", "0s", "--json").document
    assert would["dry_run"] is True
    assert would["branches"] == [{"table": "photos", "branch": "exp"}]
    assert "exp" in lance.dataset("tables/photos.lance").branches.list()
    waits = lw_ok("gc").out
    assert "may belong to somebody at work" in waits
    told = lw_ok("gc", "--in-flight", "0s", "--tables").out
    assert told.startswith("removed: ")
    assert "branch exp of photos" in told
    assert "exp" not in lance.dataset("tables/photos.lance").branches.list()
    assert rows(repo) == {"photos": 3, "labels": 3}
    assert lw_run("gc", "--in-flight", "soon").code == ExitCode.USAGE


def test_a_whole_repository_has_no_problem(lw_ok: Lw, repo: lw.Repository) -> None:
    repo.tags.create("v1")
    for args in ([], ["--deep"]):
        told = lw_ok("fsck", *args).out
        assert told.startswith("no problem: ")
        assert told.count("\n") == 1
    found = lw_ok("fsck", "--deep", "--json").document
    assert (found["ok"], found["deep"], found["commits"]) == (True, True, 2)
    assert (found["pins"], found["opened"], found["problems"]) == (3, 3, [])


def test_a_table_that_is_gone_is_a_problem_with_a_way_out(lw_run: Lw, repo: lw.Repository) -> None:
    shutil.rmtree("tables/labels.lance")
    ran = lw_run("fsck")
    assert ran.code == ExitCode.CHECK_FAILED
    assert "table: table labels in commit " in ran.out
    found = lw_run("fsck", "--json")
    assert found.code == ExitCode.CHECK_FAILED
    assert found.document["ok"] is False
    first = found.document["problems"][0]
    assert list(first) == ["kind", "where", "why", "way_out"]
    assert all(first.values())


def test_tables_of_an_exclusive_repository_are_not_prepared_for_others(
    lw_ok: Lw, lw_run: Lw, tmp_path: Path
) -> None:
    lw_ok("init", tmp_path / "x", "--exclusive")
    repo = lw.Repository.open(tmp_path / "x")
    with repo.transaction("main", "first") as changes:
        changes.create_table("photos", ROWS)
    ran = lw_run("-C", tmp_path / "x", "prepare")
    assert ran.code == ExitCode.INVALID_INPUT
    assert "transaction" in ran.err
    with pytest.raises(OSError, match="cannot be written by this version"):
        lance.write_dataset(ROWS, tmp_path / "x" / "tables" / "photos.lance", mode="append")


def test_a_table_that_diverged_is_told_by_every_verb_until_somebody_decides(
    lw_ok: Lw, lw_run: Lw, repo: lw.Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*args: object, **options: object) -> None:
        raise OSError("the disk is full")

    with monkeypatch.context() as failing:
        failing.setattr("lancewood.repo.commit.transaction.land", full)
        with pytest.warns(NotLandedWarning, match="disk is full"):
            write(repo, "main", "not landed", "photos")
    assert "unlanded:   photos: the next writer lands it" in lw_ok("status").out
    assert "waits to land: photos on main" in lw_ok("fsck").out
    lance.write_dataset(pa.table({"other": [1]}), "tables/photos.lance", mode="overwrite")
    assert "diverged:   photos: " in lw_ok("status").out
    assert lw_run("fsck").code == ExitCode.CHECK_FAILED
    tagged = lw_ok("tag", "v1")
    assert tagged.err.startswith("lw: warning: table 'photos' has diverged")
    assert tagged.out == f"tag v1 is {repo.at().hash[:12]}\n"
    assert rows(repo) == {"photos": 4, "labels": 3}
    lw_ok("commit", "-m", "as it stands")
    assert lw_ok("status").out.endswith("tables clean\n")
    assert rows(repo) == {"photos": 1, "labels": 3}
