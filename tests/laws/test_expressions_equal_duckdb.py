"""Random typed expressions over random data mean what DuckDB says they mean.

Each expression is drawn twice over: our text, and DuckDB's where a documented difference asks for
another spelling (division by zero, wider integers). It is evaluated on a slice that holds more
columns than it needs, and once more as a pyarrow expression; all three have to agree.

Hypothesis draws the seeds only. Drawing tables and expressions piece by piece, it varied one
expression or one table a little, over and over: two hundred examples were fifty texts.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from functools import partial
from random import Random
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.acero as acero
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.breadth import daily

from lancewood.expr import parse_expression, parse_predicate

INTEGERS = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32()]
TEXTS = [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())]
MOMENTS = [pa.timestamp(unit) for unit in ("s", "ms", "us", "ns")]
DUCKDB = duckdb.connect(config={"threads": 1})
PARTS = ("year", "month", "day", "quarter", "week", "dayofweek", "dayofyear")


@dataclass(frozen=True)
class Pair:
    """One expression in both spellings."""

    ours: str
    theirs: str

    @classmethod
    def of(cls, template: str, *args: Pair) -> Pair:
        ours = template.format(*(each.ours for each in args))
        return cls(ours, template.format(*(each.theirs for each in args)))


def quote(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def word(rng: Random) -> str:
    return "".join(rng.choice("abAB%_é\\ x1") for _ in range(rng.randint(0, 5)))


def day(rng: Random) -> date:
    if rng.random() < 0.5:
        return date(2024, 2, rng.randint(26, 29))
    return date(1960, 1, 1) + timedelta(days=rng.randint(0, 29_000))


def moment(rng: Random) -> datetime:
    if rng.random() < 0.5:
        return datetime.combine(day(rng), time(12))
    return datetime(1960, 1, 1) + timedelta(seconds=rng.randint(0, 2_500_000_000))


def real(rng: Random) -> float:
    odd = [math.nan, math.inf, -math.inf, 0.0, -0.0]
    return rng.choice(odd) if rng.random() < 0.3 else rng.randint(-400, 400) / 8


def make_table(rng: Random) -> pa.Table:
    rows = rng.choice([0, 1, 3, 8, 8, 8])

    def column(draw: Callable[[], Any], type_: pa.DataType) -> pa.Array:
        drawn = [None if rng.random() < 0.2 else draw() for _ in range(rows)]
        if pa.types.is_dictionary(type_):
            return pa.array(drawn, type_.value_type).dictionary_encode()
        return pa.array(drawn, type_)

    def small() -> int:
        return rng.randint(0, 9 if rng.random() < 0.5 else 100)

    def some_list() -> list[int | None]:
        return [rng.choice([None, small(), small()]) for _ in range(rng.randint(0, 3))]

    def some_struct() -> dict[str, Any]:
        return {"k": rng.choice([None, small(), small()]), "w": word(rng)}

    edges = [-(2**63), 2**63 - 1, 0, 127, 128, -129, 2**31]
    return pa.table(
        {
            "row": pa.array(range(rows), pa.int64()),
            "i": column(small, rng.choice(INTEGERS)),
            "j": column(lambda: rng.randint(-100, 100), rng.choice(INTEGERS[:4])),
            "big": column(lambda: rng.choice(edges), pa.int64()),
            "huge": column(lambda: rng.choice([0, 1, 2**63, 2**64 - 1]), pa.uint64()),
            "x": column(lambda: real(rng), pa.float64()),
            "y": column(lambda: real(rng), pa.float32()),
            "s": column(lambda: word(rng), rng.choice(TEXTS)),
            "r": column(lambda: word(rng), pa.string()),
            "b": column(lambda: rng.random() < 0.5, pa.bool_()),
            "d": column(lambda: day(rng), rng.choice([pa.date32(), pa.date64()])),
            "t": column(lambda: moment(rng), rng.choice(MOMENTS)),
            "m": column(lambda: Decimal(rng.randint(-300, 300)) / 100, pa.decimal128(7, 2)),
            "l": column(some_list, pa.list_(pa.int64())),
            "o": column(some_struct, pa.struct([("k", pa.int16()), ("w", pa.string())])),
        }
    )


class Grammar:
    """Draws typed expressions; ``depth`` is how many more levels may come."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng

    def pick(
        self, depth: int, leaves: list[Callable[[], Pair]], deeper: list[Callable[[int], Pair]]
    ) -> Pair:
        if depth <= 0 or self.rng.random() < 0.15:
            return self.rng.choice(leaves)()
        return self.rng.choice(deeper)(depth - 1)

    def names(self, *names: str, theirs: str = "{}") -> list[Callable[[], Pair]]:
        pairs = [Pair(name, theirs.format(name)) for name in names]
        return [partial(Pair.of, "{}", pair) for pair in pairs]

    def number(self, low: int = -120, high: int = 120) -> int:
        return self.rng.randint(low, high)

    # integers: theirs are widened to BIGINT, as ours are

    def integer(self, depth: int) -> Pair:
        def literal() -> Pair:
            value = self.number()
            return Pair(f"({value})", f"({value})::BIGINT")

        leaves = [*self.names("i", "j", "o.k", theirs="{}::BIGINT"), literal]
        return self.pick(
            depth,
            leaves,
            [
                lambda d: Pair.of("({} + {})", self.integer(d), self.integer(d)),
                lambda d: Pair.of("({} - {})", self.integer(d), self.integer(d)),
                lambda d: Pair.of("({} * {})", self.integer(0), self.integer(0)),
                lambda d: Pair.of("(-{})", self.integer(d)),
                lambda d: Pair.of("abs({})", self.integer(d)),
                lambda d: Pair.of("sign({})", self.integer(d)),
                lambda d: self.divide("%", self.integer(d), self.integer(d)),
                lambda d: self.divide("//", self.integer(d), self.integer(d)),
                lambda d: Pair.of("length({})", self.text(d)),
                lambda d: Pair.of(f"strpos({{}}, {quote(word(self.rng))})", self.text(d)),
                lambda d: Pair.of(f"{self.rng.choice(PARTS)}({{}})", self.day(d)),
                lambda d: Pair.of("extract(hour from {})", self.moment(d)),
                lambda d: Pair("len(l)", "len(l)"),
                lambda d: Pair.of(f"l[{self.number(-3, 3)}]"),
                lambda d: Pair.of("({} - {})", self.day(d), self.day(d)),
                lambda d: self.choice(d, self.integer),
                lambda d: Pair.of(f"round({{}}, {self.number(-3, 1)})", self.integer(d)),
            ],
        )

    def divide(self, operator: str, left: Pair, right: Pair) -> Pair:
        ours = f"({left.ours} {operator} {right.ours})"
        return Pair(ours, f"({left.theirs} {operator} nullif({right.theirs}, 0))")

    def real(self, depth: int) -> Pair:
        def literal() -> Pair:
            value = self.number(-80, 80) / 8
            return Pair(f"({value})", f"({value})::DOUBLE")

        return self.pick(
            depth,
            [*self.names("x", "x", theirs="{}"), literal],
            [
                lambda d: Pair.of("({} + {})", self.real(d), self.real(d)),
                lambda d: Pair.of("({} - {})", self.real(d), self.integer(d)),
                lambda d: Pair.of("({} * {})", self.real(d), self.real(d)),
                lambda d: self.divide("/", self.real(d), self.real(d)),
                lambda d: self.divide("/", self.integer(d), self.integer(d)),
                lambda d: self.divide("%", self.real(0), self.real(0)),
                lambda d: Pair.of("floor({})", self.real(d)),
                lambda d: Pair.of("ceil({})", self.real(d)),
                lambda d: Pair.of("round({})", self.real(d)),
                lambda d: Pair.of("sqrt(abs({}))", self.real(d)),
                lambda d: Pair.of("abs({})", self.real(d)),
                lambda d: self.choice(d, self.real),
                lambda d: Pair.of("greatest({}, {})", self.real(d), self.real(d)),
                lambda d: Pair.of("least({}, {}, {})", self.real(d), self.real(d), self.real(d)),
                lambda d: Pair.of("cast({} as double)", self.integer(d)),
            ],
        )

    def text(self, depth: int) -> Pair:
        def literal() -> Pair:
            return Pair.of(quote(word(self.rng)))

        def window(d: int) -> Pair:
            start, length = self.number(-6, 6), self.number(0, 6)
            return Pair.of(f"substr({{}}, {start}, {length})", self.text(d))

        def padded(d: int) -> Pair:
            side = self.rng.choice(["lpad", "rpad"])
            return Pair.of(f"{side}({{}}, {self.number(0, 7)}, '*')", self.text(d))

        def replaced(d: int) -> Pair:
            words = f"{quote(word(self.rng))}, {quote(word(self.rng))}"
            return Pair.of(f"replace({{}}, {words})", self.text(d))

        return self.pick(
            depth,
            [*self.names("s", "r", "o.w"), literal],
            [
                lambda d: Pair.of("({} || {})", self.text(d), self.text(d)),
                lambda d: Pair.of("concat({}, {}, {})", self.text(d), self.text(d), self.text(d)),
                lambda d: Pair.of("upper({})", self.text(d)),
                lambda d: Pair.of("lower({})", self.text(d)),
                lambda d: Pair.of("reverse({})", self.text(d)),
                lambda d: Pair.of("trim({})", self.text(d)),
                lambda d: Pair.of("ltrim({}, 'aA ')", self.text(d)),
                lambda d: Pair.of(f"left({{}}, {self.number(-4, 4)})", self.text(d)),
                lambda d: Pair.of(f"right({{}}, {self.number(-4, 4)})", self.text(d)),
                lambda d: Pair.of(f"repeat({{}}, {self.number(-1, 3)})", self.text(d)),
                lambda d: Pair.of(f"substr({{}}, {self.number(-6, 6)})", self.text(d)),
                window,
                padded,
                replaced,
                lambda d: Pair.of("cast({} as varchar)", self.integer(d)),
                lambda d: self.choice(d, self.text),
            ],
        )

    def day(self, depth: int) -> Pair:
        def literal() -> Pair:
            return Pair.of(f"DATE '{day(self.rng)}'")

        return self.pick(
            depth,
            [*self.names("d", theirs="{}::DATE"), literal],
            [
                lambda d: self.shifted_day(),
                lambda d: Pair.of("cast({} as date)", self.moment(d)),
                lambda d: self.choice(d, self.day),
            ],
        )

    def shifted_day(self) -> Pair:
        count = self.number(0, 120)
        return Pair(f"(d + {count})", f"(d::DATE + {count})")

    def moment(self, depth: int) -> Pair:
        def literal() -> Pair:
            return Pair.of(f"TIMESTAMP '{day(self.rng)} 13:45:00'")

        units = ["hour", "day", "week", "month", "quarter", "year"]
        lengths = ["second", "minute", "hour", "day", "week"]
        return self.pick(
            depth,
            [*self.names("t"), literal],
            [
                lambda d: Pair.of(f"date_trunc('{self.rng.choice(units)}', {{}})", self.moment(d)),
                lambda d: Pair.of(f"date_trunc('{self.rng.choice(units)}', {{}})", self.day(d)),
                lambda d: Pair.of(
                    f"({{}} + INTERVAL {self.number(0, 99)} {self.rng.choice(lengths)})",
                    self.day(d),
                ),
                lambda d: self.choice(d, self.moment),
            ],
        )

    def choice(self, depth: int, kind: Callable[[int], Pair]) -> Pair:
        form = self.rng.randint(0, 4)
        if form == 0:
            return Pair.of("coalesce({}, {})", kind(depth), kind(depth))
        if form == 1:
            return Pair.of("nullif({}, {})", kind(depth), kind(depth))
        if form == 2:
            return Pair.of("if({}, {}, {})", self.truth(depth), kind(depth), kind(depth))
        if form == 3:
            template = "case when {} then {} when {} then {} end"
            parts = (self.truth(depth), kind(depth), self.truth(0), kind(depth))
            return Pair.of(f"({template})", *parts)
        template = "case {} when {} then {} else {} end"
        parts = (self.integer(0), self.integer(0), kind(depth), kind(depth))
        return Pair.of(f"({template})", *parts)

    def truth(self, depth: int) -> Pair:
        return self.pick(
            depth,
            [*self.names("b"), lambda: Pair.of(self.rng.choice(["true", "null"]))],
            [
                lambda d: Pair.of("({} and {})", self.truth(d), self.truth(d)),
                lambda d: Pair.of("({} or {})", self.truth(d), self.truth(d)),
                lambda d: Pair.of("(not {})", self.truth(d)),
                self.comparison,
                self.comparison,
                self.comparison,
                self.with_constant,
                self.with_constant,
                self.membership,
                self.state,
                self.pattern,
            ],
        )

    def operator(self) -> str:
        distinct = ["is distinct from", "is not distinct from"]
        return self.rng.choice(["=", "<>", "<", "<=", ">", ">=", *distinct])

    def comparison(self, depth: int) -> Pair:
        kinds = [self.integer, self.real, self.text, self.day, self.moment]
        kind = self.rng.choice(kinds)
        if self.rng.randint(0, 4) == 0:
            parts = (kind(depth), kind(depth), kind(depth))
            return Pair.of("({} between {} and {})", *parts)
        return Pair.of(f"({{}} {self.operator()} {{}})", kind(depth), kind(depth))

    def with_constant(self, depth: int) -> Pair:
        """Constants that the column's type may not hold."""
        far = [0, 1, -1, 127, 128, -129, 1000, 2**31, 2**63, 2**64, -(2**63) - 1]
        fraction = str(Decimal(self.number(-300, 900)) / 100)
        column = self.rng.choice(["i", "j", "big", "huge", "m", "o.k", "y"])
        constant = str(self.rng.choice(far)) if self.rng.random() < 0.5 else fraction
        if column in ("big", "huge") and "." in constant:
            constant = str(self.rng.choice(far))
        if column == "m" and abs(Decimal(constant)) > 10**6:
            constant = "1000"
        theirs = column if column in ("m", "y") else f"{column}::HUGEINT"
        if self.rng.random() < 0.5:
            moment = f"'{day(self.rng)} 12:00:00.5'"
            column, theirs, constant = "t", "t::TIMESTAMP", f"TIMESTAMP {moment}"
        operator = self.operator()
        return Pair(f"({column} {operator} {constant})", f"({theirs} {operator} {constant})")

    def membership(self, depth: int) -> Pair:
        negation = self.rng.choice(["", "not "])
        if self.rng.random() < 0.5:
            items = [self.integer(0) for _ in range(self.number(1, 4))]
            items += [Pair.of("null")] * self.rng.randint(0, 1)
            value = self.integer(depth)
        else:
            items = [Pair.of(quote(word(self.rng))) for _ in range(self.number(1, 4))]
            value = self.text(depth)
        slots = ", ".join("{}" for _ in items)
        return Pair.of(f"({{}} {negation}in ({slots}))", value, *items)

    def state(self, depth: int) -> Pair:
        form = self.rng.choice(["is null", "is not null", "is true", "is not false"])
        if form in ("is null", "is not null"):
            kind = self.rng.choice([self.integer, self.text, self.day, self.real])
            return Pair.of(f"({{}} {form})", kind(depth))
        return Pair.of(f"({{}} {form})", self.truth(depth))

    def pattern(self, depth: int) -> Pair:
        value = self.text(depth)
        form = self.rng.randint(0, 4)
        drawn = word(self.rng)
        if form == 0:
            name = self.rng.choice(["starts_with", "ends_with", "contains"])
            return Pair.of(f"{name}({{}}, {quote(drawn)})", value)
        if form == 1:
            return Pair.of(f"list_contains(l, {self.number(0, 100)})")
        if form == 2:
            return Pair.of("regexp_matches({}, '^[ab]+')", value)
        if form == 3:
            escaped = drawn.replace("!", "").replace("_", "!_")
            return Pair.of(f"({{}} like {quote(escaped)} escape '!')", value)
        like = self.rng.choice(["like", "not like", "ilike", "not ilike"])
        return Pair.of(f"({{}} {like} {quote(drawn)})", value)


