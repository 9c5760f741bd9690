"""Adding columns: only their own files are written, one for each fragment.

Columns that are null everywhere are a change of the schema and nothing else. When another commit
comes first, what was computed for fragments that have not changed is used again; a function that
is not declared repeatable never sees a row twice, nor does a stream that was read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, TypeAlias

import pyarrow as pa

from lancewood.engine.base import as_list, as_reader, check_number
from lancewood.engine.schema import NewColumns, next_field_id, plan_new_columns
from lancewood.engine.snapshot import Snapshot
from lancewood.errors import InvalidInputError, RetryableConflictError
from lancewood.format.schema import encode_schema
from lancewood.jobs.columns.files import (
    Batches,
    ColumnFiles,
    ColumnJob,
    ColumnWriter,
    count_live,
)
from lancewood.jobs.columns.sources import (
    ColumnSource,
    Function,
    FunctionColumns,
    JoinedColumns,
    OrderedColumns,
    SqlColumns,
    join_names,
)
from lancewood.jobs.counts import ColumnCounts
from lancewood.jobs.job import Change, Job, LightJob
from lancewood.jobs.runner import Runner
from lancewood.model.fragment import Fragment
from lancewood.model.ids import FieldId, Version
from lancewood.model.transaction import (
    Merge,
    MissingTransaction,
    Operation,
    Project,
    Rewrite,
    UnknownOperation,
    Update,
)

WHAT = "computing columns"
"""The work, named for people."""
NewValues: TypeAlias = Mapping[str, str] | pa.Schema | pa.Field | Sequence[pa.Field] | Function
"""What add_columns takes, besides anything that speaks Arrow."""


def new_columns_job(
    snapshot: Snapshot,
    new: NewValues | Any,
    *,
    columns_read: Sequence[str] | None,
    schema: pa.Schema | None,
    on: str | Sequence[str] | None,
    batch_rows: int | None,
    repeatable: bool,
    runner: Runner,
) -> Job[ColumnCounts]:
    """What adds the columns that a caller asks for.

    Raises InvalidInputError for arguments that do not go together, for names that cannot be, and
    for values that do not fit; UnsupportedError for types that cannot be stored.
    """
    if schema is not None and not isinstance(schema, pa.Schema):
        raise InvalidInputError(f"schema takes a pyarrow.Schema, got {schema!r}")
    if batch_rows is not None:
        batch_rows = check_number("batch_rows", batch_rows, least=1)
    given = {
        "columns_read": columns_read is not None,
        "schema": schema is not None,
        "on": on is not None,
        "batch_rows": batch_rows is not None,
        "repeatable": repeatable,
    }
    nulls = _null_columns(new)
    if nulls is not None:
        _check_alone(given, (), "columns of nulls")
        return NullColumns(nulls)
    source: ColumnSource
    if isinstance(new, Mapping):
        _check_alone(given, ("batch_rows",), "SQL expressions")
        source = SqlColumns(dict(new), batch_rows)
    elif callable(new) and not hasattr(new, "__arrow_c_stream__"):
        _check_alone(given, ("columns_read", "schema", "batch_rows", "repeatable"), "a function")
        names = None if columns_read is None else tuple(as_list("columns_read", columns_read))
        source = FunctionColumns(new, names, schema, batch_rows, repeatable)
    else:
        _check_alone(given, ("schema", "on"), "rows of Arrow data")
        reader = as_reader(new, schema)
        if on is not None:
            source = JoinedColumns(reader.read_all(), join_names(on))
        else:
            _check_rows(snapshot, new)
            source = OrderedColumns(reader)
    return AddColumns(snapshot, source, ColumnFiles(snapshot, runner, WHAT))


class NullColumns(LightJob[ColumnCounts]):
    """New columns without values: the schema changes, no file is written or named."""

    def __init__(self, columns: pa.Schema) -> None:
        self._columns = columns

    def prepare(self, snapshot: Snapshot) -> Change[ColumnCounts]:
        """The Project that adds them. Rows that others write meanwhile have nulls there too, so it
        stands in nobody's way."""
        new = plan_new_columns(
            snapshot.schema,
            self._columns,
            first_id=next_field_id(snapshot.manifest),
            file_version=snapshot.manifest.file_version,
            are_null=True,
        )
        fields = tuple(encode_schema(new.schema))
        counts = ColumnCounts(tuple(self._columns))
        return Change(Project(fields, preserves_nullability=True), counts)


