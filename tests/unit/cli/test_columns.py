"""Commands that change columns: what they do, what they say, and what a dry run leaves alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lancewood as lw

Lw = Callable[..., Any]
Files = Callable[[], list[tuple[str, int]]]
ROWS = pa.table({"id": [1, 2, 3], "name": ["a", "b", None], "s": [{"x": 1, "y": 2}] * 3})


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """Three rows in two fragments."""
    location = str(tmp_path / "t.lance")
    lw.create(location, ROWS, layout=lw.Layout(max_rows_per_file=2))
    return location


@pytest.fixture
def files(uri: str) -> Files:
    """All files of the table, to see that nothing has come or gone."""

    def found() -> list[tuple[str, int]]:
        below = [each for each in Path(uri).rglob("*") if each.is_file()]
        return sorted((str(each), each.stat().st_size) for each in below)

    return found


def read(uri: str, column: str) -> list[Any]:
    """What pylance reads."""
    dataset = lance.dataset(uri)
    dataset.validate()
    found: list[Any] = dataset.to_table(columns=[column]).column(column).to_pylist()
    return found


def test_columns_are_computed_by_sql(lw_ok: Lw, uri: str) -> None:
    sets = ["--set", "twice=id * 2", "--set", "shout = upper(name)"]
    done = lw_ok("table", "add-columns", uri, *sets, "-m", "more", "--json").document
    assert done == {
        "uri": uri,
        "version": 2,
        "branch": "main",
        "dry_run": False,
        "columns": [{"name": "twice", "type": "int64"}, {"name": "shout", "type": "string"}],
    }
    assert read(uri, "twice") == [2, 4, 6]
    assert read(uri, "shout") == ["A", "B", None]
    assert next(lw.open(uri).versions()).message == "more"


def test_columns_of_nulls_write_no_file(lw_ok: Lw, uri: str) -> None:
    before = sorted((Path(uri) / "data").iterdir())
    told = lw_ok("table", "add-columns", uri, "--null", "v:fixed_size_list<float>[4]").out
    assert told.startswith("added v (fixed_size_list<")
    assert read(uri, "v") == [None] * 3
    assert sorted((Path(uri) / "data").iterdir()) == before


def test_columns_come_from_a_file_row_by_row_or_by_key(lw_ok: Lw, uri: str, tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("score\n1.5\n2.5\n3.5\n")
    told = lw_ok("table", "add-columns", uri, "--from", tmp_path / "x.csv").out
    assert told == f"added score (double) to {uri}, version 2 of main\n"
    assert read(uri, "score") == [1.5, 2.5, 3.5]
    (tmp_path / "k.csv").write_text("id,rank\n3,30\n1,10\n")
    more = ["--from", tmp_path / "k.csv", "--on", "id", "--cast", "rank:int16"]
    done = lw_ok("table", "add-columns", uri, *more, "--json").document
    assert done["columns"] == [{"name": "rank", "type": "int16"}]
    assert read(uri, "rank") == [10, None, 30]


def test_a_dry_run_of_new_columns_checks_and_writes_nothing(
    lw_ok: Lw, lw_run: Lw, uri: str, tmp_path: Path, files: Files
) -> None:
    (tmp_path / "x.csv").write_text("score\n1.5\n2.5\n3.5\n")
    (tmp_path / "short.csv").write_text("score\n1.5\n")
    (tmp_path / "k.csv").write_text("id,rank\n3,30\n3,10\n")
    before = files()
    dry = ["table", "add-columns", uri, "--dry-run"]
    told = lw_ok(*dry, "--set", "twice=id * 2").out
    assert told == f"would add twice (int64) to {uri}, version 1 of main; nothing was changed\n"
    found = lw_ok(*dry, "--null", "v:int8", "--json").document
    assert found == {
        "uri": uri,
        "version": 1,
        "branch": "main",
        "dry_run": True,
        "columns": [{"name": "v", "type": "int8"}],
    }
    assert "score (double)" in lw_ok(*dry, "--from", tmp_path / "x.csv").out
    for wrong in (
        ["--set", "id=1"],
        ["--set", "v=nope"],
        ["--null", "v:int8 not null"],
        ["--from", tmp_path / "short.csv"],
        ["--from", tmp_path / "k.csv", "--on", "id"],
    ):
        assert lw_run(*dry, *wrong).code == 5, wrong
    assert files() == before


@pytest.mark.parametrize(
    "options",
    [
        [],
        ["--set", "a=1", "--null", "b:int8"],
        ["--set", "a=1", "--on", "id"],
        ["--set", "a"],
    ],
)
def test_new_columns_come_from_one_place(lw_run: Lw, uri: str, options: list[str]) -> None:
    assert lw_run("table", "add-columns", uri, *options).code == 2


def test_columns_are_dropped(lw_ok: Lw, lw_run: Lw, uri: str, files: Files) -> None:
    before = files()
    told = lw_ok("table", "drop-columns", uri, "name", "s.x", "--dry-run").out
    assert told == f"would remove 2 columns of {uri}, version 1 of main; nothing was changed\n"
    assert lw_run("table", "drop-columns", uri, "nmae", "--dry-run").code == 5
    assert lw_run("table", "drop-columns", uri, "id", "name", "s", "--dry-run").code == 5
    assert files() == before
    done = lw_ok("table", "drop-columns", uri, "name", "s.x", "--json").document
    assert done == {
        "uri": uri,
        "version": 2,
        "branch": "main",
        "dry_run": False,
        "columns": ["name", "s.x"],
    }
    assert lance.dataset(uri).schema.names == ["id", "s"]
    assert read(uri, "s") == [{"y": 2}] * 3
    ran = lw_run("table", "drop-columns", uri, "idd")
    assert ran.code == 5
    assert "did you mean 'id'?" in ran.err


def test_a_column_is_renamed(lw_ok: Lw, lw_run: Lw, uri: str, files: Files) -> None:
    before = files()
    told = lw_ok("table", "rename-column", uri, "name", "label", "--dry-run").out
    assert told == (
        f"would rename column name to label in {uri}, version 1 of main; nothing was changed\n"
    )
    assert lw_run("table", "rename-column", uri, "name", "id", "--dry-run").code == 5
    assert files() == before
    done = lw_ok("table", "rename-column", uri, "name", "label", "--json").document
    assert done == {
        "uri": uri,
        "version": 2,
        "branch": "main",
        "dry_run": False,
        "old": "name",
        "new": "label",
    }
    assert read(uri, "label") == ["a", "b", None]
    told = lw_ok("table", "rename-column", uri, "s.x", "z").out
    assert told == f"renamed column s.x to z in {uri}, version 3 of main\n"
    assert read(uri, "s") == [{"z": 1, "y": 2}] * 3


def test_a_column_is_cast(lw_ok: Lw, lw_run: Lw, uri: str, files: Files) -> None:
    before = files()
    told = lw_ok("table", "cast-column", uri, "id", "int8", "--dry-run").out
    assert (
        told == f"would cast column id of {uri}, version 1 of main, to int8; nothing was changed\n"
    )
    ran = lw_run("table", "cast-column", uri, "name", "int8", "--dry-run")
    assert (ran.code, "'a'" in ran.err) == (5, True)
    assert lw_run("table", "cast-column", uri, "name", "int7").code == 5
    assert lw_run("table", "cast-column", uri, "nmae", "int8").code == 5
    assert files() == before
    done = lw_ok("table", "cast-column", uri, "id", "int8", "--json").document
    assert done == {
        "uri": uri,
        "version": 2,
        "branch": "main",
        "dry_run": False,
        "column": "id",
        "type": "int8",
    }
    assert lance.dataset(uri).schema.field("id").type == pa.int8()
    assert read(uri, "id") == [1, 2, 3]
    told = lw_ok("table", "cast-column", uri, "id", "int8").out
    assert told == f"column id is int8 already; {uri} stays at version 2 of main\n"


def test_columns_of_fragments_are_replaced(
    lw_ok: Lw, lw_run: Lw, uri: str, tmp_path: Path, files: Files
) -> None:
    (tmp_path / "x.csv").write_text("name\nx\n\n")
    replace = ["table", "replace-columns", uri, tmp_path / "x.csv", "--fragment", 0]
    before = files()
    told = lw_ok(*replace, "--dry-run").out
    assert (
        told == f"would replace name of 2 rows in {uri}, version 1 of main; nothing was changed\n"
    )
    assert lw_run(*replace, "--fragment", 1, "--dry-run").code == 5
    assert lw_run("table", "replace-columns", uri, tmp_path / "x.csv").code == 2
    assert lw_run(*replace[:4], "--fragment", 9).code == 3
    assert files() == before
    done = lw_ok(*replace, "--json").document
    assert done == {
        "uri": uri,
        "version": 2,
        "branch": "main",
        "dry_run": False,
        "columns": ["name"],
        "fragments": [0],
        "rows": 2,
    }
    assert read(uri, "name") == ["x", None, None]
