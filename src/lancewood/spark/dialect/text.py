"""From query text to tokens and a tree, in Spark's dialect with ``table@revision`` as a name.

Decides which statements are queries; what a name means is decided elsewhere. A revision is looked
for where the tokenizer sees a name followed by an ``@``, so never in a string, a comment or a
quoted name. Spark gets the text as it was written: the tree is only inspected.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from lancewood.errors import InvalidInputError
from lancewood.expr.syntax import check_text, shorten
from lancewood.spark.dialect.dialects import counted_advance, subclass, translated_errors
from lancewood.spark.dialect.settings import Settings

MAX_LENGTH = 1_000_000
"""The longest query, in characters."""
MAX_NESTING = 64
"""How deep parentheses may nest: sqlglot needs some twenty frames a level."""

SPAN = "span"
"""The key under which a table's node, and that of its AS OF, keep their tokens."""

SUFFIX = "suffix"
"""The key under which the type of a number such as 5L records that no cast was written."""
WRITTEN = "written"
"""The key under which the node of a function keeps the name it was called by."""

_revision = re.compile(r"(?:(?!--|/\*)[\w./~^:{}@+-])*").match
_bare_path = re.compile(r"\b(?:from|join)\s+([\w.~:-]*/[^\s,;()'\"`]*)", re.IGNORECASE).search
_OPENING = frozenset({"L_PAREN", "L_BRACKET", "L_BRACE"})
_CLOSING = frozenset({"R_PAREN", "R_BRACKET", "R_BRACE"})
_NAMES = frozenset({"VAR", "IDENTIFIER"})
_AROUND = frozenset({"Filter", "IgnoreNulls", "RespectNulls", "Window", "WithinGroup"})
"""What follows the call of a function in the text, and surrounds it in the tree."""
_STEPS_PER_TOKEN = 200
_VERSIONS = "versions are listed by lw table versions, or by Table.versions"
_COLUMNS = "columns are listed by lw table schema, or by Table.schema"
_INSTEAD = {
    "EXPLAIN": "ask for the plan with explain_sql, or with lw sql --explain",
    "TABLE": "write SELECT * FROM it",
    "DROP": "a table is dropped by lw table drop, or by lancewood.drop",
    "VACUUM": "old versions are removed by lw table cleanup, or by Table.cleanup",
    **dict.fromkeys(("DESCRIBE HISTORY", "DESC HISTORY"), _VERSIONS),
    **dict.fromkeys(("DESCRIBE", "DESC"), _COLUMNS),
    "SHOW TABLES": "the tables of a repository are listed by lw tables, or by Repository.tables",
    "ALTER TABLE": "ALTER TABLE changes columns, branches and tags; properties are set by lw table "
    "config, or by Table.set_config",
    "CREATE TABLE": "tables are Lance's and have no partitions: leave USING, STORED AS and "
    "PARTITIONED BY out",
}
_ABOUT_A_TABLE = frozenset({"DROP TABLE", "ALTER TABLE", "VACUUM", "DESCRIBE", "DESC"})
"""How statements begin that name a table which is there."""
_BEFORE_ITS_NAME = frozenset(
    {"TABLE", "IF", "EXISTS", "EXTENDED", "FORMATTED", "HISTORY", "DETAIL"}
)


@dataclass(frozen=True)
class Query:
    """One query: its text, and what sqlglot makes of it."""

    sql: str
    tokens: Sequence[Any]
    tree: Any
    unsure: frozenset[str]
    """Strings that were written with escapes, which Spark and sqlglot may read differently."""

    def calls(self) -> Iterator[str]:
        """The names of all functions that are called, in lower case; possibly other words, too."""
        for one, two in zip(self.tokens, self.tokens[1:], strict=False):
            if two.token_type.name == "L_PAREN":
                yield one.text.lower()


