"""Spark to tables: names, values that do not fit, and shapes, without a running Spark."""

from __future__ import annotations

import pickle
import re
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    ByteType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    StringType,
    StructField,
    StructType,
    TimestampType,
    UserDefinedType,
    VariantType,
)

from lancewood.errors import InvalidInputError, UnsupportedError
from lancewood.spark.types import Writing
from lancewood.testing.arrow_rows import bare_values

FLOATS = ArrayType(FloatType())
VECTOR: pa.DataType = pa.list_(pa.float32(), 2)


def frame(**types: Any) -> StructType:
    return StructType([StructField(name, kind) for name, kind in types.items()])


def table(**types: pa.DataType) -> pa.Schema:
    return pa.schema(list(types.items()))


def written(spark: Any, kind: pa.DataType, array: pa.Array) -> pa.Array:
    """A column as it goes into a table's column of this type."""
    writing = Writing(frame(c=spark), table(c=kind))
    found = writing.convert(pa.record_batch({"c": array}))
    found.validate(full=True)
    assert found.schema.equals(writing.schema, check_metadata=True)
    return found.column(0)


def test_columns_belong_together_by_name_and_come_in_the_tables_order() -> None:
    writing = Writing(
        frame(b=StringType(), a=LongType()), table(a=pa.int64(), x=VECTOR, b=pa.string())
    )
    found = writing.convert(pa.record_batch({"b": ["x", None], "a": [1, 2]}))
    assert found.to_pydict() == {"a": [1, 2], "b": ["x", None]}
    assert writing.schema.names == ["a", "b"]
    assert writing.table.names == ["a", "x", "b"]


def test_everything_that_does_not_fit_is_named_at_once() -> None:
    schema = pa.schema(
        [
            pa.field("key", pa.int64(), False),
            pa.field("name", pa.string()),
            pa.field("s", pa.struct([pa.field("x", pa.int32(), False), ("long_name", pa.int8())])),
        ]
    )
    given = frame(
        Name=StringType(),
        s=frame(long_nam=ByteType()),
        _rowid=LongType(),
        zzz=LongType(),
    )
    with pytest.raises(InvalidInputError) as found:
        Writing(given, schema)
    assert found.value.facts["problems"] == [
        "column 'Name' is not in the table (did you mean 'name'?)",
        "column '_rowid' is not in the table: every row has it by itself, drop it",
        "column 'zzz' is not in the table",
        "column 'key' is missing and may not be null",
        "column 's.long_nam' is not in the table (did you mean 's.long_name'?)",
        "column 's.x' is missing and may not be null",
    ]
    assert pickle.loads(pickle.dumps(found.value)).facts == found.value.facts


def test_only_the_first_of_many_unknown_columns_are_told_what_was_meant() -> None:
    many = frame(**{f"name{each}": LongType() for each in range(30)})
    with pytest.raises(InvalidInputError, match="and 20 more") as found:
        Writing(many, table(name=pa.int64()))
    hinted = [each for each in found.value.facts["problems"] if "did you mean" in each]
    assert len(hinted) == 10


def test_a_name_that_occurs_twice_is_refused() -> None:
    twice = StructType([StructField("a", LongType()), StructField("a", LongType())])
    with pytest.raises(InvalidInputError, match="'a' occurs twice"):
        Writing(twice, table(a=pa.int64()))
    with pytest.raises(InvalidInputError, match="'a' occurs twice"):
        Writing(twice)
    with pytest.raises(InvalidInputError, match=r"'s\.a' occurs twice"):
        Writing(frame(s=twice), table(s=pa.struct([("a", pa.int64())])))


def test_a_frame_without_a_column_of_the_table_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="no column of the table"):
        Writing(StructType([]), table(a=pa.int64()))


def test_a_decimal_with_more_digits_is_refused_with_the_cast_that_rounds_it() -> None:
    rows = pa.array([Decimal("5.698")], pa.decimal128(15, 3))
    with pytest.raises(InvalidInputError, match=r"5\.698.*write CAST\(… AS DECIMAL\(12,2\)\)"):
        written(DecimalType(15, 3), pa.decimal128(12, 2), rows)


