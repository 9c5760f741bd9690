"""Finding what a merge changes: which rows of the table have a key of the source, and which none.

Reads the columns of the key, and those of the condition, of all rows or of those that an index on
the key names for a small source; compares them with the source's keys in portions. Writes nothing,
and does not know what becomes of the rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pt
from pyroaring import BitMap

from lancewood.data.wanted import WantedColumns
from lancewood.engine.base import Addresses, offsets_by_fragment
from lancewood.engine.lookup import ValueTests
from lancewood.engine.rows import Narrowed, ScanPlan, ScanRequest, narrow_by_values
from lancewood.engine.schema import project
from lancewood.engine.snapshot import Snapshot
from lancewood.format.schema import to_arrow_field
from lancewood.jobs.merge_into.condition import MatchCondition
from lancewood.jobs.merge_into.keys import Key, KeyIndex, Positions
from lancewood.jobs.merge_into.source import FittedSource, rows_at
from lancewood.model.bitmap import bitmap_of
from lancewood.model.fragment import Fragment
from lancewood.model.ids import FragmentId
from lancewood.model.schema import ROW_ADDRESS

_FEW_KEYS = 100_000
"""Number of keys that are looked up one by one at most."""
_LEAST_PORTION = 262_144
_MOST_PORTION = 4_194_304
_CONDITION_ROWS = 65_536
_ROW_BITS = np.uint64(32)
_OFFSET = np.uint64(0xFFFF_FFFF)


@dataclass(frozen=True)
class Search:
    """What is looked for, on one version: sent to tasks, so without rows that they do not need."""

    snapshot: Snapshot
    """Bare: fragments travel with the tasks."""
    key: Key
    index: KeyIndex
    condition: MatchCondition | None
    conditional: pa.Table
    """The columns of the source that the condition reads."""
    changes_matches: bool
    """Whether rows that match, and meet the condition, are to be changed."""
    wants_orphans: bool
    """Whether rows that no row of the source matches are of interest too."""
    candidates: Mapping[FragmentId, Positions] = field(default_factory=dict, repr=False)
    """The physical rows of these fragments that can have a key of the source; of others all can."""

    def __getstate__(self) -> dict[str, Any]:
        """Pickle the fields alone: the rest is worked out again elsewhere."""
        return {each.name: self.__dict__[each.name] for each in fields(self)}

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """Columns of the table that the search reads."""
        names = list(self.key.names)
        if self.condition is not None:
            names += self.condition.target_columns
        return tuple(dict.fromkeys(names))

    @cached_property
    def key_columns(self) -> WantedColumns:
        return WantedColumns(project(self.snapshot.schema, self.key.names).stored)


def search_for(
    source: FittedSource, snapshot: Snapshot, *, changes_matches: bool, wants_orphans: bool
) -> tuple[Search, Iterable[Fragment]]:
    """The search for the keys of a source in one version of the table, and where to look."""
    condition = source.condition
    names = () if condition is None else condition.source_columns
    narrowed = None if wants_orphans else _narrowed(source, snapshot)
    parts = None if narrowed is None else list(narrowed.parts(None))
    search = Search(
        snapshot.bare(),
        source.key,
        source.index,
        condition,
        source.rows.select(names),
        changes_matches,
        wants_orphans,
        {each.id: cut for each, cut in parts or () if isinstance(cut, np.ndarray)},
    )
    return search, snapshot.manifest.fragments if parts is None else [each for each, _ in parts]


def _narrowed(source: FittedSource, snapshot: Snapshot) -> Narrowed | None:
    """The rows that can have a key of the source, by indices on columns of the key; None where none
    helps, or the source is large."""
    if not snapshot.manifest.indices or not 0 < len(source.index) <= _FEW_KEYS:
        return None
    whole = pa.array(source.index.rows)
    tests = []
    for path, values in zip(source.key.paths, source.key.values(source.rows), strict=True):
        found, kind = values.take(whole).unique(), to_arrow_field(source.table.along(path)[-1]).type
        # Keys of text are compared as large texts, an index has them as the column does.
        is_small = pt.is_string(kind) or pt.is_binary(kind)
        tests.append(ValueTests.any_of(path, found.cast(kind) if is_small else found))
    return narrow_by_values(snapshot, tests)


@dataclass(frozen=True, slots=True)
class Matches:
    """Rows of one fragment, by their physical offsets."""

    fragment_id: FragmentId
    offsets: Positions
    """Physical offsets of the rows to be changed, rising."""
    positions: Positions
    """For each row to be changed, the row of the source that has its key."""
    orphans: BitMap = field(default_factory=BitMap)
    """Rows whose key no row of the source has."""

    @property
    def bitmap(self) -> BitMap:
        """The rows to be changed."""
        return bitmap_of(self.offsets)


def matches_of(changed: Addresses, positions: Positions, gone: Addresses) -> list[Matches]:
    """The matches in each fragment: rows of the table that are changed, in any order, with the row
    of the source for each, and rows that go."""
    order = np.argsort(changed, kind="stable")
    offsets = dict(offsets_by_fragment(changed[order]))
    ends = np.cumsum([len(each) for each in offsets.values()])[:-1]
    paired = dict(zip(offsets, np.split(positions[order], ends), strict=bool(offsets)))
    orphans = dict(offsets_by_fragment(gone))
    none = np.empty(0, np.int64)
    return [
        Matches(
            each,
            offsets.get(each, none),
            paired.get(each, none),
            bitmap_of(orphans.get(each, none)),
        )
        for each in sorted({**offsets, **orphans})
    ]


@dataclass(frozen=True, slots=True)
class Found:
    """The matches in some fragments, and what was seen beside them."""

    matches: tuple[Matches, ...]
    """Fragments with nothing to change are not among them."""
    seen: BitMap
    """The rows of the source that match a row of the table, changed or not."""
    unchanged: int
    """Rows of the table that match and stay as they are."""


def find_matches(search: Search, fragments: Sequence[Fragment]) -> Found:
    """The task: look for the source's keys in some fragments."""
    if not search.wants_orphans:
        fragments = [each for each in fragments if _can_match(search, each)]
    parts: list[Matches] = []
    seen, unchanged = BitMap(), 0
    for rows in _portions(search, fragments):
        addresses: Addresses = rows.column(ROW_ADDRESS).to_numpy()
        positions = search.index.find(search.key.values(rows))
        hits = np.flatnonzero(positions >= 0)
        seen |= bitmap_of(positions[hits])
        chosen = _chosen(search, rows, positions, hits)
        unchanged += len(hits) - len(chosen)
        orphans = np.flatnonzero(positions < 0) if search.wants_orphans else hits[:0]
        parts += _by_fragment(addresses, positions, chosen, orphans)
    return Found(tuple(_joined(parts)), seen, unchanged)


