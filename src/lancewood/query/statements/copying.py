"""``COPY``: the rows of a query become a file, as by ``lw table export``; the rows of a file are
added to a table, as by ``lw table import``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from lancewood.errors import InvalidInputError
from lancewood.files.csv_source import CsvOptions
from lancewood.files.formats import FileFormat, checked_encoding, require_format
from lancewood.files.sinks import check_target, writing
from lancewood.files.sources import ImportOptions, SourceFiles
from lancewood.query.statements import model


def write_file(statement: model.CopyTo, rows: Any) -> int:
    """Write all rows of a query to the file, whole or not at all; how many there are."""
    options, count = dict(statement.options), 0
    force, format = _flag(options, "overwrite"), _format(statement.file, options)
    with writing(statement.file, format, rows.schema, force=force) as sink:
        for batch in rows.to_batches():
            sink.write(batch)
            count += batch.num_rows
    return count


def check_file(statement: model.CopyTo) -> None:
    """Raise an error for a file that cannot be written, or may not be replaced."""
    options = dict(statement.options)
    _format(statement.file, options)
    check_target(_checked(statement.file), force=_flag(options, "overwrite"))


def file_rows(statement: model.CopyFrom, table: pa.Schema) -> pa.RecordBatchReader:
    """The rows of the file, by the names of its columns, in the types that the table has."""
    options = dict(statement.options)
    delimiter = options.get("delimiter")
    if delimiter is not None and (len(delimiter) != 1 or delimiter in '"\r\n\0'):
        raise InvalidInputError(f"DELIMITER is one character between values, not {delimiter!r}")
    nulls = [options["nullstr"]] if "nullstr" in options else []
    csv = CsvOptions(delimiter, _flag(options, "header", default=True), None, nulls)
    encoding = checked_encoding(options["encoding"]) if "encoding" in options else None
    format = _format(statement.file, options)
    asked = ImportOptions(format, table=table, csv=csv, encoding=encoding)
    return SourceFiles([_checked(statement.file)], asked).reader(lambda rows, size: None)


def _checked(file: str) -> str:
    if file in ("", "-"):
        raise InvalidInputError(f"COPY takes the path of a file in quotes, not {file!r}")
    return file


def _format(file: str, options: Mapping[str, str]) -> FileFormat:
    given = options.get("format", "").lower()
    if given and given not in [*FileFormat]:
        raise InvalidInputError(
            f"FORMAT {given!r} is not known: it is one of {', '.join(FileFormat)}"
        )
    return require_format(file, FileFormat(given) if given else None)


def _flag(options: Mapping[str, str], name: str, *, default: bool = False) -> bool:
    value = options.get(name, str(default)).lower()
    if value not in ("true", "false"):
        raise InvalidInputError(f"{name.upper()} is true or false, not {value!r}")
    return value == "true"
