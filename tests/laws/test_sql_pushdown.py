"""Queries over tables at revisions answer what DuckDB answers to the same text over the same rows
in tables of its own: with indices and without, with conditions pushed down or not, and by the class
of pyarrow that other releases of DuckDB read.

``LANCEWOOD_LAW_EXAMPLES`` says how many random queries are asked.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from tests.breadth import daily
from tests.sql_scene import LABELS, PHOTOS, Queries, make_tables

import lancewood as lw
from lancewood.query.tokens import quoted, with_revisions_quoted

QUERIES = int(os.environ.get("LANCEWOOD_LAW_EXAMPLES", "0")) or daily(30, of=3_000)
SEED = int(os.environ.get("LANCEWOOD_SQL_SEED", "0"))

BY_HAND = [
    "FROM photos SELECT id, label WHERE k > 2 ORDER BY ALL",
    "SELECT label, list(id ORDER BY id) FROM photos WHERE k IN (1, 2) GROUP BY ALL",
    "SELECT id, sum(k) OVER (PARTITION BY label ORDER BY id ROWS 2 PRECEDING) FROM photos@exp",
    "SELECT id FROM photos QUALIFY row_number() OVER (PARTITION BY label ORDER BY id DESC) = 1",
    "WITH RECURSIVE r AS (SELECT min(id) AS x FROM photos UNION ALL SELECT x + 1 FROM r "
    "WHERE x < 9) SELECT x, label FROM r LEFT JOIN photos ON x = id",
    "WITH p AS (FROM photos WHERE k > 1), q AS (FROM p WHERE id < 30) SELECT count(*) FROM p, q",
    "SELECT * FROM photos ASOF JOIN labels ON photos.label = labels.label AND photos.k >= labels.k",
    "SELECT a.id, b.k FROM photos a POSITIONAL JOIN labels b WHERE a.id < 5",
    "SELECT p.id FROM photos p SEMI JOIN photos@exp e ON p.id = e.id AND e.k > 2",
    "SELECT p.id FROM photos p ANTI JOIN photos@v1.0 v USING (id)",
    "SELECT id FROM photos EXCEPT SELECT id FROM photos@v1.0 WHERE k = 3",
    "SELECT id FROM photos INTERSECT ALL SELECT id FROM photos@exp",
    "SELECT * FROM (SELECT label, k, id FROM photos) PIVOT (count(*) FOR k IN (1, 2, 3))",
    "PIVOT (SELECT label, ok, id FROM photos@exp) ON ok USING count(*), max(id) GROUP BY label",
    "UNPIVOT (SELECT id, k, small::BIGINT AS small FROM photos) ON k, small",
    "SELECT id, [x || '!' FOR x IN tags IF x IS NOT NULL] FROM photos",
    "SELECT id, list_transform(tags, lambda t: upper(t)) FROM photos WHERE 'a' IN tags",
    "SELECT id, box.x, box.y FROM photos WHERE box.x = 1 OR box IS NULL",
    "SELECT unnest(tags) AS t, count(*) FROM photos GROUP BY t",
    "SELECT id, struct_pack(a := k, b := [label]) FROM photos WHERE id BETWEEN 3 AND 9",
    "SELECT id FROM photos WHERE label LIKE 'c%' AND label NOT LIKE '%x' OR label ILIKE 'DOG'",
    "SELECT id FROM photos WHERE label = 'it''s' OR label IN ('é', '日本', '', '50%')",
    "SELECT id FROM photos WHERE score > 0.1 AND f >= 0.1 OR score = 'nan'::DOUBLE",
    "SELECT id FROM photos WHERE score < 0 OR isnan(f) OR score IN (0.5, 1e300)",
    "SELECT id FROM photos WHERE price BETWEEN 0.5 AND 1.5 OR price = -0.05",
    "SELECT id FROM photos WHERE taken = DATE '2024-02-29' OR year(clock) = 2024 AND k = 1",
    "SELECT id FROM photos WHERE moment >= TIMESTAMPTZ '2024-02-29 00:00:00+00'",
    "SELECT id FROM photos WHERE clock > '2024-02-28 23:59:59.5' AND clock <= '2024-02-29'",
    "SELECT id FROM photos WHERE raw = '\\xFF\\x01'::BLOB OR small = 250 OR small > 300",
    "SELECT id FROM photos WHERE ok = true AND k <> 3 AND NOT (k = 4 OR k IS NULL)",
    "SELECT id FROM photos WHERE k NOT IN (1, 2) AND NOT ok",
    "SELECT id FROM photos WHERE (k, ok) IN (SELECT k, true FROM labels)",
    "SELECT id FROM photos p WHERE k = (SELECT max(k) FROM labels l WHERE l.label = p.label)",
    "SELECT x.id FROM photos x, LATERAL (SELECT max(n) m FROM labels WHERE k = x.k) WHERE m > 1",
    "SELECT label, count(*) FILTER (k > 2), approx_count_distinct(k) FROM photos GROUP BY label",
    "SELECT label, ok, count(*) FROM photos GROUP BY ROLLUP (label, ok)",
    "SELECT max(id), min(label), arg_max(label, id) FROM photos WHERE extra IS NULL OR extra > 2",
    "SELECT count(*), count(k), sum(price), avg(score) FROM photos WHERE k < 4 LIMIT 1",
    "SELECT id FROM photos ORDER BY k DESC NULLS LAST, id LIMIT 7 OFFSET 2",
    "SELECT DISTINCT ON (label) label, id FROM photos ORDER BY label, id",
    "SELECT COLUMNS('^(id|k)$') FROM photos WHERE id < 6",
    "SELECT * EXCLUDE (tags) REPLACE (id * 2 AS id) FROM photos WHERE k = 2",
    "SELECT CASE k WHEN 1 THEN 'a' WHEN 2 THEN label END FROM photos",
    "SELECT id, strftime(moment, '%Y-%m'), date_trunc('hour', clock) FROM photos",
    "SELECT 1 WHERE EXISTS (FROM photos WHERE k = 99) OR EXISTS (FROM photos@exp WHERE k = 5)",
    "SELECT label FROM photos GROUP BY label HAVING label > 'c' AND count(*) > 1",
    "SELECT p.k, l.n FROM photos p FULL JOIN labels l ON p.k = l.k WHERE l.n = 1 OR p.id < 3",
    "SELECT p.id FROM photos p LEFT JOIN labels l ON p.k = l.k AND l.n = 1 WHERE l.n IS NULL",
]


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    found = make_tables(tmp_path_factory.mktemp("sql"))
    photos = lw.open(found["photos"])
    photos.indices.create("k").indices.create("label", "BITMAP")
    return found


@pytest.fixture(scope="module")
def judge(tables: dict[str, str]) -> Iterator[Any]:
    """DuckDB with the rows of every revision in tables of its own."""
    database = duckdb.connect(config={"threads": 1})
    database.execute("SET TimeZone = 'UTC'; SET python_enable_replacements = false")
    for name in (*PHOTOS, *LABELS):
        table, _, revision = name.partition("@")
        opened = lw.open(tables[table], at=revision or None)
        database.register("given", opened.to_arrow())
        database.execute(f"CREATE TABLE {quoted(name)} AS FROM given")
    yield database
    database.close()


def sorted_rows(found: pa.Table) -> list[str]:
    """As texts; UTC has two names."""
    lines = zip(*(each.to_pylist() for each in found.columns), strict=True)
    return sorted(repr(each).replace("Etc/UTC", "UTC") for each in lines)


@pytest.mark.sliced(3)
@pytest.mark.parametrize("query", BY_HAND)
def test_a_query_answers_what_duckdb_answers(
    tables: dict[str, str], judge: Any, pushdown: bool, query: str
) -> None:
    wanted = sorted_rows(judge.sql(with_revisions_quoted(query)).to_arrow_table())
    found = lw.sql(query, tables=tables, pushdown=pushdown).to_arrow()
    assert sorted_rows(found) == wanted
    assert wanted, "shows nothing"


def test_random_queries_answer_what_duckdb_answers(
    tables: dict[str, str], judge: Any, pushdown: bool
) -> None:
    queries, done = Queries(SEED, spark=False), 0
    for _ in range(QUERIES):
        query = queries.draw()
        try:
            wanted = sorted_rows(judge.sql(with_revisions_quoted(query)).to_arrow_table())
        except duckdb.Error:  # an ambiguous name
            with pytest.raises(lw.LancewoodError):
                lw.sql(query, tables=tables, pushdown=pushdown).to_arrow()
            continue
        answer = lw.sql(query, tables=tables, pushdown=pushdown)
        assert sorted_rows(answer.to_arrow()) == wanted, f"{query}\n{answer.explain()}"
        done += 1
    assert done > QUERIES * 0.6


def test_conditions_are_pushed_down_and_rows_counted_by_the_manifest(
    tables: dict[str, str],
) -> None:
    queries = Queries(SEED, spark=False)
    told = []
    for _ in range(60):
        try:
            told.append(lw.sql(queries.draw(), tables=tables).explain())
        except lw.LancewoodError:
            continue
    lines = [line for text in told for line in text.splitlines()]
    assert sum(line.startswith("  where ") and "all rows" not in line for line in lines) > 20
    assert any(line.startswith("  index ") and "not used" not in line for line in lines)
    assert any("no data file is read" in line for line in lines)
