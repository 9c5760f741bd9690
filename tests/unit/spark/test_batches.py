"""Which bounds Spark's batches have while a frame is written."""

from typing import Any

import pytest
from pyspark.sql import types as t
from tests.unit.spark.local_join import Session

from lancewood.spark.writing.work import (
    NO_BOUND,
    NUMBER_ROWS,
    TEXT_ROWS,
    batches_of,
    rows_at_once,
)

NARROW = t.StructType().add("id", t.LongType()).add("name", t.StringType())
WIDE = t.StructType().add("id", t.LongType()).add("image", t.BinaryType())


@pytest.mark.parametrize(
    ("kind", "rows"),
    [
        (t.LongType(), NUMBER_ROWS),
        (t.DecimalType(38, 2), NUMBER_ROWS),
        (t.TimestampType(), NUMBER_ROWS),
        (t.BooleanType(), NUMBER_ROWS),
        (t.StringType(), TEXT_ROWS),
        (t.StructType().add("x", t.DoubleType()), NUMBER_ROWS),
        (t.StructType().add("x", t.DoubleType()).add("y", t.StringType()), TEXT_ROWS),
        (t.StructType(), NUMBER_ROWS),
        (t.BinaryType(), None),
        (t.ArrayType(t.FloatType()), None),
        (t.MapType(t.StringType(), t.LongType()), None),
        (t.StructType().add("x", t.ArrayType(t.LongType())).add("y", t.LongType()), None),
    ],
    ids=str,
)
def test_rows_of_known_width_go_without_a_look_at_their_bytes(
    kind: t.DataType, rows: int | None
) -> None:
    assert rows_at_once(kind) == rows


def test_the_bound_by_bytes_is_lifted_for_narrow_rows_and_comes_back() -> None:
    spark: Any = Session()
    with batches_of(spark, NARROW):
        assert spark.bounds() == (str(TEXT_ROWS), NO_BOUND)
    assert spark.bounds() == ("50000", "8m")


def test_it_comes_back_after_a_failure() -> None:
    spark: Any = Session()
    with pytest.raises(ZeroDivisionError), batches_of(spark, NARROW):
        _ = 1 / 0
    assert spark.bounds() == ("50000", "8m")


@pytest.mark.parametrize(("given", "used"), [("500", "500"), ("0", str(TEXT_ROWS))])
def test_the_sessions_own_rows_are_not_exceeded(given: str, used: str) -> None:
    spark: Any = Session(rows=given)
    with batches_of(spark, NARROW):
        assert spark.bounds() == (used, NO_BOUND)
    assert spark.bounds() == (given, "8m")


def test_wide_rows_keep_the_bounds() -> None:
    spark: Any = Session()
    with batches_of(spark, WIDE):
        assert spark.bounds() == ("50000", "8m")


def test_a_bound_that_somebody_chose_is_kept() -> None:
    spark: Any = Session(size="16m")
    with batches_of(spark, NARROW):
        assert spark.bounds() == ("50000", "16m")


def test_wide_rows_get_the_bounds_back_while_narrow_ones_are_written() -> None:
    spark: Any = Session()
    with batches_of(spark, NARROW), batches_of(spark, WIDE):
        assert spark.bounds() == ("50000", "8m")
        with batches_of(spark, NARROW):
            assert spark.bounds() == ("50000", "8m")
    assert spark.bounds() == ("50000", "8m")


def test_the_last_of_several_narrow_writes_brings_the_bounds_back() -> None:
    spark: Any = Session()
    first, second = batches_of(spark, NARROW), batches_of(spark, NARROW)
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert spark.bounds() == (str(TEXT_ROWS), NO_BOUND)
    second.__exit__(None, None, None)
    assert spark.bounds() == ("50000", "8m")
