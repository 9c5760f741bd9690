"""``lw table tag``: making, listing, moving and deleting tags."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lancewood as lw
from lancewood.cli.failing import ExitCode

Lw = Callable[..., Any]
ROWS = pa.table({"id": [1, 2, 3, 4]})


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """Main at version 2 with 8 rows; branch exp left it there and has 6 at version 3."""
    location = str(tmp_path / "t.lance")
    table = lw.create(location, ROWS).append(ROWS)
    table.branches.create("exp").delete("id = 1")
    return location


@pytest.mark.parametrize(
    ("options", "branch", "version"),
    [
        ([], "main", 2),
        (["--version", 1], "main", 1),
        (["--at", ":1"], "main", 1),
        (["--as-of", "2100-01-01"], "main", 2),
        (["--branch", "exp"], "exp", 3),
        (["--branch", "exp", "--version", 2], "exp", 2),
        (["--at", "exp:3"], "exp", 3),
    ],
)
def test_a_version_gets_a_name(
    lw_ok: Lw, uri: str, options: list[object], branch: str, version: int
) -> None:
    told = lw_ok("table", "tag", uri, "v1", *options).out
    assert told == f"tag v1 is version {version} of {branch} in {uri}\n"
    dataset = lance.dataset(uri)
    assert dataset.checkout_version("v1").count_rows() == lw.open(uri, tag="v1").count_rows()
    assert dataset.tags.list()["v1"]["version"] == version


def test_a_tag_of_a_tag_is_one_of_its_version(lw_ok: Lw, uri: str) -> None:
    lw_ok("table", "tag", uri, "v1", "--version", 1)
    lw_ok("table", "tag", uri, "v2", "--tag", "v1")
    made = lw_ok("table", "tag", f"{uri}@v2", "v3", "--json").document
    assert made == {"action": "created", "uri": uri, "tag": "v3", "branch": "main", "version": 1}


def test_tags_are_listed(lw_ok: Lw, uri: str) -> None:
    assert lw_ok("table", "tag", uri).out == "tag  branch  version  created  metadata\n"
    lw_ok("table", "tag", uri, "v1", "--metadata", "by=ann")
    lw_ok("table", "tag", f"{uri}@exp", "x1")
    _, v1, x1 = lw_ok("table", "tag", uri).out.splitlines()
    assert v1.split()[:3] == ["v1", "main", "2"]
    assert v1.endswith("by=ann")
    assert x1.split()[:3] == ["x1", "exp", "3"]
    found = lw_ok("table", "tag", uri, "--json").lines
    assert [(each["name"], each["branch"], each["version"]) for each in found] == [
        ("v1", "main", 2),
        ("x1", "exp", 3),
    ]
    assert found[0]["metadata"] == {"by": "ann"}
    assert found[0]["created"] == found[0]["updated"]
    like = lw_ok("table", "tag", uri, "-l", "x*", "--json").lines
    assert [each["name"] for each in like] == ["x1"]


def test_pins_are_listed_only_when_asked_for(
    lw_ok: Lw, lw_run: Lw, uri: str, tmp_path: Path
) -> None:
    lw.open(uri).clone(tmp_path / "c.lance")
    assert lw_ok("table", "tag", uri, "--json").out == ""
    (pin,) = lw_ok("table", "tag", uri, "--pins", "--json").lines
    assert pin["name"].startswith("lw.clone.")
    ran = lw_run("table", "tag", uri, "-d", pin["name"])
    assert ran.code == ExitCode.INVALID_INPUT
    assert "--force does it all the same" in ran.err
    lw_ok("table", "tag", uri, "-d", pin["name"], "--force")
    assert lw_ok("table", "tag", uri, "--pins", "--json").out == ""


def test_a_tag_is_moved(lw_ok: Lw, lw_run: Lw, uri: str) -> None:
    lw_ok("table", "tag", uri, "v1", "--version", 1)
    assert lw_run("table", "tag", uri, "v1").code == ExitCode.ALREADY_EXISTS
    told = lw_ok("table", "tag", uri, "--update", "v1").out
    assert told == f"tag v1 is version 2 of main in {uri}\n"
    done = lw_ok("table", "tag", uri, "-u", "v1", "--at", "exp", "--json").document
    assert done == {"action": "updated", "uri": uri, "tag": "v1", "branch": "exp", "version": 3}
    assert lance.dataset(uri, version="v1").count_rows() == 6
    assert lw_run("table", "tag", uri, "-u", "v2").code == ExitCode.NOT_FOUND


def test_tags_are_deleted(lw_ok: Lw, lw_run: Lw, uri: str) -> None:
    for each in ("v1", "v2", "v3"):
        lw_ok("table", "tag", uri, each)
    assert lw_ok("table", "tag", uri, "-d", "v1").out == f"deleted tag v1 of {uri}\n"
    done = lw_ok("table", "tag", uri, "--delete", "v2", "v3", "--json").lines
    assert [each["tag"] for each in done] == ["v2", "v3"]
    assert done[0]["version"] is None
    assert lance.dataset(uri).tags.list() == {}
    assert lw_run("table", "tag", uri, "-d", "v1").code == ExitCode.NOT_FOUND


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["-d"], "--delete needs a NAME"),
        (["-d", "-u", "a"], "--update and --delete do not go together"),
        (["a", "b"], "one name at a time"),
        (["-u", "a", "b"], "one name at a time"),
        (["a", "--pins"], "--pins is for listing"),
        (["-d", "a", "--at", "exp"], "a revision is for a new NAME or --update"),
        (["--branch", "exp"], "a revision is for a new NAME or --update"),
        (["-u", "a", "--metadata", "x=1"], "--metadata is for a new NAME"),
        (["--force"], "--force is for"),
    ],
)
def test_what_does_not_go_together_is_a_wrong_command_line(
    lw_run: Lw, uri: str, args: list[object], told: str
) -> None:
    ran = lw_run("table", "tag", uri, *args)
    assert ran.code == ExitCode.USAGE
    assert told in ran.err
    assert lw.open(uri).tags.list() == {}


def test_a_wrong_name_is_told_with_its_rule(lw_run: Lw, uri: str) -> None:
    ran = lw_run("table", "tag", uri, "a/b")
    assert ran.code == ExitCode.INVALID_INPUT
    assert "it contains '/'" in ran.err
