"""Many processes appending to one table: how many commits a second, and who waits how long."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import lance

from bench import OURS, PYLANCE
from bench.crew import Crew
from bench.places import Places, scratch
from bench.result import LeastRatio, Most, Row, Section
from bench.scale import Scale
from bench.tables import make_small

ROWS_PER_APPEND = 10


@dataclass(frozen=True, slots=True)
class Round:
    """What one round on a fresh table came to."""

    commits_per_second: float
    median_wait_ms: float
    longest_wait_ms: float
    errors: int
    rows_off: int
    """Acknowledged rows that are missing, and rows that are there twice."""


def run(scale: Scale, places: Places) -> Section:
    contenders = {
        "plain": (OURS, places.fast, False),
        PYLANCE: (PYLANCE, places.fast, False),
        "on disk": (OURS, places.disk, False),
        "synced": (OURS, places.disk, True),
        "pylance on disk": (PYLANCE, places.disk, False),
    }
    rounds: dict[str, list[Round]] = {name: [] for name in contenders}
    with Crew(scale.writers) as crew:
        for _ in range(scale.contention_rounds + 1):
            for name, (library, parent, fsync) in contenders.items():
                with scratch(parent) as here:
                    rounds[name].append(
                        _round(crew, library, here / "t.lance", scale.appends_per_writer, fsync)
                    )
    who = f"{scale.writers} processes"
    rows = (
        *_rows(who, rounds["plain"], rounds[PYLANCE], budgeted=True),
        *_rows(f"{who}, on disk", rounds["on disk"], rounds["pylance on disk"], budgeted=True),
        *_rows(f"{who}, ours with fsync", rounds["synced"], rounds["pylance on disk"]),
    )
    return Section(
        name="contention",
        title="Processes appending to one table",
        note=f"{scale.appends_per_writer} appends of {ROWS_PER_APPEND} rows each, all started "
        f"together, handles kept; on {places.fast_name} where not said otherwise, the lines with "
        "fsync on disk. Errors "
        "and rows are totals of all rounds, the first included.",
        rows=rows,
    )


def _round(crew: Crew, library: str, table: Path, appends: int, fsync: bool) -> Round:
    make_small(table)
    reports = crew.append(library, table, appends=appends, fsync=fsync)
    acknowledged = [first for report in reports for first in report.acknowledged]
    if not acknowledged:
        raise RuntimeError(f"{library}: not one append succeeded: {reports[0].errors[:1]}")
    waits = [wait for report in reports for wait in report.waits]
    seconds = max(each.ended for each in reports) - min(each.started for each in reports)
    return Round(
        commits_per_second=len(acknowledged) / seconds,
        median_wait_ms=statistics.median(waits) * 1_000,
        longest_wait_ms=max(waits) * 1_000,
        errors=sum(len(each.errors) for each in reports),
        rows_off=rows_off(table, acknowledged),
    )


def rows_off(
    table: Path | str, acknowledged: Sequence[int], options: dict[str, str] | None = None
) -> int:
    """Rows lost or doubled, as pylance reads the table: appends are named by their first id."""
    dataset = lance.dataset(table, storage_options=options)
    found = Counter(dataset.to_table(columns=["id"])["id"].to_pylist())
    wanted = {first + step for first in acknowledged for step in range(ROWS_PER_APPEND)}
    lost = sum(1 for each in wanted if not found[each])
    return lost + sum(count - 1 for count in found.values())


def _rows(
    who: str, ours: list[Round], pylance: list[Round], *, budgeted: bool = False
) -> tuple[Row, ...]:
    kept, theirs = ours[1:], pylance[1:]
    return (
        Row(
            work=f"{who}: commits",
            unit="/s",
            ours=tuple(each.commits_per_second for each in kept),
            pylance=tuple(each.commits_per_second for each in theirs),
            more_is_better=True,
            target=LeastRatio(3.0) if budgeted else None,
        ),
        Row(
            work=f"{who}: median wait",
            unit="ms",
            ours=tuple(each.median_wait_ms for each in kept),
            pylance=tuple(each.median_wait_ms for each in theirs),
        ),
        Row(
            work=f"{who}: longest wait",
            unit="ms",
            ours=tuple(each.longest_wait_ms for each in kept),
            pylance=tuple(each.longest_wait_ms for each in theirs),
            target=LeastRatio(5.0) if budgeted else None,
        ),
        Row(
            work=f"{who}: errors",
            unit="",
            ours=(sum(each.errors for each in ours),),
            pylance=(sum(each.errors for each in pylance),),
            target=Most(0),
        ),
        Row(
            work=f"{who}: rows lost or doubled",
            unit="",
            ours=(sum(each.rows_off for each in ours),),
            pylance=(sum(each.rows_off for each in pylance),),
            target=Most(0),
        ),
    )
