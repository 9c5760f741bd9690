"""Expression and Predicate: what they need, what they evaluate on, how they travel."""

from __future__ import annotations

import pickle
import subprocess
import sys
from datetime import date
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lancewood.errors import InvalidInputError
from lancewood.expr import Bound, Expression, Predicate, parse_expression, parse_predicate

INNER = pa.struct([("q", pa.bool_()), ("r", pa.int64())])
SCHEMA = pa.schema(
    {
        "a": pa.int8(),
        "s": pa.string(),
        "o": pa.struct([("x", pa.int32()), ("p", INNER)]),
        "b": pa.bool_(),
        "d": pa.date32(),
        "k": pa.dictionary(pa.int8(), pa.string()),
    }
)


def test_importing_the_room_does_not_load_sqlglot() -> None:
    code = "import lancewood.expr, sys; print('sqlglot' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_the_columns_needed_come_in_the_schemas_order() -> None:
    expression = parse_expression("CASE WHEN b THEN o.p.r ELSE o.x + a END", SCHEMA)
    assert expression.columns == ("a", "o", "b")
    assert expression.paths == (("a",), ("o", "p", "r"), ("o", "x"), ("b",))
    assert expression.type == pa.int64()
    assert parse_expression("1 + 1", SCHEMA).columns == ()


def test_a_field_of_something_that_is_read_whole_is_not_listed() -> None:
    assert parse_predicate("o IS NULL OR o.p.q", SCHEMA).paths == (("o",),)
    assert parse_predicate("o.p.q OR o.p IS NULL", SCHEMA).paths == (("o", "p"),)


def _batch() -> pa.RecordBatch:
    rows = [
        {"a": 1, "s": "x", "o": {"x": 5, "p": {"q": True, "r": 7}}, "b": True},
        {"a": None, "s": None, "o": None, "b": None},
        {"a": 3, "s": "z", "o": {"x": None, "p": None}, "b": False},
    ]
    table = pa.Table.from_pylist(rows, schema=pa.schema(list(SCHEMA)[:5]))
    keys = pa.array(["u", None, "v"]).dictionary_encode().cast(SCHEMA.field("k").type)
    (batch,) = table.append_column("k", keys).to_batches()
    return batch


def test_a_batch_gives_an_array_and_a_table_a_chunked_array() -> None:
    expression = parse_expression("a + 1", SCHEMA)
    batch = _batch()
    assert expression.evaluate(batch).equals(pa.array([2, None, 4]))
    table = pa.Table.from_batches([batch, batch.slice(0, 0), batch.slice(2)])
    found = expression.evaluate(table)
    assert isinstance(found, pa.ChunkedArray)
    assert found.to_pylist() == [2, None, 4, 4]


@pytest.mark.parametrize(
    "sql",
    ["a + 1", "s || 'y'", "o.p.r", "k = 'u'", "CASE WHEN b THEN s ELSE k END", "5", "NULL", "k"],
)
def test_slices_no_rows_and_more_columns_are_fine(sql: str) -> None:
    batch = _batch()
    expression = parse_expression(sql, SCHEMA)
    whole = expression.evaluate(batch).to_pylist()
    for start in range(4):
        for length in range(4 - start):
            part = expression.evaluate(batch.slice(start, length))
            assert part.type == expression.type
            assert part.to_pylist() == whole[start : start + length]
    narrow = batch.select(list(expression.columns))
    assert expression.evaluate(narrow).to_pylist() == whole
    wide = batch.add_column(0, "more", pa.array([1, 2, 3]))
    assert expression.evaluate(wide).to_pylist() == whole


def test_tables_without_rows_or_columns_are_fine() -> None:
    expression = parse_expression("a + 1", SCHEMA)
    assert expression.evaluate(SCHEMA.empty_table()).to_pylist() == []
    assert expression.evaluate(pa.Table.from_batches([], schema=SCHEMA)).type == pa.int64()
    constant = parse_expression("1", SCHEMA)
    assert constant.evaluate(pa.table({"z": [1, 2]}).select([])).to_pylist() == [1, 1]


