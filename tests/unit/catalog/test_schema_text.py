"""Schemas as texts: the same whatever Arrow extensions are loaded."""

from __future__ import annotations

import pyarrow as pa

import lancewood as lw
from lancewood.catalog.opening import column_types
from lancewood.engine.location.location import Location
from lancewood.engine.snapshot.snapshot import load_snapshot
from lancewood.store.locate import open_store


def texts(schema: pa.Schema, name: str) -> list[str]:
    uri = f"memory://schema-text/{name}"
    lw.create(uri, schema)
    snapshot = load_snapshot(Location(open_store(uri)))
    return [f"{column}: {kind}" for column, kind in column_types(snapshot.schema)]


def test_columns_read_as_a_person_would_write_them() -> None:
    schema = pa.schema(
        [
            pa.field("id", pa.int64(), nullable=False),
            pa.field("name", pa.string()),
            pa.field("at", pa.timestamp("us", "UTC")),
            pa.field("vector", pa.list_(pa.float32(), 4)),
            pa.field("tags", pa.list_(pa.string())),
            pa.field(
                "box",
                pa.struct([pa.field("x", pa.float64(), nullable=False), ("s", pa.large_string())]),
            ),
            pa.field("boxes", pa.list_(pa.struct([("x", pa.int8())]))),
        ]
    )
    assert texts(schema, "plain") == [
        "id: int64 not null",
        "name: string",
        "at: timestamp:us:UTC",
        "vector: fixed_size_list:float:4",
        "tags: list<string>",
        "box: struct<x: double not null, s: large_string>",
        "boxes: list<struct<x: int8>>",
    ]


def test_an_extension_is_named_with_what_it_is_stored_as() -> None:
    field = pa.field("half", pa.binary(2), metadata={"ARROW:extension:name": "lance.bfloat16"})
    assert texts(pa.schema([field]), "extension") == ["half: lance.bfloat16<fixed_size_binary:2>"]
