"""Which columns a query needs of the tables it reads.

A scan on Spark reads every column that it is made with, so a check on two numbers should not read
the pictures beside them. A column that the text of the query does not mention can be left out
where nothing in the query stands for all columns. Where only the outermost SELECT does, with a
plain ``*``, what it shows has no influence on which rows there are: then large columns are left
out, and small ones are shown. Pure, and careful: in doubt all columns are needed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from lancewood.pipeline.checks.value_kinds import is_small
from lancewood.pipeline.definition.queries import parsed_query

Shown = Callable[[pa.Field], bool]
_WHOLE_ROWS = frozenset(["NATURAL", "PIVOT", "UNPIVOT", "TABLE", "TRANSFORM", "|>"])
"""Words with which a query means columns that it does not name."""


class QueryColumns:
    """What one query asks of tables."""

    def __init__(self, sql: str) -> None:
        self._text = sql.casefold()
        tree = parsed_query(sql)
        stars = _stars(tree)
        inner = [each for each in stars if not _is_outer(each, tree)]
        self._is_open = bool(inner or _words(sql) & _WHOLE_ROWS or _has_named_columns(tree))
        self._has_star = bool(stars)

    def of(self, schema: pa.Schema, is_shown: Shown | None = None) -> list[str]:
        """The columns of a table that have to be read, at least one, in the table's order.

        ``is_shown`` says which ones a star is about; by default those that are small.
        """
        is_shown = is_shown or (lambda field: is_small(field.type))
        if self._is_open:
            return list(schema.names)
        found = [
            each.name
            for each in schema
            if self._mentions(each.name) or (self._has_star and is_shown(each))
        ]
        return found or _cheapest(schema)

    def _mentions(self, column: str) -> bool:
        name = re.escape(column.casefold())
        return re.search(rf"(?<!\w){name}(?!\w)", self._text) is not None


def _words(sql: str) -> set[str]:
    from sqlglot import tokenize

    return {each.text.upper() for each in tokenize(sql, read="spark")}


def _stars(tree: Any) -> Sequence[Any]:
    from sqlglot import exp

    # count(*) looks at no column; count(t.*) does.
    return [each for each in tree.find_all(exp.Star) if not isinstance(each.parent, exp.Count)]


def _is_outer(star: Any, tree: Any) -> bool:
    """Whether a star only says what is shown of the rows that there are anyway."""
    from sqlglot import exp

    if not isinstance(tree, exp.Select) or tree.args.get("distinct") or tree.args.get("group"):
        return False
    shown = star.parent if isinstance(star.parent, exp.Column) else star
    return any(each is shown for each in tree.expressions)


def _has_named_columns(tree: Any) -> bool:
    """Whether columns of a table are named by their order, as in ``photos AS p (a, b)``."""
    from sqlglot import exp

    return any(
        each.args.get("columns") and isinstance(each.parent, exp.Table)
        for each in tree.find_all(exp.TableAlias)
    )


def _cheapest(schema: pa.Schema) -> list[str]:
    """For a query that only counts rows."""
    small = [each for each in schema if is_small(each.type)]
    fixed = [each for each in small if pa.types.is_primitive(each.type)]
    return [each.name for each in (fixed or small or list(schema))[:1]]
