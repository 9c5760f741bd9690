"""SQL of the file, as far as it has to be understood before Spark does: one query, and its names.

Knows sqlglot's Spark dialect. Does not know which frames or tables there are, and leaves types,
columns and functions to Spark's own analysis.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

from lancewood.errors import InvalidInputError
from lancewood.table import shorten

MOST_CHARACTERS = 100_000
_DYNAMIC = "IDENTIFIER"
"""Spark's function that makes a name of a text: nobody could tell what is read."""


def parsed_query(sql: str) -> Any:
    """The sqlglot tree of one SELECT; raises InvalidInputError for anything else."""
    from sqlglot import exp

    trees = [each for each in _parsed(sql) if not isinstance(each, exp.Semicolon | None)]
    if len(trees) != 1:
        found = "nothing" if not trees else f"{len(trees)} statements"
        raise InvalidInputError(f"takes one SELECT, found {found} in {shorten(sql)}")
    if not isinstance(trees[0], exp.Query):
        raise InvalidInputError(
            f"takes one SELECT, {shorten(sql)} is something else: "
            "a pipeline reads with SQL, and writes with [[targets]]"
        )
    return trees[0]


def tables_in(tree: Any) -> list[Any]:
    """The nodes of a query that name a frame or a table, each as often as it is named.

    Names of CTEs are left out where they are seen. Raises InvalidInputError for what names a table
    in a way that nobody can follow, or asks for another version of one.
    """
    from sqlglot import exp

    found = list(_tables(tree, frozenset()))
    for each in tree.find_all(exp.Into):
        raise InvalidInputError(f"SELECT INTO is not known to Spark: {shorten(each.sql('spark'))}")
    return found


def qualified_name(table: Any) -> str:
    """The name of such a node as it was written, with its qualifiers, without quotes."""
    return ".".join(each.name for each in table.parts)


def check_expression(sql: str) -> None:
    """Refuse what is no expression over one row: empty texts, several statements, subqueries.

    What sqlglot cannot read is left to Spark, which knows its own dialect best.
    """
    from sqlglot import exp

    try:
        trees = _parsed(f"SELECT {sql}")
    except InvalidInputError:
        return
    tree = trees[0] if len(trees) == 1 else None
    rest = tree and [name for name, value in tree.args.items() if value and name != "expressions"]
    if not isinstance(tree, exp.Select) or rest or len(tree.expressions) != 1:
        raise InvalidInputError(f"takes one expression, got {shorten(sql)}")
    below = [each for each in tree.find_all(exp.Query, exp.Table) if each is not tree]
    if below:
        raise InvalidInputError(
            f"an expression is about one row, and {shorten(sql)} reads a table: "
            "join the table in a step"
        )


def _tables(node: Any, hidden: frozenset[str]) -> Iterator[Any]:
    """Depth first, with the CTEs that are seen at each place."""
    from sqlglot import exp

    if isinstance(node, exp.Hint | exp.JoinHint):
        return
    if isinstance(node, exp.Table):
        yield from _table(node, hidden)
    seen = hidden
    for each in getattr(node, "ctes", ()):
        name = each.alias.casefold()
        own = seen | {name} if each.parent.args.get("recursive") else seen
        yield from _tables(each.this, own)
        seen |= {name}
    for child in node.iter_expressions():
        if not isinstance(child, exp.With):
            yield from _tables(child, seen)


def _table(node: Any, hidden: frozenset[str]) -> Iterator[Any]:
    from sqlglot import exp

    if not isinstance(node.this, exp.Identifier):
        if isinstance(node.this, exp.Anonymous) and node.this.name.upper() == _DYNAMIC:
            raise InvalidInputError(
                f"{node.sql('spark')} makes a name out of a text: write the name itself"
            )
        return
    if node.args.get("version") or node.args.get("when"):
        raise InvalidInputError(
            f"{node.sql('spark')} asks for a version: name it as the revision of a source"
        )
    if node.db or node.name.casefold() not in hidden:
        yield node


def _parsed(sql: str) -> list[Any]:
    import sqlglot
    from sqlglot.errors import ParseError, SqlglotError

    if len(sql) > MOST_CHARACTERS:
        raise InvalidInputError(
            f"the SQL has {len(sql):,} characters, {MOST_CHARACTERS:,} are allowed"
        )
    log = logging.getLogger("sqlglot")
    before, log.disabled = log.disabled, True  # it reports statements that are refused here
    try:
        return sqlglot.parse(sql, dialect="spark")
    except (SqlglotError, RecursionError) as error:
        first = error.errors[0] if isinstance(error, ParseError) and error.errors else {}
        at = f" at line {first['line']}, column {first['col']}" if first.get("line") else ""
        reason = first.get("description") or "a quote is not closed, or it nests too deeply"
        raise InvalidInputError(f"cannot read {shorten(sql)} as SQL{at}: {reason}") from None
    finally:
        log.disabled = before
