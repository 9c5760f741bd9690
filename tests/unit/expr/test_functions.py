"""The functions of text, numbers, dates, lists, and of several values."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from tests.bounded import bounded

from lancewood.errors import InvalidInputError
from lancewood.expr import parse_expression
from lancewood.expr.functions import FUNCTIONS

Compute = Callable[..., list[Any]]


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("upper(s)", ["HÉLLO", "", None]),
        ("lower('ABC')", ["abc"] * 3),
        ("length(s)", [5, 0, None]),
        ("char_length(s)", [5, 0, None]),
        ("len(s)", [5, 0, None]),
        ("octet_length(s)", [6, 0, None]),
        ("reverse(s)", ["olléh", "", None]),
        ("trim('  a ')", ["a"] * 3),
        ("trim(s, 'ho')", ["éll", "", None]),
        ("ltrim(s, 'h')", ["éllo", "", None]),
        ("rtrim(s, 'o')", ["héll", "", None]),
        ("TRIM(LEADING 'h' FROM s)", ["éllo", "", None]),
        ("TRIM(TRAILING 'o' FROM s)", ["héll", "", None]),
        ("TRIM(BOTH 'ho' FROM s)", ["éll", "", None]),
        ("substr(s, 2)", ["éllo", "", None]),
        ("substr(s, 2, 3)", ["éll", "", None]),
        ("substring(s FROM 2 FOR 3)", ["éll", "", None]),
        ("substr(s, 0, 3)", ["hé", "", None]),
        ("substr(s, -3, 2)", ["ll", "", None]),
        ("substr(s, -10, 8)", ["hél", "", None]),
        ("left(s, 2)", ["hé", "", None]),
        ("left(s, -2)", ["hél", "", None]),
        ("right(s, 2)", ["lo", "", None]),
        ("right(s, -2)", ["llo", "", None]),
        ("right(s, 0)", ["", "", None]),
        ("replace(s, 'l', 'LL')", ["héLLLLo", "", None]),
        ("replace(s, '', 'x')", ["héllo", "", None]),
        ("starts_with(s, 'hé')", [True, False, None]),
        ("ends_with(s, 'lo')", [True, False, None]),
        ("contains(s, 'él')", [True, False, None]),
        ("strpos(s, 'l')", [3, 0, None]),
        ("position('l' IN s)", [3, 0, None]),
        ("strpos(s, '')", [1, 1, None]),
        ("regexp_matches(s, 'l+o$')", [True, False, None]),
        ("regexp_like(s, '^h')", [True, False, None]),
        ("lpad(s, 7, '*')", ["**héllo", "*******", None]),
        ("lpad(s, 3)", ["hél", "   ", None]),
        ("rpad(s, 7, '*')", ["héllo**", "*******", None]),
        ("repeat(s, 2)", ["héllohéllo", "", None]),
        ("repeat(s, -1)", ["", "", None]),
        ("s || '!'", ["héllo!", "!", None]),
        ("concat(s, '!', NULL)", ["héllo!", "!", "!"]),
        ("upper(NULL)", [None] * 3),
        ("replace(s, NULL, 'x')", [None] * 3),
    ],
)
def test_functions_of_text(compute: Compute, sql: str, expected: list[Any]) -> None:
    assert compute(sql, s=["héllo", "", None]) == expected
    large = pa.array(["héllo", "", None], pa.large_string())
    assert compute(sql, s=large) == expected


def test_concat_of_nothing_but_nulls_keeps_every_row(compute: Compute) -> None:
    assert compute("concat(s, s)", s=pa.nulls(3, pa.string())) == ["", "", ""]
    assert compute("concat(NULL, NULL)") == [""]


def test_bytes_have_a_length_and_join(compute: Compute) -> None:
    assert compute("octet_length(b)", b=[b"\x00\xff", None]) == [2, None]
    assert compute("length(b)", b=[b"\x00\xff", None]) == [2, None]
    assert compute("b || x'01'", b=[b"\x00", None]) == [b"\x00\x01", None]


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("abs(a)", [3, 2]),
        ("abs(x)", [2.5, 0.4]),
        ("abs(m)", [Decimal("9.95"), Decimal("1.05")]),
        ("sign(a)", [-1, 1]),
        ("sign(x)", [1, -1]),
        ("round(x)", [3.0, -0.0]),
        ("round(x, 1)", [2.5, -0.4]),
        ("round(a, -1)", [0, 0]),
        ("round(m, 1)", [Decimal("10.00"), Decimal("-1.10")]),
        ("floor(x)", [2.0, -1.0]),
        ("ceil(x)", [3.0, -0.0]),
        ("ceiling(m)", [Decimal("10.00"), Decimal("-1.00")]),
        ("floor(a)", [-3, 2]),
        ("sqrt(4)", [2.0, 2.0]),
        ("power(a, 2)", [9.0, 4.0]),
        ("a ^ 2", [9.0, 4.0]),
        ("a ** 2", [9.0, 4.0]),
        ("exp(0)", [1.0, 1.0]),
        ("ln(1)", [0.0, 0.0]),
        ("log10(1000)", [pytest.approx(3.0)] * 2),
        ("greatest(a, 0, 1)", [1, 2]),
        ("least(a, x)", [-3.0, -0.4]),
        ("greatest(a, NULL)", [-3, 2]),
        ("greatest('a', 'b')", ["b", "b"]),
    ],
)
def test_functions_of_numbers(compute: Compute, sql: str, expected: list[Any]) -> None:
    money = pa.array([Decimal("9.95"), Decimal("-1.05")], pa.decimal128(3, 2))
    assert compute(sql, a=[-3, 2], x=[2.5, -0.4], m=money) == expected


def test_roots_and_logarithms_outside_their_domain_are_not_errors(compute: Compute) -> None:
    assert math.isnan(compute("sqrt(x)", x=[-1.0])[0])
    assert compute("ln(x)", x=[0.0]) == [-math.inf]
    assert compute("sign(x)", x=[math.nan]) == [0]


def test_greatest_and_least_know_that_nan_is_largest(compute: Compute) -> None:
    x, y = [math.nan, math.nan, 1.0, None], [1.0, math.nan, None, None]
    greatest = compute("greatest(x, y)", x=x, y=y)
    least = compute("least(x, y)", x=x, y=y)
    assert math.isnan(greatest[0])
    assert math.isnan(greatest[1])
    assert greatest[2:] == [1.0, None]
    assert least[0] == 1.0
    assert math.isnan(least[1])
    moment = pa.array([0, None], pa.timestamp("us", "UTC"))
    later = pa.array([5, 5], pa.timestamp("us", "UTC"))
    assert compute("greatest(t, u) = u", t=moment, u=later) == [True, True]


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("year(t)", 2024),
        ("month(t)", 2),
        ("day(t)", 4),
        ("hour(t)", 13),
        ("minute(t)", 45),
        ("second(t)", 6),
        ("quarter(t)", 1),
        ("week(t)", 5),
        ("dayofweek(t)", 0),
        ("isodow(t)", 7),
        ("dayofyear(t)", 35),
        ("EXTRACT(year FROM t)", 2024),
        ("EXTRACT(dow FROM t)", 0),
        ("date_part('doy', t)", 35),
        ("EXTRACT(epoch FROM t)", 1707054306.0),
        ("year(d)", 2024),
        ("hour(d)", 0),
        ("hour(c)", 7),
        ("date_trunc('month', t)", datetime(2024, 2, 1)),
        ("date_trunc('week', t)", datetime(2024, 1, 29)),
        ("date_trunc('hour', t)", datetime(2024, 2, 4, 13)),
        ("date_trunc('year', d)", datetime(2024, 1, 1)),
    ],
)
@pytest.mark.parametrize("unit", ["s", "us", "ns"])
def test_parts_of_dates(compute: Compute, sql: str, expected: Any, unit: str) -> None:
    t = pa.array([datetime(2024, 2, 4, 13, 45, 6)], pa.timestamp(unit))
    assert compute(sql, t=t, d=[date(2024, 2, 4)], c=[time(7, 8)]) == [expected]


def test_parts_of_a_zoned_timestamp_are_of_its_own_zone(compute: Compute) -> None:
    t = pa.array([datetime(2024, 1, 1, 23, 30)], pa.timestamp("us", "Europe/Paris"))
    assert compute("hour(t)", t=t) == [0]
    assert compute("day(t)", t=t) == [2]
    assert compute("date_trunc('day', t) = '2024-01-02'", t=t) == [True]


@pytest.mark.parametrize(
    "type_",
    [
        pa.list_(pa.int64()),
        pa.large_list(pa.int32()),
        pa.list_view(pa.int64()),
        pa.list_(pa.float32(), 2),
    ],
)
def test_lists_have_a_length_elements_and_members(compute: Compute, type_: pa.DataType) -> None:
    lists = pa.array([[7, 8], [1, 2], None, [3, None], [4, 5]], type_).slice(1, 3)
    assert compute("len(l)", l=lists) == [2, None, 2]
    assert compute("array_length(l)", l=lists) == [2, None, 2]
    assert compute("cardinality(l)", l=lists) == [2, None, 2]
    assert compute("l[1]", l=lists) == [1, None, 3]
    assert compute("l[-1]", l=lists) == [2, None, None]
    assert compute("l[0]", l=lists) == [None, None, None]
    assert compute("l[9]", l=lists) == [None, None, None]
    assert compute("l[i]", l=lists, i=[2, 1, None]) == [2, None, None]
    for name in ("list_contains", "array_contains", "array_has"):
        assert compute(f"{name}(l, 2)", l=lists) == [True, None, False]
    assert compute("list_contains(l, 2.5)", l=lists) == [False, None, False]
    assert compute("list_contains(l, NULL)", l=lists) == [None, None, None]


def test_lists_of_text_dates_and_structs_are_reached_into(compute: Compute) -> None:
    assert compute("list_contains(l, 'b')", l=[["a", "b"], [None], None]) == [True, False, None]
    days = pa.array([[date(2024, 1, 1)], []], pa.list_(pa.date32()))
    assert compute("list_contains(l, '2024-01-01')", l=days) == [True, False]
    assert compute("l[1].k", l=[[{"k": 5}], [], None]) == [5, None, None]
    assert compute("l[1][2]", l=[[[1, 2]], [[]], None]) == [2, None, None]


def test_a_map_is_looked_up_by_key(compute: Compute) -> None:
    m = pa.array([[("k", 1)], [("j", 2)], None], pa.map_(pa.string(), pa.int64()))
    assert compute("m['k']", m=m) == [1, None, None]


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("CASE WHEN a > 1 THEN 'b' WHEN a = 1 THEN 'a' ELSE 'z' END", ["a", "b", "z"]),
        ("CASE a WHEN 1 THEN 'one' WHEN 2 THEN 'two' END", ["one", "two", None]),
        ("CASE WHEN a IS NULL THEN 0.5 ELSE a END", [1.0, 2.0, 0.5]),
        ("COALESCE(a, 7)", [1, 2, 7]),
        ("COALESCE(NULL, NULL, a)", [1, 2, None]),
        ("IFNULL(a, 7)", [1, 2, 7]),
        ("NULLIF(a, 1)", [None, 2, None]),
        ("NULLIF(1, a)", [None, 1, 1]),
        ("IF(a = 1, 'y', 'n')", ["y", "n", "n"]),
        ("IFF(a = 1, 'y', NULL)", ["y", None, None]),
        ("IF(a = 1, 'y')", ["y", None, None]),
    ],
)
def test_forms_that_choose(compute: Compute, sql: str, expected: list[Any]) -> None:
    assert compute(sql, a=[1, 2, None]) == expected


def test_a_choice_has_the_type_of_what_it_chooses_from() -> None:
    schema = pa.schema({"a": pa.int8(), "d": pa.dictionary(pa.int8(), pa.string())})
    types = {
        "COALESCE(a, 0)": pa.int8(),
        "COALESCE(a, 1000)": pa.int64(),
        "COALESCE(a, 0.5)": pa.float64(),
        "CASE WHEN a = 1 THEN 0.5 ELSE 1 END": pa.float64(),
        "COALESCE(d, 'x')": pa.string(),
        "NULLIF(a, 1)": pa.int8(),
        "CASE WHEN a = 1 THEN NULL END": pa.null(),
    }
    assert {sql: parse_expression(sql, schema).type for sql in types} == types


def test_a_branch_that_is_not_taken_cannot_fail() -> None:
    batch = pa.record_batch({"s": ["1", "x", None], "a": [2**63 - 1, 1, None]})

    def values(sql: str) -> list[Any]:
        found: list[Any] = parse_expression(sql, batch.schema).evaluate(batch).to_pylist()
        return found

    assert values("CASE WHEN s <> 'x' THEN CAST(s AS INT) ELSE -1 END") == [1, -1, -1]
    assert values("CASE WHEN s = 'x' THEN -1 ELSE CAST(s AS INT) END") == [1, -1, None]
    assert values("COALESCE(NULLIF(a, 1), CAST(NULLIF(s, 'x') AS INT))") == [2**63 - 1, None, None]
    assert values("IF(a < 5, a + 1, 0)") == [0, 2, 0]
    assert values("CASE WHEN FALSE THEN CAST('x' AS INT) ELSE 1 END") == [1, 1, 1]
    assert values("COALESCE(1, CAST(s AS INT))") == [1, 1, 1]
    with pytest.raises(InvalidInputError, match="'x'"):
        values("CASE WHEN s = 'x' THEN CAST(s AS INT) END")


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("upper(a)", "upper cannot take"),
        ("upper()", "takes 1 argument, 0 are given"),
        ("substr(s)", "2 to 3 arguments"),
        ("coalesce()", "at least 1 argument"),
        ("left(s, a)", "has to be a constant"),
        ("s LIKE s", "has to be constant text"),
        ("a LIKE 'x'", "like takes text"),
        ("s LIKE 'a' ESCAPE 'ab'", "one character"),
        ("s LIKE 'a!' ESCAPE '!'", "ends with its escape"),
        ("regexp_matches(s, '(')", "regular expression"),
        ("lpad(s, 5, 'ab')", "one character"),
        ("repeat(s, 2000000)", "limit"),
        ("left(s, 99999999999)", "too large"),
        ("substr(s, 1, -1)", "negative"),
        ("s || a", "cast it to VARCHAR"),
        ("date_trunc('eon', d)", "'eon' is not a unit"),
        ("EXTRACT(eon FROM d)", "'eon' is not a part"),
        ("year(s)", "year cannot take"),
        ("list_contains(l, a)", "a list and a constant"),
        ("list_contains(l, 'x')", "cannot be compared"),
        ("a[1]", "has no element"),
        ("l['x']", "has no element"),
        ("greatest(a, s)", "no type holds all"),
        ("greatest(b, b)", "cannot order"),
        ("COALESCE(a, s)", "no type holds all"),
        ("CASE WHEN a THEN 1 END", "not a condition"),
        ("CASE WHEN b THEN 1 ELSE 'x' END", "no type holds all"),
        ("NOT a", "not a condition"),
        ("a AND b", "not a condition"),
    ],
)
def test_wrong_arguments_are_refused_with_the_reason(sql: str, words: str) -> None:
    schema = pa.schema(
        {
            "a": pa.int64(),
            "s": pa.string(),
            "b": pa.bool_(),
            "d": pa.date32(),
            "l": pa.list_(pa.int64()),
        }
    )
    with pytest.raises(InvalidInputError, match=words) as caught:
        parse_expression(sql, schema)
    assert caught.value.facts["sql"] == sql


def test_every_function_refuses_to_be_called_with_forty_structs() -> None:
    schema = pa.schema({"o": pa.struct([("k", pa.int64())])})
    names = [each for each in FUNCTIONS if each.isidentifier() and each not in _KEYWORDS]
    assert len(names) > 60
    for name in names:
        with pytest.raises(InvalidInputError):
            parse_expression(f"{name}({', '.join(['o'] * 40)}) = 1", schema)


_KEYWORDS = {"in", "and", "or", "not", "like", "ilike"}


_TEN = "aaaaaaaaaa"


def _nested(depth: int) -> str:
    text = "s"
    for _ in range(depth):
        text = f"replace({text}, 'a', '{_TEN}')"
    return text


@pytest.mark.sliced(3)
@pytest.mark.parametrize(
    ("sql", "name"),
    [
        (_nested(20), "replace"),
        (_nested(20).replace("s,", "'a',"), "replace"),  # made when the text is read
        ("repeat(repeat(repeat(s, 1000), 1000), 1000)", "repeat"),
        ("repeat('a', 60000) || repeat(s, 60000)", "||"),
        ("lpad(s, 1000000, 'é')", "lpad"),
        ("rpad(s, 1000000)", "rpad"),
        (f"concat({', '.join(['repeat(s, 50000)'] * 3)})", "concat"),
    ],
)
def test_no_function_of_text_makes_more_of_it_than_a_batch_may_hold(sql: str, name: str) -> None:
    imports = """
    import pyarrow as pa
    from lancewood.expr import parse_expression
    batch = pa.record_batch({"s": ["a"] * 600})
    """
    act = "parse_expression(sys.argv[1], batch.schema).evaluate(batch)"
    told = bounded(imports, act, sql, megabytes=300)
    assert told.startswith("InvalidInputError: "), told
    assert f"{name} would make " in told


def test_texts_that_stay_small_are_as_long_as_they_are_asked_for() -> None:
    batch = pa.record_batch({"s": ["ab", "b", None]})
    found = parse_expression(f"length({_nested(5)})", batch.schema).evaluate(batch)
    assert found.to_pylist() == [10**5 + 1, 1, None]


def test_who_brings_long_texts_may_make_them_longer() -> None:
    batch = pa.record_batch({"s": ["x" * 1_000_000] * 70})
    made = parse_expression("s || s", batch.schema).evaluate(batch)
    assert pc.sum(pc.binary_length(made)).as_py() == 140_000_000
    with pytest.raises(InvalidInputError, match="would make 350,000,000 bytes of text of 70 rows"):
        parse_expression("repeat(s, 5)", batch.schema).evaluate(batch)
