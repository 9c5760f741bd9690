"""``lw table clone``: a shallow or a deep clone of any version."""

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
from lancewood.engine.upkeep.pins import Unpinned
from lancewood.jobs.counts import ShallowClone

Lw = Callable[..., Any]
ROWS = pa.table({"id": [1, 2, 3, 4]})


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """Main at version 2 with 8 rows; branch exp with 6; tag first on version 1."""
    location = str(tmp_path / "t.lance")
    table = lw.create(location, ROWS)
    table.tags.create("first")
    table.append(ROWS).branches.create("exp").delete("id = 1")
    return location


@pytest.fixture
def target(tmp_path: Path) -> str:
    return str(tmp_path / "c.lance")


def test_a_shallow_clone_reads_the_files_of_its_source(lw_ok: Lw, uri: str, target: str) -> None:
    told = lw_ok("table", "clone", uri, target, "-m", "to play with").out
    assert told == f"cloned version 2 of {uri} to {target}\n"
    assert lance.dataset(target).count_rows() == 8
    assert not (Path(target) / "data").exists()
    assert next(lw.open(target).versions()).message == "to play with"
    assert len(lw.open(uri).tags.list(pins=True)) == 2


def test_a_dry_run_says_what_would_be_copied_and_makes_nothing(
    lw_ok: Lw, uri: str, target: str
) -> None:
    text = lw_ok("table", "clone", uri, target, "--deep", "--dry-run").out
    assert text.startswith(f"would clone version 2 of {uri} to {target}: 2 files, ")
    assert text.endswith("; nothing was changed\n")
    assert not Path(target).exists()
    facts = lw_ok("table", "clone", uri, target, "--dry-run", "--json").document
    assert (facts["uri"], facts["dry_run"], facts["pins"]) == (uri, True, [])
    assert not Path(target).exists()


def test_a_shallow_clone_is_told_for_programs(lw_ok: Lw, uri: str, target: str) -> None:
    made = lw_ok("table", "clone", uri, target, "--json").document
    (pin,) = made.pop("pins")
    assert made == {
        "uri": target,
        "version": 2,
        "branch": "main",
        "dry_run": False,
        "source": uri,
        "deep": False,
        "files": 0,
        "bytes": 0,
        "unpinned": [],
    }
    assert pin["root"] == uri
    assert lw.open(uri).tags.get(pin["tag"]).version == 2


def test_a_deep_clone_needs_nothing_of_its_source(lw_ok: Lw, uri: str, target: str) -> None:
    made = lw_ok("table", "clone", uri, target, "--deep", "--branch", "exp", "--json").document
    assert (made["deep"], made["files"], made["pins"]) == (True, 4, [])
    assert made["bytes"] > 0
    shutil.rmtree(uri)
    dataset = lance.dataset(target)
    dataset.validate()
    assert sorted(dataset.to_table().column("id").to_pylist()) == [2, 2, 3, 3, 4, 4]


def test_a_deep_clone_tells_what_was_copied(lw_ok: Lw, uri: str, target: str) -> None:
    told = lw_ok("table", "clone", uri, target, "--deep").out
    assert told.startswith(f"cloned version 2 of {uri} to {target}: 2 files, ")


@pytest.mark.parametrize(
    ("options", "rows"),
    [
        (["--version", 1], 4),
        (["--tag", "first"], 4),
        (["--at", "exp"], 6),
        (["--branch", "exp"], 6),
        (["--as-of", "2100-01-01"], 8),
    ],
)
def test_options_say_which_version_is_cloned(
    lw_ok: Lw, uri: str, target: str, options: list[object], rows: int
) -> None:
    lw_ok("table", "clone", uri, target, *options)
    assert lance.dataset(target).count_rows() == rows


def test_a_clone_of_a_tag_remembers_the_tag(lw_ok: Lw, uri: str, target: str) -> None:
    lw_ok("table", "clone", f"{uri}@first", target)
    assert lw.open(target).base_paths[0].name == "first"


def test_a_source_that_cannot_be_pinned_is_told(
    lw_ok: Lw, uri: str, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = ShallowClone((), (Unpinned(uri, "it is read only"),))
    monkeypatch.setattr(
        "lancewood.jobs.clone.clone_shallow", lambda source, *args, **more: (source, left)
    )
    ran = lw_ok("table", "clone", uri, target)
    assert f"{uri} cannot know of the clone" in ran.err
    assert "it is read only" in ran.err
    ran = lw_ok("table", "clone", uri, target, "--json")
    assert ran.err == ""
    assert ran.document["unpinned"] == [{"root": uri, "why": "it is read only"}]


def test_a_wrong_target_has_its_code(lw_run: Lw, uri: str, target: str) -> None:
    assert lw_run("table", "clone", uri, uri).code == ExitCode.ALREADY_EXISTS
    assert lw_run("table", "clone", uri, f"{uri}/data/c").code == ExitCode.INVALID_INPUT
    assert lw_run("table", "clone", target, uri).code == ExitCode.NOT_FOUND
    ran = lw_run("table", "clone", uri, target, "--target-storage-option", "token", "hunter22")
    assert ran.code == ExitCode.USAGE
    assert "hunter22" not in ran.err
    assert not Path(target).exists()


def test_options_of_the_target_go_to_the_target(
    lw_run: Lw, uri: str, s3_root: str, s3_options: dict[str, str]
) -> None:
    settings = [
        part
        for key, value in s3_options.items()
        for part in ("--target-storage-option", f"{key}={value}")
    ]
    ran = lw_run("table", "clone", uri, f"{s3_root}/c.lance", "--deep", *settings)
    assert ran.code == 0, ran.err
    found = lance.dataset(f"{s3_root}/c.lance", storage_options=s3_options)
    assert found.count_rows() == 8
