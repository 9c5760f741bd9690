"""The states that are compared, and what is known of their rows without reading values.

The roots of two branches refer to a file differently: under the id of one base path here, of
another or none there. So the fragments of one state are shown with the base ids of the other, and a
file that both have is named alike. A branch has a base path for every root that it comes from, so
that nearly always ids are only added, which is done for all fragments at once. Reads nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from lancewood.data.wanted import WantedColumns
from lancewood.engine.rows import Ids, Ints, LiveRows, RowFacts
from lancewood.engine.snapshot import Snapshot
from lancewood.errors import UnsupportedError
from lancewood.format.inherited import inherited_fragments
from lancewood.jobs.diff.columns import ColumnPair
from lancewood.model.fragment import Fragment
from lancewood.model.ids import BaseId
from lancewood.model.manifest import decode_fragment
from lancewood.model.schema import ROW_ID, Field, Schema
from lancewood.proto import table_pb2

_BaseIds: TypeAlias = Mapping[int | None, int | None]
"""Base ids of one version, by those of the other; None is the own root."""
_NOWHERE = -1
_PORTION = 32 << 20
_MOST_ROWS = 65_536


class Places(NamedTuple):
    """Where rows of one state are."""

    parts: Ints
    """The fragment of each, by its position in the state."""
    offsets: Ints

    def at(self, chosen: npt.NDArray[Any]) -> Places:
        return Places(self.parts[chosen], self.offsets[chosen])

    def by_part(self) -> Iterator[tuple[int, Ints]]:
        """Each fragment that has some of the rows, and which of them, by offset."""
        keys = (self.parts << 32) + self.offsets
        is_ordered = (keys[1:] > keys[:-1]).all()
        order = np.arange(len(keys)) if is_ordered else np.argsort(keys, kind="stable")
        bounds = np.flatnonzero(np.diff(self.parts[order], prepend=-1, append=-1))
        for low, high in pairwise(bounds.tolist()):
            yield int(self.parts[order[low]]), order[low:high]


@dataclass(frozen=True, eq=False)
class State:
    """One of two states that are compared: its fragments that the other does not have in the same
    form, and their rows in the range of ids. A number that both states have is the same row."""

    snapshot: Snapshot
    parts: tuple[Part, ...]
    rows: LiveRows = field(default_factory=lambda: LiveRows.joined(()))

    def portion_rows(self, fields: Sequence[Field]) -> int:
        """How many rows of these columns are read at a time: some megabytes, as far as types or
        sizes of files tell."""
        return max(1, min(_MOST_ROWS, int(_PORTION / self.row_width(fields))))

    def row_width(self, fields: Sequence[Field]) -> float:
        """The bytes of a row of these columns, as far as types or sizes of files tell."""
        width, unknown = WantedColumns(Schema(tuple(fields))).width
        return max(self._row_size if unknown else width, 1.0)

    def row_ids(self, places: Places) -> Ids:
        """The ids of rows, stable or not, in the order of their places."""
        ids = np.empty(len(places.parts), np.uint64)
        for number, here in places.by_part():
            facts = self.parts[number].facts
            ids[here] = facts.column_at(ROW_ID, places.offsets[here]).to_numpy()
        return ids

    @cached_property
    def _row_size(self) -> float:
        size = sum(file.size or 0 for each in self.parts for file in each.fragment.files)
        return size / max(1, sum(each.fragment.physical_rows for each in self.parts))


@dataclass(frozen=True, eq=False)
class Part:
    """A fragment of one state."""

    facts: RowFacts
    shown: Fragment
    """The fragment in the terms of both states."""

    @property
    def fragment(self) -> Fragment:
        return self.facts.fragment


@dataclass(frozen=True, eq=False)
class Doubt:
    """Rows of both states whose values may differ in some columns, stretch by stretch."""

    columns: tuple[ColumnPair, ...]
    before: LiveRows
    after: LiveRows


@dataclass(frozen=True, eq=False)
class Comparison:
    """What is known of the rows of two states without reading values: of all of them, or of those
    in a range of ids."""

    before: State
    after: State
    columns: tuple[ColumnPair, ...]
    """The columns that both have."""
    deleted: LiveRows
    """Stretches of ``before``."""
    inserted: LiveRows
    """Stretches of ``after``."""
    doubts: tuple[Doubt, ...]


def with_common_base_ids(one: Snapshot, other: Snapshot) -> tuple[Sequence[bytes], Sequence[bytes]]:
    """The fragments of both as bytes, in their order, with the same base id for the same root."""
    mine, theirs = (list(each.manifest.message.fragments) for each in (one, other))
    if _own_root(one, other) is not None or one.location.uri == other.location.uri:
        return mine, _shown(other, one, theirs)
    return _shown(one, other, mine), theirs


def _shown(source: Snapshot, target: Snapshot, raws: Sequence[bytes]) -> Sequence[bytes]:
    ids = _ids(source, target)
    if all(here == there for here, there in ids.items()):
        return raws
    added = ids[None]
    if added is not None and all(here == there for here, there in ids.items() if here is not None):
        try:
            shown = inherited_fragments(source.manifest, BaseId(added))
        except UnsupportedError:
            pass
        else:
            return list(table_pb2.Manifest.FromString(shown).fragments)
    return [*_one_by_one(raws, ids, source.manifest.name)]


def _one_by_one(raws: Sequence[bytes], ids: _BaseIds, name: str) -> Iterator[bytes]:
    for raw in raws:
        fragment = decode_fragment(raw, name)
        deletions = [fragment.deletion_file] if fragment.HasField("deletion_file") else []
        overlays = (each.data_file for each in fragment.overlays)
        files: tuple[table_pb2.DataFile | table_pb2.DeletionFile, ...]
        files = (*fragment.files, *overlays, *deletions)
        for file in files:
            known = file.base_id if file.HasField("base_id") else None
            shown = ids.get(known, known)
            if shown is None:
                file.ClearField("base_id")
            else:
                file.base_id = shown
        yield fragment.SerializeToString()


def _ids(source: Snapshot, target: Snapshot) -> _BaseIds:
    """What the base ids of a version are called in the terms of another."""
    known = {each.id: each for each in target.manifest.base_paths}
    fresh = max(
        (each.id for side in (source, target) for each in side.manifest.base_paths), default=0
    )
    ids: dict[int | None, int | None] = {None: None}
    if source.location.uri != target.location.uri:
        own = _own_root(target, source)
        fresh += own is None
        ids[None] = fresh if own is None else own
    for base in source.manifest.base_paths:
        if known.get(base.id) == base:
            ids[base.id] = base.id
            continue
        shown = _called(source, base, target)
        fresh += shown == _NOWHERE
        ids[base.id] = fresh if shown == _NOWHERE else shown
    return ids


def _called(source: Snapshot, base: table_pb2.BasePath, target: Snapshot) -> int | None:
    """The base id under which another version has the root of a base path, or ``_NOWHERE``."""
    source.location.settle(source.manifest)
    root = source.location.base_store(base)
    if base.is_dataset_root and root.uri == target.location.store.uri:
        return None
    target.location.settle(target.manifest)
    for each in target.manifest.base_paths:
        if each.is_dataset_root == base.is_dataset_root and target.location.leads_to(each, root):
            return each.id
    return _NOWHERE


def _own_root(target: Snapshot, source: Snapshot) -> int | None:
    """The base id under which a version has the own root of another; None if under none."""
    target.location.settle(target.manifest)
    for each in target.manifest.base_paths:
        if each.is_dataset_root and target.location.leads_to(each, source.location.store):
            return each.id
    return None
