"""Good rows and bad ones. A row is bad if its ``bad`` column says why, if a predicate rejects it,
or if it did not parse.

A Python function that raises is an error of the run, not a bad row. Good and bad rows come from one
evaluation: the caller computes ``Judged.rows`` once and keeps it.

The line of a row is known where its file was read from its first line on. Where Spark has cut the
file, the files with bad rows, and no others, are read once more as plain lines, and rows that do
not parse are found by their text. Rows that do parse have lost their text, so they get no line.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lancewood.pipeline.definition.model import Pipeline, Source, Step
from lancewood.pipeline.definition.names import literal, near, wrong
from lancewood.pipeline.frames.line_records import FILE, LINE, PROBLEM
from lancewood.pipeline.frames.reading import CORRUPT, check_unique, file_of, quoted
from lancewood.pipeline.frames.refusals import refused_at, spark_errors

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructType


_SHOWN_BYTES = 24
MOST_TEXT = 65_536
"""The most characters of one text; a line that does not parse may be a whole file."""
_NTH = "_lancewood_nth"
_MOST_FILES = 1_000
_BY_LINES = frozenset(["csv", "json"])
_OTHER_LINES = frozenset(["linesep", "encoding", "charset"])
"""Options with which the text of a row is not that of a line."""
_JUDGED = "_lancewood_reason"


@dataclass(frozen=True)
class Judged:
    """The rows of a source or step, with the reason why a row is bad in a last column."""

    name: str
    rows: DataFrame
    left_out: tuple[str, ...]
    """Columns that only say what is bad; good rows do not have them."""

    def good(self) -> DataFrame:
        from pyspark.sql import functions as F

        kept = self.rows.where(F.col(_JUDGED).isNull())
        return kept.drop(_JUDGED, *self.left_out)

    def bad(self, origin: Source | Step | None = None) -> DataFrame:
        """The columns ``origin``, ``reason``, ``file``, ``line`` and ``record`` of the bad rows;
        lines are only searched for if the origin is given."""
        from pyspark.sql import functions as F

        rows = self.rows.where(F.col(_JUDGED).isNotNull())
        if isinstance(origin, Source):
            rows = with_lines(rows, origin)
        file = F.regexp_replace(FILE, "^file:/+", "/") if FILE in rows.columns else F.lit(None)
        line = F.col(LINE) if LINE in rows.columns else F.lit(None)
        return rows.select(
            F.lit(self.name).alias("origin"),
            F.col(_JUDGED).alias("reason"),
            file.cast("string").alias("file"),
            line.cast("long").alias("line"),
            self._record().alias("record"),
        )

    def _record(self) -> Column:
        """The whole row as JSON; of a row that does not parse, its text."""
        from pyspark.sql import functions as F
        from pyspark.sql.types import StructType

        own, fields = {_JUDGED, *self.left_out}, self.rows.schema.fields
        whole = record_of(StructType([each for each in fields if each.name not in own]))
        if CORRUPT not in self.rows.columns:
            return whole
        text = F.left(F.col(CORRUPT), F.lit(MOST_TEXT)).alias("text")
        return F.when(F.col(CORRUPT).isNotNull(), F.to_json(F.struct(text))).otherwise(whole)


def judge(frame: DataFrame, origin: Source | Step, pipeline: Pipeline) -> Judged | None:
    """The rows of a frame with what is wrong with each; None if nothing says what is bad.

    The reason is the first that applies: the ``bad`` column, then the predicates in order. A
    predicate that is null does not apply. Raises InvalidInputError for a missing column and for an
    expression that is not a predicate.
    """
    from pyspark.sql import functions as F

    keeps_corrupt = CORRUPT in frame.columns
    if origin.bad is None and not origin.rejects and not keeps_corrupt:
        return None
    with refused_at(origin.spot, pipeline):
        check_unique(frame)
    reasons: list[Column] = []
    left_out = [FILE] if FILE in frame.columns else []
    if keeps_corrupt:
        if PROBLEM in frame.columns:
            reasons.append(F.col(PROBLEM))
            left_out += [PROBLEM, LINE]
        kind = origin.format if isinstance(origin, Source) else None
        unparsed = f"does not parse as {kind or 'a row'} with this schema"
        reasons.append(F.when(F.col(CORRUPT).isNotNull(), F.lit(unparsed)))
        left_out.append(CORRUPT)
    if origin.bad is not None:
        found = _bad_column(frame, origin, origin.bad)
        reasons.append(F.col(quoted(found)))
        left_out.append(found)
    for each in origin.rejects:
        with refused_at(each.spot.at("where"), pipeline):
            kind = frame.select(F.expr(each.where)).schema[0].dataType.simpleString()
            if kind != "boolean":
                raise wrong(
                    each.spot.at("where"), f"takes a predicate, {each.where!r} is of type {kind}"
                )
        reasons.append(F.when(F.expr(each.where), F.lit(each.reason)))
    rows = frame.withColumn(_JUDGED, F.coalesce(*reasons))
    return Judged(origin.name, rows, tuple(left_out))


def _bad_column(frame: DataFrame, origin: Source | Step, asked: str) -> str:
    by_name = {each.name.casefold(): each for each in frame.schema.fields}
    found = by_name.get(asked.casefold())
    if found is None:
        names = (each.name for each in by_name.values())
        raise wrong(
            origin.spot.at("bad"),
            f"{origin.name!r} has no column {asked!r} that could say why a row is bad: "
            + near(asked, names),
        )
    kind = found.dataType.simpleString()
    if kind != "string":
        raise wrong(
            origin.spot.at("bad"),
            f"column {asked!r} is {kind}, and should be a string: the reason why a row is bad, "
            "null for a good one",
        )
    return found.name


def with_lines(rows: DataFrame, source: Source) -> DataFrame:
    """The rows with their line numbers, from 1 on; null where one is not known and cannot be found
    by its text. Runs a small job to list the files."""
    from pyspark.sql import functions as F
    from pyspark.sql import types as T

    if LINE not in rows.columns:
        rows = rows.withColumn(LINE, F.lit(None).cast(T.LongType()))
    said = source.options_said
    is_by_lines = source.kind in _BY_LINES and said.get("multiline", "").casefold() != "true"
    if not is_by_lines or not _OTHER_LINES.isdisjoint(said):
        return rows
    if not {CORRUPT, FILE}.issubset(rows.columns):
        return rows
    is_sought = F.col(CORRUPT).isNotNull() & F.col(LINE).isNull()
    broken = rows.where(is_sought).drop(LINE)
    files = [each[0] for each in broken.select(FILE).distinct().limit(_MOST_FILES + 1).collect()]
    if not 0 < len(files) <= _MOST_FILES:
        return rows
    lines = _lines(broken, files)
    if lines is None:
        return rows
    # A header may read like a broken row, and comes first: so equal texts count from the end.
    locations = lines.withColumn(_NTH, _nth(F.col(LINE).desc()))
    found = broken.withColumn(_NTH, _nth(F.lit(1))).join(locations, [FILE, CORRUPT, _NTH], "left")
    return found.drop(_NTH).unionByName(rows.where(~is_sought))


def _lines(broken: DataFrame, files: list[str]) -> DataFrame | None:
    """The numbered lines that read like a broken row; None if a file is gone by now. Spark reads
    files in blocks, each in order within one task, and knows where a block starts in its file."""
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
    """The number of a row among those of one file that read alike."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    return F.row_number().over(Window.partitionBy(FILE, CORRUPT).orderBy(order))


