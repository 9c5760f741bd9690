"""``lancewood.spark.search``: every row of a frame finds the rows of a table that are nearest.

The driver finds the version, checks everything and, where there is a condition, has executors list
the rows that meet it. Tasks then search the whole table for the rows of their own partition, some
hundred at a time: nothing is exchanged, and no task holds more than what these find.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lancewood.engine.base import as_list, check_number
from lancewood.engine.rows import ScanPlan, ScanRequest, column_widths, take_addresses
from lancewood.engine.schema import Columns, Parameters, project
from lancewood.engine.searching import (
    DISTANCE,
    AllowedRows,
    NearestSearch,
    VectorOptions,
    as_vectors,
    condition_plan,
    find_vector_column,
    plan_nearest,
    ranks,
    searched_metric,
)
from lancewood.engine.snapshot import Access, At, Snapshot
from lancewood.engine.versions import load_manifest
from lancewood.errors import InvalidInputError
from lancewood.jobs.job import pack_fragments
from lancewood.model.fragment import Fragment
from lancewood.model.manifest import Manifest
from lancewood.spark.reading.read import opened
from lancewood.spark.reading.task import missing_explained, sized
from lancewood.spark.runner import SparkRunner
from lancewood.spark.tasks import check_running, keep_loaded
from lancewood.spark.types import Reading
from lancewood.table.table import Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RANK = "_rank"
WORTH_AN_INDEX = 1 << 24
"""Comparing this many numbers (rows times the length of a vector) with some hundred queries at once
is about as fast as an index that answers these one by one."""
_MOST_QUERIES, _MOST_FOUND, _MOST_BYTES = 512, 1 << 16, 64 << 20
"""That are searched at once, rows that they find, and bytes of these."""
_NUMBERS = ("FloatType", "DoubleType", "ByteType", "ShortType", "IntegerType", "LongType")
_kept: dict[str, Manifest] = {}
"""That of the version which this process searched last."""


def search(
    spark: SparkSession,
    uri: str | os.PathLike[str] | Table,
    queries: DataFrame,
    *,
    vector: str | None = None,
    column: str | None = None,
    k: int = 10,
    where: str | None = None,
    parameters: Parameters = None,
    columns: Columns = None,
    metric: str | None = None,
    refine: int | None = None,
    nprobes: int | None = None,
    use_index: bool | None = None,
    branch: str | None = None,
    version: int | None = None,
    tag: str | None = None,
    as_of: datetime | None = None,
    at: At = None,
    access: Access | None = None,
) -> DataFrame:
    """Every row of a frame with each of its ``k`` nearest rows of a table, as a DataFrame.

    A row has the columns of the frame, then those of the table that ``columns`` names, as for
    ``Table.scan``, ``_distance`` and ``_rank``, which counts from 1. ``vector`` is the frame's
    column of vectors, arrays of numbers; it may be left out if there is one. A row whose vector is
    null finds nothing. ``column``, ``k``, ``where``, ``metric``, ``refine`` and ``nprobes`` are as
    for ``Table.search``, and everything is checked now; rows that meet a condition are listed now,
    by executors.

    With ``use_index=None``, an index is used if there is one and the table has more than 16 million
    numbers, rows times the length of a vector. Below that all vectors are compared, which is as
    fast and exact. The partitions of the frame are searched side by side: give it as many as Spark
    has slots. The table is given as for ``read``, and so are storage options.
    Raises what ``Table.search`` raises, UnsupportedError for a type that Spark does not have, and
    InvalidInputError where the frame and the table both have a column of one name.
    """
    from pyspark.sql.types import FloatType, IntegerType, StructField, StructType

    how: dict[str, Any] = {
        "branch": branch,
        "version": version,
        "tag": tag,
        "as_of": as_of,
        "at": at,
        "access": access,
    }
    check_running(spark)
    if columns is not None:
        columns = dict(columns) if isinstance(columns, Mapping) else as_list("columns", columns)
    given = _vector_column(queries, vector)
    snapshot = opened(uri, how)
    options = VectorOptions(metric=metric, refine=refine, nprobes=nprobes)
    nearest = plan_nearest(snapshot, column, _decided(snapshot, column, options, use_index))
    work = SearchWork(
        snapshot=snapshot.bare(),
        search=nearest,
        vector=given,
        k=check_number("k", k, least=1),
        columns=columns,
        parameters=parameters,
        reading=_reading(queries, snapshot, columns, parameters),
        most_found=_most_found(snapshot, columns, parameters),
    )
    condition = condition_plan(snapshot, where, parameters, columns)
    if condition is not None:
        work = replace(work, allowed=_allowed(spark, condition))
    run: Any = partial(search_rows, work)
    run.__name__ = work.name
    added = [StructField(DISTANCE, FloatType(), False), StructField(RANK, IntegerType(), False)]
    schema = StructType([*queries.schema.fields, *work.reading.spark.fields, *added])
    return queries.mapInArrow(run, schema)


def _vector_column(queries: Any, vector: str | None) -> str:
    """The frame's column of vectors; raises InvalidInputError that names the candidates."""
    if not callable(getattr(type(queries), "mapInArrow", None)):
        raise InvalidInputError(
            f"search takes a Spark DataFrame, got {type(queries).__name__}; Table.search takes "
            "vectors themselves"
        )
    elements = {
        each.name: type(getattr(each.dataType, "elementType", None)).__name__
        for each in queries.schema.fields
    }
    found = [name for name, element in elements.items() if element in _NUMBERS]
    if vector is None and len(found) == 1:
        return str(found[0])
    if vector in found and queries.columns.count(vector) == 1:
        return str(vector)
    asked = (
        "vector= says in which column of the frame vectors are"
        if vector is None
        else f"column {vector!r} of the frame holds no vectors"
    )
    listed = ", ".join(found) or "none; of an ML vector, vector_to_array() makes an array"
    raise InvalidInputError(f"{asked}: arrays of numbers are {listed}")


