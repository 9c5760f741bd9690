"""Search by words, and by vector and words: pylance's own answers judge."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.pylance import lance

import lancewood as lw
from lancewood.errors import InvalidInputError

WORDS = [
    *("heron", "river", "stone", "lantern", "copper", "willow"),
    *("harbor", "meadow", "falcon", "amber", "thunder", "velvet"),
]
ROWS = 600


def text(number: int) -> str:
    random = np.random.default_rng(number)
    return " ".join(WORDS[each] for each in random.integers(0, len(WORDS), 3 + number % 5))


def rows(first: int, stop: int) -> pa.Table:
    ids = range(first, stop)
    values = np.random.default_rng(first).random(len(ids) * 4, dtype=np.float32)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "body": [None if each % 50 == 7 else text(each) for each in ids],
            "title": [f"number {each}" for each in ids],
            "near": pa.FixedSizeListArray.from_arrays(pa.array(values), 4),
        }
    )


@pytest.fixture(scope="module", params=[True, False], ids=["stable ids", "addresses"])
def template(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    uri = str(tmp_path_factory.mktemp("texts") / "t.lance")
    lw.create(
        uri,
        rows(0, ROWS),
        layout=lw.Layout(max_rows_per_file=150, stable_row_ids=request.param),
        access=lw.Access(fsync=False),
    )
    lance.dataset(uri).create_scalar_index("body", "INVERTED", with_position=True)
    return uri


@pytest.fixture
def table(template: str, tmp_path: Path) -> lw.Table:
    shutil.copytree(template, tmp_path / "t.lance")
    return lw.open(tmp_path / "t.lance")


def scores(table: lw.Table, words: Any, where: str | None) -> dict[int, float]:
    """All rows that pylance finds, by their ids. Its own filter would change the scores of rows
    that the index does not cover."""
    query = words if not isinstance(words, str) else {"query": words, "columns": ["body"]}
    dataset = table.lance()
    found = dataset.to_table(
        columns=["id", "_score"],
        full_text_query=query,
        disable_scoring_autoprojection=True,
    )
    pairs = zip(found["id"].to_pylist(), found["_score"].to_pylist(), strict=True)
    meant = set(dataset.to_table(columns=["id"], filter=where)["id"].to_pylist())
    return {each: score for each, score in pairs if each in meant}


def check(table: lw.Table, words: str, where: str | None = None, judge: Any = None) -> None:
    """The best rows are found, best first, and equal ones in the order of the table."""
    expected = scores(table, judge or words, where)
    order = table.scan(["id"]).to_arrow()["id"].to_pylist()
    ranked = sorted(expected, key=lambda each: (-expected[each], order.index(each)))
    for k in (1, 10, 1_000):
        found = table.search(text=words, k=k, columns=["id"], where=where)
        assert found.schema.names == ["id", "_score"]
        assert found["id"].to_pylist() == ranked[:k]
        assert found["_score"].to_pylist() == [expected[each] for each in ranked[:k]]


def test_the_best_rows_are_found_in_their_order(table: lw.Table) -> None:
    for words in ("heron", "heron river", "stone, Amber!", "nowhere"):
        check(table, words)


def test_changed_rows_are_found_by_what_they_say_now(table: lw.Table) -> None:
    table = table.update({"body": "'a pelican and a heron'"}, "id in (3, 400)")
    table = table.delete("id % 9 = 2").append(rows(ROWS, ROWS + 60))
    for each in (table, table.compact()):
        for words in ("pelican", "heron", "falcon velvet"):
            check(each, words)
        found = each.search(text="pelican", columns=["body"])
        assert found["body"].to_pylist() == ["a pelican and a heron"] * 2


def test_a_condition_says_which_rows_are_searched(table: lw.Table) -> None:
    table = table.append(rows(ROWS, ROWS + 60))
    check(table, "heron willow", "id % 3 = 1")
    check(table, "heron willow", "id > 590")
    assert table.search(text="heron", where="title = 'none'").num_rows == 0


def test_a_text_in_quotes_is_a_phrase(table: lw.Table, tmp_path: Path) -> None:
    from lance.query import PhraseQuery

    table = table.update({"body": "'stone heron river'"}, "id in (5, 9)")
    check(table, '"heron river"', judge=PhraseQuery("heron river", "body"))
    found = table.search(text='"stone heron river"', k=500, columns=["body"])
    assert found.num_rows >= 2
    assert all("stone heron river" in each for each in found["body"].to_pylist())
    lance.dataset(table.uri).create_scalar_index("title", "INVERTED", with_position=False)
    table = lw.open(table.uri)
    with pytest.raises(InvalidInputError, match=r"finds no phrase: .*with_position"):
        table.search(text='"number 3"', column="title")
    with pytest.raises(InvalidInputError, match="several columns hold texts: body, title"):
        table.search(text="number")
    assert table.search(text="3", column="title", columns=["id"])["id"].to_pylist() == [3]


def test_texts_without_an_index_are_looked_through(table: lw.Table) -> None:
    from lance.query import PhraseQuery

    lance.dataset(table.uri).drop_index("body_idx")
    table = lw.open(table.uri).update({"body": "'stone heron river'"}, "id in (5, 9)")
    with pytest.raises(InvalidInputError, match="several columns hold texts: body, title"):
        table.search(text="heron")
    table = table.drop_columns(["title"])
    for words in ("heron", "amber stone", "nowhere"):
        check(table, words)
    check(table, "heron willow", "id % 3 = 1")
    check(table, '"heron river"', judge=PhraseQuery("heron river", "body"))


def test_branches_and_clones_are_searched_as_they_are(table: lw.Table, tmp_path: Path) -> None:
    branch = table.branches.create("exp").append(rows(ROWS, ROWS + 50)).delete("id < 100")
    clone = branch.clone(tmp_path / "clone.lance").delete("id > 600")
    for each in (table, branch, clone):
        check(each, "lantern copper")


def test_vector_and_text_together_fuse_the_ranks_of_both(table: lw.Table) -> None:
    query = [0.2, 0.4, 0.6, 0.8]
    for where in (None, "id % 2 = 0"):
        near = table.search(vector=query, k=100, columns=["id"], where=where)["id"].to_pylist()
        told = table.search(text="heron amber", k=100, columns=["id"], where=where)
        fused: dict[int, float] = {}
        for listed in (near, told["id"].to_pylist()):
            for rank, each in enumerate(listed, 1):
                fused[each] = fused.get(each, 0.0) + 1 / (60 + rank)
        found = table.search(
            vector=query, text="heron amber", k=20, columns=["id", "title"], where=where
        )
        assert found.schema.names == ["id", "title", "_score"]
        expected = sorted(fused.values(), reverse=True)[:20]
        np.testing.assert_allclose(found["_score"], expected, rtol=1e-6)
        np.testing.assert_allclose(
            found["_score"], [fused[each] for each in found["id"].to_pylist()], rtol=1e-6
        )
    named = table.search(
        vector=query, text="heron", column="near", text_column="body", k=3, columns=["id"]
    )
    assert named == table.search(vector=query, text="heron", k=3, columns=["id"])
    alike = table.search(like=7, text="heron", k=3, columns=["id"])
    assert alike.num_rows == 3
