"""SQL with revisions on a local Spark: what is asked of tables does not change an answer."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.breadth import EVERY_CASE
from tests.spark.ways import PYTHON, by_way
from tests.sql_scene import Queries, make_tables

import lancewood as lw
from lancewood.errors import InvalidInputError, NotFoundError

pytest.importorskip("pyspark", reason="pyspark is not installed")

from lancewood.spark import sql
from lancewood.spark.tasks import arrow_of

pytestmark = [
    pytest.mark.spark,
    pytest.mark.xdist_group("spark"),
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
]

QUERIES = 400 if EVERY_CASE else 6

TRAPS = [
    "SELECT count(*) AS n FROM photos p LEFT JOIN labels l ON p.k = l.k WHERE l.n IS NULL",
    "SELECT count(*) AS n FROM photos p LEFT JOIN labels l ON p.k = l.k AND p.id > 20",
    "SELECT p.id FROM photos p LEFT ANTI JOIN labels l ON p.k = l.k AND p.id > 20",
    "SELECT p.id FROM photos p FULL JOIN labels l ON p.k = l.k AND l.n = 1 WHERE p.k IS NULL",
    "SELECT id FROM photos WHERE f = 0.1 OR f > 0.1",
    "SELECT id FROM photos WHERE label = 'it''s' AND k IS NOT NULL OR label = 'it\\'s'",
    "SELECT id, score FROM photos WHERE score >= 1.5 OR score = 0",
    "SELECT id FROM photos WHERE k NOT IN (SELECT n FROM labels WHERE n > 1)",
    "SELECT id FROM photos WHERE label IN ('50%', 'x') OR label LIKE 'c%' OR label > 'é'",
    "SELECT id FROM photos WHERE moment >= '2024-02-29' AND clock < '2024-02-29 00:00:01'",
    "SELECT t, count(*) FROM photos@exp LATERAL VIEW explode(tags) AS t WHERE k > 0 GROUP BY t",
    "SELECT box.x, box.y, price FROM photos@v1.0 WHERE price < 1 AND box IS NOT NULL",
    "SELECT x.id FROM photos x, LATERAL (SELECT max(n) AS m FROM labels WHERE k = x.k) WHERE m > 1",
    "SELECT k, collect_set(raw) IS NULL AS r FROM photos WHERE ok IS NOT TRUE GROUP BY k",
    "SELECT * FROM labels NATURAL JOIN (SELECT k, id FROM photos@exp WHERE id < 10)",
    "WITH photos AS (SELECT 1 AS x) SELECT extra FROM photos a JOIN photos@main b ON a.x < b.id",
    "SELECT extra FROM photos WHERE extra IS NULL OR extra > 2 UNION SELECT n FROM labels@old",
]


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return make_tables(tmp_path_factory.mktemp("sql"))


def rows(frame: Any) -> list[str]:
    return sorted_rows(arrow_of(frame))


def sorted_rows(found: pa.Table) -> list[str]:
    return sorted(map(repr, zip(*(each.to_pylist() for each in found.columns), strict=True)))


def traps() -> Iterator[str]:
    """A part of them every day."""
    yield from TRAPS if EVERY_CASE else TRAPS[::2]


@pytest.mark.campaign
def test_queries_with_traps_answer_as_if_everything_were_read(
    spark: Any, tables: dict[str, str]
) -> None:
    for query in traps():
        with by_way(spark, PYTHON):
            wanted = rows(sql(spark, query, tables=tables))
        assert rows(sql(spark, query, tables=tables)) == wanted, query
        assert wanted, f"shows nothing: {query}"


def test_random_queries_answer_as_if_everything_were_read(
    spark: Any, tables: dict[str, str]
) -> None:
    queries, done = Queries(1, spark=True), 0
    for _ in range(QUERIES):
        query = queries.draw()
        try:
            with by_way(spark, PYTHON):
                wanted = rows(sql(spark, query, tables=tables))
        except InvalidInputError:  # an ambiguous name
            continue
        assert rows(sql(spark, query, tables=tables)) == wanted, query
        done += 1
    assert done > QUERIES // 2


def test_what_is_not_needed_is_not_read(spark: Any, tmp_path: Path) -> None:
    """Files that are not there any more cannot have been opened."""
    location = tmp_path / "t.lance"
    data = pa.table({"id": pa.array(range(9), pa.int64()), "s": ["x"] * 9})
    made = lw.create(
        location, data, layout=lw.Layout(max_rows_per_file=3), access=lw.Access(fsync=False)
    ).delete("id = 4")
    first = {each.name for each in (location / "data").iterdir()}
    made.add_columns({"later": "id * 2"})
    tables = {"t": str(location)}
    for each in (location / "data").iterdir():
        if each.name not in first:
            each.unlink()
    some = sql(spark, "SELECT max(id) AS m, min(s) AS s FROM t WHERE id < 7", tables=tables)
    assert rows(some) == ["(6, 'x')"]
    shutil.rmtree(location / "data")
    both = "SELECT count(*) AS n, (SELECT count(*) FROM t@:1 WHERE 1 = 1) AS m FROM t"
    assert rows(sql(spark, both, tables=tables)) == ["(8, 9)"]


def test_a_frame_keeps_its_version_and_leaves_no_view_behind(spark: Any, tmp_path: Path) -> None:
    table = lw.create(tmp_path / "t.lance", pa.table({"id": [1, 2]}), access=lw.Access(fsync=False))
    table.branches.create("exp")
    views = spark.sql("SHOW VIEWS").collect()
    frame = sql(spark, "SELECT a.id FROM t@exp a JOIN t@exp b USING (id)", tables={"t": table.uri})
    lw.open(table.uri, branch="exp").append(pa.table({"id": [3]}))
    assert rows(frame) == ["(1,)", "(2,)"]
    assert spark.sql("SHOW VIEWS").collect() == views


def test_names_of_the_session_and_parameters_go_through(spark: Any, tables: dict[str, str]) -> None:
    spark.range(3).createOrReplaceTempView("mine")
    try:
        query = "SELECT m.id, {a} AS b FROM mine m JOIN labels@old l ON m.id < :least WHERE l.n = 1"
        found = sql(spark, query.replace("{a}", "'{x}'"), tables=tables, args={"least": 1})
        assert set(rows(found)) == {"(0, '{x}')"}
        with pytest.raises(InvalidInputError, match="no versions"):
            sql(spark, "SELECT * FROM mine VERSION AS OF 1", tables=tables)
    finally:
        spark.catalog.dropTempView("mine")
    moment = "SELECT count(*) AS n FROM labels TIMESTAMP AS OF current_timestamp()"
    now = "SELECT count(*) AS n FROM labels"
    assert rows(sql(spark, moment, tables=tables)) == rows(sql(spark, now, tables=tables))


def test_what_spark_refuses_is_told_of_the_whole_table(
    spark: Any, tables: dict[str, str], capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(InvalidInputError, match=r"`labl`.*`label`"):
        sql(spark, "SELECT labl FROM photos", tables=tables)
    with pytest.raises(InvalidInputError, match="Syntax error at or near 'IS'"):
        sql(spark, "SELECT id FROM photos WHERE k IN (1) IS NULL", tables=tables)
    with pytest.raises(InvalidInputError, match="takes a moment"):
        sql(spark, "SELECT * FROM photos TIMESTAMP AS OF 'soon'", tables=tables)
    with pytest.raises(NotFoundError, match="did you mean 'photos'"):
        sql(spark, "SELECT * FROM photoss", tables=tables)
    assert "Exception" not in capfd.readouterr().err