def parse_query(sql: str, settings: Settings) -> Query:
    """Parse a query.

    Raises InvalidInputError for what is not a string, not SQL, more than one statement or not a
    query.
    """
    check_text(sql, "the query", MAX_LENGTH)
    dialect = _dialect(settings.double_quotes_name)
    tokens, tree = _parsed(sql, dialect)
    return Query(sql, tokens, tree, frozenset(_written_with_escapes(sql, tokens)))


def script_tokens(sql: str, settings: Settings) -> list[Any]:
    """The tokens of a script, in which ``@`` is still a token of its own.

    Raises InvalidInputError for what is not a string, too long, or not closed.
    """
    check_text(sql, "the query", MAX_LENGTH)
    with translated_errors(sql, shown(sql)):
        tokens = _script_dialect(settings.double_quotes_name).tokenize(sql)
        return _with_quotes(sql, tokens)


def with_revisions(sql: str, tokens: Sequence[Any]) -> list[Any]:
    """The tokens, with ``name@revision`` as one that is a quoted name; raises
    InvalidInputError."""
    return list(_revisions_joined(sql, tokens))


def parse_fragment(sql: str, kind: str, settings: Settings, reason: str = "") -> Any:
    """The tree of a part of a statement: of a ``Condition``, which is any expression, or of a
    ``DataType``. Raises InvalidInputError, with a better reason than sqlglot's if one is given."""
    from sqlglot import exp
    from sqlglot.errors import ErrorLevel

    dialect = _dialect(settings.double_quotes_name)
    with translated_errors(sql, shown(sql), reason=reason):
        tokens = with_revisions(sql, _with_quotes(sql, dialect.tokenize(sql)))
        _check_nesting(sql, tokens)
        parser = dialect.parser(error_level=ErrorLevel.IMMEDIATE)
        trees = parser.parse_into(getattr(exp, kind), tokens, sql)
    found = _statements(trees)
    if len(found) != 1:
        raise InvalidInputError(f"{shown(sql)} is not one {kind}")
    _check_inside(sql, found[0])
    return found[0]


def shown(sql: str) -> str:
    """A query in quotes for a message, shortened in the middle if it is long."""
    return shorten(" ".join(sql.split()))


def _statements(trees: Iterable[Any]) -> list[Any]:
    """What was parsed, without what sqlglot takes a comment after a semicolon for."""
    from sqlglot import exp

    return [each for each in trees if each is not None and not isinstance(each, exp.Semicolon)]


def _parsed(sql: str, dialect: Any) -> tuple[list[Any], Any]:
    from sqlglot.errors import ErrorLevel

    path = _bare_path(sql)
    reason = "" if path is None else f"a path stands in quotes: FROM '{path[1]}'"
    with translated_errors(sql, shown(sql), reason=reason):
        tokens = with_revisions(sql, _with_quotes(sql, dialect.tokenize(sql)))
        _check_statement(sql, tokens)
        trees = dialect.parser(error_level=ErrorLevel.IMMEDIATE).parse(tokens, sql)
    found = _statements(trees)
    if len(found) != 1:
        raise InvalidInputError(f"{shown(sql)} is {len(found)} statements: give one query")
    _check_query(sql, found[0])
    return tokens, found[0]


def _with_quotes(sql: str, tokens: Sequence[Any]) -> list[Any]:
    """The tokens, with ``'it''s'`` as one string: to sqlglot it is two, as before Spark 4."""
    found: list[Any] = []
    for each in tokens:
        last = found[-1] if found else each
        kinds = {last.token_type.name, each.token_type.name}
        if kinds == {"STRING"} and sql[last.end : each.start + 1] in ("''", '""'):
            text = f"{last.text}{sql[each.start]}{each.text}"
            found[-1] = _one_token(last, text, each.end, last.token_type)
        else:
            found.append(each)
    return found