@pytest.mark.parametrize(
    ("spark", "kind", "array", "shown"),
    [
        (LongType(), pa.int32(), pa.array([1, 2**31, 2**40]), "2147483648"),
        (LongType(), pa.uint8(), pa.array([None, -1]), "-1"),
        (DecimalType(20, 0), pa.uint64(), pa.array([Decimal(2**64)], pa.decimal128(20, 0)), "1844"),
        (LongType(), pa.float64(), pa.array([2**53 + 1]), "9007199254740993"),
        (IntegerType(), pa.float16(), pa.array([2049], pa.int32()), "2049"),
        (LongType(), pa.decimal128(3, 1), pa.array([99, 100]), "100"),
        (DoubleType(), pa.decimal128(12, 2), pa.array([0.1, None, 1.567]), "1.567"),
        (DoubleType(), pa.decimal128(3, 2), pa.array([9.5, float("inf")]), "inf"),
        (DoubleType(), pa.float32(), pa.array([0.5, 0.1]), "0.1"),
        (DoubleType(), pa.float32(), pa.array([1e300]), "1e+300"),
        (FloatType(), pa.float16(), pa.array([1e6], pa.float32()), "1000000.0"),
        (BinaryType(), pa.binary(2), pa.array([b"ab", b"abc"]), "b'abc'"),
        (
            TimestampType(),
            pa.timestamp("s", "UTC"),
            pa.array([datetime(2020, 1, 1, 0, 0, 0, 5, UTC)]),
            "2020-01-01 00:00:00.000005Z",
        ),
    ],
    ids=lambda each: str(each) if isinstance(each, pa.DataType) else "",
)
def test_a_value_that_does_not_fit_is_named_with_its_column(
    spark: Any, kind: pa.DataType, array: pa.Array, shown: str
) -> None:
    with pytest.raises(
        InvalidInputError, match=f"'c' holds {re.escape(shown)}.*{re.escape(str(kind))}"
    ):
        written(spark, kind, array)
    lists = pa.ListArray.from_arrays(pa.array([0, len(array)], pa.int32()), array)
    with pytest.raises(InvalidInputError, match=rf"'c\.element' holds {re.escape(shown)}"):
        written(ArrayType(spark), pa.list_(kind), lists)
    hidden = pa.StructArray.from_arrays([array], ["x"], mask=pa.array([True] * len(array)))
    below = frame(x=spark)
    assert written(below, pa.struct([("x", kind)]), hidden).null_count == len(array)


def test_values_that_fit_a_narrower_type_are_taken() -> None:
    assert written(LongType(), pa.uint8(), pa.array([0, 255, None])).to_pylist() == [0, 255, None]
    most = pa.array([Decimal(2**64 - 1)], pa.decimal128(20, 0))
    assert written(DecimalType(20, 0), pa.uint64(), most).to_pylist() == [2**64 - 1]
    halves = [0.5, None, float("inf"), -0.0]
    assert written(DoubleType(), pa.float16(), pa.array(halves)).to_pylist() == halves
    nan = written(DoubleType(), pa.float32(), pa.array([float("nan")])).to_pylist()
    assert nan[0] != nan[0]
    tenths = written(DoubleType(), pa.decimal128(12, 2), pa.array([0.1, None, 25.0]))
    assert tenths.to_pylist() == [Decimal("0.10"), None, Decimal("25.00")]
    exact = pa.array([Decimal("1.50")], pa.decimal128(10, 2))
    assert written(DecimalType(10, 2), pa.decimal128(2, 1), exact).to_pylist() == [Decimal("1.5")]


