"""Random queries in Spark's SQL over the relations of ``pushed_scene``.

A relation is written ``#name#``: whoever asks puts the name of a view there. No answer depends on
an order of rows that the query does not give, on an order of additions, or on which zero is met
first. No query fails.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from tests.spark.pushed_scene import LABELS, PHOTOS, WORDS

_COMPARISONS = ("=", "<>", "<", "<=", ">", ">=", "<=>")
_JOINS = ("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN")
_ONE_SIDED = ("LEFT SEMI JOIN", "LEFT ANTI JOIN")
_BRANCHES = 6

_FLOATS = (
    *("0D", "-0D", "0.1D", "0.1", "0.5", "float('0.1')", "-2.5", "1e300", "100", "5e-324D"),
    *("double('NaN')", "float('NaN')", "double('Infinity')", "double('-Infinity')"),
)
_INTEGERS = ("0", "1", "3", "-1", "2.5", "127", "128", "2147483648", "9223372036854775807", "3D")
_DECIMALS = ("0", "0.5", "1.50", "1.505", "-0.05", "99999999.99", "0.5D", "1e36", "CAST(-1 AS INT)")
_DAYS = (
    *("DATE '2024-02-29'", "DATE '1582-10-04'", "'2024-03-10'", "DATE '9999-01-01'"),
    *("TIMESTAMP '2024-03-10 00:00:00'", "TIMESTAMP_NTZ '2024-02-29 00:00:01'"),
)
_MOMENTS = (
    "TIMESTAMP '2024-03-10 10:00:00'",
    "TIMESTAMP '2024-03-10 02:30:00 UTC'",
    "TIMESTAMP '2024-11-03 01:30:00 America/Los_Angeles'",
    "TIMESTAMP_NTZ '2024-03-10 02:30:00'",
    "'2024-11-03 01:30:00'",
    "'2024-03-10T01:59:59.999999Z'",
    "DATE '2024-02-29'",
    "TIMESTAMP '1969-12-31 23:59:59.000001+00:00'",
)
_BYTES = ("X''", "X'00'", "X'FF01'", "X'636174'", "CAST('cat' AS BINARY)")
_NUMBERS = ("k", "tiny", "n", "u", "extra", "id", "box.inside.z", "get(spots, 0).a", "size(tags)")
_REALS = ("f", "d", "box.x", "get(vector, 1)", "get(vector, 2)")
_TEXTS = ("label", "word", "box.y", "get(tags, 0)", "get(spots, 1).b")
_KINDS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "number": (_NUMBERS, _INTEGERS),
    "real": (_REALS, _FLOATS),
    "decimal": (("price", "vast", "uu"), _DECIMALS),
    "day": (("day", "box.inside.day"), _DAYS),
    "moment": (("moment", "second", "clock"), _MOMENTS),
    "bytes": (("raw",), _BYTES),
}
"""Columns, and the values that they are compared with."""
_SHOWN = (
    *(*_NUMBERS, *_REALS, *_TEXTS, "price", "vast", "uu", "day", "moment", "second", "clock"),
    *("raw", "ok", "box", "tags", "spots", "vector", "box.inside", "box.inside.day"),
)
_KEYS = ("k", "label", "word", "f", "d", "price", "day", "moment", "ok", "raw", "box.y", "tiny")
_GROUPS = (*_KEYS, "date_trunc('DAY', moment)", "year(day)", "tags", "box.inside", "uu")
_AGGREGATES = (
    "count(*)",
    "count({t}label)",
    "count(DISTINCT {t}d)",
    "count(DISTINCT {t}k, {t}ok)",
    "sum({t}k)",
    "sum({t}price)",
    "sum({t}f)",
    "avg({t}k)",
    "max({t}d) + 0D",
    "min({t}d) + 0D",
    "max({t}f) + 0D",
    "min({t}box.x) + 0D",
    "max({t}label)",
    "min({t}raw)",
    "max({t}moment)",
    "min({t}clock)",
    "max({t}uu)",
    "min({t}price)",
    "max({t}n)",
    "min({t}day)",
    "bool_or({t}ok)",
    "bit_xor({t}n)",
    "sort_array(collect_set({t}word))",
    "max({t}tags)",
    "count_if({t}k > 2)",
    "sum({t}k) FILTER (WHERE {t}ok)",
)


def quoted(text: str) -> str:
    """A text as a literal of Spark's SQL."""
    for plain, escaped in (("\\", "\\\\"), ("'", "\\'"), ("\n", "\\n"), ("\x00", "\\0")):
        text = text.replace(plain, escaped)
    return f"'{text}'"


@dataclass(frozen=True)
class Query:
    """A text, and whether it says the order of every row of its answer."""

    text: str
    is_sorted: bool


