"""``lw blame``, ``lw table blame`` and ``lw log --where``: who wrote what is there."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lancewood as lw
from lancewood.cli.failing import ExitCode

Lw = Callable[..., Any]
ROWS = pa.table({"id": [1, 2, 3], "name": ["wren", "hen", "kite"], "v": [[0.5], [0.5], [0.5]]})


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> lw.Repository:
    """A table with three commits, the last of which changed a row."""
    made = lw.Repository.init(tmp_path / "r")
    monkeypatch.chdir(made.path)
    with made.transaction("main", "three birds", author="Ann <ann@example.org>") as changes:
        changes.create_table("birds", ROWS)
    with made.transaction("main", "a better name", author="Bo <bo@example.org>") as changes:
        changes.table("birds").update({"name": "'red kite'"}, "id = 3")
    return made


def lines(text: str) -> list[str]:
    """Without what differs from run to run."""
    text = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d", "WHEN", text)
    return re.sub(r"\b[0-9a-f]{12}\b", "HASH", text).splitlines()


def test_rows_are_shown_as_git_shows_lines(lw_ok: Lw, repo: lw.Repository) -> None:
    done = lw_ok("blame", "birds")
    assert lines(done.out) == [
        "HASH (Ann WHEN) id=1 name=wren",
        "HASH (Ann WHEN) id=2 name=hen",
        "HASH (Bo  WHEN) id=3 name=red kite",
    ]
    first, last = repo.at("HEAD~1").hash[:12], repo.at().hash[:12]
    assert [each.split()[0] for each in done.out.splitlines()] == [first, first, last]


def test_some_rows_some_columns_cells_and_another_revision(lw_ok: Lw, repo: lw.Repository) -> None:
    assert lines(lw_ok("blame", "birds", "-w", "id = 3", "--cells").out) == [
        "HASH (Ann WHEN) id=3 name=red kite id: 3",
        'HASH (Bo  WHEN) id=3 name=red kite name: "red kite"',
        "HASH (Ann WHEN) id=3 name=red kite v: [0.5]",
    ]
    assert lines(lw_ok("blame", "birds", "-c", "id", "-n", "1").out) == ["HASH (Ann WHEN) id=1"]
    assert len(lw_ok("blame", "birds", "--cells", "-n", "2").out.splitlines()) == 2
    assert lines(lw_ok("blame", "birds", "HEAD~1", "-w", "id = 3").out) == [
        "HASH (Ann WHEN) id=3 name=kite"
    ]


def test_programs_get_json_lines(lw_ok: Lw, repo: lw.Repository) -> None:
    (row,) = lw_ok("blame", "birds", "-w", "id = 3", "--json").lines
    assert list(row) == ["_rowid", "id", "name", "_inserted", "_changed"]
    assert row["_changed"]["commit"] == repo.at().hash
    assert row["_changed"]["commit_message"] == "a better name"
    assert row["_inserted"]["author"] == "Ann"
    (cell,) = lw_ok("blame", "birds", "-w", "id = 3", "-c", "name", "--cells", "--json").lines
    assert (cell["_column"], cell["_value"]) == ("name", '"red kite"')
    assert cell["_written"]["email"] == "bo@example.org"


def test_a_file_to_stdout(lw_ok: Lw, repo: lw.Repository) -> None:
    done = lw_ok("blame", "birds", "--format", "parquet")
    table = pq.read_table(io.BytesIO(done.raw))
    assert table["_changed"].to_pylist()[2]["author"] == "Bo"


def test_a_table_alone_has_versions(lw_ok: Lw, repo: lw.Repository, tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    table = lw.create(uri, ROWS).update({"name": "'auk'"}, "id = 2")
    table.branches.create("exp").update({"name": "'owl'"}, "id = 1")
    assert lines(lw_ok("table", "blame", f"{uri}@exp").out) == [
        "main:1 (Overwrite WHEN) id=3 name=kite",
        "main:2 (Update    WHEN) id=2 name=auk",
        "exp:3  (Update    WHEN) id=1 name=owl",
    ]
    assert lines(lw_ok("table", "blame", "birds", "-w", "id = 3").out) == [
        "main:2 (Update WHEN) id=3 name=red kite"
    ]


def test_a_version_that_was_cleaned_up_is_marked(lw_ok: Lw, tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    table = lw.create(uri, ROWS).update({"name": "'auk'"}, "id = 2")
    table.cleanup(older_than=timedelta(0), in_flight=timedelta(0))
    assert lines(lw_ok("table", "blame", uri, "-w", "id = 1").out) == [
        "^main:1 (? ?) id=1 name=wren"
    ]


def test_where_no_row_matches_that_is_said(lw_ok: Lw, repo: lw.Repository) -> None:
    done = lw_ok("blame", "birds", "-w", "id > 9")
    assert (done.out, done.err) == ("", "no row matches\n")
    assert lw_ok("blame", "birds", "-w", "id > 9", "--json").out == ""


def test_texts_in_rows_cannot_act_on_a_terminal(lw_ok: Lw, tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    lw.create(uri, pa.table({"na\nme": ["a\x1b[31m\nb"]}))
    said = lw_ok("table", "blame", uri).out
    assert "\x1b" not in said
    assert said.count("\n") == 1


def test_the_log_of_rows(lw_ok: Lw, repo: lw.Repository) -> None:
    said = lw_ok("log", "--table", "birds", "--where", "id = 1", "--oneline").out
    assert [each.split(" ", 1)[1] for each in said.splitlines()] == ["three birds"]
    found = lw_ok("log", "--table", "birds", "--where", "name = 'kite'", "--json").lines
    assert [each["message"] for each in found] == ["a better name", "three birds"]


def test_what_is_wrong_is_said_early(lw_run: Lw, repo: lw.Repository) -> None:
    for words, code, what in (
        (["blame", "brids"], ExitCode.NOT_FOUND, "birds"),
        (["blame", "birds", "nix"], ExitCode.NOT_FOUND, "nix"),
        (["blame", "birds", "-w", "nix = 1"], ExitCode.INVALID_INPUT, "nix"),
        (["blame", "birds", "--json", "--format", "csv"], ExitCode.USAGE, "alone"),
        (["log", "--where", "id = 1"], ExitCode.USAGE, "--table"),
        (["log", "--table", "birds", "--where", "nix = 1"], ExitCode.INVALID_INPUT, "nix"),
    ):
        done = lw_run(*words)
        assert (done.code, what in done.err, done.out) == (code, True, ""), done