def test_bfloat16_takes_floats_that_it_can_hold() -> None:
    field = pa.field("c", pa.binary(2), metadata={"ARROW:extension:name": "lance.bfloat16"})
    schema = pa.schema([field])

    def halves(array: pa.Array) -> list[Any]:
        writing = Writing(frame(c=FloatType()), schema)
        found = writing.convert(pa.record_batch({"c": array}))
        assert found.schema.equals(schema, check_metadata=True)
        return [
            None if each is None else np.frombuffer(b"\0\0" + each, np.float32)[0]
            for each in found.column(0).to_pylist()
        ]

    array = pa.array([9.0, 1.5, None, float("-inf")], pa.float32()).slice(1)
    assert halves(array) == [1.5, None, float("-inf")]
    assert np.isnan(halves(pa.array([float("nan")], pa.float32()))[0])
    with pytest.raises(InvalidInputError, match=r"'c' holds 1\.00390625, .*bfloat16"):
        halves(pa.array([1.00390625], pa.float32()))


def test_lists_become_vectors_with_null_lists_and_null_elements() -> None:
    array = pa.array([[9, 9], [1, 2], None, [3, None], None], pa.list_(pa.float32()))
    assert written(FLOATS, VECTOR, array.slice(1)).to_pylist() == [[1, 2], None, [3, None], None]
    assert written(FLOATS, VECTOR, array.slice(2, 1)).to_pylist() == [None]
    assert written(FLOATS, VECTOR, array.slice(0, 0)).to_pylist() == []


def test_a_vector_without_nulls_keeps_the_buffer_of_its_values() -> None:
    array = pa.array([[1, 2], [3, 4]], pa.list_(pa.float32()))
    found = written(FLOATS, VECTOR, array)
    assert found.values.buffers()[1].address == array.values.buffers()[1].address


def test_values_below_a_null_list_do_not_count() -> None:
    values = pa.array([7, 7, 7, 1, 2], pa.float32())
    array = pa.ListArray.from_arrays(
        pa.array([0, 3, 5], pa.int32()), values, mask=pa.array([True, False])
    )
    assert written(FLOATS, VECTOR, array).to_pylist() == [None, [1, 2]]


def test_a_list_of_another_length_than_the_vectors_is_an_error() -> None:
    for bad, length in (([1], 1), ([1, 2, 3], 3), ([], 0)):
        array = pa.array([[1, 2], None, bad], pa.list_(pa.float32()))
        with pytest.raises(InvalidInputError, match=f"'c' holds a list of {length} values"):
            written(FLOATS, VECTOR, array)
    swapped = pa.array([[1], [1, 2, 3]], pa.list_(pa.float32()))
    with pytest.raises(InvalidInputError, match="a list of 1 values"):
        written(FLOATS, VECTOR, swapped)


def test_vectors_of_vectors_and_of_structs_are_restored() -> None:
    deep = pa.list_(VECTOR, 2)
    rows = [[[1, 2], None], None, [[3, None], [5, 6]]]
    array = pa.array(rows, pa.list_(pa.list_(pa.float32())))
    assert written(ArrayType(FLOATS), deep, array).to_pylist() == rows
    structs = pa.list_(pa.struct([("x", pa.int8())]), 1)
    rows_of_structs = [[{"x": 1}], None, [None]]
    array = pa.array(rows_of_structs, pa.list_(pa.struct([("x", pa.int64())])))
    spark = ArrayType(frame(x=LongType()))
    assert written(spark, structs, array).to_pylist() == rows_of_structs


@settings(
    max_examples=60,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)
@given(
    st.lists(
        st.one_of(
            st.none(), st.lists(st.one_of(st.none(), st.integers(-9, 9)), min_size=3, max_size=3)
        ),
        max_size=9,
    ),
    st.integers(0, 3),
)
def test_any_lists_of_three_become_vectors_of_three(rows: list[Any], cut: int) -> None:
    array = pa.array(rows, pa.list_(pa.int64())).slice(cut)
    found = written(ArrayType(LongType()), pa.list_(pa.int16(), 3), array)
    assert found.to_pylist() == rows[cut:]


