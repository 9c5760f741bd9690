"""Which way of updating writes less, told from a few fragments.

A model in bytes: stored widths of columns times rows, something for every file, and something for
every stretch of rows whose version the manifest has to list. Reads what the condition needs, of the
fragments it is asked about, and changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from pyroaring import BitMap

from lancewood.data.wanted import WantedColumns
from lancewood.engine.fragments import open_fragment
from lancewood.engine.snapshot import Snapshot
from lancewood.jobs.rows.updating import Updating
from lancewood.model.bitmap import bitmap_runs
from lancewood.model.fragment import Fragment

T = TypeVar("T")

_SAMPLED = 4
_FILE = 1 << 16
"""What a file weighs, however small it is."""
_STRETCH = 64
"""What a stretch of rows weighs in the manifest, which is written with every commit."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """The bytes that each way writes for one fragment, and the rows in it that match."""

    offsets: BitMap
    rows: float
    columns: float


def sample(fragments: Sequence[T]) -> Sequence[T]:
    """A few fragments, or what is known of each, from all over the list."""
    step = -(-len(fragments) // _SAMPLED)
    return fragments[:: max(step, 1)]


def estimate(job: Updating, fragment: Fragment) -> Estimate:
    """The task: look at one fragment."""
    offsets = job.matching.offsets(fragment)
    if not offsets:
        return Estimate(offsets, 0, 0)
    rows, columns = weigh(job.snapshot, fragment, offsets, WantedColumns(job.rewritten))
    return Estimate(offsets, rows, columns)


def weigh(
    snapshot: Snapshot, fragment: Fragment, offsets: BitMap, rewritten: WantedColumns
) -> tuple[float, float]:
    """The bytes that are written if the rows at the offsets move, and if columns are rewritten."""
    reader = open_fragment(snapshot, fragment, WantedColumns(snapshot.schema))
    reader.look()
    rows = len(offsets) * sum(reader.stored_widths().values())
    columns = fragment.physical_rows * sum(reader.of(rewritten).stored_widths().values()) + _FILE
    if snapshot.manifest.has_stable_row_ids:
        columns += len(bitmap_runs(offsets)[0]) * _STRETCH
    return rows, columns