class AddColumns(ColumnJob):
    """New columns with values, for every row there is."""

    def __init__(self, snapshot: Snapshot, source: ColumnSource, files: ColumnFiles) -> None:
        super().__init__(files)
        self._source = source
        self._columns = source.columns(snapshot)
        self._computed_for: Version | None = None
        """The version for which values were last computed; None before the first time."""
        if self._columns is not None:
            self._new(snapshot, self._columns)  # what cannot be is told before anything is read

    def plan(self, snapshot: Snapshot) -> ColumnCounts:
        """The new columns. Expressions are not computed, a function is called for the first batch
        if nothing else tells its columns, and a stream is read to its end."""
        columns = self._columns
        if columns is None:
            columns = self._first(snapshot)[1].schema
        new = self._new(snapshot, columns)
        if isinstance(self._source, OrderedColumns):
            self._source.check(snapshot, snapshot.manifest.fragments, new.flat)
        return _counted(snapshot, columns)

    def prepare(self, snapshot: Snapshot) -> Change[ColumnCounts]:
        """Write files for the fragments that have none yet, and name all of them."""
        source, manifest = self._source, snapshot.manifest
        if self._computed_for is not None:
            self._columns = source.columns(snapshot) or self._columns
        inputs = source.inputs(snapshot)
        if self._columns is None:
            self._columns = self._inferred(snapshot, inputs)
        new = self._new(snapshot, self._columns)
        fragments = list(manifest.fragments)
        self._check_repeats(snapshot, *self._files.forget(snapshot, fragments, inputs))
        self._computed_for = manifest.version
        writer = ColumnWriter(snapshot, new.written, source, new)
        here = isinstance(source, OrderedColumns)
        self._files.write(writer, fragments, inputs, here=here)
        merge = Merge(
            tuple(each.with_columns(self._files.file_of(each, new.written)) for each in fragments),
            tuple(encode_schema(new.schema)),
            manifest.schema_metadata,
            preserves_nullability=new.is_nullable,
        )
        return Change(merge, _counted(snapshot, self._columns))

    def _new(self, snapshot: Snapshot, columns: pa.Schema) -> NewColumns:
        return plan_new_columns(
            snapshot.schema,
            columns,
            first_id=next_field_id(snapshot.manifest),
            file_version=snapshot.manifest.file_version,
        )

    def _inferred(self, snapshot: Snapshot, inputs: frozenset[FieldId]) -> pa.Schema:
        """The columns of the first batch; the fragment it is of is written here and now, so that
        its rows are not computed twice."""
        fragment, first, batches = self._first(snapshot)
        new = self._new(snapshot, first.schema)
        writer = ColumnWriter(snapshot, new.written, self._source, new)
        file = writer.write(fragment, chain([first], batches))
        self._files.keep(fragment, inputs, file)
        writer.finish()
        self._computed_for = snapshot.manifest.version
        return first.schema

    def _first(self, snapshot: Snapshot) -> tuple[Fragment, pa.RecordBatch, Batches]:
        """The first batch, the fragment it is of, and the batches after it in there."""
        for fragment in snapshot.manifest.fragments:
            (batches,) = self._source.of(snapshot, [fragment])
            first = next(batches, None)
            if first is None:
                continue
            for each in first.schema:
                if pa.types.is_null(each.type):
                    raise InvalidInputError(
                        f"the type of column {each.name!r} is not known: its first values are all "
                        "null; give schema=",
                        column=each.name,
                    )
            return fragment, first, batches
        raise InvalidInputError(
            "the table has no row to call the function with, so the new columns are not known; "
            "give schema="
        )

    def _check_repeats(
        self, snapshot: Snapshot, changed: Sequence[Fragment], unknown: Sequence[Fragment]
    ) -> None:
        """Raise RetryableConflictError where values would have to be computed a second time."""
        source, before = self._source, self._computed_for
        if before is None or source.can_repeat:
            return
        now = snapshot.manifest.version
        why = None
        if changed:
            why = "the columns that were read have other values now"
        elif unknown and before < now and not source.can_extend:
            why = "there are rows now for which the data has no values"
        elif unknown and before < now and rows_moved(snapshot, before):
            why = "rows have moved, for which the function would be called a second time"
        if why:
            way = " or pass repeatable=True" if source.can_extend else ""
            raise RetryableConflictError(
                f"the new columns were computed for version {before} of {snapshot.location.uri}, "
                f"and do not fit version {now}: {why}. Run add_columns again on the newest version"
                f"{way}",
                version=now,
            )


def _counted(snapshot: Snapshot, columns: pa.Schema) -> ColumnCounts:
    fragments = snapshot.manifest.fragments
    return ColumnCounts(tuple(columns), len(fragments), count_live(fragments))


def rows_moved(snapshot: Snapshot, since: Version) -> bool:
    """Whether rows have changed their fragment after a version, or that cannot be told."""
    return any(
        _moves_rows(operation)
        for number in range(since + 1, snapshot.manifest.version + 1)
        for operation in snapshot.transaction_of(Version(number)).operations
    )


def _moves_rows(operation: Operation) -> bool:
    match operation:
        case Update():
            touched = operation.updated_fragments or operation.removed_fragment_ids
            return bool(operation.new_fragments and touched)
        case Rewrite() | MissingTransaction() | UnknownOperation():
            return True
        case _:
            return False


def _null_columns(new: object) -> pa.Schema | None:
    if isinstance(new, pa.Schema):
        return new
    if isinstance(new, pa.Field):
        return pa.schema([new])
    if isinstance(new, list | tuple) and all(isinstance(each, pa.Field) for each in new):
        return pa.schema(new)
    return None


def _check_alone(given: Mapping[str, bool], fitting: Sequence[str], what: str) -> None:
    for name, is_given in given.items():
        if is_given and name not in fitting:
            raise InvalidInputError(f"add_columns takes no {name}= with {what}")


def _check_rows(snapshot: Snapshot, data: object) -> None:
    """Raise InvalidInputError for data that says how many rows it has, if those are not as many."""
    if not isinstance(data, pa.Table | pa.RecordBatch):
        return
    rows = snapshot.manifest.row_count
    if rows is not None and data.num_rows != rows:
        raise InvalidInputError(
            f"the data has {data.num_rows} rows, the table {rows}: without on= they are "
            "matched one by one, in the order of a scan"
        )
