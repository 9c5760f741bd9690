"""Values that a query computed, in the types of the columns that they are stored in.

Numbers become numbers of another width, and moments moments of another unit, if nothing is lost;
nothing else is converted: an engine's CAST says what a text means as a number.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from lancewood.errors import InvalidInputError
from lancewood.jobs.rows.fitting import as_float, cast_number

_EXACT = 2.0**53
"""From here on, floats are further apart than whole numbers."""


def stored_schema(given: pa.Schema, table: pa.Schema) -> pa.Schema:
    """The columns of a query in the types in which a table stores those of that name."""
    known = {each.name: each.type for each in table}
    return pa.schema([each.with_type(_stored(each.type, known.get(each.name))) for each in given])


def stored(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """A batch in the types of ``stored_schema``; raises InvalidInputError for a value that would be
    another one there."""
    arrays = [
        _cast(array, field.name, field.type)
        for array, field in zip(batch.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def stored_table(rows: pa.Table, table: pa.Schema) -> pa.Table:
    """The same for all rows at once."""
    schema = stored_schema(rows.schema, table)
    return pa.Table.from_batches([stored(each, schema) for each in rows.to_batches()], schema)


def stored_reader(
    batches: Iterator[pa.RecordBatch], names: Sequence[str], given: pa.Schema, table: pa.Schema
) -> pa.RecordBatchReader:
    """The rows of a query, one batch after the other, under names of the table's columns."""
    renamed = pa.schema([each.with_name(n) for each, n in zip(given, names, strict=True)])
    schema = stored_schema(renamed, table)

    def made() -> Iterator[pa.RecordBatch]:
        for each in batches:
            yield stored(pa.RecordBatch.from_arrays(each.columns, schema=renamed), schema)

    return pa.RecordBatchReader.from_batches(schema, made())


def _stored(given: pa.DataType, wanted: pa.DataType | None) -> pa.DataType:
    """The wanted type if values of the given one can be told in it; else the given one, about which
    the write complains."""
    if wanted is None or given.equals(wanted) or pt.is_null(given):
        return given
    if isinstance(wanted, pa.BaseExtensionType):
        return given
    if pt.is_dictionary(wanted):
        return wanted if _same_kind(given, wanted.value_type) else given
    return wanted if _same_kind(given, wanted) else given


def _same_kind(given: pa.DataType, wanted: pa.DataType) -> bool:
    if _is_number(given) and _is_number(wanted):
        return True
    if _is_list(given) and _is_list(wanted):
        return bool(
            pt.is_null(given.value_type)
            or given.value_type.equals(wanted.value_type)
            or _same_kind(given.value_type, wanted.value_type)
        )
    if pt.is_struct(given) and pt.is_struct(wanted):
        return [each.name for each in given] == [each.name for each in wanted] and all(
            one.type.equals(two.type) or pt.is_null(one.type) or _same_kind(one.type, two.type)
            for one, two in zip(given, wanted, strict=True)
        )
    return bool(
        (
            pt.is_timestamp(given)
            and pt.is_timestamp(wanted)
            and (given.tz is None) is (wanted.tz is None)
        )
        or (pt.is_date(given) and pt.is_date(wanted))
        or (pt.is_time(given) and pt.is_time(wanted))
        or (pt.is_duration(given) and pt.is_duration(wanted))
        or (_is_text(given) and _is_text(wanted))
        or (_is_bytes(given) and _is_bytes(wanted))
    )


def _is_number(kind: pa.DataType) -> bool:
    return bool(pt.is_integer(kind) or pt.is_floating(kind) or pt.is_decimal(kind))


def _is_list(kind: pa.DataType) -> bool:
    return bool(pt.is_list(kind) or pt.is_large_list(kind) or pt.is_fixed_size_list(kind))


def _is_text(kind: pa.DataType) -> bool:
    return bool(pt.is_string(kind) or pt.is_large_string(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(pt.is_binary(kind) or pt.is_large_binary(kind) or pt.is_fixed_size_binary(kind))


def _check_exact(array: pa.Array) -> None:
    """Raise ArrowInvalid for a float that several whole numbers are rounded to: an expression with
    floats in one of its branches makes them of all."""
    largest = pc.max(pc.abs(array)).as_py()
    if largest is not None and largest >= _EXACT:
        raise pa.ArrowInvalid(f"float {largest} stands for more than one whole number")


def _cast(array: pa.Array, name: str, kind: pa.DataType) -> pa.Array:
    if array.type.equals(kind):
        return array
    try:
        if pt.is_dictionary(kind):
            return cast_number(array, kind.value_type).dictionary_encode().cast(kind)
        if pt.is_floating(array.type) and not pt.is_floating(kind):
            _check_exact(array)
        if pt.is_floating(kind):
            return as_float(array, kind)
        return cast_number(array, kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as cause:
        raise InvalidInputError(
            f"column {name!r} is {kind}, and a value of {array.type} does not fit: {cause}; "
            f"{_way_out(kind)}",
            column=name,
        ) from cause


def _way_out(kind: pa.DataType) -> str:
    if pt.is_floating(kind):  # a cast to it would be as large
        return "write one that fits, or change the type of the column with ALTER TABLE"
    return "write a CAST, to say what it should become"
