"""Expressions of a query in DuckDB's SQL, with the types that they have in Spark.

What is not known to mean the same is refused (``typed.only_spark``). One SELECT is compiled by its
scope; subqueries are left to the caller.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from lancewood.errors import InvalidInputError
from lancewood.query import aggregates, functions
from lancewood.query import functions as operators
from lancewood.query import literals as moments
from lancewood.query.clauses import called, check_grouping, is_only_tested
from lancewood.query.diffs import NAME as DIFF
from lancewood.query.kinds import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    MOMENT,
    NULL,
    SMALLINT,
    TEXT,
    duckdb_type,
    is_comparable,
    is_floating,
    is_number,
    type_name,
)
from lancewood.query.literals import (
    bytes_constant,
    number_constant,
    text_constant,
    value_constant,
    written_kind,
)
from lancewood.query.scopes import Aliases, Scope
from lancewood.query.text import SUFFIX
from lancewood.query.typed import Typed, cast, checked, null, only_spark, together

_COMPARISONS = {
    "EQ": "=",
    "NEQ": "<>",
    "LT": "<",
    "LTE": "<=",
    "GT": ">",
    "GTE": ">=",
    "NullSafeEQ": "IS NOT DISTINCT FROM",
    "NullSafeNEQ": "IS DISTINCT FROM",
}
_ARITHMETIC = {"Add": "+", "Sub": "-", "Mul": "*", "Div": "/", "Mod": "%", "IntDiv": "div"}
_LONGEST = 1_000_000
"""The longest expression in DuckDB's SQL, where a part may be repeated."""

CompileQuery = Callable[[Any, Scope | None], tuple[str, tuple[pa.DataType, ...]]]
"""A query inside an expression: its SQL, and the types of its columns."""


