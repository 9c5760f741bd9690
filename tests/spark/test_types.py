"""Types and values through a real Spark, both ways, and the rows of docs/spark-types.md."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from tests.manifests import page_tables
from tests.spark.needs import VARIANTS, needs

from lancewood.format.logical_type import parse_type
from lancewood.spark.abilities import TIMES, release_here
from lancewood.spark.tasks import arrow_of
from lancewood.spark.types import Reading, Writing
from lancewood.testing.arrow_rows import LEAVES, bare_values, batches, schemas

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

PAGE = page_tables(Path(__file__).parents[2] / "docs" / "spark-types.md")
HAS_TIMES = TIMES.is_in(release_here())
TO_SPARK = [
    each for each in PAGE["From a table to Spark"] if HAS_TIMES or not each[1].startswith("time(")
]
BFLOAT16 = {"ARROW:extension:name": "lance.bfloat16"}
CASTABLE = [
    each for each in LEAVES if each != pa.null() and (HAS_TIMES or not pa.types.is_time(each))
]
"""toArrow() casts, and Arrow's cast of lists of nulls goes wrong."""
ZONES = ("UTC", "America/Los_Angeles")


def column(text: str, name: str) -> pa.Field:
    if text == "bfloat16":
        return pa.field(name, pa.binary(2), metadata=BFLOAT16)
    return pa.field(name, pa.uuid() if text == "uuid" else parse_type(text))


READABLE = pa.schema(
    [column(kind, f"c{n}") for n, (kind, _, how) in enumerate(TO_SPARK) if how != "refused"]
)


@contextmanager
def configured(spark: Any, **settings: str) -> Iterator[None]:
    """Settings of the session for a while."""
    names = {name.replace("_", "."): value for name, value in settings.items()}
    before = {name: spark.conf.get(name) for name in names}
    for name, value in names.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)


def giving(rows: list[pa.RecordBatch], reading: Reading) -> Callable[..., Any]:
    """A task that reads these rows; nested, so that it travels by value."""

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            pass
        for each in rows:
            yield reading.convert(each)

    return task


def taking(writing: Writing) -> Callable[..., Any]:
    """A task that answers with what it would write."""

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, writing.schema) as stream:
            for each in batches:
                stream.write_batch(writing.convert(each))
        yield pa.record_batch({"rows": pa.array([sink.getvalue().to_pybytes()], pa.binary())})

    return task


def through_spark(spark: Any, rows: list[pa.RecordBatch]) -> tuple[Any, pa.Table]:
    """The frame of rows that were read, and what comes of writing it to a table like theirs."""
    schema = rows[0].schema
    reading = Reading(schema)
    frame = spark.range(1, numPartitions=1).mapInArrow(giving(rows, reading), reading.spark)
    return frame, written(frame, Writing(frame.schema, schema))


def written(frame: Any, writing: Writing) -> pa.Table:
    answers = frame.mapInArrow(taking(writing), "rows binary").collect()
    parts = [pa.ipc.open_stream(each.rows).read_all() for each in answers]
    return pa.concat_tables(parts) if parts else writing.schema.empty_table()


def in_spark(row: Sequence[Any], schema: pa.Schema) -> tuple[Any, ...]:
    """A row of a table as Spark has it: bfloat16 are floats there, and bytes in Arrow."""
    return tuple(
        float(np.frombuffer(b"\0\0" + value, np.float32)[0])
        if field.metadata and value is not None
        else value
        for value, field in zip(row, schema, strict=True)
    )


def check(spark: Any, rows: list[pa.RecordBatch]) -> None:
    frame, back = through_spark(spark, rows)
    expected = [each for batch in rows for each in bare_values(batch)]
    assert frame.schema == Reading(rows[0].schema).spark
    assert bare_values(arrow_of(frame)) == [in_spark(each, rows[0].schema) for each in expected]
    assert back.schema.equals(rows[0].schema, check_metadata=True)
    assert bare_values(back) == expected


