"""Spark expressions for new columns: which columns they read, what comes out, and whether they go
row by row.

Spark itself checks them, on a frame without rows. One that needs more than its own row (an
aggregate, a window, a generator, a subquery) is refused: it would mix up or multiply rows. Reads
no data.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lancewood.errors import InvalidInputError, UnsupportedError
from lancewood.spark.tasks import is_connect
from lancewood.spark.types import Reading, Writing

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

TASK, PLACE = "__lancewood_task", "__lancewood_place"
HIDDEN = (TASK, PLACE)
"""Columns of our own that go along with the rows, so that they come back to their places. Spark
moves every value by itself, so that there are as few as can be."""
_ROW_BY_ROW = frozenset(["Project", "LogicalRDD", "LocalRelation"])
_NODE = re.compile(r"^[ :]*[+:]- (\w+)", re.MULTILINE)
_CUT_SHORT = re.compile(r"\bmore fields\b|\.\.\.")
_MOST_CHARACTERS = 400


@dataclass(frozen=True)
class ColumnExpressions:
    """Expressions by the names of the new columns. Raises InvalidInputError for what is none."""

    by_name: Mapping[str, Any]

    def __post_init__(self) -> None:
        from pyspark.sql import Column

        if not isinstance(self.by_name, Mapping):
            raise InvalidInputError(
                "columns takes a mapping from names to Spark expressions, such as "
                f"{{'area': 'width * height'}}, got {self.by_name!r}"
            )
        if not self.by_name:
            raise InvalidInputError("no column to add was given")
        for name, each in self.by_name.items():
            if not isinstance(name, str) or not name:
                raise InvalidInputError(f"a column is called by a text, got {name!r}")
            if not isinstance(each, str | Column):
                raise InvalidInputError(
                    f"column {name!r} takes an expression in Spark SQL or a Column, got {each!r}",
                    column=name,
                )

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.by_name)

    def selected(self, frame: DataFrame) -> DataFrame:
        """The new columns for the rows of a frame, beside ours. Narrow: rows keep their order."""
        return frame.select(*HIDDEN, *self._columns())

    def _columns(self) -> Iterator[Any]:
        from pyspark.sql import functions

        for number, each in enumerate(self.by_name.values()):
            column = functions.expr(each) if isinstance(each, str) else each
            yield column.alias(plain_name(number))


@dataclass(frozen=True)
class Checked:
    """What Spark says of the expressions on one schema."""

    columns_read: tuple[str, ...]
    """The columns of the table that they need, and perhaps a few more."""
    reading: Reading
    writing: Writing
    """How the computed columns are written: under plain names, in the order of the expressions."""
    names: tuple[str, ...]
    moved: StructType
    """The columns that are read, and those that are computed, as Spark has them."""

    @property
    def schema(self) -> pa.Schema:
        """The new columns as the table stores them."""
        types = (self.writing.schema.field(plain_name(n)).type for n in range(len(self.names)))
        return pa.schema([pa.field(*each) for each in zip(self.names, types, strict=True)])


def plain_name(number: int) -> str:
    """What a new column is called until it is written: a name may have dots."""
    return f"c{number}"


def hidden_fields() -> list[Any]:
    """Our own columns, for Spark."""
    from pyspark.sql.types import BinaryType, LongType, StructField

    kinds = (BinaryType(), LongType())
    return [StructField(name, kind, True) for name, kind in zip(HIDDEN, kinds, strict=True)]


def check_expressions(
    spark: SparkSession,
    asked: ColumnExpressions,
    table: pa.Schema,
    types: Mapping[str, pa.DataType] | None = None,
) -> Checked:
    """Which columns of a table the expressions read, and what they give.

    ``types`` says of some columns as what they are stored, such as a vector's length.

    Raises InvalidInputError for an expression that Spark does not understand or that does not go
    row by row, UnsupportedError for a column or a result whose type cannot be carried over.
    """
    from pyspark.sql.types import StructField, StructType

    readable, refused = _readable(table)
    whole = StructType([*hidden_fields(), *Reading(pa.schema(readable)).spark])
    frame = spark.createDataFrame([], whole)
    read: dict[str, None] = {}
    types, made, stored = types or {}, [], []
    for number, (name, expression) in enumerate(asked.by_name.items()):
        one = ColumnExpressions({name: expression})
        result, plan = _analysed(frame, one, name, expression, refused)
        _check_row_by_row(name, plan)
        read.update(dict.fromkeys(_columns_in(plan, [each.name for each in readable])))
        kind = result[len(HIDDEN)].dataType
        own = name.rpartition(".")[2] or name
        wanted = None if name not in types else pa.schema([(own, types[name])])
        # Names the column if it cannot be.
        alone = Writing(StructType([StructField(own, kind, True)]), schema=wanted)
        made.append(StructField(plain_name(number), kind, True))
        stored.append(alone.table.field(0).with_name(plain_name(number)))
    chosen = pa.schema([each for each in readable if each.name in read])
    reading, writing = Reading(chosen), Writing(StructType(made), schema=pa.schema(stored))
    moved = StructType([*reading.spark, *made])
    return Checked(tuple(chosen.names), reading, writing, asked.names, moved)


def _readable(table: pa.Schema) -> tuple[list[pa.Field], dict[str, str]]:
    """The columns that Spark has a type for, and why it cannot have the others."""
    readable, refused = [], {}
    for each in table:
        try:
            Reading(pa.schema([each]))
        except UnsupportedError as why:
            refused[each.name] = why.message
        else:
            readable.append(each)
    return readable, refused


def _analysed(
    frame: DataFrame,
    one: ColumnExpressions,
    name: str,
    expression: object,
    refused: Mapping[str, str],
) -> tuple[StructType, str]:
    from pyspark.errors import PySparkException

    try:
        selected = one.selected(frame)
        return selected.schema, _plan_of(selected)
    except PySparkException as cause:
        text = str(cause).split("JVM stacktrace")[0].split(";\n")[0].strip()
        text = text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]}…"
        hint = "".join(f". {why}" for column, why in refused.items() if column in text)
        raise InvalidInputError(
            f"column {name!r} cannot be computed as {str(expression)!r}: {text}{hint}", column=name
        ) from None


def _plan_of(frame: Any) -> str:
    """The analysed plan, as Spark writes it down; without our own columns in the first line."""
    if is_connect(frame.sparkSession):
        text = frame._explain_string(extended=True)
        _, _, text = text.partition("== Analyzed Logical Plan ==\n")
        text, _, _ = text.partition("\n== Optimized Logical Plan ==")
        _, _, text = text.partition("\n")
    else:
        text = frame._jdf.queryExecution().analyzed().toString()
    for each in HIDDEN:
        text = re.sub(rf"(?<=[\[ ]){each}#\d+L?, ", "", text, count=1)
    return str(text)


def _check_row_by_row(name: str, plan: str) -> None:
    nodes = [plan.partition(" ")[0], *_NODE.findall(plan)]
    for each in nodes:
        if each not in _ROW_BY_ROW:
            article = "an" if each[:1] in "AEIOU" else "a"
            raise InvalidInputError(
                f"column {name!r} cannot be computed row by row: Spark plans {article} {each} for "
                "it. An expression may read the columns of its own row only, without aggregates, "
                "windows, generators and subqueries; compute other values before, and merge them",
                column=name,
            )
    below = _NODE.search(plan)
    top = plan[: below.start()] if below else plan
    for each in HIDDEN:
        if f"{each}#" in top:
            raise InvalidInputError(
                f"column {name!r} cannot be computed from '*': name the columns", column=name
            )


def _columns_in(plan: str, names: Sequence[str]) -> Iterator[str]:
    """The columns that occur in a plan, and perhaps others; all, where it is cut short."""
    lines = [each for each in plan.splitlines() if not _NODE.match(each) or "Project" in each]
    text = "\n".join(lines).lower()
    is_cut_short = _CUT_SHORT.search(text) is not None
    for each in names:
        if is_cut_short or f"{each.lower()}#" in text:
            yield each
