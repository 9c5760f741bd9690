"""Queries answered in this process by DuckDB."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
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
from lancewood.expr.database import EXPRESSIONS, MAX_DEPTH, QUERIES
from lancewood.query import answer

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
    photos = lw.create(tmp_path / "photos.lance", ROWS, layout=lw.Layout(max_rows_per_file=2))
    photos.tags.create("v1.0")
    photos.branches.create("exp").append(ROWS)
    photos.delete("id = 1")
    labels = pa.table({"label": ["cat", "dog"], "n": pa.array([1, 2], pa.int32())})
    return {"photos": photos.uri, "labels": lw.create(tmp_path / "labels.lance", labels)}


def rows(query: str, tables: Tables | None, **settings: Any) -> list[dict[str, Any]]:
    found = lw.sql(query, tables=tables, **settings).to_arrow()
    return found.to_pylist()  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("name", "count"),
    [
        *(("photos", 3), ("PHOTOS", 3), ("photos@exp", 8), ("photos@v1.0", 4), ("photos@:1", 4)),
        *(("photos@exp:1", 4), ("photos@main", 3), ('photos@"exp"', 8), ('"photos@exp" x', 8)),
        *(("photos AT (VERSION => 1)", 4), ("photos p AT (VERSION => 'v1.0')", 4)),
        ("photos@exp AT (VERSION => 1)", 4),
        ("photos AT (TIMESTAMP => now() + INTERVAL 1 DAY)", 3),
        ("photos@exp AT (TIMESTAMP => '2999-12-31')", 8),
    ],
)
def test_a_name_leads_to_its_version(tables: Tables, name: str, count: int) -> None:
    for text in (name, f"{name} -- x@y", f"/* a@b */ {name}\n;"):
        assert rows(f"SELECT count(*) AS n FROM {text}", tables) == [{"n": count}]
    query = f"SELECT 'photos@exp' AS t, (SELECT count(*) FROM photos) AS m FROM {name} LIMIT 1"
    assert rows(query, tables) == [{"t": "photos@exp", "m": 3}]


def test_the_text_stays_duckdbs(tables: Tables) -> None:
    for query, expected in {
        "FROM photos SELECT max(id)": 4,
        "WITH photos AS (SELECT 9 AS id) SELECT id FROM photos": 9,
        "WITH x AS (FROM photos@exp) SELECT count(*) FROM x JOIN x AS y USING (id)": 16,
        "SELECT count(*) FROM photos p, photos@exp e WHERE p.id = e.id": 6,
        "SELECT photos.id FROM photos AT (VERSION => 1) WHERE photos.label = 'cat'": 1,
        "SELECT q.x FROM photos q(x) AT (VERSION => 1) WHERE q.label = 'cat'": 1,
        'SELECT "photos@exp".id FROM photos@exp ORDER BY ALL LIMIT 1': 1,
        "SELECT count(*) FROM (PIVOT photos@exp ON label USING count(*) GROUP BY id)": 4,
        "SELECT list_sum([x * 2 FOR x IN [id, id]]) FROM photos WHERE id = 4": 16,
        "SELECT 7 / 2": 3.5,
        "SELECT sum(id) FILTER (id > 2) FROM photos": 7,
        "SELECT box.x FROM photos QUALIFY row_number() OVER (ORDER BY id) = 1": 1,
        "SELECT count(*) FROM photos AT (VERSION => 1) TABLESAMPLE (1 ROWS)": 1,
        "SELECT count(*) FROM photos TABLESAMPLE (1 ROWS), photos@exp": 8,
        "SELECT count(*) FROM diff('photos', 'v1.0', 'exp') AS d(a) TABLESAMPLE (1 ROWS)": 1,
        "SELECT count(*) FROM /* é */ diff('photos', 'v1.0'), photos AT (VERSION => 1)": 4,
        "VALUES (3)": 3,
    }.items():
        (row,) = rows(query, tables)
        assert next(iter(row.values())) == expected, query
    assert [each["column_name"] for each in rows("DESCRIBE photos", tables)] == ROWS.schema.names
    assert len(rows("SUMMARIZE photos@exp", tables)) == 5


def test_a_version_is_resolved_once(tables: Tables) -> None:
    answer = lw.sql("SELECT count(*) AS n FROM photos", tables=tables)
    lw.open(tables["photos"]).append(ROWS)
    assert answer.to_arrow()["n"].to_pylist() == [3]
    for found in (answer.to_arrow(), answer.to_reader().read_all(), pa.table(answer)):
        assert found["n"].to_pylist() == [3]


def test_an_answer_comes_in_batches(tmp_path: Path) -> None:
    many = lw.create(tmp_path / "t.lance", pa.table({"id": range(300_000)}))
    batches = lw.sql("SELECT id + 1 AS n FROM t", tables={"t": many}).to_batches()
    assert 0 < next(batches).num_rows < 300_000
    batches.close()  # type: ignore[attr-defined]


def test_values_come_as_arguments(tables: Tables) -> None:
    given = {"a": 3, "b": "it's", "c": None, "d": 1.5, "e": date(2024, 1, 2), "f": Decimal("0.5")}
    given |= {"g": datetime(2024, 1, 2, tzinfo=UTC), "h": b"\0x", "i": True}
    query = f"SELECT {', '.join(f'${each} AS {each}' for each in given)}"
    assert rows(query, {}, args=given) == [given]
    named = {"a": 3, "b": "it's"}
    query = "SELECT id FROM photos WHERE label = $b AND id > $a"
    assert rows(query, tables, args=named) == [{"id": 4}]
    assert rows("SELECT id FROM photos WHERE id > ? AND id IN ?", tables, args=[2, [3, 4]]) == [
        {"id": 3},
        {"id": 4},
    ]
    for args in ({}, {"a": 1, "z": 2}, [1, 2]):
        with pytest.raises(InvalidInputError):
            rows("SELECT $a AS x", {}, args=args)
    with pytest.raises(InvalidInputError, match=r"a mapping for \$name, or a list"):
        rows("SELECT 1 AS x", {}, args="a")


def test_a_quoted_name_is_a_place_only_where_no_tables_are_given(
    tables: Tables, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert rows("SELECT count(*) AS n FROM 'photos.lance@v1.0'", None) == [{"n": 4}]
    assert rows('SELECT count(*) AS n FROM "./photos.lance" p', None) == [{"n": 3}]
    for given in (tables, {}):
        with pytest.raises(NotFoundError):
            rows("SELECT count(*) AS n FROM 'photos.lance'", given)


def test_what_fails_below_duckdb_keeps_its_kind(tables: Tables) -> None:
    shutil.rmtree(Path(tables["photos"]) / "data")
    with pytest.raises(NotFoundError, match=r"data.*\.lance"):
        rows("SELECT max(score) FROM photos", tables)
    assert rows("SELECT count(*) AS n FROM photos", tables) == [{"n": 3}]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM read_text('/etc/passwd')",
        "SELECT * FROM '/etc/passwd'",
        "SELECT * FROM glob('/*')",
        "SELECT getenv('HOME')",
        "COPY photos TO '/tmp/lancewood-must-not.csv'",
        "COPY (SELECT 1) TO '/tmp/lancewood-must-not.csv'",
        "EXPORT DATABASE '/tmp/lancewood-must-not'",
        "ATTACH ':memory:' AS other",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET memory_limit = '1TB'",
        "SET VARIABLE x = 1",
        "RESET memory_limit",
        "PRAGMA database_list",
        "CALL pragma_version()",
        "CREATE MACRO f(x) AS x + 1",
        "CREATE VIEW photos AS SELECT 1",
        "CREATE TEMP TABLE x AS SELECT 1",
        "CREATE TYPE x AS ENUM ('a')",
        "USE memory",
        "CHECKPOINT",
        "VACUUM",
        "PREPARE p AS SELECT 1",
        "EXECUTE p",
        "SELECT 1; SELECT * FROM read_text('/etc/passwd')",
        "SELECT 1) FROM photos; DROP VIEW photos; --",
        "WITH d AS (DELETE FROM photos RETURNING *) FROM d",
        "SELECT * FROM secret",
        "SELECT * FROM main.secret",
        "EXPLAIN ANALYZE SELECT 1",
        "DELETE FROM photos WHERE id = 1) UNION SELECT (2",
        "",
        ";",
        "SELECT " + "(" * 2_000 + "1" + ")" * 2_000,
        "SELECT " + "1 + " * 5_000 + "1",
        "SELECT 'a",
        "SELECT \0",
        "x" * 2_000_000,
        "SELECT \ud800",
    ],
)
def test_a_hostile_text_is_refused_and_reaches_nothing(tables: Tables, query: str) -> None:
    secret = pa.table({"password": ["hunter2"]})
    assert secret.num_rows == 1  # a variable of Python, which DuckDB would find by its name
    with pytest.raises(lw.LancewoodError) as caught:
        rows(query, tables)
    assert "hunter2" not in str(caught.value)
    assert lw.open(tables["photos"]).version == 2
    assert rows("SELECT count(*) AS n FROM photos", tables) == [{"n": 3}]


def test_the_database_may_open_nothing_and_change_no_setting() -> None:
    """The second lock, should a text ever get to it."""
    for statement in (
        "SELECT * FROM read_text('/etc/passwd')",
        "COPY (SELECT 1) TO '/tmp/lancewood-must-not.csv'",
        "INSTALL httpfs",
        "ATTACH '/tmp/lancewood-must-not.db'",
        "SET enable_external_access = true",
        "SET memory_limit = '1TB'",
    ):
        with QUERIES.cursor() as own, pytest.raises(duckdb.Error):
            own.execute(statement)
    names = ("TimeZone", "max_expression_depth", "python_enable_replacements")
    settings = ", ".join(f"current_setting('{name}')" for name in names)
    for database in (QUERIES, EXPRESSIONS):
        with database.cursor() as own:
            found = own.execute(f"SELECT {settings}").fetchone()
        assert found == ("UTC", MAX_DEPTH, False)
    with QUERIES.cursor() as own:
        own.execute("CREATE TEMP VIEW mine AS SELECT 1")
    with QUERIES.cursor() as own, pytest.raises(duckdb.Error):
        own.execute("FROM mine")


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("SELECT labl FROM photos", 'Referenced column "labl" not found.*"label"'),
        ("SELECT id FROM photos a, photos b", 'Ambiguous reference to column name "id"'),
        ("SELEC 1", "cannot read 'SELEC 1' as SQL: syntax error"),
        ("SELECT CAST(label AS INT) FROM photos", "the query fails on a value: Could not convert"),
        ("SELECT date'' FROM photos", "the query fails on a value: invalid date"),
        ("SELECT * FROM s2.lance", "a path stands in quotes, FROM 's2.lance'"),
        ("SELECT * FROM s2.lance@v1", "a path stands in quotes, FROM 's2.lance@v1'"),
        ("SELECT * FROM data/s2.lance", "a path stands in quotes: FROM 'data/s2.lance'"),
        ("SELECT * FROM photos AT (VERSION => 0)", "of which the first is 1"),
        ("SELECT * FROM photos AT (VERSION => id)", "takes the number of a version"),
        ("SELECT * FROM photos AT (TIMESTAMP => 'soon')", "takes a moment"),
        ("SELECT * FROM photos AT (TIMESTAMP => NULL)", "is NULL"),
        ("SELECT * FROM photos@v1.0 AT (VERSION => 1)", "and so does AT or AS OF"),
        ("WITH w AS (SELECT 1) FROM w AT (VERSION => 1)", "defined by WITH"),
        ("SELECT 1; SELECT 2; BEGIN", "no COMMIT follows"),
        ("COPY photos TO '/tmp/lancewood-must-not.csv'", "give files=True to lancewood.sql"),
        ("EXPLAIN COPY photos FROM '/etc/passwd' (FORMAT csv)", "give files=True"),
    ],
)
def test_what_is_wrong_is_told(tables: Tables, query: str, told: str) -> None:
    with pytest.raises(InvalidInputError, match=told):
        rows(query, tables)


@pytest.mark.parametrize(
    "name", ["photoss", "photoss@exp", "photos@nope", "db.photos", "photos@:9"]
)
def test_what_nobody_has_is_not_found(tables: Tables, name: str) -> None:
    with pytest.raises(NotFoundError) as caught:
        rows(f"SELECT * FROM {name}", tables)
    assert "photoss" not in name or "did you mean 'photos'" in str(caught.value)


VECTORS = pa.array([[1.0, 2.0], None], pa.list_(pa.float32(), 2))
HALVES = np.array([0.5, 1.5], np.float16)


@pytest.mark.parametrize(
    ("array", "kind"),
    [
        (pa.array([1, None], pa.uint8()), pa.uint8()),
        (pa.array([2**64 - 1, None], pa.uint64()), pa.uint64()),
        (pa.array(HALVES), pa.float32()),
        (pa.FixedSizeListArray.from_arrays(pa.array(HALVES), 1), pa.list_(pa.float32(), 1)),
        (pa.array(["a", None], pa.large_string()), pa.string()),
        (pa.array([b"ab", None], pa.binary(2)), pa.binary()),
        (pa.array([1, None], pa.timestamp("ms")), pa.timestamp("ms")),
        (pa.array([1, None], pa.timestamp("us", "UTC")), pa.timestamp("us", "UTC")),
        (pa.array([1, None], pa.date32()), pa.date32()),
        (VECTORS, pa.list_(pa.float32(), 2)),
        (pa.array([{"a": 1}, None]), pa.struct([("a", pa.int64())])),
    ],
)
def test_columns_have_the_types_that_duckdb_has(
    tmp_path: Path, array: pa.Array, kind: pa.DataType
) -> None:
    made = lw.create(tmp_path / "t.lance", pa.table({"c": array}))
    found = lw.sql("SELECT c FROM t", tables={"t": made}).to_arrow()
    assert found.schema.field("c").type == kind
    assert found["c"].to_pylist() == made.to_arrow()["c"].to_pylist()


def test_a_column_that_duckdb_cannot_have_is_no_trouble_until_somebody_asks(tmp_path: Path) -> None:
    digits = pa.array([Decimal(1)], pa.decimal256(40, 0))
    data = pa.table({"id": [1], "digits": digits, "a": [1], "A": [2]})
    made = lw.create(tmp_path / "t.lance", data)
    assert rows("SELECT id, count(*) AS n FROM t GROUP BY ALL", {"t": made}) == [{"id": 1, "n": 1}]
    assert rows("SELECT * EXCLUDE (digits, a) FROM t", {"t": made}) == [{"id": 1}]
    for query in ("SELECT digits FROM t", "SELECT id FROM t WHERE digits IS NULL"):
        with pytest.raises(UnsupportedError, match="'digits' is decimal256"):
            rows(query, {"t": made})
    with pytest.raises(UnsupportedError, match="'a' and 'A' differ only in upper and lower case"):
        rows("SELECT a FROM t", {"t": made})


def test_a_value_that_duckdb_cannot_have_is_refused_and_not_cut_off(tmp_path: Path) -> None:
    data = pa.table({"id": [1, 2], "span": pa.array([5_000, 5_001], pa.duration("ns"))})
    made = lw.create(tmp_path / "t.lance", data)
    assert rows("SELECT id FROM t LIMIT 1", {"t": made}) == [{"id": 1}]
    with pytest.raises(InvalidInputError, match="column 'span' cannot be given to DuckDB"):
        rows("SELECT max(span) FROM t", {"t": made})
    whole = made.delete("id = 2")
    assert rows("SELECT id FROM t WHERE span = INTERVAL '5 us'", {"t": whole}) == [{"id": 1}]


@pytest.fixture(params=["source", "dataset"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """DuckDB's own protocol for sources, or pyarrow's class for datasets."""
    if request.param == "dataset":
        monkeypatch.setattr(answer, "TRIED_WITH", ("no release",))
    return str(request.param)


@pytest.fixture
def wide(tmp_path: Path) -> lw.Table:
    data = {"id": range(1000), "n": range(1000), "v": [[float(each)] * 4 for each in range(1000)]}
    return lw.create(tmp_path / "t.lance", pa.table(data), layout=lw.Layout(max_rows_per_file=100))


def test_what_is_not_needed_is_not_read(way: str, tmp_path: Path) -> None:
    """Files that are not there any more cannot have been opened."""
    location = tmp_path / "t.lance"
    data = pa.table({"id": pa.array(range(9), pa.int64()), "s": ["x"] * 9})
    made = lw.create(
        location, data, layout=lw.Layout(max_rows_per_file=3), access=lw.Access(fsync=False)
    ).delete("id = 4")
    first = {each.name for each in (location / "data").iterdir()}
    made.add_columns({"later": "id * 2"})
    for each in (location / "data").iterdir():
        if each.name not in first:
            each.unlink()
    tables = {"t": str(location)}
    some = "SELECT max(id) AS m, min(s) AS s FROM t WHERE id < 7"
    assert rows(some, tables) == [{"m": 6, "s": "x"}]
    with pytest.raises(NotFoundError):
        rows("SELECT max(later) FROM t", tables)
    shutil.rmtree(location / "data")
    both = "SELECT count(*) AS n, (SELECT count(*) FROM t@:1 x, t@:1 y) AS m FROM t"
    assert rows(both, tables) == [{"n": 8, "m": 81}]


def test_an_index_tells_which_rows_are_read(wide: lw.Table) -> None:
    tables = {"t": wide.indices.create("id").indices.create("n", "BLOOMFILTER")}
    answer = lw.sql("SELECT n FROM t WHERE id = 7 AND n = 7", tables=tables)
    assert answer.explain().splitlines()[2:] == [
        "  columns  n (1 of 3)",
        "  where    id = 7 AND n = 7",
        "  index    id_idx: 1 row of 1 fragment",
        "  index    n_idx not used: scans do not look into BLOOMFILTER",
    ]
    assert answer.to_arrow().to_pylist() == [{"n": 7}]


def test_a_condition_that_gains_nothing_stays_with_duckdb(tmp_path: Path) -> None:
    made = lw.create(tmp_path / "t.lance", pa.table({"id": range(10), "x": [1.5] * 10}))
    answer = lw.sql("SELECT x FROM t WHERE id = 3 AND x > 1", tables={"t": made})
    told = answer.explain().splitlines()
    assert told[2:4] == ["  columns  id, x (2 of 2)", "  where    all rows"]
    assert told[4] == "  DuckDB   decides id = 3 AND x > 1.0::DOUBLE"


def test_a_limit_stops_reading(way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    batches = answer.Relation.batches

    def counted(self: answer.Relation, *asked: Any) -> Iterator[pa.RecordBatch]:
        for batch in batches(self, *asked):
            read.append(batch.num_rows)
            yield batch

    monkeypatch.setattr(answer.Relation, "batches", counted)
    many = lw.create(tmp_path / "t.lance", pa.table({"id": range(3_000_000)}))
    assert len(rows("SELECT id FROM t LIMIT 5", {"t": many})) == 5
    assert 0 < sum(read) < 3_000_000


def test_an_answer_that_is_abandoned_leaves_no_thread_behind(wide: lw.Table) -> None:
    before = threading.active_count()
    for _ in range(5):
        batches = lw.sql("SELECT a.id FROM t a, t b", tables={"t": wide}).to_batches()
        assert next(batches).num_rows
        batches.close()  # type: ignore[attr-defined]
    assert threading.active_count() <= before


def test_a_query_loads_no_library_that_it_does_not_need(tables: Tables) -> None:
    code = (
        f"import sys, lancewood as lw; lw.sql('SELECT count(*) FROM t', "
        f"tables={{'t': {str(tables['photos'])!r}}}).to_arrow();"
        "unwanted = {'pandas', 'pyspark', 'polars', 'sqlglot'};"
        "print(unwanted.intersection(sys.modules) or '')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert (done.stdout.strip(), done.stderr) == ("", "")


@pytest.mark.parametrize(
    ("value", "found"),
    [(pa.scalar(7), 7), (np.float16(1.5), 1.5), (np.int64(7), 7), ([pa.scalar(7), 8], [7, 8])],
)
def test_values_are_taken_apart_as_those_of_conditions(value: object, found: object) -> None:
    assert lw.sql("SELECT $v AS v", args={"v": value}).to_arrow().to_pylist() == [{"v": found}]
    assert lw.sql("SELECT ? AS v", args=[value]).to_arrow().to_pylist() == [{"v": found}]


@pytest.mark.parametrize("value", [2**200, "\ud800", Decimal("1e50"), object()])
def test_a_value_that_is_no_constant_is_refused_by_its_name(value: object) -> None:
    with pytest.raises(lw.InvalidInputError, match="parameter 'v'"):
        lw.sql("SELECT $v AS v", args={"v": value})
