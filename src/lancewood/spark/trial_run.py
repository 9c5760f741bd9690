"""A session that is started only to see whether it works. Run as a process: a trial comes in on
stdin, its report goes out on stdout, both as JSON.

Knows what is tried. What the answers mean is said in ``doctor``.
"""

from __future__ import annotations

import json
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pyarrow as pa

from lancewood.errors import UnsupportedError
from lancewood.spark.abilities import SOURCES, release_of
from lancewood.spark.columnar import why_closed
from lancewood.spark.doctor import Trial, installed, installed_pyspark
from lancewood.spark.reading.read import read
from lancewood.spark.session import session
from lancewood.spark.tasks import slots, spread
from lancewood.spark.write_frame import write
from lancewood.table.by_uri import drop, exists

ROWS = 1000
_COMPARED = ("pyarrow", "pylance", "pandas")


def attempt(trial: Trial) -> dict[str, Any]:
    """The report of a trial, in a session of its own."""
    begun = time.monotonic()
    spark = session(trial.master, app_name="lancewood doctor", conf=trial.conf)
    started = time.monotonic() - begun
    try:
        seen = (
            spread(spark, [b""] * (2 * slots(spark)))
            .mapInArrow(_versions_here, "seen string")
            .collect()
        )
        workers = [json.loads(each) for each in sorted({row.seen for row in seen})]
        return {
            "spark": spark.version,
            "seconds": round(started, 1),
            "closed": why_closed(spark),
            "driver": _versions(),
            "workers": workers,
            "table": _try_table(spark, trial),
        }
    finally:
        spark.stop()


def _try_table(spark: Any, trial: Trial) -> str | None:
    location, temporary = trial.location, None
    if location is None and trial.master.startswith("local"):
        location = temporary = tempfile.mkdtemp(prefix="lancewood-doctor-")
    if location is None:
        return None
    uri = f"{location.rstrip('/')}/lancewood-doctor-{uuid4().hex}.lance"
    try:
        frame = spark.range(ROWS).selectExpr("id", "id % 7 AS week_day")
        try:
            write(frame, uri, mode="error")
            fast = read(spark, uri, where="id >= 10").count()
            has_source = SOURCES.is_in(release_of(spark))
            familiar = spark.read.format("lance").load(uri).count() if has_source else ROWS
        finally:
            if exists(uri):
                drop(uri)
    finally:
        if temporary is not None:
            shutil.rmtree(temporary, ignore_errors=True)
    if (fast, familiar) != (ROWS - 10, ROWS):
        raise UnsupportedError(
            f"{ROWS} rows were written to {uri}, but {fast + 10} and {familiar} were read back"
        )
    doors = "read() and by format('lance')" if has_source else "read()"
    return f"{ROWS} rows written and read back, by {doors}"


def _versions_here(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """On an executor: what this Python is."""
    for _ in batches:
        pass
    seen = {**_versions(), "executable": sys.executable, "host": platform.node()}
    yield pa.record_batch({"seen": pa.array([json.dumps(seen)], pa.string())})


def _versions() -> dict[str, str]:
    """What must be the same everywhere; of Python, the release that pickles and wheels are for."""
    found = {"lancewood": installed("lancewood"), "pyspark": installed_pyspark()}
    found |= {each: installed(each) for each in _COMPARED}
    python = ".".join(platform.python_version_tuple()[:2])
    return {"python": python, **{name: each or "missing" for name, each in found.items()}}


def main() -> None:
    """Read a trial from stdin, write its report to stdout."""
    try:
        report = attempt(Trial(**json.load(sys.stdin)))
    except Exception as error:
        report = {"error": f"{type(error).__name__}: {error}"}
    print(json.dumps(report))


if __name__ == "__main__":
    main()
