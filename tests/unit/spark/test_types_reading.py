"""Tables to Spark: the values that need care, without a running Spark."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import LongType, StructField, StructType

from lancewood.errors import UnsupportedError
from lancewood.format.schema import BLOB_V2_DESCRIPTOR
from lancewood.spark.types import Reading, Writing, spark_schema
from lancewood.testing.arrow_rows import bare_values, batches, schemas

law = settings(
    max_examples=40,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)


def batch_of(array: pa.Array, field: pa.Field | None = None) -> pa.RecordBatch:
    field = pa.field("c", array.type) if field is None else field
    return pa.RecordBatch.from_arrays([array], schema=pa.schema([field]))


def read(array: pa.Array, field: pa.Field | None = None) -> pa.Array:
    batch = batch_of(array, field)
    found = Reading(batch.schema).convert(batch)
    found.validate(full=True)
    return found.column(0)


@law
@given(st.data())
def test_random_columns_go_to_spark_as_they_are_and_come_back_as_they_were(data: Any) -> None:
    schema = data.draw(schemas())
    batch = data.draw(batches(schema))
    reading = Reading(schema)
    found = reading.convert(batch)
    found.validate(full=True)
    assert found.schema.equals(to_arrow_schema(reading.spark, timezone="UTC"))
    assert bare_values(found) == bare_values(batch)
    back = Writing(reading.spark, schema).convert(found)
    back.validate(full=True)
    assert back.schema.equals(schema, check_metadata=True)
    assert bare_values(back) == bare_values(batch)
    for column, field in zip(back.columns, schema, strict=True):
        assert column.type.equals(field.type, check_metadata=True)


def test_a_batch_of_equal_types_is_given_back_itself() -> None:
    batch = pa.record_batch({"a": [1, None], "b": ["x", "y"], "c": [[1.5], None]})
    reading = Reading(batch.schema)
    assert reading.is_identity
    assert reading.convert(batch) is batch


def test_a_vector_becomes_a_list_without_a_copy_of_its_values() -> None:
    array = pa.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], pa.list_(pa.float32(), 2))
    found = read(array.slice(1))
    assert found.to_pylist() == [[3.0, 4.0], [5.0, 6.0]]
    assert found.values.buffers()[1].address == array.values.buffers()[1].address


def test_values_below_a_null_are_never_checked() -> None:
    nanos = pa.array([1001, 2000, 3000, 4001], pa.timestamp("ns"))
    odd = pa.array([True, False, False, True])
    structs = pa.StructArray.from_arrays([nanos], ["a"], mask=odd)
    assert read(structs).is_null().to_pylist() == odd.to_pylist()
    ends = pa.array([0, 1, 3, 4], pa.int32())
    lists = pa.ListArray.from_arrays(ends, nanos, mask=pa.array([True, False, True]))
    assert read(lists).is_null().to_pylist() == [True, False, True]
    vectors = pa.FixedSizeListArray.from_arrays(
        pa.array([1001, 1001, 1000, 2000], pa.timestamp("ns")), 2, mask=pa.array([True, False])
    )
    assert read(vectors).is_null().to_pylist() == [True, False]
    keys = pa.array(["a", "b", "c", "d"])
    maps = pa.MapArray.from_arrays(ends, keys, nanos, mask=pa.array([True, False, True]))
    assert read(maps.slice(1)).is_null().to_pylist() == [False, True]


def test_an_index_of_no_value_below_a_null_struct_is_not_looked_up() -> None:
    empty = pa.DictionaryArray.from_arrays(
        pa.array([0], pa.int16()), pa.array([], pa.string()), safe=False
    )
    structs = pa.StructArray.from_arrays([empty], ["a"], mask=pa.array([True]))
    assert read(structs).to_pylist() == [None]


@pytest.mark.parametrize(
    ("array", "shown"),
    [
        (pa.array([0, 1_001, 2_002], pa.timestamp("ns")), "1970-01-01 00:00:00.000001001"),
        (pa.array([0, 1_001], pa.timestamp("ns", "UTC")), "1970-01-01 00:00:00.000001001Z"),
        (pa.array([2**62, 1], pa.timestamp("ms")), "4611686018427387904 ms since 1970"),
        (pa.array([None, 7], pa.duration("ns")), "7 ns"),
        (pa.array([86_400_001], pa.int64()).view(pa.date64()), "86400001 ms since 1970"),
    ],
    ids=["ns", "ns with a zone", "far away", "interval", "part of a day"],
)
def test_a_value_that_spark_cannot_hold_is_named_with_its_column(
    array: pa.Array, shown: str
) -> None:
    wrapped = pa.ListArray.from_arrays(pa.array([0, len(array)], pa.int32()), array)
    for column, path in ((array, "c"), (wrapped, "c.element")):
        with pytest.raises(UnsupportedError, match=r"leave the column out with columns=") as found:
            read(column)
        assert f"column {path!r} holds {shown}" in str(found.value)
        assert pickle.loads(pickle.dumps(found.value)).facts == found.value.facts


def test_nanoseconds_that_are_whole_microseconds_are_exact() -> None:
    array = pa.array([-1_000, 5_000, None], pa.timestamp("ns", "America/New_York"))
    found = read(array)
    assert found.type == pa.timestamp("us", "UTC")
    assert found.view(pa.int64()).to_pylist() == [-1, 5, None]


def test_the_largest_of_each_unsigned_type_is_kept() -> None:
    for bits in (8, 16, 32, 64):
        most = (1 << bits) - 1
        array = pa.array([0, most, None], getattr(pa, f"uint{bits}")())
        assert read(array).to_pylist() == [0, most, None]


def test_row_ids_and_addresses_are_long_and_too_large_ones_an_error() -> None:
    schema = pa.schema([("_rowid", pa.uint64()), ("_rowaddr", pa.uint64()), ("a", pa.uint64())])
    kinds = [each.dataType.simpleString() for each in spark_schema(schema)]
    assert kinds == ["bigint", "bigint", "decimal(20,0)"]
    field = schema.field("_rowid")
    assert read(pa.array([2**63 - 1], pa.uint64()), field).to_pylist() == [2**63 - 1]
    with pytest.raises(UnsupportedError, match=r"'_rowid' holds 9223372036854775808.*bigint"):
        read(pa.array([1, 2**63], pa.uint64()), field)


def test_bfloat16_becomes_float_with_slices_and_nulls() -> None:
    floats = np.array([1.5, -2.0, 0.0, np.inf], np.float32)
    halves = [each.tobytes()[2:] for each in floats]
    metadata = {"ARROW:extension:name": "lance.bfloat16"}
    field = pa.field("c", pa.binary(2), metadata=metadata)
    array = pa.array([halves[0], None, *halves[1:]], pa.binary(2))
    assert read(array, field).to_pylist() == [1.5, None, -2.0, 0.0, float("inf")]
    assert read(array.slice(1, 2), field).to_pylist() == [None, -2.0]
    vector = pa.list_(pa.field("item", pa.binary(2), metadata=metadata), 2)
    found = read(pa.array([halves[:2], None], vector))
    assert found.to_pylist() == [[1.5, -2.0], None]


def test_times_intervals_and_decimals_are_exact() -> None:
    assert read(pa.array([86_399], pa.time32("s"))).to_pylist() == [time(23, 59, 59)]
    assert read(pa.array([-7], pa.duration("ms"))).to_pylist() == [timedelta(milliseconds=-7)]
    assert read(pa.array([Decimal("-1200")], pa.decimal128(4, -2))).to_pylist() == [Decimal(-1200)]
    moment = datetime(2020, 2, 29, 12, tzinfo=UTC)
    found = read(pa.array([moment], pa.timestamp("s", "Asia/Tokyo"))).to_pylist()
    assert found == [moment]


def test_scales_beyond_the_precision_are_widened() -> None:
    kind = pa.decimal128(2, 4)
    array = pa.Array.from_buffers(kind, 1, [None, pa.py_buffer((12).to_bytes(16, "little"))])
    found = read(array)
    assert found.type == pa.decimal128(4, 4)
    assert found.to_pylist() == [Decimal("0.0012")]


def test_list_views_and_texts_of_any_width_are_read() -> None:
    views = pa.array([[1], None, [2, 3], []], pa.list_view(pa.int32()))
    assert read(views).to_pylist() == [[1], None, [2, 3], []]
    assert read(views.slice(1)).to_pylist() == [None, [2, 3], []]
    for kind in (pa.large_string(), pa.string_view()):
        assert read(pa.array(["a", None, "é"], kind).slice(1)).to_pylist() == [None, "é"]


def test_structs_without_fields_and_rows_without_columns_keep_their_number() -> None:
    empty = pa.array([{}, None, {}], pa.struct([]))
    assert read(empty).to_pylist() == [{}, None, {}]
    none = pa.RecordBatch.from_struct_array(empty.drop_null())
    assert Reading(none.schema).convert(none).num_rows == 2


def test_descriptors_of_blobs_are_structs_of_wider_numbers() -> None:
    row = {"kind": 1, "position": 2, "size": 3, "blob_id": 4, "blob_uri": "x"}
    field = pa.field("b", BLOB_V2_DESCRIPTOR, metadata={"lance-encoding:blob": "true"})
    found = read(pa.array([row, None], BLOB_V2_DESCRIPTOR), field)
    assert found.to_pylist() == [row, None]
    (spark,) = spark_schema(pa.schema([field])).fields
    assert spark.metadata == {}
    assert spark.dataType.simpleString() == (
        "struct<kind:smallint,position:decimal(20,0),size:decimal(20,0),"
        "blob_id:bigint,blob_uri:string>"
    )


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        (pa.decimal256(39, 0), "c"),
        (pa.decimal128(38, -1), "c"),
        (pa.list_(pa.struct([("x", pa.decimal256(76, 2))])), "c.element.x"),
        (pa.map_(pa.string(), pa.decimal256(40, 1)), "c.value"),
        (pa.map_(pa.map_(pa.string(), pa.int32()), pa.int32()), "c"),
        (pa.month_day_nano_interval(), "c"),
        (pa.dictionary(pa.int8(), pa.decimal256(60, 1)), "c"),
    ],
    ids=str,
)
def test_a_type_that_spark_has_not_is_refused_by_its_path(kind: pa.DataType, path: str) -> None:
    with pytest.raises(UnsupportedError, match="leave it out with columns=") as found:
        spark_schema(pa.schema([("a", pa.int32()), ("c", kind)]))
    assert found.value.facts["column"] == path


def test_nullability_is_kept_but_below_a_struct_that_may_be_null_everything_may() -> None:
    required = pa.field("item", pa.uint8(), False)
    deep = pa.struct([pa.field("y", pa.struct([pa.field("z", pa.int8(), False)]), False)])
    schema = pa.schema(
        [
            pa.field("a", pa.int64(), False),
            pa.field("b", pa.list_(required)),
            pa.field("c", pa.struct([pa.field("x", pa.string(), False)]), False),
            pa.field("d", pa.map_(pa.string(), pa.field("value", pa.int8(), False))),
            pa.field("e", deep),
        ]
    )
    spark: Any = spark_schema(schema)
    assert not spark["a"].nullable
    assert spark["b"].nullable
    assert not spark["b"].dataType.containsNull
    assert not spark["c"].dataType["x"].nullable
    assert not spark["d"].dataType.valueContainsNull
    assert spark["e"].dataType["y"].nullable
    assert spark["e"].dataType["y"].dataType["z"].nullable


def test_comments_are_told_and_what_steers_lance_or_spark_is_not() -> None:
    metadata = {
        "comment": "the key",
        "lance-schema:unenforced-primary-key": "true",
        "__metadata_col": "x",
        "spark.watermarkDelayMs": "5",
        b"\xff": b"x",
    }
    inner = pa.field("x", pa.int32(), metadata={"comment": "inside"})
    field = pa.field("c", pa.struct([inner]), metadata=metadata)
    (found,) = spark_schema(pa.schema([field])).fields
    assert found.metadata == {"comment": "the key"}
    below: Any = found.dataType
    assert below["x"].metadata == {"comment": "inside"}


def test_a_schema_is_what_spark_calls_it() -> None:
    assert spark_schema(pa.schema([("n", pa.int64())])) == StructType(
        [StructField("n", LongType())]
    )
