"""Reading the tokens of one statement from left to right: words, names, targets, and spans of text
that stay as they are.

Conditions, queries and types are parsed by DuckDB. What is wrong is an InvalidInputError with the
line, what was expected and what was found.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any, TypeVar

import pyarrow as pa

from lancewood.errors import InvalidInputError, UnsupportedError
from lancewood.expr.columns import usual_type
from lancewood.expr.database import QUERIES, in_our_words
from lancewood.query.names import parsed_query
from lancewood.query.sources import Identifiers
from lancewood.query.statements.model import At, Moment, Path, Target
from lancewood.query.tokens import CLOSING, OPENING, Token, shown, version_number

T = TypeVar("T")
COLUMN = "the name of a column"
"""What is expected where one has to stand."""

_is_ref = re.compile(r"[\w./+-]+").fullmatch
_INSTEAD = {
    **dict.fromkeys(("HUGEINT", "UHUGEINT"), "DECIMAL(38,0)"),
    **dict.fromkeys(("UUID", "JSON", "ENUM", "INTERVAL"), "VARCHAR"),
    **dict.fromkeys(("BIGNUM", "TIME WITH TIME ZONE", "UNION", "VARIANT"), "VARCHAR"),
    "BIT": "BLOB",
}
"""For the types of DuckDB that a table cannot hold as what they are, one that may do."""
_RETURNING = (
    "RETURNING is not answered: ask with a query after the statement, or for what changed with "
    "diff('t', 'main~1', 'main')"
)


class Reader:
    """The tokens of a statement, and how far they are read."""

    identifiers = Identifiers()

    def __init__(self, script: str, tokens: Sequence[Token]) -> None:
        self.script = script
        self._tokens = tokens
        self._at = 0

    @property
    def sql(self) -> str:
        """The whole statement, as it was written."""
        return self._text(0, len(self._tokens))

    @property
    def is_done(self) -> bool:
        return self._at >= len(self._tokens)

    @property
    def kind(self) -> str:
        """The kind of the next token; empty at the end."""
        return "" if self.is_done else self._tokens[self._at].kind

    def word(self, ahead: int = 0) -> str:
        """A coming word or sign, in upper case; empty at the end, and for what is quoted."""
        at = self._at + ahead
        return self._tokens[at].word if 0 <= at < len(self._tokens) else ""

    def sees(self, *words: str, ahead: int = 0) -> bool:
        """Whether these words come next."""
        return all(self.word(at) == each for at, each in enumerate(words, ahead))

    def has(self, *words: str) -> bool:
        """Whether these words come at all."""
        return any(self.sees(*words, ahead=at) for at in range(len(self._tokens) - self._at))

    def takes(self, *words: str) -> bool:
        """Read these words, if they come next; whether they did."""
        found = self.sees(*words)
        self._at += len(words) if found else 0
        return found

    def takes_one(self, *words: str) -> str:
        """Read one of these words; empty if none of them comes next."""
        found = self.word()
        return found if found in words and self.takes(found) else ""

    def expect(self, *words: str) -> None:
        """Read these words; raises InvalidInputError."""
        if not self.takes(*words):
            raise self.wrong(" ".join(words))

    def end(self, expected: str = "the end of the statement") -> None:
        """Raise InvalidInputError if anything is left."""
        if self.sees("RETURNING"):
            raise self.refused(_RETURNING)
        if not self.is_done:
            raise self.wrong(expected)

    def skip_to(self, *stops: str) -> None:
        """Go to the first of these words outside of parentheses and CASE."""
        depth = cases = 0
        while not self.is_done:
            word = self.word()
            if not depth and not cases and word in stops and self.word(-1) != "DISTINCT":
                return
            if not depth and word in CLOSING:
                return
            depth += (word in OPENING) - (word in CLOSING)
            if not depth:
                cases = max(0, cases + (word == "CASE") - (word == "END"))
            self._at += 1

    def rest(self) -> Sequence[Token]:
        """All tokens that are left."""
        first, self._at = self._at, len(self._tokens)
        return self._tokens[first:]

    def listed(self, read: Callable[[], T]) -> list[T]:
        """What is read several times, with commas between."""
        found = [read()]
        while self.takes(","):
            found.append(read())
        return found

    def in_parentheses(self, read: Callable[[], T]) -> list[T]:
        """What is read several times, with commas between and parentheses around."""
        self.expect("(")
        found = self.listed(read)
        self.expect(")")
        return found

    def name(self, what: str) -> str:
        """One name, quoted or not."""
        if self.kind not in ("word", "name"):
            raise self.wrong(what)
        return self._next()

    def path(self, what: str) -> Path:
        """Names with dots between them."""
        found = [self.name(what)]
        while self.takes("."):
            found.append(self.name(what))
        return tuple(found)

    def columns(self) -> tuple[str, ...]:
        """The names of columns in parentheses, each once."""
        found = tuple(self.in_parentheses(lambda: self.name(COLUMN)))
        self.check_once([(each,) for each in found], COLUMN)
        return found

    def values(self) -> tuple[str, ...]:
        """Expressions in parentheses; the word NULL for DEFAULT."""
        return tuple(self.in_parentheses(lambda: self.expression("a value", ",")))

    def text(self, what: str) -> str:
        """A text in quotes."""
        if self.kind != "text":
            raise self.wrong(f"{what} in quotes")
        return self._next()

    def ref(self, what: str) -> str:
        """The name of a branch or tag: a text, a quoted name, or what has no space in it."""
        if self.kind in ("text", "name"):
            return self._next()
        if self.is_done:
            raise self.wrong(what)
        first = self._at
        self._at += 1
        while not self.is_done and self.word() not in (",", ")"):
            if self._tokens[self._at].start > self._tokens[self._at - 1].end:
                break
            self._at += 1
        found = self._text(first, self._at)
        if not _is_ref(found):
            self._at = first
            raise self.wrong(f"{what}; one with other characters stands in quotes")
        return found

    def alias(self, *stops: str) -> str | None:
        """An alias, with or without AS, if something else than these words comes next."""
        if self.takes("AS"):
            return self.name("an alias")
        return self._next() if self.kind in ("word", "name") and self.word() not in stops else None

    def target(self) -> Target:
        """A table, at most with a branch; raises InvalidInputError for a state that cannot be
        changed."""
        found = self.table()
        self.check_branch(found)
        if self.sees("AT", "("):
            raise self.refused(
                f"{found.written} AT (…) is one state, and only a branch can be changed: write "
                f"{found.name} or {found.name}@branch"
            )
        return found

    def table(self) -> Target:
        """A table at any revision."""
        first = self._at
        if self.kind == "text":
            written = self._next()
        else:
            *above, written = self.path("the name of a table")
            if above:
                whole = ".".join((*above, written))
                self._at = first
                raise self.refused(
                    f"tables have one name without a dot, and {whole} has several: give it a name "
                    f"in tables=; a path stands in quotes, '{whole}'"
                )
        name, at, revision = written.partition("@")
        if not name or (at and not revision):
            self._at = first
            raise self.wrong("the name of a table, such as photos or photos@exp")
        return Target(name, revision if at else None)

    def check_branch(self, table: Target) -> None:
        """Raise InvalidInputError if the table that was just read is at one state."""
        if not table.can_be_branch:
            self._at -= 1
            raise self.refused(
                f"{table.written} is one state, and only a branch can be changed: write "
                f"{table.name} or {table.name}@branch; CREATE BRANCH fix ON {table.name} FROM "
                f"'{table.revision}' makes one that begins there"
            )

    def query(self) -> str:
        """All that is left, which has to be a query."""
        if self.has("RETURNING"):
            raise self.refused(_RETURNING)
        return self._span((), "a query", "{}")

    def queries(self, *stops: str) -> str:
        """The queries of a WITH that was just read, with it."""
        self._at -= 1
        return self._span(stops, "WITH", "{} SELECT 1")

    def tables(self, *stops: str) -> str:
        """What can stand in FROM, to the first of these words."""
        first = self._at
        text = self._span(stops, what := "a table or a query in parentheses", "SELECT 1 FROM {}\n")
        if _beside_from(f"SELECT 1 FROM {text}\n") != _beside_from("SELECT 1 FROM t"):
            self._at = first
            raise self.wrong(f"{what}, and nothing after it")
        return text

    def relation(self, *stops: str) -> tuple[str, str | None]:
        """A query for one thing that can stand in FROM, and the name that qualifies its columns."""
        first = self._at
        text = self.tables(*stops)
        source = parsed_query(f"SELECT * FROM {text}")["from_table"]
        if source["type"] in ("JOIN", "EMPTY"):
            self._at = first
            raise self.wrong("one table, or one query in parentheses")
        name = str(source.get("alias") or "")
        if not name and source["type"] == "BASE_TABLE":
            name = str(source["qualified_name"]["path"][-1]).partition("@")[0]
        if not name and source["type"] == "TABLE_FUNCTION":
            name = str(source["function"]["function_name"])
        return f"SELECT * FROM {text}", name or None

    def expression(self, what: str, *stops: str) -> str:
        """An expression, to the first of these words outside of parentheses and CASE; the word NULL
        for DEFAULT."""
        if self.takes("DEFAULT"):
            if not self.is_done and self.word() not in (*stops, ")", ","):
                raise self.wrong("nothing after DEFAULT")
            return "NULL"
        return self._span(stops, what, "SELECT ({}\n)")

    def type(self, *stops: str) -> str:
        """The type of a column, as it is written; raises InvalidInputError for one that tables
        cannot hold."""
        first = self._at
        self.skip_to(",", *stops)
        if self._at == first:
            raise self.wrong("a type such as BIGINT")
        text = self._text(first, self._at)
        try:
            arrow_type(text)
        except (InvalidInputError, UnsupportedError) as error:
            self._at = first
            raise self.refused(error.message) from None
        return text

    def at(self) -> At:
        """``VERSION 12``, ``TIMESTAMP '…'``, or a revision in quotes."""
        if self.kind == "text":
            return self._next()
        if self.takes("TIMESTAMP"):
            return Moment(self.expression("a time", "ON"))
        if not self.takes("VERSION"):
            raise self.wrong("VERSION 12, TIMESTAMP '2026-11-15' or a revision in quotes")
        number = None if self.is_done else version_number(self._tokens[self._at].text)
        if number is None:
            raise self.wrong(
                "the number of a version, of which the first is 1; a revision stands in quotes"
            )
        self._at += 1
        return number

    def check_once(self, paths: Sequence[Path], what: str) -> None:
        """Raise InvalidInputError where two are the same."""
        seen: set[Path] = set()
        for each in paths:
            folded = tuple(map(self.identifiers.folded, each))
            if folded in seen:
                raise self.refused(f"{'.'.join(each)!r} is given twice: give {what} once")
            seen.add(folded)

    def wrong(self, expected: str) -> InvalidInputError:
        """The error for something else than what was expected here."""
        found = "the end of the statement"
        if not self.is_done:
            token = self._tokens[self._at]
            found = shown(self.script[token.start : token.end])
        return self.refused(f"expected {expected}, found {found}")

    def refused(self, why: str) -> InvalidInputError:
        """The error about this place of the statement."""
        token = self._tokens[min(self._at, len(self._tokens) - 1)]
        start = token.end if self.is_done else token.start
        line = self.script.count("\n", 0, start) + 1
        column = start - self.script.rfind("\n", 0, start)
        return InvalidInputError(
            f"cannot read {shown(self.sql)} as SQL at line {line}, column {column}: {why}",
            sql=self.sql,
            line=line,
            column=column,
        )

    def _next(self) -> str:
        self._at += 1
        return self._tokens[self._at - 1].text

    def _span(self, stops: Sequence[str], what: str, frame: str) -> str:
        """The text to the first of these words, which has to be SQL within a frame."""
        first = self._at
        self.skip_to(*stops)
        if self._at == first:
            raise self.wrong(what)
        text = self._text(first, self._at)
        try:
            parsed_query(frame.format(text))
        except InvalidInputError as error:
            self._at = first
            raise self.refused(str(error.facts.get("reason", error.message))) from None
        return text

    def _text(self, first: int, last: int) -> str:
        return self.script[self._tokens[first].start : self._tokens[last - 1].end]


def _beside_from(query: str) -> dict[str, Any]:
    """What a query has beside what stands in FROM."""
    return {name: each for name, each in parsed_query(query).items() if name != "from_table"}


@lru_cache(maxsize=256)
def arrow_type(sql: str) -> pa.DataType:
    """The Arrow type of a column of DuckDB's type; raises InvalidInputError for what is no type,
    and UnsupportedError for one that tables cannot hold."""
    import duckdb

    try:
        with QUERIES.cursor() as own:
            found = own.sql(f"SELECT CAST(NULL AS {sql}\n) AS value")
            names, (field,) = [*_types_in(found.types[0])], found.limit(0).to_arrow_table().schema
    except duckdb.Error as error:
        raise InvalidInputError(f"{shown(sql)} is no type: {in_our_words(error)}") from None
    for name in names:
        if name in _INSTEAD:
            raise UnsupportedError(
                f"tables cannot hold the type {name} of {sql!r}: {_INSTEAD[name]} may do", type=sql
            )
    return usual_type(field.type)


def _types_in(kind: Any) -> Iterator[str]:
    """The name of a type of DuckDB's, and of those in it."""
    if kind.id in ("list", "array", "struct", "map"):
        for _, child in kind.children:
            if isinstance(child, type(kind)):
                yield from _types_in(child)
    yield str(kind).partition("(")[0]
