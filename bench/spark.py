"""Spark over Lance tables through both doors, against Spark's own Parquet in the same session."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lancewood.spark as lws
from bench import OURS
from bench.measure import CpuClock, Samples, interleave_by, wall_clock
from bench.places import Places, scratch
from bench.result import LeastRatio, Most, Row, Section
from bench.scale import Scale
from bench.spark_jobs import Job, Twins, planning_jobs, reading_jobs, writing_jobs
from bench.tables import make_narrow, make_wide

PARQUET = "Parquet"
_FRAGMENTS = 8
_ROOT = Path(__file__).resolve().parent.parent
_FIRST_QUERY_MS = 2_700.0
_SESSION_SECONDS = 300


def run(scale: Scale, places: Places) -> Section:
    spark = lws.session("local[2]", conf={"spark.driver.memory": "6g"})
    try:
        rows = list(_measure(spark, scale, places))
    finally:
        spark.stop()
    rows += _first_queries(scale, places)
    return Section(
        name="spark",
        title="Spark, against its own Parquet",
        note=f"On {places.fast_name}; `local[2]`, one session for both. Narrow: {scale.rows:,} "
        "rows of int64, double, string and timestamp; wide: "
        f"{scale.wide_rows:,} rows of a number, a score, a label, 768 floats and 20 KB of noise; "
        f"{_FRAGMENTS} fragments or files (snappy). Frames are made once, unless a line says "
        "that it plans anew. A full scan and rows of a filter go into Spark's `noop` sink. CPU is "
        "that of Java and of all Python processes. Both sides write the rows of the Parquet files; "
        "Parquet gets a column by writing all anew. The first query is the sum of a column, in a "
        "process of its own, from the moment when the session is there.",
        against=PARQUET,
        rows=tuple(rows),
    )


def _measure(spark: Any, scale: Scale, places: Places) -> Iterator[Row]:
    for kind in ("narrow", "wide"):
        with scratch(places.fast) as here:
            twins, is_narrow = _make(spark, here, kind, scale), kind == "narrow"
            jobs = (
                *reading_jobs(twins, is_narrow=is_narrow),
                *(planning_jobs(twins) if is_narrow else ()),
                *writing_jobs(twins, here, is_narrow=is_narrow),
            )
            for job in jobs:
                yield from _race(kind, job, scale.spark_passes)


def _race(kind: str, job: Job, passes: int) -> Iterator[Row]:
    """A row by the wall, and one of processors."""
    contenders = {OURS: job.ours, PARQUET: job.parquet}
    clocks = (CpuClock(), wall_clock)
    cpu, wall = interleave_by(contenders, passes, clocks, times=job.times)
    for what, samples in ((job.work, wall), (f"{job.work}, CPU", cpu)):
        yield Row(
            work=f"{kind}: {what}",
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


@dataclass(frozen=True, slots=True)
class _First:
    """The first queries of sessions of one kind."""

    kind: str
    path: Path

    def ask(self) -> tuple[float, float]:
        """Milliseconds by the wall, and of processors."""
        order = (self.kind, str(self.path), "value")
        done = subprocess.run(
            (sys.executable, "-m", "bench.spark_first", *order),
            cwd=_ROOT,
            capture_output=True,
            text=True,
            timeout=_SESSION_SECONDS,
        )
        if done.returncode:
            raise RuntimeError(f"no first query of {self.kind}: {done.stderr[-2_000:]}")
        wall, cpu = json.loads(done.stdout.splitlines()[-1])
        return wall, cpu


def _first_queries(scale: Scale, places: Places) -> Iterator[Row]:
    """In turn as everywhere; the first of each is dropped."""
    with scratch(places.fast) as here:
        make_narrow(here / "t.lance", scale.rows // 10, _FRAGMENTS)
        spark = lws.session("local[2]")
        try:
            lws.read(spark, here / "t.lance").write.parquet(str(here / "t.parquet"))
        finally:
            spark.stop()
        asked = {OURS: _First("lance", here / "t.lance")}
        asked[PARQUET] = _First("parquet", here / "t.parquet")
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in asked}
        for number in range(scale.session_passes + 1):
            for name in asked if number % 2 else reversed(asked):
                found[name].append(asked[name].ask())
    wall, cpu = (_column(found, at) for at in range(2))
    work = "first query of a session"
    yield Row(
        work=work,
        unit="ms",
        ours=wall[OURS],
        pylance=wall[PARQUET],
        target=Most(_FIRST_QUERY_MS) if scale.is_budgeted else None,
    )
    yield Row(work=f"{work}, CPU", unit="ms", ours=cpu[OURS], pylance=cpu[PARQUET])


def _column(found: dict[str, list[tuple[float, float]]], at: int) -> dict[str, Samples]:
    return {name: tuple(each[at] for each in pairs[1:]) for name, pairs in found.items()}
