"""The fast door for readers, on a local Spark, against our own scan and pylance's."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.indexed import make_indexed
from tests.indexed import rows as indexed_rows
from tests.spark.ways import PYTHON, by_way

import lancewood as lw
from lancewood.errors import InvalidInputError, NotFoundError, UnsupportedError

pytest.importorskip("pyspark", reason="pyspark is not installed")

from lancewood.spark import count, read, tasks
from lancewood.spark.abilities import ARROW_FRAMES, release_here
from lancewood.spark.reading import plan
from lancewood.spark.reading import plan as cutting
from lancewood.spark.tasks import arrow_of

pytestmark = [
    pytest.mark.spark,
    pytest.mark.xdist_group("spark"),
    pytest.mark.usefixtures("both_ways"),
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
]

START = datetime(2026, 1, 1, tzinfo=UTC)


def rows(first: int, size: int) -> pa.Table:
    numbers = range(first, first + size)
    return pa.table(
        {
            "n": pa.array(numbers, pa.int64()),
            "d": [each / 4 for each in numbers],
            "s": [None if each % 5 == 0 else f"text {each}" for each in numbers],
            "t": pa.array(
                [START + timedelta(hours=each) for each in numbers], pa.timestamp("us", "UTC")
            ),
            "v": pa.array([[each, 0.5] for each in numbers], pa.list_(pa.float32(), 2)),
        }
    )


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> lw.Table:
    """Four fragments of 1,000 rows, of which every tenth is deleted."""
    path = tmp_path_factory.mktemp("read") / "t.lance"
    made = lw.create(
        path, rows(0, 4000), layout=lw.Layout(max_rows_per_file=1000), access=lw.Access(fsync=False)
    )
    return made.delete("n % 10 = 7")


@pytest.fixture
def small_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few thousand bytes are worth a task, as megabytes are elsewhere."""
    monkeypatch.setattr(cutting, "LEAST", 10_000)
    monkeypatch.setattr(cutting, "OPENING", 1_000)
    monkeypatch.setattr(plan, "_ALIGNMENT", 10)


def plain(found: pa.Table) -> list[dict[str, Any]]:
    return list(found.to_pylist())


def told(frame: Any) -> list[dict[str, Any]]:
    return list(arrow_of(frame).to_pylist())


def numbers(frame: Any) -> list[int]:
    return [each.n for each in frame.select("n").collect()]


def test_dataframe_has_the_rows_of_the_table_in_its_order(
    spark: Any, table: lw.Table, small_tasks: None
) -> None:
    import lance
    from pyspark.sql.functions import spark_partition_id

    frame = read(spark, table.uri)
    found = arrow_of(frame.withColumn("task", spark_partition_id()))
    tasks = found["task"].to_pylist()
    assert (tasks, set(tasks)) == (sorted(tasks), set(range(8)))
    judged: Any = lance.dataset(table.uri)
    assert (
        found.drop_columns("task").to_pylist()
        == plain(table.to_arrow())
        == plain(judged.to_table())
    )
    assert frame.schema.simpleString() == (
        "struct<n:bigint,d:double,s:string,t:timestamp,v:array<float>>"
    )
    assert [each.nullable for each in frame.schema] == [True] * 5


def test_columns_and_filters_are_those_of_a_scan(
    spark: Any, table: lw.Table, small_tasks: None
) -> None:
    asked: dict[str, Any] = {
        "columns": {"twice": "n * 2", "s": "s"},
        "where": "n % 100 = $rest AND s IS NOT NULL",
        "parameters": {"rest": 31},
    }
    assert told(read(spark, table.uri, **asked)) == plain(table.scan(**asked).to_arrow())
    asked = {"columns": ["s", "n"], "where": "n < ? OR n > ?", "parameters": [20, 3980]}
    assert told(read(spark, table.uri, **asked)) == plain(table.scan(**asked).to_arrow())
    assert told(read(spark, table.uri, where="n < 0")) == []


