"""The clocks: contenders take turns, the first pass is dropped. Knows nothing of tables."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeAlias

Contender: TypeAlias = Callable[[], object]
Clock: TypeAlias = Callable[[], float]
"""Milliseconds of something, from any start."""
Samples: TypeAlias = tuple[float, ...]

_TICKS = os.sysconf("SC_CLK_TCK")
_PARENT, _OWN_TIME, _START = 1, slice(11, 13), 19
"""Places in ``/proc/PID/stat`` after the name."""
_SETTLING = 0.1
"""Seconds after which a Spark has also done what comes after its answers."""


def interleave(
    contenders: Mapping[str, Contender],
    passes: int,
    before: Mapping[str, Contender] | None = None,
) -> dict[str, Samples]:
    """Milliseconds of each contender, one sample a pass.

    Every other pass goes through them backwards, so that nobody always runs after the same one.
    Garbage is collected before the clock starts and a result is let go after it stops: nobody
    pays for what the one before left behind. What ``before`` has for a contender is done before
    its clock starts, each time.
    """
    (samples,) = interleave_by(contenders, passes, (wall_clock,), before)
    return samples


def interleave_by(
    contenders: Mapping[str, Contender],
    passes: int,
    clocks: tuple[Clock, ...],
    before: Mapping[str, Contender] | None = None,
    times: int = 1,
) -> tuple[dict[str, Samples], ...]:
    """The same by each of several clocks. The last one starts last and is stopped first.

    A sample is the mean of ``times``, for a clock that does not see a single one.
    """
    if passes < 1:
        raise ValueError(f"at least one pass must be measured, got {passes}")
    found: tuple[dict[str, list[float]], ...] = tuple(
        {name: [] for name in contenders} for _ in clocks
    )
    names = list(contenders)
    for number in range(passes + 1):
        for name in names if number % 2 else reversed(names):
            if before is not None and name in before:
                before[name]()
            spent = _spent(contenders[name], clocks, times)
            if number:
                for samples, each in zip(found, spent, strict=True):
                    samples[name].append(each)
    return tuple({name: tuple(each) for name, each in samples.items()} for samples in found)


def wall_clock() -> float:
    return time.perf_counter() * 1_000


class CpuClock:
    """Processor time of this process and of all that it has started, as Linux counts it.

    Of a process that has ended it is what it had when the clock was last looked at: Spark's daemon
    does not wait for its workers, so that nobody else knows. Waits a moment before it looks.
    """

    def __init__(self) -> None:
        self._ticks: dict[tuple[int, int], int] = {}

    def __call__(self) -> float:
        time.sleep(_SETTLING)
        parents, found = dict[int, int](), dict[int, tuple[int, int]]()
        for each in Path("/proc").iterdir():
            if each.name.isdecimal():
                try:
                    facts = (each / "stat").read_text().rpartition(")")[2].split()
                except OSError:  # it has just ended
                    continue
                parents[int(each.name)] = int(facts[_PARENT])
                found[int(each.name)] = int(facts[_START]), sum(map(int, facts[_OWN_TIME]))
        for number in _family(os.getpid(), parents):
            start, ticks = found[number]
            self._ticks[number, start] = ticks
        return sum(self._ticks.values()) * 1_000 / _TICKS


def _family(head: int, parents: Mapping[int, int]) -> set[int]:
    """A process and its descendants."""
    found, fresh = {head}, {head}
    while fresh:
        fresh = {each for each, parent in parents.items() if parent in fresh} - found
        found |= fresh
    return found


def _spent(contender: Contender, clocks: tuple[Clock, ...], times: int) -> list[float]:
    gc.collect()
    starts = [clock() for clock in clocks]
    for _ in range(times):
        result = contender()
    stops = [clock() for clock in reversed(clocks)]
    del result
    return [(stop - start) / times for start, stop in zip(starts, reversed(stops), strict=True)]
