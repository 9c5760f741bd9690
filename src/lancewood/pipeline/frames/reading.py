"""Sources as frames: the whole of one moment, with no row read yet.

Spark reads most formats, a Lance table itself, and CSV and JSON files record by record: Spark lists
the files, reads them as lines, and converts the texts of records to values, with its own options.
In between, in its tasks, ``csv_records`` and ``json_records`` say what a record is, and which
column is where: Spark's own readers of these formats take columns by position, and lose values
without a word.

A record may span lines, so that a file comes to one task as a whole. Spark does not cut a file that
is no larger than what opening one costs; the lines of larger ones are brought together first. With
``multiLine = false`` every line is a record, and Spark may cut files anywhere.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from lancewood.errors import InvalidInputError, UnsupportedError
from lancewood.files.formats import checked_encoding
from lancewood.pipeline.context import RunContext
from lancewood.pipeline.definition.model import Option, Pipeline, Source
from lancewood.pipeline.definition.names import errors_at, near, wrong
from lancewood.pipeline.definition.toml_file import plain_options
from lancewood.pipeline.frames.csv_records import CsvForm, CsvReader
from lancewood.pipeline.frames.json_records import JsonForm, JsonReader
from lancewood.pipeline.frames.line_records import (
    FILE,
    LENGTH,
    LINE,
    ORDERED,
    PROBLEM,
    SIZE,
    START,
    TEXT,
    UTF_8,
    VALUE,
    LineReader,
    Notation,
    ToRecords,
    is_wide,
)
from lancewood.pipeline.frames.refusals import spark_errors
from lancewood.spark.tasks import is_connect
from lancewood.spark.types.schemas import arrow_schema
from lancewood.table import Access, Table
from lancewood.table import open as open_table

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructField, StructType

    Reader = TypeVar("Reader", bound=Any)


CORRUPT = "_lancewood_corrupt"
"""The column with the text of a record that is bad."""
FILE_TIME = "_lancewood_file_time"
_ROW, _AT = "_lancewood_row", "_lancewood_at"
_SCHEMA = "lancewood.schema"
"""What the lines of a source know of its columns, as metadata of a column."""
CORRUPT_OPTION, MODE = "columnNameOfCorruptRecord", "mode"
FAIL, KEEP = "FAILFAST", "PERMISSIVE"
_DROP = "DROPMALFORMED"
_CSV, _JSON = "csv", "json"
_PARSED = frozenset([_CSV, _JSON, "xml"])
_NULL = "\ue000null\ue000"
"""Stands for an empty unquoted value, so that only it is null and ``""`` is an empty text."""
_CSV_DEFAULTS = {"escape": '"', "nullValue": _NULL, "emptyValue": ""}
_JSON_DEFAULTS = {"allowSingleQuotes": "false"}
_OF_FILES = frozenset(
    ["linesep", "encoding", "charset", "multiline", "wholetext", "header", "comment"]
)
"""Options about files, which the parser of records is not given."""
_NO_VALUES = ("nullvalue", "emptyvalue", "nanvalue", "positiveinf", "negativeinf")
"""Options of CSV whose texts stand for something else than they say."""
_POINTS = (",", "\u066b")
"""What stands before the places of a decimal where it is no point."""
_LENIENT = (
    *("allowcomments", "allowunquotedfieldnames", "allowsinglequotes"),
    *("allownumericleadingzeros", "allowbackslashescapinganycharacter"),
    "allowunquotedcontrolchars",
)
_BYTES = re.compile(r"\s*(\d+)\s*([kmgtp]?)i?b?\s*", re.IGNORECASE)


def quoted(column: str) -> str:
    """A column name, quoted for Spark."""
    return "`" + column.replace("`", "``") + "`"


def file_of(frame: DataFrame) -> Column:
    """The unescaped uri of the file that a row was read from."""
    from pyspark.sql import functions as F

    # Spark escapes like a URL, except that a plus stands for itself.
    escaped = frame.metadataColumn("_metadata")["file_path"]
    return F.url_decode(F.replace(escaped, F.lit("+"), F.lit("%2B")))


def is_text(source: Source) -> bool:
    """Whether a source is CSV or JSON in files."""
    return source.kind in (_CSV, _JSON) and bool(source.paths)


def is_parsed(source: Source) -> bool:
    """Whether rows may fail to parse, and the file leaves it to us what happens to them."""
    said = {each.casefold() for each in source.options}
    return source.kind in _PARSED and said.isdisjoint((MODE, CORRUPT_OPTION.casefold()))


def keeps_corrupt(source: Source) -> bool:
    """Whether a row that does not parse is a bad row, not an error."""
    return source.schema is not None and is_parsed(source)


def may_be_bad(source: Source) -> bool:
    """Whether rows of the source may be bad, so that it counts which file they are from."""
    return source.bad is not None or bool(source.rejects) or keeps_corrupt(source)


def line_reader(reader: Any, source: Source) -> Any:
    """A batch or stream reader of the lines of a source, which only has to load them."""
    said = _said(source)
    reader = reader.format("text").option("lineSep", said.get("linesep", "\n"))
    for name, value in plain_options(source.options).items():
        if name.casefold() not in _OF_FILES:
            reader = reader.option(name, value)
    return reader


def lines_of(spark: SparkSession, frame: DataFrame, source: Source, paths: list[str]) -> DataFrame:
    """What ``line_reader`` has loaded, with what is known of each line and of the columns.

    Without a schema, Spark guesses the columns of these paths.
    """
    from pyspark.sql import functions as F

    if source.schema is not None:
        schema = spark.createDataFrame([], source.schema).schema
    else:
        schema = _guessed(spark, source, paths)
    about = frame.metadataColumn("_metadata")
    value = F.col("value").cast("binary")
    columns = [
        value.alias(VALUE, metadata={_SCHEMA: schema.json()}),
        file_of(frame).alias(FILE),
        about["file_block_start"].alias(START),
        about["file_block_length"].alias(LENGTH),
        about["file_size"].alias(SIZE),
    ]
    if source.file_time is not None:
        columns.append(about["file_modification_time"].alias(FILE_TIME))
    return frame.select(*columns, *(quoted(each) for each in frame.columns if each != "value"))


def _guessed(spark: SparkSession, source: Source, paths: list[str]) -> StructType:
    reader = spark.read.format(source.kind)
    defaults: Mapping[str, str] = {"escape": '"', "multiLine": "true"}
    defaults = {**(defaults if source.kind == _CSV else _JSON_DEFAULTS), MODE: FAIL}
    said = _said(source)
    for name, value in defaults.items():
        if name.casefold() not in said and not (name == MODE and not is_parsed(source)):
            reader = reader.option(name, value)
    for name, value in plain_options(source.options).items():
        reader = reader.option(name, value)
    return reader.load(paths).schema


def has_lines(frame: DataFrame) -> bool:
    """Whether a frame has lines, of which ``rows_of`` makes rows."""
    return VALUE in frame.columns


def rows_of(spark: SparkSession, lines: DataFrame, source: Source) -> DataFrame:
    """The rows of lines, with our columns about files and bad rows where they count."""
    from pyspark.sql import functions as F
    from pyspark.sql import types as T

    schema = T.StructType.fromJson(json.loads(lines.schema[VALUE].metadata[_SCHEMA]))
    carried = [each for each in lines.schema.fields if each.name not in _ABOUT_LINES]
    directories = {each.name.casefold() for each in carried}
    fields = [each for each in schema.fields if each.name.casefold() not in directories]
    own = _said(source).get(CORRUPT_OPTION.casefold(), CORRUPT).casefold()
    columns = _columns([each for each in fields if each.name.casefold() != own])
    mode = FAIL if source.schema is None else KEEP
    mode = _said(source).get(MODE, mode).upper()
    records = _records(spark, lines, source, columns, carried)
    record = _parsed(source, fields, own, mode)
    rows = records.withColumn(_ROW, F.when(F.col(PROBLEM).isNull(), record))
    unparsed = F.col(_ROW).getField(CORRUPT) if _has_own(source, mode) else F.lit(None)
    is_bad = F.col(PROBLEM).isNotNull() | unparsed.isNotNull()
    if mode == _DROP:
        rows = rows.where(~is_bad)
    elif not keeps_corrupt(source):
        # Spark's words for what it refuses itself.
        told = F.concat(F.lit("Malformed records are detected in "), FILE, F.lit(": "), PROBLEM)
        raised = F.raise_error(told).cast("boolean")
        rows = rows.where(F.when(F.col(PROBLEM).isNotNull(), raised).otherwise(F.lit(True)))
    columns = [
        F.col(quoted(each.name)).cast(each.dataType).alias(each.name)
        if each.name.casefold() in directories
        else F.col(_ROW).getField(each.name).alias(each.name)
        for each in schema.fields
    ]
    known = {each.name.casefold() for each in schema.fields} | {FILE}
    columns += [F.col(quoted(each.name)) for each in carried if each.name.casefold() not in known]
    if keeps_corrupt(source):
        columns += [F.when(is_bad, F.col(TEXT)).alias(CORRUPT), F.col(PROBLEM), F.col(LINE)]
    if may_be_bad(source):
        columns.append(F.col(FILE))
    return rows.select(*columns)


_ABOUT_LINES = (VALUE, START, LENGTH, SIZE)


def _said(source: Source) -> dict[str, str]:
    """The options of a source, by names without case."""
    return {name.casefold(): value for name, value in plain_options(source.options).items()}


def _has_own(source: Source, mode: str) -> bool:
    """Whether Spark's parser keeps the text of what it cannot parse in a column of ours."""
    return mode == _DROP or keeps_corrupt(source)


