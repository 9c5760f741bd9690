"""The verbs of ``lw`` that change a repository: names, tables and commits."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lancewood as lw
from lancewood.cli.failing import ExitCode

Lw = Callable[..., Any]
ROWS = pa.table({"id": [1, 2, 3]})


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> lw.Repository:
    """One table, one commit, and its directory the current one."""
    made = lw.Repository.init(tmp_path / "r")
    monkeypatch.chdir(made.path)
    with made.transaction("main", "first photos") as changes:
        changes.create_table("photos", ROWS)
    return made


def git(*args: str) -> str:
    return subprocess.run(["git", *args], capture_output=True, text=True, check=True).stdout


def test_a_commit_is_told_as_git_tells_it(lw_ok: Lw, repo: lw.Repository) -> None:
    lance.write_dataset(ROWS, "tables/photos.lance", mode="append")
    told = lw_ok("commit", "-m", "title", "-m", "body", "--author", "Bob <bob@example.org>").out
    commit = repo.at().commit
    assert told.splitlines() == [
        f"[main {commit.hash[:12]}] title",
        " photos | 3 -> 6 rows (3 inserted), 1 -> 2 fragments",
        " 1 table changed, 3 rows more",
    ]
    assert git("log", "-1", "--format=%an|%ae|%B").strip() == "Bob|bob@example.org|title\n\nbody"


def test_nothing_to_commit_is_no_error(lw_ok: Lw, repo: lw.Repository) -> None:
    before = repo.head
    assert lw_ok("commit", "-am", "again").out == "nothing to commit, tables clean\n"
    found = lw_ok("commit", "-m", "again", "--json").document
    assert found == {
        "branch": "main",
        "hash": before.hash,
        "new": False,
        "tables": [],
        "diverged": [],
        "taken_in": [],
    }
    assert repo.head == before


def test_a_merge_names_what_was_written_directly_and_is_part_of_it(
    lw_ok: Lw, repo: lw.Repository
) -> None:
    for number, branch in enumerate(("one", "two")):
        repo.branches.create(branch, at="main")
        with repo.transaction(branch, "work") as changes:
            changes.table("photos").append(ROWS)
        lw.open("tables/photos.lance").append(ROWS, message="by\x1b hand")
        if not number:
            told = lw_ok("merge", branch).out.splitlines()
            assert told[-1] == " also contains version 2 of photos, written directly: by\\x1b hand"
        else:
            (found,) = lw_ok("merge", branch, "--json").document["taken_in"]
            assert found == {"table": "photos", "versions": [4], "message": "by\x1b hand"}


@pytest.mark.parametrize(
    ("args", "code", "told"),
    [
        ([], ExitCode.USAGE, "opens no editor"),
        (["-m", ""], ExitCode.INVALID_INPUT, "message"),
        (["-m", "x", "--author", "Bob"], ExitCode.INVALID_INPUT, "Name <address>"),
        (["-m", "x", "--branch", "nope"], ExitCode.NOT_FOUND, "lw switch -c makes one"),
    ],
)
def test_a_commit_that_cannot_be_is_refused(
    lw_run: Lw, repo: lw.Repository, args: list[str], code: int, told: str
) -> None:
    ran = lw_run("commit", *args)
    assert ran.code == code
    assert told in ran.err
    assert len(list(repo.log())) == 1


def test_a_detached_head_is_not_committed_to(lw_run: Lw, repo: lw.Repository) -> None:
    repo.detach()
    ran = lw_run("commit", "-m", "x")
    assert ran.code == ExitCode.INVALID_INPUT
    assert "HEAD is detached" in ran.err
    assert "lw switch -c" in ran.err


def test_tables_come_and_go_as_commits(lw_ok: Lw, lw_run: Lw, repo: lw.Repository) -> None:
    lance.write_dataset(ROWS, "tables/labels.lance")
    lance.write_dataset(ROWS, "../far.lance")
    untracked = 'nothing to commit but untracked tables (use "lw add NAME")\n'
    assert lw_ok("commit", "-m", "too early").out == untracked
    told = lw_ok("add", "labels").out.splitlines()
    assert told[0].endswith("] add table labels")
    assert told[1] == " labels | new, 3 rows"
    lw_ok("add", "far", "../far.lance", "-m", "from far away")
    assert repo.tables == ("far", "labels", "photos")
    assert repo.at().commit.message == "from far away"
    assert repo.at().table("far").count_rows() == 3
    again = lw_run("add", "labels")
    assert again.code == ExitCode.ALREADY_EXISTS
    assert "lw commit records what was written to it" in again.err
    gone = lw_ok("remove", "labels").out.splitlines()
    assert gone[1:] == [" labels | gone, 3 rows", " 1 table changed, 3 rows fewer"]
    assert lance.dataset("tables/labels.lance").count_rows() == 3
    assert repo.at("HEAD~1").table("labels").count_rows() == 3
    missing = lw_run("remove", "labels")
    assert missing.code == ExitCode.NOT_FOUND
    assert lw_run("add", "none").code == ExitCode.NOT_FOUND
    assert lw_run("add", "../none").code == ExitCode.NOT_FOUND
    assert lw_run("add", "../no name.lance").code == ExitCode.INVALID_INPUT


def test_several_tables_are_added_as_one_commit_by_name_path_or_both(
    lw_ok: Lw, lw_run: Lw, repo: lw.Repository
) -> None:
    for where in ("tables/labels.lance", "tables/sizes.lance", "../far.lance"):
        lance.write_dataset(ROWS, where)
    before = repo.at().hash
    told = lw_ok("add", "labels", "tables/sizes.lance/", "../far.lance").out.splitlines()
    assert told[0].endswith("] add tables labels, sizes, far")
    assert told[1:4] == [f" {name:<6} | new, 3 rows" for name in ("far", "labels", "sizes")]
    assert repo.at("HEAD~1").hash == before
    assert {name: repo.at().pin(name).is_own for name in ("labels", "sizes", "far")} == {
        "labels": True,
        "sizes": True,
        "far": False,
    }
    twice = lw_run("add", "../far.lance", "far")
    assert twice.code == ExitCode.USAGE
    assert "two of the tables are called 'far'" in twice.err


def test_of_several_tables_none_is_added_or_marked_if_one_is_missing(
    lw_run: Lw, repo: lw.Repository
) -> None:
    lance.write_dataset(ROWS, "../far.lance")
    before = repo.at().hash
    refused = lw_run("add", "../far.lance", "../missing.lance", "labels")
    assert refused.code == ExitCode.NOT_FOUND
    assert "missing.lance" in refused.err
    assert repo.at().hash == before
    assert lance.dataset("../far.lance").tags.list() == {}


def test_a_commit_of_very_many_added_tables_names_them_below_a_short_subject(
    lw_ok: Lw, repo: lw.Repository
) -> None:
    names = [f"table_of_day_{day}" for day in range(6)]
    for name in names:
        lance.write_dataset(ROWS, f"tables/{name}.lance")
    lw_ok("add", *names)
    assert repo.at().commit.message.split("\n") == ["add 6 tables", "", ", ".join(names)]


def test_branches_are_listed_with_a_star(lw_ok: Lw, repo: lw.Repository) -> None:
    tip = repo.at().hash
    assert lw_ok("branch", "exp").out == f"made branch exp at {tip[:12]}\n"
    assert lw_ok("branch").out == git("branch") == "  exp\n* main\n"
    assert lw_ok("branch", "--list", "e*").out == "  exp\n"
    lines = lw_ok("branch", "-v").out.splitlines()
    assert lines == [f"  exp   {tip[:12]}  first photos", f"* main  {tip[:12]}  first photos"]
    assert lw_ok("branch", "--json").lines == [
        {"name": "exp", "hash": tip, "current": False},
        {"name": "main", "hash": tip, "current": True},
    ]
    assert lw_ok("branch", "--show-current").out == "main\n"
    repo.detach()
    detached = f"* (HEAD detached at {tip[:12]})\n  exp\n  main\n"
    assert lw_ok("branch").out == detached
    assert git("-c", "core.abbrev=12", "branch") == detached
    assert lw_ok("branch", "--show-current").out == git("branch", "--show-current") == ""


def test_branches_are_deleted_with_care(lw_ok: Lw, lw_run: Lw, repo: lw.Repository) -> None:
    repo.branches.create("same")
    repo.switch("exp", create=True)
    with repo.transaction(message="work") as changes:
        changes.table("photos").append(ROWS)
    repo.switch("main")
    tip = repo.branches.list()["exp"]
    assert lw_ok("branch", "-d", "same").out.startswith("Deleted branch same (was ")
    refused = lw_run("branch", "-d", "exp")
    assert refused.code == ExitCode.CONFLICT
    assert "--force" in refused.err
    assert lw_run("branch", "-D", "main").code == ExitCode.INVALID_INPUT
    assert lw_run("branch", "-d", "nope").code == ExitCode.NOT_FOUND
    gone = lw_ok("branch", "-D", "exp", "--json").document
    assert gone == {"action": "deleted", "branch": "exp", "hash": tip}
    assert list(repo.branches) == ["main"]


@pytest.mark.parametrize(
    ("args", "code"),
    [
        (["branch", "a..b"], ExitCode.INVALID_INPUT),
        (["branch", "main"], ExitCode.ALREADY_EXISTS),
        (["branch", "x", "nope"], ExitCode.NOT_FOUND),
        (["branch", "a", "main", "c"], ExitCode.USAGE),
        (["branch", "-d"], ExitCode.USAGE),
        (["branch", "x", "--list", "y"], ExitCode.USAGE),
        (["tag", "a", "main", "c"], ExitCode.USAGE),
        (["tag", "a b"], ExitCode.INVALID_INPUT),
        (["tag", "-d", "nope"], ExitCode.NOT_FOUND),
        (["switch"], ExitCode.USAGE),
        (["switch", "nope"], ExitCode.NOT_FOUND),
        (["switch", "main", "HEAD"], ExitCode.USAGE),
        (["switch", "-c", "x", "-d"], ExitCode.USAGE),
        (["switch", "-c", "main"], ExitCode.ALREADY_EXISTS),
        (["switch", "-d", "nope"], ExitCode.NOT_FOUND),
        (["prepare", "nope"], ExitCode.NOT_FOUND),
        (["prepare", "--branch", "nope"], ExitCode.NOT_FOUND),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, list) else "",
)
def test_what_cannot_be_done_ends_with_its_code_and_changes_nothing(
    lw_run: Lw, repo: lw.Repository, args: list[str], code: int
) -> None:
    before = git("for-each-ref")
    ran = lw_run(*args, "--json")
    assert (ran.code, ran.out) == (code, "")
    assert ran.error["exit_code"] == code
    assert git("for-each-ref") == before
    assert git("symbolic-ref", "HEAD") == "refs/heads/main\n"


def test_switching_is_told_as_git_tells_it(lw_ok: Lw, repo: lw.Repository) -> None:
    assert lw_ok("switch", "-c", "exp").out == "Switched to a new branch 'exp'\n"
    assert git("symbolic-ref", "HEAD") == "refs/heads/exp\n"
    assert lw_ok("switch", "exp").out == "Already on 'exp'\n"
    assert lw_ok("switch", "main").out == "Switched to branch 'main'\n"
    with repo.transaction(message="work") as changes:
        changes.table("photos").append(ROWS)
    old = repo.at("HEAD~1").hash
    assert lw_ok("switch", "-c", "old", "HEAD~1", "--json").document == {
        "branch": "old",
        "hash": old,
    }
    assert lw_ok("switch", "-d", "main~1").out == f"HEAD is now at {old[:12]} first photos\n"
    assert Path("HEAD").read_text() == f"{old}\n"


def test_a_tag_is_no_branch_to_switch_to(lw_run: Lw, repo: lw.Repository) -> None:
    repo.tags.create("v1")
    ran = lw_run("switch", "v1")
    assert ran.code == ExitCode.NOT_FOUND
    assert "it names a commit, and lw switch -d goes there" in ran.err
    assert "-c makes it" in lw_run("switch", "v2").err


def test_tags_name_commits_and_keep_versions(lw_ok: Lw, lw_run: Lw, repo: lw.Repository) -> None:
    tip = repo.at().hash
    assert lw_ok("tag", "v1").out == f"tag v1 is {tip[:12]}\n"
    assert lw_ok("tag", "v2", "HEAD", "--json").document["action"] == "created"
    assert lw_ok("tag").out == git("tag") == "v1\nv2\n"
    assert lw_ok("tag", "-l", "*2", "--json").lines == [{"name": "v2", "hash": tip}]
    assert len(lance.dataset("tables/photos.lance").tags.list()) == 2
    assert lw_run("tag", "v1").code == ExitCode.ALREADY_EXISTS
    assert lw_ok("tag", "-d", "v1").out == f"Deleted tag 'v1' (was {tip[:12]})\n"


def test_a_tag_with_messages_is_annotated(lw_ok: Lw, lw_run: Lw, repo: lw.Repository) -> None:
    tip = repo.at().hash
    assert lw_ok("tag", "-m", "day 1", "-m", "all of it", "v1").out == f"tag v1 is {tip[:12]}\n"
    assert "day 1\n\nall of it\n" in git("cat-file", "tag", "v1")
    assert lw_ok("tag", "--json").lines == [{"name": "v1", "hash": tip}]
    assert lw_run("tag", "-m", "no name").code == ExitCode.USAGE


def test_a_commit_is_protected_and_no_longer(lw_ok: Lw, lw_run: Lw, repo: lw.Repository) -> None:
    tip = repo.at().hash
    made = lw_ok("protect", "--json").document
    assert made == {"action": "protected", "hash": tip, "tables": ["photos"]}
    assert len(lance.dataset("tables/photos.lance").tags.list()) == 1
    assert lw_ok("protect", "-d", "main").out == f"unprotected 1 table of {tip[:12]}\n"
    assert lance.dataset("tables/photos.lance").tags.list() == {}
    assert lw_run("protect", "-d").code == ExitCode.NOT_FOUND


def test_a_prepared_table_is_written_by_anyone_and_committed(
    lw_ok: Lw, repo: lw.Repository, tmp_path: Path
) -> None:
    (tmp_path / "more.csv").write_text("id\n4\n")
    lw_ok("switch", "-c", "exp")
    ready = lw_ok("prepare", "--json").document
    assert ready == {
        "table": "photos",
        "branch": "exp",
        "version": 1,
        "uri": "tables/photos.lance@exp",
    }
    assert lw_ok("status").out.endswith("nothing to commit, tables clean\n")
    lw_ok("table", "import", ready["uri"], tmp_path / "more.csv", "--mode", "append")
    branch = lance.dataset("tables/photos.lance").checkout_version(("exp", None))
    branch.insert(ROWS, mode="append")
    assert lw_ok("prepare", "photos", "--json").document["version"] == 3
    assert "modified:   photos (version 3)" in lw_ok("status").out
    told = lw_ok("commit", "-m", "by two writers").out.splitlines()
    assert told[1:] == [
        " photos | 3 -> 7 rows (4 inserted), 1 -> 3 fragments",
        " 1 table changed, 4 rows more",
    ]
    assert repo.at("exp").table("photos").count_rows() == 7
    assert repo.at("main").table("photos").count_rows() == 3
    lw_ok("switch", "main")
    assert lw_ok("prepare").out.split()[-3:] == ["main", "1", "tables/photos.lance"]


def test_a_branch_of_a_table_that_others_made_is_taken_over_only_when_told(
    lw_run: Lw, lw_ok: Lw, repo: lw.Repository
) -> None:
    made = lw.open("tables/photos.lance").branches.create("exp")
    made.append(ROWS)
    lw_ok("switch", "-c", "exp")
    refused = lw_run("prepare")
    assert refused.code == ExitCode.CONFLICT
    assert "--adopt" in refused.err
    assert lw_ok("commit", "-m", "x", "--json").document["new"] is False
    assert lw_ok("commit", "-m", "x", "--adopt", "--json").document["tables"] == ["photos"]
    assert repo.at("exp").table("photos").count_rows() == 6
