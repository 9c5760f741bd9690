"""How long tests take, as ``make durations`` has measured it: ``tests/quick/durations.txt``.

A line is a time in seconds and a test file, or a test of it that takes long by itself; the cases of
a test are taken together. ``python -m tests.quick.durations FOLDER`` writes the file anew from what
``tests.quick.measure`` has left in a folder.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

FILE = Path(__file__).with_name("durations.txt")
LONG = 1.0
"""Seconds from which on a test has a line of its own."""


def whole_test(nodeid: str) -> str:
    """The test that a case belongs to: ``tests/a.py::test_b`` of ``tests/a.py::test_b[1]``."""
    file, _, name = nodeid.partition("::")
    return f"{file}::{name.partition('[')[0]}"


def read(text: str) -> dict[str, float]:
    """Seconds by test file, and by test that takes long."""
    lines = (line.split(maxsplit=1) for line in text.splitlines())
    return {name: float(seconds) for seconds, name in lines}


def written(seconds: Mapping[str, float]) -> str:
    """The text of the file, from the seconds of every test."""
    files = defaultdict[str, float](float)
    for test, taken in seconds.items():
        files[test.partition("::")[0]] += taken
    long = {test: taken for test, taken in seconds.items() if taken >= LONG}
    return "".join(f"{taken:7.1f} {name}\n" for name, taken in sorted({**files, **long}.items()))


def gathered(parts: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """The seconds of every test, from what each process measured of its own tests."""
    seconds = defaultdict[str, float](float)
    for part in parts:
        for test, taken in part.items():
            seconds[test] += taken
    return dict(seconds)


def main() -> None:
    folder = Path(sys.argv[1])
    measured = gathered(json.loads(path.read_text()) for path in folder.glob("*.json"))
    if not measured:
        sys.exit(f"{folder} has no measurements: run `make durations`")
    FILE.write_text(written(measured))
    print(f"{FILE}: {len(measured)} tests, {sum(measured.values()):.0f} seconds")


if __name__ == "__main__":
    main()