def _parsed(source: Source, fields: list[StructField], own: str, mode: str) -> Column:
    """The record as a struct of the columns."""
    from pyspark.sql import functions as F
    from pyspark.sql import types as T

    said = _said(source)
    defaults = _CSV_DEFAULTS if source.kind == _CSV else _JSON_DEFAULTS
    options = {name: value for name, value in defaults.items() if name.casefold() not in said}
    for name, value in plain_options(source.options).items():
        if name.casefold() not in (*_OF_FILES, MODE):
            options[name] = value
    options[MODE] = FAIL if mode == FAIL else KEEP
    if _has_own(source, mode):
        fields = [*fields, T.StructField(CORRUPT, T.StringType())]
        options = {n: v for n, v in options.items() if n.casefold() != CORRUPT_OPTION.casefold()}
        options[CORRUPT_OPTION] = CORRUPT
    record = F.coalesce(F.col(ORDERED), F.col(TEXT))
    if source.kind == _JSON:
        return F.from_json(record, T.StructType(fields), options)
    texts = (f"{quoted(each.name)} {each.dataType.simpleString()}" for each in fields)
    return F.from_csv(record, ", ".join(texts), options)


def _records(
    spark: SparkSession,
    lines: DataFrame,
    source: Source,
    columns: pa.Schema,
    carried: list[StructField],
) -> DataFrame:
    from pyspark.sql import functions as F
    from pyspark.sql import types as T

    make, is_whole = _reader(source, columns, lines)
    text = T.StringType()
    new = {TEXT: text, ORDERED: text, PROBLEM: text, LINE: T.LongType()}
    schema = T.StructType([T.StructField(name, kind) for name, kind in new.items()] + carried)
    if not is_whole:
        return lines.mapInArrow(ToRecords(make, is_whole=False), schema)
    # The size up to which Spark cuts no file, whatever else there is to read.
    names = ("spark.sql.files.openCostInBytes", "spark.sql.files.maxPartitionBytes")
    limit, size = min(_bytes(spark.conf.get(each) or "0") for each in names), bytes_of(lines)
    whole = ToRecords(make, is_whole=True)
    if size is not None and size <= limit:
        return lines.mapInArrow(whole, schema)
    small = lines.where(f"{SIZE} <= {limit}").mapInArrow(whole, schema)
    # The lines of files that Spark may have cut: each file in order within one partition.
    large = lines.where(f"{SIZE} > {limit}").withColumn(_AT, F.monotonically_increasing_id())
    large = large.repartition(FILE).sortWithinPartitions(FILE, START, _AT).drop(_AT)
    return small.unionAll(large.mapInArrow(whole, schema))


