"""Random conditions and expressions of DuckDB's SQL over a table with a column of many a type.

Values are of few kinds, so that conditions meet some of them: NULL, NaN, -0.0, infinities, the ends
of integers, texts with wildcards and quotes, dates long ago, zones, empty lists.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from random import Random
from typing import Any
from uuid import UUID

import pyarrow as pa

DAYS = (dt.date(1969, 12, 31), dt.date(2024, 2, 29), dt.date(2024, 3, 1), dt.date(1, 1, 1))
CLOCKS = (dt.time(0), dt.time(12, 30), dt.time(23, 59, 59, 999_999), dt.time(1, 2, 3, 4000))
MOMENTS = tuple(dt.datetime.combine(DAYS[n % 3], CLOCKS[n % 4]) for n in range(8))
REALS = (math.nan, math.inf, -math.inf, 0.0, -0.0, 1.5, -2.25, 100.0, 0.1)
WORDS = ("", "a", "ab", "abc", "A%", "b_c", "it's", "é", "日本", "\\n", "10", "a b", "ab\n", "true")
SMALL = (0, 1, 2, 3, -1, 7, 100, -128, 127)
SPANS = tuple(dt.timedelta(seconds=each) for each in (0, 1, -1, 0.5, 86_400, 2_592_000, -90_061))
KEYS = tuple(UUID(int=each) for each in (0, 1, 2**64, 2**127, 2**128 - 1))
WIDE = tuple(
    Decimal(sign + each)
    for each in ("0", "0.0000000001", "2.5", "9999999999999999999999999999.9999999999")
    for sign in ("", "-")
)
Values = Callable[[Random], Any]


def of(values: Sequence[Any]) -> Values:
    return lambda rng: rng.choice(values)


def some_list(rng: Random) -> list[int | None]:
    return [rng.choice([None, 0, 1, 2, 3]) for _ in range(rng.randint(0, 3))]


COLUMNS: Mapping[str, tuple[pa.DataType, Values]] = {
    "i": (pa.int64(), of((*SMALL, 2**63 - 1, -(2**63)))),
    "n": (pa.int32(), of((*SMALL, 1000))),
    "small": (pa.int8(), of(SMALL)),
    "u": (pa.uint64(), of((0, 1, 2, 2**63, 2**64 - 1))),
    "f": (pa.float64(), of((*REALS, 1e300))),
    "g": (pa.float32(), of(REALS)),
    "h": (pa.float16(), of(REALS[:-1])),
    "s": (pa.string(), of(WORDS)),
    "large": (pa.large_string(), of(WORDS)),
    "kind": (pa.dictionary(pa.int8(), pa.string()), of(WORDS[:4])),
    "y": (pa.binary(), of((b"", b"a", b"\0", b"\xff\0", b"ab"))),
    "b": (pa.bool_(), of((True, False))),
    "d": (pa.date32(), of(DAYS)),
    "ts": (pa.timestamp("us"), of(MOMENTS)),
    "ms": (pa.timestamp("ms"), of([each.replace(microsecond=0) for each in MOMENTS])),
    "ns": (pa.timestamp("ns"), of(MOMENTS)),
    "tz": (pa.timestamp("us", "Europe/Berlin"), of([m.replace(tzinfo=dt.UTC) for m in MOMENTS])),
    "t": (pa.time64("us"), of(CLOCKS)),
    "dec": (pa.decimal128(12, 3), of([Decimal(each) / 8 for each in (*SMALL, 12_345_678)])),
    "wide": (pa.decimal128(38, 10), of(WIDE)),
    "far": (
        pa.timestamp("s", "UTC"),
        of([m.replace(tzinfo=dt.UTC, microsecond=0) for m in MOMENTS]),
    ),
    "t32": (pa.time32("s"), of([each.replace(microsecond=0) for each in CLOCKS])),
    "d64": (pa.date64(), of(DAYS)),
    "du": (pa.duration("us"), of(SPANS)),
    "dms": (pa.duration("ms"), of(SPANS)),
    "key": (pa.uuid(), of([each.bytes for each in KEYS])),
    "code": (pa.dictionary(pa.int16(), pa.int64()), of(SMALL)),
    "fb": (pa.binary(2), of((b"\0\0", b"ab", b"\xff\0"))),
    "lb": (pa.large_binary(), of((b"", b"a", b"\xff\0"))),
    "vec": (pa.list_(pa.float32(), 2), of(([0.0, 1.0], [-0.0, math.nan], [0.1, 1.5]))),
    "ll": (pa.list_(pa.list_(pa.int32())), of(([], [[]], [[1], None], [[1, 2], [3]]))),
    "ls": (
        pa.list_(pa.struct([("x", pa.int32()), ("w", pa.string())])),
        of(([], [{"x": 1, "w": "a"}], [{"x": None, "w": "b"}, None])),
    ),
    "m": (
        pa.map_(pa.string(), pa.int32()),
        of(([], [("a", 1)], [("a", 2), ("b", None)], [("é", 0)])),
    ),
    "deep": (
        pa.struct([("in", pa.struct([("n", pa.int64()), ("d", pa.decimal128(5, 1))]))]),
        lambda rng: {"in": rng.choice((None, {"n": 1, "d": Decimal("-0.5")}, {"n": 2, "d": None}))},
    ),
    "l": (pa.list_(pa.int32()), some_list),
    "st": (
        pa.struct([("x", pa.int32()), ("w", pa.string())]),
        lambda rng: {"x": rng.choice(SMALL), "w": rng.choice((None, *WORDS))},
    ),
}
INDEXED = (
    *("i", "n", "f", "g", "s", "large", "b", "d", "ts", "tz", "t", "dec", "u", "small", "wide"),
    *("ms", "far", "du"),
)
KINDS = {
    "number": (
        *("i", "n", "small", "u", "f", "g", "h", "dec", "st.x", "len(l)", "length(s)"),
        *("wide", "code", 'deep."in".n', 'deep."in".d', "m['a']"),
    ),
    "text": ("s", "large", "kind", "st.w", "upper(s)", "CAST(n AS VARCHAR)"),
    "moment": ("ts", "ms", "ns", "d", "date_trunc('month', ts)", "CAST(d AS TIMESTAMP)"),
    "zoned": ("tz", "far", "tz - INTERVAL 1 HOUR"),
    "day": ("d", "d64", "CAST(ts AS DATE)", "last_day(d)"),
    "clock": ("t", "t32"),
    "bytes": ("y", "fb", "lb", "CAST(s AS BLOB)"),
    "list": ("l", "list_sort(l)", "[n, 1]", "list_transform(l, lambda x: x + n)"),
    "span": ("du", "dms", "du + INTERVAL 1 SECOND", "ts - TIMESTAMP '2024-02-29'"),
    "uuid": ("key",),
    "nested": ("ll", "ls", "m", "st", "vec", "map_keys(m)", "list_concat(ll, [[n]])"),
}


NESTED = (
    *("[]", "[[1], NULL]", "[{'x': 1, 'w': 'a'}]", "MAP {'a': 1}", "{'x': 1, 'w': 'a'}"),
    *("[0.0, 1.0]::FLOAT[2]", "['a']", "NULL"),
)


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def make_rows(rng: Random, count: int) -> pa.Table:
    arrays = {"k": pa.array(range(count), pa.int64())}
    for name, (kind, make) in COLUMNS.items():
        drawn = [None if rng.random() < 0.15 else make(rng) for _ in range(count)]
        plain = kind.value_type if pa.types.is_dictionary(kind) else kind
        array = pa.array(drawn, plain)
        arrays[name] = array.dictionary_encode().cast(kind) if plain != kind else array
    return pa.table(arrays)


class Draw:
    """Draws texts; parameters that they name are collected."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.parameters: dict[str, Any] = {}

    def condition(self, depth: int = 2) -> str:
        rng = self.rng
        if depth and rng.random() < 0.45:
            left, right = self.condition(depth - 1), self.condition(depth - 1)
            return f"({left} {rng.choice(('AND', 'AND', 'OR'))} {right})"
        if depth and rng.random() < 0.12:
            return f"NOT ({self.condition(depth - 1)})"
        return rng.choice((self._compared, self._compared, self._tested))()

    def expression(self) -> str:
        rng = self.rng
        choices = (
            lambda: self.value(rng.choice(list(KINDS)), 2),
            lambda: self.condition(1),
            lambda: (
                f"CASE WHEN {self.condition(1)} THEN {self.number(1)} ELSE {self.number(1)} END"
            ),
            lambda: f"{{'a': {self.number(1)}, 'b': {self.text(1)}}}",
            lambda: f"TRY({self.number(2)})",
        )
        return rng.choice(choices)()

    def value(self, kind: str, depth: int) -> str:
        if kind == "number":
            return self.number(depth)
        if kind == "text":
            return self.text(depth)
        if self.rng.random() < 0.3:
            return self.constant(kind)
        return self.rng.choice(KINDS[kind])

    def number(self, depth: int) -> str:
        rng = self.rng
        if depth and rng.random() < 0.4:
            left, right = self.number(depth - 1), self.number(depth - 1)
            return rng.choice(
                (
                    f"({left} {rng.choice('+-*/%')} {right})",
                    f"({left} // {right})",
                    f"abs({left})",
                    f"coalesce({left}, {right})",
                    f"greatest({left}, {right})",
                    f"round({left}, 1)",
                    f"TRY_CAST({self.text(0)} AS INTEGER)",
                    f"year({rng.choice(KINDS['moment'])})",
                    f"nullif({left}, {right})",
                    f"strpos({self.text(0)}, 'b')",
                )
            )
        return rng.choice(KINDS["number"]) if rng.random() < 0.7 else self.constant("number")

    def text(self, depth: int) -> str:
        rng = self.rng
        if depth and rng.random() < 0.4:
            inner = self.text(depth - 1)
            return rng.choice(
                (
                    f"lower({inner})",
                    f"({inner} || {self.text(0)})",
                    f"substring({inner}, {rng.randint(-2, 3)}, 2)",
                    f"replace({inner}, 'a', 'é')",
                    f"reverse({inner})",
                    f"regexp_replace({inner}, '[ab]', '<\\0>')",
                    f"strftime({rng.choice(('ts', 'd'))}, '%Y-%j')",
                )
            )
        return rng.choice(KINDS["text"]) if rng.random() < 0.7 else self.constant("text")

    def constant(self, kind: str) -> str:
        rng = self.rng
        if rng.random() < 0.05:
            return "NULL"
        if rng.random() < 0.15:
            return self._parameter(kind)
        match kind:
            case "number":
                return rng.choice(
                    ("0", "1", "3", "-1", "0.1", "1.5", "1e2", "1000", "2.50", "-0.0")
                )
            case "text":
                return quoted(rng.choice(WORDS))
            case "bytes":
                return rng.choice(("'a'::BLOB", "'\\xFF\\x00'::BLOB", "''::BLOB"))
            case "list":
                return rng.choice(("[1, 2]", "[]", "[NULL, 3]"))
            case "clock":
                return f"TIME '{rng.choice(CLOCKS)}'"
            case "span":
                return (
                    f"INTERVAL '{rng.choice(('0 s', '1 s', '-1 s', '1 day', '24 h', '1 month'))}'"
                )
            case "uuid":
                return f"'{rng.choice(KEYS)}'{rng.choice(('', '::UUID'))}"
            case "nested":
                return rng.choice(NESTED)
            case "day":
                return f"DATE '{rng.choice(DAYS)}'"
            case "zoned":
                return f"'{rng.choice(MOMENTS)}{rng.choice(('', 'Z', '+02:00'))}'"
        return rng.choice((f"'{rng.choice(MOMENTS)}'", f"TIMESTAMP '{rng.choice(MOMENTS)}'"))

    def _parameter(self, kind: str) -> str:
        name = f"p{len(self.parameters)}"
        values: Mapping[str, Sequence[Any]] = {
            "number": (1, 3, -1, 0.5, Decimal("2.50"), 2**40),
            "text": WORDS,
            "bytes": (b"a", b"\xff\0"),
            "list": ([1, 2], [], [None, 3]),
            "clock": CLOCKS,
            "span": SPANS,
            "uuid": KEYS,
            "nested": ([[1]], []),
            "day": DAYS,
            "zoned": [each.replace(tzinfo=dt.UTC) for each in MOMENTS],
            "moment": MOMENTS,
        }
        self.parameters[name] = self.rng.choice(values[kind])
        return f"${name}"

    def _compared(self) -> str:
        rng = self.rng
        kind = rng.choice(("number", "number", "text", "text", *KINDS))
        left = rng.choice(KINDS[kind]) if rng.random() < 0.7 else self.value(kind, 2)
        op = rng.choice(
            ("=", "<>", "<", "<=", ">", ">=", "IN", "NOT IN", "BETWEEN", "LIST", "SAME")
        )
        if op in ("IN", "NOT IN"):
            members = ", ".join(self.constant(kind) for _ in range(rng.randint(1, 3)))
            return f"{left} {op} ({members})"
        if op == "BETWEEN":
            return f"{left} BETWEEN {self.constant(kind)} AND {self.value(kind, 1)}"
        if op == "LIST" and kind in ("number", "text"):
            name = f"p{len(self.parameters)}"
            values = (
                (*SMALL, *range(1000, 1200))
                if kind == "number"
                else (*WORDS, *map(str, range(150)))
            )
            self.parameters[name] = list(values[: rng.choice((2, 5, len(values)))])
            return f"{left} IN ${name}"
        if op == "SAME":
            word = rng.choice(("IS DISTINCT FROM", "IS NOT DISTINCT FROM"))
            return f"{left} {word} {self.constant(kind)}"
        op = "=" if op == "LIST" else op
        right = self.constant(kind) if rng.random() < 0.75 else self.value(kind, 1)
        return f"{left} {op} {right}" if rng.random() < 0.9 else f"{right} {op} {left}"

    def _tested(self) -> str:
        rng = self.rng
        name = rng.choice([*COLUMNS, "st.x", "st.w"])
        pattern = rng.choice(("a%", "ab%", "%b", "_b%", "A\\%%", "%'%", "%", "a", "é%", "it''s%"))
        pattern = pattern.replace("''", "'")
        escaped = rng.choice(("a!%", "%!%", "!_%", "b!_c", "!!%", "%", "a%"))
        return rng.choice(
            (
                f"{name} IS NULL",
                f"{name} IS NOT NULL",
                "b",
                "NOT b",
                "b IS TRUE",
                "b = false",
                "b IS NOT FALSE",
                f"{rng.choice(KINDS['text'])} LIKE {quoted(pattern)}",
                f"s NOT LIKE {quoted(pattern)}",
                f"s LIKE {quoted(pattern)} ESCAPE '\\'",
                f"large ILIKE {quoted(pattern)}",
                f"{rng.choice(('s', 'kind', 'large'))} NOT LIKE {quoted(escaped)} ESCAPE '!'",
                f"st.w NOT ILIKE {quoted(pattern)}",
                f"s SIMILAR TO {quoted(rng.choice(('a|b.*', '[^a]+', '(ab)?')))}",
                f"s GLOB {quoted(rng.choice(('a*', '?b*', '[a-c]*')))}",
                f"map_contains(m, {rng.choice(KINDS['text'])})",
                "m['b'] IS NULL",
                f"ls[1].x = {rng.choice(('n', '1', 'NULL'))}",
                'deep."in" IS NULL',
                f"len(list_filter(ll, lambda x: len(x) > {rng.randint(0, 1)})) > 0",
                f"array_distance(vec, [1.0, 0.0]::FLOAT[2]) {rng.choice('<>=')} 0.1",
                f"du {rng.choice('<>=')} ts - ms",
                f"starts_with(s, {quoted(rng.choice(WORDS))})",
                f"list_contains(l, {rng.choice((1, 2, 'n', 'NULL'))})",
                "isnan(f)",
                "n IN l",
                f"regexp_matches(s, {quoted(rng.choice(('^a', 'b$', '[é日]')))})",
                "l[1] = 1",
                "len(list_filter(l, lambda x: x > n)) > 0",
                rng.choice(("TRUE", "FALSE", "NULL", "1 = 1")),
            )
        )