def _can_match(search: Search, fragment: Fragment) -> bool:
    """Whether the fragment has all columns of the key: a missing one is null, and matches none."""
    return bool(len(search.index)) and not search.key_columns.missing(fragment)


def _portions(search: Search, fragments: Sequence[Fragment]) -> Iterator[pa.Table]:
    """The key columns and addresses of live rows, in portions whose lookup pays."""
    if not fragments:
        return
    least = min(max(_LEAST_PORTION, len(search.index)), _MOST_PORTION)
    request = ScanRequest(
        columns=search.columns,
        with_row_address=True,
        fragments=fragments,
        rows=search.candidates,
    )
    waiting: list[pa.RecordBatch] = []
    held = 0
    for batch in ScanPlan(search.snapshot, request).batches():
        waiting.append(batch)
        held += batch.num_rows
        if held >= least:
            yield pa.Table.from_batches(waiting)
            waiting, held = [], 0
    if waiting:
        yield pa.Table.from_batches(waiting)


def _chosen(search: Search, rows: pa.Table, positions: Positions, hits: Positions) -> Positions:
    """The matching rows that are to be changed, of those at ``hits``."""
    if not search.changes_matches:
        return hits[:0]
    condition = search.condition
    if condition is None or not len(hits):
        return hits
    names = dict.fromkeys(each.partition(".")[0] for each in condition.target_columns)
    target = rows.select([each for each in rows.schema.names if each in names])
    kept = []
    for start in range(0, len(hits), _CONDITION_ROWS):
        part = hits[start : start + _CONDITION_ROWS]
        mine, theirs = rows_at(search.conditional, positions[part]), rows_at(target, part)
        kept.append(part[condition.mask(mine, theirs)])
    return np.concatenate(kept)


def _by_fragment(
    addresses: Addresses, positions: Positions, chosen: Positions, orphans: Positions
) -> Iterator[Matches]:
    """The rows of one portion, fragment by fragment."""
    touched = np.unique(np.concatenate([addresses[chosen], addresses[orphans]]) >> _ROW_BITS)
    changing, lost = _split(addresses, chosen, touched), _split(addresses, orphans, touched)
    for number, mine, theirs in zip(touched.tolist(), changing, lost, strict=True):
        yield Matches(
            FragmentId(number),
            (addresses[mine] & _OFFSET).astype(np.int64),
            positions[mine],
            bitmap_of(addresses[theirs] & _OFFSET),
        )


def _split(addresses: Addresses, rows: Positions, fragments: Addresses) -> Iterator[Positions]:
    """The rows of each of the fragments. A scan gives the rows of one fragment in one stretch."""
    owners = addresses[rows] >> _ROW_BITS
    order = np.argsort(owners, kind="stable")
    begins = np.searchsorted(owners[order], fragments)
    ends = np.searchsorted(owners[order], fragments, side="right")
    for begin, end in zip(begins.tolist(), ends.tolist(), strict=True):
        yield rows[order[begin:end]]


def _joined(parts: Sequence[Matches]) -> Iterator[Matches]:
    """One entry for each fragment: a portion may have ended within one."""
    by_id: dict[FragmentId, list[Matches]] = {}
    for each in parts:
        by_id.setdefault(each.fragment_id, []).append(each)
    for number, found in by_id.items():
        if len(found) == 1:
            yield found[0]
            continue
        yield Matches(
            number,
            np.concatenate([each.offsets for each in found]),
            np.concatenate([each.positions for each in found]),
            BitMap.union(*(each.orphans for each in found)),
        )