def test_lists_without_rows_need_no_offsets() -> None:
    inner = pa.Array.from_buffers(
        pa.list_(pa.float32()), 0, [None, None], children=[pa.array([], pa.float32())]
    )
    outer = pa.ListArray.from_arrays(pa.array([0, 0], pa.int32()), inner)
    assert written(ArrayType(FLOATS), pa.list_(VECTOR), outer).to_pylist() == [[]]
    entries = pa.array([], pa.struct([pa.field("key", pa.string(), False), ("value", pa.int64())]))
    kind = pa.map_(pa.string(), pa.int64())
    maps = pa.Array.from_buffers(kind, 0, [None, None], children=[entries])
    narrow = pa.map_(pa.string(), pa.int8())
    assert written(MapType(StringType(), LongType()), narrow, maps).to_pylist() == []


def test_a_null_where_the_table_allows_none_is_an_error_that_names_the_path() -> None:
    required = pa.struct([pa.field("x", pa.int64(), False)])
    spark = frame(x=LongType())
    assert written(spark, required, pa.array([{"x": 1}, None])).to_pylist() == [{"x": 1}, None]
    with pytest.raises(InvalidInputError, match=r"'c\.x' may not be null, but 1 values are"):
        written(spark, required, pa.array([{"x": 1}, None, {"x": None}]))
    items = pa.list_(pa.field("item", pa.int64(), False))
    with pytest.raises(InvalidInputError, match=r"'c\.element' may not be null"):
        written(ArrayType(LongType()), items, pa.array([[1], None, [None]]))
    values = pa.map_(pa.string(), pa.field("value", pa.int64(), False))
    entries = pa.array([[("a", None)]], pa.map_(pa.string(), pa.int64()))
    with pytest.raises(InvalidInputError, match=r"'c\.value' may not be null"):
        written(MapType(StringType(), LongType()), values, entries)
    writing = Writing(frame(c=LongType()), pa.schema([pa.field("c", pa.int64(), False)]))
    assert writing.convert(pa.record_batch({"c": [1, 2]})).num_rows == 2
    with pytest.raises(InvalidInputError, match=r"'c' may not be null, but 2 values are"):
        writing.convert(pa.record_batch({"c": [None, 1, None]}))


def test_void_fills_what_may_be_null_and_nothing_else() -> None:
    assert written(NullType(), VECTOR, pa.nulls(2)).to_pylist() == [None, None]
    assert written(NullType(), pa.json_(), pa.nulls(1)).type == pa.json_()
    with pytest.raises(InvalidInputError, match="'c' is void and may not be null"):
        Writing(frame(c=NullType()), pa.schema([pa.field("c", pa.int64(), False)]))


def test_missing_fields_of_structs_become_null_on_every_level() -> None:
    kind = pa.struct([("a", pa.int8()), ("b", VECTOR), ("c", pa.struct([("d", pa.string())]))])
    rows = pa.array([[{"a": 1}], None], pa.list_(pa.struct([("a", pa.int64())])))
    found = written(ArrayType(frame(a=LongType())), pa.list_(kind), rows)
    assert found.to_pylist() == [[{"a": 1, "b": None, "c": None}], None]
    nothing = pa.array([{}, None], pa.struct([]))
    assert written(StructType([]), kind, nothing).to_pylist() == [
        {"a": None, "b": None, "c": None},
        None,
    ]


def test_dictionaries_are_made_anew_and_too_many_values_an_error() -> None:
    kind = pa.dictionary(pa.int8(), pa.large_string())
    found = written(StringType(), kind, pa.array(["b", None, "a", "b"]))
    assert found.type == kind
    assert found.to_pylist() == ["b", None, "a", "b"]
    many = pa.array([str(each) for each in range(129)])
    with pytest.raises(InvalidInputError, match="'c' holds 129 different values in one batch"):
        written(StringType(), kind, many)


