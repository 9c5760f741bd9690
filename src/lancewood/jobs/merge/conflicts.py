"""Rows in conflict, as they are shown: what kind of conflict, in which cells, and all three sides.

``_conflict`` names a conflict by what it is about: the table, the row, the kind and the three rows.
It is the same in every process and however the rows are laid out in memory, so that a decision
finds its conflict again, and does not if a side has changed since. Columns count by name and null
cells not at all: a column that is added without values makes no decision stale. Columns that are
opaque (blobs) are not shown, and count by whether they differ.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce
from hashlib import blake2b
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from lancewood.data.differing import Mask, bare, differing
from lancewood.engine.rows import Ids, Ints, nameless
from lancewood.engine.schema import Path
from lancewood.errors import MergeConflictError
from lancewood.jobs.merge_into.key_hashes import hash_bytes
from lancewood.model.schema import ROW_ID

CONFLICT, KIND, COLUMNS, KEY = "_conflict", "_kind", "_columns", "key"
BASE, OURS, THEIRS = SIDES = ("base", "ours", "theirs")
UPDATE_UPDATE, UPDATE_DELETE = "update/update", "update/delete"
DELETE_UPDATE, INSERT_INSERT = "delete/update", "insert/insert"
ONE_KEY = "key"
"""Different rows of both sides got one primary key."""
KINDS = frozenset({UPDATE_UPDATE, UPDATE_DELETE, DELETE_UPDATE, INSERT_INSERT, ONE_KEY})
"""What ``_kind`` of a conflict may be."""
TO_DECIDE = "; conflicts() shows them, resolve= decides them"
"""What the error says after the conflicts of a table."""

MOST_SHOWN = 10
"""Number of conflicts that an error shows at most."""

_Numbers: TypeAlias = npt.NDArray[np.uint64]

_LONG = 256
"""Longer values are hashed one by one: what that costs is little beside their bytes."""
_PRIME = np.uint64(0x9E3779B97F4A7C15)
_THERE = np.uint64(0x1D8E4E27C47D124F)
_TURNS = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))
_HEX = np.frombuffer(b"".join(b"%02x" % each for each in range(256)), "S2")


def stale_words(count: int) -> str:
    """What an error says about decisions on conflicts that are not there."""
    return f"; {count:,} decision{'' if count == 1 else 's'} did not apply" if count else ""


@dataclass(frozen=True, eq=False)
class SideRows:
    """The rows in question as one side has them."""

    values: pa.RecordBatch
    """Columns of the merged schema, without opaque ones; null where the row is not there."""
    there: Mask
    """Which of the rows the side has."""

    def take(self, rows: Ints) -> SideRows:
        values = (
            self.values.take(pa.array(rows)) if self.values.num_columns else nameless(len(rows))
        )
        return SideRows(values, self.there[rows])


@dataclass(frozen=True, eq=False)
class CellChanges:
    """Where cells differ between base and sides: of one column, or a line for each of several."""

    ours: Mask
    """Ours differs from the base."""
    theirs: Mask
    """Theirs differs from the base."""
    apart: Mask
    """Ours differs from theirs."""

    def take(self, rows: Ints) -> CellChanges:
        return CellChanges(self.ours[..., rows], self.theirs[..., rows], self.apart[..., rows])


@dataclass(frozen=True, eq=False)
class Sides:
    """Rows that both sides may have changed, side by side."""

    ids: Ids
    base: SideRows
    ours: SideRows
    theirs: SideRows
    opaque: Mapping[str, CellChanges] = field(default_factory=lambda: MappingProxyType({}))
    """Of columns whose values are not looked at here."""
    unsure: Mask | None = None
    """Rows of which it is not known what the base was: where the sides differ, both changed them.
    None for none."""

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def each(self) -> tuple[SideRows, SideRows, SideRows]:
        """Base, ours and theirs."""
        return self.base, self.ours, self.theirs

    @property
    def apart(self) -> Mask:
        """Whether ours and theirs differ, in columns whose values are given."""
        pairs = zip(self.ours.values.columns, self.theirs.values.columns, strict=True)
        cells = (differing(*each) for each in pairs)
        return reduce(np.logical_or, cells, self.ours.there != self.theirs.there)

    def take(self, rows: Ints) -> Sides:
        opaque = {name: cells.take(rows) for name, cells in self.opaque.items()}
        base, ours, theirs = (each.take(rows) for each in self.each)
        unsure = None if self.unsure is None else self.unsure[rows]
        return Sides(self.ids[rows], base, ours, theirs, opaque, unsure)


@dataclass(frozen=True)
class ConflictShape:
    """How conflicts of one table are shown: their schema, names and keys."""

    table: str
    values: pa.Schema = field(repr=False)
    """The merged schema, without opaque columns."""
    key: tuple[Path, ...] = ()

    @cached_property
    def schema(self) -> pa.Schema:
        """The schema of rows in conflict; ``key`` is left out if there is none."""
        text = pa.string()
        key = [pa.field(KEY, pa.struct(self._key_fields))] if self.key else []
        return pa.schema(
            [
                pa.field(CONFLICT, text, nullable=False),
                pa.field(KIND, text, nullable=False),
                pa.field(ROW_ID, pa.uint64()),
                pa.field(COLUMNS, pa.list_(text)),
                *key,
                *(pa.field(each, pa.struct(self._fields)) for each in SIDES),
            ]
        )

    def names_of(self, kinds: pa.Array, sides: Sides) -> pa.Array:
        """The ``_conflict`` of each row."""
        if not len(sides):
            return pa.nulls(0, pa.string())
        kind = _hashed_bytes(kinds.cast(pa.large_binary()))
        found = _mixed(_hashed_text(self.table), kind)
        for part in (sides.ids, *(_hashed_rows(each) for each in sides.each)):
            found = _mixed(found, part)
        for name in sorted(sides.opaque):
            cells = sides.opaque[name]
            for mask in (cells.ours, cells.theirs, cells.apart):
                found = _mixed(found, mask.astype(np.uint64) * _hashed_text(name))
        return _as_hex(found)

    def rows(
        self, names: pa.Array, kinds: pa.Array, columns: pa.Array, sides: Sides
    ) -> pa.RecordBatch:
        """A batch of conflicts; ``columns`` are the names of the cells, row by row."""
        key = [self.keys(sides)] if self.key else []
        return pa.RecordBatch.from_arrays(
            [
                names,
                kinds,
                pa.array(sides.ids, pa.uint64()),
                columns,
                *key,
                *(as_struct(each, self._fields) for each in sides.each),
            ],
            schema=self.schema,
        )

    def keys(self, sides: Sides) -> pa.Array:
        """The keys as ours has them; of rows that it does not have as theirs does."""
        parts = []
        for path in self.key:
            ours, theirs = (
                _at_path(each.values.column(path[0]), path[1:])
                for each in (sides.ours, sides.theirs)
            )
            at = np.arange(len(sides)) + np.where(sides.ours.there, 0, len(sides))
            parts.append(pa.concat_arrays([ours, theirs]).take(pa.array(at)))
        return pa.StructArray.from_arrays(parts, fields=self._key_fields)

    @cached_property
    def _fields(self) -> list[pa.Field]:
        return [each.with_nullable(True) for each in self.values]

    @cached_property
    def _key_fields(self) -> list[pa.Field]:
        empty = [pa.nulls(0, self.values.field(path[0]).type) for path in self.key]
        return [
            pa.field(".".join(path), _at_path(column, path[1:]).type)
            for path, column in zip(self.key, empty, strict=True)
        ]


def selected_schema(whole: pa.Schema, columns: Sequence[str]) -> pa.Schema:
    """The schema of conflicts of which the sides have some of their columns."""
    fields = [
        pa.field(each.name, pa.struct([part for part in each.type if part.name in columns]))
        if each.name in SIDES
        else each
        for each in whole
    ]
    return pa.schema(fields, whole.metadata)


def selected(batch: pa.RecordBatch, columns: Sequence[str], schema: pa.Schema) -> pa.RecordBatch:
    """The conflicts in some columns; of those of whole rows the ones in which a side has another
    value there than the base. ``schema`` is ``selected_schema`` of these columns."""
    arrays = {name: batch.column(name) for name in schema.names}
    cells = arrays[COLUMNS].to_pylist()
    names = [[each for each in row or () if each in columns] for row in cells]
    arrays[COLUMNS] = pa.array(names, schema.field(COLUMNS).type)
    for name in SIDES:
        side, fields = arrays[name], list(schema.field(name).type)
        parts = [side.field(each.name) for each in fields]
        values = pa.RecordBatch.from_arrays(parts, schema=pa.schema(fields))
        arrays[name] = as_struct(SideRows(values, _valid(side)), fields)
    found = pa.RecordBatch.from_arrays([*arrays.values()], schema=schema)
    base, ours, theirs = (found.column(each) for each in SIDES)

    def is_changed(base: Any, *sides: Any) -> bool:
        return base is None or any(each is not None and each != base for each in sides)

    kept = [
        bool(here) if row else is_changed(*(each[at].as_py() for each in (base, ours, theirs)))
        for at, (row, here) in enumerate(zip(cells, names, strict=True))
    ]
    return found.filter(pa.array(kept, pa.bool_()))


@dataclass
class UnresolvedConflicts:
    """Conflicts of a merge that are left to decide, counted."""

    kinds: Counter[str] = field(default_factory=Counter)
    columns: Counter[str] = field(default_factory=Counter)
    some: list[Mapping[str, Any]] = field(default_factory=list)
    keys: list[Mapping[str, Any]] = field(default_factory=list)
    """A few keys that different rows of both sides got."""
    shared: list[Mapping[str, Any]] = field(default_factory=list)
    """A few keys that several rows would have, as they were decided."""
    shared_count: int = 0
    """Number of all such keys."""

    def note(self, conflicts: pa.RecordBatch) -> None:
        """Count conflicts that a task found, and keep a few of them."""
        if conflicts.num_rows:
            self.kinds.update(conflicts.column(KIND).to_pylist())
            self.columns.update(conflicts.column(COLUMNS).flatten().to_pylist())
            self.some += conflicts.slice(0, MOST_SHOWN - len(self.some)).to_pylist()

    def add(self, other: UnresolvedConflicts) -> None:
        """Add what a task noted."""
        self.keys += [each[KEY] for each in other.some if each[KIND] == ONE_KEY]
        self.kinds.update(other.kinds)
        self.columns.update(other.columns)
        self.some += other.some[: MOST_SHOWN - len(self.some)]

    def add_shared(self, keys: pa.Table) -> None:
        """Add primary keys that several rows would have, each a conflict."""
        self.shared += keys.slice(0, MOST_SHOWN).to_pylist()
        self.shared_count += keys.num_rows
        self.kinds += Counter({ONE_KEY: keys.num_rows})

    def check(self, stale: int) -> None:
        """Raise MergeConflictError if a conflict is left; ``stale`` decisions did not apply."""
        if not self.kinds:
            return
        said = []
        if self.keys:
            shown = _shown(self.keys[0], self.kinds[ONE_KEY] - self.shared_count - 1)
            said.append(
                f"different rows of both sides got the same primary key ({shown}); take a side, "
                "or change one of them first"
            )
        if self.shared:
            shown = _shown(self.shared[0], self.shared_count - 1)
            said.append(
                f"the merge would give different rows the same primary key ({shown}); decide "
                "otherwise, or change one of them first"
            )
        rows = {kind: number for kind, number in self.kinds.items() if kind != ONE_KEY}
        if rows:
            kinds = ", ".join(f"{number:,} {kind}" for kind, number in sorted(rows.items()))
            names = ", ".join(f"{name} {number:,}" for name, number in self.columns.most_common(5))
            where, count = f" (in {names})" if names else "", sum(rows.values())
            row = "row" if count == 1 else "rows"
            said.append(f"both sides changed {count:,} {row}: {kinds}{where}")
        raise MergeConflictError(
            f"{'; '.join(said)}{stale_words(stale)}{TO_DECIDE if rows else ''}, and nothing has "
            "changed",
            conflicts=self.kinds.total(),
            kinds=dict(self.kinds),
            columns=dict(self.columns),
            some=self.some,
            keys=[*self.keys, *self.shared],
            stale=stale,
        )


def _shown(key: Mapping[str, Any], others: int) -> str:
    shown = ", ".join(f"{name} = {value!r}" for name, value in key.items())
    return f"{shown} and {others:,} more" if others else shown


def _at_path(column: Any, path: Path) -> Any:
    return pc.struct_field(bare(column), list(path)) if path else column


def as_struct(side: SideRows, fields: Sequence[pa.Field]) -> pa.Array:
    """The columns of a side as one struct; null where the row is not there."""
    mask = None if side.there.all() else pa.array(~side.there)
    if not fields:
        return pa.array([{} if each else None for each in side.there.tolist()], pa.struct([]))
    columns = [side.values.column(each.name) for each in fields]
    return pa.StructArray.from_arrays(columns, fields=list(fields), mask=mask)


def named_cells(names: Sequence[str], cells: Mask) -> pa.Array:
    """The names of the cells that are marked, row by row; ``cells`` has a line for each name."""
    _, at = np.nonzero(cells.T)
    bounds = np.concatenate(([0], np.cumsum(cells.sum(axis=0)))).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(bounds), pa.array(names, pa.string()).take(at))


def _hashed_rows(side: SideRows) -> _Numbers:
    """A number for each row, whatever the order of the columns; 0 where it is not there."""
    return _fields_hashed(side.values.schema.names, side.values.columns, side.there)


def _fields_hashed(names: Sequence[str], columns: Sequence[pa.Array], there: Mask) -> _Numbers:
    found = np.full(len(there), _THERE)
    for name, column in zip(names, columns, strict=True):
        column = bare(column)
        cells = _mixed(_hashed_text(name), _hashed(column))
        found = found + np.where(_valid(column), cells, np.uint64(0))
    return np.where(there, found, np.uint64(0))


def _hashed(array: Any) -> _Numbers:
    """A number for each value; what it is for nulls does not matter."""
    kind = array.type
    if pt.is_struct(kind):
        names = [kind.field(at).name for at in range(kind.num_fields)]
        return _fields_hashed(names, [array.field(each) for each in names], _valid(array))
    if pt.is_nested(kind) and not pt.is_union(kind):
        return _hashed_lists(array)
    if pt.is_null(kind):
        return np.zeros(len(array), np.uint64)
    if pt.is_floating(kind):
        numbers = array.fill_null(0).to_numpy(zero_copy_only=False).astype(np.float64) + 0.0
        numbers[np.isnan(numbers)] = np.nan
        return _mixed(_PRIME, numbers.view(np.uint64))
    if pt.is_boolean(kind) or pt.is_integer(kind) or _is_moment(kind):
        return _hashed_numbers(array)
    if pt.is_decimal(kind):
        array = array.view(pa.binary(kind.byte_width))
    elif not _is_bytes(kind):
        array = pa.array([repr(each) for each in array.to_pylist()], pa.large_string())
    return _hashed_bytes(array.cast(pa.large_binary()))


def _is_bytes(kind: pa.DataType) -> bool:
    return any(
        is_it(kind)
        for is_it in (
            *(pt.is_string, pt.is_large_string, pt.is_binary, pt.is_large_binary),
            pt.is_fixed_size_binary,
        )
    )


def _is_moment(kind: pa.DataType) -> bool:
    return bool(pt.is_temporal(kind) and not pt.is_interval(kind))


def _hashed_numbers(array: Any) -> _Numbers:
    kind = array.type
    if pt.is_boolean(kind):
        array = array.cast(pa.uint8())
    elif _is_moment(kind):
        array = array.view(pa.int32() if kind.bit_width == 32 else pa.int64())
    wide = np.uint64 if pt.is_unsigned_integer(array.type) else np.int64
    numbers = array.fill_null(0).to_numpy(zero_copy_only=False).astype(wide)
    return _mixed(_PRIME, numbers.view(np.uint64))


def _hashed_lists(array: Any) -> _Numbers:
    """Numbers of lists of any kind, and of maps: of their elements, each with its position."""
    counts = np.asarray(pc.fill_null(_lengths(array), 0)).astype(np.int64)
    elements = bare(pc.list_flatten(_as_lists(array)))
    ends = np.cumsum(counts)
    places = np.arange(len(elements)) - np.repeat(ends - counts, counts)
    values = np.where(_valid(elements), _hashed(elements), np.uint64(0))
    sums = np.concatenate(
        (np.zeros(1, np.uint64), np.cumsum(_mixed(places.astype(np.uint64), values)))
    )
    return _mixed(counts.astype(np.uint64), sums[ends] - sums[ends - counts])


def _as_lists(array: Any) -> Any:
    """Maps as lists of their entries."""
    if not pt.is_map(array.type):
        return array
    entries = pa.list_(pa.struct([array.type.key_field, array.type.item_field]))
    return array.cast(entries)


def _lengths(array: Any) -> Any:
    return pc.list_value_length(_as_lists(array))


def _hashed_bytes(values: pa.Array) -> _Numbers:
    values = values.fill_null(b"")
    lengths = np.asarray(pc.binary_length(values)).astype(np.int64)
    long = np.flatnonzero(lengths > _LONG)
    if not len(long):
        return hash_bytes(values)
    found = np.empty(len(values), np.uint64)
    short = np.flatnonzero(lengths <= _LONG)
    found[short] = hash_bytes(values.take(pa.array(short)))
    for at in long.tolist():
        digest = blake2b(values[at].as_buffer(), digest_size=8).digest()
        found[at] = int.from_bytes(digest, "little")
    return found


def _hashed_text(text: str) -> np.uint64:
    return np.uint64(int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little"))


def _mixed(one: _Numbers | np.uint64, other: _Numbers) -> _Numbers:
    """Two numbers as one, in which every bit of both counts (the end of SplitMix64)."""
    found: _Numbers = (np.atleast_1d(one) * _PRIME) ^ (other + _THERE)
    for by, factor in _TURNS:
        found = (found ^ (found >> np.uint64(by))) * np.uint64(factor)
    return found ^ (found >> np.uint64(31))


def _as_hex(numbers: _Numbers) -> pa.Array:
    """Each number as 16 hexadecimal digits."""
    octets = numbers.astype(">u8").view(np.uint8)
    texts = np.ascontiguousarray(_HEX[octets]).view("S16")
    return pa.array(texts, pa.binary(16)).cast(pa.string())


def _valid(array: Any) -> Mask:
    return np.asarray(array.is_valid().to_numpy(zero_copy_only=False), np.bool_)
