"""Which fragments can hold a row that passes a filter, judged from the manifest alone.

Considers addresses, row ids, row versions, and columns that no file of a fragment holds, which are
null. Opens no data file. An answer of yes guarantees nothing; a broken fragment is yes, so that its
error is raised when it is read.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, lru_cache

import pyarrow as pa
from google.protobuf.message import DecodeError

from lancewood.data.wanted import WantedColumns
from lancewood.engine.snapshot import Snapshot
from lancewood.errors import FormatError, InvalidInputError, LancewoodError
from lancewood.expr import Bound, Predicate
from lancewood.format.schema import to_scan_schema
from lancewood.model.fragment import Fragment, Lineage
from lancewood.model.ids import MAX_U64, FieldId, FragmentId
from lancewood.model.rowids import RowIdSequence, RowVersions
from lancewood.model.schema import CREATED_AT, LAST_UPDATED_AT, ROW_ADDRESS, ROW_ID, SYSTEM_COLUMNS
from lancewood.proto.rowids_pb2 import RowIdSequence as RowIdMessage

_Range = tuple[int, int]
_ROW_BITS = 32
_MOST_POINTS = 10_000
_ANY = ((0, MAX_U64),)


class Pruner:
    """The fragments of one snapshot, judged by one filter."""

    def __init__(self, snapshot: Snapshot, predicate: Predicate, filtering: WantedColumns) -> None:
        self._snapshot = snapshot
        self._predicate = predicate
        self._filtering = filtering
        self._verdicts: dict[frozenset[FieldId], bool] = {}
        bounds = predicate.bounds()
        self._system = [_Limits(each) for each in bounds if each.path[0] in SYSTEM_COLUMNS]
        self._stored = [each for each in bounds if each.path[0] not in SYSTEM_COLUMNS]

    @cached_property
    def is_hopeless(self) -> bool:
        """Whether no row of any fragment passes: the filter is a constant that is not true."""
        return not self._predicate.columns and not self._passes_nulls()

    def pruned(self, fragments: Sequence[Fragment] | None) -> Iterator[Fragment]:
        """The given fragments (None: all) that can match, in order, evaluated lazily."""
        if self.is_hopeless:
            return
        if fragments is None:
            named = self._named()
            fragments = self._snapshot.manifest.fragments if named is None else named
        yield from (each for each in fragments if self.can_match(each))

    def can_match(self, fragment: Fragment) -> bool:
        """False only where no row of the fragment passes."""
        try:
            if not all(self._may_hold(fragment, each) for each in self._system):
                return False
            missing = self._filtering.missing(fragment)
        except LancewoodError:
            return True
        if not missing:
            return True
        verdict = self._verdicts.get(missing)
        if verdict is None:
            verdict = self._verdicts[missing] = self._can_match_without(missing)
        return verdict

    def _named(self) -> list[Fragment] | None:
        """The fragments of the addresses that the filter names; None where it names none.

        Avoids decoding every fragment of a large table.
        """
        manifest = self._snapshot.manifest
        for each in self._system:
            points = each.points
            if self._is_address(each) and points is not None and len(points) <= _MOST_POINTS:
                numbers = {FragmentId(point >> _ROW_BITS) for point in points}
                found = {manifest.position_of(number): number for number in numbers}
                locations = sorted(location for location in found if location is not None)
                return [manifest.fragment(found[location]) for location in locations]
        return None

    def _is_address(self, limits: _Limits) -> bool:
        return limits.name == ROW_ADDRESS or (
            limits.name == ROW_ID and not self._snapshot.manifest.has_stable_row_ids
        )

    def _may_hold(self, fragment: Fragment, limits: _Limits) -> bool:
        if self._is_address(limits):
            first = fragment.id << _ROW_BITS
            rows = fragment.physical_rows or 1 << _ROW_BITS
            return limits.meet([(first, first + rows - 1)])
        if limits.name == ROW_ID:
            ids = fragment.lineage("row_ids")
            # Where they are not in the manifest, reading them costs more than pruning saves.
            return not isinstance(ids, bytes) or limits.meet(_ids(ids))
        return limits.meet(_versions(fragment, limits.name))

    def _can_match_without(self, missing: frozenset[FieldId]) -> bool:
        """Whether a row can pass if these fields are null in its fragment."""
        if any(self._is_null(each, missing) and each.op != "is null" for each in self._stored):
            return False
        leaves = {each.id for each in self._filtering.schema.walk() if each.is_column_leaf}
        reads_system = any(each in SYSTEM_COLUMNS for each in self._predicate.columns)
        return reads_system or not leaves <= missing or self._passes_nulls()

    def _is_null(self, bound: Bound, missing: frozenset[FieldId]) -> bool:
        field = self._filtering.schema.by_name[bound.path[0]]
        for name in bound.path[1:]:
            below = next((each for each in field.children if each.name == name), None)
            if below is None:
                return False
            field = below
        return all(each.id in missing for each in field.walk() if each.is_column_leaf)

    def _passes_nulls(self) -> bool:
        """Whether a row passes whose stored columns are all null; True if undecided."""
        schema = to_scan_schema(self._filtering.schema)
        arrays = [pa.nulls(1, each.type) for each in schema]
        if arrays:
            row = pa.RecordBatch.from_arrays(arrays, names=schema.names)
        else:
            row = pa.RecordBatch.from_struct_array(pa.array([{}], pa.struct([])))
        try:
            return bool(self._predicate.mask(row)[0].as_py())
        except InvalidInputError:
            return True


class _Limits:
    """What a bound says about a system column, prepared for many lookups."""

    def __init__(self, bound: Bound) -> None:
        self.name = bound.path[0]
        self._op = bound.op
        value = bound.value
        found = sorted(value.to_pylist()) if isinstance(value, pa.Array) else []
        found = [value.as_py()] if isinstance(value, pa.Scalar) else found
        self.points: list[int] | None = found if bound.op in ("=", "in") else None
        """The only values that a row may have; None where there is no such list."""
        self._value: int | None = found[0] if found else None

    def meet(self, ranges: Iterable[_Range]) -> bool:
        """Whether one of the ranges holds an allowed value."""
        if self._op in ("is null", "is not null"):
            return self._op == "is not null"
        return any(self._meets(low, high) for low, high in ranges)

    def _meets(self, low: int, high: int) -> bool:
        if self.points is not None:
            at = bisect_left(self.points, low)
            return at < len(self.points) and self.points[at] <= high
        value = self._value
        if value is None:
            return False
        match self._op:
            case "<":
                return low < value
            case "<=":
                return low <= value
            case ">":
                return high > value
            case ">=":
                return high >= value
        return not low == high == value


def _ids(encoded: bytes) -> Iterable[_Range]:
    """The runs of a sequence of row ids; nearly every sequence is one range."""
    try:
        segments = RowIdMessage.FromString(encoded).segments
    except DecodeError:
        return _ANY
    if len(segments) == 1 and segments[0].HasField("range"):
        return ((segments[0].range.start, segments[0].range.end - 1),)
    runs = RowIdSequence.decode(encoded).runs()
    return ((first, first + count - 1) for _, first, count in runs)


_VERSIONS: dict[str, Lineage] = {
    CREATED_AT: "created_at_versions",
    LAST_UPDATED_AT: "last_updated_at_versions",
}


def _versions(fragment: Fragment, name: str) -> Iterable[_Range]:
    """The versions that rows of the fragment have; any, where the manifest does not hold them."""
    location = fragment.lineage(_VERSIONS[name])
    if location is None:
        return ((1, 1),)
    return _distinct(location, fragment.physical_rows) if isinstance(location, bytes) else _ANY


@lru_cache(maxsize=4096)
def _distinct(encoded: bytes, rows: int) -> tuple[_Range, ...]:
    """Cached, because fragments of one commit mostly have the same bytes."""
    versions = RowVersions.decode(encoded)
    if rows and len(versions) != rows:
        raise FormatError(f"{len(versions)} row versions for {rows} rows")
    return tuple((each, each) for each in sorted({each for _, each in versions.runs()}))
