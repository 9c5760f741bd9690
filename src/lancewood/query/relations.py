"""A query in DuckDB's SQL: SELECT, joins, WITH, VALUES and set operations.

Every supported clause is named here; any other is left to Spark. Uses the columns of tables by
their types, and reads nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lancewood.errors import InvalidInputError
from lancewood.query.aggregates import has_aggregates
from lancewood.query.clauses import (
    asks_distinct,
    check_undotted,
    column_name,
    limited,
    other_clauses,
    plain_number,
)
from lancewood.query.expressions import (
    Expressions,
    direction,
    direction_words,
    key_of,
)
from lancewood.query.functions import compared
from lancewood.query.joins import JoinKind, kind_of_join
from lancewood.query.kinds import common, is_comparable, is_floating, type_name
from lancewood.query.names import defined_by_with
from lancewood.query.scopes import Aliases, FromSource, Scope, ScopeColumn
from lancewood.query.settings import Settings
from lancewood.query.typed import Typed, fitted, only_spark, together

_WORDS = {
    JoinKind.INNER: "JOIN",
    JoinKind.LEFT: "LEFT JOIN",
    JoinKind.RIGHT: "RIGHT JOIN",
    JoinKind.FULL: "FULL JOIN",
    JoinKind.SEMI: "SEMI JOIN",
    JoinKind.ANTI: "ANTI JOIN",
}
_SET_WORDS = {"Union": "UNION", "Intersect": "INTERSECT", "Except": "EXCEPT"}


@dataclass(frozen=True)
class Given:
    """A table of ours: its name in DuckDB, and its columns as the query sees them."""

    relation: str
    source: FromSource


@dataclass(frozen=True)
class Relation:
    """A query for DuckDB, and the columns of its result."""

    sql: str
    columns: tuple[tuple[str, pa.DataType], ...]

    @property
    def kinds(self) -> tuple[pa.DataType, ...]:
        return tuple(kind for _, kind in self.columns)


class Relations:
    """Compiles one query over tables that are identified by their nodes in the tree."""

    def __init__(
        self,
        tables: Mapping[int, Given],
        settings: Settings,
        args: Mapping[str, Any],
    ) -> None:
        self._tables = tables
        self._settings = settings
        self._args = args
        self._count = 0
        self._defined: dict[int, tuple[str, Relation]] = {}

    def compile(self, node: Any, outer: Scope | None = None) -> Relation:
        """Compile a query; raises UnsupportedError for what only Spark can answer,
        InvalidInputError."""
        name = type(node).__name__
        if name == "Subquery" and not other_clauses(node, {"this"}):
            return self.compile(node.this, outer)
        if name == "Select":
            return self._select(node, outer)
        if name in _SET_WORDS:
            return self._set(node, outer)
        if name == "Values":
            return self._values(node, outer)
        raise only_spark(f"a query of this form ({name.upper()})")

    def _nested(self, node: Any, outer: Scope | None) -> tuple[str, tuple[pa.DataType, ...]]:
        found = self.compile(node, outer)
        return found.sql, found.kinds

    def _fresh(self, letter: str = "r") -> str:
        self._count += 1
        return f"{letter}{self._count}"

    def _expressions(self, scope: Scope) -> Expressions:
        return Expressions(scope, self._nested, self._args)

    # WITH

    def _with(self, node: Any, outer: Scope | None) -> str:
        clause = node.args.get("with_")
        if clause is None:
            return ""
        if clause.args.get("recursive"):
            raise only_spark("WITH RECURSIVE")
        parts = []
        for each in clause.expressions:
            found = self.compile(each.this, outer)
            name = self._fresh("w")
            names = [str(one.name) for one in each.args["alias"].args.get("columns") or ()]
            self._defined[id(each)] = name, _renamed(found, names)
            # Evaluated once, however often it is used: rows may not come in the same order again.
            parts.append(f"{name} AS MATERIALIZED ({found.sql})")
        return f"WITH {', '.join(parts)} "

    # SELECT

    def _select(self, node: Any, outer: Scope | None) -> Relation:
        beginning = self._with(node, outer)
        scope = Scope(outer=outer)
        expressions = self._expressions(scope)
        source = self._from(node, scope)
        where = node.args.get("where")
        filtered = "" if where is None else f" WHERE {expressions.condition(where.this, 'WHERE')}"
        keys = self._keys(node, expressions)
        projected = self._projected(node, expressions, keys)
        for name, value in projected:
            scope.aliases[name.lower()] = None if name.lower() in scope.aliases else value
        grouped = f" GROUP BY {', '.join(dict.fromkeys(keys.values()))}" if keys else ""
        having = node.args.get("having")
        if having is not None:
            if keys is None:
                raise only_spark("HAVING without groups")
            scope.check_having(having, keys)
            with expressions.where(Aliases.FIRST, keys):
                grouped += f" HAVING {expressions.condition(having.this, 'HAVING')}"
        is_distinct = asks_distinct(node)
        order = self._ordered(node, expressions, keys, projected, is_distinct)
        listed = [key_of(value) if is_distinct else value.sql for _, value in projected]
        selected = ", ".join(f"{sql} AS c{at}" for at, sql in enumerate(listed))
        return Relation(
            f"{beginning}SELECT {'DISTINCT ' * is_distinct}{selected}{source}{filtered}{grouped}"
            f"{order}{limited(node)}",
            tuple((name, value.kind) for name, value in projected),
        )

    def _keys(self, node: Any, expressions: Expressions) -> dict[str, str] | None:
        """The grouping keys, as written and as compiled; None without groups."""
        group = node.args.get("group")
        if group is None:
            clauses = [*node.expressions, node.args.get("having"), node.args.get("order")]
            return {} if any(has_aggregates(each) for each in clauses if each is not None) else None
        found = {key: value for key, value in group.args.items() if value}
        if found.pop("all", None) and not found:
            items = [each for each in node.expressions if not has_aggregates(each)]
        elif set(found) == {"expressions"}:
            items = list(group.expressions)
        else:
            raise only_spark("GROUP BY with GROUPING SETS, ROLLUP or CUBE")
        keys = {}
        for each in items:
            value = expressions.compile(self._meant_key(each, node, expressions))
            keys[value.sql] = key_of(value)
        return keys

    def _meant_key(self, item: Any, node: Any, expressions: Expressions) -> Any:
        """The expression of SELECT that a position or an alias in GROUP BY means."""
        place = plain_number(item)
        if place is not None:
            if not 1 <= place <= len(node.expressions):
                raise InvalidInputError(f"GROUP BY {place} names no column of SELECT")
            return node.expressions[place - 1].unalias()
        if type(item).__name__ == "Column" and len(item.parts) == 1:
            wanted = str(item.name).lower()
            named = [e for e in node.expressions if e.alias and str(e.alias).lower() == wanted]
            if len(named) == 1 and not expressions.scope.has([wanted]):
                return named[0].unalias()
        return item.unalias()

    def _projected(
        self, node: Any, expressions: Expressions, keys: dict[str, str] | None
    ) -> list[tuple[str, Typed]]:
        found: list[tuple[str, Typed]] = []
        scope = expressions.scope
        for each in node.expressions:
            if each.is_star:
                found += self._star(each, scope, keys)
                continue
            with expressions.where(Aliases.LAST, keys):
                value = expressions.compile(each.unalias())
            found.append((column_name(each), value))
            if each.alias:
                lower = str(each.alias).lower()
                scope.aliases[lower] = None if lower in scope.aliases else value
        scope.aliases.clear()
        return found

    def _star(
        self, star: Any, scope: Scope, keys: dict[str, str] | None
    ) -> list[tuple[str, Typed]]:
        if keys is not None:
            raise InvalidInputError("a star cannot stand beside groups: name the columns")
        inner = star.this if type(star).__name__ == "Column" else star
        if any(inner.args.get(each) for each in ("except_", "replace", "rename", "ilike")):
            raise only_spark("a star with EXCEPT")
        parts = [str(each.name) for each in star.parts[:-1]] if inner is not star else []
        if len(parts) > 1 or (parts and scope.has(parts)):
            raise only_spark("a star of a struct, or after two names")
        return [(each.name, each.value()) for each in scope.star(*parts)]

    def _ordered(
        self,
        node: Any,
        expressions: Expressions,
        keys: dict[str, str] | None,
        projected: Sequence[tuple[str, Typed]],
        is_distinct: bool,
    ) -> str:
        order = node.args.get("order")
        if order is None:
            return ""
        parts = []
        for each in order.expressions:
            place = self._placed(each.this, projected)
            if place is not None:
                if not is_comparable(projected[place][1].kind):
                    raise only_spark(f"ordering by {type_name(projected[place][1].kind)}")
                parts.append(f"{place + 1} {direction_words(each)}")
                continue
            if is_distinct:
                raise InvalidInputError("ORDER BY after DISTINCT takes columns of SELECT")
            with expressions.where(Aliases.FIRST, keys):
                parts.append(direction(expressions.compile(each.this), each))
        return f" ORDER BY {', '.join(parts)}"

    def _placed(self, node: Any, projected: Sequence[tuple[str, Typed]]) -> int | None:
        """The column of SELECT that is meant by its position, or by its name."""
        place = plain_number(node)
        if place is not None:
            if not 1 <= place <= len(projected):
                raise InvalidInputError(f"ORDER BY {place} names no column of SELECT")
            return place - 1
        if type(node).__name__ != "Column" or len(node.parts) > 1:
            return None
        wanted = str(node.name).lower()
        found = [at for at, (name, _) in enumerate(projected) if name.lower() == wanted]
        return found[0] if len(found) == 1 else None

    # FROM

    def _from(self, node: Any, scope: Scope) -> str:
        source = node.args.get("from_")
        if source is None:
            return ""
        text, first = self._relation(source.this, scope)
        scope.sources.append(first)
        for join in node.args.get("joins") or ():
            text += self._join(join, scope)
        return f" FROM {text}"

    def _join(self, join: Any, scope: Scope) -> str:
        kind = kind_of_join(join)
        method = str(join.args.get("method") or "").upper()
        if kind is None or join.args.get("pivots") or method not in ("", "NATURAL"):
            raise only_spark("such a JOIN")
        text, right = self._relation(join.this, scope)
        before = list(scope.sources)
        whole = Scope([*before, right], list(scope.merged), scope.outer)
        names = [str(each.name) for each in join.args.get("using") or ()]
        if method == "NATURAL":
            mine = [each.name.lower() for each in scope.star()]
            names = [each.name for each in right.columns if each.name.lower() in mine]
        on = join.args.get("on")
        if names:
            condition, merged = self._using(names, scope, right, kind)
        else:
            merged = list(scope.merged)
            condition = "TRUE" if on is None else self._expressions(whole).condition(on, "ON")
        if kind not in (JoinKind.SEMI, JoinKind.ANTI):
            scope.sources, scope.merged = whole.sources, merged
        return f" {_WORDS[kind]} {text} ON {condition}"

    def _using(
        self, names: Iterable[str], scope: Scope, right: FromSource, kind: JoinKind
    ) -> tuple[str, list[ScopeColumn]]:
        conditions, merged = [], []
        for name in names:
            mine, _ = scope.find([name], Aliases.NEVER)
            other, _ = Scope([right]).find([name], Aliases.NEVER)
            conditions.append(compared("=", mine, other).sql)
            (one, two), both = together([mine, other], "USING")
            either = Typed(f"coalesce({one.sql}, {two.sql})", both)
            value = {JoinKind.RIGHT: other, JoinKind.FULL: either}.get(kind, mine)
            merged.append(ScopeColumn(name, value.sql, value.kind))
        rest = [e for e in scope.merged if all(e.name.lower() != m.name.lower() for m in merged)]
        return " AND ".join(conditions), [*merged, *rest]

    def _relation(self, node: Any, scope: Scope) -> tuple[str, FromSource]:
        name = type(node).__name__
        alias = node.args.get("alias")
        names = [str(each.name) for each in (alias.args.get("columns") or () if alias else ())]
        if name == "Table":
            check_undotted(node)
            return self._named(node, names)
        if name not in ("Subquery", "Values"):
            raise only_spark(f"{' '.join(node.sql('spark').split())[:60]} in FROM")
        if name == "Subquery" and other_clauses(node, {"this", "alias"}):
            raise only_spark("such a query in FROM")
        inner = node.this if name == "Subquery" else node
        found = _renamed(self.compile(inner, scope.outer), names)
        own = self._fresh()
        exposed = str(alias.name) if alias is not None and alias.name else None
        return f"({found.sql}) AS {own}", FromSource(exposed, _columns(own, found))

    def _named(self, node: Any, names: Sequence[str]) -> tuple[str, FromSource]:
        alias = node.args.get("alias")
        table = self._tables.get(id(node))
        if table is not None:
            own = self._fresh()
            columns = _named_so([each.of(own) for each in table.source.columns], names)
            return f"{table.relation} AS {own}", FromSource(table.source.name, columns)
        text = str(node.this.this)
        cte = defined_by_with(node, text, self._settings)
        if cte is None or id(cte) not in self._defined:
            raise only_spark(f"{' '.join(node.sql('spark').split())[:60]} in FROM")
        defined, found = self._defined[id(cte)]
        own = self._fresh()
        exposed = str(alias.name) if alias is not None and alias.name else text
        columns = _columns(own, _renamed(found, names))
        return f"{defined} AS {own}", FromSource(exposed, columns)

    # VALUES, and queries joined

    def _values(self, node: Any, outer: Scope | None) -> Relation:
        expressions = self._expressions(Scope(outer=outer))
        rows = [
            [expressions.compile(one) for one in (getattr(each, "expressions", None) or [each])]
            for each in node.expressions
        ]
        if len({len(each) for each in rows}) != 1:
            raise InvalidInputError("the rows of VALUES have different numbers of columns")
        columns = [together(list(each), "VALUES") for each in zip(*rows, strict=True)]
        lines = zip(*(values for values, _ in columns), strict=True)
        text = ", ".join(f"({', '.join(each.sql for each in line)})" for line in lines)
        names = ", ".join(f"c{at}" for at in range(len(columns)))
        return Relation(
            f"SELECT * FROM (VALUES {text}) AS {self._fresh()}({names})",
            tuple((f"col{at + 1}", kind) for at, (_, kind) in enumerate(columns)),
        )

    def _set(self, node: Any, outer: Scope | None) -> Relation:
        beginning = self._with(node, outer)
        left = self.compile(node.this, outer)
        right = self.compile(node.expression, outer)
        word = _SET_WORDS[type(node).__name__]
        if len(left.columns) != len(right.columns):
            raise InvalidInputError(
                f"{word} of queries with {len(left.columns)} and {len(right.columns)} columns"
            )
        is_distinct = node.args.get("distinct") is not False
        kinds = []
        for one, two in zip(left.kinds, right.kinds, strict=True):
            kind = common([one, two])
            if kind is None:
                raise only_spark(
                    f"{word} of {type_name(one)} and {type_name(two)}", "cast them to one type"
                )
            is_plain = is_comparable(kind) and not is_floating(kind)
            if (is_distinct or word != "UNION") and not is_plain:
                raise only_spark(f"{word} of {type_name(kind)}", "ask for UNION ALL")
            kinds.append(kind)
        sides = [self._fitted(each, kinds) for each in (left, right)]
        columns = tuple((name, kind) for (name, _), kind in zip(left.columns, kinds, strict=True))
        order = self._ordered_set(node, columns)
        return Relation(
            f"{beginning}({sides[0]}) {word} {'' if is_distinct else 'ALL '}({sides[1]})"
            f"{order}{limited(node)}",
            columns,
        )

    def _fitted(self, side: Relation, kinds: Sequence[pa.DataType]) -> str:
        own = self._fresh()
        values = (
            fitted(Typed(f"{own}.c{at}", old), new)
            for at, (old, new) in enumerate(zip(side.kinds, kinds, strict=True))
        )
        listed = ", ".join(f"{each.sql} AS c{at}" for at, each in enumerate(values))
        return f"SELECT {listed} FROM ({side.sql}) AS {own}"

    def _ordered_set(self, node: Any, columns: Sequence[tuple[str, pa.DataType]]) -> str:
        order = node.args.get("order")
        if order is None:
            return ""
        projected = [(name, Typed("", kind)) for name, kind in columns]
        parts = []
        for each in order.expressions:
            place = self._placed(each.this, projected)
            if place is None or not is_comparable(columns[place][1]):
                raise only_spark(
                    "ORDER BY of joined queries by other than a column's name or place"
                )
            parts.append(f"{place + 1} {direction_words(each)}")
        return f" ORDER BY {', '.join(parts)}"


def _columns(own: str, found: Relation) -> list[ScopeColumn]:
    return [ScopeColumn(name, f"{own}.c{n}", kind) for n, (name, kind) in enumerate(found.columns)]


def _named_so(columns: Sequence[ScopeColumn], names: Sequence[str]) -> list[ScopeColumn]:
    """Columns under the names that an alias gives them."""
    if not names:
        return list(columns)
    _check_count(len(columns), len(names))
    return [ScopeColumn(new, e.sql, e.kind) for e, new in zip(columns, names, strict=True)]


def _renamed(found: Relation, names: Sequence[str]) -> Relation:
    if not names:
        return found
    _check_count(len(found.columns), len(names))
    return Relation(found.sql, tuple(zip(names, found.kinds, strict=True)))


def _check_count(there: int, named: int) -> None:
    if there != named:
        raise InvalidInputError(f"{named} names are given to {there} columns")
