"""Queries answered in this process. That Spark answers the same is asked in ``tests/spark``."""

from __future__ import annotations

import shutil
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import lancewood as lw
from lancewood.errors import InvalidInputError, NotFoundError, UnsupportedError
from lancewood.query.answer import InProcess, _connected

ROWS = pa.table(
    {
        "id": pa.array([1, 2, 3, 4], pa.int64()),
        "label": ["cat", "dog", None, "it's"],
        "score": [0.5, float("nan"), -0.0, None],
        "price": pa.array([Decimal("1.50"), Decimal("-2.25"), None, 0], pa.decimal128(10, 2)),
        "box": pa.array([{"x": 1}] * 4, pa.struct([("x", pa.int32())])),
    }
)
Tables = dict[str, Any]


@pytest.fixture
def tables(tmp_path: Path) -> Tables:
    photos = lw.create(tmp_path / "photos.lance", ROWS, max_rows_per_file=2)
    photos.tags.create("v1.0")
    photos.branches.create("exp").append(ROWS)
    photos.delete("id = 1")
    labels = pa.table({"label": ["cat", "dog"], "n": pa.array([1, 2], pa.int32())})
    return {"photos": photos.uri, "labels": lw.create(tmp_path / "labels.lance", labels)}


def rows(query: str, tables: Tables | None, **settings: Any) -> list[dict[str, Any]]:
    found = lw.sql(query, tables=tables, **settings).to_arrow()
    return found.to_pylist()  # type: ignore[no-any-return]


def test_tables_are_read_at_their_revisions(tables: Tables) -> None:
    query = "SELECT count(*) AS n, (SELECT max(id) FROM {}) AS m FROM {}"
    for name, count in {"photos": 3, "photos@exp": 8, "photos@v1.0": 4, "photos@:1": 4}.items():
        assert rows(query.format(name, name), tables) == [{"n": count, "m": 4}]
    moment = "SELECT id FROM photos TIMESTAMP AS OF current_timestamp() + INTERVAL 1 DAY"
    assert len(rows(moment, tables)) == 3
    with pytest.raises(InvalidInputError, match="takes a moment"):
        rows("SELECT id FROM photos TIMESTAMP AS OF 'soon'", tables)


def test_an_answer_keeps_its_versions_and_can_be_read_again(tables: Tables) -> None:
    answer = lw.sql("SELECT id FROM photos p JOIN photos q USING (id) ORDER BY id", tables=tables)
    lw.open(tables["photos"]).append(ROWS)
    for found in (answer.to_arrow(), answer.to_reader().read_all(), pa.table(answer)):
        assert found["id"].to_pylist() == [2, 3, 4]
    assert answer.to_polars()["id"].to_list() == answer.to_pandas()["id"].tolist() == [2, 3, 4]
    assert "columns  id (1 of 5)" in answer.explain()


def test_an_answer_comes_in_batches(tmp_path: Path) -> None:
    many = lw.create(tmp_path / "t.lance", pa.table({"id": range(300_000)}))
    batches = lw.sql("SELECT id + 1 AS n FROM t", tables={"t": many}).to_batches()
    assert 0 < next(batches).num_rows < 300_000
    batches.close()  # type: ignore[attr-defined]


def test_two_columns_may_have_one_name(tables: Tables) -> None:
    query = "SELECT a.id, b.id, max(a.id), count(*) FROM photos a, photos b GROUP BY a.id, b.id"
    answer = lw.sql(query, tables=tables)
    assert answer.schema.names == ["id", "id", "max(a.id)", "count(1)"]
    assert answer.to_arrow().num_rows == 9


def test_values_come_as_arguments(tables: Tables) -> None:
    given = {"a": 3, "b": "it's", "c": None, "d": 1.5, "e": date(2024, 1, 2), "f": Decimal("0.5")}
    given |= {"g": datetime(2024, 1, 2, tzinfo=UTC), "h": b"\0x", "i": True}
    query = f"SELECT {', '.join(f':{each} AS {each}' for each in given)}"
    assert rows(query, {}, args=given) == [given]
    query = "SELECT id FROM photos WHERE label = :b AND id > :a"
    assert rows(query, tables, args=given) == [{"id": 4}]
    with pytest.raises(InvalidInputError, match=":a"):
        rows("SELECT :a AS x", {})


