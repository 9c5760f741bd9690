"""Loading one target onto the run's branch; before that, checking all of them, and the columns that
they give their tables.

Frame columns are compared with those that the tables have, or will have by then: an earlier target
may create or widen a table. What a frame cannot say, such as the length of a vector, the file says
under ``types``. With ``keep`` and ``order_by`` one row of each key counts. If the ordering columns
are equal as well, the content of the rows decides, so the same rows always give the same table.

Every write goes through ``lancewood.spark``: executors write files, and the driver commits a
version on the table's branch. Recording that in the repository and publishing it is done elsewhere.
What a change wrote is derived from two manifests; nothing else is read.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa

from lancewood.errors import InvalidInputError
from lancewood.pipeline.context import RunContext, TargetTable
from lancewood.pipeline.definition.model import FAIL, Mode, Pipeline, Target, TargetIndex
from lancewood.pipeline.definition.names import checked_files_table, near, wrong
from lancewood.pipeline.frames.frames import Frames, RowCount
from lancewood.pipeline.frames.reading import quoted
from lancewood.pipeline.frames.refusals import refused_at
from lancewood.pipeline.loading.quarantine import check_quarantine
from lancewood.pipeline.report.facts import Listener, TargetFacts
from lancewood.spark.columns.fill import check_fill, fill_columns
from lancewood.spark.merge_into.staged_source import check_frame
from lancewood.spark.runner import SparkRunner
from lancewood.spark.types import Writing, kept_columns, spark_schema
from lancewood.spark.types.schemas import arrow_schema
from lancewood.spark.write_frame import write
from lancewood.spark.writing.work import Written
from lancewood.table import (
    Access,
    Choices,
    IndexInfo,
    Layout,
    Matched,
    NotMatched,
    NotMatchedBySource,
    Runner,
    Table,
    check_index,
    check_key,
    check_rules,
    files_added,
    parse_type,
    scanned_schema,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructType


_BY_TYPE = (None, "lookup", "search")


def check_indices(context: RunContext, target: Target, after: pa.Schema) -> None:
    """Check the indices of a target against the columns that its table will have, and against
    indices of the same names that are there.

    Raises InvalidInputError, starting with the spot in the file.
    """
    known = _known_indices(context, target) if target.indices else []
    on_vectors = {each.column: each.name for each in known if each.metric is not None}
    for each in target.indices:
        with refused_at(each.spot, context.pipeline):
            is_on_vectors = check_index(after, each.column, each.kind, **each.settings)
        for info in known:
            if info.name == each.name:
                _check_same(each, info)
        if is_on_vectors and on_vectors.setdefault(each.column, each.name) != each.name:
            raise wrong(
                each.spot.at("column"),
                f"the vectors of {each.column!r} have the index {on_vectors[each.column]!r}, and a "
                "search would only use one of two",
            )


def _known_indices(context: RunContext, target: Target) -> Sequence[IndexInfo]:
    """Indices that a table has and keeps: rows that are all replaced have none."""
    targets = (target, *context.pipeline.targets)
    is_anew = any(each.replaces_all for each in targets if each.table == target.table)
    if is_anew or not context.has(target.table):
        return []
    return context.open(target.table).indices.list()


def _check_same(asked: TargetIndex, found: IndexInfo) -> None:
    """Raise InvalidInputError if an index is there and another one than the file says."""
    said = [("column", asked.column, found.column)]
    if asked.kind not in _BY_TYPE:
        said.append(("kind", asked.kind, found.kind))
    if asked.metric is not None:
        said.append(("metric", asked.metric.lower(), found.metric))
    for key, wanted, known in said:
        if wanted != known:
            raise wrong(
                asked.spot.at(key),
                f"the table has an index {asked.name!r} with the {key} {known!r}, not {wanted!r}: "
                "drop that one, or give this one another name",
            )


@dataclass
class Indexing:
    """Extends and creates the indices of a target after its load, and notes which."""

    context: RunContext
    target: Target
    listener: Listener
    created: list[str] = field(default_factory=list)
    extended: list[str] = field(default_factory=list)
    waiting: list[str] = field(default_factory=list)

    def run(self, table: Table, runner: Runner) -> Table:
        """Extend the indices that are there and create the others; the table then."""
        known = {each.name for each in table.indices}
        missing = any(each.name not in known for each in self.target.indices)
        beside = self.context.published_indices(self.target.table) if missing else set()
        for each in self.target.indices:
            if any(known.name == each.name for known in table.indices):
                after = table.indices.extend(each.name, runner=runner)
                self.extended += [each.name] if after.version != table.version else []
                table = after
            elif each.name in beside:
                self._wait(each.name, "it was made beside the repository, and comes with this run")
            else:
                table = self._create(table, each, runner)
        return table

    def _create(self, table: Table, index: TargetIndex, runner: Runner) -> Table:
        try:
            after = table.indices.create(index.column, index.kind, **index.settings, runner=runner)
        except InvalidInputError as error:
            if "rows_needed" not in error.facts:
                raise
            self._wait(index.name, error.message)
            return table
        self.created.append(index.name)
        return after

    def _wait(self, name: str, why: str) -> None:
        self.waiting.append(name)
        self.listener.noted(f"index {name} of {self.target.table} waits: {why}")


_PLACE = "__lancewood_place"
DELETED = "__lancewood_deleted"
"""Our column that says which rows of a frame delete."""


def plan_targets(spark: SparkSession, context: RunContext, frames: Frames) -> dict[str, pa.Schema]:
    """Check all targets; returns the columns of each table after the run.

    Raises InvalidInputError, starting with the spot in the file.
    """
    planned: dict[str, pa.Schema] = {}
    for each in context.pipeline.targets:
        planned[each.table] = plan_target(spark, context, each, frames, planned)
    for each in context.pipeline.targets:
        if each.on_conflict != FAIL:
            with refused_at(each.spot.at("on_conflict"), context.pipeline):
                check_rules(planned[each.table], each.on_conflict)
    check_quarantine(context)
    return planned


def plan_target(
    spark: SparkSession,
    context: RunContext,
    target: Target,
    frames: Frames,
    planned: Mapping[str, pa.Schema] | None = None,
) -> pa.Schema:
    """Check one target; returns the columns that its table will have.

    ``planned`` are the tables that earlier targets of the run create or change.
    """
    after = _plan_rows(spark, context, target, frames, planned or {})
    check_indices(context, target, after)
    return after


def _plan_rows(
    spark: SparkSession,
    context: RunContext,
    target: Target,
    frames: Frames,
    planned: Mapping[str, pa.Schema],
) -> pa.Schema:
    with refused_at(target.spot, context.pipeline):
        context.repository.check_writable(target.table)
        known = planned.get(target.table)
        if known is None and context.has(target.table) and not target.is_anew:
            known = context.open(target.table).schema
    with refused_at(target.spot.at("types"), context.pipeline):
        types = stored_types(target)
    if target.mode is Mode.ADD_COLUMNS:
        return _plan_columns(spark, context, target, known, types)
    assert target.source is not None, "every other mode has a frame"
    with refused_at(target.spot.at("leave_out"), context.pipeline):
        frame = without_columns(frames.schema(target.source), target.columns_left_out)
    if target.deleted is not None:
        _check_deleted(spark, context, target, frames.schema(target.source))
    if target.keep is not None:
        with refused_at(target.spot.at("order_by"), context.pipeline):
            empty = spark.createDataFrame([], frames.schema(target.source))
            _ = without_duplicates(empty, target).schema
    if known is None or target.mode is Mode.OVERWRITE:
        with refused_at(target.spot, context.pipeline):
            after = new_schema(frame, types, known)
    else:
        with refused_at(target.spot.at("types"), context.pipeline):
            check_types(types, known)
        after = known
    if target.mode is Mode.MERGE:
        with refused_at(target.spot.at("on"), context.pipeline):
            check_key(after, list(target.on))
    with refused_at(target.spot, context.pipeline):
        if target.mode is Mode.MERGE:
            check_frame(frame, after, choices_of(target))
        else:
            Writing(frame, after)
    return after


def choices_of(target: Target) -> Choices:
    """What a merge does; raises InvalidInputError for unknown words."""
    if not target.on:
        raise InvalidInputError("a merge needs 'on', the columns of the key")
    return Choices(
        on=list(target.on),
        matched=cast(Matched, target.matched),
        not_matched=cast(NotMatched, target.not_matched),
        not_matched_by_source=cast(NotMatchedBySource, target.not_matched_by_source),
    )


def _plan_columns(
    spark: SparkSession,
    context: RunContext,
    target: Target,
    known: pa.Schema | None,
    types: Mapping[str, pa.DataType],
) -> pa.Schema:
    if known is None:
        raise wrong(
            target.spot,
            f"there is no table {target.table!r} that columns could be added to; load its rows "
            "first, by a target before this one",
        )
    after = list(known)
    for name, expression in target.columns.items():
        stored = {name: types[name]} if name in types else {}
        with refused_at(target.spot.at("columns", name), context.pipeline):
            (made,) = check_fill(spark, {name: expression}, known, stored).schema
        if name not in known.names:
            after.append(made)
    return pa.schema(after, known.metadata)


def _check_deleted(
    spark: SparkSession, context: RunContext, target: Target, frame: StructType
) -> None:
    from pyspark.sql import functions
    from pyspark.sql.types import BooleanType

    assert target.deleted is not None
    spot = target.spot.at("deleted")
    with refused_at(spot, context.pipeline):
        said = spark.createDataFrame([], frame).select(functions.expr(target.deleted)).schema
    kind = said.fields[0].dataType
    if not isinstance(kind, BooleanType):
        raise wrong(
            spot, f"{target.deleted!r} is {kind.simpleString()}; it must be true or false for a row"
        )


def stored_types(target: Target) -> dict[str, pa.DataType]:
    """What the target says under ``types``; raises InvalidInputError for an unknown type."""
    return {name: parse_type(text) for name, text in target.types.items()}


def new_schema(
    frame: StructType, types: Mapping[str, pa.DataType], known: pa.Schema | None = None
) -> pa.Schema:
    """The columns of a table that a frame creates or overwrites. ``known`` are its present columns;
    one keeps its type if the frame has the same.

    Raises InvalidInputError for types that do not fit the frame's values, UnsupportedError for
    columns that no table can hold.
    """
    derived = Writing(frame).table if known is None else kept_columns(frame, known)
    for name in types:
        if name not in derived.names:
            raise InvalidInputError(
                f"types names {name!r}, which the frame does not have; {near(name, derived.names)}"
            )
    fields = [each.with_type(types[each.name]) if each.name in types else each for each in derived]
    made: pa.Schema = Writing(frame, schema=pa.schema(fields)).table
    if not scanned_schema(made).names:
        raise InvalidInputError("a table needs at least one column, the frame has none")
    return made


def check_types(types: Mapping[str, pa.DataType], known: pa.Schema) -> None:
    """Raise InvalidInputError for a type that differs from the table's."""
    for name, kind in types.items():
        at = known.get_field_index(name)
        if at < 0:
            raise InvalidInputError(
                f"types names {name!r}, which the table does not have; {near(name, known.names)}"
            )
        if known.field(at).type != kind:
            raise InvalidInputError(
                f"column {name!r} is to be {kind}, and the table has it already as "
                f"{known.field(at).type}; types are for a new table: leave this one out"
            )


