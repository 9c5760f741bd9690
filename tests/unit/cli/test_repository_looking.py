"""The verbs of ``lw`` that look at a repository, beside what stock git says of the same."""

from __future__ import annotations

import json
import os
import subprocess
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lancewood as lw
from lancewood.cli.failing import ExitCode
from lancewood.errors import StorageError
from lancewood.repo import NotLandedWarning

Lw = Callable[..., Any]
ROWS = pa.table({"id": [1, 2, 3]})


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> lw.Repository:
    """Two tables on main, one commit more on exp, and main the current branch and directory."""
    monkeypatch.setenv("GIT_AUTHOR_NAME", "Ada")
    monkeypatch.setenv("GIT_AUTHOR_EMAIL", "ada@example.org")
    made = lw.Repository.init(tmp_path / "r")
    monkeypatch.chdir(made.path)
    with made.transaction("main", "two tables\n\nwith a body") as changes:
        changes.create_table("photos", ROWS)
        changes.create_table("labels", ROWS.slice(0, 1))
    made.switch("exp", create=True)
    with made.transaction(message="more photos") as changes:
        changes.table("photos").append(ROWS)
    made.switch("main")
    return made


def git(*args: str) -> str:
    done = subprocess.run(["git", *args], capture_output=True, text=True, check=True)
    return "".join(f"{line.rstrip()}\n" for line in done.stdout.splitlines())


def test_a_repository_is_made_where_it_is_asked_for(lw_run: Lw, tmp_path: Path) -> None:
    told = lw_run("init", tmp_path / "a" / "b").out
    assert told == f"Initialized empty Lancewood repository in {tmp_path}/a/b/\n"
    assert lw.Repository.open(tmp_path / "a" / "b").head.branch == "main"
    again = lw_run("init", tmp_path / "a" / "b")
    assert again.code == ExitCode.ALREADY_EXISTS
    assert "lw status looks at it" in again.err


