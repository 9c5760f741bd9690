"""From text to a sqlglot tree: the dialect, and the limits that keep bad text harmless.

The dialect is sqlglot's DuckDB with four changes: backticks quote names too, ``x'00ff'`` is bytes,
list positions are left as written, and functions keep the names they were called by, so that our
own table decides which functions exist. sqlglot is imported when the first text is parsed.
"""

from __future__ import annotations

import functools
from typing import Any

from lancewood.errors import InvalidInputError
from lancewood.expr.dialects import counted_advance, subclass, translated_errors

MAX_LENGTH = 100_000
"""The longest text, in characters. A longer list of values belongs in a parameter."""

MAX_NESTING = 32
"""How deep parentheses, brackets and CASE may nest: sqlglot needs some twenty frames a level."""

MAX_DEPTH = 100
"""How deep the tree may be; a chain of ANDs or of ORs counts as one level."""

_LIMITS = (
    f": {MAX_NESTING} levels of parentheses and CASE, and {MAX_DEPTH} of operators, are allowed"
)
_STATEMENTS = ("SELECT", "WITH", "INSERT", "UPDATE", "DELETE", "CREATE", "DROP", "ALTER")
_OPENING = frozenset({"L_PAREN", "L_BRACKET", "L_BRACE", "CASE"})
_CLOSING = frozenset({"R_PAREN", "R_BRACKET", "R_BRACE", "END"})
_STEPS_PER_TOKEN = 100
_SPECIAL_SYNTAX = ("CAST", "TRY_CAST", "EXTRACT", "POSITION", "SUBSTRING", "TRIM")


def parse(sql: str) -> Any:
    """The sqlglot tree of one expression.

    Raises InvalidInputError for what is not a string, empty, too long, too deep, not Unicode, not
    SQL, or more than one expression; no error of sqlglot's gets through.
    """
    if not isinstance(sql, str):
        raise InvalidInputError(f"an expression is SQL text, not {type(sql).__name__}")
    if len(sql) > MAX_LENGTH:
        raise InvalidInputError(
            f"the expression has {len(sql):,} characters, {MAX_LENGTH:,} are allowed; "
            "pass long lists of values as a parameter: x IN (:values)"
        )
    try:
        sql.encode()
    except UnicodeEncodeError as cause:
        raise InvalidInputError(f"{shorten(sql)} holds half a character", sql=sql) from cause
    tree = _parse_checked(sql)
    _check_depth(tree, sql)
    return tree


def shorten(sql: str, limit: int = 120) -> str:
    """``sql`` quoted for a message, shortened in the middle if it is long."""
    if len(sql) > limit:
        sql = f"{sql[: limit * 2 // 3]} … {sql[-limit // 4 :]}"
    return repr(sql)


def _parse_checked(sql: str) -> Any:
    from sqlglot import exp
    from sqlglot.errors import ErrorLevel

    dialect = _dialect()
    with translated_errors(sql, shorten(sql), reason=_no_expression(sql), limits=_LIMITS):
        tokens = dialect.tokenize(sql)
        _check_tokens(tokens, sql)
        parser = dialect.parser(error_level=ErrorLevel.IMMEDIATE)
        trees = parser.parse_into(exp.Condition, tokens, sql)
    if len(trees) != 1 or trees[0] is None:
        raise InvalidInputError(f"{shorten(sql)} is not one SQL expression", sql=sql)
    return trees[0]


def _no_expression(sql: str) -> str:
    """The message for a statement; empty for anything else."""
    word = (sql.split(None, 1) or [""])[0].upper()
    if word not in _STATEMENTS:
        return ""
    return f"a whole {word} statement is not an expression; give only the condition or value"


def _too_deep(sql: str) -> InvalidInputError:
    return InvalidInputError(f"{shorten(sql)} nests too deeply{_LIMITS}", sql=sql)


def _check_tokens(tokens: list[Any], sql: str) -> None:
    if not tokens:
        raise InvalidInputError("the expression is empty; give a condition or value", sql=sql)
    depth = 0
    for token in tokens:
        kind = token.token_type.name
        if kind in _OPENING:
            depth += 1
            if depth > MAX_NESTING:
                raise _too_deep(sql)
        elif kind in _CLOSING:
            depth -= 1
        elif kind == "SEMICOLON":
            raise InvalidInputError(
                f"{shorten(sql)} has a semicolon at line {token.line}, column {token.col}: "
                "one expression, not several statements",
                sql=sql,
                line=token.line,
                column=token.col,
            )


def _check_depth(tree: Any, sql: str) -> None:
    stack = [(tree, 1)]
    while stack:
        node, depth = stack.pop()
        if depth > MAX_DEPTH:
            raise _too_deep(sql)
        kind = type(node).__name__
        for child in node.iter_expressions():
            chained = kind in ("And", "Or") and type(child).__name__ == kind
            stack.append((child, depth if chained else depth + 1))


@functools.cache
def _dialect() -> Any:
    from sqlglot.dialects import duckdb

    parent: Any = duckdb.DuckDB
    parsers = parent.Parser.FUNCTION_PARSERS
    bare_parsers = parent.Parser.NO_PAREN_FUNCTION_PARSERS
    keywords = {kind for word, kind in parent.Tokenizer.KEYWORDS.items() if word.isalpha()}
    tokenizer = {"IDENTIFIERS": ['"', "`"], "HEX_STRINGS": [("x'", "'"), ("X'", "'")]}
    parser = {
        "FUNCTIONS": {},
        "FUNCTION_PARSERS": {name: parsers[name] for name in _SPECIAL_SYNTAX},
        "NO_PAREN_FUNCTION_PARSERS": {"CASE": bare_parsers["CASE"]},
        "COLON_PLACEHOLDER_TOKENS": parent.Parser.ID_VAR_TOKENS | keywords,
        "_advance": counted_advance(parent.Parser, _STEPS_PER_TOKEN),
    }
    members = {
        "INDEX_OFFSET": 0,
        "Tokenizer": subclass(parent.Tokenizer, "Tokenizer", tokenizer),
        "Parser": subclass(parent.Parser, "Parser", parser),
    }
    return subclass(parent, "LancewoodExpressions", members)()
