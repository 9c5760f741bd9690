"""A statement of SQL that reads the table that it changes, held up before each of its store calls
while another writer commits: it leaves what the two leave one after the other, in the order in
which they landed.

Every day it is held before the call that creates the manifest and every eighth other one.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.breadth import EVERY_CASE, daily
from tests.races.held_scene import Scene, is_commit

import lancewood as lw
from lancewood.query.statements.engine import Engine

EVERY = daily(8, of=1)
STATEMENTS = {
    "update": "UPDATE t SET a = (SELECT max(a) FROM t) + 1 WHERE a = 0",
    "update from": "UPDATE t SET s = m.s FROM (SELECT max(s) AS s FROM t) AS m WHERE t.a = 1",
    "with": "WITH m AS (SELECT max(a) AS a FROM t) UPDATE t SET a = m.a * 2 FROM m WHERE t.a = 2",
    "delete": "DELETE FROM t WHERE a * 10 < (SELECT max(a) FROM t)",
    "delete in": "DELETE FROM t WHERE a IN (SELECT a % 48 FROM t WHERE a > 3)",
    "delete using": "DELETE FROM t USING t AS u WHERE t.a = u.a % 48 AND u.a > 3",
    "insert": "INSERT INTO t SELECT max(a) + 1, 'mine' FROM t",
    "insert values": "INSERT INTO t VALUES ((SELECT count(*) FROM t), 'mine')",
    "insert overwrite": "INSERT OVERWRITE t SELECT a + 100, s FROM t",
    "replace where": "INSERT INTO t REPLACE WHERE a > 3 SELECT count(*) + 90, 'mine' FROM t",
    "merge": "MERGE INTO t USING (SELECT max(a) AS a FROM t) AS m ON t.a + 1000 = m.a "
    "WHEN NOT MATCHED THEN INSERT (a, s) VALUES (m.a + 1, 'mine')",
    "merge into rows": "MERGE INTO t USING (SELECT DISTINCT a % 50 AS a FROM t WHERE a > 0) AS m "
    "ON t.a = m.a WHEN NOT MATCHED BY SOURCE THEN UPDATE SET s = 'mine'",
}
OTHERS: dict[str, Callable[[lw.Table], lw.Table]] = {
    "append": lambda table: table.append(pa.table({"a": [50], "s": ["z theirs"]})),
    "delete": lambda table: table.delete("a = 5"),
}


def left(table: lw.Table) -> list[tuple[Any, ...]]:
    return sorted(tuple(each.values()) for each in table.to_arrow().to_pylist())


def serial(scene: Scene, sql: str, other: Callable[[lw.Table], lw.Table]) -> tuple[Any, Any]:
    """What is left if the other writer lands first, and if it lands last."""
    first, second = scene.fresh(), scene.fresh()
    other(first.open())
    lw.sql(sql, tables={"t": first.open()})
    lw.sql(sql, tables={"t": second.open()})
    other(second.open())
    return left(first.open()), left(second.open())


@pytest.mark.sliced(2)
@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS.keys())
@pytest.mark.parametrize("sql", STATEMENTS.values(), ids=STATEMENTS.keys())
def test_a_statement_that_reads_its_own_table_is_serial(
    disk: Scene, sql: str, other: Callable[[lw.Table], lw.Table]
) -> None:
    if not EVERY_CASE and list(OTHERS.values()).index(other) and "WHERE a = 0" not in sql:
        pytest.skip("one writer a day for each statement")
    other_first, other_last = serial(disk, sql, other)
    counted = disk.fresh()
    table, store = counted.held(0, lambda: None)
    lw.sql(sql, tables={"t": table})
    puts = [at for at, call in enumerate(store.calls, 1) if is_commit(*call)]
    assert puts
    for at in sorted({*puts, *range(1, len(store.calls) + 1, EVERY)}):
        each, landed = disk.fresh(), list[int]()

        def meanwhile(each: Scene = each, landed: list[int] = landed) -> None:
            landed.append(other(each.open()).version)

        table, store = each.held(at, meanwhile)
        lw.sql(sql, tables={"t": table})
        is_last = landed == [each.versions()[0]]
        expected = other_last if is_last else other_first
        assert left(each.open()) == expected, store.calls[at - 1]
        each.rows()


@pytest.mark.parametrize("sql", [STATEMENTS["update"], STATEMENTS["insert"], STATEMENTS["delete"]])
def test_so_it_is_on_a_branch_of_a_repository(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sql: str
) -> None:
    rows = pa.table({"a": range(6), "s": ["x"] * 6})

    def made(name: str) -> lw.Repository:
        repository = lw.Repository.init(tmp_path / name)
        with repository.transaction("main", message="rows") as changes:
            changes.create_table("t", rows)
        repository.branches.create("exp")
        return repository

    def other(repository: lw.Repository) -> None:
        lw.sql("INSERT INTO t@exp VALUES (50, 'theirs')", repository=repository)

    sql = sql.replace("FROM t", "FROM t@exp").replace("INTO t", "INTO t@exp")
    sql = sql.replace("UPDATE t", "UPDATE t@exp")
    serially, held = made("serially"), made("held")
    other(serially)
    lw.sql(sql, repository=serially)
    asked, waiting = Engine.answer, [lambda: other(held)]

    def answer(self: Engine, planned: Any) -> Any:
        found = asked(self, planned)
        if waiting:
            waiting.pop()()
        return found

    monkeypatch.setattr(Engine, "answer", answer)
    lw.sql(sql, repository=held)
    found = [left(each.at("exp").table("t")) for each in (serially, held)]
    assert found[0] == found[1]


def test_another_table_or_a_value_of_the_row_itself_is_not_waited_for(disk: Scene) -> None:
    for sql in ("UPDATE t SET a = a + 10 WHERE a = 0", "INSERT INTO t SELECT 7, 'mine' FROM u"):
        each = disk.fresh()
        table, store = each.held(0, lambda: None)
        tables = {"t": table, "u": lw.create(f"{each.uri}-u", pa.table({"x": [1]}))}
        lw.sql(sql, tables=tables)
        at = next(at for at, call in enumerate(store.calls, 1) if is_commit(*call))
        again = disk.fresh()
        table, store = again.held(at, partial(OTHERS["append"], again.open()))
        lw.sql(sql, tables={**tables, "t": table})
        written = [key for verb, key in store.calls if verb == "sync" and key.startswith("data/")]
        assert len(written) == 1, store.calls
