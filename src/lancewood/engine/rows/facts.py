"""One fragment: its data files, opened wherever a snapshot says they are, and facts about its rows
that are not stored in them.

Those are which rows are deleted, their addresses and ids, and which versions made and last changed
them. Ids and versions are usually in the manifest, but may be in a part of another file below the
table's root, as the specification allows, or spilled into columns of the fragment's own data files,
as pylance does on request. What a manifest says about other files is checked first.

A new column file has one value for every physical row: a deleted row gets a null, or where that
cannot be stored a copy of a live row's value; nobody reads it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap

from lancewood.data.local_copy import readable_location
from lancewood.data.reader import FragmentReader
from lancewood.data.small_fragments import TO_READ, SmallFragments, SmallSizes
from lancewood.data.wanted import Layout, WantedColumns, layout_of, value_width
from lancewood.engine.snapshot import Snapshot
from lancewood.errors import (
    FormatError,
    InvalidInputError,
    LancewoodError,
    NotFoundError,
    found_in,
)
from lancewood.model.bitmap import bitmap_runs
from lancewood.model.fragment import DataFile, ExternalRange, Fragment, Lineage
from lancewood.model.ids import FieldId
from lancewood.model.manifest import decode_fragment
from lancewood.model.rowids import FIRST_VERSION, RowIdSequence, RowVersions
from lancewood.model.schema import CREATED_AT, LAST_UPDATED_AT, ROW_ADDRESS, ROW_ID, Field, Schema
from lancewood.store.base import check_key


def open_fragment(
    snapshot: Snapshot, fragment: Fragment, wanted: Schema | WantedColumns
) -> FragmentReader:
    """A reader of the wanted columns; opens no file yet."""

    def elsewhere(file: DataFile) -> Iterator[tuple[str, Mapping[str, str] | None]]:
        location, head = snapshot.location, snapshot.manifest
        _, key = location.data_file(head, file)
        for store, options in location.elsewhere(head, file.base_id):
            yield readable_location(store, key), options

    with found_in(snapshot.manifest.name):
        return FragmentReader(
            fragment,
            wanted,
            partial(_locate, snapshot),
            elsewhere=elsewhere,
            are_deleted=RowFacts(snapshot, fragment).are_deleted,
        )


def small_fragments(
    snapshot: Snapshot, wanted: WantedColumns, sizes: SmallSizes = TO_READ
) -> SmallFragments:
    """A reader of the wanted columns of small fragments."""
    locate, open_one = partial(_locate, snapshot), partial(open_fragment, snapshot)
    return SmallFragments(wanted, locate, open_one, sizes=sizes)


def _locate(snapshot: Snapshot, file: DataFile) -> tuple[str, Mapping[str, str] | None]:
    location, head = snapshot.location, snapshot.manifest
    store, key = location.data_file(head, file)
    return readable_location(store, key), location.options_at(head, file.base_id)


_WIDTHS = "column widths"
"""The key in ``derived`` for what ``column_widths`` found."""
_SAMPLE = 32
_MOST_LAYOUTS = 3


def column_widths(snapshot: Snapshot) -> Mapping[str, float]:
    """Stored bytes per row of each top-level column, nested ones included.

    Exact for the fragments that are opened: one, or one of each layout where a sample has several.
    What they cannot tell is estimated from types. Opens nothing the second time.
    """
    known: Mapping[str, float] | None = snapshot.derived.get(_WIDTHS)
    if known is None:
        known = snapshot.derived[_WIDTHS] = _column_widths(snapshot)
    return known


def _column_widths(snapshot: Snapshot) -> Mapping[str, float]:
    wanted = WantedColumns(snapshot.schema)
    sample: dict[Layout, list[Fragment]] = {}
    raw, name = snapshot.manifest.message.fragments, snapshot.manifest.name
    for at in np.unique(np.linspace(0, len(raw) - 1, _SAMPLE).astype(int)) if len(raw) else ():
        fragment = Fragment(decode_fragment(raw[at], name))
        sample.setdefault(layout_of(fragment), []).append(fragment)
    found: list[tuple[int, Mapping[str, float]]] = []
    for alike in sorted(sample.values(), key=len, reverse=True)[:_MOST_LAYOUTS]:
        try:
            reader = open_fragment(snapshot, max(alike, key=lambda e: e.physical_rows), wanted)
            reader.look()
            found.append((len(alike), reader.stored_widths()))
        except LancewoodError:  # reading it will say why
            continue
    if not found:
        return {each.name: value_width(each.type) for each in wanted.arrow}
    total = sum(count for count, _ in found)
    return {
        each: sum(count * widths[each] for count, widths in found) / total
        for each in snapshot.schema.names
    }


_NAMES: dict[Lineage, str] = {
    "row_ids": ROW_ID,
    "created_at_versions": CREATED_AT,
    "last_updated_at_versions": LAST_UPDATED_AT,
}

_FEW_BYTES = 64
_decode_versions = lru_cache(maxsize=1024)(RowVersions.decode)
"""Fragments of one write encode their versions in the same few bytes."""


def load_row_ids(snapshot: Snapshot, fragment: Fragment) -> RowIdSequence | None:
    """The stable row ids of a fragment; None where it has none."""
    with found_in(snapshot.manifest.name):
        found = _load(snapshot, fragment, "row_ids")
        if isinstance(found, bytes):
            return RowIdSequence.decode(found, fragment.check_length)
        return None if found is None else RowIdSequence.from_values(found)


def load_row_versions(snapshot: Snapshot, fragment: Fragment, what: Lineage) -> RowVersions | None:
    """The version of each row; None means the first for all."""
    with found_in(snapshot.manifest.name):
        found = _load(snapshot, fragment, what)
        if isinstance(found, bytes):
            if len(found) > _FEW_BYTES:
                return RowVersions.decode(found, fragment.check_length)
            versions = _decode_versions(found)
            fragment.check_length("row version sequence", len(versions))
            return versions
        return None if found is None else RowVersions.from_values(found)


def _load(
    snapshot: Snapshot, fragment: Fragment, what: Lineage
) -> bytes | npt.NDArray[np.uint64] | None:
    location = fragment.lineage(what)
    if isinstance(location, ExternalRange):
        return _external(snapshot, fragment, what, location)
    if isinstance(location, bytes | None):
        return location
    return _spilled(snapshot, fragment, what, location)


def _external(
    snapshot: Snapshot, fragment: Fragment, what: Lineage, location: ExternalRange
) -> bytes:
    which = f"the {what.replace('_', ' ')} of fragment {fragment.id}"
    try:
        check_key(location.path)
    except InvalidInputError as cause:
        raise FormatError(
            f"{which} are said to be at {location.path!r}, which is not below the table: {cause}",
            fragment=fragment.id,
        ) from cause
    store = snapshot.location.store
    try:
        size = store.head(location.path).size
    except NotFoundError as cause:
        path = f"{store.uri}/{location.path}"
        raise NotFoundError(f"{path}, with {which}, is missing", file=path) from cause
    if location.offset + location.size > size:
        raise FormatError(
            f"{location.path} has {size} bytes, {which} would take {location.size} from "
            f"{location.offset}",
            fragment=fragment.id,
        )
    return store.get_range(location.path, location.offset, location.size)


def _spilled(
    snapshot: Snapshot, fragment: Fragment, what: Lineage, field: FieldId
) -> npt.NDArray[np.uint64]:
    if not any(field in each.fields for each in fragment.files):
        raise FormatError(
            f"fragment {fragment.id} keeps its {what.replace('_', ' ')} in a column that none of "
            "its data files has",
            fragment=fragment.id,
        )
    column = Field(field, _NAMES[what], "uint64", nullable=False)
    batches = open_fragment(snapshot, fragment, Schema((column,))).batches()
    parts = [each.column(0).to_numpy(zero_copy_only=False) for each in batches]
    return np.concatenate([np.empty(0, np.uint64), *parts])


_Ints: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True)
class RowFacts:
    """What is known of the rows of a fragment; loads a deletion file or sequence when first
    needed."""

    snapshot: Snapshot
    fragment: Fragment

    @cached_property
    def deleted(self) -> BitMap:
        bitmap = self.snapshot.deletions(self.fragment)
        return BitMap() if bitmap is None else bitmap

    @cached_property
    def _gone(self) -> tuple[_Ints, _Ints, _Ints]:
        """Runs of deleted offsets: where they begin and end, and how many rows are deleted before
        each and in all. Runs, because a small file can delete four billion rows."""
        begins, ends = bitmap_runs(self.deleted)
        return begins, ends, np.concatenate(([0], np.cumsum(ends - begins)))

    def are_deleted(self, offsets: _Ints) -> npt.NDArray[np.bool_]:
        """Which of the physical offsets are deleted."""
        begins, ends, _ = self._gone
        if not len(begins):
            return np.zeros(len(offsets), np.bool_)
        before = np.searchsorted(begins, offsets, side="right") - 1
        return (before >= 0) & (offsets < ends[before])

    @cached_property
    def row_ids(self) -> RowIdSequence | None:
        """The stable row ids; None on a table without them."""
        if not self.snapshot.manifest.has_stable_row_ids:
            return None
        ids = load_row_ids(self.snapshot, self.fragment)
        if ids is None:
            raise FormatError(
                f"{self.snapshot.manifest.name}: fragment {self.fragment.id} of a table with "
                "stable row ids has no row ids"
            )
        return ids

    @cached_property
    def live_ids(self) -> RowIdSequence:
        """The stable row ids of the live rows; only for tables that have them."""
        ids = self.row_ids
        assert ids is not None, "asked of a table without stable row ids"
        return ids if self.fragment.deletion_file is None else ids.without(self.deleted)

    def live_mask(self, first: int, rows: int) -> npt.NDArray[np.bool_] | None:
        """Which of the physical rows from ``first`` on are live; None means all."""
        if self.fragment.deletion_file is None:
            return None
        begins, ends, _ = self._gone
        low = np.searchsorted(ends, first, side="right")
        high = np.searchsorted(begins, first + rows)
        if low == high:
            return None
        turns = np.zeros(rows + 1, np.int8)
        turns[np.maximum(begins[low:high] - first, 0)] = 1
        turns[np.minimum(ends[low:high] - first, rows)] = -1
        mask: npt.NDArray[np.bool_] = np.cumsum(turns[:rows], dtype=np.int8) == 0
        return mask

    def physical_offsets(self, live: _Ints) -> _Ints:
        """Physical offsets of the n-th live rows: each deleted row before one shifts it by one."""
        if self.fragment.deletion_file is None:
            return live
        begins, _, before = self._gone
        return live + before[np.searchsorted(begins - before[:-1], live, side="right")]

    def physical_range(self, skip: int, count: int | None, physical: int) -> tuple[int, int]:
        """The physical rows that hold the live rows ``skip`` to ``skip + count``."""
        if self.fragment.deletion_file is not None and len(self.deleted) >= physical:
            return 0, 0
        if not skip and count is None:
            return 0, physical
        last = physical - len(self.deleted) - 1 if count is None else skip + count - 1
        start, end = self.physical_offsets(np.array([skip, last], np.int64))
        return int(start), int(end) + 1

    @cached_property
    def created_at(self) -> RowVersions | None:
        """The version that made each physical row; None means the first for all."""
        return load_row_versions(self.snapshot, self.fragment, "created_at_versions")

    @cached_property
    def last_updated_at(self) -> RowVersions | None:
        """The version that last changed each physical row; None means the first for all."""
        return load_row_versions(self.snapshot, self.fragment, "last_updated_at_versions")

    def column(self, name: str, first: int, rows: int) -> pa.Array:
        """A system column for the physical rows from ``first`` on."""
        if name == ROW_ID and self.row_ids is not None:
            return pa.array(self.row_ids.slice(first, first + rows).to_numpy(), pa.uint64())
        return self.column_at(name, np.arange(first, first + rows, dtype=np.int64))

    def column_at(self, name: str, offsets: _Ints) -> pa.Array:
        """A system column for these physical offsets."""
        if name == ROW_ID and self.row_ids is not None:
            values = self.row_ids.values_at(offsets)
        elif name in (ROW_ID, ROW_ADDRESS):
            values = offsets.astype(np.uint64) + np.uint64(self.fragment.id << 32)
        elif name == CREATED_AT:
            values = _pick(self.created_at, offsets)
        elif name == LAST_UPDATED_AT:
            values = _pick(self.last_updated_at, offsets)
        else:
            raise ValueError(f"{name!r} is not a system column")
        return pa.array(values, pa.uint64())


def _pick(versions: RowVersions | None, offsets: _Ints) -> npt.NDArray[np.uint64]:
    if versions is None:
        return np.full(len(offsets), FIRST_VERSION, np.uint64)
    return versions.values_at(offsets)


_WINDOW = 65_536


class Portions:
    """A stream of batches, from which any number of rows can be taken."""

    def __init__(self, batches: Iterable[pa.RecordBatch]) -> None:
        self._batches = iter(batches)
        self._rest: pa.RecordBatch | None = None

    def take(self, rows: int) -> Iterator[pa.RecordBatch]:
        """The next rows; fewer at the end of the stream."""
        while rows:
            if self._rest is None or not self._rest.num_rows:
                self._rest = next(self._batches, None)
                if self._rest is None:
                    return
            head = self._rest.slice(0, rows)
            self._rest = self._rest.slice(head.num_rows)
            rows -= head.num_rows
            if head.num_rows:
                yield head

    def peek(self) -> pa.RecordBatch | None:
        """The first remaining row; None if there is none."""
        while self._rest is None or not self._rest.num_rows:
            self._rest = next(self._batches, None)
            if self._rest is None:
                return None
        return self._rest.slice(0, 1)


def spread(
    facts: RowFacts, live: Iterable[pa.RecordBatch], fields: Sequence[Field]
) -> Iterator[pa.RecordBatch]:
    """The values of the live rows, in order, at their positions among the physical rows.

    ``fields`` are the columns of the batches. Raises InvalidInputError if the values are more or
    fewer than the live rows.
    """
    if facts.fragment.deletion_file is None:
        yield from live
        return
    rows, portions = facts.fragment.physical_rows, Portions(live)
    first = portions.peek()
    for start in range(0, rows, _WINDOW):
        count = min(_WINDOW, rows - start)
        mask = facts.live_mask(start, count)
        if mask is None:
            found = 0
            for batch in portions.take(count):
                found += batch.num_rows
                yield batch
            _check_count(facts, found, count)
            continue
        locations = np.flatnonzero(mask)
        batches = list(portions.take(len(locations)))
        _check_count(facts, sum(each.num_rows for each in batches), len(locations))
        yield _window(facts, batches, first, fields, locations, count)
    if portions.peek() is not None:
        _check_count(facts, rows, rows - len(facts.deleted))


def _window(
    facts: RowFacts,
    batches: list[pa.RecordBatch],
    first: pa.RecordBatch | None,
    fields: Sequence[Field],
    locations: np.ndarray[tuple[int], np.dtype[np.intp]],
    count: int,
) -> pa.RecordBatch:
    if first is None:
        raise InvalidInputError(
            f"all rows of fragment {facts.fragment.id} are deleted, a column file has no value to "
            "put there; compact the table first",
            fragment=facts.fragment.id,
        )
    whole = pa.concat_batches([first, *batches])
    at = np.zeros(count, np.int64)
    at[locations] = np.arange(1, len(locations) + 1)
    with_nulls = pa.array(at, mask=at == 0)
    with_first = pa.array(at)
    columns = [
        column.take(with_nulls if _takes_null(field) else with_first)
        for field, column in zip(fields, whole.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=whole.schema)


def _takes_null(field: Field) -> bool:
    """Whether every file version can hold a null of the column."""
    return field.nullable and all(each.logical_type != "struct" for each in field.walk())


def _check_count(facts: RowFacts, found: int, wanted: int) -> None:
    if found != wanted:
        raise InvalidInputError(
            f"the values for fragment {facts.fragment.id} are "
            f"{'more' if found > wanted else 'fewer'} than its live rows",
            fragment=facts.fragment.id,
        )