def _bytes(text: str) -> int:
    found = _BYTES.fullmatch(text)
    if found is None:
        return 0
    return int(found[1]) << 10 * " kmgtp".index(found[2].casefold() or " ")


def bytes_of(frame: DataFrame) -> int | None:
    """The size of the files of a frame, as Spark has listed them; None where it does not tell."""
    listed = _listed(frame)
    return None if listed is None else sum(size for _, size in listed)


def files_of(frame: DataFrame) -> int | None:
    """The number of the files of a frame, as Spark has listed them; None where it does not tell."""
    listed = _listed(frame)
    return None if listed is None else sum(files for files, _ in listed)


def _listed(frame: DataFrame) -> list[tuple[int, int]] | None:
    """How many files, and how many bytes, each listing of a frame has."""
    if is_connect(frame.sparkSession):
        return None
    java: Any = frame._jdf
    try:
        leaves = java.queryExecution().analyzed().collectLeaves()
        relations = [leaves.apply(at).relation() for at in range(leaves.size())]
        listings = {each.location().hashCode(): each.location() for each in relations}
        return [(len(each.inputFiles()), int(each.sizeInBytes())) for each in listings.values()]
    except spark_errors():  # not in files
        return None


def _reader(
    source: Source, columns: pa.Schema, lines: DataFrame
) -> tuple[Callable[[str, int], LineReader], bool]:
    """What makes records of lines, and whether it takes files as a whole: where records span lines,
    and where Spark would cut characters."""
    said = _said(source)
    encoding = checked_encoding(said.get("encoding", said.get("charset", UTF_8)))
    time_format = said.get("timestampformat", said.get("timestampntzformat"))
    notation = Notation(
        _point(lines.sparkSession, said.get("locale")),
        has_date_format="dateformat" in said,
        has_time_format=time_format is not None and "SSSSSSS" not in time_format,
    )
    line_end = said.get("linesep", "\n")
    is_said = said.get("multiline", "").casefold()
    if source.kind == _JSON:
        is_whole = is_said == "true"
        is_lenient = any(said.get(each, "").casefold() == "true" for each in _LENIENT)
        json_form = JsonForm(columns, encoding, line_end, notation, is_whole, is_lenient)
        return partial(JsonReader, json_form), is_whole or is_wide(encoding)
    is_whole = is_said != "false"
    form = CsvForm(
        columns=columns,
        has_header=said.get("header", "").casefold() == "true",
        separator=said.get("sep", said.get("delimiter", ",")).replace("\\t", "\t"),
        quote=said.get("quote", '"'),
        escape=said.get("escape", '"'),
        comment=said.get("comment", ""),
        encoding=encoding,
        line_end=line_end,
        is_stripped=said.get("ignoreleadingwhitespace", "").casefold() == "true",
        notation=notation,
        no_values=frozenset(said[each] for each in _NO_VALUES if each in said),
    )
    if form.has_header and not is_whole and not is_wide(encoding):
        form = _with_headers(form, lines)
    return partial(CsvReader, form, is_whole=is_whole), is_whole or is_wide(encoding)


