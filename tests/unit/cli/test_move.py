"""``lw table move``: fragments go to another home and come back."""

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
    """Four rows in four fragments, and a home called cold."""
    location = str(tmp_path / "t.lance")
    lw.create(location, ROWS, layout=lw.Layout(max_rows_per_file=1)).add_base(
        tmp_path / "cold", name="cold"
    )
    return location


def moved(uri: str) -> list[int]:
    """The fragments that have left the table's own root; pylance reads all of them."""
    dataset = lance.dataset(uri)
    dataset.validate()
    assert dataset.to_table().column("id").to_pylist() == [1, 2, 3, 4]
    return [each.id for each in lw.open(uri).fragments if each.files[0].base_id is not None]


@pytest.mark.parametrize(
    ("options", "fragments"),
    [
        (["--fragments", "0"], [0]),
        (["--fragments", "0,2-3"], [0, 2, 3]),
        (["--fragments", "0", "--fragments", "3"], [0, 3]),
        (["--where", "id < 3"], [0, 1]),
        (["--fragments", "1-3", "-w", "id < 3"], [1]),
        (["--older-than", "0s"], [0, 1, 2, 3]),
        (["--all"], [0, 1, 2, 3]),
    ],
)
def test_fragments_go_to_another_home(
    lw_ok: Lw, uri: str, options: list[str], fragments: list[int]
) -> None:
    done = lw_ok("table", "move", uri, "--to", "cold", *options, "-m", "it is cold", "--json")
    assert moved(uri) == fragments
    found = done.document
    assert found["bytes"] > 0
    assert {key: found[key] for key in found if key != "bytes"} == {
        "uri": uri,
        "version": 3,
        "branch": "main",
        "dry_run": False,
        "to": "cold",
        "fragments": len(fragments),
        "files": len(fragments),
    }
    assert next(lw.open(uri).versions()).message == "it is cold"


def test_a_dry_run_moves_nothing(lw_ok: Lw, uri: str, tmp_path: Path) -> None:
    told = lw_ok("table", "move", uri, "--to", "1", "--all", "--dry-run").out
    assert told.startswith("would move 4 fragments of 4 files (")
    assert told.endswith(f" to 1 in {uri}, version 2 of main; nothing was changed\n")
    assert (moved(uri), lw.open(uri).version) == ([], 2)
    assert not list((tmp_path / "cold").glob("*"))


def test_fragments_come_back(lw_ok: Lw, uri: str, tmp_path: Path) -> None:
    told = lw_ok("table", "move", uri, "--to", tmp_path / "cold", "--all").out
    assert told.startswith("moved 4 fragments of 4 files (")
    again = lw_ok("table", "move", uri, "--to", "cold", "--all").out
    assert again == f"nothing to move; {uri} stays at version 3 of main\n"
    told = lw_ok("table", "move", uri, "--back", "--where", "id = 2").out
    assert told.endswith(f" back in {uri}, version 4 of main\n")
    assert moved(uri) == [0, 2, 3]


def test_what_is_young_stays(lw_ok: Lw, uri: str) -> None:
    lw_ok("table", "move", uri, "--to", "cold", "--older-than", "30d")
    assert moved(uri) == []


def test_fragments_of_a_branch_are_moved(lw_ok: Lw, uri: str) -> None:
    lw.open(uri).branches.create("exp")
    done = lw_ok("table", "move", f"{uri}@exp", "--to", "cold", "--all", "--json").document
    assert done["uri"] == f"{uri}/tree/exp"
    assert moved(uri) == []
    assert lance.dataset(uri).checkout_version(("exp", None)).count_rows() == 4


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["--all"], "say where to"),
        (["--to", "cold", "--back", "--all"], "say where to"),
        (["--to", "cold"], "say what"),
        (["--to", "cold", "--all", "--where", "id = 1"], "say what"),
        (["--to", "cold", "--fragments", "x"], "--fragments takes numbers"),
        (["--to", "cold", "--fragments", "3-1"], "not '3-1'"),
        (["--to", "cold", "--fragments", "1,"], "not ''"),
        (["--to", "cold", "--fragments", "0-9999999999"], "--fragments takes"),
        (["--to", "cold", "--older-than", "old"], "--older-than"),
    ],
)
def test_a_wrong_choice_is_a_wrong_command_line(
    lw_run: Lw, uri: str, args: list[str], told: str
) -> None:
    ran = lw_run("table", "move", uri, *args)
    assert ran.code == ExitCode.USAGE
    assert told in ran.err
    assert lw.open(uri).version == 2


def test_what_is_not_there_has_its_code(lw_run: Lw, uri: str) -> None:
    for args, code in (
        (["--to", "hot", "--all"], ExitCode.INVALID_INPUT),
        (["--to", "cold", "--where", "nope = 1"], ExitCode.INVALID_INPUT),
        (["--to", "cold", "--fragments", "4"], ExitCode.NOT_FOUND),
    ):
        assert lw_run("table", "move", uri, *args).code == code, args
    assert moved(uri) == []
