"""On which lines of their files the rows are that do not parse.

Spark does not say. The files that have such rows, and no others, are read once more as plain lines,
and the rows are found by their texts. A row that parses is not: nobody has its text any more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lancewood.pipeline.definition.model import Source
from lancewood.pipeline.definition.places import literal
from lancewood.pipeline.frames.reading import CORRUPT, FILE, file_of
from lancewood.pipeline.frames.refusals import spark_errors

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

LINE = "_lancewood_line"
_NTH = "_lancewood_nth"
_MOST_FILES = 1_000
_BY_LINES = frozenset(["csv", "json"])
_OTHER_LINES = frozenset(["multiline", "linesep", "encoding", "charset"])
"""Options with which a row is not a line, or not the same text."""


def with_lines(rows: DataFrame, source: Source) -> DataFrame:
    """The rows with the numbers of their lines, from 1 on, in a last column; null where a row is
    not known by its text. Runs a small job to see which files there are."""
    from pyspark.sql import functions as F
    from pyspark.sql import types as T

    unknown = rows.withColumn(LINE, F.lit(None).cast(T.LongType()))
    if not _has_lines(source) or not {CORRUPT, FILE}.issubset(rows.columns):
        return unknown
    broken = rows.where(F.col(CORRUPT).isNotNull())
    files = [each[0] for each in broken.select(FILE).distinct().limit(_MOST_FILES + 1).collect()]
    if not 0 < len(files) <= _MOST_FILES:
        return unknown
    lines = _lines(broken, files)
    if lines is None:
        return unknown
    # A header may read as a broken row does, and comes first: equal texts are told from the end.
    places = lines.withColumn(_NTH, _nth(F.col(LINE).desc()))
    found = broken.withColumn(_NTH, _nth(F.lit(1))).join(places, [FILE, CORRUPT, _NTH], "left")
    return found.drop(_NTH).unionByName(unknown.where(F.col(CORRUPT).isNull()))


def _has_lines(source: Source) -> bool:
    said = {each.casefold() for each in source.options}
    return (source.format or "").casefold() in _BY_LINES and said.isdisjoint(_OTHER_LINES)


def _lines(broken: DataFrame, files: list[str]) -> DataFrame | None:
    """The lines of some files that read as a broken row does, with their numbers; None if a file is
    gone by now. Spark reads files in blocks, each in order within a task, and knows where in the
    file a block begins."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    reader = broken.sparkSession.read.option("ignoreMissingFiles", "true")
    try:
        read = reader.text([literal(each) for each in files])
        _ = read.schema
    except spark_errors():
        return None
    lines = read.select(
        file_of(read).alias(FILE),
        F.col("value").alias(CORRUPT),
        read.metadataColumn("_metadata")["file_block_start"].alias("block"),
        F.monotonically_increasing_id().alias("at"),
    )
    blocks = lines.groupBy(FILE, "block").agg(F.min("at").alias("first"), F.count("*").alias("n"))
    earlier = Window.partitionBy(FILE).orderBy("block").rowsBetween(Window.unboundedPreceding, -1)
    before = F.coalesce(F.sum("n").over(earlier), F.lit(0)).alias("before")
    starts = blocks.select(FILE, "block", "first", before)
    number = F.col("before") + F.col("at") - F.col("first") + 1
    wanted = broken.select(FILE, CORRUPT).distinct()
    hits = lines.join(wanted, [FILE, CORRUPT], "left_semi").join(starts, [FILE, "block"])
    return hits.select(FILE, CORRUPT, number.alias(LINE))


def _nth(order: Column) -> Column:
    """Which of the rows that read alike in one file a row is."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    return F.row_number().over(Window.partitionBy(FILE, CORRUPT).orderBy(order))
