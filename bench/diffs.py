"""Which rows differ between two versions, against a full outer join of both in DuckDB, or on Spark.

That is what one does without a diff: read both versions, join them by key, compare all columns.
DuckDB reads them through pylance, Spark through ``lancewood.spark.read``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import duckdb
import lance
import pyarrow as pa

import lancewood as lw
import lancewood.spark as lws
from bench import OURS
from bench.contenders import ten_rows
from bench.measure import Samples, interleave
from bench.places import Places, scratch
from bench.result import LeastRatio, Most, Row, Section
from bench.scale import Scale
from bench.tables import make_fragments, make_narrow

DUCKDB, JOIN = "DuckDB", "Spark's join"
_CHANGED = """
    SELECT {columns} FROM earlier FULL OUTER JOIN later USING (id)
    WHERE earlier.value IS DISTINCT FROM later.value OR earlier.name IS DISTINCT FROM later.name
       OR earlier.moment IS DISTINCT FROM later.moment
"""
_PASSES = 3
_TABLE_NOTE = (
    "rows of int64, double, string and timestamp in 10 fragments; 0.8 % updated, 0.1 % deleted and "
    "0.1 % inserted, scattered over the table, or 1 % updated in one place."
)


def run(scale: Scale, places: Places) -> Section:
    rows: list[Row] = []
    with scratch(places.fast) as here:
        scattered = _Pair(here / "scattered.lance", scale.rows, _scatter)
        rows += [
            _row("counts, no value read", scattered.measured(_counts, "count(*)"), 40.0),
            _row("counts of rows and cells", scattered.measured(lw.Diff.stat, "count(*)"), None),
            _row("rows, 1 % changed, scattered", scattered.measured(lw.Diff.to_arrow, "*"), 20.0),
        ]
        together = _Pair(here / "together.lance", scale.rows, _change_neighbours)
        found = together.measured(lw.Diff.to_arrow, "*")
        rows.append(_row("rows, 1 % changed, neighbours", found, 100.0))
        rows.append(_across_branches(here / "branches.lance", scale.fragments[-1]))
    return Section(
        name="diffs",
        title="Rows that differ",
        note=f"On {places.fast_name}; {scale.rows:,} {_TABLE_NOTE} DuckDB joins both versions by "
        "key and compares the other columns.",
        against=DUCKDB,
        rows=tuple(rows),
    )


def run_on_spark(scale: Scale, places: Places) -> Section:
    spark = lws.session("local[2]", conf={"spark.driver.memory": "6g"})
    rows: list[Row] = []
    try:
        with scratch(places.fast) as here:
            scattered = _Pair(here / "scattered.lance", scale.rows, _scatter)
            rows.append(_row_on_spark("rows, 1 % changed, scattered", scattered.on_spark(spark)))
            together = _Pair(here / "together.lance", scale.rows, _change_neighbours)
            rows.append(_row_on_spark("rows, 1 % changed, neighbours", together.on_spark(spark)))
            anew = _Pair(here / "anew.lance", scale.rows, _overwrite)
            found = anew.on_spark(spark, on="id")
            rows.append(_row_on_spark("rows, all written anew, paired by key", found))
    finally:
        spark.stop()
    return Section(
        name="diffs-spark",
        title="Rows that differ, on Spark",
        note=f"On {places.fast_name}; `local[2]`; {scale.rows:,} {_TABLE_NOTE} Written anew is an "
        "overwrite in which 1 % differ. Spark joins both versions by key and compares the other "
        "columns. Rows go nowhere.",
        against=JOIN,
        rows=tuple(rows),
    )


class _Pair:
    """Two versions of a table, and both ways to compare them."""

    def __init__(self, table: Path, rows: int, change: Callable[[lw.Table, int], lw.Table]) -> None:
        make_narrow(table, rows, stable_row_ids=True)
        self._table = table
        self._versions = 1, change(lw.open(table, access=lw.Access(fsync=False)), rows).version

    def measured(self, ask: Callable[[lw.Diff], object], columns: str) -> dict[str, Samples]:
        return interleave(
            {
                OURS: lambda: ask(lw.open(self._table).diff(*self._versions)),
                DUCKDB: lambda: self._join(columns),
            },
            _PASSES,
        )

    def on_spark(self, spark: Any, **asked: Any) -> dict[str, Samples]:
        return interleave(
            {
                OURS: lambda: _drained(lws.diff(spark, self._table, *self._versions, **asked)),
                JOIN: lambda: _drained(self._join_on_spark(spark)),
            },
            _PASSES,
        )

    def _join_on_spark(self, spark: Any) -> Any:
        one, other = (lws.read(spark, self._table, version=each) for each in self._versions)
        names = [each for each in one.columns if each != "id"]
        changed = " or ".join(f"not (one.{each} <=> other.{each})" for each in names)
        return one.alias("one").join(other.alias("other"), "id", "full").where(changed)

    def _join(self, columns: str) -> pa.Table:
        earlier, later = (lance.dataset(str(self._table), version=each) for each in self._versions)
        with duckdb.connect() as connection:
            connection.register("earlier", earlier)
            connection.register("later", later)
            return connection.sql(_CHANGED.format(columns=columns)).to_arrow_table()


def _counts(found: lw.Diff) -> object:
    return found.counts


def _drained(frame: Any) -> None:
    frame.write.format("noop").mode("overwrite").save()


def _row_on_spark(work: str, found: Mapping[str, Samples]) -> Row:
    return Row(work=work, unit="ms", ours=found[OURS], pylance=found[JOIN])


def _row(work: str, found: Mapping[str, Samples], least: float | None) -> Row:
    target = None if least is None else LeastRatio(least)
    return Row(work=work, unit="ms", ours=found[OURS], pylance=found[DUCKDB], target=target)


def _scatter(table: lw.Table, rows: int) -> lw.Table:
    more = rows // 1_000
    fresh = table.take(range(more)).set_column(0, "id", pa.array(range(rows, rows + more)))
    changed = table.update({"value": "value + 1"}, "id % 125 = 3").delete("id % 1000 = 7")
    return changed.append(fresh)


def _change_neighbours(table: lw.Table, rows: int) -> lw.Table:
    where = f"id >= {rows // 2} AND id < {rows // 2 + rows // 100}"
    return table.update({"value": "value + 1"}, where)


def _overwrite(table: lw.Table, rows: int) -> lw.Table:
    value = "CASE WHEN id % 100 = 3 THEN value + 1 ELSE value END"
    names = {each: each for each in ("id", "value", "name", "moment")}
    changed = table.scan(columns={**names, "value": value})
    return table.overwrite(changed)


def _across_branches(table: Path, fragments: int) -> Row:
    """Ten fragments of very many differ between main and a branch."""
    make_fragments(table, fragments, stable_row_ids=True)
    main = lw.open(table, access=lw.Access(fsync=False))
    main.branches.create("exp")
    for _ in range(5):
        lw.open(table, branch="exp", access=lw.Access(fsync=False)).append(ten_rows())
        main = main.append(ten_rows())
    found = interleave({OURS: lambda: lw.open(table).diff("exp").stat()}, _PASSES)
    return Row(
        work=f"{fragments:,} fragments, 10 differ between two branches",
        unit="ms",
        ours=found[OURS],
        target=Most(300.0),
    )
