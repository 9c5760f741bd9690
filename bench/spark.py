"""Spark over Lance tables through both doors, against Spark's own Parquet in the same session."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lancewood.spark as lws
from bench import OURS
from bench.measure import interleave
from bench.places import Places, scratch
from bench.result import LeastRatio, Row, Section
from bench.scale import Scale
from bench.tables import make_narrow, make_wide

PARQUET = "Parquet"
_FRAGMENTS = 8
_FILES = 4


@dataclass(frozen=True, slots=True)
class Twins:
    """The same rows as a Lance table and as Parquet files."""

    spark: Any
    table: Path
    parquet: Path
    number: str
    """A column of numbers between 0 and 1."""
    text: str

    def read_parquet(self) -> Any:
        return self.spark.read.parquet(str(self.parquet))

    def read(self, **request: Any) -> Any:
        return lws.read(self.spark, str(self.table), **request)


@dataclass(frozen=True, slots=True)
class Job:
    """The same work on both."""

    work: str
    ours: Callable[[], object]
    parquet: Callable[[], object]
    least: float | None = None


def run(scale: Scale, places: Places) -> Section:
    spark = lws.session("local[2]", conf={"spark.driver.memory": "6g"})
    try:
        rows = tuple(_measure(spark, scale, places))
    finally:
        spark.stop()
    return Section(
        name="spark",
        title="Spark, against its own Parquet",
        note=f"On {places.fast_name}; `local[2]`, one session for both. Narrow: {scale.rows:,} "
        "rows of int64, double, string and timestamp; wide: "
        f"{scale.wide_rows:,} rows of a number, a score, a label, 768 floats and 20 KB of noise; "
        f"{_FRAGMENTS} fragments or files (snappy). A full scan goes into Spark's `noop` sink. "
        "Both sides write the rows of the Parquet files; Parquet gets a column by writing all "
        "anew.",
        against=PARQUET,
        rows=rows,
    )


def _measure(spark: Any, scale: Scale, places: Places) -> Iterator[Row]:
    for kind in ("narrow", "wide"):
        with scratch(places.fast) as here:
            twins = _make(spark, here, kind, scale)
            for job in _jobs(twins, here, is_narrow=kind == "narrow"):
                samples = interleave({OURS: job.ours, PARQUET: job.parquet}, scale.spark_passes)
                yield Row(
                    work=f"{kind}: {job.work}",
                    unit="ms",
                    ours=samples[OURS],
                    pylance=samples[PARQUET],
                    target=None if job.least is None else LeastRatio(job.least),
                )


def _make(spark: Any, here: Path, kind: str, scale: Scale) -> Twins:
    table, parquet = here / f"{kind}.lance", here / f"{kind}.parquet"
    if kind == "narrow":
        make_narrow(table, scale.rows, _FRAGMENTS)
        twins = Twins(spark, table, parquet, "value", "name")
    else:
        make_wide(table, scale.wide_rows, _FRAGMENTS)
        twins = Twins(spark, table, parquet, "score", "label")
    twins.read().repartition(_FRAGMENTS).write.parquet(str(parquet))
    return twins


def _jobs(twins: Twins, here: Path, *, is_narrow: bool) -> tuple[Job, ...]:
    number, text, uri = twins.number, twins.text, str(twins.table)
    few = f"{number} < 0.01"
    out, backfilled = here / "out", here / "backfilled.lance"
    fast, familiar = twins.read(), twins.spark.read.format("lance").load(uri)
    parquet = twins.read_parquet()
    return (
        Job(
            "full scan",
            lambda: _drain(fast),
            lambda: _drain(parquet),
            1.0 if is_narrow else 2.0,
        ),
        Job(
            'full scan, `format("lance")`',
            lambda: _drain(familiar),
            lambda: _drain(parquet),
            0.7 if is_narrow else None,
        ),
        Job(
            "sum of one column",
            lambda: twins.read(columns=[number]).groupBy().sum(number).collect(),
            lambda: parquet.groupBy().sum(number).collect(),
        ),
        Job(
            "one column of 1 % of the rows",
            lambda: _drain(twins.read(columns=[text], where=few)),
            lambda: _drain(parquet.where(few).select(text)),
        ),
        Job(
            "count",
            lambda: lws.count(twins.spark, uri),
            lambda: parquet.count(),
        ),
        Job(
            "write",
            lambda: _write(parquet, out / "lance"),
            lambda: _write_parquet(parquet, out / "parquet"),
            0.75 if is_narrow else 1.3,
        ),
        Job(
            "add a column",
            lambda: _add_column(twins, backfilled),
            lambda: _write_parquet(
                parquet.selectExpr("*", f"{number} * 2 AS doubled"), out / "parquet"
            ),
        ),
    )


def _drain(frame: Any) -> None:
    frame.write.format("noop").mode("overwrite").save()


def _write(frame: Any, target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    lws.write(frame, str(target), mode="error")


def _write_parquet(frame: Any, target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    frame.write.parquet(str(target))


def _add_column(twins: Twins, copy: Path) -> None:
    """On a copy of hard links, for a table gets a column once."""
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(twins.table, copy, copy_function=lambda one, two: Path(two).hardlink_to(one))
    lws.add_columns(twins.spark, str(copy), {"doubled": f"{twins.number} * 2"})
