"""The source of a merge, staged in files so that a merge can read every row again and again.

Executors write the frame into files once, like any other frame, by ``spark.writing``. No version
refers to the files, and the merge removes them at the end. The position of a row is an address: the
number of its file, then the row in it. The files have the columns of the version that was newest
when they were written; reads align them to later versions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pt

from lancewood.data.align import Alignment, align_schema
from lancewood.data.wanted import WantedColumns
from lancewood.engine.base import FileLimits, addresses_in, offsets_by_fragment
from lancewood.engine.location import NewFile, new_data_files
from lancewood.engine.rows import nameless, open_fragment, pick_rows
from lancewood.engine.snapshot import Snapshot
from lancewood.engine.write import FileWriter
from lancewood.errors import InvalidInputError
from lancewood.format.schema import schema_from_arrow, to_arrow_schema
from lancewood.jobs.merge_into.keys import Key, Positions
from lancewood.jobs.merge_into.source import Choices, SourceRows, fit_columns, portion_rows, rows_at
from lancewood.jobs.rows.blob_values import with_blob_values
from lancewood.model.fragment import Fragment
from lancewood.model.ids import FragmentId
from lancewood.model.manifest import decode_fragment
from lancewood.model.schema import Schema
from lancewood.spark.types import Writing
from lancewood.spark.writing.work import WriteWork, decode_answers, write_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

_SAMPLED = 4 << 20
_SAMPLED_ROWS = 256


@dataclass(frozen=True)
class StagedFiles:
    """Where the rows of a source are. Pickles."""

    snapshot: Snapshot
    """The version that the rows were staged for, without fragments."""
    columns: Schema
    """The columns of the files."""
    raw: tuple[bytes, ...]
    """The files as fragments; the n-th has the id n."""
    rows: tuple[int, ...]
    """The number of rows in each."""
    bytes: int
    """Bytes of all files together."""

    @classmethod
    def of(cls, snapshot: Snapshot, columns: Schema, fragments: Sequence[Fragment]) -> StagedFiles:
        """The files that executors wrote, in the order of the frame."""
        numbered = [each.numbered(FragmentId(n)) for n, each in enumerate(fragments)]
        return cls(
            snapshot,
            columns,
            tuple(each.message.SerializeToString() for each in numbered),
            tuple(each.physical_rows for each in numbered),
            sum(file.file_size_bytes for each in numbered for file in each.message.files),
        )

    @property
    def row_count(self) -> int:
        return sum(self.rows)

    @property
    def files(self) -> tuple[NewFile, ...]:
        """The files to remove at the end."""
        return new_data_files(map(self.fragment, range(len(self.raw))))

    def fragment(self, number: int) -> Fragment:
        return Fragment(decode_fragment(self.raw[number], self.snapshot.manifest.name))

    def addresses(self, number: int) -> Positions:
        """The addresses of all rows of a file."""
        offsets = np.arange(self.rows[number], dtype=np.int64)
        return addresses_in(FragmentId(number), offsets).astype(np.int64)


@dataclass(frozen=True)
class StagedSource(SourceRows):
    """The staged rows as rows of one version of the table. Positions are addresses. Pickles."""

    staged: StagedFiles
    table: Schema
    columns: Schema
    key: Key
    deleted: str | None = None
    """The staged column that marks rows which delete the row with their key."""

    def __getstate__(self) -> dict[str, Any]:
        """Pickle without cached properties."""
        return {each.name: self.__dict__[each.name] for each in fields(self)}

    def check_fit(self) -> None:
        """Raise InvalidInputError if the columns of the files are not those of the table."""
        self._part(self.columns.names)

    @cached_property
    def portion_rows(self) -> int:
        """Estimated from the size of the files, and from a few rows that are read."""
        width = self.staged.bytes / max(self.staged.row_count, 1)
        if self.staged.raw:
            first = self.staged.addresses(0)[: max(1, min(_SAMPLED_ROWS, int(_SAMPLED / width)))]
            first = first[~self.deletes(first)]
            width = max(width, self.at(first).nbytes / max(len(first), 1))
        return portion_rows(width)

    def at(self, positions: Positions, columns: Sequence[str] | None = None) -> pa.RecordBatch:
        part = self._part(self.columns.names if columns is None else columns)
        if not part.wanted.schema.fields:
            return nameless(len(positions))
        distinct, back = np.unique(positions, return_inverse=True)
        found: list[pa.RecordBatch] = []
        for number, offsets in offsets_by_fragment(distinct.astype(np.uint64)):
            found += self._picked(number, offsets, part)
        return rows_at(pa.Table.from_batches(found, part.alignment.arrow), back)

    def deletes(self, positions: Positions) -> npt.NDArray[np.bool_]:
        """Which of the rows at these positions delete."""
        if self.deleted is None:
            return np.zeros(len(positions), np.bool_)
        said = self.at(positions, [self.deleted]).column(0).fill_null(False)
        mask: npt.NDArray[np.bool_] = said.to_numpy(zero_copy_only=False)
        return mask

    def batches(self, number: int, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Some columns of all rows of one file, in order; no blob columns."""
        part, fragment = self._part(columns), self.staged.fragment(number)
        for batch in open_fragment(self.staged.snapshot, fragment, part.wanted).batches():
            yield part.alignment.cast(batch)

    def _picked(self, number: int, offsets: Positions, part: _Part) -> Iterator[pa.RecordBatch]:
        snapshot, fragment = self.staged.snapshot, self.staged.fragment(number)
        reader = open_fragment(snapshot, fragment, part.wanted)
        for batch in pick_rows(reader, part.wanted, offsets):
            for rows in with_blob_values(snapshot, fragment, batch):
                yield part.alignment.cast(rows)

    def _part(self, names: Sequence[str]) -> _Part:
        kept = frozenset(names)
        known = self._parts.get(kept)
        if known is None:
            stored = _cut(self.staged.columns, kept)
            arrow = to_arrow_schema(stored).remove_metadata()
            ours = () if self.deleted is None else (self.staged.columns.by_name[self.deleted],)
            now = _cut(Schema((*self.columns.fields, *ours)), kept)
            alignment = align_schema(now, arrow) if kept else Alignment(now, arrow)
            known = self._parts[kept] = _Part(WantedColumns(stored), alignment)
        return known

    @cached_property
    def _parts(self) -> dict[frozenset[str], _Part]:
        return {}