def _revisions_joined(sql: str, tokens: Sequence[Any]) -> Iterator[Any]:
    at = 0
    while at < len(tokens):
        name, following = tokens[at], [*tokens[at + 1 : at + 3], None, None]
        if not _is_parted(name, following[0]):
            yield name
            at += 1
            continue
        revision, end = _revision_after(sql, following[0], following[1])
        while at < len(tokens) and tokens[at].start < end:
            at += 1
        if not revision or tokens[at - 1].end >= end:
            raise InvalidInputError(
                f"{sql[name.start : end]!r} at line {name.line} names no revision: write "
                f"{name.text}@branch, {name.text}@tag, {name.text}@:12 or, with other characters, "
                f"{name.text}@`…`"
            )
        yield _one_token(name, f"{name.text}@{revision}", end - 1)


def _is_parted(name: Any, following: Any) -> bool:
    """Whether an @ directly follows what can be a name."""
    is_at = following is not None and following.text == "@"
    return is_at and following.start == name.end + 1 and _can_name(name)


def _revision_after(sql: str, at: Any, following: Any) -> tuple[str, int]:
    """The revision after an @, and where it ends."""
    is_quoted = following is not None and following.token_type.name == "IDENTIFIER"
    if is_quoted and following.start == at.end + 1:
        return following.text, following.end + 1
    found = _revision(sql, at.end + 1)
    assert found is not None
    return found[0], found.end()


def _can_name(token: Any) -> bool:
    return token.token_type.name == "IDENTIFIER" or re.fullmatch(r"\w+", token.text) is not None


def _one_token(first: Any, text: str, end: int, kind: Any = None) -> Any:
    from sqlglot import tokens

    kinds: Any = tokens
    return kinds.Token(
        kind or kinds.TokenType.IDENTIFIER,
        text,
        line=first.line,
        col=first.col,
        start=first.start,
        end=end,
        comments=first.comments,
    )


def _check_statement(sql: str, tokens: Sequence[Any]) -> None:
    """Check the statement before sqlglot parses it, which warns about what it does not know."""
    if not tokens:
        raise InvalidInputError("the query is empty: write SELECT … FROM a table")
    _check_nesting(sql, tokens)
    first = next((each for each in tokens if each.token_type.name != "L_PAREN"), tokens[0])
    word = first.text.upper()
    if word not in ("SELECT", "WITH", "VALUES", "FROM"):
        raise _no_query(sql, word, _words(tokens))


def _words(tokens: Sequence[Any]) -> str:
    """The first two words of a statement, in capitals."""
    return " ".join(" ".join(str(each.text) for each in tokens[:2]).upper().split()[:2])


def check_not_ours(sql: str, settings: Settings, is_ours: Callable[[str], bool]) -> None:
    """Raise InvalidInputError, with the way out, for a statement that only engines have for their
    tables, and that names one of ours."""
    tokens = script_tokens(sql, settings)
    words = _words(tokens)
    word = words.partition(" ")[0]
    if words not in _ABOUT_A_TABLE and word not in _ABOUT_A_TABLE:
        return
    rest = iter(with_revisions(sql, tokens)[1:])
    named = next((each for each in rest if each.text.upper() not in _BEFORE_ITS_NAME), None)
    after = next(rest, None)
    if named is None or named.token_type.name not in _NAMES:
        return
    is_whole = after is None or after.token_type.name != "DOT"
    if is_whole and is_ours(str(named.text).partition("@")[0]):
        raise _no_query(sql, word, words)


def _check_nesting(sql: str, tokens: Sequence[Any]) -> None:
    depth = 0
    for each in tokens:
        kind = each.token_type.name
        depth += (kind in _OPENING) - (kind in _CLOSING)
        if depth > MAX_NESTING:
            raise InvalidInputError(
                f"{shown(sql)} nests too deeply: {MAX_NESTING} levels are allowed"
            )


def _check_query(sql: str, tree: Any) -> None:
    from sqlglot import exp

    if not isinstance(tree, exp.Select | exp.SetOperation | exp.Subquery | exp.Values):
        raise _no_query(sql, type(tree).__name__.upper())
    _check_inside(sql, tree)


def _check_inside(sql: str, tree: Any) -> None:
    """Raise InvalidInputError where a query, or a part of one, changes something."""
    from sqlglot import exp

    for each in tree.find_all(exp.DML, exp.DDL, exp.Command, exp.Into):
        if not isinstance(each, exp.Query):
            raise _no_query(sql, type(each).__name__.upper())