def test_a_struct_may_hold_only_the_fields_that_are_needed() -> None:
    expression = parse_expression("o.p.r + 1", SCHEMA)
    batch = pa.record_batch({"o": [{"p": {"r": 7}}, None]})
    assert expression.evaluate(batch).to_pylist() == [8, None]
    with pytest.raises(InvalidInputError, match=r"no field 'o\.p\.r'"):
        expression.evaluate(pa.record_batch({"o": [{"x": 7}]}))


def test_a_batch_of_another_shape_is_refused() -> None:
    expression = parse_expression("a + 1", SCHEMA)
    with pytest.raises(InvalidInputError, match="the batch has no column 'a'"):
        expression.evaluate(pa.record_batch({"z": [1]}))
    with pytest.raises(InvalidInputError, match=r"is int64, .* checked against int8"):
        expression.evaluate(pa.record_batch({"a": [1]}))
    twice = pa.RecordBatch.from_arrays([pa.array([1], pa.int8())] * 2, names=["a", "a"])
    with pytest.raises(InvalidInputError, match="2 columns 'a'"):
        expression.evaluate(twice)


def test_a_plain_column_keeps_its_stored_type() -> None:
    expression = parse_expression("k", SCHEMA)
    assert expression.type == SCHEMA.field("k").type
    assert expression.evaluate(_batch()).to_pylist() == ["u", None, "v"]


def test_a_mask_has_no_nulls() -> None:
    predicate = parse_predicate("a > 1", SCHEMA)
    mask = predicate.mask(_batch())
    assert isinstance(mask, pa.BooleanArray)
    assert mask.null_count == 0
    assert mask.to_pylist() == [False, False, True]
    table = pa.Table.from_batches([_batch(), _batch()])
    assert predicate.mask(table).to_pylist() == [False, False, True] * 2
    assert predicate.mask(SCHEMA.empty_table()).to_pylist() == []
    assert parse_predicate("true", SCHEMA).mask(_batch()).to_pylist() == [True] * 3


def test_the_pyarrow_expression_filters_the_same_rows() -> None:
    tags = pa.array([["t"], None, []])
    table = pa.table({"a": pa.array([1, None, 3], pa.int8()), "s": ["x", None, "y"], "tags": tags})
    predicate = parse_predicate("a > 1 OR (s = 'x' AND list_contains(tags, 't'))", table.schema)
    assert isinstance(predicate.to_pyarrow(), pc.Expression)
    kept = table.filter(predicate.to_pyarrow())
    assert kept.equals(table.filter(predicate.mask(table)))
    assert kept.num_rows == 2


@pytest.mark.parametrize("parameters", [{"n": 1, "v": [1, 2]}, None])
def test_expressions_travel_by_pickle(parameters: Any) -> None:
    sql = "a IN (:v) AND o.x > :n" if parameters else "a = 1 AND k LIKE 'u%'"
    predicate = parse_predicate(sql, SCHEMA, parameters)
    again = pickle.loads(pickle.dumps(predicate))
    assert isinstance(again, Predicate)
    assert again.sql == sql
    assert again.columns == predicate.columns
    assert again.mask(_batch()).equals(predicate.mask(_batch()))
    expression = pickle.loads(pickle.dumps(parse_expression("a + 1", SCHEMA)))
    assert type(expression) is Expression
    assert expression.evaluate(_batch()).to_pylist() == [2, None, 4]


def test_changing_the_parameters_later_changes_nothing() -> None:
    parameters = {"n": 1}
    predicate = parse_predicate("a = :n", SCHEMA, parameters)
    parameters["n"] = 3
    assert pickle.loads(pickle.dumps(predicate)).mask(_batch()).to_pylist() == [True, False, False]


def test_an_expression_cannot_be_changed() -> None:
    expression = parse_expression("a + 1", SCHEMA)
    with pytest.raises(AttributeError):
        expression.sql = "a"  # type: ignore[misc]
    assert repr(expression) == "Expression(sql='a + 1')"


def _int8(value: int) -> pa.Scalar:
    return pa.scalar(value, pa.int8())