def test_moments_stay_whatever_zone_the_session_is_in() -> None:
    moment = datetime(2024, 3, 10, 10, 30, tzinfo=UTC)
    for zone in ("Etc/UTC", "America/Los_Angeles", "+05:30"):
        array = pa.array([moment, None], pa.timestamp("us", zone))
        for unit in ("s", "ms", "us", "ns"):
            kind = pa.timestamp(unit, "Asia/Tokyo")
            found = written(TimestampType(), kind, array)
            assert found.cast(pa.timestamp("us", "UTC")).to_pylist() == [moment, None]
        nested = pa.ListArray.from_arrays(pa.array([0, 2], pa.int32()), array)
        writing = Writing(frame(c=ArrayType(TimestampType())))
        found = writing.convert(pa.record_batch({"c": nested}))
        assert found.column(0).type.value_type == pa.timestamp("us", "UTC")
        assert found.to_pylist() == [{"c": [moment, None]}]


def test_texts_with_wide_offsets_are_taken_too() -> None:
    assert written(StringType(), pa.string(), pa.array(["a"], pa.large_string())).type == "string"
    nested = pa.array([["a", None]], pa.list_(pa.large_string()))
    assert written(ArrayType(StringType()), pa.list_(pa.string()), nested).to_pylist() == [
        ["a", None]
    ]


def test_a_batch_that_is_right_already_is_given_back_itself() -> None:
    given = frame(a=LongType(), b=StringType())
    for writing in (Writing(given), Writing(given, table(a=pa.int64(), b=pa.string()))):
        assert writing.is_identity
        batch = pa.record_batch({"a": [1], "b": ["x"]})
        assert writing.convert(batch) is batch
        wide = batch.set_column(1, "b", pa.array(["x"], pa.large_string()))
        assert writing.convert(wide).schema.equals(writing.schema)
    assert not Writing(given, table(b=pa.string(), a=pa.int64())).is_identity


def test_the_offset_that_older_sparks_do_not_write_is_written() -> None:
    """Of texts and lists in lists that are all empty; Lance reads it."""
    never = pa.py_buffer(np.array([-189], np.int32))
    text = pa.Array.from_buffers(pa.string(), 0, [None, never, pa.py_buffer(b"")])
    inner = pa.Array.from_buffers(pa.list_(pa.string()), 0, [None, never], children=[text])
    lists = pa.ListArray.from_arrays(pa.array([0, 0, 0], pa.int32()), inner)
    structs = pa.StructArray.from_arrays([lists], ["x"])
    kind = ArrayType(ArrayType(StringType()))
    writing = Writing(frame(l=kind, s=StructType([StructField("x", kind)])))
    found = writing.convert(pa.record_batch({"l": lists, "s": structs}))
    assert found.to_pylist() == [{"l": [], "s": {"x": []}}] * 2
    for each in (found["l"], found["s"].field("x")):
        assert [np.frombuffer(below.buffers()[1], np.int32)[0] for below in below_of(each)] == [
            0,
            0,
        ]


def below_of(lists: pa.Array) -> list[pa.Array]:
    """The lists in lists, and the texts in those."""
    return [lists.values, lists.values.values]


def test_a_batch_of_other_columns_than_the_frames_is_refused() -> None:
    writing = Writing(frame(a=LongType(), b=LongType()))
    with pytest.raises(InvalidInputError, match=r"\['b', 'a'\]"):
        writing.convert(pa.record_batch({"b": [1], "a": [2]}))
    with pytest.raises(InvalidInputError, match="'a' came as list"):
        writing.convert(pa.record_batch({"a": [[1]], "b": [2]}))


