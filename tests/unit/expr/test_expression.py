"""Expressions and predicates: names, parameters, types, values, bounds; DuckDB is the judge."""

from __future__ import annotations

import datetime as dt
import gc
import pickle
import threading
from decimal import Decimal
from typing import Any
from unittest.mock import patch

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from lancewood.errors import InvalidInputError
from lancewood.expr import Bound, parse_expression, parse_predicate, tree
from lancewood.expr.syntax import ALLOWED

ROWS = pa.table(
    {
        "n": pa.array([1, 2, None, 4], pa.int64()),
        "Mixed Case": pa.array(["a", "b", None, "d"]),
        "s": pa.array(["ab", "b%", None, ""]),
        "b": pa.array([True, False, None, True]),
        "o": pa.array(
            [{"x": 1, "In": {"y": "p"}}, {"x": 2, "In": None}, None, {"x": None, "In": {"y": "q"}}],
            pa.struct([("x", pa.int32()), ("In", pa.struct([("y", pa.string())]))]),
        ),
        "h": pa.array([0.5, float("nan"), None, -1.0], pa.float16()),
    }
)


def kept(sql: str, rows: pa.Table = ROWS, parameters: Any = None) -> list[int]:
    """Where a condition is true, for the table, for its batches and after pickling."""
    predicate = parse_predicate(sql, rows.schema, parameters)
    found = [at for at, is_kept in enumerate(predicate.mask(rows).to_pylist()) if is_kept]
    again = pickle.loads(pickle.dumps(predicate))
    assert (
        again.mask(rows.combine_chunks().to_batches()[0]).to_pylist()
        == predicate.mask(rows).to_pylist()
    )
    with patch.object(tree, "_offered", return_value=[]):
        general = parse_predicate(sql, rows.schema, parameters).mask(rows)
        assert [at for at, is_kept in enumerate(general.to_pylist()) if is_kept] == found
    return found


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("n >= 2", [1, 3]),
        ("N >= 2", [1, 3]),
        ('"n" >= 2', [1, 3]),
        ("\"mixed case\" = 'b'", [1]),
        ("o.x = 2", [1]),
        ("O.X = 2", [1]),
        ("o['x'] = 2", [1]),
        ("o.\"In\".y = 'q'", [3]),
        ("o.in.y IS NULL", [1, 2]),
        ("b", [0, 3]),
        ("NOT b", [1]),
        ("s LIKE 'a%'", [0]),
        ("s LIKE 'b!%' ESCAPE '!'", [1]),
        ("h > 0", [0, 1]),
        ("n IN (1, 4, NULL)", [0, 3]),
        ("n NOT IN (1, NULL)", []),
        ("n IS DISTINCT FROM 1", [1, 2, 3]),
        ("n <> 2 AND 6 % (n - 2) = 0", [0, 3]),
        ("true", [0, 1, 2, 3]),
        ("NULL", []),
        ("n = 1 AND false", []),
        ("list_contains([1, 4], n)", [0, 3]),
    ],
)
def test_a_condition_keeps_the_rows_that_duckdb_s_where_keeps(
    sql: str, expected: list[int]
) -> None:
    assert kept(sql) == expected


def test_names_that_differ_in_case_are_told_apart_by_spelling_and_not_used_together() -> None:
    rows = pa.table({"a": [1, 2], "A": [2, 2]})
    assert kept("a = 2", rows) == [1]
    assert kept("A = 2", rows) == [0, 1]
    with pytest.raises(InvalidInputError, match="differ in case alone"):
        parse_predicate("a = A", rows.schema)
    with pytest.raises(InvalidInputError, match="ambiguous: it could be 'ab', 'aB'"):
        parse_predicate("AB = 1", pa.schema({"ab": pa.int8(), "aB": pa.int8()}))


def test_a_lambda_s_parameter_hides_a_column_and_json_is_reached_into() -> None:
    rows = pa.table({"x": [1, 2], "l": [[1, 5], [2]], "j": ['{"k": 7}', "{}"]})
    found = parse_expression("list_transform(l, lambda x: x + 1)", rows.schema)
    assert found.columns == ("l",)
    assert found.evaluate(rows).to_pylist() == [[2, 6], [3]]
    assert parse_expression("[each for each in l if each > x]", rows.schema).columns == ("x", "l")
    assert kept("(j -> '$.k') = '7'", rows) == [0]


@pytest.mark.parametrize(
    ("sql", "parameters", "expected"),
    [
        ("n = $p", {"p": 2, "unused": None}, [1]),
        ("n = ? OR n = ?", [1, 4], [0, 3]),
        ("n = $2", [0, 4], [3]),
        ("n IN $p", {"p": (1, 4)}, [0, 3]),
        ("n IN $p", {"p": [*range(4, 1_000), None, 1 << 80]}, [3]),
        ("s IN $p", {"p": ["ab", *map(str, range(1_000))]}, [0]),
        ("n IN $p", {"p": np.array([1, 2])}, [0, 1]),
        ("n = $p", {"p": np.int32(2)}, [1]),
        ("n = $p", {"p": pa.scalar(2, pa.int8())}, [1]),
        ("n = $p", {"p": Decimal("2.0")}, [1]),
        ("n > $p", {"p": 1.5}, [1, 3]),
        ("s = $p", {"p": "b%"}, [1]),
        ("s = $p", {"p": "'; --"}, []),
        ("s LIKE $p", {"p": "a%"}, [0]),
        ("n = $p", {"p": None}, []),
        ("b = $p", {"p": True}, [0, 3]),
    ],
)
def test_parameters_are_values(sql: str, parameters: Any, expected: list[int]) -> None:
    assert kept(sql, parameters=parameters) == expected


