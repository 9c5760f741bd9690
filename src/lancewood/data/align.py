"""Fitting the columns that a caller passes to the columns of a table.

Accepts harmless differences between two schemas: the order of columns, the width of string offsets,
views, names of list items, nullability. Adds, widens and converts nothing else. Opens no file.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lancewood.data.arrays import FieldPart, assemble
from lancewood.errors import InvalidInputError
from lancewood.format.logical_type import JSON, decode_leaf_type, is_parent
from lancewood.format.schema import to_arrow_field, to_arrow_schema
from lancewood.model.schema import Field, Schema

_SHOWN = 10


@dataclass(frozen=True)
class Alignment:
    """How rows fit a table: which of its columns they hold, and how each batch is converted."""

    schema: Schema
    """The table's columns that the rows hold, in the table's order, with the table's ids."""
    arrow: pa.Schema
    """``schema`` in Arrow, without its own metadata."""

    def cast(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch with exactly the columns and types of ``arrow``.

        Raises InvalidInputError for a null in a column that does not allow it. Copies values only
        if strings change their width.
        """
        columns = []
        for field, target in zip(self.schema.fields, self.arrow, strict=True):
            source = batch.column(field.name)
            if pa.types.is_null(source.type):
                source = pa.nulls(len(source), target.type)
            column = assemble(field, target.type, [FieldPart(source)], len(source))
            _check_nulls(field, column, field.name)
            columns.append(column)
        return pa.RecordBatch.from_arrays(columns, schema=self.arrow)


def align_schema(table: Schema, data: pa.Schema, *, complete: bool = False) -> Alignment:
    """How rows of the schema ``data`` are appended to ``table``.

    Columns are matched by name. Nullable columns, and nullable children of structs, may be missing,
    unless ``complete`` requires every column and child. Raises InvalidInputError that lists
    everything that does not fit.
    """
    problems: list[str] = []
    counts = Counter(data.names)
    problems += [f"column {name!r} occurs twice" for name, count in counts.items() if count > 1]
    known = set(table.names)
    problems += [_unknown(each, table.names) for each in data.names if each not in known]
    kept = []
    for field in table.fields:
        index = data.get_field_index(field.name)
        if index >= 0:
            kept.append(field)
            _match(field, data.field(index).type, field.name, problems, complete=complete)
        elif field.name not in counts and (complete or not field.nullable):
            problems.append(f"column {field.name!r} is {_missing_text(complete)}")
    if not kept and not problems:
        problems.append("no column of the table is there")
    if problems:
        raise InvalidInputError(
            f"the data does not fit the table: {_listed(problems)}. Rename, cast or drop what "
            "does not fit",
            problems=problems,
        )
    schema = Schema(tuple(kept), table.metadata)
    return Alignment(schema, to_arrow_schema(schema).remove_metadata())


def _missing_text(complete: bool) -> str:
    return "missing" if complete else "missing and may not be null"


def _unknown(name: str, names: Sequence[str]) -> str:
    text = f"column {name!r} is not in the table"
    if name.startswith("__index_level_"):
        return f"{text} (it is the index of a pandas frame: use reset_index(drop=True))"
    close = difflib.get_close_matches(name, names[:100], n=1)
    return f"{text} (did you mean {close[0]!r}?)" if close else text


def _listed(problems: Sequence[str]) -> str:
    shown = "; ".join(problems[:_SHOWN])
    return shown if len(problems) <= _SHOWN else f"{shown}; and {len(problems) - _SHOWN} more"


def _match(
    field: Field, kind: pa.DataType, path: str, problems: list[str], *, complete: bool
) -> None:
    """Record what keeps a type of the data from being written as ``field``."""
    if pa.types.is_null(kind) and field.nullable and path == field.name:
        return
    target = to_arrow_field(field).type
    if isinstance(kind, pa.BaseExtensionType):
        wanted = target.extension_name if isinstance(target, pa.BaseExtensionType) else None
        if wanted not in (None, kind.extension_name):
            problems.append(f"column {path!r} is {kind}, the table has {target}")
            return
        if field.logical_type == JSON and wanted is not None:
            return
        kind = kind.storage_type
    elif field.logical_type == JSON:
        problems.append(f"column {path!r} is {kind}, the table has JSON: pass pa.json_() text")
        return
    if not is_parent(field.logical_type):
        if not _same_leaf(kind, decode_leaf_type(field.logical_type)):
            problems.append(f"column {path!r} is {kind}, the table has {target}")
        return
    plain = target.storage_type if isinstance(target, pa.BaseExtensionType) else target
    if not _same_family(kind, plain):
        problems.append(f"column {path!r} is {kind}, the table has {target}")
    elif field.logical_type == "struct":
        _match_struct(field, kind, path, problems, complete=complete)
    elif field.logical_type == "map":
        key, value = field.children[0].children
        _match(key, kind.key_type, f"{path}.{key.name}", problems, complete=complete)
        _match(value, kind.item_type, f"{path}.{value.name}", problems, complete=complete)
    else:
        child = field.children[0]
        _match(child, kind.value_type, f"{path}.{child.name}", problems, complete=complete)


def _match_struct(
    field: Field, kind: pa.StructType, path: str, problems: list[str], *, complete: bool
) -> None:
    names = [each.name for each in kind]
    wanted = {each.name for each in field.children}
    for name in names:
        if name not in wanted:
            problems.append(f"column {f'{path}.{name}'!r} is not in the table")
    for child in field.children:
        below = f"{path}.{child.name}"
        if names.count(child.name) > 1:
            problems.append(f"column {below!r} occurs twice")
        elif child.name in names:
            _match(child, kind.field(child.name).type, below, problems, complete=complete)
        elif complete or not child.nullable:
            problems.append(f"column {below!r} is {_missing_text(complete)}")


def _same_family(kind: pa.DataType, target: pa.DataType) -> bool:
    if pa.types.is_fixed_size_list(target):
        return bool(pa.types.is_fixed_size_list(kind) and kind.list_size == target.list_size)
    for test in (pa.types.is_struct, pa.types.is_map, pa.types.is_list, pa.types.is_large_list):
        if test(target):
            return bool(test(kind))
    return False


_TEXT = ("string", "large_string", "string_view")
_BYTES = ("binary", "large_binary", "binary_view")


def _same_leaf(kind: pa.DataType, target: pa.DataType) -> bool:
    if pa.types.is_fixed_size_list(target):
        if not pa.types.is_fixed_size_list(kind) or kind.list_size != target.list_size:
            return False
        element = kind.value_type
        if isinstance(element, pa.BaseExtensionType):
            element = element.storage_type
        return _same_leaf(element, target.value_type)
    if pa.types.is_dictionary(target) and pa.types.is_dictionary(kind):
        return bool(
            kind.index_type == target.index_type and _same_leaf(kind.value_type, target.value_type)
        )
    if kind == target:
        return True
    return any(str(kind) in family and str(target) in family for family in (_TEXT, _BYTES))


def _check_nulls(field: Field, column: pa.Array, path: str) -> None:
    """Raise InvalidInputError for a null that the field, or one below it, does not allow."""
    if not field.nullable and column.null_count:
        raise InvalidInputError(
            f"column {path!r} may not be null, but {column.null_count} values are", column=path
        )
    if all(each.nullable for each in field.walk()):
        return
    if isinstance(column.type, pa.BaseExtensionType):
        column = column.storage
    if field.logical_type == "struct":
        valid = column.is_valid() if column.null_count else None
        for index, child in enumerate(field.children):
            below = column.field(index)
            rows = below if valid is None else pc.array_filter(below, valid)
            _check_nulls(child, rows, f"{path}.{child.name}")
    elif field.logical_type == "map":
        value = field.children[0].children[1]
        _check_nulls(value, column.items, f"{path}.{value.name}")
    elif field.children and column.null_count < len(column):
        # Lists that are all null have no items, and Arrow makes none of some extension types.
        child = field.children[0]
        _check_nulls(child, column.flatten(), f"{path}.{child.name}")
