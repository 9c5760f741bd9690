"""Which tests are run for a change within a budget, and which are left out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

UNMEASURED = 2.0
"""Seconds that a test file is taken to need which nobody has measured."""


class Part(NamedTuple):
    """A test that takes long, or all other tests of a file; run or left out as a whole."""

    steps: int
    seconds: float
    name: str
    """``tests/a.py::test_b``, or ``tests/a.py`` for those without a name of their own."""

    @property
    def file(self) -> str:
        return self.name.partition("::")[0]


class Plan(NamedTuple):
    """What is run, cheapest first, and what is left out, nearest to the change first."""

    chosen: list[Part]
    left_out: list[Part]

    @property
    def files(self) -> list[str]:
        """The files of what is run, by name: pytest finds the fixtures of a folder for its first
        file, and for others only while it has not left the folder."""
        return sorted({part.file for part in self.chosen})

    @property
    def seconds(self) -> float:
        return sum(part.seconds for part in self.chosen)


def parts_of(steps: Mapping[str, int], durations: Mapping[str, float]) -> list[Part]:
    """The parts of some test files, of which the steps to the change are given."""
    rest = {file: durations.get(file, UNMEASURED) for file in steps}
    parts = list[Part]()
    for name, seconds in durations.items():
        file, _, test = name.partition("::")
        if test and file in steps:
            parts.append(Part(steps[file], seconds, name))
            rest[file] -= seconds
    return [*parts, *(Part(steps[file], max(0.0, rest[file]), file) for file in rest)]


def plan(parts: Iterable[Part], budget: float) -> Plan:
    """Take the parts nearest to the change, of equally near ones the cheapest, while the sum of
    their seconds is within the budget. What does not fit leaves room for what is cheaper."""
    chosen, left_out, total = list[Part](), list[Part](), 0.0
    for part in sorted(parts):
        if total + part.seconds <= budget:
            chosen.append(part)
            total += part.seconds
        else:
            left_out.append(part)
    return Plan(sorted(chosen, key=lambda part: (part.seconds, part.name)), left_out)
