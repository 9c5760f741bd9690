"""Sources as Spark or a Lance table give them: the whole of one moment, with no row read yet.

``new_files`` and ``new_rows`` find what is new since the last run, ``bad_rows`` what is bad.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from lancewood.errors import InvalidInputError
from lancewood.pipeline.context import RunContext
from lancewood.pipeline.definition.model import Option, Pipeline, Source
from lancewood.pipeline.definition.names import errors_at, near, wrong
from lancewood.pipeline.definition.toml_file import plain_options
from lancewood.pipeline.frames.line_records import FILE, LINE, PROBLEM
from lancewood.pipeline.frames.texts import (
    CORRUPT,
    CORRUPT_OPTION,
    FAIL,
    FILE_TIME,
    KEEP,
    MODE,
    file_of,
    is_parsed,
    is_text,
    keeps_corrupt,
    line_reader,
    lines_of,
    may_be_bad,
    quoted,
    rows_of,
)
from lancewood.table import Table
from lancewood.table import open as open_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    Reader = TypeVar("Reader", bound=Any)


_FORMATS_OF_FILES = frozenset(
    ["csv", "json", "xml", "text", "parquet", "orc", "avro", "binaryfile"]
)


def configured(reader: Reader, source: Source) -> Reader:
    """A batch or stream reader with the format, options and schema of a source.

    Rows of csv, json and xml that do not parse are kept in a column of our own if there is a
    schema; without one they end the run. A file that sets ``mode`` or the column for them overrides
    this.
    """
    options = {**_parsing(source), **source.options}
    reader = reader.format(source.format)
    for name, value in plain_options(options).items():
        reader = reader.option(name, value)
    if source.schema is not None:
        more = f", {CORRUPT} STRING" if keeps_corrupt(source) else ""
        reader = reader.schema(source.schema + more)
    return reader


def _parsing(source: Source) -> dict[str, Option]:
    if not is_parsed(source):
        return {}
    if keeps_corrupt(source):
        return {MODE: KEEP, CORRUPT_OPTION: CORRUPT}
    return {MODE: FAIL}


def with_file(frame: DataFrame, source: Source) -> DataFrame:
    """The frame with the file of each row, if rows may be bad and come from files, and with the
    file's time if the source asks for it. Calling it twice is harmless."""
    if source.file_time is not None and FILE_TIME not in frame.columns:
        written = frame.metadataColumn("_metadata")["file_modification_time"]
        frame = frame.withColumn(FILE_TIME, written)
    is_in_files = source.paths and (source.format or "").casefold() in _FORMATS_OF_FILES
    if not may_be_bad(source) or not is_in_files or FILE in frame.columns:
        return frame
    return frame.withColumn(FILE, file_of(frame))


def read_format(spark: SparkSession, source: Source) -> DataFrame:
    """What ``spark.read`` gives for a source with a format, with our columns."""
    if not source.paths:
        return configured(spark.read, source).load()
    return read_files(spark, source, source.paths)


def read_files(
    spark: SparkSession, source: Source, paths: Sequence[str], base: str | None = None
) -> DataFrame:
    """The rows of some files of a source, with our columns; ``base`` is where partitions begin."""
    reader = line_reader(spark.read, source) if is_text(source) else configured(spark.read, source)
    if base is not None:
        reader = reader.option("basePath", base)
    loaded = reader.load(list(paths))
    if is_text(source):
        return rows_of(spark, lines_of(spark, loaded, source, list(paths)), source)
    return with_file(loaded, source)


def open_source(pipeline: Pipeline, source: Source, context: RunContext) -> Table:
    """The current version of the Lance table that a source names.

    Raises NotFoundError, and what opening a table raises.
    """
    if source.table is not None:
        if not context.has(source.table, revision=source.revision):
            at = source.revision or f"branch {pipeline.branch!r}"
            raise wrong(
                source.spot.at("table"),
                f"{at} of the repository {pipeline.repository} has no table {source.table!r}: a "
                "source reads tables as they were before the run",
            )
        return context.open(source.table, revision=source.revision)
    assert source.uri is not None
    options = plain_options({**pipeline.storage_options, **source.options})
    return open_table(source.uri, at=source.revision, storage_options=options or None)


def columns_read(source: Source) -> list[str] | None:
    """The columns of a table that a source needs; None for all."""
    if not source.columns:
        return None
    return list(dict.fromkeys((*source.columns, *([source.bad] if source.bad else ()))))


def chosen_columns(frame: DataFrame, source: Source) -> DataFrame:
    """Only the columns that the source asks for, and ours; raises InvalidInputError."""
    if source.file_time is not None:
        frame = frame.withColumnRenamed(FILE_TIME, source.file_time)
        with errors_at(source.spot.at("file_time")):
            check_unique(frame)
    if not source.columns:
        return frame
    by_name = {each.casefold(): each for each in frame.columns}
    for number, each in enumerate(source.columns):
        if each.casefold() not in by_name:
            raise wrong(
                source.spot.at("columns", number),
                f"there is no column {each!r}: {near(each, by_name.values())}",
            )
    kept = [*source.columns]
    for own in (source.bad, source.file_time, CORRUPT, PROBLEM, LINE, FILE):
        if own is not None and own.casefold() in by_name and own not in kept:
            kept.append(own)
    return frame.select(*map(quoted, kept))


def check_unique(frame: DataFrame) -> None:
    """Raise InvalidInputError if two columns have the same name."""
    seen: set[str] = set()
    for each in frame.columns:
        if each.casefold() in seen:
            raise InvalidInputError(f"two columns are called {each!r}: give one another name")
        seen.add(each.casefold())
