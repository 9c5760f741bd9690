"""What Spark is asked to do with a Lance table and with the same rows as Parquet files.

Frames are made once, and a job only uses them; where a job plans anew, its name says so. Measures
nothing.
"""

from __future__ import annotations

import contextlib
import io
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import lancewood.spark as lws

_SOME = 5
"""A job of milliseconds is done so many times in a sample."""


@dataclass(frozen=True)
class Twins:
    """The same rows as a Lance table and as Parquet files."""

    spark: Any
    table: Path
    parquet: Path
    number: str
    """A column of numbers between 0 and 1."""
    text: str

    def read(self) -> Any:
        return lws.read(self.spark, str(self.table))

    def load(self) -> Any:
        return self.spark.read.format("lance").load(str(self.table))

    def read_parquet(self) -> Any:
        return self.spark.read.parquet(str(self.parquet))

    @cached_property
    def fast(self) -> Any:
        return self.read()

    @cached_property
    def familiar(self) -> Any:
        return self.load()

    @cached_property
    def theirs(self) -> Any:
        return self.read_parquet()

    @property
    def few(self) -> str:
        """What 1 % of the rows meet."""
        return f"{self.number} < 0.01"


@dataclass(frozen=True, slots=True)
class Job:
    """The same work on both, and how many times as fast we mean to be."""

    work: str
    ours: Callable[[], object]
    parquet: Callable[[], object]
    least: float | None = None
    times: int = 1


def reading_jobs(twins: Twins, *, is_narrow: bool) -> tuple[Job, ...]:
    """Frames that are there, asked for rows and numbers."""

    def sum_of(frame: Any) -> object:
        return frame.groupBy().sum(twins.number).collect()

    def column_of_few(frame: Any) -> None:
        _drain(frame.where(twins.few).select(twins.text))

    fast, familiar, theirs = twins.fast, twins.familiar, twins.theirs

    def on_frames(
        work: str, do: Callable[[Any], object], least: float | None = None, times: int = 1
    ) -> Job:
        return Job(work, lambda: do(fast), lambda: do(theirs), least, times)

    def by_the_familiar_door(
        work: str, do: Callable[[Any], object], least: float | None = None
    ) -> Job:
        named = f'{work}, `format("lance")`'
        return Job(named, lambda: do(familiar), lambda: do(theirs), least)

    def planned_anew(work: str, do: Callable[[Any], object]) -> Job:
        return Job(
            f"{work}, planned anew", lambda: do(twins.read()), lambda: do(twins.read_parquet())
        )

    quick = 1 if is_narrow else _SOME
    return (
        on_frames("full scan", _drain, 1.5 if is_narrow else 2.2),
        by_the_familiar_door("full scan", _drain, 1.5 if is_narrow else None),
        on_frames("sum of one column", sum_of, 1.3 if is_narrow else None, quick),
        by_the_familiar_door("sum of one column", sum_of),
        planned_anew("sum of one column", sum_of),
        on_frames("one column of 1 % of the rows", column_of_few, 1.5 if is_narrow else 1.3, quick),
        by_the_familiar_door("one column of 1 % of the rows", column_of_few),
        planned_anew("one column of 1 % of the rows", column_of_few),
        on_frames(
            "whole rows of 1 %",
            lambda frame: _drain(frame.where(twins.few)),
            None if is_narrow else 8.0,
        ),
        on_frames("`df.count()`", lambda frame: frame.count(), 3.0, _SOME),
        on_frames("`df.show(20)`", _show, 1.2, _SOME),
    )


def planning_jobs(twins: Twins) -> tuple[Job, ...]:
    """What it takes to have a frame, without asking it for anything."""
    return (
        Job("plan a read", twins.read, twins.read_parquet, times=_SOME),
        Job('plan a read, `format("lance")`', twins.load, twins.read_parquet, times=_SOME),
    )


def writing_jobs(twins: Twins, here: Path, *, is_narrow: bool) -> tuple[Job, ...]:
    """Both sides write the rows of the Parquet files."""
    out, theirs = here / "out", twins.theirs
    wider = theirs.selectExpr("*", f"{twins.number} * 2 AS doubled")
    return (
        Job(
            "write",
            lambda: _write(theirs, out / "lance"),
            lambda: _write_parquet(theirs, out / "parquet"),
            0.75 if is_narrow else 1.3,
        ),
        Job(
            "add a column",
            lambda: _add_column(twins, here / "backfilled.lance"),
            lambda: _write_parquet(wider, out / "parquet"),
            1.0 if is_narrow else None,
        ),
    )


def _drain(frame: Any) -> None:
    frame.write.format("noop").mode("overwrite").save()


def _show(frame: Any) -> None:
    with contextlib.redirect_stdout(io.StringIO()):
        frame.show(20)


def _write(frame: Any, target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    lws.write(frame, str(target), mode="error")


def _write_parquet(frame: Any, target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    frame.write.parquet(str(target))


def _add_column(twins: Twins, copy: Path) -> None:
    """On a copy of hard links, for a table gets a column once."""
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(twins.table, copy, copy_function=os.link)
    lws.add_columns(twins.spark, str(copy), {"doubled": f"{twins.number} * 2"})
