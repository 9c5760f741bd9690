"""Merging a branch by rows, against a three-way join that writes the whole table anew, in DuckDB or
on Spark.

That is what one does without a merge: read what both sides come from and both sides, join the three
by key, choose each cell from the side that changed it, and write everything. DuckDB reads them
through pylance, Spark through ``lancewood.spark.read``; both write Parquet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import duckdb
import lance
import numpy as np
import pyarrow as pa

import lancewood as lw
import lancewood.spark as lws
from bench import OURS
from bench.measure import Samples, interleave
from bench.places import Places, scratch
from bench.result import LeastRatio, Most, Row, Section
from bench.scale import Scale
from bench.tables import make_narrow

DUCKDB, JOIN = "DuckDB", "Spark's join"
_PASSES = 3
_WIDE = 3_072
_BRANCH = "exp"
_NAMES = ("value", "name", "moment")
_CELL = """
    CASE WHEN theirs.{0} IS DISTINCT FROM base.{0} THEN theirs.{0} ELSE ours.{0} END AS {0}
"""
_JOIN = f"""
    SELECT coalesce(ours.id, theirs.id) AS id, {", ".join(map(_CELL.format, _NAMES))}
    FROM base FULL OUTER JOIN ours ON base.id = ours.id
         FULL OUTER JOIN theirs ON coalesce(base.id, ours.id) = theirs.id
    WHERE base.id IS NULL OR (ours.id IS NOT NULL AND theirs.id IS NOT NULL)
