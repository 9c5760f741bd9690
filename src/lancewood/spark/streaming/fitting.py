"""How rows of any version become rows of the stream, which keeps the schema that it began with.

A column that a version does not have yet is null. One that it does not have any more, or that has
another type or name there, does not fit, and the stream says so. Reads no rows.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lancewood.engine.rows import ScanPlan, ScanRequest
from lancewood.engine.schema import Columns
from lancewood.engine.snapshot import Snapshot
from lancewood.errors import InvalidInputError, LancewoodError, UnsupportedError
from lancewood.model.ids import Version
from lancewood.model.schema import ROW_ID, SYSTEM_COLUMNS
from lancewood.spark.reading.task import ReadWork, needs_lineage
from lancewood.spark.streaming.options import OnChange
from lancewood.spark.types import Reading, handed_over
from lancewood.table.diffs import CHANGE

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

VERSION = "_version"
"""The column that says which version changed a row."""
_MOST_VIEWS = 16


@dataclass(frozen=True, slots=True)
class StreamColumns:
    """What a stream reads of a table."""

    request: ScanRequest
    with_changes: bool = False
    """Whether every change is a row of its own; the request has row ids then."""


def stream_schema(snapshot: Snapshot, columns: StreamColumns) -> StructType:
    """The schema of a stream that begins with this version's.

    A stream of changes has three more columns: what became of the row, its id, and the version
    that did it. Raises InvalidInputError for names that are wrong, UnsupportedError for a table
    whose changes are not known, and for types that Spark does not have.
    """
    from pyspark.sql.types import LongType, StringType, StructField, StructType

    check_changes(snapshot, columns)
    plan = ScanPlan(snapshot, columns.request)
    found = Reading(plan.schema).spark
    if not columns.with_changes:
        return found
    # A row that is gone may be from before a column was there.
    kept = [
        StructField(each.name, each.dataType, True, each.metadata)
        for each in found.fields
        if each.name != ROW_ID
    ]
    added = [
        StructField(CHANGE, StringType(), False),
        StructField(ROW_ID, LongType(), False),
        StructField(VERSION, LongType(), False),
    ]
    return StructType([*kept, *added])


def check_changes(snapshot: Snapshot, columns: StreamColumns) -> None:
    """Raise for a table of which a stream cannot emit changes."""
    if not columns.with_changes:
        return
    if not snapshot.manifest.has_stable_row_ids:
        raise UnsupportedError(
            f"{snapshot.location.uri} has no stable row ids, so that its changes cannot be told; "
            f"onChange {OnChange.CHANGES.value!r} needs a table that was created with them"
        )
    asked = columns.request.columns
    read = snapshot.schema.names if asked is None else asked
    for name in (CHANGE, VERSION):
        if name in read:
            raise InvalidInputError(
                f"the table has a column {name!r} of its own, which a stream of changes adds; "
                "leave it out with option columns",
                column=name,
            )


@dataclass(frozen=True, eq=False)
class StreamView:
    """One version as the stream reads it. Pickles; holds no fragments."""

    work: ReadWork
    target: pa.Schema
    """What Spark takes, to the last bit of nullability."""
    needs_lineage: bool
    """Whether someone asks for the ids or versions of rows."""
    with_changes: bool
    """Whether each row says what became of it."""

    def finished(self, batch: pa.RecordBatch, change: str, version: Version) -> pa.RecordBatch:
        """Rows of this version as rows of the stream."""
        if not self.target.names:
            return batch
        said: dict[str, Any] = {}
        if self.with_changes:
            said = {
                CHANGE: pa.repeat(pa.scalar(change, pa.string()), batch.num_rows),
                VERSION: pa.repeat(pa.scalar(version, pa.int64()), batch.num_rows),
            }
        arrays = []
        for each in self.target:
            array = said.get(each.name)
            if array is None and each.name in batch.schema.names:
                array = batch.column(each.name)
            if array is None:
                array = pa.nulls(batch.num_rows, each.type)
            arrays.append(array if array.type == each.type else array.cast(each.type))
        return pa.RecordBatch.from_arrays(arrays, schema=self.target)


@dataclass
class StreamFitting:
    """The schema that a stream has, held against versions."""

    opened: Snapshot
    """The version that the schema is of."""
    columns: StreamColumns
    target: pa.Schema
    types: Mapping[str, str]
    """The Spark type of each column."""
    _views: OrderedDict[tuple[str, Version], StreamView] = field(default_factory=OrderedDict)

    @classmethod
    def of(cls, opened: Snapshot, columns: StreamColumns, schema: StructType) -> StreamFitting:
        """For the schema that Spark gives: ours, or a part of it that the user asked for.

        Raises InvalidInputError for one that the table does not have.
        """
        check_changes(opened, columns)
        names = set(schema.fieldNames())
        if columns.request.columns is None:
            stored = [each for each in opened.schema.names if each in names]
            columns = replace(columns, request=replace(columns.request, columns=stored))
        fitting = cls(opened, columns, handed_over(schema), _types(schema))
        fitting.view(opened)
        return fitting

    def view(self, snapshot: Snapshot) -> StreamView:
        """How a version is read; raises UnsupportedError for one that does not fit."""
        key = (snapshot.location.uri, snapshot.manifest.version)
        known = self._views.pop(key, None)
        if known is None:
            request = replace(self.columns.request, columns=self._there(snapshot))
            try:
                plan = ScanPlan(snapshot, request)
                reading = Reading(plan.schema)
            except (InvalidInputError, UnsupportedError) as cause:
                if snapshot is self.opened:
                    raise
                raise self._misfit(snapshot, cause.message) from cause
            self._check(snapshot, reading)
            work = ReadWork(snapshot.bare(), request, reading)
            known = StreamView(work, self.target, needs_lineage(plan), self.columns.with_changes)
        self._views[key] = known
        while len(self._views) > _MOST_VIEWS:
            self._views.popitem(last=False)
        return known

    def _there(self, snapshot: Snapshot) -> Columns:
        """The columns of the stream that a version has."""
        asked = self.columns.request.columns
        if asked is None or isinstance(asked, Mapping) or snapshot is self.opened:
            return asked
        there = snapshot.schema.by_name
        is_earlier = snapshot.manifest.version <= self.opened.manifest.version
        fields = {each.id: each.name for each in snapshot.schema.fields}
        kept = []
        for name in asked:
            top = name if name in self.opened.schema.by_name else name.split(".")[0]
            mine = self.opened.schema.by_name.get(top)
            if top in there or top in SYSTEM_COLUMNS or mine is None:
                kept.append(name)
            elif not is_earlier:
                raise self._misfit(snapshot, f"column {top!r} is not there any more")
            elif mine.id in fields:
                raise self._misfit(snapshot, f"column {top!r} is called {fields[mine.id]!r} there")
        return kept

    def _check(self, snapshot: Snapshot, reading: Reading) -> None:
        found, types = reading.schema, _types(reading.spark)
        added = (CHANGE, VERSION) if self.columns.with_changes else ()
        for each in self.target:
            if each.name in added:
                continue
            if each.name not in found.names:
                if snapshot is self.opened or not each.nullable:
                    raise self._misfit(snapshot, f"column {each.name!r} is not there")
                continue
            there = found.field(each.name)
            mine, theirs = self.types[each.name], types[each.name]
            if mine != theirs:
                raise self._misfit(snapshot, f"column {each.name!r} is {theirs}, not {mine}")
            if there.nullable and not each.nullable and each.name not in SYSTEM_COLUMNS:
                raise self._misfit(snapshot, f"column {each.name!r} may be null")

    def _misfit(self, snapshot: Snapshot, what: str) -> LancewoodError:
        version = snapshot.manifest.version
        if snapshot is self.opened:
            return InvalidInputError(
                f"the schema that was given does not fit version {version} of "
                f"{snapshot.location.uri}: {what}. Leave it out, and cast columns afterwards"
            )
        return UnsupportedError(
            f"version {version} of {snapshot.location.uri} does not fit the schema of the stream, "
            f"which is that of version {self.opened.manifest.version}: {what}. Start the query "
            "again, and the stream has the newest schema; leave columns out with option columns",
            version=version,
        )


def _types(schema: StructType) -> dict[str, str]:
    return {each.name: each.dataType.simpleString() for each in schema.fields}
