"""``lw table branch``: making, listing, deleting, renaming and resetting branches."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lancewood as lw
from lancewood.cli.failing import ExitCode
from lancewood.format.refs import branch_key, encode_branch
from lancewood.model.ids import Version
from lancewood.model.refs import Branch, BranchName

Lw = Callable[..., Any]
ROWS = pa.table({"id": [1, 2, 3, 4]})


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """Main at version 2 with 8 rows, tag first on its version 1."""
    location = str(tmp_path / "t.lance")
    table = lw.create(location, ROWS)
    table.tags.create("first")
    table.append(ROWS)
    return location


def names(uri: str) -> list[str]:
    return list(lw.open(uri).branches.list())


def test_a_branch_is_made_from_the_newest_version(lw_ok: Lw, uri: str) -> None:
    told = lw_ok("table", "branch", uri, "exp").out
    assert told == f"made branch exp of version 2 of main in {uri}\n"
    assert lw.open(uri, branch="exp").count_rows() == 8
    assert lance.dataset(uri).checkout_version(("exp", None)).count_rows() == 8


@pytest.mark.parametrize(
    ("options", "rows"),
    [
        (["--at", "first"], 4),
        (["--at", ":1"], 4),
        (["--version", 1], 4),
        (["--tag", "first"], 4),
        (["--as-of", "2100-01-01"], 8),
        (["--branch", "exp"], 9),
        (["--branch", "exp", "--version", 2], 8),
    ],
)
def test_options_say_where_a_branch_begins(
    lw_ok: Lw, uri: str, options: list[object], rows: int
) -> None:
    lw.open(uri).branches.create("exp").append(ROWS.slice(0, 1))
    made = lw_ok("table", "branch", uri, "new", *options, "--json").document
    assert (made["action"], made["uri"], made["branch"]) == ("created", uri, "new")
    assert lw.open(uri, branch="new").version == made["version"]
    assert lw.open(uri, branch="new").count_rows() == rows


def test_a_uri_says_where_a_branch_begins(lw_ok: Lw, uri: str) -> None:
    lw_ok("table", "branch", f"{uri}@first", "old")
    told = lw_ok("table", "branch", f"{uri}@old", "older").out
    assert told == f"made branch older of version 1 of old in {uri}\n"
    assert lw.open(uri).branches.get("older").parent_branch == "old"


def test_branches_are_listed(lw_ok: Lw, uri: str) -> None:
    assert lw_ok("table", "branch", uri).out == "branch  from  version  created  metadata\n"
    assert lw_ok("table", "branch", uri, "--json").out == ""
    lw_ok("table", "branch", uri, "exp", "--metadata", "owner=ann", "--metadata", "why=try it")
    lw_ok("table", "branch", f"{uri}@exp", "team/new")
    head, exp, new = lw_ok("table", "branch", uri).out.splitlines()
    assert head.split() == ["branch", "from", "version", "created", "metadata"]
    assert exp.split()[:3] == ["exp", "main", "2"]
    assert exp.endswith("owner=ann, why=try it")
    assert new.split()[:3] == ["team/new", "exp", "2"]
    found = lw_ok("table", "branch", f"{uri}@exp", "--json").lines
    assert [each["name"] for each in found] == ["exp", "team/new"]
    created = lw.open(uri).branches.get("exp").created_at.isoformat()
    assert found[0] == {
        "name": "exp",
        "parent": "main",
        "parent_version": 2,
        "created": created,
        "metadata": {"owner": "ann", "why": "try it"},
    }
    like = lw_ok("table", "branch", uri, "--list", "team/*", "--json").lines
    assert [each["name"] for each in like] == ["team/new"]


def test_thousands_of_branches_are_listed_without_opening_any(lw_ok: Lw, uri: str) -> None:
    (Path(uri) / "_refs/branches").mkdir(parents=True)
    for number in range(1_500):
        record = Branch(
            name=BranchName(f"b{number:05}"),
            parent_branch=None,
            parent_version=Version(2),
            created_at_seconds=1_700_000_000,
            manifest_size=0,
        )
        (Path(uri) / branch_key(record.name)).write_bytes(encode_branch(record))
    lines = lw_ok("table", "branch", uri).out.splitlines()
    assert len(lines) == 1_501
    assert lines[-1].split()[:3] == ["b01499", "main", "2"]


def test_branches_are_deleted_with_a_yes(lw_ok: Lw, lw_run: Lw, uri: str) -> None:
    for each in ("a", "b", "c"):
        lw_ok("table", "branch", uri, each)
    ran = lw_run("table", "branch", uri, "-d", "a")
    assert ran.code == ExitCode.USAGE
    assert "say --yes" in ran.err
    assert names(uri) == ["a", "b", "c"]
    ran = lw_ok("table", "branch", uri, "--delete", "a", "c", "--yes", "--json")
    assert ran.lines == [
        {"action": "deleted", "uri": uri, "branch": "a", "version": None},
        {"action": "deleted", "uri": uri, "branch": "c", "version": None},
    ]
    assert names(uri) == ["b"]
    assert not (Path(uri) / "tree/a").exists()
    assert list(lance.dataset(uri).branches.list()) == ["b"]


def test_a_branch_that_is_needed_is_deleted_with_force(lw_ok: Lw, lw_run: Lw, uri: str) -> None:
    lw_ok("table", "branch", uri, "exp")
    lw.open(uri, branch="exp").tags.create("done")
    ran = lw_run("table", "branch", uri, "-d", "exp", "-y")
    assert ran.code == ExitCode.INVALID_INPUT
    assert "tag 'done' names its version 2" in ran.err
    assert "--force" in ran.err
    assert "force=" not in ran.err
    told = lw_ok("table", "branch", uri, "-d", "exp", "-y", "-f").out
    assert told == f"deleted branch exp of {uri}\n"
    assert list(lw.open(uri).tags.list()) == ["first"]


def test_nothing_is_deleted_where_one_of_the_names_is_wrong(
    lw_ok: Lw, lw_run: Lw, uri: str
) -> None:
    lw_ok("table", "branch", uri, "exp")
    ran = lw_run("table", "branch", uri, "-d", "exp", "exq", "-y")
    assert ran.code == ExitCode.NOT_FOUND
    assert "branch 'exq'" in ran.err
    assert names(uri) == ["exp"]


def test_main_is_no_branch_to_delete(lw_run: Lw, uri: str) -> None:
    ran = lw_run("table", "branch", uri, "-d", "main", "--yes", "--force")
    assert ran.code == ExitCode.INVALID_INPUT
    assert "lw table drop removes that" in ran.err


def test_a_branch_is_renamed(lw_ok: Lw, lw_run: Lw, uri: str) -> None:
    lw_ok("table", "branch", uri, "exp")
    lw_ok("table", "delete", f"{uri}@exp", "--where", "id = 1")
    assert lw_ok("table", "branch", uri, "-m", "exp", "kept").out == (
        f"renamed branch exp of {uri} to kept\n"
    )
    assert lance.dataset(uri).checkout_version(("kept", None)).count_rows() == 6
    done = lw_ok("table", "branch", uri, "--rename", "kept", "k2", "--json").document
    assert done == {
        "action": "renamed",
        "uri": uri,
        "branch": "k2",
        "version": 3,
        "renamed_from": "kept",
    }
    assert names(uri) == ["k2"]
    assert lw_run("table", "branch", uri, "-m", "k3", "k4").code == ExitCode.NOT_FOUND


def test_a_branch_begins_anew(lw_ok: Lw, lw_run: Lw, uri: str) -> None:
    lw_ok("table", "branch", uri, "exp")
    lw_ok("table", "delete", f"{uri}@exp", "--where", "id = 1")
    ran = lw_run("table", "branch", uri, "--reset", "exp")
    assert ran.code == ExitCode.CONFLICT
    assert "give the work up with --force" in ran.err
    told = lw_ok("table", "branch", uri, "--reset", "exp", "--force").out
    assert told == f"branch exp of {uri} begins anew as version 2 of main, with its version 4\n"
    done = lw_ok("table", "branch", uri, "--reset", "exp", "--at", "first", "--json").document
    assert done == {"action": "reset", "uri": uri, "branch": "exp", "version": 5}
    assert lw.open(uri, branch="exp").count_rows() == 4
    lw_ok("table", "branch", uri, "--reset", "exp", "--version", 2)
    assert lw.open(uri, branch="exp").count_rows() == 8
    lw_ok("table", "branch", uri, "--reset", "exp", "--tag", "first")
    assert lw.open(uri, branch="exp").count_rows() == 4
    lw_ok("table", "branch", uri, "--reset", "exp", "--as-of", "2100-01-01")
    assert lw.open(uri, branch="exp").count_rows() == 8


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["-d"], "--delete needs a NAME"),
        (["--reset"], "--reset needs a NAME"),
        (["-d", "-m", "a", "b"], "--delete and --rename do not go together"),
        (["a", "b"], "one name at a time"),
        (["--reset", "a", "b"], "one name at a time"),
        (["-m", "a"], "two names, old and new, not 1"),
        (["-m", "a", "b", "c"], "two names, old and new, not 3"),
        (["a", "--list", "x"], "--list is for listing"),
        (["a", "--force"], "--force is for --delete or --reset"),
        (["a", "--yes"], "--yes is for --delete"),
        (["--at", "first"], "a revision is for a new NAME or --reset"),
        (["-d", "a", "--metadata", "x=1"], "--metadata is for a new NAME"),
        (["--reset", "a", "--branch", "b"], "--branch is for a new NAME"),
        (["a", "--metadata", "x"], "--metadata takes KEY=VALUE"),
        (["a", "--at", "first", "--version", 1], "not both"),
    ],
)
def test_what_does_not_go_together_is_a_wrong_command_line(
    lw_run: Lw, uri: str, args: list[object], told: str
) -> None:
    ran = lw_run("table", "branch", uri, *args)
    assert ran.code == ExitCode.USAGE
    assert told in ran.err
    assert names(uri) == []


def test_a_wrong_name_or_start_has_its_code(lw_ok: Lw, lw_run: Lw, uri: str) -> None:
    lw_ok("table", "branch", uri, "exp")
    for args, code in (
        (["exp"], ExitCode.ALREADY_EXISTS),
        (["a..b"], ExitCode.INVALID_INPUT),
        (["main"], ExitCode.INVALID_INPUT),
        (["new", "--at", "nothing"], ExitCode.NOT_FOUND),
        (["new", "--version", 9], ExitCode.NOT_FOUND),
    ):
        assert lw_run("table", "branch", uri, *args).code == code, args
    assert names(uri) == ["exp"]
