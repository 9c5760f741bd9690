"""Cutting a run of fragments into tasks: small ones together, a large one into several.

Knows rows, widths and sizes as numbers, and nothing of tables. A cut is told as a number of
fragments: 3.5 is the middle of the fourth.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from lancewood.jobs.packing import TASKS_PER_SLOT

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

OPENING = 256 << 10
"""What it takes to open a fragment, as bytes that could have been read instead."""
LEAST = 8 << 20
"""Bytes in memory for which a task is worth starting."""
MOST = 1 << 30
"""Bytes of a task, however few slots there are: one that fails is run again as a whole."""
MOST_TASKS = 100_000
"""However large a table is, or says it is: Spark cannot run more in reasonable time."""
MOST_MESSAGE = 1 << 20
_WORTH_CUTTING = 0.5
_SMALLEST_PIECE = 0.25
"""Both as parts of a task."""


def count_tasks(cost: float, slots: int, most: int = MOST) -> int:
    """How many tasks work of so many bytes makes: a few for each slot, none too small or large."""
    wanted = min(max(1, slots) * TASKS_PER_SLOT, math.ceil(cost / LEAST))
    return min(max(1, wanted, math.ceil(cost / most)), MOST_TASKS)


def cut_fragments(
    rows: Ints, width: float, sizes: Ints, slots: int, *, split: bool, most: int = MOST
) -> Floats:
    """Where the tasks begin, and the end of the last; ascending, no two alike.

    ``rows`` and ``sizes`` are the rows of each fragment and the bytes that a task's message holds
    of it, ``width`` the bytes of a row. Without ``split`` a task has whole fragments. ``most`` are
    about the bytes that a task reads at most.
    """
    costs = rows * width + OPENING
    ends = np.cumsum(costs)
    total = float(ends[-1]) if len(ends) else 0.0
    tasks = count_tasks(total, slots, most)
    share = total / tasks
    goals = total * np.arange(1, tasks) / tasks
    at = np.minimum(np.searchsorted(ends, goals), max(len(ends) - 1, 0))
    parts = (goals - (ends[at] - costs[at])) / costs[at]
    whole = np.round(parts)
    if split:
        least = _SMALLEST_PIECE * share
        is_cut = costs[at] > _WORTH_CUTTING * share
        is_cut &= (parts * costs[at] >= least) & ((1 - parts) * costs[at] >= least)
        parts = np.where(is_cut, parts, whole)
    else:
        parts = whole
    cuts = np.unique(np.concatenate(([0.0], at + parts, [float(len(ends))])))
    return _with_small_messages(cuts, np.concatenate(([0], np.cumsum(sizes))))


def _with_small_messages(cuts: Floats, held: Ints) -> Floats:
    """The same, and more where a message would be too large; ``held`` is what is before each
    fragment. A fragment that is too large by itself stays alone."""
    firsts, lasts = np.ceil(cuts[:-1]).astype(int), np.floor(cuts[1:]).astype(int)
    more: list[int] = []
    for task in np.flatnonzero(held[lasts] - held[firsts] > MOST_MESSAGE).tolist():
        at, last = int(firsts[task]), int(lasts[task])
        while held[last] - held[at] > MOST_MESSAGE:
            full = int(np.searchsorted(held, held[at] + MOST_MESSAGE, side="right")) - 1
            at = max(at + 1, full)
            more.append(at)
    return np.union1d(cuts, np.array(more, float))
