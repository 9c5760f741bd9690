from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from lancewood.data.writer import ValueCheck
from lancewood.errors import InvalidInputError
from lancewood.format.schema import schema_from_arrow

PAIR = pa.struct([("x", pa.int32()), ("y", pa.int32())])
PACKED = {"lance-encoding:packed": "true"}
FRAGILE = pa.struct([("a", pa.list_(pa.list_(pa.int32())))])


def check(kind: pa.DataType, values: list[Any], version: str, **metadata: str) -> None:
    named = {f"lance-encoding:{key}": value for key, value in metadata.items()}
    schema = pa.schema([("n", pa.int32()), pa.field("c", kind, metadata=named)])
    batch = pa.record_batch([range(len(values)), pa.array(values, kind)], schema=schema)
    ValueCheck(schema_from_arrow(schema), version)(batch)


@pytest.mark.parametrize(
    ("kind", "values", "path"),
    [
        (PAIR, [{"x": 1, "y": 2}, None], "'c'"),
        (pa.list_(PAIR), [[None]], r"'c\.item'"),
        (pa.struct([("s", PAIR)]), [{"s": None}], r"'c\.s'"),
    ],
)
def test_null_structs_do_not_fit_2_0_files(kind: pa.DataType, values: list[Any], path: str) -> None:
    with pytest.raises(InvalidInputError, match=rf"{path} has 1 null structs.*version 2\.0"):
        check(kind, values, "2.0")
    check(kind, values, "2.1")


def test_structs_under_null_lists_do_not_count() -> None:
    check(pa.list_(PAIR), [None, [], [{"x": 1, "y": None}]], "2.0")


@pytest.mark.parametrize("version", ["2.1", "2.2"])
@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.list_(FRAGILE), [[None]]),
        (pa.large_list(pa.struct([("f", FRAGILE)])), [[{"f": None}]]),
        (pa.list_(pa.struct([("a", pa.map_(pa.string(), pa.list_(pa.int32())))])), [[None]]),
        (pa.map_(pa.string(), FRAGILE), [[("k", None)]]),
    ],
    ids=str,
)
def test_null_structs_between_lists_that_could_not_be_read_again_are_refused(
    kind: pa.DataType, values: list[Any], version: str
) -> None:
    with pytest.raises(InvalidInputError, match="1 null structs inside a list"):
        check(kind, values, version)


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (FRAGILE, [None]),
        (pa.list_(FRAGILE), [None, [], [{"a": None}]]),
        (pa.list_(pa.struct([("a", pa.list_(pa.int32()))])), [[None]]),
        (pa.list_(pa.list_(pa.list_(pa.int32()))), [[None]]),
    ],
    ids=str,
)
def test_what_can_be_read_again_passes(kind: pa.DataType, values: list[Any]) -> None:
    check(kind, values, "2.2")


def test_null_children_do_not_fit_packed_structs() -> None:
    with pytest.raises(InvalidInputError, match=r"1 values of its child 'y' are null"):
        check(PAIR, [{"x": 1, "y": 2}, None, {"x": 1, "y": None}], "2.2", packed="true")
    check(PAIR, [{"x": 1, "y": 2}, None], "2.2", packed="true")


def test_only_the_rows_of_a_slice_are_looked_at() -> None:
    schema = pa.schema([("c", PAIR)])
    array = pa.array([None, {"x": 1, "y": 2}], PAIR).slice(1)
    ValueCheck(schema_from_arrow(schema), "2.0")(pa.record_batch([array], schema=schema))