def test_a_new_table_is_as_its_schema_says() -> None:
    schema = pa.schema(
        [
            pa.field("v", VECTOR),
            pa.field("n", pa.uint8(), False),
            pa.field("extra", pa.string_view()),
        ],
        metadata={"of": "the table"},
    )
    writing = Writing(frame(n=LongType(), v=FLOATS), schema=schema)
    assert writing.schema.names == ["v", "n"]
    assert writing.table.field("extra").type == pa.string()
    assert writing.table.metadata == {b"of": b"the table"}
    found = writing.convert(
        pa.record_batch({"n": [1, 255], "v": pa.array([[1, 2], None], pa.list_(pa.float32()))})
    )
    assert bare_values(found) == [([1, 2], 1), (None, 255)]
    with pytest.raises(InvalidInputError, match="schema= is for a new table"):
        Writing(frame(n=LongType()), schema, schema=schema)
    with pytest.raises(InvalidInputError, match=r"takes a pyarrow\.Schema"):
        Writing(frame(n=LongType()), schema="n int")
    with pytest.raises(UnsupportedError, match="'n'"):
        Writing(frame(n=LongType()), schema=table(n=pa.month_day_nano_interval()))


def test_all_columns_of_a_new_table_may_be_null() -> None:
    given = StructType([StructField("a", ArrayType(LongType(), False), False)])
    (field,) = Writing(given).schema
    assert field.nullable
    assert field.type.value_field.nullable


def test_names_that_a_table_cannot_have_are_refused() -> None:
    for name in ("a.b", "_rowid", "x`y"):
        with pytest.raises(InvalidInputError, match="is not allowed"):
            Writing(StructType([StructField(name, LongType())]))


class Point(UserDefinedType):
    @classmethod
    def sqlType(cls) -> Any:
        return ArrayType(DoubleType())


@pytest.mark.parametrize(
    ("spark", "path", "way_out"),
    [
        (Point(), "c", "vector_to_array"),
        (ArrayType(VariantType()), "c.element", "to_json"),
        (MapType(StringType(), StructType([])), "c.value", "cast it"),
    ],
    ids=["user-defined", "variant", "empty struct"],
)
def test_what_no_table_can_hold_is_refused_with_a_way_out(
    spark: Any, path: str, way_out: str
) -> None:
    with pytest.raises(UnsupportedError, match=way_out) as found:
        Writing(frame(c=spark))
    assert found.value.facts["column"] == path
    with (
        pytest.raises(InvalidInputError, match=rf"'c' is .*{way_out}")
        if path == "c"
        else (pytest.raises(InvalidInputError, match="does not fit the table"))
    ):
        Writing(frame(c=spark), table(c=pa.string()))


def test_metadata_of_columns_is_kept_as_text_in_a_new_table() -> None:
    metadata = {
        "comment": "the key",
        "number": 5,
        "list": [1, {"a": None}],
        "lance-encoding:compression": "zstd",
        "__CHAR_VARCHAR_TYPE_STRING": "char(3)",
        "spark.watermarkDelayMs": 1,
    }
    below = StructField("x", LongType(), True, {"comment": "inside"})
    given = StructType([StructField("c", StructType([below]), True, metadata)])
    (field,) = Writing(given).schema
    assert field.metadata == {
        b"comment": b"the key",
        b"number": b"5",
        b"list": b'[1, {"a": null}]',
        b"lance-encoding:compression": b"zstd",
    }
    assert field.type.field("x").metadata == {b"comment": b"inside"}
    typed = {"ARROW:extension:name": "arrow.json"}
    with pytest.raises(InvalidInputError, match="part of an Arrow type"):
        Writing(StructType([StructField("c", StringType(), True, typed)]))


def test_how_rows_are_written_travels_to_executors() -> None:
    given = frame(v=FLOATS, n=LongType(), s=frame(x=TimestampType()))
    schema = table(
        v=VECTOR,
        n=pa.dictionary(pa.int8(), pa.int16()),
        s=pa.struct([("x", pa.timestamp("ns", "UTC"))]),
    )
    writing = pickle.loads(pickle.dumps(Writing(given, schema)))
    batch = pa.record_batch(
        {
            "v": pa.array([[1, 2]], pa.list_(pa.float32())),
            "n": [7],
            "s": pa.array([{"x": 5}], pa.struct([("x", pa.timestamp("us", "Etc/UTC"))])),
        }
    )
    assert writing.convert(batch).schema.equals(schema)
    assert repr(writing) == "Writing(v, n, s)"
