"""Diffs on a local Spark: the rows that ``Table.diff`` gives, and what pylance says."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.pylance import lance

import lancewood as lw
from lancewood.errors import InvalidInputError, NotFoundError, UnsupportedError

pytest.importorskip("pyspark", reason="pyspark is not installed")

from lancewood.spark import diff, explain_sql, sql
from lancewood.spark.reading import plan as cutting
from lancewood.spark.tasks import arrow_of

pytestmark = [
    pytest.mark.spark,
    pytest.mark.xdist_group("spark"),
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
]

COUNT = 3_000


def rows(numbers: Iterable[int]) -> pa.Table:
    listed = [*numbers]
    return pa.table(
        {
            "id": pa.array(listed, pa.int64()),
            "s": [None if each % 5 == 0 else f"text {each}" for each in listed],
            "u": pa.array(listed, pa.uint64()),
            "v": pa.array([[each, 0.5] for each in listed], pa.list_(pa.float32(), 2)),
        }
    )


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> lw.Table:
    """Version 1, one with rows updated, deleted and inserted, and one that was overwritten."""
    path = tmp_path_factory.mktemp("diff") / "t.lance"
    made = lw.create(
        path,
        rows(range(COUNT)),
        layout=lw.Layout(max_rows_per_file=700),
        access=lw.Access(fsync=False),
    )
    made = made.update({"s": "'new'"}, "id % 7 = 3").delete("id % 11 = 5")
    made = made.append(rows(range(COUNT, COUNT + 90))).update({"u": "u + 1"}, "id % 13 = 2")
    made.tags.create("changed")
    made.branches.create("exp").update({"s": "'exp'"}, "id < 5")
    return made.overwrite(
        rows([*range(500, COUNT + 200)][::-1]), layout=lw.Layout(max_rows_per_file=900)
    )


@pytest.fixture
def small_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few thousand bytes are worth a task, as megabytes are elsewhere."""
    monkeypatch.setattr(cutting, "LEAST", 10_000)
    monkeypatch.setattr("lancewood.spark.diffs.diff.OPENING", 1_000)


def plain(value: Any) -> Any:
    """A value as it is however it came: Spark has decimals for unsigned numbers."""
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items()}
    if isinstance(value, list):
        return [plain(each) for each in value]
    return int(value) if isinstance(value, Decimal) else value


def told(found: pa.Table) -> list[str]:
    return sorted(str(plain(each)) for each in found.to_pylist())


@pytest.mark.usefixtures("small_tasks")
@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"columns": ["u", "id"]},
        {"change": ["updated", "deleted"], "where": "id < 900 AND before.s IS NOT NULL"},
    ],
)
def test_rows_are_those_of_the_diff_here(spark: Any, table: lw.Table, asked: Any) -> None:
    frame = diff(spark, table.uri, 1, "changed", **asked)
    here = table.diff(1, "changed", **asked)
    assert frame.rdd.getNumPartitions() > 2
    assert told(arrow_of(frame)) == told(here.to_arrow())
    assert frame.count() > 0


def test_rows_are_what_pylance_says(spark: Any, table: lw.Table) -> None:
    old, new = (
        {row["id"]: row for row in lance.dataset(table.uri, version=each).to_table().to_pylist()}
        for each in (1, "changed")
    )
    found = {kind: dict[int, Any]() for kind in ("deleted", "inserted", "updated")}
    for each in arrow_of(diff(spark, table.uri, 1, "changed")).to_pylist():
        row = plain(each)
        found[row["_change"]][(row["after"] or row["before"])["id"]] = row
    assert found["deleted"].keys() == old.keys() - new.keys()
    assert found["inserted"].keys() == new.keys() - old.keys()
    differing = {each for each in old.keys() & new.keys() if old[each] != new[each]}
    assert found["updated"].keys() == differing
    for each, row in found["updated"].items():
        assert (row["before"], row["after"]) == (old[each], new[each])
        assert row["_columns"] == [name for name in old[each] if old[each][name] != new[each][name]]


