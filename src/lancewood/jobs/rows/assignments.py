"""The assignments of an update: columns or fields of structs, each to an expression or a constant.

All of them are checked against the schema before anything is read. New values are computed from
batches of old ones. What is stored must be what was meant: a number that does not fit, a fraction
for an integer or a text for a number is an error, not a rounding.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from lancewood.engine.rows import nameless
from lancewood.engine.schema import Parameters, Path, project, row_schema, stored_paths
from lancewood.errors import InvalidInputError, UnsupportedError
from lancewood.expr import Expression, parse_expression, parse_number
from lancewood.expr.floats import as_float, check_finite
from lancewood.expr.literals import literal_from, parse_moment, scalar_in
from lancewood.expr.nodes import Literal
from lancewood.expr.types import NUMBERS, family, plain_type
from lancewood.format.arrow import to_arrow_field
from lancewood.model.ids import FieldId
from lancewood.model.schema import SYSTEM_COLUMNS, Field, Schema

_TEMPORAL = frozenset({"date", "timestamp", "time"})
_NESTED = frozenset({"struct", "map", "list"})
_DIGITS_OF_INTEGERS = 20
"""As many as the largest uint64 has."""


@dataclass(frozen=True)
class Assignments:
    """The ``set`` of one update, checked against one schema."""

    schema: Schema
    values: Mapping[str, Any] = field(repr=False)
    """SQL text or a constant by the name of the column, dotted for a field of a struct."""
    parameters: Parameters = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.values, Mapping) or not self.values:
            raise InvalidInputError(
                f"set takes names of columns with their new values, got {self.values!r}"
            )
        _ = self._each  # raises for a bad assignment now

    def __getstate__(self) -> dict[str, Any]:
        """Without cached values."""
        return {"schema": self.schema, "values": self.values, "parameters": self.parameters}

    @property
    def paths(self) -> tuple[Path, ...]:
        """The columns and fields that are set."""
        return tuple(each.path for each in self._each)

    @cached_property
    def columns(self) -> frozenset[str]:
        """The top-level columns in which something is set."""
        return frozenset(path[0] for path in self.paths)

    @property
    def field_ids(self) -> tuple[FieldId, ...]:
        """The fields that are set, and those inside them, but not the structs around them."""
        return tuple(sorted(node.id for each in self._each for node in each.field.walk()))

    @cached_property
    def reads(self) -> tuple[Path, ...]:
        """The stored columns and fields that the expressions need."""
        return tuple(path for each in self._expressions() for path in stored_paths(each))

    @cached_property
    def system(self) -> tuple[str, ...]:
        """The system columns that the expressions need."""
        needed = {name for each in self._expressions() for name in each.columns}
        return tuple(each for each in SYSTEM_COLUMNS if each in needed)

    @property
    def sets_blobs(self) -> bool:
        """Whether a column of blobs is set."""
        return any(self.schema.by_name[each].is_blob for each in self.columns)

    def stored_alone(self, file_version: str) -> tuple[Path, ...]:
        """The smallest parts around the set fields that can be written into files of their own.

        That is the field of a struct, unless the struct is stored as one physical column.
        """
        return tuple(self._alone(path, file_version) for path in self.paths)

    def _alone(self, path: Path, file_version: str) -> Path:
        above = self.schema.along(path)[:-1]
        is_one = file_version == "2.0" or any(each.is_column_leaf for each in above)
        return path[:1] if is_one else path

    def new_columns(self, rows: pa.RecordBatch) -> dict[str, pa.Array]:
        """The top-level columns after the update, from a batch with them and what is read.

        Every expression sees the old values. Raises InvalidInputError, naming the column, for
        values that do not fit.
        """
        values = [(each.path, each.computed(rows)) for each in self._each]
        made: dict[str, pa.Array] = {}
        for path, array in values:
            if len(path) > 1:
                array = _replaced(made.get(path[0], rows.column(path[0])), path[1:], array)
            made[path[0]] = array
        return made

    @cached_property
    def _each(self) -> tuple[_Assignment, ...]:
        rows = row_schema(self.schema)
        named = self.parameters if isinstance(self.parameters, Mapping) else None
        found: dict[Path, _Assignment] = {}
        for name, value in self.values.items():
            path, node = _find(self.schema, name)
            for other in found:
                if other[: len(path)] == path[: len(other)]:
                    raise InvalidInputError(
                        f"{'.'.join(other)!r} and {name!r} cannot both be set: one is part of the "
                        "other",
                        column=name,
                    )
            try:
                found[path] = _assignment(path, node, value, rows, named)
            except InvalidInputError as cause:
                raise InvalidInputError(
                    f"column {name!r}: {cause.message}", **{**cause.facts, "column": name}
                ) from cause
        for each in found.values():
            for name in () if each.expression is None else each.expression.columns:
                if name not in SYSTEM_COLUMNS and self.schema.by_name[name].is_blob:
                    raise UnsupportedError(
                        f"an update cannot compute with {name!r}, which is a column of blobs",
                        column=name,
                    )
        return tuple(found.values())

    def _expressions(self) -> Iterator[Expression]:
        return (each.expression for each in self._each if each.expression is not None)


@dataclass(frozen=True)
class _Assignment:
    """One assignment: a constant or an expression."""

    path: Path
    field: Field
    target: pa.DataType
    constant: pa.Array | None
    """One value."""
    expression: Expression | None

    def computed(self, rows: pa.RecordBatch) -> pa.Array:
        if self.expression is None:
            assert self.constant is not None
            return self.constant.take(pa.repeat(pa.scalar(0, pa.int64()), rows.num_rows))
        name, sql = ".".join(self.path), self.expression.sql
        try:
            values = self.expression.evaluate(rows)
        except InvalidInputError as cause:
            raise InvalidInputError(
                f"column {name!r}: {cause.message}", **{**cause.facts, "column": name}
            ) from cause
        try:
            return fitted(values, self.target)
        except InvalidInputError as cause:
            raise InvalidInputError(
                f"column {name!r}: {sql} gives a value that does not fit {self.target}: "
                f"{cause.message}",
                column=name,
                sql=sql,
            ) from cause


def _assignment(
    path: Path, node: Field, value: Any, rows: pa.Schema, named: Mapping[str, Any] | None
) -> _Assignment:
    target = to_arrow_field(node).type
    if not isinstance(value, str):
        return _constant(path, node, target, fitted_value(value, target))
    expression = parse_expression(value, rows, named)
    if not expression.columns:
        only = expression.evaluate(nameless(1))
        if only.null_count:
            return _constant(path, node, target, pa.nulls(1, target))
        if pa.types.is_string(only.type) and is_moment(target):
            return _constant(path, node, target, text_as_moment(only[0].as_py(), target))
        _check_types(expression, target)
        number = parse_number(value, rows, named)
        if number is not None and family(plain_type(target)) in NUMBERS:
            exact = _fitted_literal(number, target, number.value.as_py())
            return _constant(path, node, target, exact)
        return _constant(path, node, target, fitted(only, target))
    _check_types(expression, target)
    fitted(pa.nulls(0, expression.type), target)
    return _Assignment(path, node, target, None, expression)


def _constant(path: Path, node: Field, target: pa.DataType, value: pa.Array) -> _Assignment:
    if value.null_count and not node.nullable:
        raise InvalidInputError("it may not be null")
    return _Assignment(path, node, target, value, None)


def _check_types(expression: Expression, target: pa.DataType) -> None:
    if not can_become(expression.type, target):
        raise InvalidInputError(
            f"{expression.sql} is {expression.type}, the column is {target}; cast it"
        )


def _find(schema: Schema, name: str) -> tuple[Path, Field]:
    if not isinstance(name, str):
        raise InvalidInputError(f"set takes names of columns, got {name!r}")
    if name in SYSTEM_COLUMNS:
        raise InvalidInputError(f"column {name!r} cannot be set: it is not stored", column=name)
    path = project(schema, [name]).paths[0]
    node = schema.along(path)[-1]
    if node.is_blob_v2:
        raise UnsupportedError(
            f"column {name!r} is a blob of the second layout, which Lancewood does not write",
            column=name,
        )
    return path, node


def _replaced(array: Any, path: Path, value: pa.Array) -> Any:
    """A struct with one field replaced; null structs stay null."""
    if isinstance(array.type, pa.BaseExtensionType):
        return array.type.wrap_array(_replaced(array.storage, path, value))
    index = array.type.get_field_index(path[0])
    if len(path) > 1:
        value = _replaced(array.field(index), path[1:], value)
    fields = [array.type.field(each) for each in range(array.type.num_fields)]
    children = [value if each == index else array.field(each) for each in range(len(fields))]
    mask = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays(children, fields=fields, mask=mask)


def can_become(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether values of one type, if they fit, may be stored in a column of another."""
    source, target = plain_type(source), plain_type(target)
    one, other = family(source), family(target)
    if pt.is_null(source):
        return True
    if {one, other} <= NUMBERS:
        return True
    if one == "list" and other == "list":
        return can_become(source.value_type, target.value_type)
    if one == "struct" and other == "struct":
        names = {each.name: each.type for each in source}
        return {each.name for each in target} == names.keys() and all(
            can_become(names[each.name], each.type) for each in target
        )
    if one == "timestamp" and other == "timestamp":
        return (source.tz is None) == (target.tz is None)
    if one == "date" and other == "timestamp":
        return target.tz is None
    return source == target if one in ("map", "other") else one == other


