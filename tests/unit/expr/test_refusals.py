"""Hostile and hopeless texts: refused with a typed error that names the reason, quickly."""

from __future__ import annotations

import subprocess
import sys
import threading
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lancewood.errors import InvalidInputError
from lancewood.expr import MAX_LENGTH, parse_expression, parse_predicate
from lancewood.expr.database import EXPRESSIONS

SCHEMA = pa.schema(
    {
        "a": pa.int64(),
        "s": pa.string(),
        "b": pa.bool_(),
        "ts": pa.timestamp("us"),
        "l": pa.list_(pa.int32()),
        "o": pa.struct([("x", pa.int32())]),
        "huge": pa.decimal256(50, 2),
    }
)


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("", "empty"),
        ("  \n", "empty"),
        ("a +", "syntax error"),
        ("a = 1) OR (true", "syntax error"),
        ("true) FROM (SELECT 1", "syntax error"),
        ("a = 1; DROP TABLE x", "several statements"),
        ("a = 1, b", "more than one|syntax error"),
        ("a AS x", "more than one|syntax error"),
        ("SELECT 1", "a whole SELECT statement"),
        ("DELETE FROM x", "a whole DELETE statement"),
        ("a = :low", r"a parameter is written \$low, not :low"),
        ("a = 'x", "unterminated"),
        ("a = 1 /*", "unterminated"),
        ("s = '\0'", "NUL"),
        ("s = '\ud800'", "half a character"),
        ("EXISTS (SELECT 1)", "subquery"),
        ("a IN (SELECT 1)", "subquery"),
        ("a = ANY([1, 2])", "subquery"),
        ("sum(a) > 1", "sum is not a function for conditions"),
        ("list(a ORDER BY s) = [1]", "list is not a function for conditions"),
        ("row_number() OVER () = 1", "window function"),
        ("*", "several columns"),
        ("COLUMNS('a') = 1", "several columns"),
        ("unnest(l) = 1", "unnest is not a function"),
        ("#1 = 1", "has to be named"),
        ("lower(DISTINCT s) = 'x'", "distinct has no place"),
        ("s COLLATE NOCASE = 'x'", "collations"),
        ("s.lower() = 'x'", r"write lower\(s\)"),
        ("main.lower(s) = 'x'", r"write lower\(main\)"),
        ("DEFAULT", "has no place"),
        ("GROUPING(a) = 1", "has no place"),
        ("1e400 > a", "too large for a DOUBLE"),
        ("list_transform(l, x -> x + 1) = [1]", "lambda x"),
        ("random() > 0.5", "another value at each run"),
        ("now() > ts", "another value at each run"),
        ("uuid() = s", "another value at each run"),
        ("age(ts) > INTERVAL 1 DAY", "counts from today"),
        ("current_date > ts", "current_date would give another value"),
        ("current_timestamp > ts", "current_timestamp would give another value"),
        ("current_localtime() < '10:00'", "another value at each run"),
        ("user = s", "no column 'user'"),
        ("getvariable('x') = 1", "getvariable is not a function"),
        ("current_setting('threads') = '1'", "current_setting is not a function"),
        ("sleep_ms(100000) IS NULL", "sleep_ms is not a function"),
        ("nextval('x') = 1", "nextval is not a function"),
        ("error('x') IS NULL", "error is not a function"),
        ("list_aggregate(l, 'reservoir_quantile', 0.5) = 1", "list_aggregate is not"),
        ("read_text('/etc/passwd') = s", "read_text is not a function"),
        ("'x'::some.type = s", "some.type"),
        ("nope(a) = 1", "nope is not a function"),
        ("a", "not a condition but of type int64"),
        ("s", "not a condition but of type string"),
        ("nope = 1", "no column 'nope'"),
        ("o.y = 1", "no field 'y'"),
        ("a.x = 1", "not a struct"),
        ("rows.a = 1", "no column 'rows'"),
        ("huge > 1", "decimal256"),
        ("a > 'ant'", "cannot be computed"),
        ("ts > 5", "cannot be computed"),
        ("s + 1 = 2", "cannot be computed"),
        ("length(a) = 1", "cannot be computed"),
        ("a = $p", "no parameter 'p'"),
    ],
)
def test_a_text_that_is_no_condition_is_refused_with_the_reason(sql: str, reason: str) -> None:
    with pytest.raises(InvalidInputError, match=reason):
        parse_predicate(sql, SCHEMA)