@pytest.mark.usefixtures("small_tasks")
@pytest.mark.parametrize("most", [0, 1 << 20])
def test_many_keys_are_paired_by_spark_as_few_are_here(
    spark: Any, table: lw.Table, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lancewood.spark.diffs.diff.MOST_KEYS", most)
    found = arrow_of(diff(spark, table.uri, "changed", on="id"))
    assert told(found) == told(table.diff("changed", table.version, on="id").to_arrow())
    assert set(found["_change"].to_pylist()) == {"deleted", "inserted", "updated"}


def test_keys_with_a_null_equal_none_and_two_of_a_kind_are_an_error(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lancewood.spark.diffs.diff.MOST_KEYS", 0)
    data = {"a": [1, 1, None, 3], "b": ["x", "y", "x", None], "n": [1, 2, 3, 4]}
    table = lw.create(tmp_path / "t.lance", pa.table(data)).overwrite(
        pa.table({**data, "n": [1, 9, 3, 4]})
    )
    found = arrow_of(diff(spark, table.uri, 1, on=["a", "b"]))
    assert told(found) == told(table.diff(1, 2, on=["a", "b"]).to_arrow())
    assert sorted(found["_change"].to_pylist()) == ["deleted"] * 2 + ["inserted"] * 2 + ["updated"]
    with pytest.raises(Exception, match=r"two rows of version 1 of main .* have the key a = 1"):
        diff(spark, table.uri, 1, on="a").collect()


def test_the_uri_says_which_version_is_the_later_one(spark: Any, table: lw.Table) -> None:
    found = arrow_of(diff(spark, f"{table.uri}@exp", "changed"))
    assert told(found) == told(table.diff("changed", "exp").to_arrow())
    assert found.num_rows == 5
    assert diff(spark, table.uri, table.version).isEmpty()


def test_row_ids_are_longs_and_structs_have_the_types_of_a_read(
    spark: Any, table: lw.Table
) -> None:
    assert diff(spark, table.uri, 1).schema.simpleString() == (
        "struct<_change:string,_rowid:bigint,_columns:array<string>,"
        "before:struct<id:bigint,s:string,u:decimal(20,0),v:array<float>>,"
        "after:struct<id:bigint,s:string,u:decimal(20,0),v:array<float>>>"
    )


def test_what_is_wrong_is_said_before_a_task_runs(spark: Any, table: lw.Table) -> None:
    with pytest.raises(NotFoundError, match="'nope'"):
        diff(spark, table.uri, "nope")
    with pytest.raises(InvalidInputError, match="nope"):
        diff(spark, table.uri, 1, columns=["nope"])
    with pytest.raises(InvalidInputError, match="is no kind of change"):
        diff(spark, table.uri, 1, change="moved")
    with pytest.raises(InvalidInputError, match=r"two rows of .* have the key s = 'new'"):
        diff(spark, table.uri, "changed", on="s")
    memory = lw.create("memory://diff", rows(range(3))).delete("id = 1")
    with pytest.raises(UnsupportedError, match="in the memory of one process"):
        diff(spark, memory.uri, 1)


@pytest.mark.usefixtures("small_tasks")
def test_a_diff_stands_in_sql_as_in_process(spark: Any, table: lw.Table) -> None:
    lw.create(f"{table.uri}-kinds", pa.table({"kind": ["deleted", "updated"], "n": [1, 2]}))
    tables: dict[str, Any] = {"t": table.uri, "kinds": f"{table.uri}-kinds"}
    for query in (
        "SELECT k.n, d.after.s, before.u AS was, _columns FROM diff('t', 1, 'changed') d "
        "JOIN kinds k ON k.kind = d._change WHERE _change = 'updated' AND after.id < 100",
        "WITH d AS (SELECT * FROM diff('t', 'changed', on => 'id')) SELECT _change, count(*) AS n, "
        "max(after.id) AS m FROM d GROUP BY _change",
        "SELECT count(*) AS n FROM diff('t', 1) UNION ALL SELECT count(*) FROM t",
    ):
        found = arrow_of(sql(spark, query, tables=tables))
        assert told(found) == told(lw.sql(query, tables=tables).to_arrow()), query
        assert found.num_rows
    assert "from     version 1 of main" in explain_sql(
        spark, "SELECT after.id FROM diff('t', 1)", tables=tables
    )


def test_what_is_wrong_in_sql_is_said(spark: Any, table: lw.Table) -> None:
    spark.range(3).createOrReplaceTempView("three")
    for query, why in (
        ("SELECT * FROM diff('three', 'v1')", "is a table or view of the session"),
        ("SELECT after.nope, before.id FROM diff('t', 1)", "`nope`"),
        ("SELECT * FROM diff('t', version())", "neither a text in quotes nor"),
    ):
        with pytest.raises(InvalidInputError, match=why):
            sql(spark, query, tables={"t": table.uri})
