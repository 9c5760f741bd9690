"""Schemas after columns were dropped, renamed, cast and added: pure plans."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lancewood.engine.schema.evolve import (
    cast_column,
    drop_columns,
    find_column,
    next_field_id,
    rename_column,
)
from lancewood.engine.schema.new_columns import Drop, plan_new_columns
from lancewood.errors import InvalidInputError, UnsupportedError
from lancewood.format.schema import schema_from_arrow, to_arrow_schema
from lancewood.model.fragment import DataFile, Fragment
from lancewood.model.ids import FieldId
from lancewood.model.manifest import FLAG_FIELD_IDS_NOT_REUSED, Manifest
from lancewood.model.schema import Field, Schema
from lancewood.proto import schema_pb2, table_pb2

PRIMARY_KEY = {"lance-schema:unenforced-primary-key": "true"}
ARROW = pa.schema(
    [
        pa.field("k", pa.int64(), nullable=False, metadata=PRIMARY_KEY),
        pa.field("p", pa.struct([("x", pa.int64()), ("q", pa.struct([("y", pa.string())]))])),
        pa.field("l", pa.list_(pa.struct([("a", pa.int64()), ("b", pa.int64())]))),
        pa.field("m", pa.map_(pa.string(), pa.int64())),
        pa.field(
            "packed",
            pa.struct([("u", pa.int32()), ("v", pa.int32())]),
            metadata={"lance-encoding:packed": "true"},
        ),
        pa.field("s", pa.string(), metadata={"unit": "m"}),
    ]
)
SCHEMA = schema_from_arrow(ARROW)
"""Ids: k 0, p 1, x 2, q 3, y 4, l 5, item 6, a 7, b 8, m 9 to 12, packed 13, u 14, v 15, s 16."""


def ids(schema: Schema) -> dict[str, int]:
    found = {}
    for top in schema.fields:
        waiting: list[tuple[tuple[str, ...], Field]] = [((top.name,), top)]
        while waiting:
            path, field = waiting.pop()
            found[".".join(path)] = int(field.id)
            waiting += [((*path, each.name), each) for each in field.children]
    return found


def test_dropping_keeps_the_ids_of_what_is_left() -> None:
    after = drop_columns(SCHEMA, ["p.x", "l.item.b", "s"])
    assert ids(after) == {
        path: number for path, number in ids(SCHEMA).items() if path not in ("p.x", "l.item.b", "s")
    }


def test_a_struct_and_a_list_of_which_nothing_is_left_go_too() -> None:
    after = drop_columns(SCHEMA, ["p.q.y", "l.item.a", "l.item.b"])
    assert [each.name for each in after.fields] == ["k", "p", "m", "packed", "s"]
    assert [each.name for each in after.by_name["p"].children] == ["x"]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ([], "at least one"),
        ("s", "takes a list"),
        (["paked"], "column 'paked' not found.*did you mean 'packed'"),
        (["s", "s"], "asked for twice"),
        (["k"], "part of the table's primary key"),
        (["m.entries.key"], "part of the map 'm'"),
        (["packed.u"], "stored as one column"),
        (["l.item"], "the item of the list 'l'"),
        ([3], "named by text"),
    ],
)
def test_what_cannot_be_dropped_is_told(names: list[str], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        drop_columns(SCHEMA, names)


def test_the_last_column_is_not_dropped() -> None:
    schema = schema_from_arrow(pa.schema([("a", pa.int64()), ("p", pa.struct([("x", pa.int8())]))]))
    with pytest.raises(InvalidInputError, match="would leave no column"):
        drop_columns(schema, ["a", "p.x"])


@pytest.mark.parametrize(("old", "new"), [("s", "t"), ("p.x", "s"), ("l.item.a", "c")])
def test_renaming_changes_a_name_and_nothing_else(old: str, new: str) -> None:
    after = rename_column(SCHEMA, old, new)
    assert [each.id for each in after.walk()] == [each.id for each in SCHEMA.walk()]
    path = ".".join([*old.split(".")[:-1], new])
    assert ids(after)[path] == ids(SCHEMA)[old]
    assert old not in ids(after)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("s", "k", "there is a column of that name already"),
        ("p.x", "q", "there is a column of that name already"),
        ("s", "_rowid", "reserved"),
        ("s", "a.b", "no '.' in it"),
        ("p.x", "p.z", "give 'z' alone"),
        ("s", "", "must be a text"),
        ("s", "\ud800", "cannot be written as UTF-8"),
        ("p.x", "\ud800", "cannot be written as UTF-8"),
        ("nope", "a", "not found"),
        ("l.item", "thing", "the item of the list"),
        ("packed.v", "w", "stored as one column"),
    ],
)
def test_a_name_that_cannot_be_is_refused(old: str, new: str, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        rename_column(SCHEMA, old, new)


def test_a_cast_gives_a_new_id_and_keeps_place_metadata_and_nullability() -> None:
    cast = cast_column(SCHEMA, "s", pa.large_string(), first_id=20, file_version="2.2")
    assert cast is not None
    assert cast.schema.names == SCHEMA.names
    assert ids(cast.written) == {"s": 20}
    assert cast.written.fields[0].metadata == {"unit": b"m"}
    key = cast_column(SCHEMA, "k", pa.int32(), first_id=20, file_version="2.2")
    assert key is not None
    assert not key.schema.by_name["k"].nullable
    assert key.schema.by_name["k"].metadata == SCHEMA.by_name["k"].metadata


def test_a_field_of_structs_is_cast_alone_and_one_in_a_list_with_its_column() -> None:
    alone = cast_column(SCHEMA, "p.q.y", pa.large_string(), first_id=20, file_version="2.2")
    assert alone is not None
    assert ids(alone.read) == {"p": 1, "p.q": 3, "p.q.y": 4}
    assert ids(alone.written) == {"p": 1, "p.q": 3, "p.q.y": 20}
    assert ids(alone.schema)["p.x"] == 2
    listed = cast_column(SCHEMA, "l.item.a", pa.int32(), first_id=20, file_version="2.2")
    assert listed is not None
    assert ids(listed.written) == {"l": 5, "l.item": 6, "l.item.a": 20, "l.item.b": 8}
    plain = schema_from_arrow(pa.schema([ARROW.field("p")]))
    old_files = cast_column(plain, "p.x", pa.int32(), first_id=20, file_version="2.0")
    assert old_files is not None
    assert ids(old_files.written) == {"p": 0, "p.x": 20, "p.q": 2, "p.q.y": 3}


def test_a_cast_to_the_same_type_is_nothing_to_do() -> None:
    assert cast_column(SCHEMA, "s", pa.string(), first_id=20, file_version="2.2") is None
    assert cast_column(SCHEMA, "s", pa.string_view(), first_id=20, file_version="2.2") is None


@pytest.mark.parametrize(
    ("name", "kind", "error", "message"),
    [
        ("s", pa.list_(pa.int64()), InvalidInputError, "cannot be cast to list"),
        ("s", "int64", InvalidInputError, "takes a pyarrow type"),
        ("s", pa.month_day_nano_interval(), UnsupportedError, "interval"),
        ("none", pa.int8(), InvalidInputError, "not found"),
        ("l.item.a", pa.struct([("x", pa.int64())]), InvalidInputError, "cannot be cast"),
    ],
)
def test_a_cast_that_cannot_be_is_refused(
    name: str, kind: pa.DataType, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        cast_column(SCHEMA, name, kind, first_id=20, file_version="2.2")


def test_an_encoding_that_the_files_of_the_table_cannot_have_is_refused() -> None:
    schema = schema_from_arrow(pa.schema([("a", pa.string())]))
    fsst = {"lance-encoding:compression": "fsst"}
    column = pa.schema([pa.field("b", pa.large_string(), metadata=fsst)])
    with pytest.raises(InvalidInputError, match=r"2\.0 files"):
        plan_new_columns(schema, column, first_id=1, file_version="2.0")
    plan = plan_new_columns(schema, column, first_id=1, file_version="2.2")
    assert plan.written.fields[0].metadata == {"lance-encoding:compression": b"fsst"}


def test_new_columns_get_ids_in_order_and_nested_ones_their_place() -> None:
    columns = pa.schema(
        [
            pa.field("n", pa.int8(), metadata={"unit": "kg"}),
            pa.field("p.z", pa.list_(pa.int8())),
            pa.field("p.q.w", pa.int8()),
        ]
    )
    plan = plan_new_columns(SCHEMA, columns, first_id=30, file_version="2.2")
    assert ids(plan.written) == {
        "p": 1,
        "p.q": 3,
        "p.q.w": 33,
        "p.z": 31,
        "p.z.item": 32,
        "n": 30,
    }
    assert plan.schema.names == (*SCHEMA.names, "n")
    assert plan.parents == ("p", "p.q")
    assert plan.is_nullable
    assert to_arrow_schema(plan.schema).field("n").metadata == {b"unit": b"kg"}


def test_nested_values_stay_null_where_their_struct_is() -> None:
    columns = pa.schema([("p.q.w", pa.int8()), ("n", pa.int8())])
    plan = plan_new_columns(SCHEMA, columns, first_id=30, file_version="2.2")
    parents = pa.record_batch(
        {
            "p": pa.array(
                [{"q": {"y": "a"}}, {"q": None}, None],
                pa.struct([("q", pa.struct([("y", pa.string())]))]),
            )
        }
    )
    flat = pa.record_batch(
        {"p.q.w": pa.array([1, 2, 3], pa.int8()), "n": pa.array([4, 5, 6], pa.int8())}
    )
    got = plan.nested(flat, parents)
    assert got.column("p").to_pylist() == [{"q": {"w": 1}}, {"q": None}, None]
    assert got.column("n").to_pylist() == [4, 5, 6]


@pytest.mark.parametrize(
    ("field", "error", "message"),
    [
        (pa.field("s", pa.int8()), InvalidInputError, "exists already"),
        (pa.field("p.x", pa.int8()), InvalidInputError, "exists already"),
        (pa.field("_rowid", pa.int8()), InvalidInputError, "reserved"),
        (pa.field("_rowaddr", pa.int8()), InvalidInputError, "reserved"),
        (pa.field("_row_created_at_version", pa.int8()), InvalidInputError, "reserved"),
        (pa.field("no.x", pa.int8()), InvalidInputError, "there is no struct 'no'"),
        (pa.field("p.", pa.int8()), InvalidInputError, "has no name"),
        (pa.field(".x", pa.int8()), InvalidInputError, "there is no struct ''"),
        (pa.field(".", pa.int8()), InvalidInputError, "there is no struct ''"),
        (pa.field("l.item.c", pa.int8()), UnsupportedError, "no plain struct"),
        (pa.field("packed.w", pa.int8()), UnsupportedError, "no plain struct"),
        (pa.field("s.x", pa.int8()), UnsupportedError, "no plain struct"),
        (pa.field("p.z", pa.int8(), nullable=False), InvalidInputError, "must be nullable"),
        (pa.field("n", pa.month_day_nano_interval()), UnsupportedError, "interval"),
        (pa.field("n", pa.int8(), False, PRIMARY_KEY), InvalidInputError, "primary key"),
        (pa.field("n", pa.int8(), True, {"lance-encoding:x": "1"}), InvalidInputError, "x"),
    ],
)
def test_a_new_column_that_cannot_be_is_refused(
    field: pa.Field, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        plan_new_columns(SCHEMA, pa.schema([field]), first_id=30, file_version="2.2")


def test_new_columns_are_given_once_and_nulls_may_be_null() -> None:
    twice = pa.schema([("n", pa.int8()), ("n", pa.int8())])
    with pytest.raises(InvalidInputError, match="added twice"):
        plan_new_columns(SCHEMA, twice, first_id=30, file_version="2.2")
    with pytest.raises(InvalidInputError, match="no column to add"):
        plan_new_columns(SCHEMA, pa.schema([]), first_id=30, file_version="2.2")
    strict = pa.schema([pa.field("n", pa.int8(), nullable=False)])
    with pytest.raises(InvalidInputError, match="nulls only, but may not be null"):
        plan_new_columns(SCHEMA, strict, first_id=30, file_version="2.2", are_null=True)
    assert not plan_new_columns(SCHEMA, strict, first_id=30, file_version="2.2").is_nullable


def test_values_inside_a_struct_of_version_2_0_files_are_refused_but_nulls_are_not() -> None:
    schema = schema_from_arrow(pa.schema([ARROW.field("p")]))
    column = pa.schema([("p.n", pa.int8())])
    with pytest.raises(UnsupportedError, match=r"2\.0"):
        plan_new_columns(schema, column, first_id=9, file_version="2.0")
    plan = plan_new_columns(schema, column, first_id=9, file_version="2.0", are_null=True)
    assert ids(plan.schema)["p.n"] == 9


def manifest_of(files: list[list[int]], flags: int = 0, mark: int | None = None) -> Manifest:
    message = table_pb2.Manifest(version=1, writer_feature_flags=flags, max_allocated_field_id=mark)
    message.fields.append(schema_pb2.Field(id=3, name="a", parent_id=-1, logical_type="int64"))
    for each in files:
        file = DataFile.make("x.lance", [FieldId(e) for e in each], range(len(each)), (2, 2), 1)
        message.fragments.append(Fragment.make([file], 1).message.SerializeToString())
    return Manifest(message)


def test_a_new_id_is_above_those_of_the_schema_of_dead_columns_and_of_the_mark() -> None:
    assert next_field_id(manifest_of([])) == 4
    assert next_field_id(manifest_of([[3, 1], [], [-2, 7]])) == 8
    flagged = manifest_of([[3]], FLAG_FIELD_IDS_NOT_REUSED, 11)
    assert next_field_id(flagged) == 12


def test_a_column_is_found_by_its_path() -> None:
    assert [each.name for each in find_column(SCHEMA, "l.item.b")] == ["l", "item", "b"]


def test_a_drop_anchors_rows_and_structs_that_nothing_else_holds() -> None:
    after = drop_columns(SCHEMA, ["p.x", "l"])
    drop = Drop(SCHEMA, after)
    assert drop.anchors(frozenset({0, 2, 4, 16})) == frozenset()
    assert drop.anchors(frozenset({0, 2, 16})) == {4}, "p.q.y tells where p is null"
    assert drop.anchors(frozenset({7, 8})) == {0}, "no file is left"
    assert drop.anchors(frozenset({2})) == {4}
    columns = drop.columns(frozenset({FieldId(4)}))
    assert columns.parents == ("p.q",)
    assert ids(columns.written) == {"p": 1, "p.q": 3, "p.q.y": 4}
