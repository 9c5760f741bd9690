"""The columns that a text names: found in an Arrow schema, and given to DuckDB as it can read them.

DuckDB folds the case of names and lacks a few types. Only named columns are handed over, of structs
only named fields, so that tables with ``a`` and ``A``, or with a column of a strange type, can be
asked for the others. Values are converted exactly, or refused.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from lancewood.errors import InvalidInputError
from lancewood.expr.syntax import unknown_hint
from lancewood.model.schema import EXTENSION_NAME

Path: TypeAlias = tuple[str, ...]

_MOST_DIGITS = 38
_KNOWN_EXTENSIONS = frozenset({"arrow.bool8", "arrow.json", "arrow.uuid"})
_LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}


def folded(name: str) -> str:
    """A name as DuckDB compares it: without the case of ASCII letters."""
    return name.translate(_LOWER)


def resolve(names: Iterable[Path], schema: pa.Schema) -> tuple[Path, ...]:
    """The paths of the columns and fields that dotted names mean, in the schema's order of columns.

    A field is left out where its whole parent is named too. Raises InvalidInputError for unknown
    names, and for two columns whose names differ in case alone.
    """
    found = dict.fromkeys(path_of(name, schema) for name in names)
    outer = [path for path in found if not any(path[:n] in found for n in range(1, len(path)))]
    known: dict[Path, Path] = {}
    for path in outer:
        for end in range(1, len(path) + 1):
            other = known.setdefault(tuple(map(folded, path[:end])), path[:end])
            if other != path[:end]:
                raise InvalidInputError(
                    f"{'.'.join(other)!r} and {'.'.join(path[:end])!r} differ in case alone, and "
                    "DuckDB cannot tell them apart in one expression; rename one of them"
                )
    return tuple(sorted(outer, key=lambda path: schema.names.index(path[0])))


def path_of(name: Sequence[str], schema: pa.Schema, fold: Callable[[str], str] = folded) -> Path:
    """The column, or the field with the names that lead to it, that a dotted name means; raises
    InvalidInputError for an unknown one."""
    path: Path = (find(name[0], schema.names, "column", "the table", fold),)
    kind = schema.field(path[0]).type
    for part in name[1:]:
        owner = f"column {'.'.join(path)!r}"
        if not pt.is_struct(kind):
            raise InvalidInputError(
                f"{owner} is of type {kind}, not a struct: it has no field {part!r}"
            )
        path = (*path, find(part, [each.name for each in kind], "field", owner, fold))
        kind = kind.field(path[-1]).type
    return path


def type_at(path: Path, schema: pa.Schema) -> pa.DataType:
    """The type of the column or field at a path."""
    kind = schema.field(path[0]).type
    for name in path[1:]:
        kind = kind.field(name).type
    return kind


def array_at(path: Path, rows: pa.RecordBatch | pa.Table, schema: pa.Schema) -> Any:
    """The values of the column or field at a path, null where a struct around it is null.

    Raises InvalidInputError if ``rows`` lack it or have it in another type than ``schema``.
    """
    found = rows.schema.get_all_field_indices(path[0])
    if len(found) != 1:
        raise InvalidInputError(
            f"the batch has {len(found) or 'no'} column{'s'[: len(found)]} {path[0]!r}; "
            f"it holds {', '.join(map(repr, rows.schema.names))}"
        )
    array = rows.column(found[0])
    for name in path[1:]:
        index = array.type.get_field_index(name) if pt.is_struct(array.type) else -1
        if index < 0:
            raise InvalidInputError(
                f"the batch has no field {'.'.join(path)!r}: {path[0]!r} is {array.type}"
            )
        array = pc.struct_field(array, [index])
    expected = type_at(path, schema)
    if array.type == expected:
        return array
    if pt.is_nested(expected) and array.type.id == expected.id:  # names and nullability of children
        try:
            return array.cast(expected)
        except pa.ArrowException:
            pass
    raise InvalidInputError(
        f"column {'.'.join(path)!r} of the batch is {array.type}, "
        f"the expression was checked against {expected}"
    )


def readable_schema(paths: Sequence[Path], schema: pa.Schema) -> pa.Schema:
    """The schema in which DuckDB is given the columns and fields at ``paths``.

    Raises InvalidInputError that names a column whose type DuckDB lacks.
    """
    return pa.schema(
        [pa.field(name, _type_of(below, (name,), schema)) for name, below in _tops(paths)]
    )


def readable_rows(
    paths: Sequence[Path], rows: pa.RecordBatch | pa.Table, schema: pa.Schema, readable: pa.Schema
) -> pa.Table:
    """The columns and fields at ``paths`` of some rows, in the schema ``readable``.

    Raises InvalidInputError for a value that DuckDB's type does not hold.
    """
    arrays = [
        readable_column(name, _array_of(below, (name,), rows, schema), readable.field(name).type)
        for name, below in _tops(paths)
    ]
    found = pa.Table.from_arrays(arrays, schema=readable)
    return found.combine_chunks() if any(map(_holds_nested, readable.types)) else found


def readable_column(name: str, values: Any, kind: pa.DataType) -> Any:
    """The values of a column in the type in which DuckDB reads it.

    Raises InvalidInputError for a value that this type does not hold.
    """
    try:
        return as_readable(values, kind)
    except (pa.ArrowException, NotImplementedError) as cause:
        raise InvalidInputError(
            f"column {name!r} cannot be given to DuckDB: {cause}", column=name
        ) from cause


def as_readable(array: Any, kind: pa.DataType) -> Any:
    """An array, or a chunked one, in the type in which DuckDB reads it."""
    if isinstance(array, pa.ChunkedArray):
        return pa.chunked_array([as_readable(each, kind) for each in array.chunks], kind)
    if array.type == kind and not _holds_nested(kind):
        return array
    if isinstance(array.type, pa.BaseExtensionType):
        return as_readable(array.storage, kind)
    if pt.is_dictionary(array.type):
        return as_readable(array.dictionary_decode(), kind)
    if pt.is_struct(kind):
        children = [as_readable(array.field(n), each.type) for n, each in enumerate(kind)]
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(children, fields=list(kind), mask=mask)
    return array.cast(kind)


def _holds_nested(kind: pa.DataType) -> bool:
    """Whether DuckDB refuses slices of a type, as it cuts chunks of different lengths."""
    return pt.is_struct(kind) and any(pt.is_nested(each.type) for each in kind)


def readable_type(kind: pa.DataType) -> pa.DataType | None:
    """The type in which DuckDB reads values of an Arrow type as they are; None if it has none."""
    if isinstance(kind, pa.BaseExtensionType):
        known = kind.extension_name in _KNOWN_EXTENSIONS
        return kind if known else readable_type(kind.storage_type)
    if pt.is_dictionary(kind) or pt.is_run_end_encoded(kind):
        return readable_type(kind.value_type)
    if pt.is_float16(kind):
        return pa.float32()
    if pt.is_date64(kind):
        return pa.date32()
    if pt.is_duration(kind):
        return pa.duration("us")
    if pt.is_decimal(kind):
        scale = max(kind.scale, 0)
        precision = max(kind.precision - min(kind.scale, 0), scale)
        return pa.decimal128(precision, scale) if precision <= _MOST_DIGITS else None
    if pt.is_union(kind):
        return None
    if pt.is_struct(kind):
        below = [(each.name, readable_type(each.type)) for each in kind]
        is_told_apart = len({folded(name) for name, _ in below}) == len(below) > 0
        lacks_one = any(each is None for _, each in below)
        return pa.struct(below) if is_told_apart and not lacks_one else None
    if pt.is_map(kind):
        key, item = readable_type(kind.key_type), readable_type(kind.item_type)
        return None if key is None or item is None else pa.map_(key, item)
    if pt.is_list(kind) or pt.is_large_list(kind) or pt.is_fixed_size_list(kind):
        item = readable_type(kind.value_type)
        if item is None or pt.is_large_list(kind):
            return None if item is None else pa.large_list(item)
        return pa.list_(item, kind.list_size if pt.is_fixed_size_list(kind) else -1)
    return kind


def _type_of(below: Sequence[Path], path: Path, schema: pa.Schema) -> pa.DataType:
    """The readable type of a column with only the fields ``below`` it; all of them for ``()``."""
    if below == [()]:
        kind = readable_type(type_at(path, schema))
        if kind is None:
            raise InvalidInputError(
                f"column {'.'.join(path)!r} is of type {type_at(path, schema)}, which DuckDB "
                "does not have; name other columns",
                column=path[0],
            )
        return kind
    return pa.struct(
        [(name, _type_of(inner, (*path, name), schema)) for name, inner in _tops(below)]
    )


def _array_of(below: Sequence[Path], path: Path, rows: Any, schema: pa.Schema) -> Any:
    if below == [()]:
        return array_at(path, rows, schema)
    parts = {name: _array_of(inner, (*path, name), rows, schema) for name, inner in _tops(below)}
    arrays = [x.combine_chunks() if isinstance(x, pa.ChunkedArray) else x for x in parts.values()]
    return pa.StructArray.from_arrays(arrays, names=list(parts))


def _tops(paths: Iterable[Path]) -> list[tuple[str, list[Path]]]:
    """The names that paths begin with, each with what follows it."""
    found: dict[str, list[Path]] = {}
    for path in paths:
        found.setdefault(path[0], []).append(path[1:])
    return list(found.items())


def alike(name: str, names: Collection[str], fold: Callable[[str], str] = folded) -> list[str]:
    """The names that one may mean: itself, or else those that compare as equal."""
    return [name] if name in names else [each for each in names if fold(each) == fold(name)]


def find(
    name: str,
    names: Collection[str],
    kind: str,
    owner: str,
    fold: Callable[[str], str] = folded,
) -> str:
    """The column or field that a name means; raises InvalidInputError for none, and for several."""
    matches = [each for each in names if each == name] or alike(name, names, fold)
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise InvalidInputError(
            f"{kind} {name!r} of {owner} is ambiguous: it could be "
            f"{', '.join(map(repr, matches))}; write it exactly as it is"
        )
    near = {folded(each): each for each in names}
    close = difflib.get_close_matches(folded(name), near, n=1)
    way_out = "; a text stands in single quotes." if kind == "column" else "."
    way_out = f", did you mean {near[close[0]]!r}?" if close else way_out
    way_out = (unknown_hint(name) if kind == "column" else "") or way_out
    own = [each for each in names if not each.startswith("_row")]
    more = f" and {len(own) - 30} more" if len(own) > 30 else ""
    listed = f"Its {kind}s are {', '.join(map(repr, own[:30]))}{more}"
    listed = listed if own else f"It has no {kind}s"
    raise InvalidInputError(
        f"{owner} has no {kind} {name!r}{way_out} {listed}", name=name, names=list(names)
    )


def duckdb_type(field: pa.Field) -> pa.DataType | None:
    """The Arrow type in which DuckDB gets a column; None where it has no type for its values.

    Extension types that DuckDB does not know are refused unless they store text: only their owner
    knows what the bytes mean.
    """
    kind = readable_type(field.type)
    is_known = isinstance(kind, pa.BaseExtensionType)
    is_extension = isinstance(field.type, pa.BaseExtensionType)
    is_extension = is_extension or EXTENSION_NAME.encode() in (field.metadata or {})
    is_text = kind is not None and (pt.is_string(kind) or pt.is_large_string(kind))
    return None if is_extension and not (is_known or is_text) else kind


def usual_type(kind: pa.DataType) -> pa.DataType:
    """A type of DuckDB's answers with `item` for the values of lists."""
    if pt.is_struct(kind):
        return pa.struct([each.with_type(usual_type(each.type)) for each in kind])
    if pt.is_list(kind) or pt.is_fixed_size_list(kind):
        size = kind.list_size if pt.is_fixed_size_list(kind) else -1
        return pa.list_(pa.field("item", usual_type(kind.value_type)), size)
    if pt.is_map(kind):
        return pa.map_(usual_type(kind.key_type), usual_type(kind.item_type))
    return kind


def why_not(field: pa.Field, names: list[str]) -> str | None:
    """Why a query cannot ask for a column; None if it can. `names` are all columns of the table."""
    alike = [each for each in names if folded(each) == folded(field.name)]
    if len(alike) > 1:
        return (
            f"the columns {' and '.join(map(repr, alike))} differ only in upper and lower case, "
            "which are the same in SQL: rename one with Table.rename_column, or read with "
            "Table.scan"
        )
    if duckdb_type(field) is None:
        return (
            f"column {field.name!r} is {field.type}, for which DuckDB has no type: leave it out of "
            "the query, as with SELECT * EXCLUDE, or read it with Table.scan"
        )
    return None
