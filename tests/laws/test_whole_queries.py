"""Whole queries answer what DuckDB answers to the same text over its own tables of the same rows:
by our own source, by a pyarrow Dataset, and with nothing pushed down.

Beside ``test_sql_pushdown``, whose queries are about conditions and revisions: here the shapes of
queries are drawn. ``LANCEWOOD_LAW_EXAMPLES`` says how many.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from random import Random
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from tests.breadth import daily
from tests.laws.test_sql_pushdown import sorted_rows
from tests.sql_scene import labels, photos

import lancewood as lw

QUERIES = int(os.environ.get("LANCEWOOD_LAW_EXAMPLES", "0")) or daily(8, of=1_000)
SEED = int(os.environ.get("LANCEWOOD_SQL_SEED", "0"))
BY_HAND = [
    "SELECT p.id, l.n FROM p ASOF LEFT JOIN l ON p.label = l.label AND p.k >= l.k",
    "PIVOT p ON k USING count(*), max(id) GROUP BY ok",
    "PIVOT (SELECT label, k FROM p WHERE k < 3) ON k IN (0, 1, 2) USING count(*)",
    "UNPIVOT (SELECT id, k::INT AS k, small::INT AS small FROM p) ON COLUMNS(* EXCLUDE id)",
    "SELECT id, list_reduce([length(x) FOR x IN tags], lambda a, b: a + b, 0) FROM p",
    "SELECT id, [x FOR x IN [k, small, id] IF x > 2] FROM p",
    "SELECT unnest([box, {'x': 5, 'y': 'z'}], recursive := true), id FROM p WHERE k = 1",
    "SELECT label, ok, grouping(label, ok), count(*) FROM p GROUP BY CUBE (label, ok)",
    "SELECT label, k, sum(id) FROM p GROUP BY GROUPING SETS ((label), (k), (label, k), ())",
    "SELECT p.id, x.n FROM p, LATERAL (SELECT n FROM l WHERE l.k < p.k ORDER BY n, l.k LIMIT 2) x",
    "SELECT * FROM p NATURAL JOIN l",
    "FROM p SELECT id, first_value(id) OVER w, ntile(3) OVER w "
    "WINDOW w AS (PARTITION BY k ORDER BY id)",
    "SELECT id, sum(k) OVER (ORDER BY id RANGE BETWEEN 3 PRECEDING AND CURRENT ROW EXCLUDE TIES) "
    "FROM p",
    "SELECT histogram(k), mode(label), quantile_cont(id, [0.25, 0.5]), bool_or(ok) FROM p",
    "SELECT map_from_entries(list((id, label) ORDER BY id)) FROM p WHERE k = 2",
    "WITH RECURSIVE r(k, path) AS (SELECT 0, [0] UNION ALL SELECT k + 1, list_append(path, k + 1) "
    "FROM r WHERE k < (SELECT max(k) FROM p)) "
    "SELECT r.*, count(p.id) FROM r LEFT JOIN p USING (k) GROUP BY ALL",
    "SELECT * FROM p POSITIONAL JOIN (SELECT n FROM l ORDER BY ALL) ORDER BY ALL LIMIT 3",
    "SELECT COLUMNS(lambda c: c LIKE '%a%')::VARCHAR FROM p",
    "SELECT id FROM p WHERE EXISTS (SELECT 1 FROM l WHERE l.k = p.k "
    "AND l.n IN (SELECT n FROM l b WHERE b.k > p.k))",
    "(SELECT k FROM p EXCEPT ALL SELECT k FROM l) UNION BY NAME (SELECT n FROM l)",
]


class Shapes:
    """Queries by chance; none depends on an order of rows that it does not say."""

    def __init__(self, seed: int) -> None:
        self._rng = Random(seed)

    def draw(self) -> str:
        shape = self._rng.choice(
            (self._plain, self._joined, self._grouped, self._windowed, self._with, self._set)
        )
        return shape()

    def _one(self, *choices: str) -> str:
        return self._rng.choice(choices)

    def _condition(self, a: str) -> str:
        """About photos under an alias."""
        atom = self._one(
            f"{a}.k {self._one('<', '>=', '=', '<>')} {self._rng.randint(0, 5)}",
            f"{a}.label {self._one('=', '>', 'LIKE', 'NOT LIKE')} {self._one(*TEXTS)}",
            f"{a}.score {self._one('<', '>')} {self._one('0.1', '0', '1e300')}",
            f"{a}.price BETWEEN -0.05 AND {self._one('0.5', '1.5')}",
            f"{a}.box.x IS {self._one('', 'NOT ')}NULL",
            f"list_contains({a}.tags, 'a')",
            f"{a}.moment {self._one('<', '>')} TIMESTAMPTZ '2024-02-29 00:00:00+00'",
            f"{a}.taken IN (DATE '2024-02-28', DATE '2024-03-01')",
            f"{a}.small > {a}.k",
            f"{a}.ok",
            f"{a}.id IN (SELECT q.id + 1 FROM p q WHERE q.k = {self._rng.randint(0, 4)})",
            f"{a}.k {self._one('<', '>')} (SELECT avg(n) FROM l WHERE l.label = {a}.label)",
            f"EXISTS (FROM l WHERE l.k = {a}.k AND l.n > {self._rng.randint(0, 2)})",
            f"{a}.k = ANY (SELECT n FROM l)",
        )
        if self._rng.random() < 0.35:
            return f"({atom} {self._one('AND', 'OR')} {self._condition(a)})"
        return f"NOT ({atom})" if self._rng.random() < 0.15 else atom

    def _value(self, a: str) -> str:
        return self._one(
            *(
                f"{a}.{each}"
                for each in [
                    "id",
                    "k",
                    "label",
                    "small",
                    "price",
                    "taken",
                    "moment",
                    "tags",
                    "box",
                    "raw",
                ]
            ),
            *(f"upper({a}.label) || '!'", f"{a}.id * 2 + {a}.k", f"{a}.box.y", f"len({a}.tags)"),
            f"list_transform({a}.tags, lambda x: coalesce(x, '?') || {a}.k)",
            f"CASE WHEN {a}.ok THEN {a}.label ELSE {a}.box.y END",
            f"{{'k': {a}.k, 'l': [{a}.label]}}",
            f"MAP {{'id': {a}.id}}",
            f"date_trunc('hour', {a}.clock)",
            f"(SELECT max(n) FROM l WHERE l.k = {a}.k)",
        )

    def _values(self, a: str, count: int) -> str:
        return ", ".join(f"{self._value(a)} AS c{at}" for at in range(count))

    def _plain(self) -> str:
        order = self._one("", "", " ORDER BY p.id", " ORDER BY p.id DESC LIMIT 7 OFFSET 2")
        distinct = self._one("", "", "DISTINCT ") if not order else ""
        columns = self._values("p", self._rng.randint(1, 3))
        return f"SELECT {distinct}{columns} FROM p WHERE {self._condition('p')}{order}"

    def _joined(self) -> str:
        kind = self._one("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN")
        on = self._one("a.k = b.k", "a.label = b.label AND a.id < b.id", "a.id = b.small")
        if kind != "FULL JOIN" and self._rng.random() < 0.3:
            on += f" AND {self._one('a.ok', 'b.k > 1', 'a.score > b.f')}"
        values = f"{self._values('a', 1)}, {self._value('b')} AS d"
        where = self._condition(self._one("a", "b"))
        more = self._one("", ", LATERAL (SELECT count(*) AS m FROM l WHERE l.k >= a.k) x")
        return (
            f"SELECT {values}{', x.m' * bool(more)} FROM p a {kind} p b ON {on}{more} WHERE {where}"
        )

    def _grouped(self) -> str:
        key = self._one("p.label", "p.k", "p.ok", "p.k % 2", "p.taken", "p.box.x")
        fact = self._one(
            *("count(*)", "sum(p.id)", "max(p.label)", "list(p.id ORDER BY p.id)", "min(p.price)"),
            *("count(DISTINCT p.k)", "sum(p.k) FILTER (p.ok)", "arg_max(p.label, p.id)"),
            *("string_agg(p.label, ',' ORDER BY p.id)", "median(p.id)", "bit_xor(p.small)"),
        )
        by = self._one(key, f"ROLLUP ({key}, p.ok)", f"CUBE ({key}, p.small)", "ALL")
        having = self._one("", "", " HAVING count(*) > 1")
        where = self._condition("p")
        return f"SELECT {key} AS g, {fact} AS f FROM p WHERE {where} GROUP BY {by}{having}"

    def _windowed(self) -> str:
        over = f"(PARTITION BY {self._one('k', 'label', 'ok')} ORDER BY id {self._one('', 'DESC')})"
        fact = self._one("row_number()", "lag(label)", "sum(k)", "rank()", "last_value(small)")
        where = self._condition("p")
        if self._rng.random() < 0.5:
            return f"SELECT id, label FROM p WHERE {where} QUALIFY row_number() OVER {over} <= 2"
        return f"SELECT id, {fact} OVER {over} AS w FROM p WHERE {where}"

    def _with(self) -> str:
        inner = f"SELECT id, k, label, {self._value('p')} AS v FROM p WHERE {self._condition('p')}"
        word = self._one("", "MATERIALIZED ", "NOT MATERIALIZED ")
        outer = self._one(
            "SELECT count(*), count(v), max(id) FROM w",
            "SELECT a.id, b.id FROM w a JOIN w b ON a.k = b.k AND a.id < b.id",
            "SELECT w.*, l.n FROM w LEFT JOIN l USING (k)",
            "FROM w WHERE k > 1",
        )
        return f"WITH w AS {word}({inner}) {outer}"

    def _set(self) -> str:
        word = self._one("UNION", "UNION ALL", "EXCEPT", "EXCEPT ALL", "INTERSECT", "INTERSECT ALL")
        one, two = (f"SELECT k, label FROM p WHERE {self._condition('p')}" for _ in range(2))
        return f"({one}) {word} ({two})"


TEXTS = ("'cat'", "'c%'", "'%o%'", "''", "'é'", "'it''s'")


@pytest.fixture(scope="module")
def rows() -> dict[str, pa.Table]:
    rng = Random(7)
    return {"p": photos(rng, 0, 45), "l": labels(rng, 14)}


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory, rows: dict[str, pa.Table]) -> dict[str, str]:
    folder, found = tmp_path_factory.mktemp("whole"), {}
    for name, each in rows.items():
        found[name] = str(folder / f"{name}.lance")
        lw.create(
            found[name], each, layout=lw.Layout(max_rows_per_file=20), access=lw.Access(fsync=False)
        )
    lw.open(found["p"]).indices.create("k").indices.create("label", "BITMAP")
    return found


@pytest.fixture(scope="module")
def judge(rows: dict[str, pa.Table]) -> Iterator[Any]:
    database = duckdb.connect(config={"threads": 1})
    database.execute("SET TimeZone = 'UTC'; SET python_enable_replacements = false")
    for name, each in rows.items():
        database.register("given", each)
        database.execute(f"CREATE TABLE {name} AS FROM given")
    yield database
    database.close()


@pytest.mark.sliced(3)
@pytest.mark.parametrize("query", BY_HAND)
def test_a_query_by_hand_answers_what_duckdb_answers(
    tables: dict[str, str], judge: Any, pushdown: bool, query: str
) -> None:
    wanted = sorted_rows(judge.sql(query).to_arrow_table())
    assert sorted_rows(lw.sql(query, tables=tables, pushdown=pushdown).to_arrow()) == wanted
    assert wanted, "shows nothing"


def test_drawn_queries_answer_what_duckdb_answers(
    tables: dict[str, str], judge: Any, pushdown: bool
) -> None:
    shapes, some = Shapes(SEED), 0
    for _ in range(QUERIES):
        query = shapes.draw()
        wanted = sorted_rows(judge.sql(query).to_arrow_table())
        found = sorted_rows(lw.sql(query, tables=tables, pushdown=pushdown).to_arrow())
        assert found == wanted, query
        some += bool(wanted)
    assert some > QUERIES * 0.6
