"""Good rows and bad ones: a row is bad if its ``bad`` column says why, if a predicate rejects it,
or if it did not parse.

A Python function that raises is an error of the run, and no bad row. Both kinds of rows come from
one evaluation, which is for the caller to see to: ``judged`` is computed once and kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lancewood.pipeline.definition.model import Pipeline, Source, Step
from lancewood.pipeline.definition.refusal import near, wrong
from lancewood.pipeline.frames.line_numbers import LINE, with_lines
from lancewood.pipeline.frames.reading import CORRUPT, FILE, check_unique, quoted
from lancewood.pipeline.frames.records import MOST_TEXT, record_of
from lancewood.pipeline.frames.refusals import refused_at

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

_JUDGED = "_lancewood_reason"


@dataclass(frozen=True)
class Judged:
    """The rows of a source or step, each with the reason why it is bad in a last column."""

    name: str
    rows: DataFrame
    left_out: tuple[str, ...]
    """Columns that only say what is bad: good rows do not have them."""

    def good(self) -> DataFrame:
        from pyspark.sql import functions as F

        kept = self.rows.where(F.col(_JUDGED).isNull())
        return kept.drop(_JUDGED, *self.left_out)

    def bad(self, origin: Source | Step | None = None) -> DataFrame:
        """With the columns ``origin``, ``reason``, ``file``, ``line`` and ``record``. Lines are
        looked for if the origin is given."""
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
            _record(self._schema).alias("record"),
        )

    @property
    def _schema(self) -> StructType:
        from pyspark.sql.types import StructType

        own = {_JUDGED, *(each for each in self.left_out if each != CORRUPT)}
        fields = self.rows.schema.fields
        return StructType([each for each in fields if each.name not in own])


def judge(frame: DataFrame, origin: Source | Step, pipeline: Pipeline) -> Judged | None:
    """The rows of a frame with what is wrong with each; None where nothing says what is bad.

    The first that finds fault with a row is its reason: the ``bad`` column, then the predicates in
    their order; a predicate that is null for a row finds no fault. Raises InvalidInputError for a
    column that is not there and for what is no predicate.
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
        reasons.append(F.when(F.col(CORRUPT).isNotNull(), F.lit(_unparsed(origin))))
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


def _unparsed(origin: Source | Step) -> str:
    kind = origin.format if isinstance(origin, Source) else None
    return f"does not parse as {kind or 'a row'} with this schema"


def _record(schema: StructType) -> Column:
    """The whole row; of one that does not parse its text, in which all that is known of it is."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import StructType

    whole = StructType([each for each in schema.fields if each.name != CORRUPT])
    if len(whole.fields) == len(schema.fields):
        return record_of(whole)
    text = F.left(F.col(CORRUPT), F.lit(MOST_TEXT)).alias("text")
    unparsed = F.to_json(F.struct(text))
    return F.when(F.col(CORRUPT).isNotNull(), unparsed).otherwise(record_of(whole))