@pytest.mark.parametrize(
    ("sql", "columns", "paths"),
    [
        ("1 = 1", (), ()),
        ("s || o.in.y", ("s", "o"), (("s",), ("o", "In", "y"))),
        ("o.x + n", ("n", "o"), (("n",), ("o", "x"))),
        ("o.x = 1 AND o IS NULL", ("o",), (("o",),)),
    ],
)
def test_the_columns_and_fields_that_are_read_are_told(
    sql: str, columns: tuple[str, ...], paths: tuple[tuple[str, ...], ...]
) -> None:
    found = parse_expression(sql, ROWS.schema)
    assert (found.columns, found.paths) == (columns, paths)


def test_a_plain_column_is_itself_whatever_its_type() -> None:
    kind = pa.dictionary(pa.int8(), pa.string())
    rows = pa.table(
        {"d": pa.array(["a", None]).cast(kind), "z": pa.array([1, 2], pa.decimal256(60, 1))}
    )
    for name in rows.schema.names:
        found = parse_expression(name, rows.schema)
        assert found.column == (name,)
        assert found.evaluate(rows).equals(rows[name])
    field = parse_expression("o.x", ROWS.schema)
    assert field.column == ("o", "x")
    assert field.evaluate(ROWS).to_pylist() == [1, 2, None, None]


@pytest.mark.parametrize(
    "sql",
    ["n + 1", "n / 2", "n * 1.5", "7", "'x'", "upper(s)", "[n, 1]", "{'a': n}", "h + 1", "n = 1"],
)
def test_values_and_types_are_duckdb_s(sql: str) -> None:
    given = ROWS.set_column(5, "h", ROWS["h"].cast(pa.float32()))
    connection = duckdb.connect()
    connection.register("given", given)
    expected = connection.sql(f"SELECT {sql} AS v FROM given").to_arrow_table()["v"]
    found = parse_expression(sql, ROWS.schema)
    assert found.type == expected.type
    assert str(found.evaluate(ROWS).to_pylist()) == str(expected.to_pylist())
    assert found.evaluate(ROWS.slice(1, 2)).to_pylist()[1:] == expected.to_pylist()[2:3]


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("n = 1", [(("n",), "=", 1)]),
        ("n + 1 > 3 AND o.x <> 2", [(("n",), ">", 2), (("o", "x"), "<>", 2)]),
        ("n BETWEEN 1 AND 2", [(("n",), ">=", 1), (("n",), "<=", 2)]),
        ("n IN (1, 2)", [(("n",), "in", [1, 2])]),
        ("n = 1 OR n = 2", [(("n",), "in", [1, 2])]),
        ("(n = 1 AND b) OR (n = 2 AND s = 'x')", [(("n",), "in", [1, 2])]),
        ("n IS NULL", [(("n",), "is null", None)]),
        ("s IS NOT NULL", [(("s",), "is not null", None)]),
        ("b", [(("b",), "=", True)]),
        ("NOT b", [(("b",), "=", False)]),
        ("s LIKE 'ab%'", [(("s",), ">=", "ab"), (("s",), "<", "ac")]),
        ("s LIKE 'it''s%'", [(("s",), ">=", "it's"), (("s",), "<", "it't")]),
        ("n = 1 OR b", []),
        ("upper(s) = 'X'", []),
        ("n % 2 = 1", []),
        ("false", []),
    ],
)
def test_conditions_on_single_columns_are_bounds(sql: str, expected: list[Any]) -> None:
    def plain(bound: Bound) -> tuple[Any, ...]:
        if isinstance(bound.value, pa.Array):
            return (*bound[:2], sorted(set(bound.value.to_pylist())))
        return (*bound[:2], None if bound.value is None else bound.value.as_py())

    found = parse_predicate(sql, ROWS.schema).bounds()
    assert sorted(map(plain, found), key=str) == sorted(expected, key=str)


def test_moments_between_two_of_a_coarse_column_are_none_of_its_values() -> None:
    moments = [dt.datetime(2024, 1, 1), dt.datetime(2024, 1, 1, 0, 0, 1)]
    for kind in (pa.timestamp("us"), pa.timestamp("ms", "UTC"), pa.timestamp("ns")):
        rows = pa.table({"t": pa.array(moments, kind)})
        for sql, expected in (
            ("t > '2024-01-01 00:00:00.0005'", [1]),
            ("t = '2024-01-01 00:00:00.0005'", []),
            ("t = '2024-01-01'", [0]),
            ("t < 'infinity'", [0, 1]),
        ):
            assert kept(sql, rows) == expected, (kind, sql)


