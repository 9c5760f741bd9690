"""``lw table diff``: rows, cells and figures for people and programs."""

from __future__ import annotations

import io
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lancewood as lw

Lw = Callable[..., Any]
ROWS = pa.table({"id": [1, 2, 3], "name": ["a", "b", "c"], "size": [10, 20, 30]})


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """A tag, and a branch on which a row was deleted, one inserted and one updated."""
    location = str(tmp_path / "t.lance")
    table = lw.create(location, ROWS)
    table.tags.create("v1")
    branch = table.branches.create("exp").delete("id = 2")
    branch = branch.append(pa.table({"id": [9], "name": ["z"], "size": [90]}))
    branch.update({"name": "'new'", "size": "31"}, "id = 3")
    return location


@pytest.mark.parametrize("way", [[], ["--cells"]])
def test_a_limit_of_no_rows_does_not_say_that_none_differs(
    lw_run: Lw, uri: str, way: list[str]
) -> None:
    done = lw_run("table", "diff", uri, "v1", "exp", "--limit", "0", "--exit-code", *way)
    assert (done.code, done.out, done.err) == (1, "", "")


def test_rows_are_shown_with_a_sign_and_both_values(lw_ok: Lw, uri: str) -> None:
    done = lw_ok("table", "diff", uri, "v1", "exp")
    assert done.out.splitlines() == [
        "   id  name      size",
        "-   2  b         20",
        "+   9  z         90",
        "~   3  c -> new  30 -> 31",
    ]
    assert done.err == ""


def test_programs_get_json_lines(lw_ok: Lw, uri: str) -> None:
    deleted, inserted, updated = lw_ok("table", "diff", uri, "v1", "exp", "--json").lines
    assert deleted == {
        "_change": "deleted",
        "_rowid": 1,
        "_columns": None,
        "before": {"id": 2, "name": "b", "size": 20},
        "after": None,
    }
    assert inserted["after"] == {"id": 9, "name": "z", "size": 90}
    assert updated["_columns"] == ["name", "size"]


def test_figures(lw_ok: Lw, uri: str) -> None:
    said = lw_ok("table", "diff", uri, "v1", "exp", "--stat").out
    assert said == "1 row inserted, 1 updated (name 1, size 1), 1 deleted, 1 unchanged\n"
    document = lw_ok("table", "diff", uri, "v1", "exp", "--stat", "--json").document
    assert document == {
        "uri": uri,
        "from": "v1",
        "to": "exp",
        "inserted": 1,
        "updated": 1,
        "deleted": 1,
        "unchanged": 1,
        "cells": {"name": 1, "size": 1},
        "columns": {"added": [], "dropped": [], "renamed": [], "retyped": []},
    }


def test_cells(lw_ok: Lw, uri: str) -> None:
    done = lw_ok("table", "diff", uri, "v1", "exp", "--cells", "--on", "id")
    assert done.out.splitlines() == [
        "_rowid  id  column  before  after",
        '     2   3  name    "c"     "new"',
        "     2   3  size    30      31",
    ]


@pytest.mark.parametrize(
    ("asked", "signs"),
    [
        (["--only", "inserted"], ["+"]),
        (["--only", "inserted,deleted"], ["-", "+"]),
        (["--where", "id > 2"], ["+", "~"]),
        (["--limit", "2"], ["-", "+"]),
        (["--limit", "0"], []),
        (["--columns", "id"], ["-", "+"]),
    ],
)
def test_some_rows(lw_ok: Lw, uri: str, asked: list[str], signs: list[str]) -> None:
    lines = lw_ok("table", "diff", uri, "v1", "exp", *asked).out.splitlines()
    assert [each[0] for each in lines[1:]] == signs


