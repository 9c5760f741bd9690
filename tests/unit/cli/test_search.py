"""``lw table search``: rows by likeness."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.pylance import lance

import lancewood as lw

Lw = Any


@pytest.fixture
def birds(tmp_path: Path) -> str:
    rows = {
        "id": [1, 2, 3, 4],
        "name": ["red kite", "grey heron", "night heron", "wren"],
        "v": pa.array([[0, 0], [1, 0], [0, 2], [5, 5]], pa.list_(pa.float32(), 2)),
    }
    uri = str(tmp_path / "birds.lance")
    lw.create(uri, pa.table(rows), access=lw.Access(fsync=False))
    lance.dataset(uri).create_scalar_index("name", "INVERTED", with_position=True)
    return uri


def test_rows_are_found_by_words(lw_ok: Lw, birds: str) -> None:
    found = lw_ok("table", "search", birds, "--text", "heron", "-c", "id,name", "--json").lines
    assert {each["id"] for each in found} == {2, 3}
    assert set(found[0]) == {"id", "name", "_score"}
    found = lw_ok("table", "search", birds, "-t", '"night heron"', "--json").lines
    assert [each["id"] for each in found] == [3]
    shown = lw_ok("table", "search", birds, "-t", "wren", "-c", "id,name").out
    assert "_score" in shown
    assert "wren" in shown


def test_rows_are_found_by_a_vector_in_a_file_and_by_another_row(
    lw_ok: Lw, birds: str, tmp_path: Path
) -> None:
    file = tmp_path / "vector.json"
    file.write_text("[0.1, 0.0]")
    asked = ("table", "search", birds, "-k", "2", "-c", "id", "--json")
    found = lw_ok(*asked, "--vector", file).lines
    assert [each["id"] for each in found] == [1, 2]
    assert lw_ok(*asked, "--vector", "-", input=b"[0.1, 0]").lines == found
    found = lw_ok(*asked, "--like", 0, "--where", "id > 1", "--metric", "l2", "--exact").lines
    assert [(each["id"], each["_distance"]) for each in found] == [(2, 1.0), (3, 4.0)]
    file.write_text("[[0, 0], [5, 5]]")
    found = lw_ok(*asked, "--vector", file, "--column", "v").lines
    assert [(each["query_index"], each["id"]) for each in found] == [(0, 1), (0, 2), (1, 4), (1, 3)]


def test_more_of_an_index_is_looked_at_if_asked_for(lw_ok: Lw, birds: str) -> None:
    lw.open(birds).indices.create("v", "IVF_FLAT", partitions=2)
    asked = ("table", "search", birds, "--like", 0, "-k", 4, "-c", "id", "--json", "--refine", 2)
    assert len(lw_ok(*asked, "--nprobes", 1).lines) < 4
    found = lw_ok(*asked, "--nprobes", 2, "--metric", "L2").lines
    assert [each["id"] for each in found] == [1, 2, 3, 4]


def test_words_and_a_vector_are_fused(lw_ok: Lw, birds: str, tmp_path: Path) -> None:
    asked = ("--like", 0, "--text", "heron", "--text-column", "name", "-c", "id", "--json")
    found = lw_ok("table", "search", birds, *asked).lines
    assert found[0]["id"] in (2, 3)
    assert {each["id"] for each in found} == {1, 2, 3, 4}


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ([], "search needs --vector, --like or --text"),
        (["--vector", "v.json", "--like", "0"], "give --vector or --like, not both"),
        (["--like", "0", "--text-column", "name"], "--text-column is for a search by vector and"),
        (["--like", "0", "--text-column", "name"], "otherwise --column says which column"),
        (["--text", "a", "--exact"], "--refine, --nprobes and --exact are for a search by vector"),
        (["--vector", "none.json"], "there is no file 'none.json'"),
        (["--vector", "deep.json"], "takes a file with a JSON list of numbers"),
        (["--vector", "bad.json"], "takes a file with a JSON list of numbers"),
        (["--vector", "word.json"], "list of numbers"),
        (["--like", "77"], "row id 77 not found"),
        (["--text", "a", "--column", "id"], "'id' holds no texts"),
        (["--text", "a", "--refine", "2"], "are for a search by vector"),
        (["--text", "a", "--nprobes", "2"], "are for a search by vector"),
        (["--like", "0", "--metric", "far"], "metric is one of l2"),
    ],
)
def test_what_cannot_be_searched_for_is_an_error(
    lw_run: Lw, birds: str, tmp_path: Path, monkeypatch: Any, given: list[str], why: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("v.json").write_text("[1, 2]")
    Path("bad.json").write_text("[1, ")
    Path("deep.json").write_text("[" * 100_000)
    Path("word.json").write_text(json.dumps("word"))
    ran = lw_run("table", "search", birds, *given, "--json")
    assert ran.code != 0
    assert why in ran.error["message"]


def test_what_the_table_does_not_allow_is_told_in_options(lw_run: Lw, birds: str) -> None:
    def said(*given: str) -> str:
        text: str = lw_run("table", "search", birds, *given, "--json").error["message"]
        return text

    table = lw.open(birds).add_columns({"words": "name", "i": "v"})
    assert said("--like", "0").endswith("hold vectors: v, i; --column says which one is searched")
    table.indices.create("i", "IVF_FLAT").indices.create("words", "INVERTED")
    other = said("--like", "0", "--column", "i", "--metric", "dot")
    assert other.endswith("not by dot: leave --metric out, or compare all vectors with --exact")
    phrase = said("--text", '"a b"', "--column", "words")
    assert phrase.endswith("or build it with --option with_position=true")
    lw.open(birds).add_columns({"_score": "id"})
    name = said("--text", "a", "--column", "name")
    assert name.endswith("is called like one that a search adds: leave it out with --columns")


def test_a_branch_is_searched(lw_ok: Lw, birds: str) -> None:
    kind = lw.open(birds).schema.field("v").type
    more = pa.table({"id": [9], "name": ["pelican"], "v": pa.array([[9, 9]], kind)})
    lw.open(birds).branches.create("exp").append(more)
    assert lw_ok("table", "search", birds, "-t", "pelican", "--json").lines == []
    found = lw_ok("table", "search", f"{birds}@exp", "-t", "pelican", "--json").lines
    assert [each["id"] for each in found] == [9]
