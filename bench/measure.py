"""The clock: contenders take turns, the first pass is dropped. Knows nothing of tables."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping
from typing import TypeAlias

Contender: TypeAlias = Callable[[], object]
Samples: TypeAlias = tuple[float, ...]


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
    if passes < 1:
        raise ValueError(f"at least one pass must be measured, got {passes}")
    samples: dict[str, list[float]] = {name: [] for name in contenders}
    names = list(contenders)
    for number in range(passes + 1):
        for name in names if number % 2 else reversed(names):
            if before is not None and name in before:
                before[name]()
            milliseconds = _timed(contenders[name])
            if number:
                samples[name].append(milliseconds)
    return {name: tuple(each) for name, each in samples.items()}


def _timed(contender: Contender) -> float:
    gc.collect()
    start = time.perf_counter()
    result = contender()
    milliseconds = (time.perf_counter() - start) * 1_000
    del result
    return milliseconds
