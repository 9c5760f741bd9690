"""Random SQL text: from a grammar, from a bag of tokens, deep, long, or of odd characters."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

_COLUMNS = ("id", "s", "f", "b", "t", "d", "n", "l", "st", "st.x", "st.y.z", "raw", '"odd name"')
_LITERALS = (
    "0",
    "1",
    "-1",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775808",
    "18446744073709551616",
    "1e400",
    "1e-400",
    "0.1",
    "1" * 80,
    "0." + "1" * 80,
    "''",
    "'a''b'",
    "'%'",
    "'[('",
    "NULL",
    "TRUE",
    "x'00ff'",
    "x'0'",
    "DATE '2020-01-01'",
    "DATE '99999-01-01'",
    "TIMESTAMP '2020-01-01 00:00:00'",
    "INTERVAL '1' DAY",
    "INTERVAL 999999999999 YEAR",
    "[1, 2]",
    "[]",
    "{'a': 1}",
    "$p",
    "$q",
    "?",
    "$nope",
)


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_BINARY = _words("+ - * / % || = <> < <= > >= AND OR & | ^ << >> IS LIKE ILIKE ~ // ** ->")
_FUNCTIONS = _words(
    "abs ceil floor round sqrt ln exp power sign lower upper trim ltrim rtrim length substring "
    "concat replace reverse lpad rpad repeat left right strpos position contains starts_with "
    "ends_with regexp_matches regexp_replace split_part coalesce nullif greatest least if ifnull "
    "year month day hour minute second date_trunc date_part date_diff extract strftime now "
    "len list_contains array_length element_at list_value struct_extract cast try_cast typeof "
    "list_transform list_filter json_extract struct_pack list_sort map to_days age random sleep_ms "
    "hash md5 count sum min max row_number nope"
)
_TYPES = _words(
    "INT BIGINT TINYINT UBIGINT HUGEINT FLOAT DOUBLE VARCHAR BOOLEAN DATE TIMESTAMP TIMESTAMPTZ "
    "DECIMAL(10,2) DECIMAL(99,99) DECIMAL(38,38) BLOB INT[] STRUCT(a_INT) MAP(INT,INT) TIME UUID "
    "nope INTERVAL VARCHAR(3) INT[3]"
)
_TOKENS = (
    *_COLUMNS,
    *_LITERALS,
    *_BINARY,
    *_FUNCTIONS,
    *_words(
        "( ) [ ] { } , . ; : :: -- /* */ ' \" ` CASE WHEN THEN ELSE END NOT IN BETWEEN EXISTS "
        "SELECT FROM WHERE WITH UNION OVER PARTITION BY FILTER DISTINCT ANY ALL ESCAPE COLLATE AT "
        "TIME ZONE QUALIFY VALUES LAMBDA @ # $ $1 $$ \\ ! != == => := ... * COLUMNS(*) #1"
    ),
    "\n",
    "\t",
    "\0",
)
_ODD = "\u0000\u00a0\u2028\u202e\ufeff\ud800\U0001f600é中\\'\"`;/*-"


def random_sql(rng: Random) -> str:
    """One text; the same ``Random`` gives the same."""
    return rng.choices((_grammar, _soup, _broken, _deep, _long, _odd), (6, 4, 4, 1, 1, 1))[0](rng)


def _grammar(rng: Random) -> str:
    return _expression(rng, rng.choice((1, 2, 3, 4)))


def _soup(rng: Random) -> str:
    return rng.choice((" ", "")).join(rng.choice(_TOKENS) for _ in range(rng.randrange(1, 15)))


def _broken(rng: Random) -> str:
    """A sentence of the grammar with tokens lost, doubled, or put in."""
    words = _grammar(rng).split(" ")
    for _ in range(rng.choice((1, 1, 2, 3))):
        at = rng.randrange(len(words))
        words[at : at + rng.randrange(2)] = [rng.choice((*_TOKENS, *words))]
    return " ".join(words)


def _deep(rng: Random) -> str:
    depth = rng.choice((20, 31, 33, 90, 110, 1_000, 20_000))
    before, after, core = rng.choice(
        (
            ("(", ")", "id"),
            ("NOT ", "", "b"),
            ("-", "", "id"),
            ("- ", "", "id"),
            ("[", "]", "1"),
            ("abs(", ")", "id"),
            ("CASE WHEN b THEN ", " ELSE 1 END", "1"),
            ("CAST(", " AS BIGINT)", "id"),
            ("{'a': ", "}", "1"),
            ("(SELECT ", ")", "1"),
            ("id + ", "", "1"),
            ("s || ", "", "s"),
            ("b AND (b OR ", ")", "b"),
            ("id IN (", ")", "1"),
            ("", "::BIGINT", "id"),
            ("", ".x", "st"),
            ("", "[1]", "l"),
            ("", " IS NULL", "b"),
            ("", " -> x", "st"),
            ("x -> ", "", "1"),
            ("/*", "*/", ""),
            ("", " BETWEEN 1 AND 2", "id"),
            ("", " COLLATE x", "s"),
        )
    )
    text = before * depth + core + after * rng.choice((depth, depth, depth - 1))
    return text if rng.random() < 0.7 else f"{text} = {rng.choice(_LITERALS)}"


def _long(rng: Random) -> str:
    many = rng.choice((300, 3_000, 30_000))
    return rng.choice(
        (
            lambda: "id IN (" + ", ".join(map(str, range(many))) + ")",
            lambda: " OR ".join(f"id = {n}" for n in range(many)),
            lambda: " AND ".join(["b"] * many),
            lambda: " + ".join(["id"] * many),
            lambda: "s = '" + "x" * many * 3 + "'",
            lambda: "id = " + "9" * many,
            lambda: "f = 1e" + "9" * many,
            lambda: "x" * many + " = 1",
            lambda: "concat(" + ", ".join(["s"] * (many // 4)) + ")",
            lambda: "CASE " + "WHEN b THEN 1 " * many + "END",
            lambda: "s LIKE '" + "%_" * many + "'",
            lambda: "regexp_matches(s, '" + "(" * many + "')",
            lambda: "regexp_matches(s, '(a{1000}){1000}')",
            lambda: "-- " + "x" * many,
        )
    )()


def _odd(rng: Random) -> str:
    text = _grammar(rng)
    for _ in range(rng.randrange(1, 5)):
        at = rng.randrange(len(text) + 1)
        text = text[:at] + rng.choice(_ODD) + text[at:]
    return text


def _expression(rng: Random, depth: int) -> str:
    if depth <= 0 or rng.random() < 0.15:
        return rng.choice(_COLUMNS) if rng.random() < 0.6 else rng.choice(_LITERALS)

    def inner() -> str:
        return _expression(rng, depth - 1)

    shapes: tuple[Callable[[], str], ...] = (
        lambda: f"{inner()} {rng.choice(_BINARY)} {inner()}",
        lambda: f"{inner()} {rng.choice(_BINARY)} {inner()}",
        lambda: f"({inner()})",
        lambda: f"NOT {inner()}",
        lambda: f"- {inner()}",
        lambda: f"{rng.choice(_FUNCTIONS)}({', '.join(inner() for _ in range(rng.randrange(4)))})",
        lambda: f"{rng.choice(_FUNCTIONS)}({', '.join(inner() for _ in range(rng.randrange(4)))})",
        lambda: f"{inner()} IS NOT NULL",
        lambda: f"{inner()} IN ({inner()}, {inner()})",
        lambda: f"{inner()} BETWEEN {inner()} AND {inner()}",
        lambda: f"{inner()} LIKE {inner()} ESCAPE {inner()}",
        lambda: f"CASE WHEN {inner()} THEN {inner()} ELSE {inner()} END",
        lambda: f"CASE {inner()} WHEN {inner()} THEN {inner()} END",
        lambda: f"CAST({inner()} AS {rng.choice(_TYPES)})",
        lambda: f"TRY_CAST({inner()} AS {rng.choice(_TYPES)})",
        lambda: f"{inner()}::{rng.choice(_TYPES)}",
        lambda: f"EXTRACT({rng.choice(('year', 'dow', 'epoch', 'nope'))} FROM {inner()})",
        lambda: f"{inner()}[{inner()}]",
        lambda: f"({inner()}).{rng.choice(('x', 'y', 'nope'))}",
        lambda: f"POSITION({inner()} IN {inner()})",
        lambda: f"SUBSTRING({inner()} FROM {inner()} FOR {inner()})",
        lambda: f"TRIM(BOTH {inner()} FROM {inner()})",
        lambda: f"{inner()} AT TIME ZONE {inner()}",
    )
    return rng.choice(shapes)()
