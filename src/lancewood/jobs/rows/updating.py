"""The values that tasks of an update receive and return, and an estimate of both ways to update.

The estimate is a model in bytes: stored widths of columns times rows, a constant for every file,
and one for every run of rows whose version the manifest has to list.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, TypeAlias, TypeVar

from pyroaring import BitMap

from lancewood.data.wanted import WantedColumns
from lancewood.engine.location import NewFile
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
"""The weight of a file, however small."""
_STRETCH = 64
"""The weight of a run of rows in the manifest, which is written with every commit."""
Rewriting: TypeAlias = Literal["auto", "rows", "columns"]
"""What is rewritten: changed rows or changed columns; auto is the cheaper of the two."""


@dataclass(frozen=True)
class Updating:
    """The matching rows and their new values."""

    matching: Matching
    values: Mapping[str, Any] = field(repr=False)

    def __getstate__(self) -> dict[str, Any]:
        """Pickle without cached values."""
        return {"matching": self.matching, "values": self.values}

    @property
    def snapshot(self) -> Snapshot:
        return self.matching.snapshot

    @cached_property
    def assignments(self) -> Assignments:
        return Assignments(self.snapshot.schema, self.values, self.matching.parameters)

    @cached_property
    def rewritten(self) -> Schema:
        """The part of the schema that is rewritten if rows stay in place."""
        paths = self.assignments.stored_alone(self.snapshot.manifest.file_version)
        return cut_schema(self.snapshot.schema, paths)


@dataclass(frozen=True, slots=True)
class Portion:
    """The fragments of one task, with the matching rows of those where they are known."""

    fragments: tuple[Fragment, ...]
    known: Mapping[FragmentId, BitMap] = field(default_factory=dict)

    def offsets(self, job: Updating, fragment: Fragment) -> BitMap:
        """The physical offsets of the matching rows of a fragment."""
        known = self.known.get(fragment.id)
        return job.matching.offsets(fragment) if known is None else known


@dataclass(frozen=True, slots=True)
class Updated:
    """The result of one task; fragments without a match are in no list."""

    rows: int
    updated: tuple[Fragment, ...]
    files: tuple[NewFile, ...]
    """Everything that was written."""
    removed: tuple[FragmentId, ...] = ()
    new: tuple[Fragment, ...] = ()
    offsets: Mapping[FragmentId, BitMap] = field(default_factory=dict)
    """The rows that changed in place; all rows in a fragment that is not listed."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """The bytes that each way writes for one fragment, and its matching rows."""

    offsets: BitMap
    rows: float
    columns: float


def estimate(job: Updating, fragment: Fragment) -> Estimate:
    """The task: estimate one fragment."""
    offsets = job.matching.offsets(fragment)
    if not offsets:
        return Estimate(offsets, 0, 0)
    rows, columns = weigh(job.snapshot, fragment, offsets, WantedColumns(job.rewritten))
    return Estimate(offsets, rows, columns)


def weigh(
    snapshot: Snapshot, fragment: Fragment, offsets: BitMap, rewritten: WantedColumns
) -> tuple[float, float]:
    """The bytes written if the rows at the offsets move, and if columns are rewritten."""
    reader = open_fragment(snapshot, fragment, WantedColumns(snapshot.schema))
    reader.look()
    rows = len(offsets) * sum(reader.stored_widths().values())
    columns = fragment.physical_rows * sum(reader.of(rewritten).stored_widths().values()) + _FILE
    if snapshot.manifest.has_stable_row_ids:
        columns += len(bitmap_runs(offsets)[0]) * _STRETCH
    return rows, columns


def sample(fragments: Sequence[T]) -> Sequence[T]:
    """A few items from all over the list."""
    step = -(-len(fragments) // _SAMPLED)
    return fragments[:: max(step, 1)]