class Expressions:
    """Compiles the expressions of one SELECT."""

    def __init__(self, scope: Scope, compile_query: CompileQuery, args: Mapping[str, Any]) -> None:
        self.scope = scope
        self._compile_query = compile_query
        self._args = args
        self._aliases = Aliases.NEVER
        self._keys: Mapping[str, str] | None = None
        """What is grouped by, and what stands for it; None where rows are not grouped."""
        self._is_inside = False
        """Whether this is the argument of a function over rows."""

    @contextmanager
    def where(
        self, aliases: Aliases = Aliases.NEVER, keys: Mapping[str, str] | None = None
    ) -> Iterator[None]:
        """Inside the block, use these aliases of SELECT, and group rows by these keys."""
        before = self._aliases, self._keys
        self._aliases, self._keys = aliases, keys
        try:
            yield
        finally:
            self._aliases, self._keys = before

    def condition(self, node: Any, what: str) -> str:
        """An expression that has to be true or false."""
        return checked(self.compile(node), BOOLEAN, what).sql

    def compile(self, node: Any) -> Typed:
        """Compile one expression; raises UnsupportedError, InvalidInputError."""
        found = None
        if self._keys is not None and not self._is_inside:
            found = self._as_key(node, self._keys)
        found = self._compiled(node) if found is None else found
        if len(found.sql) > _LONGEST:
            raise only_spark("such a long or deep expression")
        return found

    def _as_key(self, node: Any, keys: Mapping[str, str]) -> Typed | None:
        """The expression, if it is one that rows are grouped by."""
        if not keys or node.find(*_queries()) is not None:
            return None
        self._keys = None
        try:
            found = self._compiled(node)
        except InvalidInputError:
            return None
        finally:
            self._keys = keys
        return Typed(keys[found.sql], found.kind) if found.sql in keys else None

    def _compiled(self, node: Any) -> Typed:
        name = type(node).__name__
        check_grouping(node)
        if name in _COMPARISONS:
            left, right = self.compile(node.this), self.compile(node.expression)
            return operators.compared(_COMPARISONS[name], left, right)
        if name in _ARITHMETIC:
            return self._arithmetic(node, _ARITHMETIC[name])
        if name in aggregates.AGGREGATES:
            return self._aggregated(node, None)
        found = getattr(self, f"_compile_{name.lower()}", None)
        if found is not None:
            return found(node)  # type: ignore[no-any-return]
        made = functions.call(node, self.compile)
        if made is None:
            raise only_spark(called(node))
        return made

    # Names and constants

    def _compile_column(self, node: Any) -> Typed:
        if node.is_star:
            raise only_spark("a star inside an expression")
        return self._named([str(each.name) for each in node.parts])

    def _compile_dot(self, node: Any) -> Typed:
        parts = [str(each.name) for each in node.flatten()]
        first = next(node.flatten())
        if type(first).__name__ not in ("Column", "Identifier"):
            raise only_spark("a field of an expression")
        if type(first).__name__ == "Column":
            parts = [*(str(each.name) for each in first.parts), *parts[1:]]
        return self._named(parts)

    def _named(self, parts: list[str]) -> Typed:
        found, is_column = self.scope.find(parts, self._aliases)
        if is_column and self._keys is not None and not self._is_inside:
            raise InvalidInputError(
                f"column {'.'.join(parts)!r} is neither in GROUP BY nor inside of a function over "
                "rows, such as max()",
                column=".".join(parts),
            )
        return found

    def _compile_literal(self, node: Any) -> Typed:
        text = str(node.this)
        return text_constant(text) if node.args.get("is_string") else number_constant(text)

    def _compile_boolean(self, node: Any) -> Typed:
        return Typed("TRUE" if node.this else "FALSE", BOOLEAN)

    def _compile_null(self, node: Any) -> Typed:
        return null()

    def _compile_hexstring(self, node: Any) -> Typed:
        return bytes_constant(str(node.this))

    def _compile_placeholder(self, node: Any) -> Typed:
        name = str(node.this or "")
        if not name:
            raise only_spark("a ? for a value", "write :name")
        if name not in self._args:
            raise InvalidInputError(f"args has no value for :{name}")
        return value_constant(name, self._args[name])

    # Logic

    def _compile_paren(self, node: Any) -> Typed:
        return self.compile(node.this)

    def _compile_and(self, node: Any) -> Typed:
        word = type(node).__name__.upper()
        parts = [self.condition(each, word) for each in node.flatten(unnest=False)]
        return Typed("(" + f" {word} ".join(parts) + ")", BOOLEAN)

    _compile_or = _compile_and

    def _compile_not(self, node: Any) -> Typed:
        return Typed(f"(NOT {self.condition(node.this, 'NOT')})", BOOLEAN)

    def _compile_is(self, node: Any) -> Typed:
        value, wanted = self.compile(node.this), type(node.expression).__name__
        if wanted == "Null":
            return Typed(f"({value.sql} IS NULL)", BOOLEAN)
        if wanted == "Boolean":
            word = "TRUE" if node.expression.this else "FALSE"
            return Typed(f"({checked(value, BOOLEAN, 'IS').sql} IS {word})", BOOLEAN)
        raise only_spark(f"IS {wanted}")

    def _compile_between(self, node: Any) -> Typed:
        if node.args.get("symmetric"):
            raise only_spark("BETWEEN SYMMETRIC")
        value = self.compile(node.this)
        low = operators.compared(">=", value, self.compile(node.args["low"]))
        high = operators.compared("<=", value, self.compile(node.args["high"]))
        return Typed(f"({low.sql} AND {high.sql})", BOOLEAN)

    def _compile_in(self, node: Any) -> Typed:
        value, query = self.compile(node.this), node.args.get("query")
        if query is not None:
            if not is_only_tested(node):
                raise only_spark(
                    "IN of a query outside of a plain condition", "write it in WHERE, or EXISTS"
                )
            sql, kinds = self._query(query.this if type(query).__name__ == "Subquery" else query)
            inner = Typed("q.c0", kinds[0]) if len(kinds) == 1 else None
            if inner is None:
                raise InvalidInputError("IN takes a query with one column")
            (value, inner), kind = together([value, inner], "IN")
            self._check_comparable(kind, "IN")
            return Typed(f"({value.sql} IN (SELECT {inner.sql} FROM ({sql}) AS q))", BOOLEAN)
        if not node.expressions:
            raise only_spark("IN with other than a list or a query")
        values = [value, *(self.compile(each) for each in node.expressions)]
        (value, *members), kind = together(values, "IN")
        self._check_comparable(kind, "IN")
        return Typed(f"({value.sql} IN ({', '.join(each.sql for each in members)}))", BOOLEAN)

    def _check_comparable(self, kind: pa.DataType, what: str) -> None:
        if not is_comparable(kind):
            raise only_spark(f"{what} of {type_name(kind)}")

    def _compile_like(self, node: Any) -> Typed:
        value = checked(self.compile(node.this), TEXT, "LIKE")
        pattern = self.compile(node.expression)
        if pattern.constant is None or pattern.kind != TEXT or "\\" in pattern.constant:
            raise only_spark("LIKE with other than a plain text without a backslash")
        if type(node).__name__ == "ILike":
            sides = [functions.cased("lower", each.sql) for each in (value, pattern)]
        else:
            sides = [value.sql, pattern.sql]
        word = "NOT LIKE" if node.args.get("negate") else "LIKE"
        return Typed(f"({f' {word} '.join(sides)})", BOOLEAN)

    _compile_ilike = _compile_like

    def _compile_case(self, node: Any) -> Typed:
        subject = node.this
        tests = []
        for each in node.args["ifs"]:
            if subject is None:
                tests.append(self.condition(each.this, "WHEN"))
            else:
                one, two = self.compile(subject), self.compile(each.this)
                tests.append(operators.compared("=", one, two).sql)
        last = node.args.get("default")
        results = [each.args["true"] for each in node.args["ifs"]] + ([last] if last else [])
        values, kind = together([self.compile(each) for each in results], "CASE")
        parts = [f"WHEN {t} THEN {v.sql}" for t, v in zip(tests, values, strict=False)]
        parts += [f"ELSE {values[-1].sql}"] if last else []
        return Typed(f"CASE {' '.join(parts)} END", kind)

    def _compile_if(self, node: Any) -> Typed:
        results = [node.args["true"], node.args.get("false")]
        found = [null() if each is None else self.compile(each) for each in results]
        (yes, no), kind = together(found, "if()")
        test = self.condition(node.this, "if()")
        return Typed(f"CASE WHEN {test} THEN {yes.sql} ELSE {no.sql} END", kind)

    # Numbers, casts and moments

    def _arithmetic(self, node: Any, operator: str) -> Typed:
        right = node.expression
        if type(right).__name__ == "Interval" and operator in ("+", "-"):
            unit = right.args.get("unit")
            count = right.this if type(right.this).__name__ == "Literal" else None
            if unit is None or count is None:
                raise only_spark("an INTERVAL other than of a number and one unit")
            return moments.moved(operator, self.compile(node.this), str(count.this), unit.name)
        return operators.arithmetic(operator, self.compile(node.this), self.compile(right))

    def _compile_neg(self, node: Any) -> Typed:
        inner = node.this
        if type(inner).__name__ == "Literal" and not inner.args.get("is_string"):
            return number_constant(f"-{inner.this}")
        value = self.compile(inner)
        if value.kind == NULL:
            return null(DOUBLE)
        if not is_number(value.kind):
            raise only_spark(f"- of {type_name(value.kind)}")
        is_literal = type(inner).__name__ == "TryCast" and value.constant is not None
        return Typed(f"(-{value.sql})", value.kind, f"-{value.constant}" if is_literal else None)

    def _compile_cast(self, node: Any) -> Typed:
        wanted = node.args["to"]
        kind = written_kind(wanted)
        if kind is None or node.args.get("format") is not None:
            raise only_spark(f"CAST to {wanted.sql('spark')}")
        return cast(self.compile(node.this), kind, safe=bool(node.args.get("safe")))

    def _compile_trycast(self, node: Any) -> Typed:
        found = self._compile_cast(node)
        is_constant = SUFFIX in node.args["to"].meta and found.kind in (SMALLINT, BIGINT)
        return found._replace(constant=str(node.this.this)) if is_constant else found

    def _compile_anonymous(self, node: Any) -> Typed:
        name, given = str(node.this).lower(), node.expressions
        if name in ("isnull", "isnotnull") and len(given) == 1:
            word = "IS NULL" if name == "isnull" else "IS NOT NULL"
            return Typed(f"({self.compile(given[0]).sql} {word})", BOOLEAN)
        if name == "now" and not given:
            return Typed("now()", MOMENT)
        if name == DIFF:
            raise InvalidInputError("diff() gives rows: it stands in FROM, not among the columns")
        raise only_spark(f"{name}()")

    # Rows

    def _compile_filter(self, node: Any) -> Typed:
        if type(node.this).__name__ not in aggregates.AGGREGATES:
            raise only_spark("FILTER of this function")
        return self._aggregated(*aggregates.filtered(node))

    def _aggregated(self, node: Any, only: Any) -> Typed:
        if self._keys is None:
            raise InvalidInputError(
                f"{node.sql('spark')} is over many rows, and cannot stand in WHERE, ON or GROUP BY"
            )
        if self._is_inside:
            raise InvalidInputError(f"{node.sql('spark')} stands inside of a function of its kind")
        with self._inside():
            found = aggregates.aggregate(node, self.compile)
            test = self._filter(only)
        return Typed(found.result.format(found.call + test), found.kind)

    def _filter(self, only: Any) -> str:
        return "" if only is None else f" FILTER (WHERE {self.condition(only, 'FILTER')})"

    @contextmanager
    def _inside(self) -> Iterator[None]:
        before, self._is_inside = self._is_inside, True
        aliases, self._aliases = self._aliases, Aliases.NEVER
        try:
            yield
        finally:
            self._is_inside, self._aliases = before, aliases

    def _compile_window(self, node: Any) -> Typed:
        function, only = aggregates.filtered(node.this)
        name = type(function).__name__
        if self._keys is not None:
            raise only_spark("a window over groups", "group in a subquery")
        if node.args.get("alias") is not None or node.args.get("first") is not None:
            raise only_spark("a named window")
        aggregates.check_window(function, node)
        with self._inside():
            if name in aggregates.AGGREGATES:
                found = aggregates.aggregate(function, self.compile)
            elif name in aggregates.WINDOWED and only is None:
                found = aggregates.windowed(function, self.compile)
            else:
                raise only_spark(f"{called(function)} OVER")
            parts = []
            if node.args.get("partition_by"):
                keys = [key_of(self.compile(each)) for each in node.args["partition_by"]]
                parts.append(f"PARTITION BY {', '.join(keys)}")
            order = node.args.get("order")
            if order is not None:
                parts.append(
                    "ORDER BY "
                    + ", ".join(
                        direction(self.compile(each.this), each) for each in order.expressions
                    )
                )
            if node.args.get("spec") is not None:
                parts.append(aggregates.frame(node.args["spec"]))
            over = f"{self._filter(only)} OVER ({' '.join(parts)})"
        return Typed(found.result.format(found.call + over), found.kind)

    # Queries

    def _query(self, node: Any) -> tuple[str, tuple[pa.DataType, ...]]:
        if self._keys is None or self._is_inside:
            return self._compile_query(node, self.scope)
        try:
            return self._compile_query(node, self.scope.outer)
        except InvalidInputError as cause:
            raise only_spark("a query beside groups that names their columns") from cause

    def _compile_exists(self, node: Any) -> Typed:
        inner = node.this
        sql, _ = self._query(inner.this if type(inner).__name__ == "Subquery" else inner)
        return Typed(f"EXISTS ({sql})", BOOLEAN)

    def _compile_subquery(self, node: Any) -> Typed:
        sql, kinds = self._query(node.this)
        if len(kinds) != 1:
            raise InvalidInputError("a query in the place of a value has to have one column")
        return Typed(f"({sql})", kinds[0])


def key_of(value: Typed) -> str:
    """A value to group by: Spark treats both zeros as one."""
    if not is_comparable(value.kind):
        raise only_spark(f"grouping by {type_name(value.kind)}")
    zero = f"CAST(0 AS {duckdb_type(value.kind)})" if is_floating(value.kind) else ""
    return f"({value.sql} + {zero})" if zero else value.sql


def direction(value: Typed, ordered: Any) -> str:
    """One item of ORDER BY."""
    if not is_comparable(value.kind):
        raise only_spark(f"ordering by {type_name(value.kind)}")
    return f"{value.sql} {direction_words(ordered)}"


def direction_words(ordered: Any) -> str:
    word = "DESC" if ordered.args.get("desc") else "ASC"
    return f"{word} NULLS {'FIRST' if ordered.args.get('nulls_first') else 'LAST'}"


def _queries() -> tuple[Any, ...]:
    from sqlglot import exp

    return (exp.Query,)