def test_a_quoted_name_is_a_place_only_where_no_tables_are_given(
    tables: Tables, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert rows("SELECT count(*) AS n FROM 'photos.lance@v1.0'", None) == [{"n": 4}]
    assert rows("SELECT count(*) AS n FROM `./photos.lance` p", None) == [{"n": 3}]
    for given in (tables, {}):
        with pytest.raises(NotFoundError):
            rows("SELECT count(*) AS n FROM 'photos.lance'", given)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM read_text('/etc/passwd')",
        "SELECT * FROM range(3)",
        "SELECT * FROM csv.`/etc/passwd`",
        "SELECT * FROM duckdb_settings()",
        "SELECT getenv('HOME') AS x",
        "SELECT current_setting('memory_limit') AS x",
    ],
)
def test_a_query_reaches_nothing_but_its_tables(tables: Tables, query: str) -> None:
    with pytest.raises((UnsupportedError, NotFoundError)):
        rows(query, tables)


def test_duckdb_itself_may_open_no_file() -> None:
    """The second lock, should a text ever get to it."""

    with _connected() as connection:
        for statement in (
            "SELECT * FROM read_text('/etc/passwd')",
            "COPY (SELECT 1) TO '/tmp/lancewood-must-not.csv'",
            "INSTALL httpfs",
            "ATTACH '/tmp/lancewood-must-not.db'",
            "SET enable_external_access = true",
        ):
            with pytest.raises(duckdb.Error):
                connection.execute(statement)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT stddev(id) FROM photos",
        "SELECT log(id) FROM photos",
        "SELECT collect_list(id) FROM photos",
        "SELECT regexp_replace(label, 'a', 'b') FROM photos",
        "SELECT label RLIKE 'a' FROM photos",
        "SELECT date_format(current_date(), 'yyyy') FROM photos",
        "SELECT price / 3 FROM photos",
        "SELECT avg(price) FROM photos",
        "SELECT CAST(score AS STRING) FROM photos",
        "SELECT id FROM photos WHERE id = '1'",
        "SELECT id FROM photos WHERE label LIKE 'a\\\\_b'",
        "SELECT split(label, 'a')[0] FROM photos",
        "SELECT explode(array(1, 2))",
        "SELECT id FROM photos TABLESAMPLE (1 ROWS)",
        "SELECT id FROM photos SORT BY id",
        "SELECT label, count(*) FROM photos GROUP BY ROLLUP (label)",
        "SELECT max(id) OVER w FROM photos WINDOW w AS (ORDER BY id)",
        "SELECT rand() FROM photos",
        "SELECT box = box FROM photos",
        "SELECT box.* FROM photos",
        "SELECT '1' || 2 - 1 FROM photos",
        "SELECT FALSE = TRUE < FALSE FROM photos",
        "SELECT TRUE BETWEEN FALSE AND TRUE = FALSE FROM photos",
        "SELECT id IN (SELECT n FROM labels) FROM photos",
        "SELECT id FROM photos WHERE NOT (id > 9 OR id IN (SELECT n FROM labels))",
        "SELECT id FROM photos WHERE (id IN (SELECT n FROM labels)) IS NULL",
        "SELECT max(id) AS score FROM photos GROUP BY score HAVING score > 3",
        "SELECT TRY_CAST(score AS FLOAT) FROM photos",
        "FROM photos |> WHERE id = 1",
        "WITH RECURSIVE r AS (SELECT 1 AS x UNION ALL SELECT x + 1 FROM r WHERE x < 3) "
        "SELECT * FROM r",
    ],
)
def test_what_may_mean_something_else_is_spark_s(tables: Tables, query: str) -> None:
    with pytest.raises(UnsupportedError, match="--spark"):
        rows(query, tables)


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("SELECT labl FROM photos", "column 'labl' not found.*did you mean 'label'"),
        ("SELECT id FROM photos a, photos b", "'id' is ambiguous"),
        ("SELECT a.x FROM photos a", "'a.x' not found"),
        ("SELECT box.y FROM photos", "'y' is no field"),
        ("SELECT label, max(id) FROM photos", "'label' is neither in GROUP BY"),
        ("SELECT id FROM photos WHERE max(id) = 1", "cannot stand in WHERE"),
        ("SELECT id FROM photos WHERE label", "WHERE takes a boolean, got a string"),
        ("SELECT id FROM photos UNION SELECT id, label FROM photos", "1 and 2 columns"),
        ("SELECT id FROM photos ORDER BY 2", "ORDER BY 2 names no column"),
        ("SELECT id AS x, label AS x FROM photos ORDER BY x", "two columns of SELECT"),
        ("SELECT 1 / (id - id) AS x FROM photos", "divides by zero"),
        ("SELECT CAST(label AS INT) FROM photos", "a string that is cast to int"),
        ("SELECT CAST(id + 300 AS TINYINT) FROM photos", "fails on a value"),
        ("SELECT 2147483647 + 1 AS x", "fails on a value"),
        ("SELECT * FROM s2.lance", "a path stands in quotes, FROM 's2.lance'"),
        ("SELECT * FROM s2.lance@v1", "a path stands in quotes, FROM 's2.lance@v1'"),
        (
            "SELECT * FROM data/s2.lance WHERE x = 1",
            "a path stands in quotes: FROM 'data/s2.lance'",
        ),
        ("SELECT * FROM photos JOIN ./s.lance s", "a path stands in quotes: FROM './s.lance'"),
        ("SELECT row_number() OVER () FROM photos", r"row_number\(\) needs an order"),
        ("SELECT max(DISTINCT id) OVER () FROM photos", r"max\(\) with DISTINCT takes no OVER"),
        ("SELECT 0x1F AS x", "written X'1F'"),
        ("SELECT CAST(DATE '9999-12-31' + 1 AS STRING) AS x", "only Spark writes dates"),
        ("SELECT CAST('2024-01-01 24:00:00' AS TIMESTAMP) AS x", "none in a plain form"),
        ("SELECT CAST('2024-01-01 00:00:00+18:01' AS TIMESTAMP) AS x", "none in a plain form"),
        ("SELECT upper('straße') AS x", r"upper\(\) met a letter"),
        ("SELECT lower('ΣΑΣ') AS x", r"lower\(\) met a letter"),
    ],
)
def test_what_is_wrong_is_told(tables: Tables, query: str, told: str) -> None:
    with pytest.raises(InvalidInputError, match=told):
        rows(query, tables)


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("round(1000000000000000.5D)", 1000000000000001.0),
        ("round(-4503599627370495.5D)", -4503599627370496.0),
        ("round(1125899906842624.25D, 1)", 1125899906842624.2),
        ("CAST(0.5 AS STRING)", "0.5"),
        ("concat('x', 0.250)", "x0.250"),
        ("TRY_CAST(9223372036854775807D AS BIGINT)", 2**63 - 1),
        (f"TRY_CAST('{'0' * 46}5' AS INT)", 5),
        ("TRY_CAST('\v13\x7f' AS INT)", 13),
        ("NULL * 1.5", pa.scalar(None, pa.decimal128(5, 2))),
        ("NULL div 2", pa.scalar(None, pa.int64())),
        ("-NULL", pa.scalar(None, pa.float64())),
        ("1.5 + 1::bigint", pa.scalar(Decimal("2.5"), pa.decimal128(22, 1))),
        ("1.5 + 1L", pa.scalar(Decimal("2.5"), pa.decimal128(3, 1))),
    ],
)
def test_a_value_is_that_of_spark(expression: str, value: Any) -> None:
    """As Spark 4 gave it when it was asked."""
    found = lw.sql(f"SELECT {expression} AS x", tables={}).to_arrow()["x"][0]
    assert found.equals(value) if isinstance(value, pa.Scalar) else found.as_py() == value


