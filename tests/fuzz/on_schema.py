"""Target: the field list of a manifest, from messages to Arrow types and back."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from google.protobuf.message import DecodeError
from tests.fuzz.bend import EDGES, bend, varint
from tests.fuzz.message import bend_message
from tests.fuzz.target import Context, Target, Trial, expect

from lancewood.format.schema import (
    decode_file_schema,
    decode_schema,
    encode_schema,
    schema_from_arrow,
    to_arrow_schema,
)
from lancewood.proto import schema_pb2

_LEAVES = (
    "null",
    "int32",
    "double",
    "string",
    "json",
    "halffloat",
    "date32:day",
    "time64:us",
    "duration:ns",
    "timestamp:us:-",
    "timestamp:ns:Europe/Berlin",
    "timestamp:us:Nowhere/Land",
    "timestamp:us:",
    "decimal:128:38:10",
    "decimal:128:99:-5",
    "decimal:256:76:0",
    "decimal:512:1:0",
    "fixed_size_binary:0",
    "fixed_size_binary:2147483647",
    "fixed_size_binary:-1",
    "fixed_size_list:float:2147483647",
    "fixed_size_list:float:9999999999",
    "fixed_size_list:lance.bfloat16:4",
    "fixed_size_list:fixed_size_list:int8:2:3",
    "fixed_size_list:" * 40 + "int8" + ":2" * 40,
    "fixed_size_list:" * 20_000 + "int8" + ":2" * 20_000,
    "dict:string:int32:false",
    "dict:dict:string:int8:false:int8:true",
    "dict:" * 20_000,
    "dict:struct:int32:false",
    "uint65",
    "",
    ":",
)
_PARENTS = (
    "struct",
    "list",
    "list.struct",
    "large_list",
    "large_list.struct",
    "map",
    "fixed_size_list:struct:3",
    "fixed_size_list:struct:4294967295",
)
_KEYS = (
    "ARROW:extension:name",
    "ARROW:extension:metadata",
    "lance-encoding:blob",
    "packed",
    "x",
    "",
)
_TEXTS = ("", "lance.json", "arrow.json", "arrow.uuid", "lance.bfloat16", "true", "geo", "\0")


def targets(context: Context) -> Iterator[Target]:
    known = [
        schema_pb2.FileDescriptor.FileSchema(fields=each.fields).SerializeToString()
        for each in context.corpus.decoded
    ]
    yield Target("schema", lambda rng: _bent_schema(rng, known), check_schema)


def _bent_schema(rng: Random, known: list[bytes]) -> bytes:
    """The bytes of a schema message."""
    if rng.random() < 0.4:
        return bend_message(rng, rng.choice(known), known)
    if rng.random() < 0.1:
        return _deep(rng)
    message = schema_pb2.FileDescriptor.FileSchema()
    for number in range(rng.choice((0, 1, 2, 4, 8))):
        field = message.fields.add(
            name=rng.choice((f"c{number}", f"c{number}", "", "a.b", "_rowid", "c0", "\u00fc")),
            id=number if rng.random() < 0.9 else rng.choice((-1, 0, (1 << 31) - 1, -(1 << 31))),
            parent_id=rng.choice((-1, -1, number - 1, number - 1, number, 0, number + 1)),
            nullable=rng.random() < 0.7,
            logical_type=rng.choice(_PARENTS if rng.random() < 0.4 else _LEAVES),
        )
        if rng.random() < 0.2:
            field.logical_type = bend(rng, field.logical_type.encode()).decode(errors="replace")
        for _ in range(rng.choice((0, 0, 0, 1, 2))):
            field.metadata[rng.choice(_KEYS)] = rng.choice(
                (rng.choice(_TEXTS).encode(), b"\xff\xfe", str(rng.choice(EDGES)).encode())
            )
    return message.SerializeToString()


def _deep(rng: Random) -> bytes:
    message = schema_pb2.FileDescriptor.FileSchema()
    depth = rng.choice((20, 127, 128, 129, 3_000))
    kind = rng.choice(("struct", "list", "large_list"))
    for number in range(depth):
        message.fields.add(name="c", id=number, parent_id=number - 1, logical_type=kind)
    message.fields.add(name="c", id=depth, parent_id=depth - 1, logical_type="int8")
    return message.SerializeToString()


def check_schema(data: bytes, trial: Trial) -> None:
    trial(lambda: decode_file_schema(b"\x0a" + varint(len(data)) + data))
    try:
        message = schema_pb2.FileDescriptor.FileSchema.FromString(data)
    except DecodeError:
        return
    schema = decode_schema(message.fields, {})
    expect(len(list(schema.walk())) == len(message.fields), "fields are lost")
    again = decode_schema(encode_schema(schema), {})
    expect(again == schema, "a rewritten schema is another one")
    arrow = trial(lambda: to_arrow_schema(schema))
    if arrow is None:
        return
    expect(arrow.names == list(schema.names), "columns have other names")
    made = trial(lambda: schema_from_arrow(arrow))
    if made is not None:
        back = trial(lambda: to_arrow_schema(made))
        if back is not None:
            expect(back.equals(arrow), f"{arrow} became {back}")
    _ = str(arrow)
