"""``lw table base``: the other homes of a table, listed, added and set."""

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
    location = str(tmp_path / "t.lance")
    lw.create(location, ROWS)
    return location


def test_a_home_is_added_and_listed(
    lw_ok: Lw, uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert lw_ok("table", "base", uri).out == "base  name  dataset root  path\n"
    told = lw_ok("table", "base", uri, "--add", "cold", "--name", "cold", "-m", "a cold one").out
    assert told == f"added base path 1 (cold) at {tmp_path}/cold: {uri}, version 2 of main\n"
    assert next(lw.open(uri).versions()).message == "a cold one"
    done = lw_ok("table", "base", uri, "--add", tmp_path / "far", "--dataset-root", "--json")
    assert done.document == {
        "id": 2,
        "name": None,
        "is_dataset_root": True,
        "path": f"{tmp_path}/far",
        "uri": uri,
        "version": 3,
        "branch": "main",
    }
    assert lw_ok("table", "base", uri).out.splitlines() == [
        "base  name  dataset root  path",
        f"   1  cold  no            {tmp_path}/cold",
        f"   2        yes           {tmp_path}/far",
    ]
    found = lw_ok("table", "base", uri, "--json").lines
    assert [(each["id"], each["name"], each["is_dataset_root"]) for each in found] == [
        (1, "cold", False),
        (2, None, True),
    ]
    lance.dataset(uri).validate()


@pytest.mark.parametrize("called", ["1", "cold", "path"])
def test_a_home_that_was_moved_is_set(
    lw_ok: Lw, lw_run: Lw, uri: str, tmp_path: Path, called: str
) -> None:
    old, new = tmp_path / "cold", tmp_path / "colder"
    lw.open(uri).add_base(old, name="cold").move_fragments(base="cold")
    base = str(old) if called == "path" else called
    refused = lw_run("table", "base", uri, "--set", base, new)
    assert refused.code == ExitCode.INVALID_INPUT
    assert "or say --no-check" in refused.err
    old.rename(new)
    told = lw_ok("table", "base", uri, "--set", base, new).out
    assert told == f"set base path 1 (cold) to {new}: {uri}, version 4 of main\n"
    assert lance.dataset(uri).to_table().column("id").to_pylist() == [1, 2, 3, 4]
    lw_ok("table", "base", uri, "--set", "1", tmp_path / "nowhere", "--no-check")
    assert lw.open(uri).base_paths[0].path == f"{tmp_path}/nowhere"


def test_a_home_that_is_called_like_a_number_is_meant_by_its_name(
    lw_ok: Lw, uri: str, tmp_path: Path
) -> None:
    lw.open(uri).add_base(tmp_path / "a").add_base(tmp_path / "b", name="1")
    done = lw_ok("table", "base", uri, "--set", "1", tmp_path / "c", "--json").document
    assert (done["id"], done["name"]) == (2, "1")


def test_a_branch_has_homes_of_its_own(lw_ok: Lw, uri: str, tmp_path: Path) -> None:
    lw.open(uri).branches.create("exp")
    lw_ok("table", "base", uri, "--branch", "exp", "--add", tmp_path / "cold")
    paths = [each["path"] for each in lw_ok("table", "base", f"{uri}@exp", "--json").lines]
    assert paths == [uri, f"{tmp_path}/cold"]
    assert lw_ok("table", "base", uri, "--json").out == ""


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["--add", "a", "--set", "1", "b"], "do not go together"),
        (["--name", "x"], "are for --add"),
        (["--set", "1", "b", "--dataset-root"], "are for --add"),
        (["--add", "a", "--no-check"], "--no-check is for --set"),
        (["--set", "1"], "--set"),
    ],
)
def test_what_does_not_go_together_is_a_wrong_command_line(
    lw_run: Lw, uri: str, args: list[str], told: str
) -> None:
    ran = lw_run("table", "base", uri, *args)
    assert ran.code == ExitCode.USAGE
    assert told in ran.err
    assert lw.open(uri).version == 1


def test_a_home_that_cannot_be_has_its_code(lw_run: Lw, uri: str, tmp_path: Path) -> None:
    for args in (["--add", uri], ["--add", f"{uri}/data"], ["--set", "7", tmp_path / "x"]):
        assert lw_run("table", "base", uri, *args).code == ExitCode.INVALID_INPUT, args
    assert lw.open(uri).version == 1
