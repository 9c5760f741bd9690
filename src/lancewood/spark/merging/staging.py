"""Writing the rows of a frame into staged files, so that a merge reads every row as often as it
likes and always finds the same.

Done by what writes any frame: ``spark.writing``. Nothing refers to the files, and the merge removes
them in the end. Knows how the frame's columns fit the table, and nothing of keys.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.types as pt

from lancewood.engine.homes import new_data_files
from lancewood.engine.limits import FileLimits
from lancewood.engine.snapshot import Snapshot
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
    table = snapshot.arrow_schema
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


def stage(df: DataFrame, columns: FrameColumns, snapshot: Snapshot, schema: Schema) -> StagedFiles:
    """Write the columns of ``schema``, which the frame has, of all rows of the frame, once.

    Raises what is wrong with a row, once all tasks have ended; then their files are gone. Raises
    what Spark raises for the frame itself, and what fails at every attempt; then nobody knows what
    the other tasks wrote, and their files stay until cleanup finds them by age.
    """
    names = [each for each in columns.frame.names if each in schema.by_name]
    writing = columns.writing
    if len(names) < len(columns.frame.names):
        df = _chosen(df, names)
        writing = Writing(df.schema, pa.schema([writing.table.field(each) for each in names]))
    bare = snapshot.bare()
    work = WriteWork(
        writing, schema, (bare.data_home,), snapshot.manifest.file_version, FileLimits()
    )
    answers = decode_answers(write_rows(df, work))
    if answers.errors:
        snapshot.discard(new_data_files(answers.fragments))
        raise answers.errors[0]
    return StagedFiles.of(bare, schema, answers.fragments)


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
