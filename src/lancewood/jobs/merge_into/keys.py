"""The key of a merge: which columns, which values, and where the source has a given one.

Keys are equal as Arrow values are; a key with a null in it equals none. Floats are refused: NaN
and rounding make them bad keys. Works on whole columns, never row by row. Knows no files.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from lancewood.engine.base import as_list
from lancewood.engine.schema import Path, project
from lancewood.errors import InvalidInputError
from lancewood.format.logical_type import JSON
from lancewood.format.schema import to_arrow_field
from lancewood.model.ids import FieldId
from lancewood.model.schema import SYSTEM_COLUMNS, Field, Schema

Positions: TypeAlias = npt.NDArray[np.int64]
_MOST_SHOWN = 80
_LARGE = {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}
"""The keys of a large source are more than two gigabytes."""


@dataclass(frozen=True, slots=True)
class Key:
    """The columns, or fields inside structs, by which rows are told apart."""

    paths: tuple[Path, ...]
    field_ids: tuple[FieldId, ...]
    types: tuple[pa.DataType, ...]
    """Types of the values as they are compared: dictionaries and extensions are looked through."""

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(".".join(each) for each in self.paths)

    @property
    def whole_columns(self) -> frozenset[str]:
        """The top-level columns that are part of the key, and nothing besides."""
        return frozenset(each[0] for each in self.paths if len(each) == 1)

    def values(self, rows: pa.RecordBatch | pa.Table) -> list[pa.Array]:
        """The key's columns out of rows that hold them."""
        return [
            _values(rows.column(path[0]), path[1:], kind)
            for path, kind in zip(self.paths, self.types, strict=True)
        ]


def resolve_key(schema: Schema, on: str | Sequence[str] | None) -> Key:
    """The key that a caller names; None means the primary key of the schema.

    The order of the columns is that of the primary key if they are the same, else that of their
    ids: it decides nothing but how a key is hashed. Raises InvalidInputError for what is no key.
    """
    primary = _primary_key(schema)
    if on is None:
        if not primary:
            raise InvalidInputError(
                "merge needs on=: the schema names no (unenforced) primary key to take instead"
            )
        return _checked(primary)
    names = [on] if isinstance(on, str) else as_list("on", on)
    if not names:
        raise InvalidInputError("on= names no column; a key has at least one")
    for each in names:
        if each in SYSTEM_COLUMNS:
            raise InvalidInputError(f"{each!r} is no stored column, rows cannot be matched by it")
    found = [(path, schema.along(path)[-1]) for path in project(schema, names).paths]
    if {field.id for _, field in found} == {field.id for _, field in primary}:
        return _checked(primary)
    return _checked(sorted(found, key=lambda each: each[1].id))


def primary_key(schema: Schema) -> tuple[FieldId, ...]:
    """The fields of the key that a schema declares; none where it declares none."""
    return tuple(field.id for _, field in _primary_key(schema))


def key_of(schema: Schema, fields: Sequence[FieldId]) -> Key | None:
    """The key that these fields are; None if there is none, they are not all there, or rows cannot
    be told apart by them."""
    known = {field.id: (path, field) for top in schema.fields for path, field in _walk((), top)}
    if not fields or not known.keys() >= set(fields):
        return None
    try:
        return _checked([known[each] for each in fields])
    except InvalidInputError:
        return None


def _primary_key(schema: Schema) -> list[tuple[Path, Field]]:
    """The fields that are part of it, those with a position first."""
    found = [
        (path, field)
        for top in schema.fields
        for path, field in _walk((), top)
        if field.message is not None and field.message.unenforced_primary_key
    ]

    def rank(part: tuple[Path, Field]) -> tuple[bool, int]:
        message = part[1].message
        position = message.unenforced_primary_key_position if message is not None else 0
        return position == 0, position

    return sorted(found, key=rank)


def _walk(above: Path, field: Field) -> Iterator[tuple[Path, Field]]:
    path = (*above, field.name)
    yield path, field
    if field.logical_type == "struct":
        for child in field.children:
            yield from _walk(path, child)


def _checked(parts: Sequence[tuple[Path, Field]]) -> Key:
    types = []
    for path, field in parts:
        kind = _compared_type(to_arrow_field(field).type)
        why = None
        if pt.is_floating(kind):
            why = "equality of floats is a matter of rounding; use a decimal, a number or a text"
        elif field.is_blob or field.logical_type == JSON or pt.is_nested(kind) or pt.is_null(kind):
            why = "values of this type have no order and no hash"
        if why:
            raise InvalidInputError(
                f"column {'.'.join(path)!r} of type {kind} cannot be a key: {why}",
                column=".".join(path),
            )
        types.append(kind)
    return Key(
        tuple(path for path, _ in parts), tuple(field.id for _, field in parts), tuple(types)
    )


