"""What single clauses of a query say, as far as sqlglot's tree shows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from lancewood.errors import InvalidInputError
from lancewood.query.text import WRITTEN
from lancewood.query.typed import only_spark

_COMPARED = frozenset({"EQ", "NEQ", "LT", "LTE", "GT", "GTE"})
_TESTS = frozenset({"Between", "ILike", "In", "Is", "Like", "NullSafeEQ", "NullSafeNEQ"})


def check_grouping(node: Any) -> None:
    """Raise UnsupportedError where Spark groups words differently than the tree does."""
    name = type(node).__name__
    left, right = type(node.args.get("this")).__name__, type(node.args.get("expression")).__name__
    if name == "DPipe":
        is_other = right in ("Add", "Sub")
    else:
        is_other = name in _COMPARED and (left in _TESTS or right in {*_COMPARED, *_TESTS, "Not"})
    if is_other:
        raise only_spark(called(node), "others group it differently; write parentheses")


def is_only_tested(node: Any) -> bool:
    """Whether a value is in WHERE, HAVING or ON, where only its truth counts: below AND, OR and its
    own NOT. Elsewhere Spark has false where SQL has null."""
    inside, above, is_own = node, node.parent, True
    while type(above).__name__ in ("And", "Not", "Or", "Paren"):
        is_not = type(above).__name__ == "Not"
        if is_not and not is_own:
            return False
        is_own = is_own and not is_not and type(above).__name__ == "Paren"
        inside, above = above, above.parent
    return type(above).__name__ in ("Having", "Where") or inside.arg_key == "on"


def called(node: Any) -> str:
    """A piece of SQL as the user wrote it."""
    if WRITTEN in node.meta:
        return f"{node.meta[WRITTEN]}()"
    text = " ".join(node.sql("spark").split())
    return text if len(text) <= 60 else f"{text[:57]}…"


def plain_number(node: Any) -> int | None:
    """A plainly written number; None for anything else."""
    if type(node).__name__ != "Literal" or node.args.get("is_string"):
        return None
    text = str(node.this)
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else None


def limited(node: Any) -> str:
    """LIMIT and OFFSET; empty where there are none."""
    text = ""
    for word, name in (("LIMIT", "limit"), ("OFFSET", "offset")):
        clause = node.args.get(name)
        if clause is None:
            continue
        number = plain_number(clause.args.get("expression"))
        if number is None:
            raise only_spark(f"{word} of other than a plain number")
        text += f" {word} {number}"
    return text


def asks_distinct(node: Any) -> bool:
    """Whether it is SELECT DISTINCT."""
    distinct = node.args.get("distinct")
    if distinct is not None and distinct.args.get("on") is not None:
        raise only_spark("DISTINCT ON")
    return distinct is not None


def column_name(node: Any) -> str:
    """Spark's name of a column of SELECT, or nearly so if it has no alias."""
    if node.alias or type(node).__name__ in ("Column", "Dot"):
        return str(node.alias_or_name)
    text = " ".join(node.sql("spark", normalize_functions="lower").split())
    return text.replace("count(*)", "count(1)")


def other_clauses(node: Any, known: Iterable[str]) -> list[str]:
    """The clauses of a node besides the known ones."""
    return [name for name, value in node.args.items() if value and name not in known]


def check_undotted(table: Any) -> None:
    """Raise for a table's name with dots, which may be meant as a path."""
    name = ".".join(str(each.name) for each in table.parts)
    if str(table.name) == "lance" and table.args.get("db"):
        raise InvalidInputError(f"{name} is no name: a path stands in quotes, FROM '{name}'")
    if table.args.get("db"):
        raise only_spark(name, "its dot says so; the path of a Lance table stands in quotes")