"""
"""A row that one side deleted goes; there are no conflicts."""
_TABLE_NOTE = (
    "rows of int64, double, string and timestamp in 10 fragments. On each side 0.8 % are updated, "
    "0.1 % deleted and 0.1 % inserted, scattered over the table; 1 % of the updated ones on both "
    "sides, in different columns."
)


def run(scale: Scale, places: Places) -> Section:
    with scratch(places.fast) as here:
        table = here / "t.lance"
        make_narrow(table, scale.rows, stable_row_ids=True)
        made = _Diverged(table, scale.rows)
        joined = here / "joined.parquet"
        made.check(lambda: made.join(joined), joined)
        rows = [*made.measured(DUCKDB, made.merge, lambda: made.join(joined), joined)]
        rows.append(made.compacted(scale.rows))
        rows.append(_narrow(here / "wide.lance", scale.wide_rows // 2))
    return Section(
        name="merging",
        title="Merging a branch",
        note=f"On {places.fast_name}; {scale.rows:,} {_TABLE_NOTE} DuckDB joins what both come "
        "from and both sides by key, and writes the result as Parquet.",
        against=DUCKDB,
        rows=tuple(rows),
    )


def run_on_spark(scale: Scale, places: Places) -> Section:
    spark = lws.session("local[2]", conf={"spark.driver.memory": "6g"})
    try:
        with scratch(places.fast) as here:
            table = here / "t.lance"
            make_narrow(table, scale.rows, stable_row_ids=True)
            made = _Diverged(table, scale.rows)
            joined = here / "joined.parquet"
            rows = made.measured(
                JOIN,
                lambda: made.merge(runner=lws.SparkRunner(spark)),
                lambda: made.join_on_spark(spark, joined),
                joined,
            )
            found = tuple(rows)
    finally:
        spark.stop()
    return Section(
        name="merging-spark",
        title="Merging a branch, on Spark",
        note=f"On {places.fast_name}; `local[2]`; {scale.rows:,} {_TABLE_NOTE} Spark joins what "
        "both come from and both sides by key, and writes the result as Parquet.",
        against=JOIN,
        rows=found,
    )


class _Diverged:
    """A table whose main and branch both changed, and every way to put them together."""

    def __init__(self, table: Path, rows: int) -> None:
        self._table = table
        main = lw.open(table, access=lw.Access(fsync=False))
        both = f"id % {100 * 125} = 3"
        _change(main.branches.create(_BRANCH), rows, {"value": "value + 1"}, "id % 125 = 3", 7)
        _change(main, 2 * rows, {"name": "'x'"}, f"id % 125 = 4 OR {both}", 8)
        self._files = set(self._now())

    def measured(
        self,
        against: str,
        merge: Callable[[], object],
        join: Callable[[], object],
        joined: Path,
    ) -> Iterator[Row]:
        found = interleave({OURS: merge, against: join}, _PASSES, before={OURS: self.restore})
        yield _row("merge, 1 % changed on each side", "ms", found, against, 20.0)
        self.restore()
        merge()
        written = sum(size for name, size in self._now().items() if name not in self._files)
        parquet = [joined] if joined.is_file() else joined.rglob("*.parquet")
        sizes = {OURS: (written / 1e6,), against: (sum(_size(each) for each in parquet) / 1e6,)}
        yield _row("merge, what is written", "MB", sizes, against, 50.0)

    def compacted(self, rows: int) -> Row:
        """A branch on which no row changed, but all of them moved."""
        self.restore()
        name = "compacted"
        lw.open(self._table, access=lw.Access(fsync=False)).branches.create(name).compact(
            target_rows=rows // 2
        )
        self._files = set(self._now())
        found = interleave({OURS: lambda: self.merge(name)}, _PASSES, before={OURS: self.restore})
        return Row(
            work="merge of a branch that only compacted",
            unit="ms",
            ours=found[OURS],
            target=Most(1_000.0),
        )

    def check(self, join: Callable[[], object], joined: Path) -> None:
        """Raise RuntimeError if both do not come to the same rows."""
        join()
        self.merge()
        sums = "count(*), sum(id), sum(value), count(DISTINCT name)"
        with duckdb.connect() as connection:
            connection.register("merged", lance.dataset(str(self._table)))
            (ours,) = connection.sql(f"SELECT {sums} FROM merged").fetchall()
            (theirs,) = connection.sql(f"SELECT {sums} FROM '{joined}'").fetchall()
        if any(abs(a - b) > 1e-6 * abs(a) for a, b in zip(ours, theirs, strict=True)):
            raise RuntimeError(f"merged {ours}, joined {theirs}")
        self.restore()

    def merge(self, name: str = _BRANCH, **how: Any) -> object:
        return lw.open(self._table, access=lw.Access(fsync=False)).branches.merge(name, **how)

    def restore(self) -> None:
        """Take a merge back as if it had never been."""
        for each in self._now().keys() - self._files:
            (self._table / each).unlink()

    def join(self, target: Path) -> None:
        main: Any = lance.dataset(str(self._table))
        with duckdb.connect() as connection:
            connection.register("base", main.checkout_version(1))
            connection.register("ours", main)
            connection.register("theirs", main.checkout_version((_BRANCH, None)))
            connection.execute(f"COPY ({_JOIN}) TO '{target}' (FORMAT parquet)")

    def join_on_spark(self, spark: Any, target: Path) -> None:
        sides: dict[str, dict[str, Any]] = {
            "base": {"version": 1},
            "ours": {},
            "theirs": {"branch": _BRANCH},
        }
        for name, asked in sides.items():
            lws.read(spark, self._table, **asked).createOrReplaceTempView(name)
        spark.sql(_JOIN).write.mode("overwrite").parquet(str(target))

    def _now(self) -> dict[str, int]:
        files = (each for each in self._table.rglob("*") if each.is_file())
        return {str(each.relative_to(self._table)): _size(each) for each in files}


def _narrow(path: Path, count: int) -> Row:
    """Conflicts where both sides wrote one narrow column of wide rows anew: none, and the wide
    column is not read to tell."""
    vectors = np.random.default_rng(0).random((count, _WIDE), dtype=np.float32)
    wide = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), _WIDE)
    rows = pa.table({"id": range(count), "label": ["-"] * count, "v": wide})
    main = lw.create(path, rows, access=lw.Access(fsync=False))
    exp = main.branches.create(_BRANCH)
    exp.update({"label": "'theirs'"}, "id % 100 = 7", rewrite="columns")
    main = main.update({"label": "'ours'"}, "id % 100 = 11", rewrite="columns")
    found = interleave({OURS: main.branches.conflicts(_BRANCH).count}, _PASSES)
    return Row(
        work=f"conflicts, both wrote a narrow column of {count:,} rows of {_WIDE} floats",
        unit="ms",
        ours=found[OURS],
        target=Most(1_000.0),
    )


def _size(path: Path) -> int:
    return path.stat().st_size


def _row(work: str, unit: str, found: Mapping[str, Samples], against: str, least: float) -> Row:
    return Row(
        work=work,
        unit=unit,
        ours=found[OURS],
        pylance=found[against],
        target=LeastRatio(least),
    )


def _change(
    table: lw.Table, first: int, values: Mapping[str, str], where: str, left: int
) -> lw.Table:
    more = table.count_rows() // 1_000
    fresh = table.take(range(more)).set_column(0, "id", pa.array(range(first, first + more)))
    return table.update(values, where).delete(f"id % 1000 = {left}").append(fresh)