KINDS = ("truth", "truth", "truth", "integer", "real", "text", "day", "moment")
EXPRESSIONS = 8


def make_pair(rng: Random) -> Pair:
    pair: Pair = getattr(Grammar(rng), rng.choice(KINDS))(rng.randint(1, 3))
    return pair


def ask_duckdb(table: pa.Table, texts: list[str]) -> list[list[Any]]:
    cursor = DUCKDB.register("t", table)
    rows = cursor.execute(f"SELECT {', '.join(texts)} FROM t ORDER BY row").fetchall()
    return [[row[index] for row in rows] for index in range(len(texts))]


def ask_acero(table: pa.Table, expression: Any) -> list[Any]:
    source = acero.Declaration("table_source", acero.TableSourceNodeOptions(table))
    project = acero.Declaration("project", acero.ProjectNodeOptions([expression], ["r"]))
    plan = acero.Declaration.from_sequence([source, project])
    return list(plan.to_table(use_threads=False)["r"].to_pylist())


def same(one: Any, other: Any) -> bool:
    if isinstance(one, float | Decimal | int) and isinstance(other, float | Decimal | int):
        left, right = float(one), float(other)
        if math.isnan(left) or math.isnan(right):
            return math.isnan(left) and math.isnan(right)
        return math.isclose(left, right, rel_tol=1e-9, abs_tol=1e-9)
    if isinstance(one, datetime) and isinstance(other, datetime):
        return abs(one.replace(tzinfo=None) - other) < timedelta(microseconds=1)
    return type(one) is type(other) and bool(one == other)