def test_a_comment_does_not_reach_behind_the_text() -> None:
    rows = pa.table({"a": [1, 2]})
    for sql in ("a = 1 -- or true", "a = 1 /* or true */", "a = 1 -- )"):
        assert parse_predicate(sql, rows.schema).mask(rows).to_pylist() == [True, False]


@pytest.mark.parametrize(
    "sql",
    [
        "(" * 5_000 + "a" + ")" * 5_000,
        "NOT " * 5_000 + "b",
        "a" + " + 1" * 2_000,
        "-" * 3 + "(-" * 3_000 + "a" + ")" * 3_000,
        "CASE WHEN b THEN " * 2_000 + "a" + " END" * 2_000,
        "[" * 3_000 + "a" + "]" * 3_000,
        "s" + " || s" * 3_000,
    ],
)
def test_a_deep_text_is_refused_also_in_a_thread_with_a_small_stack(sql: str) -> None:
    answers: list[BaseException] = []

    def ask() -> None:
        try:
            parse_expression(sql, SCHEMA)
        except BaseException as error:
            answers.append(error)

    before = threading.stack_size(512 << 10)
    try:
        thread = threading.Thread(target=ask)
        thread.start()
        thread.join()
    finally:
        threading.stack_size(before)
    (error,) = answers
    assert isinstance(error, InvalidInputError)


def test_a_long_text_is_refused_and_a_long_chain_is_not_deep() -> None:
    with pytest.raises(InvalidInputError, match=r"IN \$values"):
        parse_predicate("a = 1 OR " * (MAX_LENGTH // 9 + 1) + "b", SCHEMA)
    rows = pa.table({"a": [1, 2, 1_000]})
    chain = " OR ".join(f"a = {number}" for number in range(0, 1_000, 2))
    assert parse_predicate(chain, rows.schema).mask(rows).to_pylist() == [False, True, False]


def test_nothing_outside_the_rows_is_within_reach(tmp_path: Path) -> None:
    secret = tmp_path / "secret.csv"
    secret.write_text("x\n1\n")
    for query in (
        f"FROM '{secret}'",
        f"SELECT * FROM read_text('{secret}')",
        f"COPY (SELECT 1) TO '{tmp_path / 'new'}'",
        f"ATTACH '{tmp_path / 'new'}'",
        "INSTALL httpfs",
        "SET threads = 4",
        "SELECT * FROM secret_rows",
    ):
        secret_rows = pa.table({"x": [1]})
        assert secret_rows.num_rows == 1
        with EXPRESSIONS.lent() as cursor, pytest.raises(Exception, match=r"Error"):
            cursor.connection.sql(query).fetchall()
    assert [each.name for each in tmp_path.iterdir()] == ["secret.csv"]


def test_a_forked_process_computes_with_a_database_of_its_own() -> None:
    script = """
import os, pyarrow as pa
from lancewood.expr import parse_predicate
rows = pa.table({"s": ["a", "B"]})
asked = parse_predicate("upper(s) = 'B'", rows.schema)
assert asked.mask(rows).to_pylist() == [False, True]
child = os.fork()
assert asked.mask(rows).to_pylist() == [False, True]
if not child:
    raise SystemExit  # an end by which the database is closed
assert os.waitpid(child, 0)[1] == 0
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", script], check=True, timeout=120)


@pytest.mark.parametrize("parameters", [5, "abc", b"abc", {"p"}])
def test_parameters_are_a_mapping_or_a_list(parameters: Any) -> None:
    with pytest.raises(InvalidInputError, match=r"a mapping for \$name, or a list"):
        parse_predicate("a = $p", SCHEMA, parameters)


@pytest.mark.parametrize(
    ("sql", "parameters", "reason"),
    [
        ("a = $p", {"m": 1}, "no parameter 'p': given are 'm'"),
        ("a = $p", [1], "none is given by name|given are '1' by name"),
        ("a = ?", [], "no parameter '1'"),
        ("a = ?", [1, 2], "2 parameters are given, the text names 1"),
        ("a = ? AND a = $p", {"p": 1}, "Mixing"),
        ("a = $p", {"p": object()}, "a value of type object"),
        ("a = $p", {"p": 1 << 200}, "128 bits"),
        ("a = $p", {"p": {1}}, "a value of type set"),
        ("s = $p", {"p": "\ud800"}, "half a character"),
        ("a = $p", {"p": Decimal("1" * 60)}, "38 digits"),
        ("a IN $p", {"p": range(1 << 70)}, "no value in Python"),
    ],
)
def test_wrong_parameters_are_refused(sql: str, parameters: Any, reason: str) -> None:
    with pytest.raises(InvalidInputError, match=reason):
        parse_predicate(sql, SCHEMA, parameters)
