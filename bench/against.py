"""``python -m bench against CHECKOUT [names…]``: the same work with these sources and with others.

Each side is a process with the packages of this environment, which differ in the ``lancewood`` that
they import alone. They take turns, so that what else the machine does is done to both.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from bench import OURS
from bench.against_worker import CLOCKS, WORKS
from bench.measure import interleave
from bench.places import scratch, temporary_places
from bench.report import TIMES, format_number, render_table
from bench.result import Row
from bench.tables import make_narrow

ROOT = Path(__file__).resolve().parent.parent
_OTHER = "other"


def main(arguments: Sequence[str]) -> int:
    chosen = _parse(arguments)
    with temporary_places() as places, scratch(places.fast) as here, ExitStack() as stack:
        sides = {
            side: stack.enter_context(Side(sources, here / side, chosen))
            for side, sources in ((OURS, ROOT), (_OTHER, chosen.checkout))
        }
        rows = [_row(work, sides, chosen) for work in chosen.names or WORKS]
    print(render_table(("work", OURS, _OTHER, "ratio"), [_cells(each) for each in rows]))
    return 0


class Side:
    """A process with a table of its own, which does what it is told; a context."""

    def __init__(self, sources: Path, table: Path, chosen: argparse.Namespace) -> None:
        make_narrow(table, chosen.rows)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.against_worker", str(table), chosen.clock],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(sources / "src")},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        found = Path(self._heard())
        if not found.is_relative_to(sources):
            raise RuntimeError(f"lancewood comes from {found}, not from {sources}")

    def __enter__(self) -> Side:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def milliseconds(self, work: str) -> float:
        """How long a piece of work took once more."""
        assert self._process.stdin is not None
        print(work, file=self._process.stdin, flush=True)
        return float(self._heard())

    def _heard(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("a side ended before it answered; its error stands above")
        return json.loads(line)


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="bench against", description="These sources against those of another checkout."
    )
    parser.add_argument("checkout", type=Path, help="the folder that has the other src")
    parser.add_argument("names", nargs="*", metavar="work", help=f"{'; '.join(WORKS)} (all)")
    parser.add_argument("--rows", type=int, default=200_000, help="of the table")
    parser.add_argument("--passes", type=int, default=7)
    parser.add_argument("--clock", choices=list(CLOCKS), default="wall")
    chosen = parser.parse_args(arguments)
    chosen.checkout = chosen.checkout.resolve()
    if not (chosen.checkout / "src" / "lancewood").is_dir():
        parser.error(f"{chosen.checkout} has no src/lancewood")
    if unknown := [each for each in chosen.names if each not in WORKS]:
        parser.error(f"no work is named {unknown[0]!r}; there are {', '.join(WORKS)}")
    return chosen


def _row(work: str, sides: Mapping[str, Side], chosen: argparse.Namespace) -> Row:
    found: dict[str, list[float]] = {name: [] for name in sides}

    def once(name: str) -> None:
        found[name].append(sides[name].milliseconds(work))

    interleave({name: partial(once, name) for name in sides}, chosen.passes)
    ours, other = (tuple(found[name][1:]) for name in (OURS, _OTHER))
    return Row(work=work, unit=f"ms {chosen.clock}", ours=ours, pylance=other)


def _cells(row: Row) -> tuple[str, ...]:
    medians = (row.our_median, row.pylance_median or 0.0)
    times = (f"{format_number(each)} {row.unit}" for each in medians)
    return (row.work, *times, f"{row.ratio or 0.0:.2f}{TIMES}")
