"""How ``lw`` starts and how it ends: help, completion, errors, secrets."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import typer

import lancewood as lw
from lancewood.cli.failing import MEANINGS, ExitCode, hide_secrets
from lancewood.cli.groups import KNOWN_AS, VERBS, CommandEntry, IndexGroup, TableGroup, load_command
from lancewood.cli.main import RootGroup

Lw = Callable[..., Any]
COMMANDS = [*TableGroup.entries.items(), *IndexGroup.entries.items(), *RootGroup.entries.items()]
ON_TABLES = [
    *(each for each in TableGroup.entries if each != "index"),
    *(f"index {each}" for each in IndexGroup.entries),
]
READING = [
    *("export", "info", "schema", "head", "cat", "count", "search", "blame"),
    *("files", "config", "verify", "index-mask", "index list", "branch", "tag", "clone"),
]
CHANGING = [
    *("delete", "update", "merge", "add-columns", "drop-columns", "rename-column"),
    *("cast-column", "replace-columns", "compact", "cleanup", "move", "relocate"),
    *("publish", "merge-branch", "clone", "detach"),
    *("index create", "index extend", "index optimize", "index drop"),
]
WHOLE = (
    *("create", "repair", "migrate-names", "drop", "publish", "relocate"),
    *("merge-branch", "conflicts"),
)
COMMITTING = [
    *("create", "import", "restore", "config", "base"),
    *(each for each in CHANGING if each not in ("cleanup", "relocate")),
]
UNSAFE = [*COMMITTING, "migrate-names", "repair", "branch", "tag"]


@pytest.mark.parametrize(("name", "entry"), COMMANDS, ids=lambda each: str(each)[:40])
def test_the_summary_of_a_command_is_the_first_line_of_its_help(
    name: str, entry: CommandEntry
) -> None:
    command = load_command(name, entry.function)
    assert command.help.partition("\n")[0] == entry.summary


def test_help_names_every_command_and_exit_code(lw_ok: Lw) -> None:
    text = lw_ok("--help").out
    assert all(f"{code:>5}  {MEANINGS[code]}" in text for code in ExitCode)
    assert all(f"  {name} " in text for name in RootGroup.entries)
    listed = lw_ok("table", "-h").out
    assert all(f"  {name} " in listed for name in TableGroup.entries)
    assert all(each.summary in listed for each in TableGroup.entries.values())


def test_help_lists_commands_by_what_they_are_for(lw_ok: Lw) -> None:
    text = lw_ok("--help").out
    assert "\nBranch, merge and undo:\n  branch       List, make or delete branches.\n" in text
    titles = ("Begin a repository", "Record", "Look", "Branch", "Keep", "Tables, SQL")
    starts = [text.index(f"\n{title}") for title in titles]
    assert starts == sorted(starts)
    assert "\nCommands:" not in text
    listed = lw_ok("table", "--help").out
    assert "\nChange rows and columns:\n  delete           Delete rows.\n" in listed


@pytest.mark.parametrize("name", ON_TABLES)
def test_every_command_on_a_table_speaks_json_and_takes_storage_options(
    lw_ok: Lw, name: str
) -> None:
    text = lw_ok("table", *name.split(), "--help").out
    assert "--json" in text
    assert "--storage-option" in text
    commits = name in COMMITTING
    assert ("--message" in text) == ("--property" in text) == commits
    assert ("--unsafe" in text) == (name in UNSAFE)
    reads = name in READING
    for option in ("--as-of", "--version", "--tag", "--at"):
        comes_back = name == "restore" and option in ("--tag", "--at")
        assert (f" {option} " in text) == (reads or comes_back), option
    is_whole = name in WHOLE
    assert ("--branch" in text) == (not is_whole)
    assert ("--dry-run" in text) == (name in CHANGING)


@pytest.mark.parametrize("name", VERBS)
def test_every_verb_on_a_repository_speaks_json(lw_ok: Lw, name: str) -> None:
    assert "--json" in lw_ok(name, "--help").out


def test_other_words_lead_to_verbs_that_exist() -> None:
    assert set(KNOWN_AS.values()) <= set(VERBS)
    assert not set(KNOWN_AS) & set(RootGroup.entries)


def test_arguments_too_many_are_not_taken_for_a_forgotten_option(lw_run: Lw) -> None:
    ran = lw_run("diff", "HEAD~1", "HEAD", "photos")
    assert ran.code == 2
    assert "unexpected extra argument" in ran.err
    assert "storage-option" not in ran.err
    mistyped = lw_run("table", "count", "t.lance", "score > 0.5 AND key = 1")
    assert "(score > 0.5 AND key = 1)" in mistyped.err
    assert "secret" not in mistyped.err
    assert "storage-option" in lw_run("table", "info", "s3://b/t", "region=x").err


def test_the_release_is_told(lw_ok: Lw) -> None:
    assert lw_ok("--version").out == f"lw {lw.__version__}\n"


@pytest.mark.parametrize("args", [[], ["table"]])
def test_nothing_asked_is_answered_with_help(lw_run: Lw, args: list[str]) -> None:
    ran = lw_run(*args)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("Usage: lw")


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["tabel"], "Did you mean 'table', 'tables'?"),
        (["table", "vversions", "x"], "Did you mean 'versions'?"),
        (["table", "upsert", "x"], "Did you mean 'merge'?"),
        (["table", "vaccum", "x"], "Did you mean 'cleanup'?"),
        (["import", "x"], "Did you mean 'table import'?"),
        (["vacuum", "x"], "Did you mean 'table cleanup'?"),
        (["checkout", "x"], "Did you mean 'switch'?"),
        (["cherrypick", "x"], "Did you mean 'cherry-pick'?"),
        (["table", "branches", "x"], "Did you mean 'branch'?"),
        (["table", "tags", "x"], "Did you mean 'tag'?"),
        (["table", "fork", "x"], "Did you mean 'clone'?"),
        (["table", "integrate", "x"], "Did you mean 'merge-branch'?"),
        (["tier", "x"], "Did you mean 'table move'?"),
        (["zzzz"], "No such command 'zzzz'"),
        (["table", "head"], "Missing argument 'URI'"),
        (["table", "head", "x", "--nope"], "--nope"),
        (["table", "head", "x", "--rows", "many"], "--rows"),
        (["table", "head", "x", "--rows", "-1"], "--rows"),
    ],
)
def test_a_wrong_command_line_is_told_in_two_lines(lw_run: Lw, args: list[str], told: str) -> None:
    ran = lw_run(*args)
    assert (ran.code, ran.out) == (2, "")
    assert told in ran.err
    assert ran.err.startswith("lw: ")
    assert ran.err.splitlines()[-1].startswith("try: lw")
    assert ran.err.splitlines()[-1].endswith("--help")


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("photo.lance", "photos.lance"),
        ("photos", "photos.lance"),
        ("zzz", None),
        ("photon.lance", "photos.lance"),
        ("empty", None),
        ("", "photos.lance"),
    ],
)
def test_the_table_that_was_meant_is_named(
    lw_run: Lw, tmp_path: Path, typed: str, meant: str | None
) -> None:
    here = tmp_path / "here"  # with no tables of other tests beside it
    lw.create(here / "photos.lance", pa.table({"id": [1]}))
    (here / "photon.lance").mkdir()
    if typed == "empty":
        (here / typed / "_versions").mkdir(parents=True)
    ran = lw_run("table", "count", f"{here}/{typed}")
    assert ran.code == 3
    assert ran.err.endswith("?\n") == (meant is not None)
    assert meant is None or f"did you mean {here}/{meant}?" in ran.err


def test_a_wrong_command_line_is_json_where_json_was_asked_for(lw_run: Lw) -> None:
    error = lw_run("table", "head", "--json").error
    assert error == {"type": "UsageError", "message": "Missing argument 'URI'.", "exit_code": 2}


def failing(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def fail(*args: object, **options: object) -> None:
        raise error

    monkeypatch.setattr("lancewood.cli.tables.TableOptions.opened", fail)


@pytest.mark.parametrize(
    ("error", "code", "told"),
    [
        (lw.RetryableConflictError("lost the race"), 6, "lost the race"),
        (lw.IncompatibleConflictError("overwritten"), 7, "overwritten"),
        (lw.CommitUnknownError("no answer"), 8, "no answer"),
        (lw.UnsupportedError("flag 64"), 9, "flag 64"),
        (lw.IntegrityError("other bytes"), 10, "other bytes"),
        (lw.StorageError("timeout"), 11, "timeout"),
        (PermissionError(13, "Permission denied", "x"), 11, "Permission denied"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (typer.Abort(), 13, "nothing was done"),
    ],
)
def test_an_error_ends_with_its_code_and_one_line(
    lw_run: Lw, monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int, told: str
) -> None:
    failing(monkeypatch, error)
    ran = lw_run("table", "count", "x")
    assert (ran.code, ran.out) == (code, "")
    assert told in ran.err
    assert ran.err.count("\n") == 1
    assert lw_run("table", "count", "x", "--json").error["exit_code"] == code


def test_a_bug_is_one_line_and_tells_how_to_see_more(
    lw_run: Lw, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing(monkeypatch, KeyError("surprise"))
    ran = lw_run("table", "count", "x")
    assert ran.code == 1
    assert ran.err.count("\n") == 1
    assert "KeyError: 'surprise'" in ran.err
    assert "LANCEWOOD_DEBUG=1" in ran.err
    monkeypatch.setenv("LANCEWOOD_DEBUG", "1")
    assert "Traceback" in lw_run("table", "count", "x").err


def test_a_reader_that_left_is_no_error(lw_run: Lw, monkeypatch: pytest.MonkeyPatch) -> None:
    failing(monkeypatch, BrokenPipeError())
    ran = lw_run("table", "count", "x")
    assert (ran.code, ran.out, ran.err) == (141, "", "")


def test_secrets_of_the_command_line_are_not_repeated(
    lw_run: Lw, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    failing(monkeypatch, lw.StorageError("403 for hunter2 at us-east-1"))
    options = ["--storage-option", "aws_secret_access_key=hunter2"]
    options += ["--storage-option=region=us-east-1"]
    options += ["--storage-option", "headers.authorization=hunter2"]
    ran = lw_run("table", "count", "x", *options)
    assert ran.err == "lw: 403 for *** at us-east-1\n"
    monkeypatch.setenv("LANCEWOOD_DEBUG", "1")
    ran = lw_run("table", "count", "x", *options)
    assert "Traceback" in ran.err
    assert "hunter2" not in ran.err
    ran = lw_run("table", "info", tmp_path / "x", "--storage-option", "hunter2")
    assert ran.code == 2
    assert "hunter2" not in ran.err


@pytest.mark.parametrize(
    "args",
    [
        ["aws_secret_access_key=hunter22"],
        ["--storage-option", "aws_secret_access_key", "hunter22"],
        ["--storage-option", "aws_secret_access_key=", "hunter22"],
        ["--storage-option", "aws_secret_access_key", "=hunter22"],
        ["hunter22"],
        ["region=x", "hunter22", "more"],
        ["--aws_secret_access_key=hunter22"],
    ],
)
@pytest.mark.parametrize("as_json", [[], ["--json"]])
def test_a_secret_whose_option_was_forgotten_is_not_repeated(
    lw_run: Lw, args: list[str], as_json: list[str]
) -> None:
    ran = lw_run("table", "info", "s3://b/t", *args, *as_json)
    assert ran.code == 2
    assert "hunter2" not in ran.err + ran.out


@pytest.mark.parametrize(
    "args", [["token=hunter22"], ["--storage-option", "token=", "hunter22"], ["--", "key=hunter"]]
)
def test_a_secret_among_the_files_is_not_repeated(
    lw_run: Lw, tmp_path: Path, args: list[str]
) -> None:
    ran = lw_run("table", "import", tmp_path / "t.lance", *args)
    assert ran.code == 3, ran.err
    assert "no file" in ran.err
    assert "hunter" not in ran.err


@pytest.mark.parametrize("moment", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"])
def test_a_moment_beyond_all_calendars_is_a_wrong_command_line(lw_run: Lw, moment: str) -> None:
    ran = lw_run("table", "count", "x", "--as-of", moment)
    assert ran.code == 2
    assert "--as-of" in ran.err


def test_hiding_needs_the_whole_secret() -> None:
    args = ["--storage-option", "token=abc", "--storage-option", "session_token=abcdef"]
    assert hide_secrets("abcdef and abc", args) == "*** and ***"
    assert hide_secrets("nothing here", args) == "nothing here"
    assert hide_secrets("x", ["--storage-option"]) == "x"
    assert hide_secrets("x", ["--storage-option", "token="]) == "x"


def completions(lw_run: Lw, monkeypatch: pytest.MonkeyPatch, words: str) -> list[str]:
    monkeypatch.setenv("_LW_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(words.count(" ")))
    return lw_run().out.split()  # type: ignore[no-any-return]


def test_names_and_options_are_completed(lw_run: Lw, monkeypatch: pytest.MonkeyPatch) -> None:
    others = ["run", "runs", "sql", "table", "items", "repo", "spark", "doctor"]
    assert completions(lw_run, monkeypatch, "lw ") == [*VERBS, *others]
    found = completions(lw_run, monkeypatch, "lw re")
    assert found == ["remove", "resolve", "revert", "reset", "reflog", "repo"]
    assert completions(lw_run, monkeypatch, "lw table ver") == ["versions", "verify"]
    assert completions(lw_run, monkeypatch, "lw table c") == [
        *("create", "cat", "count", "cast-column", "changes", "conflicts", "config", "compact"),
        *("cleanup", "clone"),
    ]
    found = completions(lw_run, monkeypatch, "lw table import x y --m")
    assert found == [
        "--mode",
        "--max-rows-per-file",
        "--merge-schema",
        "--message",
        "--manifest-store",
    ]
    assert completions(lw_run, monkeypatch, "lw table import x y --mode a") == ["append"]


def test_the_script_for_the_shell_is_shown(lw_run: Lw, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_LW_COMPLETE", "source_bash")
    assert "_LW_COMPLETE=complete_bash" in lw_run().out


def test_the_package_runs_as_the_command() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "lancewood", "--version"], capture_output=True, text=True, check=True
    )
    assert ran.stdout.startswith("lw ")
