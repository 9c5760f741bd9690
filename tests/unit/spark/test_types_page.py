"""Every row of docs/spark-types.md, executed without a running Spark."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    CharType,
    DataType,
    DateType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    TimeType,
    VarcharType,
    VariantType,
    YearMonthIntervalType,
)
from tests.manifests import page_tables

from lancewood.errors import InvalidInputError, UnsupportedError
from lancewood.format.logical_type import parse_type
from lancewood.spark.types import Reading, Writing, spark_schema
from lancewood.testing.arrow_rows import bare_values, batches

PAGE = page_tables(Path(__file__).parents[3] / "docs" / "spark-types.md")
TO_SPARK = PAGE["From a table to Spark"]
TO_NEW = PAGE["From Spark to a new table"]
TO_OLD = PAGE["From Spark to a table that is there"]
A_INT = StructField("a", IntegerType())
SPARK: dict[str, DataType] = {
    each.simpleString(): each
    for each in (
        *(NullType(), BooleanType(), ByteType(), ShortType(), IntegerType(), LongType()),
        *(FloatType(), DoubleType(), DecimalType(10, 2), DecimalType(20, 0), StringType()),
        *(CharType(3), VarcharType(3), BinaryType(), DateType(), TimestampType()),
        *(TimestampNTZType(), TimeType(0), TimeType(3), TimeType(6), TimeType(9)),
        *(DayTimeIntervalType(), DayTimeIntervalType(0, 0), YearMonthIntervalType()),
        *(VariantType(), StructType([]), ArrayType(FloatType()), ArrayType(DoubleType())),
        ArrayType(ArrayType(TimestampType())),
        StructType([A_INT]),
        StructType([A_INT, StructField("b", StringType())]),
        StructType([StructField("b", StringType()), A_INT]),
        StructType([A_INT, StructField("c", StringType())]),
        *(MapType(StringType(), DateType()), MapType(StringType(), IntegerType())),
    )
}


def column(text: str, name: str = "c") -> pa.Field:
    """A column of the type that the page names."""
    if text == "bfloat16":
        return pa.field(name, pa.binary(2), metadata={"ARROW:extension:name": "lance.bfloat16"})
    return pa.field(name, pa.uuid() if text == "uuid" else parse_type(text))


def frame(*types: str) -> StructType:
    return StructType([StructField(f"c{n}", SPARK[each]) for n, each in enumerate(types)])


READABLE = pa.schema(
    [column(kind, f"c{n}") for n, (kind, _, how) in enumerate(TO_SPARK) if how != "refused"]
)


def test_the_page_has_all_three_tables() -> None:
    assert [len(each) > 25 for each in (TO_SPARK, TO_NEW, TO_OLD)] == [True] * 3


@pytest.mark.parametrize(("kind", "spark", "how"), TO_SPARK, ids=str)
def test_a_type_of_a_table_is_what_the_page_says_in_spark(kind: str, spark: str, how: str) -> None:
    schema = pa.schema([column(kind)])
    if how == "refused":
        with pytest.raises(UnsupportedError, match=r"'c' has type .* leave it out with columns="):
            Reading(schema)
        return
    reading = Reading(schema)
    assert reading.spark == spark_schema(schema)
    assert reading.spark.fields[0].dataType.simpleString() == spark
    assert reading.schema.equals(to_arrow_schema(reading.spark, timezone="UTC"))
    assert (how == "same") == reading.is_identity == reading.schema.equals(schema)
    assert (how == "checked") == reading._converters[0].checks


@settings(
    max_examples=8,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)
@given(st.data())
def test_values_of_every_type_on_the_page_go_to_spark_and_back(data: Any) -> None:
    batch = data.draw(batches(READABLE, min_rows=5))
    reading = pickle.loads(pickle.dumps(Reading(READABLE)))
    found = reading.convert(batch)
    found.validate(full=True)
    assert found.schema.equals(reading.schema)
    back = Writing(reading.spark, READABLE).convert(found)
    back.validate(full=True)
    assert bare_values(back) == bare_values(batch)


@pytest.mark.parametrize(("spark", "kind"), TO_NEW, ids=str)
def test_a_column_of_a_frame_becomes_what_the_page_says_in_a_new_table(
    spark: str, kind: str
) -> None:
    if kind == "refused":
        with pytest.raises(UnsupportedError, match=rf"'c0' is {spark}, which Lance"):
            Writing(frame(spark))
        return
    writing = Writing(frame(spark))
    assert writing.schema.equals(pa.schema([column(kind, "c0")]), check_metadata=True)
    assert writing.schema.equals(writing.table)


@pytest.mark.parametrize(("spark", "kind", "how"), TO_OLD, ids=str)
def test_a_column_of_a_frame_fits_a_table_as_the_page_says(spark: str, kind: str, how: str) -> None:
    table = pa.schema([column(kind, "c0")])
    if how == "refused":
        with pytest.raises(InvalidInputError, match="does not fit the table: column 'c0"):
            Writing(frame(spark), table)
        return
    writing = Writing(frame(spark), table)
    assert writing.schema.equals(table, check_metadata=True)
    assert (how == "checked") == writing._converters[0].checks