few = settings(
    max_examples=3,
    phases=[Phase.generate],
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.parametrize("zone", ZONES)
def test_every_type_on_the_page_goes_through_spark_and_back(spark: Any, zone: str) -> None:
    seen: set[str] = {"c0"}  # the column of nulls

    @few
    @given(st.data())
    def law(data: Any) -> None:
        first, second = (data.draw(batches(READABLE, min_rows=5)) for _ in range(2))
        seen.update(each for each in READABLE.names if first[each].null_count < len(first))
        check(spark, [first, first.slice(0, 0), second])

    with configured(spark, spark_sql_session_timeZone=zone):
        law()
    assert seen == set(READABLE.names)


def test_random_columns_go_through_spark_and_back(spark: Any) -> None:
    @settings(few, max_examples=4)
    @given(st.data())
    def law(data: Any) -> None:
        drawn = [data.draw(schemas(leaves=CASTABLE, max_columns=4)) for _ in range(8)]
        fields = [each for schema in drawn for each in schema]
        schema = pa.schema([each.with_name(f"c{n}") for n, each in enumerate(fields)])
        check(spark, [data.draw(batches(schema))])

    law()


@needs(VARIANTS)
def test_the_page_names_types_as_spark_does(spark: Any) -> None:
    pairs = [(f"c{n}", name) for n, (_, name, how) in enumerate(TO_SPARK) if how != "refused"]
    words = ", ".join(f"{column} {name}" for column, name in pairs)
    parsed = spark.createDataFrame([], words).schema
    assert [each.dataType for each in parsed] == [each.dataType for each in Reading(READABLE).spark]
    named = [name for name, _ in PAGE["From Spark to a new table"]]
    named += [name for name, _, _ in PAGE["From Spark to a table that is there"]]
    for n, name in enumerate(dict.fromkeys(named)):
        # Spark makes texts of a length strings when it parses them.
        if "char(" not in name and (HAS_TIMES or "time(" not in name):
            found = spark.sql(f"select cast(null as {name}) as c{n}").schema
            assert found.fields[0].dataType.simpleString() == name


@pytest.mark.sliced(2)
@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("wide", ["false", "true"])
def test_a_frame_of_sql_becomes_a_new_table(spark: Any, zone: str, wide: str) -> None:
    expressions = {
        "cast(null as void)": None,
        "true": True,
        "cast(-128 as tinyint)": -128,
        "cast(7 as smallint)": 7,
        "7": 7,
        "cast(9223372036854775807 as bigint)": 2**63 - 1,
        "cast(1.5 as float)": 1.5,
        "cast(0.1 as double)": 0.1,
        "cast(-12345678.90 as decimal(10,2))": Decimal("-12345678.90"),
        "'é'": "é",
        "cast('ab' as char(3))": "ab",
        "X'00ff'": b"\x00\xff",
        "date'2020-02-29'": date(2020, 2, 29),
        "timestamp'2020-03-08 10:30:00.000001Z'": datetime(2020, 3, 8, 10, 30, 0, 1, UTC),
        "timestamp'0001-01-02 00:00:00Z'": datetime(1, 1, 2, tzinfo=UTC),
        "timestamp_ntz'2020-03-08 02:30:00'": datetime(2020, 3, 8, 2, 30),
        "time'23:59:59.999999'": time(23, 59, 59, 999_999),
        "interval '-1 02:03:04.5' day to second": -timedelta(1, 3 * 60 + 4.5, hours=2),
        "array(1, null)": [1, None],
        "array(timestamp'2020-01-01 00:00:00Z')": [datetime(2020, 1, 1, tzinfo=UTC)],
        "map('k', cast(null as int))": [("k", None)],
        "named_struct('x', array(named_struct('y', 'z')))": {"x": [{"y": "z"}]},
    }
    if not HAS_TIMES:
        del expressions["time'23:59:59.999999'"]
    selected = ", ".join(f"{each} as c{n}" for n, each in enumerate(expressions))
    with configured(
        spark,
        spark_sql_session_timeZone=zone,
        spark_sql_execution_arrow_useLargeVarTypes=wide,
    ):
        frame = spark.sql(f"select {selected}")
        writing = Writing(frame.schema)
        (row,) = written(frame, writing).to_pylist()
    assert list(row.values()) == list(expressions.values())
    assert writing.schema.field("c9").type == pa.string()
    moment = writing.schema.field("c13").type
    assert moment == pa.timestamp("us", "UTC")


@needs(TIMES)
def test_rows_with_times_of_day_can_be_counted_and_grouped(spark: Any) -> None:
    rows = pa.record_batch({"t": pa.array([1, None, 1], pa.time64("us"))})
    reading = Reading(rows.schema)
    frame = spark.range(1, numPartitions=1).mapInArrow(giving([rows], reading), reading.spark)
    found = {each.t: each["count"] for each in frame.groupBy("t").count().collect()}
    assert found == {time(0, 0, 0, 1): 2, None: 1}


def test_vectors_are_restored_with_nulls_on_every_level(spark: Any) -> None:
    table = pa.schema(
        [
            pa.field("v", pa.list_(pa.float32(), 3)),
            pa.field("h", pa.list_(pa.float16(), 2)),
            pa.field("n", pa.uint8(), False),
            pa.field("missing", pa.string()),
        ]
    )
    frame = spark.sql(
        "select cast(id as bigint) as n,"
        " if(id % 3 = 0, null, array(cast(id as float), null, 2.5f)) as v,"
        " if(id % 4 = 1, null, array(0.5f, cast(-id as float))) as h"
        " from range(0, 40, 1, 2) order by id"
    )
    found = written(frame, Writing(frame.schema, table)).to_pylist()
    assert sorted(found, key=lambda each: int(each["n"])) == [
        {
            "v": None if n % 3 == 0 else [n, None, 2.5],
            "h": None if n % 4 == 1 else [0.5, -n],
            "n": n,
        }
        for n in range(40)
    ]


def test_partitions_without_rows_and_frames_without_rows_are_written(spark: Any) -> None:
    schema = pa.schema([("v", pa.list_(pa.float32(), 2)), ("s", pa.struct([("x", pa.uint64())]))])
    reading = Reading(schema)
    frame = spark.createDataFrame([], reading.spark)
    assert written(frame, Writing(frame.schema, schema)).num_rows == 0
    one = spark.createDataFrame([([1.0, 2.0], None)], reading.spark).repartition(3)
    assert written(one, Writing(one.schema, schema)).to_pylist() == [{"v": [1, 2], "s": None}]


def test_a_value_that_does_not_fit_ends_the_job_with_its_name(spark: Any) -> None:
    frame = spark.sql("select cast(300 as bigint) as n")
    with pytest.raises(Exception, match=r"InvalidInputError.*column 'n' holds 300"):
        written(frame, Writing(frame.schema, pa.schema([("n", pa.uint8())])))
    rows = pa.record_batch({"t": pa.array([1001], pa.timestamp("ns"))})
    reading = Reading(rows.schema)
    read = spark.range(1, numPartitions=1).mapInArrow(giving([rows], reading), reading.spark)
    with pytest.raises(Exception, match=r"UnsupportedError.*column 't' holds 1970-01-01 00:00:00"):
        read.collect()
