"""Filling columns that Spark expressions compute: a value for every row that has none.

A missing column is first added without values and then filled like any other, so that it fits rows
that others append meanwhile. Only these columns are written, one file for each fragment that lacks
values.

A fragment without a file for the column lacks all values; the manifest shows that. A file with
``MARK`` in its name was computed for all of its rows, and a null in it is a value. Any other file
is read by executors, and its nulls are counted.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lancewood.engine.rows import ScanPlan, ScanRequest
from lancewood.engine.schema import NewColumns
from lancewood.engine.snapshot import Access, Address, Snapshot
from lancewood.errors import InvalidInputError, RetryableConflictError
from lancewood.jobs.columns.files import ColumnWriter
from lancewood.jobs.counts import RowCounts
from lancewood.jobs.job import Change, CommitOptions, pack_fragments
from lancewood.jobs.runner import Progress, Runner
from lancewood.model.fragment import Fragment
from lancewood.model.ids import FragmentId
from lancewood.model.schema import Schema
from lancewood.model.transaction import DataReplacement, Replacement
from lancewood.spark.columns.add import ExpressionColumns, ExpressionFiles
from lancewood.spark.columns.expressions import Checked, ColumnExpressions, check_expressions
from lancewood.spark.runner import SparkRunner
from lancewood.spark.writing.work import Written, as_planned, as_skipped, as_written
from lancewood.table.table import Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MARK = "-computed"
"""The end of the names of files in which all rows were computed."""
_MARKED = f"{MARK}.lance"


def fill_columns(
    spark: SparkSession,
    uri: str | os.PathLike[str],
    columns: Mapping[str, str],
    *,
    branch: str | None = None,
    types: Mapping[str, pa.DataType] | None = None,
    overwrite: bool = False,
    message: str | None = None,
    access: Access | None = None,
    progress: Progress | None = None,
    dry_run: bool = False,
) -> Written:
    """Compute values with Spark expressions for every row that has none.

    ``columns`` maps names to Spark SQL over the columns of the row, as for ``add_columns``. A
    column that the table does not have is added, with its type in ``types`` if given; for an
    existing one the values must fit its type. A result of null counts as a value and is not
    computed again. In a fragment where some rows have values all rows are computed, but existing
    values stay. ``overwrite`` computes every row anew.

    The result counts the rows that had no value as updated, and is skipped if there was nothing to
    do. With ``dry_run`` rows without a value are looked for, and none is computed: the result has
    their number, and that of the files. Adding columns makes a version, and so does each set of
    columns filled together, usually one. Raises InvalidInputError, before anything is written, for
    what ``check_fill`` refuses, and RetryableConflictError if another writer came in between.
    """
    asked = ColumnExpressions(columns)
    address = Address(uri, access)
    before = address.open(branch=branch)
    table = Table(before)
    checked = check_fill(spark, columns, table.schema, types)
    added = [each for each in checked.schema if each.name not in table.schema.names]
    filling = _Filling(spark, asked, overwrite, CommitOptions(message), progress)
    if dry_run:
        before.check_writable()
        before.check_open()
        return filling.planned(before, adds=bool(added))
    if added:
        table = table.add_columns(pa.schema(added), message=message)
    after = filling.run(table._snapshot)
    if after.manifest.version == before.manifest.version:
        return as_skipped(after)
    return as_written(after, RowCounts(updated=filling.rows), filling.files, filling.bytes)


def check_fill(
    spark: SparkSession,
    columns: Mapping[str, str],
    table: pa.Schema,
    types: Mapping[str, pa.DataType] | None = None,
) -> Checked:
    """The checked expressions, with the types that the columns have or will have in the table.

    Raises InvalidInputError for an expression that Spark does not understand or that does not go
    row by row, for values that do not fit, and for a type that differs from that of an existing
    column; UnsupportedError for a type that cannot be carried over.
    """
    asked = ColumnExpressions(columns)
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


@dataclass
class _Filling:
    """One call of ``fill_columns``, and its figures so far."""

    spark: SparkSession
    asked: ColumnExpressions
    overwrite: bool
    commit_options: CommitOptions
    progress: Progress | None
    rows: int = 0
    files: int = 0
    bytes: int = 0

    def run(self, snapshot: Snapshot) -> Snapshot:
        """The version afterwards."""
        for names, lacking in self._together(snapshot):
            snapshot = self._filled(snapshot, names, lacking)
        return snapshot

    def planned(self, snapshot: Snapshot, *, adds: bool) -> Written:
        """What would be done; ``adds`` says that columns would be added first."""
        found = [lacking for _, lacking in self._together(snapshot)]
        if not found and not adds:
            return as_skipped(snapshot, dry_run=True)
        rows = max((sum(each.rows for each in lacking) for lacking in found), default=0)
        return as_planned(snapshot, RowCounts(updated=rows), sum(map(len, found)))

    def _together(self, snapshot: Snapshot) -> list[tuple[list[str], list[Lacking]]]:
        """Columns that lack values in the same fragments, which are filled together."""
        together: dict[tuple[tuple[FragmentId, bool], ...], tuple[list[str], list[Lacking]]] = {}
        runner = SparkRunner(self.spark, self.progress)
        for name in self.asked.names:
            is_new = name not in snapshot.schema.by_name
            if self.overwrite or is_new:
                found = [Lacking(each, _rows(each), False) for each in _live(snapshot)]
            else:
                found = find_lacking(snapshot, name, runner)
            where = tuple((each.fragment.id, each.is_partly) for each in found)
            together.setdefault(where, ([], found))[0].append(name)
        return [each for each in together.values() if each[1]]

    def _filled(
        self, snapshot: Snapshot, names: Sequence[str], lacking: Sequence[Lacking]
    ) -> Snapshot:
        expressions: dict[str, Any] = {each: self.asked.by_name[each] for each in names}
        if any(each.is_partly for each in lacking):
            for name, expression in expressions.items():
                quoted = name.replace("`", "``")
                expressions[name] = f"coalesce(`{quoted}`, ({expression}))"  # keeps what is there
        known = {each: snapshot.arrow_schema.field(each).type for each in names}
        source = ExpressionColumns(self.spark, ColumnExpressions(expressions), known)
        files = ExpressionFiles(snapshot, source, None, self.progress)
        fragments = [each.fragment for each in lacking]

        def prepare(newest: Snapshot) -> Change[None]:
            if newest is not snapshot:
                raise RetryableConflictError(
                    f"columns of {newest.location.uri} were computed for version "
                    f"{snapshot.manifest.version}, and version {newest.manifest.version} has "
                    "other rows or values in the same places; fill them again",
                    version=newest.manifest.version,
                )
            written = Schema(tuple(newest.schema.by_name[each] for each in names))
            new = NewColumns(newest.schema, written, written)
            writer = ColumnWriter(newest, written, source, new, MARK)
            files.write(writer, fragments, source.inputs(newest))
            replaced = (Replacement(each.id, files.file_of(each, written)) for each in fragments)
            return Change(DataReplacement(tuple(replaced)), None)

        after, _ = files.committed(snapshot, prepare, self.commit_options)
        self.rows = max(self.rows, sum(each.rows for each in lacking))
        self.files += len(files)
        self.bytes += files.bytes
        return after


@dataclass(frozen=True, slots=True)
class Lacking:
    """A fragment, and how many of its live rows have no value."""

    fragment: Fragment
    rows: int
    is_partly: bool
    """Whether the fragment has a file with the column, so that other rows may have values."""


def find_lacking(snapshot: Snapshot, name: str, runner: Runner) -> list[Lacking]:
    """The fragments in which a column lacks values, in table order."""
    ids = frozenset(each.id for each in snapshot.schema.by_name[name].walk())
    live = list(_live(snapshot))
    held = {
        each.id: [file.path for file in each.message.files if not ids.isdisjoint(file.fields)]
        for each in live
    }
    unsure = [each for each in live if not all(path.endswith(_MARKED) for path in held[each.id])]
    nulls: dict[FragmentId, int] = {}
    if unsure:
        tasks = list(pack_fragments(unsure, runner.slots))
        work = partial(count_nulls, snapshot.bare(), name)
        done = runner.run(work, tasks, what=f"looking for rows without {name}")
        for group, counts in zip(tasks, done, strict=True):
            nulls.update(zip((each.id for each in group), counts, strict=True))
    return [
        Lacking(each, nulls[each.id] if held[each.id] else _rows(each), bool(held[each.id]))
        for each in live
        if not held[each.id] or nulls.get(each.id)
    ]


def count_nulls(snapshot: Snapshot, name: str, fragments: Sequence[Fragment]) -> list[int]:
    """The task: the number of live rows without a value in each fragment."""
    requests = (ScanRequest(columns=[name], fragments=[each]) for each in fragments)
    plans = (ScanPlan(snapshot, each) for each in requests)
    return [sum(each.column(0).null_count for each in plan.batches(1)) for plan in plans]


def _live(snapshot: Snapshot) -> Iterator[Fragment]:
    return (each for each in snapshot.manifest.fragments if each.num_rows != 0)


def _rows(fragment: Fragment) -> int:
    return fragment.num_rows or fragment.physical_rows
