"""What the tasks of an update are told, and what they tell: small values that travel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, TypeAlias

from pyroaring import BitMap

from lancewood.engine.homes import NewFile
from lancewood.engine.projection import cut_schema
from lancewood.engine.snapshot import Snapshot
from lancewood.jobs.rows.assignments import Assignments
from lancewood.jobs.rows.matching import Matching
from lancewood.model.fragment import Fragment
from lancewood.model.ids import FragmentId
from lancewood.model.schema import Schema

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