class _Part(NamedTuple):
    """Some columns: how they are read, and how they become columns of the table."""

    wanted: WantedColumns
    alignment: Alignment


def _cut(schema: Schema, names: frozenset[str]) -> Schema:
    return Schema(tuple(each for each in schema.fields if each.name in names))


@dataclass(frozen=True)
class FrameColumns:
    """The columns of a frame as columns of a table."""

    frame: StructType
    writing: Writing
    given: pa.Schema
    """The frame's columns in the table's types, without struct fields that the frame lacks."""


def frame_columns(frame: StructType, snapshot: Snapshot, *, inserts: bool) -> FrameColumns:
    """Fit a frame to a table; raises InvalidInputError that lists everything that does not fit.

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
    """The columns of a frame without the one that marks deletes.

    Raises InvalidInputError if there is no such column, or it contradicts the other choices.
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
    """Write all rows of the frame once, with the columns of ``schema``, all of which the frame has.

    ``deleted`` is a column of the frame that marks rows that only delete: it is written with the
    others, and any value of those rows may be null.

    An error in a row is raised once all tasks have ended; then their files are removed. An error of
    the frame itself, or of a task that failed at every attempt, leaves unknown what other tasks
    wrote; cleanup removes their files by age.
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
    return write_staged(df, writing, snapshot, schema)


def write_staged(
    df: DataFrame, writing: Writing, snapshot: Snapshot, schema: Schema
) -> StagedFiles:
    """Stage a frame that has just the columns of ``schema``."""
    bare = snapshot.bare()
    version, limits = snapshot.manifest.file_version, FileLimits()
    files = FileWriter.of(schema, writing.schema, [bare.default_file_root], version, limits)
    answers = decode_answers(write_rows(df, WriteWork(writing, files)))
    if answers.errors:
        snapshot.discard(new_data_files(answers.fragments))
        raise answers.errors[0]
    return StagedFiles.of(bare, schema, answers.fragments)


def _with_flag(schema: Schema, name: str) -> Schema:
    """The columns, all nullable, and one more of booleans."""
    number = max(each.id for each in schema.walk()) + 1
    (flag,) = schema_from_arrow(pa.schema([(name, pa.bool_())]), first_id=number).fields
    return Schema((*(replace(each, nullable=True) for each in schema.fields), flag))


def _given_type(spark: Any, kind: pa.DataType) -> pa.DataType:
    """A struct without the fields that the frame lacks."""
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
    """Some columns, selected by place: Spark may confuse names that differ only in case."""
    numbered = [f"c{number}" for number in range(len(df.columns))]
    locations = dict(zip(df.columns, numbered, strict=True))
    return df.toDF(*numbered).select(*(locations[each] for each in names)).toDF(*names)
