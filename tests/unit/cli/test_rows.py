"""Commands that change rows: what they do, what they say, and what a dry run leaves alone."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import lancewood as lw
from lancewood.cli.main import app

Lw = Callable[..., Any]
ROWS = pa.table({"id": [1, 2, 3, 4], "name": ["a", "b", None, "d"], "size": [10, 20, 30, 40]})


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """Four rows in two fragments."""
    location = str(tmp_path / "t.lance")
    lw.create(location, ROWS, layout=lw.Layout(max_rows_per_file=2))
    return location


@pytest.fixture
def files(uri: str) -> Callable[[], list[tuple[str, int]]]:
    """All files of the table, to see that nothing has come or gone."""

    def found() -> list[tuple[str, int]]:
        below = [each for each in Path(uri).rglob("*") if each.is_file()]
        return sorted((str(each), each.stat().st_size) for each in below)

    return found


def rows(uri: str) -> list[dict[str, Any]]:
    """What pylance reads."""
    dataset = lance.dataset(uri)
    dataset.validate()
    return sorted(dataset.to_table().to_pylist(), key=lambda each: each["id"])


def test_delete_deletes_the_rows_of_a_condition(lw_ok: Lw, uri: str) -> None:
    done = lw_ok("table", "delete", uri, "--where", "size > 25", "-m", "small ones", "--json")
    assert done.document == {
        "uri": uri,
        "version": 2,
        "branch": "main",
        "dry_run": False,
        "deleted": 2,
    }
    assert [each["id"] for each in rows(uri)] == [1, 2]
    assert next(lw.open(uri).versions()).message == "small ones"
    told = lw_ok("table", "delete", uri, "-w", "id = 1").out
    assert told == f"deleted 1 row of {uri}, version 3 of main\n"


def test_delete_without_a_match_makes_no_version(lw_ok: Lw, uri: str) -> None:
    told = lw_ok("table", "delete", uri, "-w", "id = 99").out
    assert told == f"no row matched; {uri} stays at version 1 of main\n"
    assert lw.open(uri).version == 1


def test_a_dry_delete_counts_and_leaves_everything_as_it_is(
    lw_ok: Lw, uri: str, files: Callable[[], Any]
) -> None:
    before = files()
    done = lw_ok("table", "delete", uri, "-w", "size >= 20", "--dry-run", "--json").document
    assert done == {
        "uri": uri,
        "version": 1,
        "branch": "main",
        "dry_run": True,
        "deleted": 3,
        "fragments": 2,
    }
    told = lw_ok("table", "delete", uri, "--dry-run").out
    assert (
        told
        == f"would delete 4 rows in 2 fragments of {uri}, version 1 of main; nothing was changed\n"
    )
    assert files() == before


def test_delete_of_everything_needs_a_yes(lw_run: Lw, uri: str) -> None:
    ran = lw_run("table", "delete", uri)
    assert ran.code == 2
    assert "4 rows" in ran.err
    assert "--yes" in ran.err
    assert lw.open(uri).version == 1
    assert lw_run("table", "delete", uri, "--yes", "--json").document["deleted"] == 4
    assert rows(uri) == []


def test_update_sets_columns_by_sql(lw_ok: Lw, uri: str) -> None:
    sets = ["--set", "size = size * 2", "--set", "name='it''s'"]
    done = lw_ok("table", "update", uri, *sets, "-w", "id < 3", "--json").document
    assert done == {"uri": uri, "version": 2, "branch": "main", "dry_run": False, "updated": 2}
    assert [(e["size"], e["name"]) for e in rows(uri)] == [
        (20, "it's"),
        (40, "it's"),
        (30, None),
        (40, "d"),
    ]
    told = lw_ok("table", "update", uri, "--set", "size=0", "--rewrite", "columns").out
    assert told == f"updated 4 rows of {uri}, version 3 of main\n"
    assert {each["size"] for each in rows(uri)} == {0}
    told = lw_ok("table", "update", uri, "--set", "size=0", "-w", "id = 99").out
    assert told == f"no row matched; {uri} stays at version 3 of main\n"


def test_a_dry_update_counts_and_leaves_everything_as_it_is(
    lw_ok: Lw, lw_run: Lw, uri: str, files: Callable[[], Any]
) -> None:
    before = files()
    dry = ["table", "update", uri, "--dry-run"]
    done = lw_ok(*dry, "--set", "size=1", "-w", "id > 2", "--json").document
    assert done == {
        "uri": uri,
        "version": 1,
        "branch": "main",
        "dry_run": True,
        "updated": 2,
        "fragments": 1,
    }
    assert "would update 4 rows in 2 fragments" in lw_ok(*dry, "--set", "size=1").out
    for wrong in ("nope=1", "size='x'", "size=nope"):
        assert lw_run(*dry, "--set", wrong).code == 5, wrong
    assert files() == before


@pytest.mark.parametrize("sets", [["size"], ["=1"], ["size="], ["size=1", "size=2"]])
def test_a_wrong_set_is_a_wrong_command_line(lw_run: Lw, uri: str, sets: list[str]) -> None:
    given = [f"--set={each}" for each in sets]
    ran = lw_run("table", "update", uri, *given)
    assert ran.code == 2, ran.err
    assert "--set" in ran.err
    assert lw_run("table", "update", uri).code == 2


MERGED = [
    {"id": 1, "name": "a", "size": 10},
    {"id": 2, "name": "B", "size": 21},
    {"id": 3, "name": None, "size": 30},
    {"id": 4, "name": "d", "size": 40},
    {"id": 9, "name": "new", "size": 90},
]


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_merge_updates_and_inserts_by_key(lw_ok: Lw, uri: str, tmp_path: Path, kind: str) -> None:
    given = [{"id": 2, "name": "B", "size": 21}, {"id": 9, "name": "new", "size": 90}]
    file = tmp_path / f"x.{kind}"
    if kind == "csv":
        file.write_text("id,name,size\n2,B,21\n9,new,90\n")
    elif kind == "jsonl":
        file.write_text("".join(json.dumps(each) + "\n" for each in given))
    else:
        pq.write_table(pa.Table.from_pylist(given), file)
    done = lw_ok("table", "merge", uri, file, "--on", "id", "--json").document
    assert done == {
        "uri": uri,
        "version": 2,
        "branch": "main",
        "dry_run": False,
        "inserted": 1,
        "updated": 1,
        "deleted": 0,
        "unchanged": 0,
    }
    assert rows(uri) == MERGED


def test_merge_takes_every_choice(lw_ok: Lw, uri: str, tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("id,size\n1,11\n2,1\n7,7\n")
    choices = ["--matched-where", "source.size > target.size", "--not-matched", "ignore"]
    choices += ["--not-matched-by-source", "delete"]
    told = lw_ok("table", "merge", uri, tmp_path / "x.csv", "--on", "id", *choices).out
    assert told == (f"0 inserted, 1 updated, 2 deleted, 1 unchanged: {uri}, version 2 of main\n")
    assert [(e["id"], e["name"], e["size"]) for e in rows(uri)] == [(1, "a", 11), (2, "b", 20)]
    told = lw_ok("table", "merge", uri, tmp_path / "x.csv", "--on", "id", "--matched", "delete").out
    assert told.startswith("1 inserted, 0 updated, 2 deleted, 0 unchanged: ")


def test_a_dry_merge_counts_and_leaves_everything_as_it_is(
    lw_ok: Lw, lw_run: Lw, uri: str, tmp_path: Path, files: Callable[[], Any]
) -> None:
    (tmp_path / "x.csv").write_text("id,size\n1,11\n7,7\n8,8\n")
    before = files()
    dry = ["table", "merge", uri, tmp_path / "x.csv", "--dry-run"]
    found = lw_ok(*dry, "--on", "id", "--not-matched-by-source", "delete", "--json").document
    assert found == {
        "uri": uri,
        "version": 1,
        "branch": "main",
        "dry_run": True,
        "inserted": 2,
        "updated": 1,
        "deleted": 3,
        "unchanged": 0,
    }
    told = lw_ok(*dry, "--on", "id").out
    assert told == (
        f"would be 2 inserted, 1 updated, 0 deleted, 0 unchanged: {uri}, version 1 of main; "
        "nothing was changed\n"
    )
    assert lw_run(*dry).code == 5
    assert lw_run(*dry, "--on", "nope").code == 5
    assert files() == before


def test_a_wrong_merge_is_told_and_changes_nothing(
    lw_run: Lw, uri: str, tmp_path: Path, files: Callable[[], Any]
) -> None:
    before = files()
    (tmp_path / "twice.csv").write_text("id,size\n1,1\n1,2\n")
    (tmp_path / "more.csv").write_text("id,other\n1,1\n")
    for file, more, code in [
        ("twice.csv", ["--on", "id"], 5),
        ("more.csv", ["--on", "id"], 5),
        ("twice.csv", [], 5),
        ("twice.csv", ["--on", "id", "--matched", "maybe"], 2),
        ("no.csv", ["--on", "id"], 3),
    ]:
        ran = lw_run("table", "merge", uri, tmp_path / file, *more)
        assert ran.code == code, ran.err
    assert files() == before


def test_rows_are_cut_for_people_and_whole_with_full_and_in_json(
    tmp_path: Path,
) -> None:
    rows = {"v": [[0.5] * 384], "text": ["y" * 100], "bytes": [b"abc"], "x": [1 / 3]}
    uri = lw.create(tmp_path / "wide.lance", pa.table(rows)).uri

    def told(*words: str) -> str:
        return CliRunner().invoke(app, [*words]).stdout

    for verb in (["table", "cat", uri], ["table", "head", uri], ["sql", f"SELECT * FROM '{uri}'"]):
        shown = told(*verb)
        assert "[384 floats]" in shown
        assert "<3 B>" in shown
        assert "y" * 39 + "… (100 characters)" in shown
        assert "0.3333333333333333" in shown
        whole = told(*verb, "--full")
        assert "y" * 100 in whole
        assert whole.count("0.5") == 384
        assert json.loads(told(*verb, "--json"))["v"] == [0.5] * 384
