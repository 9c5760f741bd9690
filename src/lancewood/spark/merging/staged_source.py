"""The source of a merge as files that its own executors wrote: rows by where they lie in them.

A position is an address in the staged files: the number of the file, then the row in it. Whoever
reads a row twice gets the same, however the frame behind it behaves. The files have the columns of
the version that was newest when they were written; they are fitted to a later one as they are read.
Nothing refers to them, and nothing here writes or deletes.

Writing the rows of a frame into staged files, so that a merge reads every row as often as it
likes and always finds the same.

Done by what writes any frame: ``spark.writing``. Nothing refers to the files, and the merge removes
them in the end. Knows how the frame's columns fit the table, and nothing of keys.
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
from lancewood.engine.place import NewFile, new_data_files
from lancewood.engine.rows import nameless, open_fragment, pick_rows
from lancewood.engine.snapshot import Snapshot
from lancewood.errors import InvalidInputError
from lancewood.format.arrow import schema_from_arrow, to_arrow_schema
from lancewood.jobs.merging.keys import Key, Positions
from lancewood.jobs.merging.source import Choices, SourceRows, fit_columns, portion_rows, rows_at
from lancewood.jobs.rows.blob_values import with_blob_values
from lancewood.model.fragment import Fragment
from lancewood.model.ids import FragmentId
from lancewood.model.manifest import decode_fragment
from lancewood.model.schema import Schema
from lancewood.spark.types import Writing
from lancewood.spark.writing.job import write_rows
from lancewood.spark.writing.work import WriteWork, decode_answers

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


_SAMPLED = 4 << 20
_SAMPLED_ROWS = 256


@dataclass(frozen=True)
class StagedFiles:
    """Where the rows of a source lie. Pickles."""

    snapshot: Snapshot
    """The version that they were staged for; bare."""
    columns: Schema
    """The columns of the files."""
    raw: tuple[bytes, ...]
    """The files as fragments; the n-th has the id n."""
    rows: tuple[int, ...]
    """How many are in each."""
    bytes: int
    """Of all files together."""

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
        """What is to be removed in the end."""
        return new_data_files(map(self.fragment, range(len(self.raw))))

    def fragment(self, number: int) -> Fragment:
        return Fragment(decode_fragment(self.raw[number], self.snapshot.manifest.name))

    def addresses(self, number: int) -> Positions:
        """Those of all rows of a file."""
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
    """The staged column that says of a row that it deletes the one with its key."""

    def __getstate__(self) -> dict[str, Any]:
        """Without what is worked out again elsewhere."""
        return {each.name: self.__dict__[each.name] for each in fields(self)}

    def check_fit(self) -> None:
        """Raise InvalidInputError if the columns of the files are not those of the table."""
        self._part(self.columns.names)

    @cached_property
    def portion_rows(self) -> int:
        """Told from what rows take in the files, and from a few that are read."""
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
        """Some columns of all rows of one file, in order; no columns of blobs."""
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
    """Some columns: as they are read, and how they become columns of the table."""

    wanted: WantedColumns
    alignment: Alignment


def _cut(schema: Schema, names: frozenset[str]) -> Schema:
    return Schema(tuple(each for each in schema.fields if each.name in names))


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