class PushedQueries:
    """The same queries for the same seed."""

    def __init__(self, seed: int) -> None:
        self._rng = Random(seed)

    def draw(self) -> Query:
        shape = self._rng.choice(
            (
                self._rows,
                self._rows,
                self._whole,
                self._aggregate,
                self._grouped,
                self._distinct,
                self._sorted,
                self._sorted,
                self._united,
                self._many,
                self._joined,
                self._joined,
                self._compared,
                self._window,
                self._twice,
                self._exploded,
                self._counted,
            )
        )
        return Query(shape(), is_sorted=shape == self._sorted)

    def _photos(self) -> str:
        """A relation, the one with the longest life more often."""
        return f"#{self._rng.choice((*PHOTOS, 'photos', 'photos'))}#"

    def _rows(self) -> str:
        return f"SELECT {self._shown()} FROM {self._photos()} WHERE {self.condition()}"

    def _whole(self) -> str:
        where = self._rng.choice(("", f" WHERE {self.condition()}", f" WHERE {self.condition()}"))
        return f"SELECT * FROM {self._photos()}{where}"

    def _aggregate(self) -> str:
        return f"SELECT {self._aggregates()} FROM {self._photos()}{self._maybe_where()}"

    def _grouped(self) -> str:
        keys = ", ".join(self._some(_GROUPS, 2))
        having = self._rng.choice(("", "", " HAVING count(*) > 1", " HAVING max(d) > 0.1"))
        return (
            f"SELECT {keys}, {self._aggregates()} FROM {self._photos()}{self._maybe_where()} "
            f"GROUP BY {keys}{having}"
        )

    def _distinct(self) -> str:
        return (
            f"SELECT DISTINCT {', '.join(self._some(_KEYS, 3))} FROM {self._photos()}"
            f"{self._maybe_where()}"
        )

    def _sorted(self) -> str:
        """Sorted to the last row: the id is the last of the keys."""
        rng = self._rng
        order = ("", " DESC", " NULLS LAST", " DESC NULLS FIRST")
        keys = [f"{each}{rng.choice(order)}" for each in self._some(_KEYS, 2)]
        offset = rng.choice(("", "", " OFFSET 3"))
        return (
            f"SELECT id, {self._shown()} FROM {self._photos()}{self._maybe_where()} "
            f"ORDER BY {', '.join(keys)}, id{rng.choice(('', ' DESC'))} "
            f"LIMIT {rng.choice((0, 1, 5, 20, 1000))}{offset}"
        )

    def _united(self) -> str:
        """Branches of one relation, or of two, each with a filter of its own."""
        rng, columns = self._rng, ", ".join(self._some(_KEYS, 2))
        one = self._photos()
        relations = [one, one, self._photos()][: rng.choice((2, 2, 3))]
        kind = rng.choice(("UNION ALL", "UNION ALL", "UNION", "INTERSECT", "EXCEPT"))
        branches = [f"SELECT {columns} FROM {each}{self._maybe_where()}" for each in relations]
        return f" {kind} ".join(branches)

    def _many(self) -> str:
        """Many conditions on one relation at once."""
        relation = self._photos()
        return " UNION ALL ".join(
            f"SELECT {number} AS at, id FROM {relation} WHERE {self.condition()}"
            for number in range(_BRANCHES)
        )

    def _joined(self) -> str:
        rng = self._rng
        left, kind = self._photos(), rng.choice(_JOINS)
        is_self = rng.random() < 0.4
        right = rng.choice((left, self._photos())) if is_self else f"#{LABELS}#"
        keys = ("k", "label", "d", "price") + (("id", "moment", "box.y") if is_self else ())
        key = rng.choice(keys)
        equal = rng.choice(("=", "=", "=", "<=>"))
        on = [f"a.{key} {equal} b.{key}"]
        if rng.random() < 0.5:
            on.append(self.condition("a."))
        if is_self and rng.random() < 0.5:
            on.append(self.condition("b."))
        shown = [f"a.{each}" for each in self._some(("id", *_KEYS), 3)]
        where = self.condition("a.")
        if kind not in _ONE_SIDED:
            shown += ["b.k", "b.label", "b.d"]
            where = rng.choice((where, "b.k > 2", f"{where} OR b.d IS NULL"))
        what = ", ".join(f"{each} AS c{at}" for at, each in enumerate(shown))
        text = f"FROM {left} a {kind} {right} b ON {' AND '.join(on)} WHERE {where}"
        return f"SELECT {rng.choice((what, 'count(*)', what))} {text}"

    def _compared(self) -> str:
        """With the answer of another query: a number, a list, whether there is one."""
        rng = self._rng
        inner = rng.choice((self._photos(), f"#{LABELS}#"))
        where = self.condition("q.") if inner != f"#{LABELS}#" else "q.k > 1 OR q.d > 0"
        source = f"FROM {inner} q WHERE {where}"
        condition = rng.choice(
            (
                f"p.k < (SELECT count(*) {source})",
                f"p.d >= (SELECT max(q.d) {source})",
                f"p.d = (SELECT min(q.d) {source})",
                f"p.k IN (SELECT q.k {source})",
                f"p.label NOT IN (SELECT q.label {source} AND q.label IS NOT NULL)",
                f"p.k NOT IN (SELECT q.k {source})",
                f"EXISTS (SELECT 1 {source} AND q.k = p.k)",
                f"NOT EXISTS (SELECT 1 {source} AND q.label = p.label)",
            )
        )
        more = rng.choice(("", f" AND {self.condition('p.')}", f" OR {self.condition('p.')}"))
        scalar = rng.choice(("p.d", "p.label", f"(SELECT count(*) {source})"))
        return f"SELECT p.id, {scalar} AS c FROM {self._photos()} p WHERE {condition}{more}"

    def _window(self) -> str:
        rng = self._rng
        function = rng.choice(
            (
                "row_number()",
                "sum(k)",
                "max(d)",
                "lag(label)",
                "first_value(price)",
                "count(ok)",
                "rank()",
            )
        )
        over = f"PARTITION BY {rng.choice(_KEYS)} ORDER BY {rng.choice(('k', 'day', 'label'))}, id"
        inner = (
            f"SELECT id, k, label, {function} OVER ({over}) AS w FROM {self._photos()}"
            f"{self._maybe_where()}"
        )
        outer = rng.choice(("", " WHERE k > 2", " WHERE w IS NOT NULL", " WHERE label = 'cat'"))
        return f"SELECT * FROM ({inner}){outer}"

    def _twice(self) -> str:
        """A common table that is read with two filters."""
        one, two = self.condition("x."), self.condition("y.")
        return (
            f"WITH some AS (SELECT * FROM {self._photos()}{self._maybe_where()}) "
            f"SELECT x.id, y.id, y.label FROM some x JOIN some y ON x.k = y.k "
            f"WHERE ({one}) AND ({two})"
        )

    def _exploded(self) -> str:
        if self._rng.random() < 0.5:
            return (
                f"SELECT id, tag FROM {self._photos()} LATERAL VIEW OUTER explode(tags) AS tag "
                f"WHERE {self.condition()}"
            )
        return (
            f"SELECT spot.b, count(*), max(spot.a) FROM {self._photos()} "
            f"LATERAL VIEW explode(spots) AS spot{self._maybe_where()} GROUP BY spot.b"
        )

    def _counted(self) -> str:
        rng = self._rng
        if rng.random() < 0.4:
            inner = f"SELECT {self._shown()} FROM {self._photos()}{self._maybe_where()}"
            return f"SELECT count(*) FROM ({inner} LIMIT {rng.choice((1, 7, 50))})"
        return f"SELECT count(*) FROM {self._photos()}{self._maybe_where()}"

    def _some(self, values: tuple[str, ...], most: int) -> list[str]:
        return self._rng.sample(values, self._rng.randint(1, most))

    def _shown(self) -> str:
        shown = self._some(_SHOWN, 4)
        if self._rng.random() < 0.3:
            shown.append(f"({self._atom('')})")
        return ", ".join(f"{each} AS c{at}" for at, each in enumerate(shown))

    def _aggregates(self) -> str:
        texts = [each.format(t="") for each in self._some(_AGGREGATES, 4)]
        return ", ".join(f"{each} AS a{at}" for at, each in enumerate(texts))

    def _maybe_where(self) -> str:
        return f" WHERE {self.condition()}" if self._rng.random() < 0.75 else ""

    def condition(self, prefix: str = "") -> str:
        """One to three atoms under AND, OR and NOT, in brackets where there is more than one."""
        rng = self._rng
        parts = []
        for _ in range(rng.choice((1, 1, 2, 2, 3))):
            atom = self._atom(prefix)
            parts.append(f"NOT ({atom})" if rng.random() < 0.2 else atom)
        text = parts[0]
        for each in parts[1:]:
            text = f"({text} {rng.choice(('AND', 'AND', 'OR'))} {each})"
        return f"NOT {text}" if len(parts) > 1 and rng.random() < 0.15 else text

    def _atom(self, prefix: str) -> str:
        rng = self._rng
        kind = rng.choice((*_KINDS, "text", "text", "null", "flag", "function", "columns"))
        if kind == "text":
            return self._of_text(f"{self._at(prefix, rng.choice(_TEXTS))}")
        if kind == "null":
            column = self._at(prefix, rng.choice(_SHOWN))
            return f"{column} IS {rng.choice(('', 'NOT '))}NULL"
        if kind == "flag":
            ok = f"{prefix}ok"
            tests = ("{}", "NOT {}", "{} = TRUE", "{} IS NOT TRUE", "{} IS FALSE", "{} <=> NULL")
            return rng.choice(tests).format(ok)
        if kind in ("function", "columns"):
            texts = _FUNCTIONS if kind == "function" else _BETWEEN_COLUMNS
            return rng.choice(texts).format(t=prefix)
        columns, values = _KINDS[kind]
        return self._of_values(self._at(prefix, rng.choice(columns)), values)

    def _at(self, prefix: str, column: str) -> str:
        """``get(tags, 0)`` of ``a`` is ``get(a.tags, 0)``."""
        head, bracket, rest = column.partition("(")
        return f"{head}({prefix}{rest}" if bracket else f"{prefix}{column}"

    def _of_values(self, column: str, values: tuple[str, ...]) -> str:
        rng = self._rng
        one, two = rng.choice(values), rng.choice(values)
        kind = rng.random()
        if kind < 0.6:
            comparison = rng.choice(_COMPARISONS)
            sides = (column, one) if rng.random() < 0.8 else (one, column)
            return f"{sides[0]} {comparison} {sides[1]}"
        if kind < 0.75:
            return f"{column} {rng.choice(('', 'NOT '))}BETWEEN {one} AND {two}"
        if kind < 0.95:
            among = self._some((*values, "NULL"), 4)
            return f"{column} {rng.choice(('', 'NOT '))}IN ({', '.join(among)})"
        return f"{column} IS {rng.choice(('', 'NOT '))}DISTINCT FROM {one}"

    def _of_text(self, column: str) -> str:
        rng = self._rng
        word = quoted(rng.choice(WORDS))
        kind = rng.random()
        if kind < 0.35:
            return f"{column} {rng.choice(_COMPARISONS)} {word}"
        if kind < 0.55:
            count = rng.choice((1, 3, 14))
            among = [quoted(each) for each in rng.sample(WORDS, count)]
            among += ["NULL"] * (rng.random() < 0.2)
            return f"{column} {rng.choice(('', 'NOT '))}IN ({', '.join(among)})"
        if kind < 0.65:
            return f"{column} BETWEEN {word} AND {quoted(rng.choice(WORDS))}"
        if kind < 0.9:
            pattern = rng.choice(_PATTERNS)
            return f"{column} {rng.choice(('', '', 'NOT '))}LIKE {quoted(pattern)}"
        return rng.choice(
            (f"{column} RLIKE '^[cd]'", f"{column} ILIKE 'CA%'", f"startswith({column}, {word})")
        )