def record_of(schema: StructType) -> Column:
    """A row with these columns as JSON for people, nulls included. Large binaries are short; values
    that JSON has no word for are cast to text."""
    from pyspark.sql import functions as F

    if not schema.fields:
        return F.lit("{}")
    columns = [_shown(F.col(quoted(e.name)), e.dataType).alias(e.name) for e in schema.fields]
    return F.to_json(F.struct(*columns), {"ignoreNullFields": "false"})


def _shown(column: Column, kind: DataType) -> Column:
    from pyspark.sql import functions as F
    from pyspark.sql import types as T

    if isinstance(kind, T.BinaryType):
        # A few bytes in base 64; of a longer binary only the size.
        size = F.length(column)
        text = F.concat(F.format_number(size, 0), F.lit(" bytes"))
        return F.when(size > _SHOWN_BYTES, text).otherwise(F.base64(column))
    if isinstance(kind, T.StringType):
        return F.left(column, F.lit(MOST_TEXT))
    if isinstance(kind, T.StructType):
        fields = [_shown(column.getField(e.name), e.dataType).alias(e.name) for e in kind.fields]
        return F.when(column.isNotNull(), F.struct(*fields)) if fields else column
    if isinstance(kind, T.ArrayType):
        inner = kind.elementType
        return F.transform(column, lambda each: _shown(each, inner)) if _has_more(inner) else column
    if isinstance(kind, T.MapType):
        values = kind.valueType
        texts = F.map_from_arrays(
            F.transform(F.map_keys(column), _text),
            F.transform(F.map_values(column), lambda each: _shown(each, values)),
        )
        return F.when(column.isNotNull(), texts)
    if not _has_more(kind) or isinstance(kind, T.TimestampNTZType | T.VariantType):
        return column
    return _text(column)


def _has_more(kind: DataType) -> bool:
    """Whether JSON alone would not show a value well."""
    from pyspark.sql import types as T

    return not isinstance(kind, T.NumericType | T.BooleanType | T.DateType | T.TimestampType)


def _text(column: Any) -> Column:
    return column.cast("string")  # type: ignore[no-any-return]
