"""Random statements that change a table leave the rows that DuckDB leaves, and count as many."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
from tests.breadth import daily
from tests.unit.query.statements.judged import Judged

SCRIPTS = int(os.environ.get("LANCEWOOD_LAW_EXAMPLES", "0")) // 5 or daily(6, of=300)
SEED = int(os.environ.get("LANCEWOOD_SQL_SEED", "0"))
STEPS = 5

OF_TARGET = (
    *("t.id > 3", "t.a IS NULL", "t.b <> 'x'", "t.a * 2 < t.id + 4", "t.b = 'y' OR t.id < 2"),
    *("t.b NOT LIKE 'x%'", "t.b NOT ILIKE 'Y'"),
)
OF_SOURCE = (
    *("s.id > 3", "s.a IS NULL", "s.b <> 'x'", "s.a BETWEEN 1 AND 5", "length(s.b) = 1"),
    "s.b NOT LIKE 'x%'",
)
OF_BOTH = ("t.a < s.a", "t.b = s.b", "s.b IS NULL AND t.a > 1", *OF_TARGET[:2], *OF_SOURCE[:2])
NUMBERS = ("{0}.a", "{0}.id + 1", "NULL", "7", "{0}.a * 2 - {0}.id", "coalesce({0}.a, -1)")
TEXTS = ("{0}.b", "'z'", "NULL", "upper({0}.b)", "{0}.b || '!'")
JOINS = ("t.id = s.id", "t.id = s.id AND t.b = s.b", "s.id + 1 = t.id", "t.id = s.id AND s.a > 2")


class Statements:
    """Statements by chance."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def rows(self, count: int, *, distinct: bool) -> pa.Table:
        random = self._random
        ids: list[int | None] = [random.choice([None, *range(12)]) for _ in range(count)]
        if distinct:
            ids = list(random.sample([None, *range(12)], count))
        return pa.table(
            {
                "id": pa.array(ids, pa.int64()),
                "a": pa.array([random.choice([None, 0, 1, 2, 5, 9]) for _ in ids], pa.int64()),
                "b": pa.array([random.choice([None, "x", "y", "z"]) for _ in ids], pa.string()),
            }
        )

    def statement(self) -> str:
        return self._random.choice(
            [self._insert, self._delete, self._update, self._values, *[self._merge] * 4]
        )()

    def _one(self, *choices: str) -> str:
        return self._random.choice(choices)

    def _insert(self) -> str:
        where = self._one(*OF_SOURCE)
        return self._one(
            f"INSERT INTO t SELECT id, a, b FROM s WHERE {where}",
            f"INSERT INTO t BY NAME SELECT b, id + 1 AS id FROM s WHERE {where}",
            f"INSERT INTO t (b, id) FROM s SELECT upper(b), id WHERE {where}",
            f"INSERT INTO t SELECT max(id) + 1, min(a), 'm' FROM t WHERE {self._one(*OF_TARGET)}",
            f"WITH w AS (FROM s WHERE {where}) INSERT INTO t SELECT id, count(*), b FROM w "
            "GROUP BY ALL",
            f"INSERT INTO t BY NAME (FROM t WHERE {self._one(*OF_TARGET)} UNION ALL FROM s)",
            "INSERT INTO t DEFAULT VALUES",
        )

    def _values(self) -> str:
        numbers, texts = ("1", "DEFAULT", "2.6", "7 - 3"), ("'x'", "NULL", "3")
        rows = [f"({self._one(*numbers)}, {self._one(*texts)})" for _ in range(3)]
        return f"INSERT INTO t (a, b) VALUES {', '.join(rows)}"

    def _delete(self) -> str:
        condition = self._one(*OF_TARGET, "t.id IN (SELECT id FROM s)")
        return self._one(
            f"DELETE FROM t WHERE {condition}",
            f"DELETE FROM t USING s WHERE {self._one(*JOINS)} AND ({self._one(*OF_BOTH)})",
            "WITH w AS (FROM s WHERE a > 1) DELETE FROM t WHERE id IN (SELECT id FROM w)",
            "DELETE FROM t WHERE id * 3 > (SELECT sum(u.a) FROM t AS u WHERE u.b = t.b)",
            "DELETE FROM t AS x USING t AS u, s WHERE x.id = u.a AND s.id = u.id AND u.b < s.b",
        )

    def _update(self) -> str:
        where = self._one(*OF_TARGET)
        return self._one(
            f"UPDATE t SET {self._set('t')} WHERE {where}",
            f"UPDATE t SET {self._set('s')} FROM s WHERE {self._one(*JOINS[:2])} AND ({where})",
            f"UPDATE t SET (a, b) = (t.id, DEFAULT) WHERE {where}",
            f"UPDATE t SET a = (SELECT max(u.a) FROM t AS u WHERE u.b = t.b) WHERE {where}",
            f"WITH w AS (SELECT b, sum(a) AS n FROM t GROUP BY b) UPDATE t SET a = w.n FROM w "
            f"WHERE w.b = t.b AND ({where})",
        )

    def _set(self, side: str) -> str:
        number, text = self._one(*NUMBERS).format(side), self._one(*TEXTS).format(side)
        return self._one(f"a = {number}", f"b = {text}", f"a = {number}, b = {text}")

    def _merge(self) -> str:
        clauses = [each for _ in range(3) for each in self._clauses()]
        self._random.shuffle(clauses)
        ranked = sorted(clauses or [self._matched(last=True)], key=lambda each: " AND " not in each)
        source = self._one(
            *("s", "s", "s", f"(SELECT * FROM s WHERE {self._one(*OF_SOURCE)}) AS s"),
            "(SELECT id + 1 AS id, max(a) AS a, min(b) AS b FROM t GROUP BY id) AS s",
            "(VALUES (1, 2, 'v'), (5, NULL, 'y'), (NULL, 3, NULL)) AS s(id, a, b)",
        )
        on = self._one("USING (id)", *[f"ON {each}" for each in JOINS])
        return f"MERGE INTO t USING {source} {on} {' '.join(ranked)}"

    def _clauses(self) -> list[str]:
        made = [self._matched(last=False), self._new(), self._orphan()]
        return [each for each in made if self._random.random() < 0.4]

    def _matched(self, *, last: bool) -> str:
        action = self._one(
            *("DELETE", "DO NOTHING", "UPDATE", "UPDATE BY NAME", "UPDATE SET *"),
            "INSERT (id, b) VALUES (t.id + s.a, 'in')",
            *(f"UPDATE SET {self._set('s')}", f"UPDATE SET {self._set('t')}"),
        )
        return f"WHEN MATCHED{'' if last else f' AND {self._one(*OF_BOTH)}'} THEN {action}"

    def _new(self) -> str:
        values = f"s.id, {self._one(*NUMBERS).format('s')}, {self._one(*TEXTS).format('s')}"
        action = self._one(
            *(f"INSERT (id, a, b) VALUES ({values})", "INSERT", "INSERT BY NAME", "DO NOTHING"),
            *(
                "INSERT *",
                "INSERT DEFAULT VALUES",
                f"INSERT VALUES (DEFAULT, {values.partition(', ')[2]})",
            ),
        )
        return f"WHEN NOT MATCHED AND {self._one(*OF_SOURCE)} THEN {action}"

    def _orphan(self) -> str:
        action = self._one(
            *("DELETE", f"UPDATE SET {self._set('t')}", "DO NOTHING"),
            "INSERT (id, a) VALUES (t.id * 10, t.a)",
        )
        return f"WHEN NOT MATCHED BY SOURCE AND {self._one(*OF_TARGET)} THEN {action}"


@pytest.mark.parametrize("number", range(SCRIPTS))
def test_random_statements_leave_the_rows_that_duckdb_leaves(number: int, tmp_path: Path) -> None:
    made = Statements(Random(f"{SEED}/{number}"))
    judged = Judged(tmp_path, made.rows(8, distinct=False), made.rows(6, distinct=True))
    for _ in range(STEPS):
        before, sql = len(judged.ours()), made.statement()
        found = judged.run(sql)
        assert len(judged.ours()) == before + found["inserted"] - found["deleted"], sql