def test_row_ids_and_addresses_are_long_columns(
    spark: Any, table: lw.Table, small_tasks: None
) -> None:
    frame = read(
        spark, table.uri, columns=["n"], where="n > 2990", with_row_id=True, with_row_address=True
    )
    assert frame.schema.simpleString() == "struct<n:bigint,_rowid:bigint,_rowaddr:bigint>"
    scan = table.scan(["n"], "n > 2990", with_row_id=True, with_row_address=True)
    assert told(frame) == plain(scan.to_arrow())


def test_limit_is_exact(spark: Any, table: lw.Table) -> None:
    assert numbers(read(spark, table.uri, limit=1234)) == [
        each["n"] for each in plain(table.head(1234))
    ]
    filtered = numbers(read(spark, table.uri, where="n % 2 = 0", limit=55))
    assert (len(filtered), {each % 2 for each in filtered}) == (55, {0})
    assert read(spark, table.uri, limit=0).count() == 0
    assert read(spark, table.uri, where="n > 3990", limit=500).count() == 8


def test_limit_beside_a_filter_is_exact_over_several_tasks(
    spark: Any, table: lw.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cutting, "LEAST", 20_000)
    monkeypatch.setattr(cutting, "OPENING", 1_000)
    frame = read(spark, table.uri, columns=["n"], where="n % 20 = 0", limit=150)
    assert frame.distinct().count() == 150


def test_zero_columns_have_rows_to_count(spark: Any, table: lw.Table, small_tasks: None) -> None:
    frame = read(spark, table.uri, columns=[])
    assert (frame.columns, frame.count()) == ([], 3600)


def test_empty_table_is_an_empty_dataframe(spark: Any, tmp_path: Path) -> None:
    made = lw.create(tmp_path / "t.lance", rows(0, 0).schema, access=lw.Access(fsync=False))
    frame = read(spark, made.uri)
    assert (told(frame), frame.columns) == ([], ["n", "d", "s", "t", "v"])
    assert count(spark, made.uri) == count(spark, made.uri, where="n > 1") == 0


def test_count_is_told_by_the_manifest_or_by_tasks(
    spark: Any, tmp_path: Path, small_tasks: None
) -> None:
    made = lw.create(
        tmp_path / "t.lance",
        rows(0, 900),
        layout=lw.Layout(max_rows_per_file=300),
        access=lw.Access(fsync=False),
    )
    assert count(spark, made.uri, where="d < 50 AND s IS NOT NULL") == 160
    assert count(spark, made.uri, where="n = ?", parameters=[5]) == 1
    shutil.rmtree(tmp_path / "t.lance" / "data")
    assert count(spark, made.uri) == 900
    with pytest.raises(InvalidInputError, match="'no'"):
        count(spark, made.uri, where="no = 1")


# What Spark believes about a frame


def plan_of(frame: Any) -> str:
    return str(frame._jdf.queryExecution().executedPlan().toString())


def size_of(frame: Any) -> int:
    return int(frame._jdf.queryExecution().optimizedPlan().stats().sizeInBytes())


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> lw.Table:
    """2,000,000 rows of 16 bytes: more than Spark broadcasts."""
    numbers = np.arange(2_000_000)
    path = tmp_path_factory.mktemp("large") / "t.lance"
    return lw.create(
        path, pa.table({"n": numbers, "m": numbers % 7}), access=lw.Access(fsync=False)
    )


@pytest.mark.sliced(2)
@pytest.mark.parametrize("inside", [1 << 20, 0])
def test_large_table_is_not_broadcast_in_a_join_and_a_small_frame_is(
    spark: Any, large: lw.Table, monkeypatch: pytest.MonkeyPatch, inside: int
) -> None:
    """Whether messages travel in the function or, being large, as rows."""
    monkeypatch.setattr(tasks, "_MOST_INSIDE", inside)
    few = spark.range(0, 2_000_000, 500_000).withColumnRenamed("id", "n")
    ours = read(spark, large.uri)
    assert size_of(ours) >= 16_000_000
    if inside or ARROW_FRAMES.is_in(release_here()):  # else Spark does not know the size of rows
        assert size_of(ours) <= 64_000_000
    for joined, side in ((ours.join(few, "n"), "BuildRight"), (few.join(ours, "n"), "BuildLeft")):
        plan = plan_of(joined)
        assert "BroadcastHashJoin" in plan
        assert side in plan
        assert sorted(numbers(joined)) == [0, 500_000, 1_000_000, 1_500_000]


