"""Names of columns and fields, and parameters."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lancewood.errors import InvalidInputError
from lancewood.expr import parse_expression, parse_predicate

Compute = Callable[..., list[Any]]
SCHEMA = pa.schema({"Price": pa.int64(), "label": pa.string(), "x": pa.int64(), "X": pa.int64()})


def test_names_are_taken_exactly_or_by_their_only_match_in_another_case() -> None:
    assert parse_expression("Price", SCHEMA).columns == ("Price",)
    assert parse_expression("price", SCHEMA).columns == ("Price",)
    assert parse_expression("x", SCHEMA).columns == ("x",)
    assert parse_expression("X", SCHEMA).columns == ("X",)
    with pytest.raises(InvalidInputError, match="no column 'price'"):
        parse_expression('"price"', SCHEMA)


def test_a_name_that_could_be_two_columns_is_refused() -> None:
    schema = pa.schema({"Ab": pa.int64(), "aB": pa.int64()})
    with pytest.raises(InvalidInputError, match="ambiguous: it could be 'Ab', 'aB'"):
        parse_expression("ab", schema)
    twice = pa.schema([("a", pa.int64()), ("a", pa.string())])
    with pytest.raises(InvalidInputError, match="ambiguous"):
        parse_expression("a", twice)


def test_quotes_and_backticks_hold_any_name(compute: Compute) -> None:
    columns = {"weird name": [1], "a.b": [2], 'q"q': [3], "select": [4], "été": [5]}
    assert compute('"weird name" + `a.b` + "q""q" + "select" + été', **columns) == [15]


@pytest.mark.parametrize("name", ["date", "index", "value", "key", "type", "user", "text", "label"])
def test_common_words_are_names_without_quotes(compute: Compute, name: str) -> None:
    assert compute(f"{name} = 1", **{name: [1, 2]}) == [True, False]


def test_fields_of_structs_are_reached_by_dots_and_brackets(compute: Compute) -> None:
    rows = [{"b": {"c": {"d": {"e": 1}}}, "odd name": 5}, None, {"b": None, "odd name": None}]
    assert compute("a.b.c.d.e", a=rows) == [1, None, None]
    assert compute("a['b'].c['d'].e", a=rows) == [1, None, None]
    assert compute("""a."odd name" + a['odd name']""", a=rows) == [10, None, None]
    assert compute("A.B.c.d.E", a=rows) == [1, None, None]


def test_an_unknown_column_is_named_with_the_ones_there_are() -> None:
    with pytest.raises(InvalidInputError) as caught:
        parse_predicate("x > 1 AND lable = 'cat'", SCHEMA)
    message = str(caught.value)
    assert "no column 'lable', did you mean 'label'?" in message
    assert "'Price', 'label', 'x', 'X'" in message
    assert "line 1, column 11" in message
    assert caught.value.facts["name"] == "lable"
    assert caught.value.facts["column"] == 11


def test_an_unknown_field_is_named_with_the_ones_there_are() -> None:
    schema = pa.schema({"o": pa.struct([("width", pa.int64())]), "i": pa.int64()})
    with pytest.raises(InvalidInputError, match="no field 'widht', did you mean 'width'"):
        parse_expression("o.widht", schema)
    with pytest.raises(InvalidInputError, match="not a struct"):
        parse_expression("i.width", schema)
    with pytest.raises(InvalidInputError, match="It has no columns"):
        parse_expression("a", pa.schema([]))


def test_an_unknown_function_is_named_with_a_near_one() -> None:
    with pytest.raises(InvalidInputError, match=r"no function uper\(\), did you mean upper"):
        parse_expression("uper(label)", SCHEMA)


def test_parameters_fill_in_by_name_and_by_position(compute: Compute) -> None:
    a = [1, 2]
    assert compute("a = :n", {"n": 2, "unused": 0}, a=a) == [False, True]
    assert compute("a = $n", {"n": 2}, a=a) == [False, True]
    assert compute("a = ? OR a = ?", [1, 7], a=a) == [True, False]
    assert compute("a = $2 OR a = $1", [7, 1], a=a) == [True, False]
    assert compute("POSITION(? IN s) = ?", ["b", 2], s=["abc"]) == [True]
    assert compute("CASE a WHEN ? THEN ? ELSE ? END", [1, "x", "y"], a=a) == ["x", "y"]


@pytest.mark.parametrize(
    ("column", "value"),
    [
        (pa.array([1], pa.int8()), 1),
        (pa.array([1], pa.int8()), np.int64(1)),
        (pa.array([1], pa.int8()), pa.scalar(1, pa.uint64())),
        (pa.array([1.5], pa.float32()), 1.5),
        (pa.array([0.1], pa.float32()), np.float32(0.1)),
        (pa.array([Decimal("1.50")]), Decimal("1.5")),
        (pa.array([Decimal("1.50")]), 1.5),
        (pa.array(["x"]), "x"),
        (pa.array(["x"]), np.str_("x")),
        (pa.array(["x"]), pa.array(["x"]).dictionary_encode()[0]),
        (pa.array([b"x"]), b"x"),
        (pa.array([True]), True),
        (pa.array([date(2024, 1, 1)]), date(2024, 1, 1)),
        (pa.array([date(2024, 1, 1)]), "2024-01-01"),
        (pa.array([datetime(2024, 1, 1)]), datetime(2024, 1, 1)),
        (
            pa.array([datetime(2024, 1, 1)], pa.timestamp("ms", "Asia/Tokyo")),
            datetime(2024, 1, 1, 2, tzinfo=timezone(timedelta(hours=2))),
        ),
        (pa.array([timedelta(1)]), timedelta(1)),
    ],
)
def test_parameters_of_every_type_equal_what_they_are(
    compute: Compute, column: pa.Array, value: Any
) -> None:
    assert compute("c = ?", [value], c=column) == [True]
    assert compute("c IN (?)", [[value, None]], c=column) == [True]


@pytest.mark.parametrize(
    "values",
    [[1, 3], (1, 3), {1, 3}, range(1, 4, 2), np.array([1, 3]), pa.array([1, 3]), [1, 3.0, 2**70]],
)
def test_a_list_parameter_fills_an_in_list(compute: Compute, values: Any) -> None:
    for sql in ("a IN (:values)", "a IN :values"):
        assert compute(sql, {"values": values}, a=[1, 2, 3, None]) == [True, False, True, None]
    assert compute("a IN (2, ?)", [values], a=[1, 2, 3]) == [True, True, True]


def test_an_empty_list_parameter_matches_nothing(compute: Compute) -> None:
    assert compute("a IN (?)", [[]], a=[1, None]) == [False, None]
    assert compute("a NOT IN (?)", [[]], a=[1, None]) == [True, None]


def test_a_list_of_a_hundred_thousand_values_is_no_trouble() -> None:
    schema = pa.schema({"a": pa.int64(), "s": pa.string()})
    values = list(range(100_000))
    predicate = parse_predicate("a IN (:v)", schema, {"v": values})
    batch = pa.record_batch({"a": [5, 100_000], "s": ["7", "x"]})
    assert predicate.mask(batch).to_pylist() == [True, False]
    texts = parse_predicate("s IN (:v)", schema, {"v": [str(each) for each in values]})
    assert texts.mask(batch).to_pylist() == [True, False]


@pytest.mark.parametrize(
    ("sql", "parameters", "words"),
    [
        ("x = :n", None, "no parameter 'n'"),
        ("x = :n", {"m": 1}, "given are 'm'"),
        ("x = :n", [1], "none is given by name"),
        ("x = ?", None, "parameter 1 has no value"),
        ("x = ?", {"n": 1}, "give a list of values"),
        ("x = ?", [], "0 are given"),
        ("x = ?", [1, 2], "2 are given"),
        ("x = $3", [1, 2], "parameter 3 has no value"),
        ("x = ?", "1", "parameters are a mapping or a list"),
        ("x = ?", [object()], "type object"),
        ("x = ?", [[1]], "type list"),
        ("x = ?", ["1"], "cannot compare"),
        ("TRIM(? FROM ?) = ''", ["a", "b"], "name the parameter"),
    ],
)
def test_wrong_parameters_are_refused(sql: str, parameters: Any, words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        parse_predicate(sql, SCHEMA, parameters)