def _compared_type(kind: pa.DataType) -> pa.DataType:
    if isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    if pt.is_dictionary(kind):
        kind = kind.value_type
    return _LARGE.get(kind, kind)


def _values(column: Any, below: Path, kind: pa.DataType) -> pa.Array:
    if isinstance(column, pa.ChunkedArray):
        parts = [_values(each, below, kind) for each in column.chunks]
        return parts[0] if len(parts) == 1 else pa.concat_arrays([pa.nulls(0, kind), *parts])
    for name in below:
        column = pc.struct_field(column, [name])
    if isinstance(column.type, pa.BaseExtensionType):
        column = column.storage
    return column if column.type == kind else column.cast(kind)


class KeyIndex:
    """The keys of the source: finds the row of the source that has the key of another row.

    A key of several columns is numbered column by column: what is known of the columns so far,
    times the number of values of the next, plus which of them it is. Only combinations that occur
    get a number, so that none grows beyond the square of the number of rows.
    """

    def __init__(self, columns: Sequence[pa.Array]) -> None:
        whole = np.ones(len(columns[0]), np.bool_)
        for each in columns:
            if each.null_count:
                whole &= each.is_valid().to_numpy(zero_copy_only=False)
        self._rows: Positions = np.flatnonzero(whole)
        chosen = [each if whole.all() else each.take(pa.array(self._rows)) for each in columns]
        self._values: list[pa.Array] = [chosen[0].unique()]
        self._pairs: list[Positions] = []
        numbers = _look_up(chosen[0], self._values[0])
        for each in chosen[1:]:
            values = each.unique()
            pairs = numbers * len(values) + _look_up(each, values)
            known, numbers = np.unique(pairs, return_inverse=True)
            self._values.append(values)
            self._pairs.append(known)
        self._numbers: Positions = numbers
        self._owner = np.full(int(numbers.max()) + 1 if len(numbers) else 0, -1, np.int64)
        self._owner[numbers[::-1]] = self._rows[::-1]

    def __len__(self) -> int:
        """How many rows of the source have a key."""
        return len(self._rows)

    @property
    def rows(self) -> Positions:
        """The rows of the source that have a key, nulls in none of its columns."""
        return self._rows

    def duplicate(self) -> tuple[int, int] | None:
        """Two rows of the source with the same key; None if there are none."""
        if len(self._owner) == len(self._rows):
            return None
        second = int(np.flatnonzero(self._owner[self._numbers] != self._rows)[0])
        return int(self._owner[self._numbers[second]]), int(self._rows[second])

    def find(self, columns: Sequence[pa.Array]) -> Positions:
        """The row of the source that has each key; -1 where none does."""
        numbers = _look_up(columns[0], self._values[0])
        for column, values, known in zip(columns[1:], self._values[1:], self._pairs, strict=True):
            part = _look_up(column, values)
            pairs = np.where((numbers < 0) | (part < 0), -1, numbers * len(values) + part)
            at = np.searchsorted(known, pairs)
            at[at == len(known)] = 0
            numbers = np.where((pairs >= 0) & (known[at] == pairs), at, -1) if len(known) else pairs
        return np.where(numbers < 0, -1, self._owner[numbers]) if len(self._owner) else numbers


def _look_up(values: pa.Array, among: pa.Array) -> Positions:
    """Where each of the values stands among others, -1 for a null and for one that is not there."""
    found = pc.index_in(values, value_set=among, skip_nulls=True)
    numbers: Positions = found.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    return numbers


def check_distinct(key: Key, index: KeyIndex, columns: Sequence[pa.Array]) -> None:
    """Raise InvalidInputError, with the key, if two rows of the source have the same."""
    twice = index.duplicate()
    if twice is None:
        return
    first, second = twice
    error = same_key(key, columns, first, f"rows {first} and {second} of the source have")
    error.facts["rows"] = (first, second)
    raise error


def same_key(key: Key, columns: Sequence[pa.Array], row: int, which: str) -> InvalidInputError:
    """The error for rows that have the same key, which is that of one row of the columns."""
    shown, values = shown_key(key, columns, row)
    return InvalidInputError(
        f"{which} the same key {shown}: which of them a row of the table should "
        "become is not known; keep one row for each key",
        key=values,
    )


def shown_key(key: Key, columns: Sequence[pa.Array], row: int) -> tuple[str, dict[str, Any]]:
    """The key of one row of the columns, for people and as values."""
    values = {name: column[row].as_py() for name, column in zip(key.names, columns, strict=True)}
    shown = ", ".join(f"{name} = {value!r}" for name, value in values.items())
    return shown[:_MOST_SHOWN], values
