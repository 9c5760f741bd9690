"""The assignments of an update: columns or fields of structs, each to an expression or a constant.

All of them are checked against the schema before anything is read. New values are computed from
batches of old ones. What is stored must be what was meant: a number that does not fit, a fraction
for an integer or a text for a number is an error, not a rounding.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pyarrow as pa

from lancewood.engine.schema import Parameters, Path, project, row_schema, stored_paths
from lancewood.errors import InvalidInputError, UnsupportedError
from lancewood.expr import Expression, parse_expression
from lancewood.format.schema import to_arrow_field
from lancewood.jobs.rows.fitting import constant_value, fitted, fitted_value, fitting_expression
from lancewood.model.ids import FieldId
from lancewood.model.schema import SYSTEM_COLUMNS, Field, Schema


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
        """Pickle without cached values."""
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
    """The constant as an array with one value."""
    sql: str = ""
    expression: Expression | None = None

    def computed(self, rows: pa.RecordBatch) -> pa.Array:
        if self.expression is None:
            assert self.constant is not None
            return self.constant.take(pa.repeat(pa.scalar(0, pa.int64()), rows.num_rows))
        name = ".".join(self.path)
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
                f"column {name!r}: {self.sql} gives a value that does not fit {self.target}: "
                f"{cause.message}",
                column=name,
                sql=self.sql,
            ) from cause


def _assignment(
    path: Path, node: Field, value: Any, rows: pa.Schema, named: Mapping[str, Any] | None
) -> _Assignment:
    target = to_arrow_field(node).type
    if not isinstance(value, str):
        return _constant(path, node, target, fitted_value(value, target))
    expression = parse_expression(value, rows, named)
    if not expression.columns:
        return _constant(path, node, target, constant_value(expression, target))
    expression = fitting_expression(expression, target)
    fitted(pa.nulls(0, expression.type), target)
    return _Assignment(path, node, target, None, value, expression)


def _constant(path: Path, node: Field, target: pa.DataType, value: pa.Array) -> _Assignment:
    if value.null_count and not node.nullable:
        raise InvalidInputError("it may not be null")
    return _Assignment(path, node, target, value)


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
