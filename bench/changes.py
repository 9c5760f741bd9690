"""Changing rows and columns: delete, update, upsert, add a column, compact."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import pyarrow.parquet as pq

import lancewood as lw
from bench import OURS, PYLANCE
from bench.change_contenders import ADD, COMPACT, DELETE, PARQUET, UPDATE, UPSERT
from bench.places import Places, scratch
from bench.result import LeastRatio, Row, Section
from bench.scale import Scale
from bench.tables import make_narrow

ROOT = Path(__file__).resolve().parent.parent
_SECONDS = 3_600
_IN_PLACE = (DELETE, UPDATE, UPSERT, ADD)
_Found: TypeAlias = dict[str, dict[str, list[dict[str, float]]]]
"""Change → contender → one measurement a pass."""


@dataclass(frozen=True, slots=True)
class Course:
    """Changes that are made one after the other on a fresh copy of a table."""

    table: Path
    rows: int
    where: str
    names: Sequence[str]


def run(scale: Scale, places: Places) -> Section:
    """Few large fragments, and a thousand small ones to be compacted."""
    found = _measure_large_and_small(scale, places, PYLANCE)
    return Section(
        name="changes",
        title="Changing rows and columns",
        note=f"On {places.fast_name}; {scale.rows:,} rows of int64, double, string and timestamp "
        f"in 10 fragments, one after the other on the same copy; to be compacted are "
        f"{scale.small_fragments:,} fragments. Both with stable row ids; a process each, memory is "
        "the growth of its peak. The changed rows are spread over all fragments; of the upserted "
        "ones half are new.",
        rows=tuple(_rows(found, PYLANCE, is_budgeted=True)),
    )


def run_against_parquet(scale: Scale, places: Places) -> Section:
    """The same against the way of a table of Parquet files: write every touched file anew."""
    found = _measure_large_and_small(scale, places, PARQUET)
    return Section(
        name="changes-parquet",
        title="Changing rows and columns, against rewriting Parquet",
        note="The same tables and changes; the other side reads each Parquet file with pyarrow, "
        "changes it in memory and writes it anew.",
        against=PARQUET,
        rows=tuple(_rows(found, PARQUET, is_budgeted=False)),
    )


def run_on_many_fragments(scale: Scale, places: Places) -> Section:
    """As many rows in very many fragments."""
    rows = scale.many_fragments * _ROWS_OF_MANY
    with scratch(places.fast) as here:
        table = here / "many.lance"
        make_narrow(table, rows, scale.many_fragments, stable_row_ids=True)
        found = _measure(
            (Course(table, rows, "together", (*_IN_PLACE, COMPACT)),), (OURS, PYLANCE), passes=1
        )
    return Section(
        name="changes-fragments",
        title=f"The same on {scale.many_fragments:,} fragments",
        note=f"{rows:,} rows, {_ROWS_OF_MANY} in a fragment; the changed rows are neighbours. One "
        "pass, all changes one after the other.",
        rows=tuple(_rows(found, PYLANCE, is_budgeted=False)),
    )


_ROWS_OF_MANY = 100


def _measure_large_and_small(scale: Scale, places: Places, against: str) -> _Found:
    with scratch(places.fast) as here:
        large, small = here / "large.lance", here / "small.lance"
        make_narrow(large, scale.rows, stable_row_ids=True)
        make_narrow(small, scale.rows, scale.small_fragments, stable_row_ids=True)
        return _measure(
            (
                Course(large, scale.rows, "spread", _IN_PLACE),
                Course(small, scale.rows, "spread", (COMPACT,)),
            ),
            (OURS, against),
            scale.change_passes,
        )


def _measure(courses: Sequence[Course], contenders: Sequence[str], passes: int) -> _Found:
    found: _Found = {}
    for number in range(passes):
        for course in courses:
            for contender in contenders if number % 2 else reversed(contenders):
                for name, each in zip(course.names, _one(course, contender), strict=True):
                    found.setdefault(name, {}).setdefault(contender, []).append(each)
    return found


def _one(course: Course, contender: str) -> Sequence[dict[str, float]]:
    """What a process found that did the changes on a copy of its own."""
    copy = course.table.with_name(f"{course.table.name}-{contender}")
    small, small_copy = course.table.with_name("warm.lance"), copy.with_name("warm-copy")
    if not small.exists():
        make_narrow(small, 1_000, 2, stable_row_ids=True)
    for original, target in ((course.table, copy), (small, small_copy)):
        if contender == PARQUET:
            _as_parquet(original, target)
        else:
            shutil.copytree(original, target, copy_function=os.link)
    try:
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "bench.change_worker",
                contender,
                str(copy),
                str(small_copy),
                str(course.rows),
                course.where,
                *course.names,
            ],
            cwd=ROOT,
            check=True,
            stdout=subprocess.PIPE,
            text=True,
            timeout=_SECONDS,
        )
    finally:
        shutil.rmtree(copy)
        shutil.rmtree(small_copy)
    measured: Sequence[dict[str, float]] = json.loads(done.stdout)
    return measured


def _as_parquet(table: Path, target: Path) -> None:
    """The same rows, a Parquet file for each fragment."""
    opened = lw.open(table)
    (target / "0").mkdir(parents=True)
    for each in opened.fragments:
        rows = opened.scan(fragment_ids=[each.id]).to_arrow()
        pq.write_table(rows, target / "0" / f"{each.id:06}.parquet")


def _rows(found: _Found, against: str, *, is_budgeted: bool) -> list[Row]:
    rows = []
    for name, by_contender in found.items():
        for what, unit, divisor in (
            ("milliseconds", "ms", 1.0),
            ("bytes", "MB", 1e6),
            ("memory", "MB", 1e6),
        ):
            samples: Mapping[str, tuple[float, ...]] = {
                contender: tuple(each[what] / divisor for each in measured)
                for contender, measured in by_contender.items()
            }
            is_time = what == "milliseconds"
            rows.append(
                Row(
                    work=f"{name}: {_LABELS[what]}",
                    unit=unit,
                    ours=samples[OURS],
                    pylance=samples[against],
                    target=LeastRatio(1.0) if is_time and is_budgeted else None,
                )
            )
    return rows


_LABELS = {"milliseconds": "time", "bytes": "written", "memory": "peak memory"}
