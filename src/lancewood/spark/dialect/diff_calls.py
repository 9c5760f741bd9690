"""Calls of ``diff`` in FROM, found in sqlglot's tree."""

from __future__ import annotations

from typing import Any

from lancewood.errors import InvalidInputError
from lancewood.query.names import DIFF, SIGNATURES, Call, Revision

_TAKES = SIGNATURES[DIFF].takes
_MOST_DIGITS = 18


def is_diff(node: Any) -> bool:
    """Whether a table of FROM is a call of ours."""
    if type(node.this).__name__ != "Anonymous" or node.args.get("db"):
        return False
    return str(node.this.name).lower() == DIFF


def read_call(node: Any, sql: str) -> Call:
    """The arguments of a call; raises InvalidInputError for any that are not what it takes."""
    given, on = list[Revision](), None
    for each in node.this.expressions:
        if type(each).__name__ == "Kwarg":
            if str(each.this.name).lower() != "on" or on is not None:
                raise InvalidInputError(f"{sql}: {_TAKES}; found {each.sql('spark')}")
            on = _columns(each.expression, sql)
        elif on is not None:
            raise InvalidInputError(f"{sql}: {_TAKES}; on comes last")
        else:
            given.append(_literal(each, sql))
    if not 2 <= len(given) <= 3 or not isinstance(given[0], str):
        raise InvalidInputError(f"{sql}: {_TAKES}")
    if not given[0] or "@" in given[0]:
        raise InvalidInputError(
            f"{sql}: {given[0]!r} is not the name of a table alone; revisions are the arguments "
            "after it"
        )
    if node.args.get("version") is not None:
        raise InvalidInputError(f"{sql} has no versions: its arguments say what is compared")
    return Call(given[0], tuple(given[1:]), on, sql)


def _literal(node: Any, sql: str) -> Revision:
    if type(node).__name__ == "Literal":
        text = str(node.this)
        if node.args.get("is_string"):
            return text
        if text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS and int(text):
            return int(text)
    raise InvalidInputError(
        f"{sql}: {_TAKES}; {node.sql('spark')} is neither a text in quotes nor the number of a "
        "version"
    )


def _columns(node: Any, sql: str) -> tuple[str, ...]:
    text = str(node.this) if type(node).__name__ == "Literal" and node.is_string else ""
    names = tuple(each.strip() for each in text.split(","))
    if not all(names):
        raise InvalidInputError(f"{sql}: on takes names of columns, such as on => 'id'")
    return names