def _decided(
    snapshot: Snapshot, column: str | None, options: VectorOptions, use_index: bool | None
) -> VectorOptions:
    """Whether an index is used, if nobody says so; the metric is the index's either way, so that
    what is asked does not fail once the table has grown."""
    if use_index is None:
        searched, rows = find_vector_column(snapshot, column), snapshot.manifest.row_count
        searched_metric(searched, options)
        use_index = rows is None or rows * searched.dimension > WORTH_AN_INDEX
    return replace(options, use_index=use_index)


def _reading(
    queries: DataFrame, snapshot: Snapshot, columns: Columns, parameters: Parameters
) -> Reading:
    """How the columns of the table become Spark's; raises InvalidInputError for names that are
    there twice."""
    ways = {
        "the frame": "rename that of the frame",
        "the table": "give the table's another name: columns={{'other': '{name}'}}",
    }
    found = project(snapshot.schema, columns, parameters=parameters).arrow_schema()
    taken = {each.casefold(): "the frame" for each in queries.columns}
    for owner, names in {"the table": found.names, "the search": (DISTANCE, RANK)}.items():
        for name in names:
            if name.casefold() in taken:
                owners = taken[name.casefold()], owner
                way = ", or ".join(ways[each] for each in dict.fromkeys(owners) if each in ways)
                raise InvalidInputError(
                    f"column {name!r} would be there twice, from {' and from '.join(owners)}: "
                    + way.format(name=name),
                    column=name,
                )
            taken[name.casefold()] = owner
    return Reading(found)


def _most_found(snapshot: Snapshot, columns: Columns, parameters: Parameters) -> int:
    """How many rows of the table may be held at once."""
    widths = column_widths(snapshot)
    names = project(snapshot.schema, columns, parameters=parameters).stored.names
    width = sum(widths[each] for each in names)
    return max(1, min(_MOST_FOUND, int(_MOST_BYTES / max(1.0, width))))


