"""Fetching single rows, by position in the table or by row id, and finding their blobs.

Rows come back in the order asked for, repeats included; each data file is opened once. Live ids are
unique, so the concatenated sequences of all fragments, without deleted rows, map ids to positions.
That index is built when first needed, and kept with the snapshot.

Blobs have two layouts, and the second has four kinds of storage. Only their descriptors are
fetched; nothing is opened until a blob is read.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lancewood.data.blob_file import BlobFile
from lancewood.data.wanted import WantedColumns
from lancewood.engine.base import WORKERS, Addresses, addresses_in, as_list, in_order
from lancewood.engine.rows.facts import RowFacts, open_fragment
from lancewood.engine.rows.row_shape import RowShape
from lancewood.engine.schema import Projection, project
from lancewood.engine.snapshot import Snapshot
from lancewood.errors import FormatError, InvalidInputError, NotFoundError, UnsupportedError
from lancewood.format.layout import blob_key
from lancewood.model.fragment import DataFile, Fragment
from lancewood.model.ids import MAX_U64, BaseId, FragmentId
from lancewood.model.rowids import RowIdSequence
from lancewood.model.schema import ROW_ADDRESS, Field
from lancewood.store.base import Store, is_there


def positions_of(snapshot: Snapshot, row_ids: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
    """The position of each row in the table, as a scan counts them; -1 for an id that is gone."""
    index = snapshot.derived.get("row ids")
    if index is None:
        index = snapshot.derived["row ids"] = _live_ids(snapshot)
    positions: npt.NDArray[np.int64] = index.find(row_ids)
    return positions


def _live_ids(snapshot: Snapshot) -> RowIdSequence:
    parts = []
    for fragment in snapshot.manifest.fragments:
        facts = RowFacts(snapshot, fragment)
        ids = facts.row_ids
        if ids is not None:
            parts.append(ids.without(facts.deleted) if fragment.deletion_file else ids)
    return RowIdSequence.concat(parts)


Numbers: TypeAlias = Sequence[int] | npt.NDArray[np.integer[Any]]
"""Whole numbers in any form that a caller may pass."""
Taken: TypeAlias = Sequence[str] | Projection | None
"""Stored columns: by names, None for all, or as a caller projects them."""
_Ints: TypeAlias = npt.NDArray[np.int64]


def addresses_of(snapshot: Snapshot, row_ids: npt.NDArray[np.uint64]) -> Addresses:
    """The addresses of stable row ids, in no order; those that are gone are left out."""
    positions = positions_of(snapshot, row_ids)
    wanted = positions[positions >= 0]
    ends, starts = _ends_and_starts(snapshot)
    owner = np.searchsorted(ends, wanted, side="right")
    order = np.argsort(owner, kind="stable")
    numbers, begins = np.unique(owner[order], return_index=True)
    found = [np.empty(0, np.uint64)]
    for number, live in zip(numbers.tolist(), np.split(wanted[order], begins[1:]), strict=False):
        facts = RowFacts(snapshot, snapshot.manifest.fragments[number])
        offsets = facts.physical_offsets(live - starts[number])
        found.append(addresses_in(facts.fragment.id, offsets))
    return np.concatenate(found)


def _ends_and_starts(snapshot: Snapshot) -> tuple[_Ints, _Ints]:
    """The positions of the table at which each fragment ends and begins."""
    live = snapshot.manifest.rows_by_fragment
    if live is None:
        live = [_live_rows(snapshot, each) for each in snapshot.manifest.fragments]
    ends = np.cumsum(live, dtype=np.int64)
    return ends, ends - live


def take_positions(snapshot: Snapshot, positions: Numbers, columns: Taken = None) -> pa.Table:
    """The rows at these positions of the table, as a scan counts them.

    Raises InvalidInputError for a position that the table does not have.
    """
    asked = as_numbers(positions, "positions")
    ends, starts = _ends_and_starts(snapshot)
    total = int(ends[-1]) if len(ends) else 0
    outside = asked[asked >= total]
    if len(outside):
        raise InvalidInputError(
            f"position {outside[0]} does not exist: the table has {total} rows, counted from 0",
            rows=total,
        )
    wanted = asked.astype(np.int64)
    owner = np.searchsorted(ends, wanted, side="right")
    projection = _stored(snapshot, columns)
    return _gather(snapshot, projection, owner, wanted - starts[owner], _physical)


def take_row_ids(snapshot: Snapshot, row_ids: Numbers, columns: Taken = None) -> pa.Table:
    """The rows with these ids (on a table without stable row ids: these addresses).

    Raises NotFoundError for an id that no live row has.
    """
    wanted = as_numbers(row_ids, "row_ids")
    if snapshot.manifest.has_stable_row_ids:
        positions = positions_of(snapshot, wanted)
        _check_found(snapshot, wanted[positions < 0])
        return take_positions(snapshot, positions, columns)
    return take_addresses(snapshot, wanted, _stored(snapshot, columns))


def take_addresses(
    snapshot: Snapshot, wanted: npt.NDArray[np.uint64], projection: Projection
) -> pa.Table:
    """The rows at these addresses, with columns that may be computed.

    Raises NotFoundError for an address where no live row is.
    """
    owner = np.full(len(wanted), -1, np.int64)
    offsets = (wanted & np.uint64(0xFFFFFFFF)).astype(np.int64)
    numbers = wanted >> np.uint64(32)
    for number in np.unique(numbers):
        position = snapshot.manifest.position_of(FragmentId(int(number)))
        if position is not None:
            facts = RowFacts(snapshot, snapshot.manifest.fragments[position])
            inside = (numbers == number) & (offsets < facts.fragment.physical_rows)
            owner[inside & ~facts.are_deleted(offsets)] = position
    _check_found(snapshot, wanted[owner < 0])
    return _gather(snapshot, projection, owner, offsets, lambda _, chosen: chosen)


def _check_found(snapshot: Snapshot, lost: npt.NDArray[np.uint64]) -> None:
    if len(lost):
        raise NotFoundError(
            f"row id {lost[0]} not found in version {snapshot.manifest.version}"
            + (f", nor are {len(lost) - 1} others" if len(lost) > 1 else ""),
            row_id=int(lost[0]),
        )


def _physical(facts: RowFacts, live: _Ints) -> _Ints:
    return facts.physical_offsets(live)


def _stored(snapshot: Snapshot, columns: Taken) -> Projection:
    if isinstance(columns, Projection):
        return columns
    if isinstance(columns, Mapping):
        raise InvalidInputError("take returns columns as they are: give names, or use scan")
    return project(snapshot.schema, columns)


def _gather(
    snapshot: Snapshot,
    projection: Projection,
    owner: _Ints,
    values: _Ints,
    offsets_of: Callable[[RowFacts, _Ints], _Ints],
) -> pa.Table:
    """Rows of several fragments put together: row n is ``values[n]`` of fragment ``owner[n]``."""
    if not projection.names:
        return pa.table({"rows": pa.nulls(len(owner))}).select([])
    schema, wanted = projection.arrow_schema(), WantedColumns(projection.stored)
    order = np.argsort(owner, kind="stable")
    numbers, begins = np.unique(owner[order], return_index=True)
    picks = np.split(order, begins[1:])

    def fetch(number: int, pick: _Ints) -> Iterator[tuple[pa.Table, _Ints]]:
        """Each row once, in file order, and the output position of each requested row."""
        facts = RowFacts(snapshot, snapshot.manifest.fragments[number])
        unique, back = np.unique(offsets_of(facts, values[pick]), return_inverse=True)
        stored = open_fragment(snapshot, facts.fragment, wanted).pick(unique)
        return ((_shaped(each, facts, projection, unique, schema), back) for each in [stored])

    tasks = (partial(fetch, int(n), p) for n, p in zip(numbers, picks, strict=False))
    locations = np.empty(len(order), np.int64)
    parts: list[pa.Table] = []
    before = 0
    for pick, (rows, back) in zip(picks, in_order(tasks, workers=WORKERS), strict=False):
        locations[pick] = back + before
        parts.append(rows)
        before += rows.num_rows
    together = pa.concat_tables(parts) if parts else pa.Table.from_batches([], schema)
    return together if _counts_up(locations, before) else _reordered(together, locations)


def _reordered(rows: pa.Table, locations: _Ints) -> pa.Table:
    try:
        return rows.take(locations)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        # The dictionaries of several fragments together may have more values than the index type
        # can number.
        parts = [rows.slice(each, 1) for each in locations.tolist()]
        return pa.concat_tables(parts) if parts else rows.slice(0, 0)


def _shaped(
    batches: Iterator[pa.RecordBatch],
    facts: RowFacts,
    projection: Projection,
    offsets: _Ints,
    schema: pa.Schema,
) -> pa.Table:
    stored = list(batches)
    table = pa.Table.from_batches(stored) if stored and stored[0].num_columns else None
    columns = {name: facts.column_at(name, offsets) for name in projection.system}
    if projection.computed:
        shape = RowShape(snapshot=facts.snapshot, projection=projection)
        read = {} if table is None else dict(zip(table.schema.names, table.columns, strict=True))
        whole = {name: _whole(each) for name, each in {**read, **columns}.items()}
        return pa.Table.from_batches([shape.shaped(whole, len(offsets))])
    arrays = []
    for name in projection.names:
        if name in columns:
            arrays.append(columns[name])
        else:
            assert table is not None
            arrays.append(table.column(name))
    return pa.Table.from_arrays(arrays, schema=schema)


def _whole(values: Any) -> pa.Array:
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values


def _live_rows(snapshot: Snapshot, fragment: Fragment) -> int:
    rows = fragment.num_rows
    if rows is not None:
        return rows
    reader = open_fragment(snapshot, fragment, snapshot.schema)
    return reader.physical_rows() - len(RowFacts(snapshot, fragment).deleted)


def as_numbers(values: Numbers, what: str) -> npt.NDArray[np.uint64]:
    """Non-negative whole numbers as an array; raises InvalidInputError for anything else."""
    if isinstance(values, np.ndarray | pa.Array | pa.ChunkedArray):
        numbers = np.asarray(values)
        if numbers.ndim != 1 or (numbers.size and not np.issubdtype(numbers.dtype, np.integer)):
            raise InvalidInputError(
                f"{what} takes one list of whole numbers, got an array of {numbers.dtype} with "
                f"the shape {numbers.shape}"
            )
    else:
        try:
            listed = [operator.index(each) for each in as_list(what, values)]
        except TypeError as cause:
            raise InvalidInputError(f"{what} takes whole numbers: {cause}") from cause
        if listed and max(listed) > MAX_U64:
            raise InvalidInputError(f"{what}: {max(listed)} has more than 64 bits")
        numbers = np.array(listed, dtype=np.uint64 if min(listed, default=0) >= 0 else np.int64)
    if numbers.size and int(numbers.min()) < 0:
        raise InvalidInputError(f"{what}: {numbers.min()} does not exist, they count from 0")
    return numbers.astype(np.uint64)


def _counts_up(locations: _Ints, rows: int) -> bool:
    """Whether the rows are already in the requested order."""
    return len(locations) == rows and bool(np.all(locations == np.arange(rows)))


_INLINE, _PACKED, _DEDICATED, _EXTERNAL = range(4)


def take_blobs(
    snapshot: Snapshot, column: str, positions: Numbers | None, row_ids: Numbers | None
) -> list[BlobFile | None]:
    """The blobs of a column in the rows asked for, in that order; None for a null.

    Raises InvalidInputError for a column that holds no blobs, and what ``take`` raises.
    """
    field = _blob_column(snapshot, column)
    asked = [column, ROW_ADDRESS]
    if positions is not None:
        rows = take_positions(snapshot, positions, asked)
    else:
        assert row_ids is not None
        rows = take_row_ids(snapshot, row_ids, asked)
    found: list[BlobFile | None] = []
    finders: dict[int, BlobReader] = {}
    addresses = rows.column(ROW_ADDRESS).to_pylist()
    for descriptor, address in zip(rows.column(column).to_pylist(), addresses, strict=True):
        if descriptor is None:
            found.append(None)
            continue
        number = address >> 32
        if number not in finders:
            fragment = snapshot.manifest.fragment(FragmentId(number))
            finders[number] = blob_reader(snapshot, field, fragment)
        found.append(finders[number].open(descriptor))
    return found


def _blob_column(snapshot: Snapshot, column: str) -> Field:
    field = snapshot.schema.by_name.get(column) if isinstance(column, str) else None
    if field is not None and field.is_blob:
        return field
    blobs = ", ".join(each.name for each in snapshot.schema.fields if each.is_blob) or "none"
    raise InvalidInputError(
        f"column {column!r} is no blob column of the table; those are: {blobs}", column=column
    )


@dataclass(frozen=True)
class BlobReader:
    """Turns descriptors of one data file into open files."""

    snapshot: Snapshot
    store: Store
    key: str
    size: int | None

    def open(self, descriptor: dict[str, Any]) -> BlobFile:
        kind = descriptor.get("kind", _INLINE)
        position, size = descriptor["position"], descriptor["size"]
        if kind == _INLINE:
            return BlobFile(self.store, self.key, position, size, object_size=self.size)
        if kind in (_PACKED, _DEDICATED):
            return BlobFile(self.store, blob_key(self.key, descriptor["blob_id"]), position, size)
        if kind == _EXTERNAL:
            return self._external(descriptor)
        raise UnsupportedError(
            f"{self.store.uri}/{self.key}: a blob is of the kind {kind}, Lancewood knows 0 to 3; "
            "use a newer one"
        )

    def _external(self, descriptor: dict[str, Any]) -> BlobFile:
        """A file that the table does not own: below a base path, or anywhere by its URI.

        A size of 0 at position 0 means the whole file.
        """
        store, key = self.snapshot.location.foreign_file(
            self.snapshot.manifest, descriptor["blob_uri"], BaseId(descriptor["blob_id"])
        )
        return BlobFile(store, key, descriptor["position"], descriptor["size"] or None)


def external_blobs(descriptors: pa.StructArray) -> pa.StructArray:
    """The descriptors of blobs of the second layout that are in files which the table does not own,
    without those of nulls."""
    there = descriptors.drop_null()
    return there.filter(pc.equal(there.field("kind"), _EXTERNAL))


def blob_reader(snapshot: Snapshot, field: Field, fragment: Fragment) -> BlobReader:
    """What opens the blobs of a column of one fragment."""
    file = _file_with(field, fragment)
    store, key = find_data_file(snapshot, file)
    return BlobReader(snapshot, store, key, file.size)


def find_data_file(snapshot: Snapshot, file: DataFile) -> tuple[Store, str]:
    """Where a data file is: one of a table that was moved may have stayed behind.

    If it is nowhere, returns where it should be.
    """
    location, head = snapshot.location, snapshot.manifest
    expected, key = location.data_file(head, file)
    if file.base_id is None or is_there(expected, key):
        return expected, key
    others = (store for store, _ in location.elsewhere(head, file.base_id))
    return next((each for each in others if is_there(each, key)), expected), key


def _file_with(field: Field, fragment: Fragment) -> DataFile:
    for file in reversed(fragment.files):
        if field.id in file.fields:
            return file
    raise FormatError(f"fragment {fragment.id} has no file for blob column {field.name!r}")
