"""Writing the rows of a frame into staged files, so that a merge reads every row as often as it
likes and always finds the same.

Done by what writes any frame: ``spark.writing``. Nothing refers to the files, and the merge removes
them in the end. Knows how the frame's columns fit the table, and nothing of keys.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.types as pt

from lancewood.engine.homes import new_data_files
from lancewood.engine.limits import FileLimits
from lancewood.engine.snapshot import Snapshot
from lancewood.errors import InvalidInputError
from lancewood.format.arrow import schema_from_arrow
from lancewood.jobs.merging.source import Choices, fit_columns
from lancewood.model.schema import Schema
from lancewood.spark.merging.staged_source import StagedFiles
from lancewood.spark.types import Writing
from lancewood.spark.writing.answers import decode_answers
from lancewood.spark.writing.run import write_rows
from lancewood.spark.writing.work import WriteWork

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


@dataclass(frozen=True)
class FrameColumns:
    """The columns of a frame, as columns of a table."""

    frame: StructType
    writing: Writing
    given: pa.Schema
    """What the frame has, in the table's types: without fields of structs that it does not have."""


def frame_columns(frame: StructType, snapshot: Snapshot, *, inserts: bool) -> FrameColumns:
    """Fit a frame to a table. Raises InvalidInputError that lists all that does not fit.

    Unless rows are inserted, any column may be missing.
    """
    return _fitted(frame, snapshot.arrow_schema, inserts=inserts)


def check_frame(frame: StructType, table: pa.Schema, choices: Choices) -> None:
    """Raise InvalidInputError for a frame that cannot be merged into a table of these columns."""
    columns = _fitted(frame, table, inserts=choices.not_matched == "insert")
    fit_columns(schema_from_arrow(table), columns.given, choices)


def _fitted(frame: StructType, table: pa.Schema, *, inserts: bool) -> FrameColumns:
    if not inserts:
        given = set(frame.names)
        table = pa.schema(
            [each if each.name in given else each.with_nullable(True) for each in table]
        )
    writing = Writing(frame, table)
    fields = [
        each.with_type(_given_type(frame[each.name].dataType, each.type)) for each in writing.schema
    ]
    return FrameColumns(frame, writing, pa.schema(fields))


def without_flag(frame: StructType, deleted: str, table: pa.Schema, choices: Choices) -> StructType:
    """The columns of a frame but for the one that says which rows delete.

    Raises InvalidInputError if that is none, or does not go together with the other choices.
    """
    from pyspark.sql.types import BooleanType, StructType

    found = [each for each in frame.fields if each.name == deleted]
    if not found or not isinstance(found[0].dataType, BooleanType):
        kind = found[0].dataType.simpleString() if found else "not there"
        raise InvalidInputError(
            f"deleted names column {deleted!r}, which is {kind}; it takes a boolean column of the "
            f"frame: {', '.join(frame.names)}",
            column=deleted,
        )
    if deleted in table.names:
        raise InvalidInputError(
            f"deleted names column {deleted!r}, which the table has too: rows would be deleted by "
            "what is to be stored; give the frame a column of its own for it",
            column=deleted,
        )
    if choices.matched != "update" or choices.matched_where is not None:
        raise InvalidInputError(
            "deleted goes with matched='update' and without matched_where: a row of the frame "
            "deletes or updates"
        )
    if choices.rewrite == "columns":
        raise InvalidInputError("deleted does not go with rewrite='columns', which deletes nothing")
    return StructType([each for each in frame.fields if each.name != deleted])


def stage(
    df: DataFrame,
    columns: FrameColumns,
    snapshot: Snapshot,
    schema: Schema,
    deleted: str | None = None,
) -> StagedFiles:
    """Write the columns of ``schema``, which the frame has, of all rows of the frame, once.

    ``deleted`` is a column of the frame that says which rows only delete: it is written beside
    the others, and those rows may lack any value.

    Raises what is wrong with a row, once all tasks have ended; then their files are gone. Raises
    what Spark raises for the frame itself, and what fails at every attempt; then nobody knows what
    the other tasks wrote, and their files stay until cleanup finds them by age.
    """
    names = [each for each in columns.frame.names if each in schema.by_name]
    writing = columns.writing
    fields = [writing.table.field(each) for each in names]
    if deleted is not None:
        names = [*names, deleted]
        fields = [each.with_nullable(True) for each in fields]
        schema = _with_flag(schema, deleted)
        fields.append(pa.field(deleted, pa.bool_()))
    if len(names) < len(columns.frame.names) or deleted is not None:
        df = _chosen(df, names)
        writing = Writing(df.schema, pa.schema(fields))
    bare = snapshot.bare()
    work = WriteWork(
        writing, schema, (bare.data_home,), snapshot.manifest.file_version, FileLimits()
    )
    answers = decode_answers(write_rows(df, work))
    if answers.errors:
        snapshot.discard(new_data_files(answers.fragments))
        raise answers.errors[0]
    return StagedFiles.of(bare, schema, answers.fragments)


def _with_flag(schema: Schema, name: str) -> Schema:
    """Columns that may be null, and one more, of booleans."""
    number = max(each.id for each in schema.walk()) + 1
    (flag,) = schema_from_arrow(pa.schema([(name, pa.bool_())]), first_id=number).fields
    return Schema((*(replace(each, nullable=True) for each in schema.fields), flag))


def _given_type(spark: Any, kind: pa.DataType) -> pa.DataType:
    """A struct without the fields that the frame's does not have."""
    from pyspark.sql.types import StructType

    if not isinstance(spark, StructType) or not pt.is_struct(kind):
        return kind
    fields = {each.name: each.dataType for each in spark.fields}
    return pa.struct(
        [
            each.with_type(_given_type(fields[each.name], each.type))
            for each in kind
            if each.name in fields
        ]
    )


def _chosen(df: DataFrame, names: list[str]) -> DataFrame:
    """Some columns, by place: to Spark two names may be one that differ in case alone."""
    numbered = [f"c{number}" for number in range(len(df.columns))]
    places = dict(zip(df.columns, numbered, strict=True))
    return df.toDF(*numbered).select(*(places[each] for each in names)).toDF(*names)