def test_small_table_is_broadcast_in_a_join(spark: Any, table: lw.Table, large: lw.Table) -> None:
    joined = read(spark, large.uri).join(read(spark, table.uri, columns=["n", "d"]), "n")
    assert "BuildRight" in plan_of(joined)
    assert joined.count() == 3600
    limited = read(spark, large.uri, limit=100)
    assert size_of(limited) < 100_000


def test_tasks_need_no_exchange(spark: Any, table: lw.Table, small_tasks: None) -> None:
    frame = read(spark, table.uri)
    assert "Exchange" not in plan_of(frame)
    assert frame.rdd.getNumPartitions() == 8


def test_messages_of_megabytes_travel_as_rows(
    spark: Any, table: lw.Table, small_tasks: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "_MOST_INSIDE", 0)
    with by_way(spark, PYTHON):
        frame = read(spark, table.uri)
        assert "Exchange" in plan_of(frame)
        assert told(frame) == plain(table.to_arrow())


def test_revision_is_found_once_and_kept_by_later_actions(spark: Any, tmp_path: Path) -> None:
    made = lw.create(tmp_path / "t.lance", rows(0, 10), access=lw.Access(fsync=False))
    made.tags.create("v1")
    frame = read(spark, made.uri)
    frame.createOrReplaceTempView("kept_revision")
    later = made.append(rows(10, 10))
    later.branches.create("exp")
    lw.open(made.uri, branch="exp").delete("n >= 3").append(rows(100, 1))
    later.delete("n < 5")

    assert frame.count() == len(numbers(frame)) == 10
    assert spark.sql("SELECT max(n) m FROM kept_revision").collect()[0].m == 9
    assert numbers(read(spark, made.uri)) == list(range(5, 20))
    assert numbers(read(spark, made.uri, tag="v1")) == list(range(10))
    assert numbers(read(spark, made.uri, version=2)) == list(range(20))
    assert numbers(read(spark, made.uri, branch="exp")) == [0, 1, 2, 100]
    assert numbers(read(spark, f"{made.uri}@exp:2")) == list(range(20))
    assert numbers(read(spark, made.uri, at="v1")) == list(range(10))
    assert numbers(read(spark, made.uri, as_of=later.timestamp)) == list(range(20))
    assert count(spark, made.uri, branch="exp", where="n < 50") == 3


def test_filtered_dataframe_does_not_change_the_one_it_came_from(
    spark: Any, tmp_path: Path
) -> None:
    made = lw.create(
        tmp_path / "t.lance",
        rows(0, 20),
        layout=lw.Layout(max_rows_per_file=7),
        access=lw.Access(fsync=False),
    )
    frame = read(spark, made.uri)
    assert frame.where("n < 3").count() == 3
    assert frame.count() == 20
    low, high = frame.where("n < 3"), frame.where("n >= 15")
    assert sorted(numbers(low.union(high))) == [0, 1, 2, 15, 16, 17, 18, 19]

    frame.createOrReplaceTempView("read_twice")
    texts = ("n < 3", "true", "n > 15", "n < 3 OR n > 2")
    found = [spark.sql(f"SELECT * FROM read_twice WHERE {each}").count() for each in texts]
    assert found == [3, 20, 4, 20]
    both = "SELECT n FROM read_twice WHERE n < 3 UNION ALL SELECT n FROM read_twice"
    assert spark.sql(both).count() == 23

    some = read(spark, made.uri, where="n < 3")
    assert (some.count(), frame.count(), some.union(frame).count()) == (3, 20, 23)
    assert frame.alias("a").join(frame.where("n < 3").alias("b"), "n").count() == 3


