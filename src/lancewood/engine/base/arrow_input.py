"""Data that callers pass in, as one stream of record batches.

Anything with Arrow's C stream interface is taken as it is: pyarrow, polars, pandas, duckdb. A named
pandas index becomes a column. An unnamed one is refused, unless it is a plain RangeIndex; a named
RangeIndex is refused, because pandas does not export it. Nothing is read here; a bad object is
refused before a file is written.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from lancewood.errors import InvalidInputError, LancewoodError

if TYPE_CHECKING:
    import pyarrow as pa

_NAMELESS_INDEX = re.compile(r"__index_level_\d+__")
_PANDAS = b"pandas"
_READERS = ("to_arrow_reader", "to_reader")


def as_reader(data: Any, schema: pa.Schema | None = None) -> pa.RecordBatchReader:
    """A reader over the data; ``schema`` is needed only for an iterator of batches.

    Raises InvalidInputError for what is not Arrow data.
    """
    import pyarrow as pa

    from lancewood.format.schema import check_whole

    _check_polars(data)
    if isinstance(data, pa.Schema | list | tuple) or hasattr(data, "scanner") or _speaks(data):
        for name in _names(data):
            check_whole(name)
    reader = _reader(data, schema)
    note = (reader.schema.metadata or {}).get(_PANDAS)
    return reader if note is None else _without_counting_index(reader, note)


def _without_counting_index(reader: pa.RecordBatchReader, note: bytes) -> pa.RecordBatchReader:
    """Remove pandas' note about a RangeIndex from the schema.

    Rows of a table come and go, and the note would give later rows wrong labels.
    """
    import pyarrow as pa

    for name in reader.schema.names:
        if _NAMELESS_INDEX.fullmatch(name):
            raise InvalidInputError(
                f"the index of the frame has no name and would become a column {name!r}: "
                "give it a name, or drop it with reset_index(drop=True)",
                column=name,
            )
    try:
        known = json.loads(note)
        indices = list(known["index_columns"])
    except (ValueError, KeyError, TypeError):
        return reader  # not written by pandas, which will not read it either
    counting = [each for each in indices if isinstance(each, dict)]
    for each in counting:
        if each.get("name") is not None:
            raise InvalidInputError(
                f"the index {each['name']!r} of the frame only counts, so pandas does not hand it "
                "over as a column: make it one with reset_index(), or drop it with "
                "reset_index(drop=True)",
                column=str(each["name"]),
            )
    if not counting:
        return reader
    known["index_columns"] = [each for each in indices if not isinstance(each, dict)]
    metadata = {**reader.schema.metadata, _PANDAS: json.dumps(known).encode()}
    return pa.RecordBatchReader.from_batches(
        reader.schema.with_metadata(metadata),
        (each.replace_schema_metadata(metadata) for each in reader),
    )


def _speaks(data: Any) -> bool:
    return hasattr(data, "__arrow_c_stream__")


def _names(data: Any) -> Iterator[str]:
    """The names of columns and fields as the caller has them: Arrow's stream may shorten them."""
    import pyarrow as pa

    known = data if isinstance(data, pa.Schema) else getattr(data, "schema", None)
    if isinstance(known, pa.Schema):
        yield from _below(known)
    elif isinstance(known, Mapping):  # polars
        yield from _below_polars(known.items())
    elif not callable(columns := getattr(data, "columns", ())):  # pandas, duckdb
        yield from (each for each in columns if isinstance(each, str))
    for batch in data if isinstance(data, list | tuple) else ():
        if isinstance(batch, pa.RecordBatch):
            yield from _below(batch.schema)


def _below(fields: Iterable[pa.Field]) -> Iterator[str]:
    import pyarrow as pa

    for each in fields:
        yield each.name
        kind = each.type.storage_type if isinstance(each.type, pa.BaseExtensionType) else each.type
        yield from _below(kind.field(at) for at in range(kind.num_fields))


def _below_polars(fields: Iterable[tuple[str, Any]]) -> Iterator[str]:
    for name, kind in fields:
        yield name
        inner = [(each.name, each.dtype) for each in getattr(kind, "fields", ())]
        if hasattr(kind, "inner"):
            inner.append(("", kind.inner))
        yield from _below_polars(inner)


def _check_polars(data: Any) -> None:
    """Raise InvalidInputError for Python objects: polars exports their addresses as bytes."""
    is_polars = type(data).__module__.partition(".")[0] == "polars"
    if not (is_polars and hasattr(data, "__arrow_c_stream__") and hasattr(data, "columns")):
        return
    for name, kind in zip(data.columns, data.dtypes, strict=True):
        if str(kind) == "Object":
            raise InvalidInputError(
                f"column {name!r} holds Python objects, which Arrow cannot hold; cast it",
                column=name,
            )


def _reader(data: Any, schema: pa.Schema | None) -> pa.RecordBatchReader:
    import pyarrow as pa

    if isinstance(data, pa.Schema):
        return pa.RecordBatchReader.from_batches(data, iter(()))
    if isinstance(data, pa.RecordBatchReader):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.RecordBatchReader.from_batches(data.schema, [data])
    if _speaks(data):
        try:
            return pa.RecordBatchReader.from_stream(data)
        except LancewoodError:
            raise
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as cause:
            raise _refused(data, cause) from cause
    if hasattr(data, "scanner"):
        data = data.scanner()
    for verb in _READERS:
        if hasattr(data, verb):
            return getattr(data, verb)()
    if isinstance(data, list | tuple) and data and isinstance(data[0], pa.RecordBatch):
        schema = data[0].schema if schema is None else schema
    if schema is not None and isinstance(data, list | tuple | Iterator):
        return pa.RecordBatchReader.from_batches(schema, _batches(data))
    raise InvalidInputError(
        f"data must speak Arrow (pyarrow, polars, pandas, duckdb) or be a pyarrow.Schema for an "
        f"empty table; {type(data).__name__} does neither{_hint(data)}"
    )


def _refused(data: Any, cause: Exception) -> InvalidInputError:
    """The error for data that cannot become Arrow, with the first column that fails."""
    import pyarrow as pa

    kind, why = type(data).__name__, cause.args[0] if cause.args else cause
    for name in getattr(data, "columns", ()) if hasattr(data, "iloc") else ():
        try:
            pa.RecordBatchReader.from_stream(data[[name]])
        except Exception as found:
            why = found.args[0] if found.args else found
            return InvalidInputError(
                f"{kind} is no table of rows: column {str(name)!r} cannot become Arrow: {why}; "
                "cast it",
                column=str(name),
            )
    return InvalidInputError(f"{kind} is no table of rows: {why}")


def _hint(data: object) -> str:
    if hasattr(data, "collect"):
        return ": call collect() on it first"
    if isinstance(data, Iterator):
        return ": an iterator of record batches needs schema="
    return ""


def _batches(data: Iterable[Any]) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    for each in data:
        if not isinstance(each, pa.RecordBatch):
            raise InvalidInputError(
                f"a list of data holds record batches, {type(each).__name__} was found in it"
            )
        yield each