def fitted(values: Any, target: pa.DataType) -> Any:
    """The values with exactly the type ``target``; raises InvalidInputError if one does not fit."""
    storage = _storage_type(target)
    if isinstance(values.type, pa.BaseExtensionType):
        values = values.storage
    if pt.is_null(values.type):
        values = pa.nulls(len(values), storage)
    if not values.type.equals(storage, check_metadata=True):
        try:
            made = cast_number(values, storage)
        except pa.ArrowException as cause:
            raise InvalidInputError(str(cause)) from cause
        values = made
    return target.wrap_array(values) if isinstance(target, pa.BaseExtensionType) else values


def cast_number(values: Any, target: pa.DataType) -> Any:
    """The values in another type. A number becomes the decimal that equals it; Arrow rounds a float
    to one, and asks of an integer that every one of its type would fit.

    Raises ArrowInvalid for a value that does not fit.
    """
    if pt.is_decimal(target) and pt.is_integer(values.type):
        return values.cast(pa.decimal128(_DIGITS_OF_INTEGERS, 0)).cast(target)
    if pt.is_floating(target) and not pt.is_integer(values.type):
        return as_float(values, target)
    made = values.cast(target)
    check_finite(values, made)
    if pt.is_decimal(target) and pt.is_floating(values.type):
        changed = pc.not_equal(made.cast(values.type), values)
        if pc.any(changed).as_py():
            value = values.filter(changed)[0].as_py()
            raise pa.ArrowInvalid(f"{value} has more digits than {target}")
    return made