YES, NO = pa.scalar(True), pa.scalar(False)
B_IN = (("b",), "in", (YES, NO))
A_IS_1 = [(("a",), "=", _int8(1))]


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("a = 1", A_IS_1),
        ("1 < a", [(("a",), ">", _int8(1))]),
        ("a <> 1", [(("a",), "<>", _int8(1))]),
        ("a BETWEEN 1 AND 5", [(("a",), ">=", _int8(1)), (("a",), "<=", _int8(5))]),
        ("a < 5.5", [(("a",), "<=", _int8(5))]),
        ("a < 1000", [(("a",), "is not null", None)]),
        ("a > 1000", [(("a",), "in", ())]),
        ("a IN (1, 2, 1000)", [(("a",), "in", (_int8(1), _int8(2)))]),
        ("a IS NULL", [(("a",), "is null", None)]),
        ("a IS NOT NULL", [(("a",), "is not null", None)]),
        ("b AND NOT o.p.q", [(("b",), "=", YES), (("o", "p", "q"), "=", NO)]),
        ("b IS FALSE", [(("b",), "=", NO)]),
        ("k = 'u'", [(("k",), "=", pa.scalar("u"))]),
        ("d >= '2024-01-01'", [(("d",), ">=", pa.scalar(date(2024, 1, 1)))]),
        ("a = 1 AND (k < 'x' AND b)", [*A_IS_1, (("k",), "<", pa.scalar("x")), (("b",), "=", YES)]),
        ("a = 1 AND upper(s) = 'X' AND a = o.x", A_IS_1),
        ("a = 1 OR b", []),
        ("NOT (a = 1 AND b)", []),
        ("a NOT IN (1, 2)", []),
        ("a IN (1, NULL)", [(("a",), "in", (_int8(1),))]),
        ("a = 1 OR a = 2 OR a IN (2, 3)", [(("a",), "in", tuple(map(_int8, (1, 2, 2, 3))))]),
        ("a = 1 OR a > 1000", [(("a",), "in", (_int8(1),))]),
        ("(a = 1 AND b) OR (k = 'u' AND a = 2)", [(("a",), "in", (_int8(1), _int8(2)))]),
        ("(a = 1 OR a = 2) AND (b OR NOT b)", [(("a",), "in", (_int8(1), _int8(2))), B_IN]),
        ("a = 1 OR a = 2 OR a < 0", []),
        ("a = 1 OR a IS NULL", []),
        ("a = 1 OR o.x = 1", []),
        ("NOT (a = 1 OR a = 2)", []),
        ("k LIKE 'ab%c_'", [(("k",), ">=", pa.scalar("ab")), (("k",), "<", pa.scalar("ac"))]),
        ("k LIKE 'ab'", [(("k",), ">=", pa.scalar("ab")), (("k",), "<", pa.scalar("ac"))]),
        (
            "k LIKE 'a!%%' ESCAPE '!'",
            [(("k",), ">=", pa.scalar("a%")), (("k",), "<", pa.scalar("a&"))],
        ),
        ("k LIKE 'a\ud7ff%'", [(("k",), ">=", pa.scalar("a\ud7ff"))]),
        ("k LIKE 'a\U0010ffff%'", [(("k",), ">=", pa.scalar("a\U0010ffff"))]),
        ("k LIKE '%a' AND k NOT LIKE 'b%'", []),
        ("k ILIKE 'ab%'", []),
        ("upper(k) LIKE 'ab%'", []),
        ("k LIKE ''", []),
        ("TRUE", []),
    ],
)
def test_bounds_are_the_simple_conditions_that_and_joins(
    sql: str, expected: list[tuple[Any, ...]]
) -> None:
    assert parse_predicate(sql, SCHEMA).bounds() == tuple(Bound(*each) for each in expected)


OR = "a = 3 OR (o.x = 5 AND a IN (1, 2))"


def test_every_kept_row_meets_every_bound() -> None:
    batch = _batch()
    for sql in ("a < 2.5 AND s <> 'q'", "a IN (3, 9) AND NOT b", "a > -500 AND o.x = 5", OR):
        predicate = parse_predicate(sql, SCHEMA)
        mask = predicate.mask(batch).to_pylist()
        assert any(mask)
        for path, op, value in predicate.bounds():
            name = ".".join(path)
            text = {"in": f"{name} IN (:v)"}.get(op, f"{name} {op}")
            text += " :v" if op in ("=", "<>", "<", "<=", ">", ">=") else ""
            given = [each.as_py() for each in value] if isinstance(value, tuple) else value
            met = parse_predicate(text, SCHEMA, {"v": given}).mask(batch).to_pylist()
            assert all(bound or not kept for kept, bound in zip(mask, met, strict=True))
