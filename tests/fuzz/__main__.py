"""``python -m tests.fuzz``: a long run, or one kept case again.

Exits with 0 if every case gave a typed error or a right answer, with 1 otherwise.
"""

from __future__ import annotations

import argparse
import secrets
import shutil
import sys
import tempfile
import time
from pathlib import Path

from tests.fuzz.campaign import Campaign, Tally
from tests.fuzz.targets import SHARES

_ROUND = 50
_MOST_FAILURES = 20


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0, help="how long to run")
    parser.add_argument("--seed", type=int, default=None, help="the same seed, the same changes")
    parser.add_argument("--target", action="append", help=f"one of {', '.join(SHARES)}")
    parser.add_argument("--seconds", type=float, default=20.0, help="the limit of one case")
    parser.add_argument("--keep", type=Path, help="where failures go; by default a new directory")
    parser.add_argument("--replay", type=Path, help="run the case in this file, with --target")
    asked = parser.parse_args()
    names = asked.target or list(SHARES)
    seed = secrets.randbelow(1 << 32) if asked.seed is None else asked.seed
    directory = asked.keep or Path(tempfile.mkdtemp(prefix="lancewood-fuzz-"))
    directory.mkdir(parents=True, exist_ok=True)
    has_failed = True
    try:
        with Campaign(directory, seconds=asked.seconds) as campaign:
            if asked.replay is not None:
                return _replay(campaign, names[0], asked.replay)
            print(f"seed {seed}, {asked.minutes} minutes, failures go to {directory}", flush=True)
            tallies = _run(campaign, names, seed, asked.minutes * 60)
        _report(tallies)
        has_failed = any(each.failures for each in tallies.values())
        return 1 if has_failed else 0
    finally:
        if asked.keep is None and (asked.replay is not None or not has_failed):
            shutil.rmtree(directory, ignore_errors=True)


def _replay(campaign: Campaign, target: str, case: Path) -> int:
    tally = campaign.run(target, 0, 1, case=case)
    for failure in tally.failures:
        print(f"FAILED {target}: {failure.why}")
    print(f"typed errors {tally.typed}, right answers {tally.right}, codec crashes {tally.crashes}")
    return 1 if tally.failures else 0


def _run(campaign: Campaign, names: list[str], seed: int, seconds: float) -> dict[str, Tally]:
    """Rounds over all targets until the time is over; a target that fails often is left out."""
    tallies = {name: Tally() for name in names}
    done = dict.fromkeys(names, 0)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        active = [each for each in names if len(tallies[each].failures) < _MOST_FAILURES]
        if not active:
            break
        for name in active:
            count = max(1, round(_ROUND * SHARES.get(name, 1)))
            seen = len(tallies[name].failures)
            campaign.run(name, seed, count, first=done[name], tally=tallies[name])
            done[name] += count
            for failure in tallies[name].failures[seen:]:
                print(f"\nFAILED {failure}", flush=True)
    return tallies


def _report(tallies: dict[str, Tally]) -> None:
    head = ("target", "cases", "typed errors", "right answers", "codec crashes", "failures")
    print("".join(f"{each:>18}" for each in (*head, "slowest s", "most MiB")))
    for name, each in tallies.items():
        counts = (each.cases, each.typed, each.right, each.crashes, len(each.failures))
        measured = (f"{each.slowest:.2f}", each.most_memory >> 20)
        print("".join(f"{value!s:>18}" for value in (name, *counts, *measured)))
    for name, each in tallies.items():
        for failure in each.failures:
            print(f"\nFAILED {name}: {failure.why.strip().splitlines()[-1]}")
            print(f"  replay: {failure.command}")


if __name__ == "__main__":
    sys.exit(main())
