"""Search on a local Spark: every row of a frame finds what ``Table.search`` finds for it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.pylance import lance

import lancewood as lw
from lancewood.errors import InvalidInputError, UnsupportedError

pytest.importorskip("pyspark", reason="pyspark is not installed")

from lancewood.engine.searching import VectorOptions, condition_plan, plan_nearest
from lancewood.engine.searching.allowed import allowed_rows
from lancewood.spark import search, searching
from lancewood.spark.tasks import arrow_of
from lancewood.spark.types import Reading

pytestmark = [
    pytest.mark.spark,
    pytest.mark.xdist_group("spark"),
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
]

ROWS, WIDTH, K = 1_000, 8, 5
RANDOM = np.random.default_rng(5)
STORED = RANDOM.normal(size=(ROWS, WIDTH)).astype(np.float32)
ASKED = RANDOM.normal(size=(40, WIDTH)).astype(np.float32)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> lw.Table:
    data = {
        "id": pa.array(range(ROWS), pa.int64()),
        "size": pa.array(range(ROWS), pa.uint64()),
        "near": pa.FixedSizeListArray.from_arrays(pa.array(STORED.reshape(-1)), WIDTH),
    }
    uri = str(tmp_path_factory.mktemp("search") / "t.lance")
    lw.create(
        uri, pa.table(data), layout=lw.Layout(max_rows_per_file=300), access=lw.Access(fsync=False)
    )
    lance.dataset(uri).create_index("near", "IVF_FLAT", num_partitions=2)
    return lw.open(uri).delete("id % 10 = 3")


def queries(spark: Any) -> Any:
    """Forty vectors, and one row that has none."""
    listed: list[Any] = [(number, each.tolist(), "x") for number, each in enumerate(ASKED)]
    schema = "q long, v array<float>, label string"
    return spark.createDataFrame([*listed, (99, None, "none")], schema).repartition(3)


def answers(frame: Any) -> dict[int, list[tuple[int, int, float]]]:
    """What each query found, by its rank."""
    found: dict[int, list[tuple[int, int, float]]] = {}
    for row in arrow_of(frame).to_pylist():
        found.setdefault(row["q"], []).append((row["_rank"], row["id"], row["_distance"]))
    return {query: sorted(each) for query, each in found.items()}


def expected(table: lw.Table, **how: Any) -> dict[int, list[tuple[int, int, float]]]:
    found = table.search(vector=ASKED, k=K, columns=["id"], **how).to_pylist()
    told: dict[int, list[tuple[int, int, float]]] = {}
    for row in found:
        ranked = told.setdefault(row["query_index"], [])
        ranked.append((len(ranked) + 1, row["id"], row["_distance"]))
    return told


def test_every_row_finds_its_neighbours(spark: Any, table: lw.Table) -> None:
    found = search(spark, table.uri, queries(spark), k=K, columns=["id", "size", "_rowid"])
    assert found.columns == ["q", "v", "label", "id", "size", "_rowid", "_distance", "_rank"]
    assert answers(found) == expected(table, use_index=False)
    rows = arrow_of(found)
    assert rows["label"].to_pylist() == ["x"] * len(ASKED) * K
    assert [int(each) for each in rows["size"].to_pylist()] == rows["id"].to_pylist()
    vectors = dict(enumerate(ASKED.tolist()))
    assert all(each["v"] == vectors[each["q"]] for each in rows.to_pylist())


def test_an_index_answers_where_it_is_worth_it(
    spark: Any, table: lw.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = []

    def seen(snapshot: Any, column: str | None, options: VectorOptions) -> Any:
        told.append(options.use_index)
        return plan_nearest(snapshot, column, options)

    monkeypatch.setattr(searching, "plan_nearest", seen)
    frame = queries(spark)
    search(spark, table, frame, columns=["id"])
    search(spark, table, frame, columns=["id"], use_index=True)
    monkeypatch.setattr(searching, "WORTH_AN_INDEX", 100)
    search(spark, table, frame, columns=["id"])
    search(spark, table, frame, columns=["id"], use_index=False)
    assert told == [False, True, True, False]


def test_the_index_finds_what_it_finds_here(spark: Any, table: lw.Table) -> None:
    frame = queries(spark)
    found = search(spark, table, frame, columns=["id"], k=K, use_index=True, nprobes=2)
    assert answers(found) == expected(table, nprobes=2)


def test_a_condition_and_another_version_are_searched(spark: Any, table: lw.Table) -> None:
    frame = queries(spark)
    where = "id % 3 = $rest"
    how: Any = {"where": where, "parameters": {"rest": 1}}
    found = search(spark, table, frame, k=K, columns=["id"], **how)
    assert answers(found) == expected(table, use_index=False, **how)
    first = lw.open(table.uri, version=1)
    found = search(spark, table.uri, frame, k=K, columns={"id": "id"}, version=1)
    assert answers(found) == expected(first, use_index=False)
    assert search(spark, table, frame, where="id < 0", columns=["id"]).count() == 0
    branch = table.branches.create("exp").delete("id < 900")
    found = search(spark, branch, frame, k=K, columns=["id"])
    assert answers(found) == expected(branch, use_index=False)


def work_of(table: lw.Table) -> searching.SearchWork:
    return searching.SearchWork(
        snapshot=table._snapshot.bare(),
        search=plan_nearest(table._snapshot, None, VectorOptions(use_index=False)),
        vector="v",
        k=K,
        columns=["id"],
        parameters=None,
        reading=Reading(pa.schema([("id", pa.int64())])),
    )


def test_a_version_that_a_process_keeps_is_read_with_the_options_of_each_search(
    table: lw.Table,
) -> None:
    first, second = (
        lw.open(table.uri, access=lw.Access(storage_options={"aws_session_token": each}))
        for each in ("old", "new")
    )
    kept, found = work_of(first)._whole, work_of(second)._whole
    assert found.manifest is kept.manifest
    assert found.location.storage_options == {"aws_session_token": "new"}


def test_many_queries_are_searched_in_blocks(
    spark: Any, table: lw.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = work_of(table)
    monkeypatch.setattr(searching, "_MOST_QUERIES", 7)
    batch = pa.record_batch({"v": pa.array(ASKED.tolist(), pa.list_(pa.float32()))})
    blocks: Iterator[Any] = work.rows(batch)
    found = pa.Table.from_batches(blocks)
    assert found.num_rows == len(ASKED) * K
    alone = table.search(vector=ASKED, k=K, columns=["id"], use_index=False)
    assert found["id"].to_pylist() == alone["id"].to_pylist()
    where = "id % 2 = 0"
    expected = table.search(vector=ASKED, k=K, columns=["id"], where=where, use_index=False)
    condition = condition_plan(table._snapshot, where, None, None)
    assert condition is not None
    limited = replace(work, allowed=allowed_rows(condition))
    monkeypatch.setattr("lancewood.engine.searching.allowed.FEW", 10)
    found = pa.Table.from_batches(limited.rows(batch))
    assert found["id"].to_pylist() == expected["id"].to_pylist()


def test_what_cannot_be_searched_is_said_at_once(spark: Any, table: lw.Table) -> None:
    frame = queries(spark)
    for more, why in (
        ({"vector": "q"}, "column 'q' of the frame holds no vectors: arrays of numbers are v"),
        ({"vector": "nope"}, "column 'nope' of the frame holds no vectors"),
        ({"k": 0}, "k must be a whole number from 1"),
        ({"column": "id"}, "'id' holds no vectors"),
        (
            {"columns": {"Q": "id"}},
            "column 'Q' would be there twice, from the frame and from the table",
        ),
        ({"columns": {"a": "id", "A": "id"}}, "from the table and from the table: give the"),
        ({"columns": {"_Rank": "id"}}, "from the table and from the search: give the table's"),
        ({"columns": ["nope"]}, "column 'nope' not found"),
        ({"where": "nope = 1"}, "nope"),
        ({"metric": "l1"}, "metric is one of"),
        ({"metric": "dot", "use_index": True}, "finds by l2, not by dot"),
        ({"metric": "dot"}, "finds by l2, not by dot"),
    ):
        with pytest.raises(InvalidInputError, match=why):
            search(spark, table, frame, **more)
    both = frame.selectExpr("v", "v as w")
    with pytest.raises(InvalidInputError, match=r"vector= says in which column.*v, w"):
        search(spark, table, both)
    with pytest.raises(InvalidInputError, match="search takes a Spark DataFrame, got list"):
        search(spark, table, [1, 2])  # type: ignore[arg-type]
    alone = lw.create("memory://spark-search/t", table.head(3))
    with pytest.raises(UnsupportedError, match="in the memory of this process"):
        search(spark, alone, frame)


def test_a_wrong_vector_is_an_error_of_the_action(
    spark: Any, table: lw.Table, tmp_path: Path
) -> None:
    frame = spark.createDataFrame([([1.0, 2.0],)], "v array<float>")
    found = search(spark, table, frame, columns=["id"])
    with pytest.raises(Exception, match="vector has 2 numbers, and those in column 'near' have 8"):
        found.collect()