def test_version_that_was_cleaned_up_is_told_so(spark: Any, tmp_path: Path) -> None:
    from pyspark.errors import PythonException

    made = lw.create(tmp_path / "t.lance", rows(0, 10), access=lw.Access(fsync=False))
    frame = read(spark, made.uri)
    assert len(numbers(frame)) == 10
    made.overwrite(rows(50, 5)).cleanup(older_than=timedelta(0), in_flight=timedelta(0))
    with pytest.raises(PythonException, match=r"version 1 of .*t\.lance cannot be read any more"):
        numbers(frame)
    assert numbers(read(spark, made.uri)) == list(range(50, 55))


def test_wrong_requests_are_our_errors_at_once(spark: Any, table: lw.Table, tmp_path: Path) -> None:
    for asked in ({"columns": ["no"]}, {"where": "n = 'x'"}, {"limit": -1}, {"batch_rows": 0}):
        with pytest.raises(InvalidInputError):
            read(spark, table.uri, **asked)
    for revision in ({"version": 99}, {"tag": "no"}, {"branch": "no"}):
        with pytest.raises(NotFoundError):
            read(spark, table.uri, **revision)
    with pytest.raises(NotFoundError):
        read(spark, tmp_path / "no.lance")
    made = lw.create(tmp_path / "t.lance", pa.table({"d": pa.array([], pa.decimal256(60, 2))}))
    with pytest.raises(UnsupportedError, match="'d'"):
        read(spark, made.uri)
    with pytest.raises(InvalidInputError, match="2147483647"):
        read(spark, table.uri, where="n > 1", limit=1 << 31)


def test_plan_that_spark_prints_names_the_version_and_no_secret(
    spark: Any, table: lw.Table, capsys: pytest.CaptureFixture[str]
) -> None:
    secret = {"aws_secret_access_key": "planted-secret"}
    frame = read(spark, table.uri, access=lw.Access(storage_options=secret), where="n > 3")
    frame.explain(mode="extended")
    printed = capsys.readouterr().out + repr(frame)
    assert "t.lance version 2" in printed
    assert "planted-secret" not in printed
    assert frame.count() == 3596


def test_clone_with_a_moved_source_and_other_bases_is_read(spark: Any, tmp_path: Path) -> None:
    made = lw.create(
        tmp_path / "t.lance",
        rows(0, 30),
        layout=lw.Layout(max_rows_per_file=10),
        access=lw.Access(fsync=False),
    )
    made = made.delete("n = 11")
    clone = made.clone(tmp_path / "c.lance").append(rows(30, 3))
    assert numbers(read(spark, clone.uri)) == [each for each in range(33) if each != 11]
    made.branches.create("exp")
    lw.open(made.uri, branch="exp").append(rows(40, 2))
    shutil.move(tmp_path / "t.lance", tmp_path / "moved.lance")
    moved = read(spark, tmp_path / "moved.lance", branch="exp")
    assert numbers(moved) == [*(each for each in range(30) if each != 11), 40, 41]


def test_rows_that_an_index_tells_are_those_of_a_scan(spark: Any, uri: str) -> None:
    make_indexed(uri, "BTREE", ["k", "s"], count=400, per_file=40)
    table = lw.open(uri).append(indexed_rows(1_000, 20)).delete("k = 123")
    for where in ("k IN (5, 123, 399, 1010)", "s = 'text 37'", "k = 5000"):
        expected = table.scan(["k", "s"], where, use_indices=False).to_arrow().to_pylist()
        found = read(spark, table, columns=["k", "s"], where=where)
        assert [each.asDict() for each in found.collect()] == expected
        assert count(spark, table, where=where) == len(expected)
        assert found.where("k > 300").count() == sum(each["k"] > 300 for each in expected)
