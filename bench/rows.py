"""Reading narrow rows: full, one-column and filtered scans, and single rows taken at random."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa

import lancewood as lw
from bench import OURS, PYLANCE
from bench.measure import interleave
from bench.places import Places, scratch
from bench.result import LeastRatio, Row, Section
from bench.scale import Scale
from bench.tables import make_narrow

FILTER = "value < 0.01"
TAKEN = 1_000


@dataclass(frozen=True, slots=True)
class Job:
    """The same work through both libraries."""

    work: str
    ours: Callable[[], Any]
    pylance: Callable[[], Any]
    budgeted: bool = True


def run(scale: Scale, places: Places) -> Section:
    with scratch(places.fast) as here:
        table = here / "narrow.lance"
        make_narrow(table, scale.rows)
        rows = tuple(_measure(table, scale))
    return Section(
        name="rows",
        title="Scan and take",
        note=f"On {places.fast_name}; {scale.rows:,} rows of int64, double, string and timestamp "
        f"in 10 fragments, handles kept, files warm. The filter is `{FILTER}`; the {TAKEN:,} "
        "random positions are new in every pass and the same for both.",
        rows=rows,
    )


def _measure(table: Path, scale: Scale) -> Iterator[Row]:
    for jobs, passes in (
        (_scans(table), scale.scan_passes),
        (_takes(table, scale.rows), scale.take_passes),
    ):
        for job in jobs:
            yield measure(job, passes)


def measure(job: Job, passes: int) -> Row:
    """Both sides of a job, after a look at whether they do the same."""
    check_same(job.work, job.ours(), job.pylance())
    found = interleave({OURS: job.ours, PYLANCE: job.pylance}, passes)
    return Row(
        work=job.work,
        unit="ms",
        ours=found[OURS],
        pylance=found[PYLANCE],
        target=LeastRatio(1.0) if job.budgeted else None,
    )


def _scans(table: Path) -> tuple[Job, ...]:
    ours, theirs = lw.open(table, access=lw.Access(fsync=False)), lance.dataset(table)
    return (
        Job(
            "full scan, batches drained",
            lambda: drain(ours.scan().to_batches()),
            lambda: drain(theirs.to_batches()),
        ),
        Job("full scan into one table", lambda: ours.scan().to_arrow(), lambda: theirs.to_table()),
        Job(
            "one column (double), batches drained",
            lambda: drain(ours.scan(["value"]).to_batches()),
            lambda: drain(theirs.to_batches(columns=["value"])),
        ),
        Job(
            "one column (string) into one table",
            lambda: ours.scan(["name"]).to_arrow(),
            lambda: theirs.to_table(columns=["name"]),
        ),
        Job(
            "filtered scan into one table, 1 % of the rows",
            lambda: ours.scan(where=FILTER).to_arrow(),
            lambda: theirs.to_table(filter=FILTER),
        ),
    )


def _takes(table: Path, rows: int) -> tuple[Job, ...]:
    ours, theirs = lw.open(table, access=lw.Access(fsync=False)), lance.dataset(table)
    return (
        Job(
            f"take {TAKEN:,} random rows",
            _with_positions(rows, lambda each: ours.take(each)),
            _with_positions(rows, lambda each: theirs.take(each)),
        ),
        Job(
            f"open and take {TAKEN:,} random rows",
            _with_positions(
                rows, lambda each: lw.open(table, access=lw.Access(fsync=False)).take(each)
            ),
            _with_positions(rows, lambda each: lance.dataset(table).take(each)),
            budgeted=False,
        ),
    )


def _with_positions(rows: int, take: Callable[[list[int]], pa.Table]) -> Callable[[], pa.Table]:
    """The same call with new random positions each time; the n-th call always has the same."""
    generator = np.random.default_rng(7)
    return lambda: take(generator.integers(0, rows, TAKEN).tolist())


def drain(batches: Iterable[pa.RecordBatch]) -> int:
    """How many rows went by."""
    return sum(batch.num_rows for batch in batches)


def check_same(work: str, ours: Any, pylance: Any) -> None:
    """Both must have done the same work, or their times mean nothing."""
    same = ours.equals(pylance) if isinstance(ours, pa.Table) else ours == pylance
    if not same:
        raise RuntimeError(f"{work}: ours and pylance's results differ")
