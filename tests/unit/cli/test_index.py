"""``lw table index``: what it says, and what it leaves."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from tests.unit.cli.conftest import Lw

import lancewood as lw

ROWS = pa.table({"id": range(20), "words": [f"word{each}" for each in range(20)]})


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return lw.create(tmp_path / "t.lance", ROWS).uri


def test_an_index_is_built_listed_extended_optimized_and_dropped(lw_ok: Lw, uri: str) -> None:
    said = lw_ok("table", "index", "create", uri, "id", "--name", "by_id", "-m", "faster").out
    assert said.startswith("built index by_id from 20 rows of 1 fragment (")
    assert said.endswith(f") in {uri}, version 2 of main\n")
    lw.open(uri).append(ROWS)
    listed = lw_ok("table", "index", "list", uri).out.splitlines()
    assert listed[0].split() == [
        *("index", "column", "kind", "segments", "bytes", "covered", "uncovered", "created")
    ]
    assert listed[1].split()[:4] == ["by_id", "id", "BTREE", "1"]
    assert listed[1].split()[5:7] == ["20", "20"]
    plan = lw_ok("table", "index", "extend", uri, "--dry-run").out
    assert plan.startswith("would extend index by_id from 20 rows of 1 fragment in ")
    assert lw.open(uri).version == 3
    assert "extended index by_id" in lw_ok("table", "index", "extend", uri).out
    again = lw_ok("table", "index", "extend", uri, "by_id").out
    assert again == f"nothing to do; {uri} stays at version 4 of main\n"
    done = json.loads(lw_ok("table", "index", "optimize", uri, "--json").out)
    assert (done["names"], done["segments_added"], done["segments_removed"]) == (["by_id"], 1, 2)
    (info,) = map(json.loads, lw_ok("table", "index", "list", uri, "--json").out.splitlines())
    assert (info["segments"], info["rows_covered"], info["rows_uncovered"]) == (1, 40, 0)
    assert info["created"].endswith("+00:00")
    dropped = lw_ok("table", "index", "drop", uri, "by_id").out
    assert dropped == f"dropped index by_id in {uri}, version 6 of main\n"
    assert lw_ok("table", "index", "list", uri, "--json").out == ""


def test_options_of_the_engine_are_values_of_json_or_texts(lw_ok: Lw, uri: str) -> None:
    lw_ok(
        *("table", "index", "create", uri, "words", "--kind", "search"),
        *("--option", "with_position=true", "--option", "base_tokenizer=whitespace"),
        *("--option", "max_token_length=7", "--option", 'custom_stop_words=["word3"]'),
    )
    (found,) = lw.open(uri).lance().describe_indices()
    assert found.details["with_position"] is True
    assert found.details["base_tokenizer"] == "whitespace"
    assert found.details["max_token_length"] == 7
    rows = [lw.open(uri).search(text=each).num_rows for each in ("word3", "word4")]
    assert rows == [0, 1]


def test_what_is_refused_is_told_in_options(lw_ok: Lw, lw_run: Lw, uri: str) -> None:
    create = ("table", "index", "create", uri)
    lw_ok(*create, "id")
    taken = lw_run(*create, "id")
    assert taken.code == 4
    assert "already: --replace builds it anew" in taken.err
    assert "--name gives the new one another name" in taken.err
    other = lw_run(*create, "words", "--name", "id_idx", "--replace")
    assert other.code == 4
    assert "index 'id_idx' is on column 'id', not 'words'" in other.err
    assert "--name gives the new one another name" in other.err
    assert [each.column for each in lw.open(uri).indices.list()] == ["id"]


def test_what_is_not_there_is_told(lw_run: Lw, uri: str) -> None:
    assert lw_run("table", "index", "drop", uri, "no").code == 3
    assert "column 'no' not found" in lw_run("table", "index", "create", uri, "no").err
    assert "Did you mean 'create'?" in lw_run("table", "index", "build", uri).err
