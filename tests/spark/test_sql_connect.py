"""SQL with revisions over Spark Connect: the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lancewood as lw
from lancewood.errors import InvalidInputError

pytest.importorskip("pyspark", reason="pyspark is not installed")

from lancewood.spark import sql

pytestmark = [
    pytest.mark.spark,
    pytest.mark.xdist_group("spark-connect"),
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
]


def test_queries_with_revisions_are_answered_over_connect(connected: Any, tmp_path: Path) -> None:
    table = lw.create(tmp_path / "t.lance", pa.table({"id": [1, 2], "s": ["a", "b"]}))
    table.branches.create("exp").append(pa.table({"id": [3], "s": ["c"]}))
    tables: dict[str, Any] = {"t": table.uri}
    query = "SELECT x.s, (SELECT count(*) FROM t) AS n FROM t@exp x WHERE x.id > :least"
    found = sql(connected, query, tables=tables, args={"least": 2})
    lw.open(table.uri, branch="exp").append(pa.table({"id": [4], "s": ["d"]}))
    assert [tuple(each) for each in found.collect()] == [("c", 2)]
    with pytest.raises(InvalidInputError, match="`idd`"):
        sql(connected, "SELECT idd FROM t", tables=tables)


def test_statements_change_tables_over_connect(connected: Any, tmp_path: Path) -> None:
    rows = pa.table({"id": [1, 2, 3], "s": ["a", "b", "c"]})
    tables: dict[str, Any] = {"t": lw.create(tmp_path / "t.lance", rows).uri}
    script = """
        INSERT INTO t VALUES (4, 'd');
        UPDATE t SET s = upper(s) WHERE id * 2 = 4;
        MERGE INTO t USING (VALUES (1, 'x'), (9, 'n')) AS v(id, s) ON t.id = v.id
            WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *
            WHEN NOT MATCHED BY SOURCE AND t.id = 3 THEN DELETE
    """
    found = sql(connected, script, tables=tables).collect()
    assert [each[2:6] for each in found] == [(1, 0, 0, 2), (0, 1, 0, 3), (1, 1, 1, 4)]
    after = lw.open(tables["t"]).to_arrow().to_pylist()
    assert {each["id"]: each["s"] for each in after} == {1: "x", 2: "B", 4: "d", 9: "n"}