def _allowed(spark: SparkSession, condition: ScanPlan) -> AllowedRows:
    """The rows that meet a condition, which executors find."""
    runner = SparkRunner(spark)
    snapshot = condition.snapshot
    tasks = list(pack_fragments(condition.matching(), runner.slots))
    work = ListRows(snapshot.bare(), condition.request)
    rows = AllowedRows()
    for found in runner.run(work, tasks, what="finding rows to search"):
        rows.update(found)
    return rows


@dataclass(frozen=True)
class ListRows:
    """The work of a task: which rows of its fragments meet a condition."""

    snapshot: Snapshot
    """Bare: fragments travel with the tasks."""
    request: ScanRequest

    def __call__(self, fragments: Sequence[Fragment]) -> AllowedRows:
        rows = AllowedRows()
        plan = ScanPlan(self.snapshot, replace(self.request, fragments=list(fragments)))
        for batch in plan.batches(1):
            rows.add(batch)
        return rows


@dataclass(frozen=True, kw_only=True)
class SearchWork:
    """What all tasks of a search share. Pickles."""

    snapshot: Snapshot
    """Bare: a process reads the manifest when it first needs it."""
    search: NearestSearch
    vector: str
    k: int
    columns: Columns
    parameters: Parameters
    reading: Reading
    most_found: int = _MOST_FOUND
    """Rows that are held at once."""
    allowed: AllowedRows | None = None

    @property
    def name(self) -> str:
        """What is searched, for people who look at Spark's plans."""
        table = self.snapshot.location.uri.rstrip("/").rpartition("/")[2]
        return f"search {table} version {self.snapshot.manifest.version}"

    def rows(self, queries: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """The rows of a frame with what they find."""
        block = max(1, min(_MOST_QUERIES, self.most_found // self.k))
        for at in range(0, queries.num_rows, block):
            yield from self._found(queries.slice(at, block))

    @cached_property
    def _whole(self) -> Snapshot:
        """The version with its fragments, and with the storage options of this search."""
        bare = self.snapshot
        manifest = _manifest(bare, self.search.version.identity)
        return Snapshot(bare.location, manifest, bare.scheme)

    def _found(self, queries: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        vectors = queries.column(self.vector)
        asking = np.flatnonzero(pc.is_valid(vectors).to_numpy(zero_copy_only=False))
        if not len(asking):
            return
        snapshot = self._whole
        numbers = as_vectors(vectors.take(pa.array(asking)), self.search.column)
        found = self.search.find(snapshot, numbers, self.k, self.allowed)
        left = queries.take(pa.array(asking[found.queries]))
        right = self._fetched(snapshot, found.addresses)
        added = [
            pa.array(found.values, pa.float32()),
            pa.array(ranks(found.queries) + 1, pa.int32()),
        ]
        fields = [*left.schema, *self.reading.schema, (DISTANCE, pa.float32()), (RANK, pa.int32())]
        columns = [*left.columns, *right.columns, *added]
        yield pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))

    def _fetched(self, snapshot: Snapshot, addresses: Any) -> pa.RecordBatch:
        wanted = project(snapshot.schema, self.columns, parameters=self.parameters)
        once, back = np.unique(addresses, return_inverse=True)
        rows = take_addresses(snapshot, once, wanted).take(pa.array(back)).combine_chunks()
        (batch,) = rows.to_batches() or [pa.RecordBatch.from_pylist([], schema=rows.schema)]
        return self.reading.convert(batch)


def _manifest(bare: Snapshot, identity: str) -> Manifest:
    """That of a version with its fragments, which a process keeps for the next task."""
    key = f"{bare.location.uri} {identity}"
    if key not in _kept:
        manifest = load_manifest(bare.location.store, bare.manifest.version, bare.scheme)
        _kept.clear()
        _kept[key] = manifest
    return _kept[key]


def search_rows(work: SearchWork, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """For mapInArrow over a frame of queries: its rows with what they find."""
    with missing_explained("searched", work.snapshot):
        yield from sized(each for batch in batches for each in work.rows(batch))
    keep_loaded()
