"""``lw table detach``: a clone or a branch that stands on its own."""

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
pytestmark = pytest.mark.usefixtures("no_commit_under_way")


@pytest.fixture
def uri(tmp_path: Path) -> str:
    location = str(tmp_path / "t.lance")
    lw.create(location, ROWS).delete("id = 1")
    return location


@pytest.fixture
def clone(tmp_path: Path, uri: str) -> str:
    return lw.open(uri).clone(tmp_path / "c.lance").uri


def test_a_clone_is_detached(lw_ok: Lw, uri: str, clone: str) -> None:
    ran = lw_ok("table", "detach", clone, "-m", "on its own")
    assert ran.out.startswith("copied 2 files (")
    assert ran.out.endswith(f" into {clone}, version 3 of main\n")
    assert ran.err.startswith(f"{uri} keeps its pin: version 2 of {clone} reads from it")
    assert next(lw.open(clone).versions()).message == "on its own"
    cleaned = lw_ok("table", "cleanup", clone, "--keep-versions", 1, "--in-flight", "0s").out
    assert f"\n{uri} is read no more: its tag lw.clone." in cleaned
    shutil.rmtree(uri)
    dataset = lance.dataset(clone)
    dataset.validate()
    assert dataset.to_table().column("id").to_pylist() == [2, 3, 4]


def test_a_detached_clone_is_told_for_programs(lw_ok: Lw, uri: str, clone: str) -> None:
    done = lw_ok("table", "detach", clone, "--json").document
    assert (done["uri"], done["version"]) == (clone, 3)
    assert (done["fragments"], done["files"], done["unpinned"]) == (1, 2, [])
    assert [each["root"] for each in done["still_pinned"]] == [uri]
    cleaned = lw_ok("table", "cleanup", clone, "--keep-versions", 1, "--in-flight", "0s", "--json")
    assert [each["root"] for each in cleaned.document["unpinned"]] == [uri]
    again = lw_ok("table", "detach", clone, "--json").document
    assert (again["version"], again["files"], again["still_pinned"]) == (3, 0, [])
    assert lw.open(uri).tags.list(pins=True) == {}


def test_a_dry_run_says_what_would_be_copied(lw_ok: Lw, clone: str) -> None:
    text = lw_ok("table", "detach", clone, "--dry-run").out
    assert text.startswith("would copy 2 files (")
    assert text.endswith(f" into {clone}, version 2 of main; nothing was changed\n")
    assert lw.open(clone).version == 2


def test_a_clone_that_was_written_over_has_nothing_to_copy_and_forgets_its_source(
    lw_ok: Lw, clone: str
) -> None:
    before = lw.open(clone).overwrite(ROWS)
    text = lw_ok("table", "detach", clone).out
    after = lw.open(clone)
    assert (len(before.base_paths), len(after.base_paths)) == (1, 0)
    assert text == f"copied 0 files (0 B) into {clone}, version {before.version + 1} of main\n"


def test_a_table_that_is_on_its_own_stays_as_it_is(lw_ok: Lw, uri: str) -> None:
    told = lw_ok("table", "detach", uri).out
    assert told == f"nothing lies elsewhere; {uri} stays at version 2 of main\n"


def test_a_branch_is_detached(lw_ok: Lw, lw_run: Lw, uri: str) -> None:
    lw.open(uri).branches.create("exp")
    done = lw_ok("table", "detach", uri, "--branch", "exp", "--json").document
    assert done["uri"] == f"{uri}/tree/exp"
    assert lance.dataset(uri).checkout_version(("exp", None)).count_rows() == 3
    assert lw.open(uri).version == 2
    assert lw_run("table", "detach", uri, "--branch", "exq").code == ExitCode.NOT_FOUND