@settings(max_examples=daily(50, of=200), derandomize=True, deadline=None)
@given(st.randoms(use_true_random=True))
def test_an_expression_means_what_duckdb_says_it_means(rng: Random) -> None:
    table = make_table(rng)
    pairs = [make_pair(rng) for _ in range(EXPRESSIONS)]
    answers = ask_duckdb(table, [pair.theirs for pair in pairs])
    for pair, expected in zip(pairs, answers, strict=True):
        check(table, pair.ours, expected)


def check(table: pa.Table, sql: str, expected: list[Any]) -> None:
    expression = parse_expression(sql, table.schema)
    found = expression.evaluate(middle_of(table)).to_pylist()
    assert agree(found, expected), (sql, found, expected, table.to_pylist())
    again = ask_acero(table, expression.to_pyarrow())
    assert agree(again, found), (sql, again, found, table.to_pylist())
    if pa.types.is_boolean(expression.type):
        mask = parse_predicate(sql, table.schema).mask(table)
        assert mask.null_count == 0
        assert mask.to_pylist() == [each is True for each in expected]


def middle_of(table: pa.Table) -> pa.RecordBatch:
    """The same rows as a slice of a larger batch, so that every array has an offset."""
    if table.num_rows == 0:
        return pa.RecordBatch.from_arrays(
            [pa.nulls(0, each.type) for each in table.schema], schema=table.schema
        )
    larger = pa.concat_tables([table, table, table]).combine_chunks()
    return larger.to_batches()[0].slice(table.num_rows, table.num_rows)


def agree(one: list[Any], other: list[Any]) -> bool:
    return len(one) == len(other) and all(map(same, one, other))
