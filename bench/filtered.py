"""Filtered and one-column scans of narrow and of wide rows, in several fragments and in one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import lance

import lancewood as lw
from bench.places import Places, scratch
from bench.result import Row, Section
from bench.rows import Job, drain, measure
from bench.scale import Scale
from bench.tables import make_narrow, make_wide


def run(scale: Scale, places: Places) -> Section:
    narrow_rows = max(scale.rows // 5, 10)
    rows: list[Row] = []
    with scratch(places.fast) as here:
        for fragments in (10, 1):
            make_narrow(here / f"narrow-{fragments}", narrow_rows, fragments)
            rows += _measure(here / f"narrow-{fragments}", f"narrow, {fragments}", "value", scale)
    for fragments in (8, 1):
        with scratch(places.fast) as here:
            make_wide(here / "wide", scale.wide_rows, fragments)
            rows += _measure(here / "wide", f"wide, {fragments}", "score", scale)
    return Section(
        name="filtered",
        title="Filters, narrow and wide",
        note=f"On {places.fast_name}; {narrow_rows:,} narrow rows (as above) and "
        f"{scale.wide_rows:,} wide ones (a number, a score, a label, 768 floats, 20 KB of noise), "
        "each in several fragments and in one; handles kept, files warm. The filter is on a "
        "double that is spread evenly.",
        rows=tuple(rows),
    )


def _measure(table: Path, what: str, column: str, scale: Scale) -> Iterator[Row]:
    fragments = "fragment" if what.endswith(" 1") else "fragments"
    for job in _jobs(table, column):
        named = Job(f"{what} {fragments}: {job.work}", job.ours, job.pylance, job.budgeted)
        yield measure(named, scale.take_passes)


def _jobs(table: Path, column: str) -> tuple[Job, ...]:
    ours, theirs = lw.open(table, access=lw.Access(fsync=False)), lance.dataset(table)
    one, ten, none = (f"{column} < {share}" for share in ("0.01", "0.1", "0"))
    return (
        Job(
            "1 % of the rows into one table",
            lambda: ours.scan(where=one).to_arrow(),
            lambda: theirs.to_table(filter=one),
        ),
        Job(
            "10 % of the rows, batches drained",
            lambda: drain(ours.scan(where=ten).to_batches()),
            lambda: drain(theirs.to_batches(filter=ten)),
        ),
        Job(
            "a filter that no row passes",
            lambda: drain(ours.scan(where=none).to_batches()),
            lambda: drain(theirs.to_batches(filter=none)),
            budgeted=False,
        ),
        Job(
            "one column of 1 % of the rows",
            lambda: ours.scan(["id"], where=one).to_arrow(),
            lambda: theirs.to_table(columns=["id"], filter=one),
            budgeted=False,
        ),
        Job(
            "the first 10 rows that pass",
            lambda: ours.scan(where=one, limit=10).to_arrow(),
            lambda: theirs.to_table(filter=one, limit=10),
            budgeted=False,
        ),
        Job("count 1 % of the rows", lambda: ours.count_rows(one), lambda: theirs.count_rows(one)),
        Job(
            "one column (double) into one table",
            lambda: ours.scan([column]).to_arrow(),
            lambda: theirs.to_table(columns=[column]),
        ),
    )
