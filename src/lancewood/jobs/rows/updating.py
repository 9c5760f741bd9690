"""Which way of updating writes less, told from a few fragments.

A model in bytes: stored widths of columns times rows, something for every file, and something for
every stretch of rows whose version the manifest has to list. Reads what the condition needs, of the
fragments it is asked about, and changes nothing.

What the tasks of an update are told, and what they tell: small values that travel.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, TypeAlias, TypeVar

from pyroaring import BitMap

from lancewood.data.wanted import WantedColumns
from lancewood.engine.place import NewFile
from lancewood.engine.rows import open_fragment
from lancewood.engine.schema import cut_schema
from lancewood.engine.snapshot import Snapshot
from lancewood.jobs.rows.assignments import Assignments
from lancewood.jobs.rows.matching import Matching
from lancewood.model.bitmap import bitmap_runs
from lancewood.model.fragment import Fragment
from lancewood.model.ids import FragmentId
from lancewood.model.schema import Schema

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


Rewriting: TypeAlias = Literal["auto", "rows", "columns"]
"""What is written anew: the rows that change, or the columns that do; auto is what is less."""


@dataclass(frozen=True)
class Updating:
    """Which rows, and what they become."""

    matching: Matching
    values: Mapping[str, Any] = field(repr=False)

    def __getstate__(self) -> dict[str, Any]:
        """Without what is worked out again elsewhere."""
        return {"matching": self.matching, "values": self.values}

    @property
    def snapshot(self) -> Snapshot:
        return self.matching.snapshot

    @cached_property
    def assignments(self) -> Assignments:
        return Assignments(self.snapshot.schema, self.values, self.matching.parameters)

    @cached_property
    def rewritten(self) -> Schema:
        """The part of the table's schema that is written anew if rows stay in place."""
        paths = self.assignments.stored_alone(self.snapshot.manifest.file_version)
        return cut_schema(self.snapshot.schema, paths)


@dataclass(frozen=True, slots=True)
class Portion:
    """The fragments of one task, and of some of them the rows that are known to match."""

    fragments: tuple[Fragment, ...]
    known: Mapping[FragmentId, BitMap] = field(default_factory=dict)

    def offsets(self, job: Updating, fragment: Fragment) -> BitMap:
        """The physical offsets of the rows of a fragment that match."""
        known = self.known.get(fragment.id)
        return job.matching.offsets(fragment) if known is None else known


@dataclass(frozen=True, slots=True)
class Updated:
    """What became of the fragments of one task: those without a match are in no list."""

    rows: int
    updated: tuple[Fragment, ...]
    files: tuple[NewFile, ...]
    """The keys of what was written, below the table's own root."""
    removed: tuple[FragmentId, ...] = ()
    new: tuple[Fragment, ...] = ()
    offsets: Mapping[FragmentId, BitMap] = field(default_factory=dict)
    """The rows that changed in place; all, of a fragment that is not listed."""
