"""``make quick``: the tests that a change can affect, cheapest first, for five minutes at most.

It looks at what differs from the merge base of main, or from BASE, uncommitted files included.
Tests nearest to the change come in first, until their measured times fill the minutes; it says what
it left out. ``make test`` runs everything.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Collection
from pathlib import Path

import pytest
from tests.quick import durations
from tests.quick.changes import UnknownBase, changes
from tests.quick.plan import Part, Plan, parts_of, plan
from tests.quick.plugin import VARIABLE, Order
from tests.quick.reach import ROOM, is_test, steps_to_tests

ROOT = Path(__file__).resolve().parents[2]
ORDER = ROOT / "build" / "quick.json"
WORKERS = 2
STARTING = 25.0
"""Seconds of the minutes for starting, collecting, and the last test."""
ALONE = 15.0
"""Seconds of tests for which a second process is not worth starting."""
NAMED = 10
"""So many of the parts that are left out are named."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.quick", description=__doc__)
    parser.add_argument("--base", help="the commit to compare with; by default found as above")
    parser.add_argument("--minutes", type=float, default=5.0, help="how long to run at most")
    parser.add_argument("--list", action="store_true", help="print the plan, and run nothing")
    asked = parser.parse_args()
    deadline = time.time() + asked.minutes * 60
    try:
        changed = changes(ROOT, asked.base or None)
    except UnknownBase as unknown:
        parser.error(str(unknown))
    print(f"{len(changed.files)} files differ from {changed.base}, {changed.why}")
    if not changed.files:
        print("nothing changed: there is nothing to test")
        return 0
    print(f"changed: {_summary(changed.files)}")
    budget = WORKERS * (asked.minutes * 60 - STARTING)
    steps = steps_to_tests(ROOT, changed.files)
    planned = plan(parts_of(steps, durations.read(durations.FILE.read_text())), budget)
    print("\n".join(told(planned)))
    if asked.list:
        print("\n".join(f"{part.seconds:7.1f} {part.name}" for part in planned.chosen))
    if asked.list or not planned.chosen:
        return 0
    return run(planned, deadline)


def run(planned: Plan, deadline: float) -> int:
    """Run pytest on the plan; its exit code."""
    chosen, left_out = ([part.name for part in parts] for parts in planned)
    Order(chosen, left_out, deadline).save(ORDER)
    workers = WORKERS if planned.seconds > ALONE else 0
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.quick.plugin"]
    command += ["-n", str(workers), "--dist", "loadgroup", "--no-loadscope-reorder"]
    command += planned.files
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, VARIABLE: str(ORDER)}, check=False)
    return 0 if done.returncode == pytest.ExitCode.NO_TESTS_COLLECTED else done.returncode


def told(planned: Plan) -> list[str]:
    """What is run and what is left out, in a few lines."""
    lines = [f"{len(planned.files)} test files, about {_time(planned.seconds / WORKERS)}"]
    if planned.left_out:
        seconds = sum(part.seconds for part in planned.left_out)
        lines.append(f"left out, {_time(seconds / WORKERS)} more, which `make test` runs:")
        lines += [f"  {_told(part)}" for part in planned.left_out[:NAMED]]
        if more := len(planned.left_out) - NAMED:
            lines += [f"  and {more} more"] * (more > 0)
    return lines


def _told(part: Part) -> str:
    return f"{part.name}, {_time(part.seconds)}"


def _summary(files: Collection[str]) -> str:
    """The rooms that were changed, test files, and how many others."""
    rooms = sorted({found[1] for file in files if (found := ROOM.match(file))})
    folders = Counter(file.split("/")[0] for file in files if not ROOM.match(file))
    tests = sum(map(is_test, files))
    return ", ".join(
        [*rooms, *(f"{name} ({count})" for name, count in sorted(folders.items()))]
    ) + (f"; {tests} test files" if tests else "")


def _time(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


if __name__ == "__main__":
    sys.exit(main())