def test_nanoseconds_of_a_duration_are_refused_and_microseconds_computed() -> None:
    rows = pa.table({"d": pa.array([1_000, 2_000], pa.duration("ns"))})
    assert kept("d > INTERVAL 1 MICROSECOND", rows) == [1]
    rows = pa.table({"d": pa.array([1, 2], pa.duration("ns"))})
    with pytest.raises(InvalidInputError, match="column 'd' cannot be given to DuckDB"):
        parse_predicate("d > INTERVAL 1 MICROSECOND", rows.schema).mask(rows)


def test_rows_of_another_schema_are_refused() -> None:
    predicate = parse_predicate("n = 1 AND upper(s) = 'AB'", ROWS.schema)
    assert predicate.mask(ROWS.select(["s", "n"])).to_pylist() == [True, False, False, False]
    with pytest.raises(InvalidInputError, match="no column 's'"):
        predicate.mask(ROWS.select(["n"]))
    with pytest.raises(InvalidInputError, match="column 'n' of the batch is string"):
        predicate.mask(ROWS.set_column(0, "n", ROWS["s"]))


def test_a_value_that_cannot_be_computed_is_told_with_the_way_out() -> None:
    for sql in ("CAST(s AS INTEGER)", "CAST(n + 126 AS TINYINT)"):
        with pytest.raises(InvalidInputError, match=r"cannot be computed.*TRY_CAST"):
            parse_expression(sql, ROWS.schema).evaluate(ROWS)
    assert parse_expression("TRY_CAST(s AS INTEGER)", ROWS.schema).evaluate(ROWS).null_count == 4


def test_rows_are_let_go_once_they_are_computed() -> None:
    rows = pa.table({"a": pa.array([float(number) for number in range(100_000)])})
    asked = parse_expression("a * 3 + 1", rows.schema)
    assert asked.evaluate(rows)[2].as_py() == 7.0
    held = pa.total_allocated_bytes()
    freed = rows.nbytes
    del rows
    gc.collect()
    assert held - pa.total_allocated_bytes() >= freed


def test_threads_compute_beside_each_other() -> None:
    predicate = parse_predicate("n % 2 = 0", ROWS.schema)
    found: list[list[Any]] = []

    def ask() -> None:
        for _ in range(20):
            found.append(predicate.mask(ROWS).to_pylist())

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert found == [[False, True, False, True]] * 80


def test_every_function_that_is_allowed_is_one_of_duckdb_s_and_not_volatile() -> None:
    known = (
        duckdb.connect()
        .execute(
            "SELECT lower(function_name), coalesce(stability, ''), function_type "
            "FROM duckdb_functions()"
        )
        .fetchall()
    )
    names = {name for name, _, kind in known if kind in ("scalar", "macro")}
    assert ALLOWED - names <= {"->"}  # parsed as a lambda
    changing = {name for name, stability, _ in known if stability not in ("", "CONSISTENT")}
    assert not ALLOWED & changing
    assert not ALLOWED & {name for name, _, kind in known if kind == "aggregate"}


def test_structs_in_structs_are_read_from_slices_and_uneven_chunks() -> None:
    numbers = pa.chunked_array([[0, 1], [2, 3, 4, 5]])
    deep = pa.array([{"in": {"n": each}, "l": [{"n": each}]} for each in range(6)])
    rows = pa.table({"n": numbers, "deep": deep})
    condition = "n % 2 = 1 AND deep.\"in\" = {'n': n} AND deep IS NOT NULL"
    assert kept(condition, rows) == [1, 3, 5]
    assert kept(condition, rows.slice(1, 4).combine_chunks()) == [0, 2]
    assert kept(condition, rows.slice(2, 3)) == [1]
    values = parse_expression("struct_extract(deep, 'in')", rows.schema).evaluate(rows.slice(3))
    assert values.to_pylist() == [{"n": 3}, {"n": 4}, {"n": 5}]


def test_lists_and_structs_of_extension_types_are_computed_beside_other_columns() -> None:
    identities = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"0" * 16] * 2, pa.binary(16)))
    rows = pa.table(
        {
            "n": [1, 2],
            "list": pa.ListArray.from_arrays(pa.array([0, 2, 2], pa.int32()), identities),
            "struct": pa.StructArray.from_arrays([identities], ["u"]),
        }
    )
    assert kept("upper(n::text) = '2'", rows) == [1]
    assert parse_expression("n + 1", rows.schema).evaluate(rows).to_pylist() == [2, 3]
    assert parse_expression("len(list)", rows.schema).evaluate(rows).to_pylist() == [2, 0]


@pytest.mark.parametrize(
    "sql", ["n > 1", "n * 2 > 3", "n > 1 AND n * 2 > 3", "n < 0 AND n * 2 > 3", "1 = 1", "NULL"]
)
def test_as_many_rows_are_counted_as_are_kept(sql: str) -> None:
    for rows in (ROWS, ROWS.slice(0, 0)):
        predicate = parse_predicate(sql, rows.schema)
        assert predicate.count(rows) == predicate.mask(rows).true_count
