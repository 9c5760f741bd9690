"""Which version a command is about: options, and uris that carry a revision."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lancewood as lw
from lancewood.cli.failing import ExitCode

Lw = Callable[..., Any]

ROWS = pa.table({"id": [1, 2, 3, 4], "name": ["a", "b", None, "d"]})


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """Main at version 2 with 8 rows; branch exp left version 1 and has 5 rows at version 2; tag
    first on version 1 of main, tag done on version 2 of exp."""
    location = str(tmp_path / "t.lance")
    table = lw.create(location, ROWS)
    exp = table.branches.create("exp").append(ROWS.slice(0, 1))
    table.tags.create("first")
    exp.tags.create("done")
    table.append(ROWS)
    return location


def count(lw_ok: Lw, uri: str, *options: object) -> int:
    return int(lw_ok("table", "count", uri, *options).out)


@pytest.mark.parametrize(
    ("options", "rows"),
    [
        ([], 8),
        (["--version", 1], 4),
        (["--branch", "main"], 8),
        (["--branch", "exp"], 5),
        (["--branch", "exp", "--version", 1], 4),
        (["--branch", "exp", "--as-of", "2100-01-01"], 5),
        (["--tag", "first"], 4),
        (["--tag", "done"], 5),
        (["--at", "exp"], 5),
        (["--at", "exp:1"], 4),
        (["--at", ":1"], 4),
        (["--at", "done"], 5),
        (["--at", "tag:done"], 5),
    ],
)
def test_options_say_which_version_is_read(
    lw_ok: Lw, uri: str, options: list[object], rows: int
) -> None:
    assert count(lw_ok, uri, *options) == rows


@pytest.mark.parametrize(
    ("revision", "rows"),
    [("exp", 5), ("exp:1", 4), (":1", 4), (":", 8), ("done", 5), ("tag:first", 4)],
)
def test_a_uri_says_which_version_is_read(lw_ok: Lw, uri: str, revision: str, rows: int) -> None:
    assert count(lw_ok, f"{uri}@{revision}") == rows


def test_the_root_of_a_branch_is_a_uri(lw_ok: Lw, uri: str) -> None:
    assert count(lw_ok, f"{uri}/tree/exp") == 5
    assert count(lw_ok, f"{uri}/tree/exp", "--tag", "first") == 4


READING = [
    *(["info"], ["schema"], ["head"], ["cat"], ["count"], ["files"]),
    *(["verify"], ["config"], ["versions"]),
]


@pytest.mark.parametrize("command", READING, ids=lambda each: each[0])
def test_every_reading_command_takes_a_branch_both_ways(
    lw_ok: Lw, uri: str, command: list[str]
) -> None:
    main = lw_ok("table", *command, uri, "--json").out
    branch = lw_ok("table", *command, uri, "--branch", "exp", "--json").out
    assert branch == lw_ok("table", *command, f"{uri}@exp", "--json").out
    if command != ["schema"]:
        assert branch != main


def test_export_takes_a_tag(lw_ok: Lw, uri: str, tmp_path: Path) -> None:
    told = lw_ok("table", "export", uri, tmp_path / "x.csv", "--tag", "done", "--json").document
    assert (told["version"], told["rows"]) == (2, 5)


@pytest.mark.parametrize(
    "options",
    [
        ["--version", 1, "--as-of", "2100-01-01"],
        ["--version", 1, "--tag", "first"],
        ["--tag", "first", "--at", "exp"],
        ["--branch", "exp", "--tag", "first"],
        ["--branch", "exp", "--at", ":1"],
    ],
)
def test_a_version_is_said_once(lw_run: Lw, uri: str, options: list[object]) -> None:
    ran = lw_run("table", "count", uri, *options)
    assert ran.code == ExitCode.USAGE
    assert "not both" in ran.err


def test_a_uri_with_a_revision_takes_no_options_besides(lw_run: Lw, uri: str) -> None:
    for command in ("count", "info", "versions"):
        ran = lw_run("table", command, f"{uri}@exp", "--branch", "exp")
        assert ran.code == ExitCode.INVALID_INPUT
        assert "carries the revision 'exp'" in ran.err


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--branch", "exq"], "there is branch 'exp'"),
        (["--tag", "firts"], "there are tags 'first'"),
        (["--at", "1"], "no tag or branch called '1'"),
        (["--branch", "exp", "--version", 9], "the newest is 2"),
    ],
)
def test_what_is_not_there_is_told_with_what_is(
    lw_run: Lw, uri: str, options: list[object], told: str
) -> None:
    ran = lw_run("table", "count", uri, *options)
    assert ran.code == ExitCode.NOT_FOUND
    assert told in ran.err


WRITING = {
    "delete": ["--where", "id = 1"],
    "update": ["--set", "id=id + 1"],
    "add-columns": ["--set", "more=id * 2"],
    "drop-columns": ["name"],
    "rename-column": ["name", "called"],
    "cast-column": ["id", "double"],
    "compact": [],
    "restore": ["1"],
    "config": ["a=1"],
}


WITH_FILES = {
    "import": ["--mode", "append"],
    "merge": ["--on", "id"],
    "replace-columns": ["--fragment", "0"],
}
SINGLE = [
    ("first", "a tag", "main"),
    ("tag:first", "a tag", "main"),
    ("done", "a tag", "exp"),
    (":1", "a single version", "main"),
    ("exp:2", "a single version", "exp"),
]
"""Revisions that are one version for good, and on which branch."""


@pytest.mark.parametrize("in_uri", [False, True], ids=["option", "uri"])
@pytest.mark.parametrize("command", WRITING)
def test_every_writing_command_writes_on_the_branch(
    lw_ok: Lw, uri: str, command: str, in_uri: bool
) -> None:
    where = [f"{uri}@exp"] if in_uri else [uri]
    more = [] if in_uri else ["--branch", "exp"]
    told = lw_ok("table", command, *where, *WRITING[command], *more, "--json").document
    assert told["uri"].endswith("t.lance/tree/exp")
    assert lw.open(uri, branch="exp").version == told["version"] > 2
    assert lw.open(uri).version == 2
    assert count(lw_ok, uri) == 8


def test_files_are_imported_and_merged_into_a_branch(
    lw_ok: Lw, lw_run: Lw, uri: str, tmp_path: Path
) -> None:
    file = tmp_path / "x.csv"
    file.write_text("id,name\n4,D\n9,z\n")
    lw_ok("table", "import", uri, file, "--mode", "append", "--branch", "exp")
    assert count(lw_ok, uri, "--branch", "exp") == 7
    lw_ok("table", "merge", f"{uri}@exp", file, "--on", "id")
    assert count(lw_ok, f"{uri}@exp") == 7
    lw_ok("table", "import", f"{uri}@exp", file, "--mode", "overwrite")
    assert count(lw_ok, f"{uri}@exp") == 2
    assert count(lw_ok, uri) == 8
    refused = lw_run("table", "import", tmp_path / "n.lance", file, "--branch", "exp")
    assert refused.code == ExitCode.USAGE
    assert "--mode append" in refused.err


def test_changes_and_cleanup_take_a_branch(lw_ok: Lw, uri: str) -> None:
    told = lw_ok("table", "changes", uri, "--branch", "exp", "--since", 1, "--count", "--json")
    assert told.document["inserted"] == 1
    cleaned = lw_ok("table", "cleanup", uri, "--branch", "exp", "--dry-run", "--json").document
    assert cleaned["uri"].endswith("tree/exp")


@pytest.mark.parametrize("command", [*(each for each in WRITING if each != "restore"), *WITH_FILES])
def test_no_command_writes_to_a_single_version(
    lw_run: Lw, uri: str, tmp_path: Path, command: str
) -> None:
    file = tmp_path / "x.csv"
    file.write_text("id,name\n4,D\n")
    more = [file, *WITH_FILES[command]] if command in WITH_FILES else WRITING[command]
    for revision, kind, branch in SINGLE:
        ran = lw_run("table", command, f"{uri}@{revision}", *more)
        assert ran.code == ExitCode.INVALID_INPUT
        assert f"{kind} is not written to" in ran.err
        assert f"(lw table branch URI NAME --at {revision})" in ran.err
        assert f"(URI@{branch})" in ran.err
    assert (lw.open(uri).version, lw.open(uri, branch="exp").version) == (2, 2)


def test_other_verbs_do_not_write_to_a_tag_either(lw_ok: Lw, lw_run: Lw, uri: str) -> None:
    for command in (["base", "--add", "cold"], ["move", "--back", "--all"], ["detach"]):
        ran = lw_run("table", command[0], f"{uri}@first", *command[1:])
        assert ran.code == ExitCode.INVALID_INPUT
        assert "a tag is not written to" in ran.err
    lw_ok("table", "base", f"{uri}@first")
    lw_ok("table", "config", f"{uri}@first")


@pytest.mark.parametrize("command", ["drop", "repair", "migrate-names", "create", "relocate"])
def test_commands_on_whole_tables_refuse_a_revision(lw_run: Lw, uri: str, command: str) -> None:
    more = {"drop": ["--yes"], "create": ["--column", "a:int64"]}.get(command, [])
    ran = lw_run("table", command, f"{uri}@exp", *more)
    assert ran.code == ExitCode.INVALID_INPUT
    assert "takes a whole table" in ran.err


def test_the_versions_of_a_branch_are_listed_although_its_newest_is_damaged(
    lw_ok: Lw, uri: str
) -> None:
    newest = min((Path(uri) / "tree/exp/_versions").glob("*.manifest"))
    newest.write_bytes(b"not a manifest")
    for asked in ([uri, "--branch", "exp"], [f"{uri}@exp:"]):
        found = lw_ok("table", "versions", *asked, "--json").lines
        assert [each["version"] for each in found] == [2, 1]
        assert found[0]["damage"]


@pytest.mark.parametrize(
    "said",
    [["1"], ["first"], ["tag:first"], [":1"], ["--tag", "first"], ["--at", "first"], ["@first"]],
    ids=" ".join,
)
def test_a_version_to_come_back_to_is_said_in_many_ways(
    lw_ok: Lw, uri: str, said: list[str]
) -> None:
    where = [uri + said[0]] if said[0].startswith("@") else [uri, *said]
    told = lw_ok("table", "restore", *where, "--json").document
    assert told == {"uri": uri, "version": 3, "branch": "main", "restored": 1}
    assert count(lw_ok, uri) == 4


def test_a_tag_on_a_branch_is_restored_there(lw_ok: Lw, lw_run: Lw, uri: str) -> None:
    lw_ok("table", "delete", f"{uri}@exp", "--where", "id = 1")
    for said in ([uri, "done", "--branch", "exp"], [f"{uri}@exp", "--tag", "done"]):
        assert lw_ok("table", "restore", *said, "--json").document["restored"] == 2
        assert count(lw_ok, f"{uri}@exp") == 5
    ran = lw_run("table", "restore", uri, "done")
    assert ran.code == ExitCode.INVALID_INPUT
    assert "version 2 is on branch 'exp', and main is to be restored" in ran.err


@pytest.mark.parametrize(
    ("where", "said", "code", "told"),
    [
        ("", [], ExitCode.USAGE, "say which version to come back to"),
        ("@exp", [], ExitCode.USAGE, "say which version to come back to"),
        ("", ["1", "--tag", "first"], ExitCode.USAGE, "not both"),
        ("@first", ["1"], ExitCode.USAGE, "the uri says 'first' already"),
        ("", ["firts"], ExitCode.NOT_FOUND, "no tag or branch called 'firts'"),
        ("", ["0"], ExitCode.INVALID_INPUT, "version"),
    ],
)
def test_what_cannot_be_restored_is_told(
    lw_run: Lw, uri: str, where: str, said: list[str], code: ExitCode, told: str
) -> None:
    ran = lw_run("table", "restore", uri + where, *said)
    assert ran.code == code
    assert told in ran.err
    assert lw.open(uri).version == 2