def test_the_repository_is_found_from_below_and_with_the_option(
    lw_run: Lw, lw_ok: Lw, repo: lw.Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = lw_ok("status").out
    monkeypatch.chdir(repo.path / "tables")
    assert lw_ok("status").out == here
    monkeypatch.chdir(tmp_path)
    assert lw_ok("-C", "r/tables", "status").out == here
    assert Path.cwd() == tmp_path
    lost = lw_run("status")
    assert lost.code == ExitCode.NOT_FOUND
    assert "lw init makes one" in lost.err
    assert lw_run("-C", "nowhere", "status").code == ExitCode.NOT_FOUND


def test_a_git_repository_of_another_kind_is_refused(lw_run: Lw, tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", "--bare", tmp_path / "other"], check=True)
    ran = lw_run("-C", tmp_path / "other", "status")
    assert ran.code == ExitCode.UNSUPPORTED
    assert "sha1" in ran.err


def test_a_new_repository_says_that_it_is_empty(
    lw_ok: Lw, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lw_ok("init", tmp_path)
    monkeypatch.chdir(tmp_path)
    assert lw_ok("status").out.splitlines()[:3] == ["On branch main", "", "No commits yet"]
    assert lw_ok("log").out == "branch main has no commits yet\n"
    assert lw_ok("log", "--json").out == lw_ok("tables", "--json").out == ""
    assert lw_ok("branch").out == lw_ok("tag").out == ""
    found = lw_ok("status", "--json").document
    nothing: dict[str, object] = {"tables": [], "untracked": [], "elsewhere": []}
    assert found == {"branch": "main", "hash": None, "clean": True, **nothing}


def test_clean_tables_are_told_in_two_lines(lw_ok: Lw, repo: lw.Repository) -> None:
    assert lw_ok("status").out == "On branch main\nnothing to commit, tables clean\n"
    repo.detach("exp")
    commit = repo.branches.list()["exp"]
    told = f"HEAD detached at {commit[:12]}\nnothing to commit, tables clean\n"
    assert lw_ok("status").out == told


def test_status_names_what_was_written_and_what_is_not_part_of_it(
    lw_ok: Lw, repo: lw.Repository
) -> None:
    lance.write_dataset(ROWS, "tables/photos.lance", mode="append")
    lance.write_dataset(ROWS, "tables/stray.lance")
    out = lw_ok("status").out
    assert "\nChanges not committed:\n" in out
    assert "\n\tmodified:   photos (version 2)\n" in out
    assert "\nUntracked tables:\n" in out
    assert "\n\tstray\n" in out
    assert "labels" not in out
    found = lw_ok("status", "--json").document
    assert found["clean"] is False
    assert found["untracked"] == ["stray"]
    states = {each["name"]: (each["state"], each["version"]) for each in found["tables"]}
    assert states == {"photos": ("modified", 2), "labels": ("clean", 1)}


def test_a_table_that_another_branch_made_is_called_that(lw_ok: Lw, repo: lw.Repository) -> None:
    repo.branches.create("dev")
    for branch in ("exp", "dev"):
        with repo.transaction(branch, "made") as changes:
            changes.create_table("birds", ROWS)
    out = lw_ok("status").out
    assert "\nTables of other branches, not on this one:\n" in out
    assert "\n\tbirds (dev, exp)\n" in out
    assert "lw add" not in out + lw_ok("commit", "-m", "nothing").out
    found = lw_ok("status", "--json").document
    assert found["elsewhere"] == [{"name": "birds", "branches": ["dev", "exp"]}]
    assert found["untracked"] == []


def test_status_says_which_table_cannot_be_read(lw_ok: Lw, repo: lw.Repository) -> None:
    os.rename("tables/labels.lance", "elsewhere")
    out = lw_ok("status").out
    assert "\nCannot be read:\n" in out
    assert "\n\tmissing:    labels: " in out
    assert "nothing to commit" not in out


@pytest.mark.parametrize(
    "args",
    [
        [],
        ["--all"],
        ["--graph", "--all"],
        ["--graph"],
        ["exp"],
        ["--oneline", "--all"],
        ["--oneline", "--graph", "--all"],
        ["-n", "1", "--all"],
        ["--skip", "1", "--all"],
        ["--first-parent", "--graph", "--all"],
    ],
    ids=" ".join,
)
def test_the_log_is_that_of_git(lw_ok: Lw, repo: lw.Repository, args: list[str]) -> None:
    for name in ("v1", "v2"):
        repo.tags.create(name)
    repo.branches.create("also", "exp")
    base, exp = repo.merge_base("main", "exp"), repo.branches.list()["exp"]
    tree = git("rev-parse", "exp^{tree}").strip()
    identity = ["-c", "user.name=Git", "-c", "user.email=git@example.org"]
    joined = git(*identity, "commit-tree", tree, "-p", str(base), "-p", str(exp), "-m", "by git")
    git(*identity, "branch", "joined", joined.strip())
    assert lw_ok("log", *args).out == git("log", "--decorate", "--abbrev=12", "--date-order", *args)


def test_the_log_of_a_table_has_the_commits_that_changed_it(
    lw_ok: Lw, lw_run: Lw, repo: lw.Repository
) -> None:
    with repo.transaction("exp", "labels only") as changes:
        changes.table("labels").append(ROWS)
    for table in ("photos", "labels"):
        told = lw_ok("log", "exp", "--oneline", "--table", table).out
        judged = git(
            "log", "--decorate", "--abbrev=12", "--oneline", "exp", "--", f"tables/{table}.json"
        )
        assert told == judged
        assert told.count("\n") == 2
    assert (
        lw_ok("log", "exp", "--table", "photos", "-n", 1, "--skip", 1, "--json")
        .lines[0]["message"]
        .startswith("two tables")
    )
    assert lw_run("log", "--graph", "--table", "photos").code == ExitCode.USAGE
    for more in ((), ("--json",), ("--oneline", "-n", 1)):
        ran = lw_run("log", "--table", "photso", *more)
        assert (ran.code, ran.out) == (ExitCode.NOT_FOUND, "")
        assert "did you mean photos?" in ran.err


def test_who_asks_for_the_log_of_a_table_as_of_a_path_is_told_the_option(
    lw_run: Lw, repo: lw.Repository
) -> None:
    ran = lw_run("log", "main", "--", "photos")
    assert ran.code == ExitCode.NOT_FOUND
    assert "lw log --table photos" in ran.err
    assert "--table" not in lw_run("log", "nope").err


def test_the_log_for_programs_has_every_fact(lw_ok: Lw, repo: lw.Repository) -> None:
    repo.tags.create("v1", "exp")
    newest, oldest = lw_ok("log", "exp", "--json").lines
    commit = repo.at("exp").commit
    assert newest == {
        "hash": commit.hash,
        "parents": [oldest["hash"]],
        "author": "Ada",
        "email": "ada@example.org",
        "time": newest["time"],
        "message": "more photos",
        "branches": ["exp"],
        "tags": ["v1"],
    }
    assert newest["time"].endswith("+00:00")
    assert oldest["message"] == "two tables\n\nwith a body"


def test_what_others_wrote_cannot_steer_a_terminal(lw_ok: Lw, repo: lw.Repository) -> None:
    with repo.transaction("main", "red \x1b[31m alert") as changes:
        changes.table("photos").append(ROWS)
    assert "    red \\x1b[31m alert\n" in lw_ok("log").out
    assert "\x1b" not in lw_ok("log", "--oneline").out + lw_ok("show").out + lw_ok("reflog").out


def test_a_commit_is_shown_with_the_tables_it_changed(lw_ok: Lw, repo: lw.Repository) -> None:
    out = lw_ok("show", "exp").out
    head, _, stat = out.partition("\n\n photos")
    assert f"{head}\n" == git("log", "--decorate", "-1", "exp")
    assert stat == " | 3 -> 6 rows (3 inserted), 1 -> 2 fragments\n 1 table changed, 3 rows more\n"
    first = lw_ok("show", "main").out.splitlines()[-3:]
    assert first == [
        " labels | new, 1 row",
        " photos | new, 3 rows",
        " 2 tables changed, 4 rows more",
    ]
    shown = lw_ok("show", "exp", "--json").document
    assert shown["message"] == "more photos"
    assert [(each["table"], each["change"]) for each in shown["changes"]] == [("photos", "changed")]


def test_a_pin_is_shown_as_git_shows_it(lw_ok: Lw, lw_run: Lw, repo: lw.Repository) -> None:
    assert lw_ok("show", "exp:photos").out == git("show", "exp:tables/photos.json")
    assert lw_ok("show", ":photos").out == git("show", "HEAD:tables/photos.json")
    assert lw_ok("show", ":tables/photos.json").out == lw_ok("show", ":photos").out
    pin = json.loads(git("show", "exp:tables/photos.json"))
    assert lw_ok("show", "exp:photos", "--json").document == pin
    assert lw_run("show", "exp:phots").code == ExitCode.NOT_FOUND
    assert lw_run("show", "nope").code == ExitCode.NOT_FOUND


def test_a_file_of_a_commit_is_shown_as_it_is(lw_ok: Lw, repo: lw.Repository) -> None:
    repo.snapshot({"notes/a.bin": b"\x00\xff\n"}, "a file")
    assert lw_ok("show", "HEAD:notes/a.bin").raw == b"\x00\xff\n"
    assert lw_ok("show", ":notes/a.bin", "--json").document == {
        "path": "notes/a.bin",
        "bytes": "AP8K",
    }


def test_a_diff_of_columns_names_them(lw_ok: Lw, repo: lw.Repository) -> None:
    with repo.transaction("main", "another shape") as changes:
        table = changes.table("photos").add_columns({"twice": "id * 2"})
        table.cast_column("id", pa.int32())
        changes.table("labels").delete("id = 1")
    assert lw_ok("diff", "HEAD~1", "HEAD").out.splitlines() == [
        " labels | 1 -> 0 rows (1 deleted), 1 -> 0 fragments",
        " photos | 3 -> 3 rows (none changed), 1 -> 1 fragments",
        "   + id: int32",
        "   + twice: int64",
        "   - id: int64",
        " 2 tables changed, 1 row fewer",
    ]


def test_a_diff_says_what_became_of_rows_and_names(lw_ok: Lw, repo: lw.Repository) -> None:
    with repo.transaction("main", "rows") as changes:
        changes.table("photos").update({"id": "9"}, where="id = 3").rename_column("id", "number")
        changes.table("labels").overwrite(repo.at().table("labels").to_arrow())
    assert lw_ok("diff", "HEAD~1", "HEAD").out.splitlines() == [
        " labels | 1 -> 1 rows (rewritten, same rows), 1 -> 1 fragments",
        " photos | 3 -> 3 rows (1 updated), 1 -> 2 fragments",
        "   ~ id -> number",
        " 2 tables changed",
    ]
    labels, photos = lw_ok("show", "--json").document["changes"]
    assert lw_ok("diff", "HEAD~1", "HEAD", "--json").lines == [labels, photos]
    facts = ("inserted", "updated", "deleted", "same_rows", "renamed_columns")
    assert [labels[each] for each in facts] == [1, 0, 1, True, {}]
    assert [photos[each] for each in facts] == [0, 1, 0, False, {"id": "number"}]


def test_a_diff_of_two_tables_of_one_name_says_so(lw_ok: Lw, repo: lw.Repository) -> None:
    for branch, data in (("main", ROWS), ("exp", pa.table({"other": range(5)}))):
        with repo.transaction(branch, "made") as changes:
            changes.create_table("things", data)
    told = lw_ok("diff", "main", "exp").out.splitlines()
    assert " things | two tables of this name that share no history, 3 and 5 rows" in told
    assert told[-1] == " 2 tables changed"
    assert lw_ok("diff", "main", "exp", "--json").lines[-1]["unrelated"] is True


def test_a_diff_without_a_second_commit_is_about_the_tables_as_they_stand(
    lw_ok: Lw, repo: lw.Repository
) -> None:
    assert lw_ok("diff").out == ""
    lance.write_dataset(ROWS, "tables/labels.lance", mode="append")
    told = " labels | 1 -> 4 rows (3 inserted), 1 -> 2 fragments\n 1 table changed, 3 rows more\n"
    assert lw_ok("diff").out == told
    assert [each["table"] for each in lw_ok("diff", "exp", "--json").lines] == ["labels", "photos"]
    lw_ok("commit", "-am", "labels from outside")
    assert lw_ok("diff").out == ""
    assert lw_ok("diff", "HEAD~", "HEAD").out == told


def test_tables_are_listed_with_what_reads_them(lw_ok: Lw, repo: lw.Repository) -> None:
    for revision in ("main", "exp"):
        found = {each["table"]: each for each in lw_ok("tables", revision, "--json").lines}
        assert set(found) == {"photos", "labels"}
        for name, each in found.items():
            table = repo.at(revision).table(name)
            assert lw_ok("table", "count", each["uri"]).out == f"{table.count_rows()}\n"
            assert each["rows"] == table.count_rows()
    assert lw_ok("tables").out.splitlines()[0].split() == ["table", "rows", "fragments", "uri"]


def test_the_reflog_is_that_of_git(lw_ok: Lw, repo: lw.Repository) -> None:
    for ref in ("HEAD", "main", "exp"):
        assert lw_ok("reflog", ref).out == git(
            "log", "-g", "--format=%h %gd: %gs", "--abbrev=12", ref
        )
    assert len(lw_ok("reflog", "-n", 1).out.splitlines()) == 1
    newest = lw_ok("reflog", "exp", "--json").lines[0]
    assert (newest["ref"], newest["number"], newest["why"]) == ("exp", 0, "commit: more photos")
    assert lw_ok("reflog", "exp", "--json").lines[-1]["old"] is None


_SHOWN = [
    ["tables", "exp"],
    ["status"],
    ["log", "--stat"],
    ["show", "exp"],
    ["diff", "main", "exp", "--rows"],
    ["table", "info", "photos@exp"],
    ["table", "verify", "photos@exp"],
    ["table", "export", "photos@exp", "photos.csv", "--force"],
    ["table", "clone", "photos@exp", "copy.lance"],
    ["sql", "SELECT id FROM photos@exp", "--explain"],
]


@pytest.mark.parametrize("has_landed", [True, False], ids=["landed", "waits"])
def test_no_number_of_a_detached_state_is_shown_to_people(
    lw_run: Lw, repo: lw.Repository, monkeypatch: pytest.MonkeyPatch, has_landed: bool
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise StorageError("away")

    with monkeypatch.context() as patch:
        if not has_landed:
            patch.setattr("lancewood.repo.commit.transaction.land", fail)
        changes = repo.transaction("exp", "more")
        changes.table("photos").delete("id = 1")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NotLandedWarning)
            changes.commit()
    numbers = [str(repo.at("exp").pin(each).version) for each in repo.at("exp").tables]
    for command in _SHOWN:
        told = lw_run(*command)
        assert not [each for each in numbers if each in told.out + told.err], command
    info = lw_run("table", "info", "photos@exp").out
    tables = lw_run("tables", "exp").out.split()
    landed = repo.at("exp").landed("photos")
    if has_landed:
        assert landed is not None
        newest = lance.dataset("tables/photos.lance").checkout_version(("exp", None)).version
        assert landed.version == newest
        assert f"version         {newest}\n" in info
        assert tables[-1] == f"tables/photos.lance@exp:{newest}"
    else:
        assert landed is None
        assert "version         a detached state (the newest is" in info
        assert tables[-1] == f"photos@{repo.at('exp').hash[:12]}"
    read = lw_run("table", "cat", tables[-1], "--json").lines
    assert [each["id"] for each in read] == [2, 3, 2, 3]