def test_null_may_stand_for_what_holds_others(tables: Tables) -> None:
    query = "SELECT id, CASE WHEN id = 2 THEN box END AS x FROM photos UNION ALL SELECT 9, NULL"
    assert [each["x"] for each in rows(query, tables)] == [{"x": 1}, None, None, None]


def test_a_window_may_have_a_filter(tables: Tables) -> None:
    query = "SELECT id, count(*) FILTER (WHERE id > 2) OVER (ORDER BY id) AS n FROM photos"
    assert [each["n"] for each in rows(query, tables)] == [0, 1, 2]


@pytest.mark.parametrize(
    ("call", "name"),
    [
        ("date_format(current_date(), 'yyyy')", "date_format"),
        ("collect_list(id)", "collect_list"),
        ("percentile(id, 0.5)", "percentile"),
        ("size(split(label, 'a'))", "size"),
        ("ceiling(label)", "ceiling"),
        ("stddev(id) OVER ()", "stddev"),
        ("count_if(DISTINCT box)", "count_if"),
    ],
)
def test_a_function_is_called_as_it_was_written(tables: Tables, call: str, name: str) -> None:
    with pytest.raises(UnsupportedError, match=rf"^{name}\(\)"):
        rows(f"SELECT {call} FROM photos", tables)


