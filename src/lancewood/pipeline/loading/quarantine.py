"""Bad rows: into a table of their own on the run's branch, and counted against the limit.

The rows are written once, and counted where they were written: what a source gives a second time
may be something else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lancewood.pipeline.definition.model import Pipeline, Quarantine, Spot
from lancewood.pipeline.definition.refusal import wrong
from lancewood.pipeline.loading.needs import Ground, Loadable
from lancewood.pipeline.loading.places import Place, find_place, is_there, new_place
from lancewood.pipeline.report.facts import QuarantineFacts
from lancewood.pipeline.report.figures import counted
from lancewood.spark.reading.read import read_snapshot
from lancewood.spark.writing.write import write
from lancewood.table.table import Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = pa.schema({name: pa.string() for name in ("run", "origin", "reason", "record")})
"""The columns of a quarantine."""
MOST_REASONS = 20


def load_quarantine(
    spark: SparkSession, ground: Ground, pipeline: Pipeline, frames: Loadable
) -> QuarantineFacts:
    """Append the bad rows of a run to its quarantine, if there are any; gives how many, and whether
    that is more than the limit allows."""
    limit = pipeline.quarantine
    facts = QuarantineFacts(limit.table, limit=limit_text(limit))
    rows = frames.bad_rows()
    if rows is None:
        return facts
    place = _place(ground, limit.table, rows)
    if place is None:
        return facts
    done = write(
        _stamped(rows, ground.run),
        place.uri,
        "append",
        branch=place.branch,
        skip_empty=True,
        storage_options=place.options,
        message=f"{pipeline.name} {ground.run}: bad rows",
    )
    facts.rows = done.counts.inserted
    if facts.rows:
        counts = _counts(spark, ground, limit.table, place)
        facts.by_reason = tuple(_most(counts))
        facts.is_beyond = _is_beyond(limit, facts.rows, counts, frames)
    return facts


def check_quarantine(ground: Ground) -> None:
    """Raise InvalidInputError if the table for bad rows is there and has other columns."""
    pipeline = ground.pipeline
    table = pipeline.quarantine.table
    if not ground.has(table):
        return
    found = ground.open(table).schema
    if any(found.get_field_index(each.name) < 0 for each in SCHEMA) or len(found) != len(SCHEMA):
        key, lines = "quarantine.table", pipeline.spot.lines
        raise wrong(
            Spot(pipeline.spot.file, key, lines.get(key), lines),
            f"table {table!r} is no quarantine: it has the columns {', '.join(found.names)}, and "
            f"bad rows have {', '.join(SCHEMA.names)}; name another table",
        )


def limit_text(limit: Quarantine) -> str:
    """What the file allows, in words."""
    parts = []
    if limit.most_rows is not None:
        most = counted(limit.most_rows, "row")
        parts.append("no row" if limit.most_rows == 0 else f"at most {most}")
    if limit.most_share is not None:
        parts.append(f"at most {limit.most_share:.4g} of the rows of a source or step")
    return " and ".join(parts) or "no limit"


def _place(ground: Ground, table: str, rows: DataFrame) -> Place | None:
    """Where the quarantine is; one that is not there is made only for a row."""
    if is_there(ground, table):
        return find_place(ground, table)
    return None if rows.isEmpty() else new_place(ground, table, SCHEMA)


def _stamped(rows: DataFrame, run: str) -> DataFrame:
    from pyspark.sql import functions

    return rows.select(functions.lit(run).alias("run"), "origin", "reason", "record")


def _counts(spark: SparkSession, ground: Ground, table: str, place: Place) -> DataFrame:
    """How many rows of this run have which reason. Those that were there before the run are of
    another pipeline, whose run has the same id."""
    from pyspark.sql import functions as F

    def rows(found: Table, sign: int) -> DataFrame:
        columns, asked = ["origin", "reason"], {"run": ground.run}
        frame = read_snapshot(spark, found._snapshot, columns, "run = :run", asked)
        return frame.withColumn("sign", F.lit(sign))

    counted = rows(place.opened(), 1)
    if ground.has(table):
        counted = counted.unionByName(rows(ground.open(table), -1))
    return counted.groupBy("origin", "reason").agg(F.sum("sign").alias("count")).where("count > 0")


def _most(counts: DataFrame) -> Iterable[tuple[str, str, int]]:
    from pyspark.sql import functions

    first = counts.orderBy(functions.desc("count"), "origin", "reason").limit(MOST_REASONS)
    for each in first.collect():
        yield each["origin"] or "", each["reason"] or "", each["count"]


def _is_beyond(limit: Quarantine, rows: int, counts: DataFrame, frames: Loadable) -> bool:
    if limit.most_rows is not None and rows > limit.most_rows:
        return True
    if limit.most_share is None:
        return False
    known = {each.name: each.rows for each in frames.counted()}
    return any(
        bad > limit.most_share * _all_rows(origin, bad, known, frames)
        for origin, bad in _by_origin(counts).items()
    )


def _by_origin(counts: DataFrame) -> dict[str, int]:
    found: list[Any] = counts.groupBy("origin").sum("count").collect()
    return {each[0]: each[1] for each in found}


def _all_rows(origin: str, bad: int, known: Mapping[str, int | None], frames: Loadable) -> int:
    """How many rows a source or step has; those of a step are counted now."""
    rows = known.get(origin)
    return bad + frames.frame(origin).count() if rows is None else rows