def fitted_value(value: Any, target: pa.DataType) -> pa.Array:
    """One Python value, a pyarrow or numpy scalar, or a list or mapping of them, as an array.

    Raises InvalidInputError for a value that does not fit the type.
    """
    if isinstance(value, pa.Scalar) and family(plain_type(value.type)) in _NESTED:
        value = value.as_py()
    if value is None:
        return pa.nulls(1, target)
    plain = plain_type(target)
    if family(plain) in _NESTED:
        return fitted(_nested(value, _storage_type(target)), target)
    literal = literal_from(value)
    if not literal.value.is_valid:
        return pa.nulls(1, target)
    return _fitted_literal(literal, target, value)


def text_as_moment(text: str, target: pa.DataType) -> pa.Array:
    """A constant text as the date, time or timestamp of a column."""
    return _fitted_literal(parse_moment(text, plain_type(target)), target, text)


def is_moment(target: pa.DataType) -> bool:
    """Whether the type is a date, time or timestamp."""
    return family(plain_type(target)) in _TEMPORAL


def _fitted_literal(literal: Literal, target: pa.DataType, value: Any) -> pa.Array:
    """A constant in the type of a column; ``value`` is how it was given."""
    plain = plain_type(target)
    return fitted(pa.array([_met(literal, plain, value)], plain), target)


def _met(literal: Literal, plain: pa.DataType, value: Any) -> pa.Scalar:
    is_zoned = pt.is_timestamp(literal.type) and literal.type.tz is not None
    if is_zoned and not (pt.is_timestamp(plain) and plain.tz is not None):
        raise InvalidInputError(f"{value!r} has a zone, the column has none")
    found = scalar_in(literal, plain)
    if found is None:
        raise InvalidInputError(f"{value!r} is no value of {plain}")
    return found


def _nested(value: Any, storage: pa.DataType) -> pa.Array:
    if hasattr(value, "tolist"):
        value = value.tolist()
    try:
        made = pa.array([value], storage)
    except (pa.ArrowException, OverflowError, ValueError, TypeError) as cause:
        raise InvalidInputError(f"it is no value of {storage}: {cause}") from cause
    if not _is_kept(value, made[0].as_py()):
        raise InvalidInputError(f"{storage} would not hold all of it")
    return made


def _is_kept(given: Any, made: Any) -> bool:
    """Whether a nested value is unchanged: Arrow drops fractions and unknown keys."""
    if hasattr(given, "tolist"):
        given = given.tolist()
    if isinstance(made, dict):
        return (
            isinstance(given, Mapping)
            and given.keys() <= made.keys()
            and all(_is_kept(given.get(key), each) for key, each in made.items())
        )
    if isinstance(made, list):
        items = list(given.items()) if isinstance(given, Mapping) else list(given)
        return len(items) == len(made) and all(map(_is_kept, items, made))
    if isinstance(made, tuple):
        return all(map(_is_kept, given, made))
    if isinstance(made, float):
        return math.isinf(made) == math.isinf(given)
    return bool(given == made)


def _storage_type(kind: pa.DataType) -> pa.DataType:
    return kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind
