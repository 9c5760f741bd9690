"""Which rows can meet a condition, by the scalar indices of a version.

An index is asked for every column that the condition bounds. Each of its segments answers for the
fragments in its own bitmap, whatever else its files name; fragments that no segment covers are left
to be scanned. Rows that are named may be too many, and deleted ones among them: whoever reads them
judges them by the whole condition. Where many rows can meet it, reading all of them in order is
cheaper than fetching some, and there is no answer; why, can be told in words.

A segment that is missing, or of a layout or version that we do not know, covers nothing: a scan is
always right. One whose files contradict themselves is a FormatError: what else is wrong in it
cannot be known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap

from lancewood.engine.base import Addresses, offsets_by_fragment
from lancewood.engine.lookup.bitmaps import Bitmaps
from lancewood.engine.lookup.btree import BTree
from lancewood.engine.lookup.value_tests import OTHER_TYPE, Budget, ValueTests
from lancewood.engine.lookup.zones import Spans, Zones
from lancewood.engine.snapshot import Snapshot
from lancewood.errors import InvalidInputError
from lancewood.model.fragment import Fragment
from lancewood.model.ids import FieldId, FragmentId
from lancewood.model.index import BITMAP, BTREE, ZONEMAP, Index, IndexKind, kind_of
from lancewood.model.manifest import decode_fragment
from lancewood.proto import table_pb2
from lancewood.rules.indices import is_remapping_deferred

Locate: TypeAlias = Callable[[npt.NDArray[np.uint64]], Addresses]
"""The addresses of stable row ids; ids without a live row are left out."""
Offsets: TypeAlias = npt.NDArray[np.int64]

_VERSIONS: Mapping[IndexKind, frozenset[int]] = {
    BTREE: frozenset({0, 1}),
    BITMAP: frozenset({0}),
    ZONEMAP: frozenset({0}),
}
"""The versions of each kind of index that are read here."""
_FEW_ROWS = 64
"""Number of rows that may be fetched by themselves, however small the table is."""
_WORTHWHILE = 800
"""One of this many rows, at most, is worth fetching by itself; rows in a row count as one."""
_MOST_NAMED = 100
"""One of this many rows, at most, is what an index may name."""
_MOST_MEETING = 20
"""One of this many rows, at most, is what an index may name where several answer together."""
_SAMPLE = 8
NOT_COVERING = "it covers no fragment (extend it)"
_NOT_OPENED = "a file of it is missing, or laid out in a way that is not known here"
_ANOTHER = "another index tells which rows to read"
_OTHER_FORM = (
    "only =, <, <=, >, >=, IN, BETWEEN, IS NULL and LIKE 'abc%' are looked up, joined by AND, or "
    "= and IN of one column by OR"
)


@dataclass(frozen=True)
class Lookup:
    """What indices say of the rows that can meet a condition."""

    names: tuple[str, ...] = ()
    """Names of the indices that are used; none where none helps."""
    covered: BitMap = field(default_factory=BitMap)
    """The fragments that these indices answer for, gone ones included."""
    rows: Mapping[FragmentId, Offsets] = field(default_factory=dict)
    """Physical rows of fragments, rising; a covered fragment without any holds no wanted row."""
    spans: Mapping[FragmentId, Spans] = field(default_factory=dict)
    """Stretches of rows by fragment, where indices know no single rows."""
    unused: Mapping[str, str] = field(default_factory=dict)
    """Why other indices on the columns that are tested do not help, in words, by name."""


def look_up(snapshot: Snapshot, tests: Sequence[ValueTests], locate: Locate) -> Lookup:
    """What indices say of rows that pass all tests.

    Raises FormatError for an index whose files contradict themselves.
    """
    known = _indices_of(snapshot)
    asked = [
        (each, index) for each in tests for index in known.get(_field_at(snapshot, each.path), ())
    ]
    exact = [(test, index) for test, index in asked if index.kind is not ZONEMAP]
    found = _named_rows(snapshot, exact, locate) if exact else Lookup()
    if not found.names:
        zoned = _zones(snapshot, [each for each in asked if each[1].kind is ZONEMAP])
        found = replace(zoned, unused={**found.unused, **zoned.unused})
    return found


def unused_indices(snapshot: Snapshot, columns: Iterable[str], found: Lookup) -> dict[str, str]:
    """Why indices on columns of a condition do not help, in words, by name, after a lookup."""
    known = snapshot.schema.by_name
    numbers = {part.id for name in columns if name in known for part in known[name].walk()}
    askable = {each.name for indices in _indices_of(snapshot).values() for each in indices}
    unused = {}
    for each in snapshot.manifest.indices:
        if each.name in found.names or numbers.isdisjoint(each.fields):
            continue
        if each.name in found.unused:
            unused[each.name] = found.unused[each.name]
        elif each.name in askable:
            unused[each.name] = _ANOTHER if found.names else _OTHER_FORM
        else:
            unused[each.name] = _why_not_asked(snapshot, each)
    return unused


def _why_not_asked(snapshot: Snapshot, index: Index) -> str:
    kind = kind_of(index)
    if kind in _VERSIONS and is_remapping_deferred(snapshot.manifest.indices):
        return "a compaction left its rows to be found anew: let pylance optimise the indices"
    if kind in _VERSIONS:
        return "it is of a version, or names rows in a way, that is not known here"
    return f"scans do not look into {kind or index.kind or 'indices of its kind'}"


def index_section(snapshot: Snapshot) -> bytes | None:
    """The indices for tasks that have some of the fragments each; None for none.

    A BITMAP is none of them: every task would read the rows of the whole table that have a value,
    and may not know where all of them are.
    """
    found = [
        segment.message
        for indices in _indices_of(snapshot).values()
        for index in indices
        for segment, _ in index.segments
        if index.kind is not BITMAP
    ]
    return table_pb2.IndexSection(indices=found).SerializeToString() if found else None


class _Segment(NamedTuple):
    segment: Index
    fragments: BitMap
    """The fragments that the segment covers, gone ones included."""


class _NamedIndex(NamedTuple):
    """An index that can be asked, with all of its segments that can."""

    name: str
    kind: IndexKind
    segments: tuple[_Segment, ...]


def _indices_of(snapshot: Snapshot) -> Mapping[FieldId, list[_NamedIndex]]:
    """The indices that can be asked, by the field that they are on."""
    known: Mapping[FieldId, list[_NamedIndex]] | None = snapshot.derived.get("indices by field")
    if known is None:
        known = snapshot.derived["indices by field"] = _askable(snapshot)
    return known


def _askable(snapshot: Snapshot) -> Mapping[FieldId, list[_NamedIndex]]:
    indices = snapshot.manifest.indices
    if is_remapping_deferred(indices):
        return {}
    groups: dict[tuple[FieldId, str, IndexKind], list[_Segment]] = {}
    for each in indices:
        kind = kind_of(each)
        if kind is not None and len(each.fields) == 1 and _is_known(snapshot, each, kind):
            groups.setdefault((each.fields[0], each.name, kind), []).append(
                _Segment(each, each.fragments)
            )
    found: dict[FieldId, list[_NamedIndex]] = {}
    for (number, name, kind), segments in groups.items():
        found.setdefault(number, []).append(_NamedIndex(name, kind, tuple(segments)))
    return found


def _is_known(snapshot: Snapshot, index: Index, kind: IndexKind) -> bool:
    if not index.message.HasField("index_version"):
        return False
    if snapshot.manifest.has_stable_row_ids and index.row_names is None:
        return False
    return index.message.index_version in _VERSIONS.get(kind, frozenset())


def _field_at(snapshot: Snapshot, path: Sequence[str]) -> FieldId:
    """The field at a path; -1 for a system column."""
    if path[0] not in snapshot.schema.by_name:
        return FieldId(-1)
    return snapshot.schema.along(path)[-1].id


class _Answer(NamedTuple):
    """What one index says."""

    name: str
    covered: BitMap
    rows: Addresses
    """Rising and distinct, all in covered fragments."""


def _named_rows(
    snapshot: Snapshot, asked: Sequence[tuple[ValueTests, _NamedIndex]], locate: Locate
) -> Lookup:
    """The rows that all indices together leave, if they are not too many."""
    total = _rows_about(snapshot)
    most = max(_FEW_ROWS, total // (_MOST_NAMED if len(asked) == 1 else _MOST_MEETING))
    told = {index.name: _ask(snapshot, index, tests, most, locate) for tests, index in asked}
    answers = [each for each in told.values() if isinstance(each, _Answer)]
    unused = {name: each for name, each in told.items() if isinstance(each, str)}
    if not answers:
        return Lookup(unused=unused)
    names = tuple(each.name for each in answers)
    rows = answers[0].rows if len(answers) == 1 else _met(answers)
    runs = np.count_nonzero(np.diff(rows) != 1) + 1
    # Whether fetching the rows costs less than reading all of a table.
    if len(rows) > max(_FEW_ROWS, total // _MOST_NAMED) or runs > max(
        _FEW_ROWS, total // _WORTHWHILE
    ):
        why = _too_many(snapshot, f"{len(rows):,}", f" in {runs:,} places")
        return Lookup(unused={**unused, **dict.fromkeys(names, why)})
    covered = BitMap.union(*(each.covered for each in answers))
    return Lookup(names, covered, dict(offsets_by_fragment(rows)), unused=unused)


def _too_many(snapshot: Snapshot, rows: str, places: str = "") -> str:
    about = "about " if snapshot.manifest.fragment_count > _SAMPLE else ""
    total = f"{about}{_rows_about(snapshot):,} rows{places}"
    return f"{rows} of {total}, too many to be picked one by one"


def _met(answers: Sequence[_Answer]) -> Addresses:
    """The rows that every index names which covers their fragment."""
    rows = np.unique(np.concatenate([each.rows for each in answers]))
    for each in answers:
        rows = rows[np.isin(rows, each.rows, assume_unique=True) | ~_are_in(rows, each.covered)]
    return rows


def _ask(
    snapshot: Snapshot, index: _NamedIndex, tests: ValueTests, most: int, locate: Locate
) -> _Answer | str:
    """What an index says; in words why not, if it names more than ``most`` rows, or covers
    nothing."""
    covered, parts, held, why = BitMap(), [np.empty(0, np.uint64)], 0, NOT_COVERING
    for segment, fragments in index.segments:
        if not fragments:
            continue
        opened = _opened(snapshot, index.kind, segment)
        if opened is None or isinstance(opened, Zones):
            why = _NOT_OPENED
            continue
        found = opened.find(tests, Budget(most - held, _rows_about(snapshot)))
        if found is None:
            return OTHER_TYPE
        if isinstance(found, int):
            return _too_many(snapshot, f"at least {held + found:,}")
        if segment.holds_row_ids and snapshot.manifest.has_stable_row_ids:
            found = locate(found)
        covered |= fragments
        parts.append(found[_are_in(found, fragments)])
        held += len(parts[-1])
    rows = np.concatenate(parts)
    return _Answer(index.name, covered, np.unique(rows)) if covered else why


def _are_in(rows: Addresses, fragments: BitMap) -> npt.NDArray[np.bool_]:
    """Which of the addresses are in one of the fragments."""
    owners, at = np.unique(rows >> np.uint64(32), return_inverse=True)
    chosen = np.fromiter((each in fragments for each in owners.tolist()), np.bool_, len(owners))
    return chosen[at]


def _zones(snapshot: Snapshot, asked: Sequence[tuple[ValueTests, _NamedIndex]]) -> Lookup:
    """The stretches of rows that the first index with an answer leaves."""
    unused: dict[str, str] = {}
    for tests, index in asked:
        covered, why = BitMap(), NOT_COVERING
        spans: dict[FragmentId, Spans] = {}
        for segment, fragments in index.segments:
            if not fragments:
                continue
            opened = _opened(snapshot, index.kind, segment)
            found = opened.find(tests, fragments) if isinstance(opened, Zones) else _NOT_OPENED
            if isinstance(found, str):
                why = found
            else:
                covered |= found[0]
                spans |= found[1]
        if covered:
            return Lookup((index.name,), covered, spans=spans, unused=unused)
        unused[index.name] = why
    return Lookup(unused=unused)


_OPEN = {BTREE: BTree.open, BITMAP: Bitmaps.open, ZONEMAP: Zones.open}


def _opened(snapshot: Snapshot, kind: IndexKind, segment: Index) -> BTree | Bitmaps | Zones | None:
    """Open a segment; None where it cannot be asked."""
    known = snapshot.derived.setdefault("index segments", {})
    if segment.uuid not in known:
        try:
            known[segment.uuid] = _OPEN[kind](snapshot, segment)
        except InvalidInputError:  # its base path is not among those that the caller allows
            known[segment.uuid] = None
    opened: BTree | Bitmaps | Zones | None = known[segment.uuid]
    return opened


def _rows_about(snapshot: Snapshot) -> int:
    """About how many rows the table has, from a few fragments."""
    known: int | None = snapshot.derived.get("rows about")
    if known is None:
        raw, name = snapshot.manifest.message.fragments, snapshot.manifest.name
        sample = np.unique(np.linspace(0, len(raw) - 1, _SAMPLE).astype(int)) if len(raw) else ()
        rows = [Fragment(decode_fragment(raw[at], name)).physical_rows for at in sample]
        known = snapshot.derived["rows about"] = len(raw) * sum(rows) // max(len(rows), 1)
    return known
