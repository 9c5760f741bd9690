"""Bad rows: into a table of their own on the run's branch, and counted against the limit.

The rows are written once, and counted where they were written: what a source gives a second time
may be something else.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lancewood.pipeline.context import RunContext, TargetTable
from lancewood.pipeline.definition.model import Pipeline, Quarantine, Spot
from lancewood.pipeline.definition.names import wrong
from lancewood.pipeline.frames.frames import Frames
from lancewood.pipeline.report.facts import QuarantineFacts
from lancewood.pipeline.report.markup import counted, shortened
from lancewood.spark.reading.read import read_snapshot
from lancewood.spark.write_frame import write
from lancewood.table import Access, Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = pa.schema(
    [
        ("run", pa.string()),
        ("moment", pa.timestamp("us", "UTC")),
        ("origin", pa.string()),
        ("reason", pa.string()),
        ("file", pa.string()),
        ("line", pa.int64()),
        ("record", pa.string()),
    ]
)
"""The columns of a quarantine."""
_ADDED = frozenset(["moment", "file", "line"])
"""Columns that a quarantine of earlier releases lacks: it gets them with its next bad row."""
MOST_REASONS = 20
_MOST_SHOWN, _MOST_OF_A_REASON = 10, 3
_MOST_VALUE, _MOST_TEXT = 80, 600
"""Characters of what is shown of a row."""


def load_quarantine(
    spark: SparkSession, context: RunContext, pipeline: Pipeline, frames: Frames
) -> QuarantineFacts:
    """Append the bad rows of a run to its quarantine, if there are any; gives how many, and whether
    that is more than the limit allows."""
    from pyspark.sql import functions as F

    limit = pipeline.quarantine
    facts = QuarantineFacts(limit.table, limit=limit_text(limit))
    rows = frames.bad_rows()
    if rows is None:
        return facts
    location = _location(context, limit.table, rows)
    if location is None:
        return facts
    moment = datetime.now(UTC)
    stamps = F.lit(context.run).alias("run"), F.lit(moment).alias("moment")
    done = write(
        rows.select(*stamps, "origin", "reason", "file", "line", "record"),
        location.uri,
        "append",
        branch=location.branch,
        skip_empty=True,
        access=Access(storage_options=location.options),
        message=f"{pipeline.name} {context.run}: bad rows",
    )
    assert done.counts is not None
    facts.rows = done.counts.inserted
    if facts.rows:
        counts = _counts(spark, context, limit.table, location)
        most = counts.orderBy(F.desc("count"), "origin", "reason").limit(MOST_REASONS).collect()
        facts.by_reason = tuple((e["origin"] or "", e["reason"] or "", e["count"]) for e in most)
        facts.sample = tuple(_sample(spark, context, location, moment))
        facts.is_beyond = _is_beyond(limit, facts.rows, counts, frames)
    return facts


def check_quarantine(context: RunContext) -> None:
    """Raise InvalidInputError if the table for bad rows is there and has other columns."""
    pipeline = context.pipeline
    table = pipeline.quarantine.table
    if not context.has(table):
        return
    found = context.open(table).schema
    if not {*SCHEMA.names} - _ADDED <= {*found.names} <= {*SCHEMA.names}:
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
        parts.append(f"at most {limit.most_share * 100:.4g} % of the rows of a source or step")
    return " and ".join(parts) or "no limit"


def _location(context: RunContext, table: str, rows: DataFrame) -> TargetTable | None:
    """Where the quarantine is; one that is not there is made only for a row."""
    if not context.is_there(table):
        return None if rows.isEmpty() else context.create(table, SCHEMA)
    location = context.location(table)
    known = location.opened()
    missing = [each for each in SCHEMA if each.name not in known.schema.names]
    if missing:
        if rows.isEmpty():
            return None
        known.add_columns(missing, message=f"{table}: moment, file and line of bad rows")
    return location


def _counts(
    spark: SparkSession, context: RunContext, table: str, location: TargetTable
) -> DataFrame:
    """How many rows of this run have which reason. Those that were there before the run are of
    another pipeline, whose run has the same id."""
    from pyspark.sql import functions as F

    def rows(found: Table, sign: int) -> DataFrame:
        columns, asked = ["origin", "reason"], {"run": context.run}
        frame = read_snapshot(spark, found._snapshot, columns, "run = $run", asked)
        return frame.withColumn("sign", F.lit(sign))

    counted = rows(location.opened(), 1)
    if context.has(table):
        counted = counted.unionByName(rows(context.open(table), -1))
    return counted.groupBy("origin", "reason").agg(F.sum("sign").alias("count")).where("count > 0")


def _sample(
    spark: SparkSession, context: RunContext, location: TargetTable, moment: datetime
) -> Iterable[tuple[str, str, str, str, str]]:
    """A few of the rows that were written at a moment, some for each reason."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    columns = [each for each in SCHEMA.names if each != "run"]
    found = location.opened()._snapshot
    rows = read_snapshot(spark, found, columns, "run = $run", {"run": context.run})
    of_a_reason = Window.partitionBy("origin", "reason").orderBy("file", "line", "record")
    first = (
        rows.where(F.col("moment") == F.lit(moment))
        .withColumn("nth", F.row_number().over(of_a_reason))
        .where(F.col("nth") <= _MOST_OF_A_REASON)
        .orderBy("nth", "origin", "reason")
        .limit(_MOST_SHOWN)
        .orderBy("origin", "reason", "nth")
    )
    for each in first.collect():
        line = "" if each["line"] is None else str(each["line"])
        file, record = each["file"] or "", _shown(each["record"])
        yield each["origin"], shortened(each["reason"], _MOST_TEXT), file, line, record


def _shown(record: str) -> str:
    """A record with short values, so that every column of it is seen."""
    try:
        found = json.loads(record)
    except ValueError:
        return shortened(record, _MOST_VALUE)
    cut = {name: _cut(value) for name, value in found.items()}
    return shortened(json.dumps(cut, ensure_ascii=False), _MOST_TEXT)


def _cut(value: Any) -> Any:
    if isinstance(value, dict | list):
        value = json.dumps(value, ensure_ascii=False)
    return shortened(value, _MOST_VALUE) if isinstance(value, str) else value


def _is_beyond(limit: Quarantine, rows: int, counts: DataFrame, frames: Frames) -> bool:
    if limit.most_rows is not None and rows > limit.most_rows:
        return True
    if limit.most_share is None:
        return False
    known = {each.name: each.rows for each in frames.counted()}
    by_origin: list[Any] = counts.groupBy("origin").sum("count").collect()
    for origin, bad in by_origin:
        rows_of = known.get(origin)
        if rows_of is None:  # of a step: counted now
            rows_of = bad + frames.frame(origin).count()
        if bad > limit.most_share * rows_of:
            return True
    return False