def _columns(fields: list[StructField]) -> pa.Schema:
    """The columns as a table would have them; those that none can hold are of type ``null``."""
    import pyarrow as pa
    from pyspark.sql.types import StructType

    found = []
    for each in fields:
        try:
            kind = arrow_schema(StructType([each])).types[0]
        except UnsupportedError:
            kind = pa.null()
        found.append(pa.field(each.name, kind))
    return pa.schema(found)


def _point(spark: SparkSession, locale: str | None) -> str:
    """What stands before the places of a decimal in the texts of a locale: Spark knows."""
    from pyspark.sql import functions as F

    if locale is None:
        return "."
    options = {"locale": locale, "sep": "\u0001"}
    tried = [F.from_csv(F.lit(f"1{each}5"), "d DECIMAL(2, 1)", options).d for each in _POINTS]
    (row,) = spark.range(1).select(*tried).collect()
    return next((each for each, found in zip(_POINTS, row, strict=True) if found), ".")


def _with_headers(form: CsvForm, lines: DataFrame) -> CsvForm:
    """The form with the header of every file, which a job reads from the blocks they begin with."""
    from dataclasses import replace

    from pyspark.sql import functions as F

    text = F.col(VALUE).cast("string")
    is_header = (F.col(START) == 0) & (F.trim(text) != "")
    if form.comment:
        is_header &= ~F.startswith(text, F.lit(form.comment))
    begins = lines.withColumn(_AT, F.monotonically_increasing_id()).where(is_header)
    found = begins.groupBy(FILE).agg(F.min_by(VALUE, _AT).alias(TEXT)).collect()
    headers = {each[FILE]: form.header_text(bytes(each[TEXT])) for each in found}
    return replace(form, headers=headers)


_FORMATS_OF_FILES = frozenset(
    ["csv", "json", "xml", "text", "parquet", "orc", "avro", "binaryfile"]
)


def configured(reader: Reader, source: Source) -> Reader:
    """A batch or stream reader with the format, options and schema of a source.

    Rows of csv, json and xml that do not parse are kept in a column of our own if there is a
    schema; without one they end the run. A file that sets ``mode`` or the column for them overrides
    this.
    """
    options: dict[str, Option] = {}
    if keeps_corrupt(source):
        options = {MODE: KEEP, CORRUPT_OPTION: CORRUPT}
    elif is_parsed(source):
        options = {MODE: FAIL}
    options |= source.options
    reader = reader.format(source.format)
    for name, value in plain_options(options).items():
        reader = reader.option(name, value)
    if source.schema is not None:
        more = f", {CORRUPT} STRING" if keeps_corrupt(source) else ""
        reader = reader.schema(source.schema + more)
    return reader


def with_file(frame: DataFrame, source: Source) -> DataFrame:
    """The frame with the file of each row, if rows may be bad and come from files, and with the
    file's time if the source asks for it. Calling it twice is harmless."""
    if source.file_time is not None and FILE_TIME not in frame.columns:
        written = frame.metadataColumn("_metadata")["file_modification_time"]
        frame = frame.withColumn(FILE_TIME, written)
    is_in_files = source.paths and source.kind in _FORMATS_OF_FILES
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
    return open_table(
        source.uri, at=source.revision, access=Access(storage_options=options or None)
    )


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
