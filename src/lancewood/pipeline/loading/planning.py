"""What is wrong with the targets, told before anything is written.

Compares the frames' columns with those that the tables have, or will have by the time: a table may
be made or widened by an earlier target of the run. Which keys go together was seen when the file
was read. Writes nothing, and runs no Spark job.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

import pyarrow as pa

from lancewood.errors import InvalidInputError
from lancewood.format.arrow import schema_from_arrow
from lancewood.jobs.merging.keys import resolve_key
from lancewood.jobs.merging.source import Choices, Matched, NotMatched, NotMatchedBySource
from lancewood.pipeline.definition.model import Mode, Target
from lancewood.pipeline.definition.refusal import wrong
from lancewood.pipeline.frames.refusals import refused_at
from lancewood.pipeline.loading.duplicates import without_duplicates
from lancewood.pipeline.loading.needs import Ground, Loadable
from lancewood.pipeline.loading.quarantine import check_quarantine
from lancewood.pipeline.loading.shapes import (
    check_types,
    new_schema,
    stored_types,
    without_columns,
)
from lancewood.repo.writing.exclusive import check_not_exclusive
from lancewood.spark.columns.fill import check_fill
from lancewood.spark.merging.staging import check_frame
from lancewood.spark.types import Writing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

DELETED = "__lancewood_deleted"
"""The column of our own that says which rows of a frame delete."""


def plan_targets(spark: SparkSession, ground: Ground, frames: Loadable) -> dict[str, pa.Schema]:
    """Check all targets; gives the columns that each table will have after the run.

    Raises InvalidInputError that begins with the spot in the file.
    """
    planned: dict[str, pa.Schema] = {}
    for each in ground.pipeline.targets:
        planned[each.table] = plan_target(spark, ground, each, frames, planned)
    check_quarantine(ground)
    return planned


def plan_target(
    spark: SparkSession,
    ground: Ground,
    target: Target,
    frames: Loadable,
    planned: Mapping[str, pa.Schema] | None = None,
) -> pa.Schema:
    """Check one target; gives the columns that its table will have.

    ``planned`` are the tables that earlier targets of the run make or change.
    """
    with refused_at(target.spot, ground.pipeline):
        check_not_exclusive(ground.repository._grounds, target.table)
        known = (planned or {}).get(target.table)
        if known is None and ground.has(target.table) and not target.is_anew:
            known = ground.open(target.table).schema
    with refused_at(target.spot.at("types"), ground.pipeline):
        types = stored_types(target)
    if target.mode is Mode.ADD_COLUMNS:
        return _plan_columns(spark, ground, target, known, types)
    assert target.source is not None, "every other mode has a frame"
    with refused_at(target.spot.at("leave_out"), ground.pipeline):
        frame = without_columns(frames.schema(target.source), target.columns_left_out)
    if target.deleted is not None:
        _check_deleted(spark, ground, target, frames.schema(target.source))
    if target.keep is not None:
        with refused_at(target.spot.at("order_by"), ground.pipeline):
            empty = spark.createDataFrame([], frames.schema(target.source))
            _ = without_duplicates(empty, target).schema
    if known is None or target.mode is Mode.OVERWRITE:
        with refused_at(target.spot, ground.pipeline):
            after = new_schema(frame, types, known)
    else:
        with refused_at(target.spot.at("types"), ground.pipeline):
            check_types(types, known)
        after = known
    if target.mode is Mode.MERGE:
        with refused_at(target.spot.at("on"), ground.pipeline):
            resolve_key(schema_from_arrow(after), list(target.on))
    with refused_at(target.spot, ground.pipeline):
        if target.mode is Mode.MERGE:
            check_frame(frame, after, choices_of(target))
        else:
            Writing(frame, after)
    return after


def choices_of(target: Target) -> Choices:
    """What a merge does; raises InvalidInputError for words that are none of its."""
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
    ground: Ground,
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
        with refused_at(target.spot.at("columns", name), ground.pipeline):
            (made,) = check_fill(spark, {name: expression}, known, stored).schema
        if name not in known.names:
            after.append(made)
    return pa.schema(after, known.metadata)


def _check_deleted(spark: SparkSession, ground: Ground, target: Target, frame: StructType) -> None:
    from pyspark.sql import functions
    from pyspark.sql.types import BooleanType

    assert target.deleted is not None
    spot = target.spot.at("deleted")
    with refused_at(spot, ground.pipeline):
        said = spark.createDataFrame([], frame).select(functions.expr(target.deleted)).schema
    kind = said.fields[0].dataType
    if not isinstance(kind, BooleanType):
        raise wrong(
            spot, f"{target.deleted!r} is {kind.simpleString()}; it must be true or false for a row"
        )
