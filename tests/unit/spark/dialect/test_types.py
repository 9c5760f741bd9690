"""Types of columns in statements, as the Arrow types of a new table."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

import lancewood as lw
from lancewood.errors import InvalidInputError, UnsupportedError
from lancewood.query.statements.model import CreateTable
from lancewood.query.statements.verbs import arrow_schema
from lancewood.spark.dialect.script import parse_script
from lancewood.spark.dialect.settings import Settings
from lancewood.spark.dialect.types import arrow_type

TYPES = {
    "BOOLEAN": pa.bool_(),
    "byte": pa.int8(),
    "TINYINT": pa.int8(),
    "SHORT": pa.int16(),
    "SMALLINT": pa.int16(),
    "INT": pa.int32(),
    "INTEGER": pa.int32(),
    "BIGINT": pa.int64(),
    "LONG": pa.int64(),
    "REAL": pa.float32(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "DECIMAL": pa.decimal128(10, 0),
    "DEC(5)": pa.decimal128(5, 0),
    "NUMERIC(38, 38)": pa.decimal128(38, 38),
    "STRING": pa.string(),
    "VARCHAR(3)": pa.string(),
    "CHAR(3)": pa.string(),
    "BINARY": pa.binary(),
    "DATE": pa.date32(),
    "TIMESTAMP": pa.timestamp("us", "UTC"),
    "TIMESTAMP_LTZ": pa.timestamp("us", "UTC"),
    "TIMESTAMP_NTZ": pa.timestamp("us"),
    "INTERVAL DAY TO SECOND": pa.duration("us"),
    "INTERVAL HOUR": pa.duration("us"),
    "TIME": pa.time64("us"),
    "TIME(3)": pa.time32("ms"),
    "ARRAY<FLOAT>": pa.list_(pa.field("item", pa.float32())),
    "ARRAY<ARRAY<INT>>": pa.list_(pa.field("item", pa.list_(pa.field("item", pa.int32())))),
    "MAP<STRING, ARRAY<INT>>": pa.map_(pa.string(), pa.list_(pa.field("item", pa.int32()))),
    "STRUCT<a: INT, b: STRUCT<c: STRING NOT NULL>>": pa.struct(
        [("a", pa.int32()), ("b", pa.struct([pa.field("c", pa.string(), nullable=False)]))]
    ),
    "STRUCT<a INT>": pa.struct([("a", pa.int32())]),
    "FLOAT[768]": pa.list_(pa.field("item", pa.float32()), 768),
}


@pytest.mark.parametrize("sql", TYPES)
def test_a_type_of_spark_is_one_of_arrow(sql: str) -> None:
    assert arrow_type(sql, Settings()).equals(TYPES[sql], check_metadata=True)


def test_a_timestamp_is_what_the_session_says() -> None:
    assert arrow_type("TIMESTAMP", Settings(timestamps_have_zones=False)) == pa.timestamp("us")


@pytest.mark.parametrize("sql", ["VARIANT", "INTERVAL YEAR", "INTERVAL", "ARRAY", "GEOMETRY(4326)"])
def test_what_no_table_can_hold_is_refused(sql: str) -> None:
    with pytest.raises(UnsupportedError, match="tables cannot hold"):
        arrow_type(sql, Settings())


@pytest.mark.parametrize("sql", ["FOO", "DECIMAL(39, 2)", "DECIMAL(3, 4)", "FLOAT[0]", "INT, INT"])
def test_what_is_no_type_is_refused(sql: str) -> None:
    with pytest.raises(InvalidInputError):
        arrow_type(sql, Settings())


def test_columns_are_a_schema_with_comments_and_a_key(tmp_path: Path) -> None:
    text = """CREATE TABLE photos (
        id BIGINT COMMENT 'of the camera', day DATE NOT NULL,
        at STRUCT<x: INT COMMENT 'east', y: INT>, PRIMARY KEY (day, id)
    )"""
    (create,) = parse_script(text, Settings())
    assert isinstance(create, CreateTable)
    of_spark = partial(arrow_type, settings=Settings())
    schema = arrow_schema(create.columns, of_spark, create.primary_key)
    assert schema.names == ["id", "day", "at"]
    assert [each.nullable for each in schema] == [False, False, True]
    assert schema.field("id").metadata[b"comment"] == b"of the camera"
    assert schema.field("at").type.field("x").metadata == {b"comment": b"east"}
    table = lw.create(tmp_path / "photos.lance", schema, access=lw.Access(fsync=False))
    assert (
        table.schema.field("day").metadata[b"lance-schema:unenforced-primary-key:position"] == b"1"
    )
