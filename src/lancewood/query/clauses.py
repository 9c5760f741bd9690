"""What single clauses of a query say, as far as the tree alone tells.

Knows sqlglot's nodes, and no types.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from lancewood.query.typed import apart


def plain_number(node: Any) -> int | None:
    """A number that is written plainly."""
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
            raise apart(f"{word} of other than a plain number")
        text += f" {word} {number}"
    return text


def asks_distinct(node: Any) -> bool:
    """Whether it is SELECT DISTINCT."""
    distinct = node.args.get("distinct")
    if distinct is not None and distinct.args.get("on") is not None:
        raise apart("DISTINCT ON")
    return distinct is not None


def column_name(node: Any) -> str:
    """What Spark calls a column of SELECT, or nearly so where nobody gave it a name."""
    if node.alias or type(node).__name__ in ("Column", "Dot"):
        return str(node.alias_or_name)
    text = " ".join(node.sql("spark", normalize_functions="lower").split())
    return text.replace("count(*)", "count(1)")


def other_clauses(node: Any, known: Iterable[str]) -> list[str]:
    """The clauses of a node besides those that are known."""
    return [name for name, value in node.args.items() if value and name not in known]


def check_clauses(node: Any, known: Iterable[str], what: str) -> None:
    """Raise UnsupportedError for a clause that is not known."""
    others = other_clauses(node, known)
    if others:
        word = others[0].rstrip("_").replace("_", " ").upper()
        raise apart(f"{what} with {word}")
