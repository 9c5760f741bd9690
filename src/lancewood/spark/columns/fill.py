"""Columns that Spark expressions compute, kept full: values for every row that has none.

A column that is not there is added without values, and then filled like any other: so the column
goes together with rows that somebody else appends meanwhile. Only the columns are written, one file
for each fragment that lacks values. Where that is, ``lacking`` knows.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lancewood.engine.new_columns import NewColumns
from lancewood.engine.snapshot import Snapshot
from lancewood.errors import InvalidInputError, RetryableConflictError
from lancewood.external.base import ManifestStore
from lancewood.jobs.columns.files import ColumnWriter
from lancewood.jobs.counts import RowCounts
from lancewood.jobs.execute import Change, Terms
from lancewood.jobs.runner import Progress
from lancewood.model.ids import FragmentId
from lancewood.model.operations import DataReplacement, Replacement
from lancewood.model.schema import Schema
from lancewood.spark.columns.add import ExpressionColumns, ExpressionFiles
from lancewood.spark.columns.expressions import Checked, Expressions, check_expressions
from lancewood.spark.columns.lacking import MARK, Lacking, all_rows, find_lacking
from lancewood.spark.runner import SparkRunner
from lancewood.spark.writing.written import Written
from lancewood.table.door import open as open_table
from lancewood.table.handle import terms
from lancewood.table.table import Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def fill_columns(
    spark: SparkSession,
    uri: str | os.PathLike[str],
    columns: Mapping[str, str],
    *,
    branch: str | None = None,
    types: Mapping[str, pa.DataType] | None = None,
    overwrite: bool = False,
    message: str | None = None,
    storage_options: Mapping[str, str] | None = None,
    manifest_store: str | ManifestStore | None = None,
    progress: Progress | None = None,
) -> Written:
    """Have Spark expressions give columns a value in every row that has none.

    ``columns`` maps names to Spark SQL over the columns of the row, as for ``add_columns``. One
    that the table does not have is added, with its type of ``types`` where that has one; values of
    one that it has fit its type. A value that comes out as null counts as one: it is not tried
    again. In a fragment where some rows have values all are computed, and those keep theirs.
    ``overwrite`` computes every row anew.

    The result counts as updated the rows that had no value; it is skipped if nothing was to be
    done. Adding columns makes a version, and so does each set of columns that are filled together;
    mostly that is one. Raises InvalidInputError, before anything is written, for what
    ``check_fill`` refuses, and RetryableConflictError if another writer came in between.
    """
    asked = Expressions(columns)
    table = open_table(
        uri, branch=branch, storage_options=storage_options, manifest_store=manifest_store
    )
    before = table.version
    checked = check_fill(spark, columns, table.schema, types)
    added = [each for each in checked.schema if each.name not in table.schema.names]
    if added:
        table = table.add_columns(pa.schema(added), message=message)
    filling = _Filling(spark, asked, overwrite, terms(message, None), progress)
    table = filling.run(table)
    return Written(
        table.uri,
        table.branch,
        table.version,
        RowCounts(updated=filling.rows),
        filling.files,
        filling.bytes,
        skipped=table.version == before,
    )


def check_fill(
    spark: SparkSession,
    columns: Mapping[str, str],
    table: pa.Schema,
    types: Mapping[str, pa.DataType] | None = None,
) -> Checked:
    """What Spark says of the expressions, as columns with the types that they have in the table,
    or are to have there.

    Raises InvalidInputError for an expression that Spark does not understand or that does not go
    row by row, for values that do not fit, and for another type than that of a column which is
    there; UnsupportedError for a type that cannot be carried over.
    """
    asked = Expressions(columns)
    stored = dict(types or {})
    for name in stored.keys() - columns.keys():
        raise InvalidInputError(
            f"a type is said of column {name!r}, which is not computed; those that are: "
            f"{', '.join(columns)}",
            column=name,
        )
    for name in columns:
        if "." in name:
            raise InvalidInputError(
                f"column {name!r} cannot be computed: a name with a dot means a field of a struct, "
                "and only whole columns are filled",
                column=name,
            )
        at = table.get_field_index(name)
        known = None if at < 0 else table.field(at).type
        if known is not None and stored.setdefault(name, known) != known:
            raise InvalidInputError(
                f"column {name!r} is to be {stored[name]}, and the table has it already as "
                f"{known}; leave the type out, or drop the column first",
                column=name,
            )
    return check_expressions(spark, asked, table, stored)


class _Filling:
    """One call, and what it did so far."""

    def __init__(
        self,
        spark: SparkSession,
        asked: Expressions,
        overwrite: bool,
        wishes: Terms,
        progress: Progress | None,
    ) -> None:
        self._spark = spark
        self._asked = asked
        self._overwrite = overwrite
        self._wishes = wishes
        self._progress = progress
        self.rows = self.files = self.bytes = 0

    def run(self, table: Table) -> Table:
        """The table afterwards. Columns that lack values in the same fragments are computed
        together."""
        snapshot = table._snapshot
        together: dict[tuple[tuple[FragmentId, bool], ...], tuple[list[str], list[Lacking]]] = {}
        runner = SparkRunner(self._spark, self._progress)
        for name in self._asked.names:
            found = all_rows(snapshot) if self._overwrite else find_lacking(snapshot, name, runner)
            where = tuple((each.fragment.id, each.is_partly) for each in found)
            together.setdefault(where, ([], found))[0].append(name)
        for names, lacking in together.values():
            if lacking:
                snapshot = self._filled(snapshot, names, lacking)
        return Table(snapshot)

    def _filled(
        self, snapshot: Snapshot, names: Sequence[str], lacking: Sequence[Lacking]
    ) -> Snapshot:
        expressions: dict[str, Any] = {each: self._asked.by_name[each] for each in names}
        if any(each.is_partly for each in lacking):
            expressions = {name: _kept(name, each) for name, each in expressions.items()}
        known = {each: snapshot.arrow_schema.field(each).type for each in names}
        source = ExpressionColumns(self._spark, Expressions(expressions), known)
        files = ExpressionFiles(snapshot, source, None, self._progress)
        job = _Fill(snapshot, source, files, names, lacking)
        after, _ = files.committed(snapshot, job.prepare, self._wishes)
        self.rows = max(self.rows, sum(each.rows for each in lacking))
        self.files += len(files)
        self.bytes += files.bytes
        return after


class _Fill:
    """New files for some fragments, as one change."""

    def __init__(
        self,
        snapshot: Snapshot,
        source: ExpressionColumns,
        files: ExpressionFiles,
        names: Sequence[str],
        lacking: Sequence[Lacking],
    ) -> None:
        self._snapshot = snapshot
        self._source = source
        self._files = files
        self._names = names
        self._fragments = [each.fragment for each in lacking]

    def prepare(self, snapshot: Snapshot) -> Change[None]:
        if snapshot is not self._snapshot:
            raise RetryableConflictError(
                f"columns of {snapshot.place.uri} were computed for version "
                f"{self._snapshot.manifest.version}, and version {snapshot.manifest.version} has "
                "other rows or values in the same places; fill them again",
                version=snapshot.manifest.version,
            )
        written = Schema(tuple(snapshot.schema.by_name[each] for each in self._names))
        new = NewColumns(snapshot.schema, written, written)
        writer = ColumnWriter(snapshot, written, self._source, new, MARK)
        self._files.write(writer, self._fragments, self._source.inputs(snapshot))
        return Change(
            DataReplacement(
                tuple(
                    Replacement(each.id, self._files.file_of(each, written))
                    for each in self._fragments
                )
            ),
            None,
        )


def _kept(name: str, expression: str) -> str:
    """An expression that leaves a value alone that is there."""
    quoted = name.replace("`", "``")
    return f"coalesce(`{quoted}`, ({expression}))"