def without_columns(frame: StructType, names: tuple[str, ...]) -> StructType:
    """The columns of a frame that remain; raises InvalidInputError for an unknown name."""
    from pyspark.sql.types import StructType

    for each in names:
        if each not in frame.names:
            raise InvalidInputError(
                f"leave_out names {each!r}, which the frame does not have; "
                f"{near(each, frame.names)}"
            )
    return StructType([each for each in frame.fields if each.name not in names])


def chosen(frame: DataFrame, names: tuple[str, ...]) -> DataFrame:
    """The frame without some columns."""
    return frame.drop(*names) if names else frame


def without_duplicates(frame: DataFrame, target: Target) -> DataFrame:
    """One row for each key. A key with a null equals no other, so all such rows stay."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    keys = [F.col(quoted(each)) for each in target.on]
    order = [F.col(quoted(each)) for each in target.order_by]
    if target.keep == "last":
        order = [each.desc() for each in order]
    # Spark cannot hash a map, only its text.
    content = [
        F.to_json(F.struct(name)) if _has_map(field.dataType) else F.col(name)
        for field in frame.schema.fields
        if (name := quoted(field.name))
    ]
    location = F.row_number().over(Window.partitionBy(*keys).orderBy(*order, F.xxhash64(*content)))
    has_null = reduce(or_, (each.isNull() for each in keys))
    return frame.withColumn(_PLACE, location).where((F.col(_PLACE) == 1) | has_null).drop(_PLACE)


def _has_map(kind: DataType) -> bool:
    from pyspark.sql.types import ArrayType, MapType, StructType

    if isinstance(kind, StructType):
        return any(_has_map(each.dataType) for each in kind.fields)
    if isinstance(kind, ArrayType):
        return _has_map(kind.elementType)
    return isinstance(kind, MapType)


def stage_of(target: Target) -> str:
    """The name of the stage that loads a target."""
    return f"load {target.table}"


def load_target(
    spark: SparkSession,
    context: RunContext,
    target: Target,
    frames: Frames,
    listener: Listener | None = None,
) -> TargetFacts:
    """Write what a target says on the run's branch; returns what was done.

    A missing table is created; one that starts anew first loses its rows and columns. An empty
    frame makes no version of an existing table, unless it overwrites it. Indices follow the rows,
    in versions of their own. The listener hears of
    progress under the name of ``stage_of``; the run reports the beginning and end of the stage.
    """
    started = time.monotonic()
    was_there = context.is_there(target.table)
    if was_there:
        location = context.location(target.table)
    else:
        location = context.create(target.table, _new_schema(target, frames))
    before = location.opened()
    if was_there and target.is_anew:
        before.overwrite(pa.Table.from_batches([], _new_schema(target, frames)))
    loading = _Loading(spark, context, target, frames, listener or Listener(), location)
    done = loading.run()
    after = location.opened()
    files, size, counts = done.files, done.bytes, done.counts
    assert counts is not None
    if files is None or size is None:
        files, size = files_added(before, after)
    indexing = Indexing(context, target, loading.listener)
    after = indexing.run(after, loading.runner)
    return TargetFacts(
        table=target.table,
        mode=f"{target.mode.value}, full refresh" if target.is_anew else target.mode.value,
        rows_before=before.count_rows() if was_there else None,
        rows_after=after.count_rows(),
        inserted=counts.inserted,
        updated=counts.updated,
        deleted=counts.deleted,
        replaced=before.count_rows() if target.replaces_all else None,
        duplicates=loading.duplicates,
        columns_added=tuple(each for each in after.schema.names if each not in before.schema.names),
        files=files,
        bytes=size,
        version=after.version,
        indices_created=tuple(indexing.created),
        indices_extended=tuple(indexing.extended),
        indices_waiting=tuple(indexing.waiting),
        seconds=time.monotonic() - started,
    )


def _new_schema(target: Target, frames: Frames) -> pa.Schema:
    """The columns of a table that a target creates."""
    assert target.source is not None
    frame = chosen(frames.frame(target.source), target.columns_left_out)
    return new_schema(frame.schema, stored_types(target))


@dataclass
class _Loading:
    _spark: SparkSession
    _context: RunContext
    _target: Target
    _frames: Frames
    listener: Listener
    _location: TargetTable
    _counts: tuple[RowCount, RowCount] | None = None
    """Counts of all rows, and of those that ``keep`` left."""

    @property
    def runner(self) -> SparkRunner:
        """Executors, of whose progress the listener hears."""
        return SparkRunner(self._spark, self._progress)

    def run(self) -> Written:
        match self._target.mode:
            case Mode.APPEND:
                return self._write("append", skip_empty=True, **self._limits)
            case Mode.OVERWRITE:
                return self._overwrite()
            case Mode.MERGE:
                return self._merge()
            case Mode.ADD_COLUMNS:
                return self._fill()

    @property
    def _message(self) -> str:
        context, target = self._context, self._target
        return f"{context.pipeline.name} {context.run}: {target.mode.value} {target.table}"

    @property
    def _frame(self) -> DataFrame:
        assert self._target.source is not None
        return self._frames.frame(self._target.source)

    @property
    def _limits(self) -> dict[str, Any]:
        most = self._target.max_rows_per_file
        return {} if most is None else {"layout": Layout(max_rows_per_file=most)}

    def _write(self, mode: Any, frame: DataFrame | None = None, **said: Any) -> Written:
        rows = self._frame if frame is None else frame
        return write(
            chosen(rows, self._target.columns_left_out),
            self._location.uri,
            mode,
            branch=self._location.branch,
            partitions=self._target.partitions,
            access=Access(storage_options=self._location.options),
            message=self._message,
            **said,
        )

    def _overwrite(self) -> Written:
        frame = chosen(self._frame, self._target.columns_left_out)
        schema = new_schema(
            frame.schema, stored_types(self._target), self._location.opened().schema
        )
        return self._write("overwrite", schema=schema, overwrite_schema=True, **self._limits)

    def _merge(self) -> Written:
        from pyspark.sql import functions

        choices = choices_of(self._target)
        said: dict[str, Any] = {
            "on": choices.on,
            "matched": choices.matched,
            "not_matched": choices.not_matched,
            "not_matched_by_source": choices.not_matched_by_source,
        }
        frame = self._frame
        if self._target.keep is not None:
            given, kept = self._counts = RowCount(), RowCount()
            frame = kept.of(without_duplicates(given.of(frame), self._target))
        if choices.matched == "update":
            frame = self._without_computed(frame)
        if self._target.deleted is not None:
            frame = frame.withColumn(DELETED, functions.expr(self._target.deleted))
            said["deleted"] = DELETED
        try:
            return self._write("merge", frame, **said)
        except InvalidInputError as error:
            if "key" not in error.facts or self._target.keep is not None:
                raise
            way_out = 'keep = "last" or "first" with order_by does that'
            raise InvalidInputError(f"{error.message}: {way_out}", **error.facts) from error

    @property
    def duplicates(self) -> int | None:
        """How many rows of the frame ``keep`` left out; None if that is unknown."""
        if self._counts is None:
            return None
        given, kept = (each.value() for each in self._counts)
        return None if given is None or kept is None else given - kept

    def _without_computed(self, frame: DataFrame) -> DataFrame:
        """The frame with null for what the pipeline computes from a row: an updated row loses it,
        and a later target computes it again."""
        from pyspark.sql import functions

        known = self._location.opened().schema
        computed = computed_columns(self._context.pipeline, self._target.table)
        said = [each for each in known if each.name in computed - {*frame.columns}]
        nothing = [
            functions.lit(None).cast(each.dataType).alias(each.name)
            for each in spark_schema(pa.schema(said)).fields
        ]
        return frame.select("*", *nothing) if nothing else frame

    def _fill(self) -> Written:
        target = self._target
        return fill_columns(
            self._spark,
            self._location.uri,
            target.columns,
            branch=self._location.branch,
            types=stored_types(target),
            overwrite=target.overwrite,
            message=self._message,
            access=Access(storage_options=self._location.options),
            progress=self._progress,
        )

    def _progress(self, what: str, done: int, total: int) -> None:
        self.listener.moved(stage_of(self._target), done, total)


def computed_columns(pipeline: Pipeline, table: str) -> set[str]:
    """The columns of a table that targets of the pipeline compute."""
    return {
        name
        for each in pipeline.targets
        if each.mode is Mode.ADD_COLUMNS and each.table == table
        for name in each.columns
    }


def load_files(spark: SparkSession, context: RunContext, table: str, files: DataFrame) -> None:
    """Append the files that a source has read to the table that records them. If the source was
    read from the start, they replace what the table had."""
    pipeline = context.pipeline
    from_start = [each.name for each in pipeline.sources if each.is_from_start]
    is_anew = table in [checked_files_table(pipeline.name, each) for each in from_start]
    location = context.create(table, arrow_schema(files.schema))
    write(
        files,
        location.uri,
        "overwrite" if is_anew else "append",
        branch=location.branch,
        access=Access(storage_options=location.options),
    )