def test_columns_that_differ_are_told(lw_ok: Lw, uri: str) -> None:
    table = lw.open(uri).add_columns({"twice": "size * 2"}).rename_column("name", "label")
    table.update({"label": "'x'"}, "id = 1")
    done = lw_ok("table", "diff", uri, "1")
    assert done.err.splitlines() == ["new column twice: int64", "renamed column name -> label"]
    assert done.out.splitlines() == ["   id  label   size  twice", "~   1  a -> x    10     20"]
    back = lw_ok("table", "diff", uri, "4", "1")
    assert back.out.splitlines() == ["   id  name    size  twice", "~   1  x -> a    10     20"]
    facts = lw_ok("table", "diff", uri, "1", "--stat", "--json").document["columns"]
    assert facts["added"] == [{"name": "twice", "type": "int64"}]
    assert facts["renamed"] == [{"from": "name", "to": "label"}]


def test_a_file_can_be_written(lw_ok: Lw, lw_run: Lw, uri: str) -> None:
    done = lw_ok("table", "diff", uri, "v1", "exp", "--format", "parquet")
    assert pq.read_table(io.BytesIO(done.raw)).num_rows == 3
    done = lw_ok("table", "diff", uri, "v1", "exp", "--cells", "--format", "csv")
    assert done.out.splitlines()[0] == '"_rowid","column","before","after"'
    lines = lw_ok("table", "diff", uri, "v1", "exp", "--format", "jsonl").lines
    assert lines == lw_ok("table", "diff", uri, "v1", "exp", "--json").lines
    assert lw_run("table", "diff", uri, "v1", "exp", "--format", "csv", "--json").code == 2


def test_exit_code_is_that_of_git(lw_run: Lw, uri: str) -> None:
    assert lw_run("table", "diff", uri, "v1", "exp", "--exit-code").code == 1
    assert lw_run("table", "diff", uri, "v1", "exp", "--exit-code", "--limit", "0").code == 1
    assert lw_run("table", "diff", uri, "v1", "exp", "--stat", "--exit-code").code == 1
    same = lw_run("table", "diff", uri, "v1", "main", "--exit-code")
    assert (same.code, same.out, same.err) == (0, "", "no row differs\n")


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["nope", "exp"], 3, "nope"),
        (["v1", "exp", "--columns", "nope"], 5, "nope"),
        (["v1", "exp", "--only", "changed"], 5, "deleted, inserted, updated"),
        (["v1", "exp", "--where", "nope = 1"], 5, "nope"),
    ],
)
def test_what_cannot_be_is_told(
    lw_run: Lw, uri: str, words: list[str], code: int, said: str
) -> None:
    done = lw_run("table", "diff", uri, *words)
    assert done.code == code
    assert said in done.err


def test_two_tables_are_compared_by_key(lw_ok: Lw, uri: str, tmp_path: Path) -> None:
    other = str(tmp_path / "today.lance")
    lw.create(other, ROWS.slice(1).append_column("more", pa.array([1, 2])))
    done = lw_ok("table", "diff", uri, other, "--on", "id")
    assert done.out.splitlines() == ["   id  name  size  more", "-   1  a       10  null"]
    assert done.err == "new column more: int64\n"


def test_numbers_that_are_not_finite_are_told_from_null(lw_ok: Lw, tmp_path: Path) -> None:
    uri = tmp_path / "t.lance"
    values = pa.array([{"a": math.nan}, {"a": None}], pa.struct({"a": pa.float64()}))
    table = lw.create(uri, pa.table({"id": [1, 2], "v": values, "x": [1.0, 2.0]}))
    table.update({"x": "'nan'::DOUBLE"}, "id = 1")
    (cell,) = lw_ok("table", "diff", uri, "1", "2", "--cells", "--json").lines
    assert (cell["before"], cell["after"]) == ("1.0", "NaN")
    assert "x 1.0 -> nan" not in (text := lw_ok("table", "diff", uri, "1", "2").out)
    assert '{"a": NaN}' in text
    told = lw_ok("table", "diff", uri, "1", "2", "--format", "json")
    assert told.err.startswith("1 row with a number that is not finite")
    blamed = lw_ok("table", "blame", uri, "--cells", "--json", "-w", "id = 1").lines
    assert {each["_column"]: each["_value"] for each in blamed} == {
        "id": "1",
        "v": '{"a": NaN}',
        "x": "NaN",
    }
    assert '{"a": NaN}' in lw_ok("table", "cat", uri).out
