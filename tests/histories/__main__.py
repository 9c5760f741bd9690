"""``python -m tests.histories``: histories until the time is over, or until one fails; between
them some of branches with indices, of columns on branches, and of rows whose keys move.

What fails is made as short as possible, and printed with the steps that lead to it. Exits with 0 if
nothing failed, with 1 otherwise.
"""

from __future__ import annotations

import argparse
import secrets
import sys
import time
import traceback
from collections import Counter
from random import Random
from tempfile import TemporaryDirectory
from typing import ClassVar

from tests.histories.branched import IndexedBranches
from tests.histories.evolving import evolving, swapping
from tests.histories.machine import Histories, run_histories
from tests.histories.moving_keys import MovingKeys

_ROUND = 20
"""Histories from one seed; the next round has the next seed."""


class _Counted(Histories):
    """Histories whose steps are counted."""

    done: ClassVar[Counter[str]] = Counter()
    histories = 0

    def settle(self, kind: str, *arguments: object) -> None:
        super().settle(kind, *arguments)  # type: ignore[arg-type]
        _Counted.done[kind] += 1

    def teardown(self) -> None:
        super().teardown()
        _Counted.histories += 1


def _branch(seed: int, steps: int) -> None:
    """A history of branches with indices, of one of the four kinds there are."""
    with TemporaryDirectory(prefix="lancewood-histories-") as directory:
        history = IndexedBranches(
            f"{directory}/t.lance",
            Random(seed),
            is_stable=seed % 2 == 0,
            pylance_takes_part=seed % 4 > 1,
        )
        history.run(steps)
    _Counted.done.update({f"{verb} on branches": count for verb, count in history.done.items()})
    _Counted.histories += 1


def _evolve(seed: int, steps: int) -> None:
    """A history of columns that change on branches, of one of the kinds there are; in one of four
    columns often have each other's name."""
    begin = swapping if seed % 16 < 4 else evolving
    with TemporaryDirectory(prefix="lancewood-histories-") as directory:
        history = begin(f"{directory}/t.lance", seed)
        history.run(steps)
    _Counted.done.update({f"{verb} of columns": count for verb, count in history.done.items()})
    _Counted.histories += 1


def _move_keys(seed: int, steps: int) -> None:
    with TemporaryDirectory(prefix="lancewood-histories-") as directory:
        history = MovingKeys(f"{directory}/t.lance", Random(seed))
        history.run(steps)
    _Counted.done.update({f"{verb} of keys": count for verb, count in history.done.items()})
    _Counted.histories += 1


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.histories", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0, help="how long to run")
    parser.add_argument("--seed", type=int, default=None, help="the same seed, the same histories")
    parser.add_argument("--steps", type=int, default=40, help="the most steps of one history")
    asked = parser.parse_args()
    seed = secrets.randbelow(1 << 32) if asked.seed is None else asked.seed
    print(f"seed {seed}, {asked.minutes} minutes, histories of {asked.steps} steps", flush=True)
    end = time.monotonic() + asked.minutes * 60
    failed = False
    while time.monotonic() < end and not failed:
        try:
            run_histories(seed, _ROUND, asked.steps, shrinks=True, machine=_Counted)
            _branch(seed, asked.steps)
            for each in range(_ROUND * seed, _ROUND * (seed + 1)):
                _evolve(each, asked.steps)
                _move_keys(each, asked.steps)
        except Exception:
            traceback.print_exc(file=sys.stdout)
            print(f"again with --seed {seed} --steps {asked.steps}")
            failed = True
        seed += 1
    done = ", ".join(f"{count} {kind}" for kind, count in sorted(_Counted.done.items()))
    print(f"{_Counted.histories} histories, {_Counted.done.total()} steps: {done}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