_PATTERNS = ("c%", "%g", "%a%", "%'%", "50\\%", "a\\_b", "a_b", "%é", "日%", "🦊", "", "%", "_o_")
_FUNCTIONS = (
    "upper({t}label) = 'DOG'",
    "length({t}label) > 2",
    "coalesce({t}k, 3) = 3",
    "{t}k + 1 > 3",
    "{t}id % 4 = 1",
    "isnan({t}d)",
    "NOT isnan({t}f)",
    "nanvl({t}d, 0) > 0",
    "abs({t}f) >= 0.5",
    "hour({t}moment) = 2",
    "date({t}moment) = DATE '2024-03-10'",
    "CAST({t}moment AS DATE) < {t}day",
    "year({t}day) = 2024",
    "CAST({t}d AS FLOAT) = {t}f",
    "CAST({t}k AS STRING) = '3'",
    "array_contains({t}tags, 'cat')",
    "exists({t}spots, s -> s.a = 1)",
    "{t}box = named_struct('x', 1.5D, 'y', 'cat', 'inside', NULL)",
    "{t}tags = array('cat')",
    "CASE WHEN {t}k > 2 THEN {t}ok ELSE {t}f > 0 END",
    "if({t}ok, {t}k, {t}tiny) = 3",
    "-{t}d < 0.5",
    "{t}price * 2 = 3",
    "concat({t}label, {t}word) = 'catdog'",
    "hash({t}label) % 2 = 0",
    "FALSE",
    "TRUE",
    "CAST(NULL AS BOOLEAN)",
)
_BETWEEN_COLUMNS = (
    "{t}k = {t}tiny",
    "{t}d > {t}f",
    "{t}d <= {t}box.x",
    "{t}f <=> {t}box.x",
    "{t}moment > {t}clock",
    "{t}second = {t}moment",
    "{t}day <= {t}clock",
    "{t}label = {t}box.y",
    "{t}label <> {t}word",
    "{t}price < {t}k",
    "{t}uu >= {t}n",
    "{t}u = {t}n",
    "get({t}tags, 0) = {t}word",
    "{t}k IN ({t}tiny, {t}extra, 2)",
)
