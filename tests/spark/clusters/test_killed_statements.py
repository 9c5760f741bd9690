"""Statements whose executors are killed, or whose tasks fail: they end with the rows that DuckDB
leaves, or with an error, and then nothing has changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.spark.clusters.conftest import Faulty
from tests.spark.clusters.faults import Fault
from tests.unit.query.statements.judged import Judged
from tests.unit.query.statements.test_writing_rows import counts

import lancewood as lw
from lancewood.spark import sql
from lancewood.spark.tasks import arrow_of

ROWS = 4000
FILES = 4
ATTEMPTS = 4
STATEMENTS = {
    "merge": "MERGE INTO t USING s ON t.id = s.id WHEN MATCHED THEN UPDATE SET n = s.n "
    "WHEN NOT MATCHED THEN INSERT (id, n) VALUES (s.id, s.n) "
    "WHEN NOT MATCHED BY SOURCE AND t.id < 100 THEN DELETE",
    "update": "UPDATE t SET n = n * 2 + id WHERE id IN (SELECT id FROM s)",
    "delete": "DELETE FROM t WHERE id IN (SELECT id FROM s)",
    "insert": "INSERT INTO t SELECT id, n FROM s",
}
COUNTS = {
    "merge": (ROWS // 2, ROWS // 2, 100),
    "update": (0, ROWS // 2, 0),
    "delete": (0, 0, ROWS // 2),
    "insert": (ROWS, 0, 0),
}
PHASES = {"merge": 2, "update": 2, "delete": 1, "insert": 1}
"""How often files are written: changes are staged first, then rows are written."""
KILLED_DAILY, FAILED_DAILY = "merge", "insert"
pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark-local-cluster")]


@pytest.fixture
def judged(dying: Faulty, tmp_path: Path) -> Judged:
    """Half of the source is in the target."""

    def ask(text: str, **given: Any) -> pa.Table:
        return arrow_of(sql(dying.spark, text, **given))

    def rows(start: int) -> pa.Table:
        ids = pa.array(range(start, start + ROWS), pa.int64())
        return pa.table({"id": ids, "n": ids})

    return Judged(tmp_path, rows(0), rows(ROWS // 2), ask, rows_per_file=ROWS // FILES)


def files(judged: Judged) -> set[str]:
    return {each.name for each in (Path(judged.uri) / "data").iterdir()}


def some(daily: str) -> list[Any]:
    """One of the statements every day, the others in campaigns."""
    return [
        each if each == daily else pytest.param(each, marks=pytest.mark.campaign)
        for each in STATEMENTS
    ]


@pytest.mark.parametrize("name", some(KILLED_DAILY))
def test_a_statement_ends_right_whose_executors_are_killed(
    dying: Faulty, judged: Judged, name: str
) -> None:
    kill = Fault("close", "kill", partition=0, attempt=0, under=judged.uri)
    dying.faults.arm(*[kill] * PHASES[name])
    found = judged.run(STATEMENTS[name])
    assert dying.faults.left() == 0
    assert counts(found) == COUNTS[name]
    assert judged.version == 2
    table = lw.open(judged.uri)
    assert not table.verify().problems


@pytest.mark.parametrize("name", some(FAILED_DAILY))
def test_a_statement_whose_task_fails_for_good_changes_nothing(
    dying: Faulty, judged: Judged, name: str
) -> None:
    before, rows = files(judged), judged.ours()
    for phase in range(PHASES[name]):
        earlier = [Fault("close", "pass", partition=0, under=judged.uri)] * phase
        failing = [Fault("close", "fail", partition=0, under=judged.uri)] * ATTEMPTS
        dying.faults.arm(*earlier, *failing)
        with pytest.raises(Exception, match="planted at close"):
            judged.run(STATEMENTS[name])
        assert dying.faults.left() == 0
        assert (judged.version, judged.ours()) == (1, rows)
        assert files(judged) == before