def is_no_query(error: InvalidInputError) -> bool:
    """Whether a text was refused because it is no query."""
    return "found" in error.facts


def _no_query(sql: str, word: str, words: str = "") -> InvalidInputError:
    others = "the statements that change tables are in docs/sql.md"
    instead = _INSTEAD.get(words) or _INSTEAD.get(word, others)
    return InvalidInputError(
        f"{shown(sql)} is no query: only SELECT, WITH, VALUES and what joins them are queries, "
        f"found {word}; {instead}",
        found=word,
    )


def _written_with_escapes(sql: str, tokens: Sequence[Any]) -> Iterator[str]:
    for each in tokens:
        if each.token_type.name == "STRING":
            written = sql[each.start + 1 : each.end]
            if written != each.text or "\\" in written:
                yield each.text


@functools.cache
def _dialect(double_quotes_name: bool) -> Any:
    from sqlglot.dialects import spark

    parent: Any = spark.Spark
    parser = {
        "VERSION_PHRASES": {
            **parent.Parser.VERSION_PHRASES,
            ("FOR", "SYSTEM_VERSION"): "VERSION",
            ("SYSTEM_VERSION", "AS", "OF"): "VERSION",
            ("SYSTEM_TIME", "AS", "OF"): "TIMESTAMP",
        },
        "_parse_table_parts": _recorded(parent.Parser._parse_table_parts, is_name=True),
        "_parse_version": _recorded(parent.Parser._parse_version, is_name=False),
        "_parse_function_call": _called(parent.Parser._parse_function_call),
        "_parse_dcolon": _suffix(parent.Parser._parse_dcolon),
        "_advance": counted_advance(parent.Parser, _STEPS_PER_TOKEN),
    }
    members = {"Parser": subclass(parent.Parser, "Parser", parser)}
    if double_quotes_name:
        tokenizer = {"IDENTIFIERS": ["`", '"'], "QUOTES": ["'"]}
        members["Tokenizer"] = subclass(parent.Tokenizer, "Tokenizer", tokenizer)
    return subclass(parent, f"LancewoodQueries{int(double_quotes_name)}", members)()


@functools.cache
def _script_dialect(double_quotes_name: bool) -> Any:
    """The dialect with tokens also of statements of which sqlglot keeps the rest as one text."""
    parent = type(_dialect(double_quotes_name))
    tokenizer = subclass(parent.tokenizer_class, "Tokenizer", {"COMMANDS": set()})
    return subclass(
        parent, f"LancewoodScripts{int(double_quotes_name)}", {"Tokenizer": tokenizer}
    )()


def _recorded(parse: Any, *, is_name: bool) -> Any:
    """A method of the parser that records the tokens of its node; of a name, the first, and of a
    function all."""

    def recorded(self: Any, *args: Any, **kwargs: Any) -> Any:
        first = self._index
        found = parse(self, *args, **kwargs)
        if found is not None:
            is_word = is_name and type(found.this).__name__ == "Identifier"
            found.meta[SPAN] = (first, first + 1 if is_word else self._index)
        return found

    return recorded


def _suffix(parse: Any) -> Any:
    """The parser of a type after ``::``, recording whether it ended a number, as in 5L."""

    def suffix(self: Any) -> Any:
        is_suffix = self._prev.start == self._curr.start
        found = parse(self)
        if found is not None and is_suffix:
            found.meta[SUFFIX] = True
        return found

    return suffix


def _called(parse: Any) -> Any:
    """The parser of a function, recording the word that was written, since nodes have other
    names."""

    def called(self: Any, *args: Any, **kwargs: Any) -> Any:
        word = "" if self._curr is None else str(self._curr.text).lower()
        node = found = parse(self, *args, **kwargs)
        while type(node).__name__ in _AROUND:
            node = node.this
        if node is not None:
            node.meta.setdefault(WRITTEN, word)
        return found

    return called