def test_a_file_of_another_format_is_no_table(tables: Tables) -> None:
    """Said with the way out, whether it is there or not."""
    told = r"only Lance tables are read here.*lw table import stations\.lance data/stations\.csv"
    for given in (None, tables):
        with pytest.raises(NotFoundError, match=told):
            rows("SELECT * FROM 'data/stations.csv'", given)
    with pytest.raises(UnsupportedError, match=r"stations\.csv.*stands in quotes"):
        rows("SELECT * FROM stations.csv", None)
    with pytest.raises(NotFoundError, match="--table NAME=PATH"):
        rows("SELECT * FROM 'data/photos.lance'", tables)


def test_what_fails_below_duckdb_keeps_its_kind(tables: Tables) -> None:
    shutil.rmtree(Path(tables["photos"]) / "data")
    with pytest.raises(NotFoundError, match=r"data.*\.lance"):
        rows("SELECT max(score) FROM photos", tables)
    assert rows("SELECT count(*) AS n FROM photos", tables) == [{"n": 3}]


VECTORS = pa.array([[1.0, 2.0], None], pa.list_(pa.float32(), 2))


@pytest.mark.parametrize(
    ("array", "kind"),
    [
        (pa.array([1, None], pa.uint8()), pa.int16()),
        (pa.array([2**64 - 1, None], pa.uint64()), pa.decimal128(20, 0)),
        (pa.array(np.array([0.5, 1.5], np.float16)), pa.float32()),
        (pa.array(["a", None], pa.large_string()), pa.string()),
        (pa.array(["a", None]).dictionary_encode(), pa.string()),
        (pa.array([b"ab", None], pa.binary(2)), pa.binary()),
        (pa.array([1, None], pa.timestamp("ms", "Europe/Berlin")), pa.timestamp("us", "UTC")),
        (pa.array([1, None], pa.date32()), pa.date32()),
        (VECTORS, pa.list_(pa.field("element", pa.float32()))),
        (pa.array([{"a": 1}, None]), pa.struct([("a", pa.int64())])),
    ],
)
def test_columns_have_the_types_of_spark(
    tmp_path: Path, array: pa.Array, kind: pa.DataType
) -> None:
    made = lw.create(tmp_path / "t.lance", pa.table({"c": array}))
    found = lw.sql("SELECT c FROM t", tables={"t": made}).to_arrow()
    assert found.schema.field("c").type == kind
    assert found["c"].to_pylist() == made.to_arrow()["c"].to_pylist()


def test_a_column_that_duckdb_cannot_have_is_no_trouble_until_somebody_asks(tmp_path: Path) -> None:
    data = pa.table({"id": [1], "span": pa.array([5], pa.duration("us"))})
    made = lw.create(tmp_path / "t.lance", data)
    assert rows("SELECT id FROM t", {"t": made}) == [{"id": 1}]
    for query in ("SELECT span FROM t", "SELECT * FROM t"):
        with pytest.raises(UnsupportedError, match=r"'span'.*--spark"):
            rows(query, {"t": made})


def test_names_that_differ_in_case_alone_are_kept_apart(tmp_path: Path) -> None:
    made = lw.create(tmp_path / "t.lance", pa.table({"a": [1], "A": [2]}))
    assert lw.sql("SELECT * FROM t", tables={"t": made}).to_arrow().to_pydict() == {
        "a": [1],
        "A": [2],
    }
    with pytest.raises(InvalidInputError, match="ambiguous"):
        rows("SELECT a FROM t", {"t": made})


def test_a_small_text_does_not_become_a_large_one(tables: Tables) -> None:
    for query in (
        "upper(" * 30 + "label" + ")" * 30,
        "1 / (" * 30 + "id" + ")" * 30,
        "CASE " * 25 + "id" + " WHEN 1 THEN 2 WHEN 2 THEN 3 END" * 25,
    ):
        with pytest.raises(UnsupportedError, match="long or deep"):
            rows(f"SELECT {query} AS x FROM photos GROUP BY id, label", tables)


def test_texts_and_bytes_reach_duckdb_as_they_are() -> None:
    text = 'it\'s "x" -- /* ; \0 \n é'
    assert rows("SELECT :t AS t", {}, args={"t": text}) == [{"t": text}]
    query = (
        "SELECT 'it''s' AS a, \"say \"\"x\"\" it\" AS b, 'a' 'b' AS c, X'00ff' AS d, '; --' AS e"
    )
    assert rows(query, {}) == [
        {"a": "it's", "b": 'say "x" it', "c": "ab", "d": b"\x00\xff", "e": "; --"}
    ]
    for wrong in ('X"a\'b"', "X'abc'"):
        with pytest.raises((UnsupportedError, InvalidInputError)):
            rows(f"SELECT {wrong} AS x", {})


def test_here_is_no_session() -> None:
    assert not InProcess().has_table("photos")
