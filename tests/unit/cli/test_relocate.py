"""``lw table relocate``: after a move, other readers find the branches, too."""

from __future__ import annotations

import shutil
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
def old(tmp_path: Path) -> str:
    return str(tmp_path / "old.lance")


@pytest.fixture
def uri(tmp_path: Path, old: str) -> str:
    """A table with a branch, that was moved."""
    table = lw.create(old, ROWS)
    table.branches.create("exp").delete("id = 1")
    shutil.move(old, tmp_path / "new.lance")
    return str(tmp_path / "new.lance")


def test_pylance_finds_the_branches_of_a_moved_table(lw_ok: Lw, uri: str, old: str) -> None:
    with pytest.raises((OSError, ValueError)):
        lance.dataset(uri).checkout_version(("exp", None)).to_table()
    told = lw_ok("table", "relocate", uri, "--in-flight", "0s").out
    assert told == f"rewrote 2 manifests in 1 root of {uri}\n{old} is {uri} now\n"
    found = lance.dataset(uri).checkout_version(("exp", None)).to_table()
    assert found.column("id").to_pylist() == [2, 3, 4]
    again = lw_ok("table", "relocate", uri).out
    assert again == f"all base paths of {uri} are up to date\n"


def test_a_dry_run_rewrites_nothing(lw_ok: Lw, uri: str, old: str) -> None:
    before = {each: each.read_bytes() for each in Path(uri).rglob("*.manifest")}
    told = lw_ok("table", "relocate", uri, "--dry-run").out
    assert told.startswith(f"would rewrite 2 manifests in 1 root of {uri}\n")
    found = lw_ok("table", "relocate", uri, "--dry-run", "--json").document
    assert found == {
        "uri": uri,
        "dry_run": True,
        "manifests": 2,
        "roots": ["tree/exp"],
        "bases": [{"path": old, "now": uri}],
        "left": [],
    }
    assert {each: each.read_bytes() for each in Path(uri).rglob("*.manifest")} == before


def test_a_young_version_stops_it(lw_run: Lw, uri: str) -> None:
    ran = lw_run("table", "relocate", uri)
    assert ran.code == ExitCode.CONFLICT_RETRY
    assert "--in-flight 0s" in ran.err
    assert "timedelta" not in ran.err
    assert lw_run("table", "relocate", uri, "--in-flight", "now").code == ExitCode.USAGE


def test_a_damaged_manifest_is_left_and_told(lw_ok: Lw, uri: str) -> None:
    newest = min((Path(uri) / "tree/exp/_versions").glob("*.manifest"))
    newest.write_bytes(b"no manifest")
    ran = lw_ok("table", "relocate", uri, "--in-flight", "0s")
    assert f"left {newest}: " in ran.out
    found = lw_ok("table", "relocate", uri, "--json").document
    assert [each["file"] for each in found["left"]] == [str(newest)]


@pytest.mark.parametrize("suffix", ["@exp", "/tree/exp"])
def test_a_branch_is_no_whole_table(lw_run: Lw, uri: str, suffix: str) -> None:
    ran = lw_run("table", "relocate", uri + suffix)
    assert ran.code == ExitCode.INVALID_INPUT
    assert "takes a whole table" in ran.err
