"""Reading the tokens of one statement from left to right: words, names, targets, and spans of text
that are handed to sqlglot.

What is wrong is an InvalidInputError with the line, what was expected and what was found.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from typing import Any, NoReturn, TypeVar

from lancewood.errors import InvalidInputError, UnsupportedError
from lancewood.query.statements.model import At, Moment, Path, Target
from lancewood.query.tokens import version_number
from lancewood.spark.dialect.settings import Settings
from lancewood.spark.dialect.text import Query, parse_fragment, parse_query, shown
from lancewood.spark.dialect.types import arrow_type

T = TypeVar("T")

_QUOTED = frozenset({"IDENTIFIER", "STRING", "RAW_STRING"})
_OPENING = frozenset({"L_PAREN", "L_BRACKET", "L_BRACE"})
_CLOSING = frozenset({"R_PAREN", "R_BRACKET", "R_BRACE"})
_is_name = re.compile(r"\w+").fullmatch
_is_ref = re.compile(r"[\w./+-]+").fullmatch
_ALONE = {"expressions", "from_"}
"""What a query has that selects everything from one table."""
_MOMENTS = ("TIMESTAMP", "SYSTEM_TIME")
_VERSIONS = ("VERSION", "SYSTEM_VERSION")
AFTER_TYPE = frozenset(
    {"NOT", "NULL", "COMMENT", "DEFAULT", "FIRST", "AFTER", "AS", "PRIMARY KEY", "GENERATED"}
    | {"CHECK", "CONSTRAINT", "REFERENCES", "UNIQUE", "COLLATE", "MASK"}
)
"""Words that can follow the type of a column."""


class NotOursError(Exception):
    """A statement names what only the engine can have, and goes on to it."""


class Reader:
    """The tokens of a statement, and how far they are read."""

    def __init__(self, script: str, tokens: Sequence[Any], settings: Settings) -> None:
        self._script = script
        self._tokens = tokens
        self.settings = settings
        self._at = 0

    @property
    def sql(self) -> str:
        """The whole statement, as it was written."""
        return self._text(0, len(self._tokens))

    @property
    def is_done(self) -> bool:
        return self._at >= len(self._tokens)

    def word(self, ahead: int = 0) -> str:
        """The next word in capitals; empty at the end, and for what is quoted."""
        at = self._at + ahead
        if at >= len(self._tokens) or self._tokens[at].token_type.name in _QUOTED:
            return ""
        return " ".join(str(self._tokens[at].text).upper().split())

    def kind(self, ahead: int = 0) -> str:
        """The kind of the next token; empty at the end."""
        at = self._at + ahead
        return str(self._tokens[at].token_type.name) if at < len(self._tokens) else ""

    def sees(self, *words: str) -> bool:
        """Whether these words come next."""
        return all(self.word(at) == each for at, each in enumerate(words))

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
        if not self.is_done:
            raise self.wrong(expected)

    def name(self, what: str) -> str:
        """One name, quoted or not."""
        if self.is_done or not self._is_name():
            raise self.wrong(what)
        return self._next()

    def path(self, what: str) -> Path:
        """Names with dots between them."""
        found = [self.name(what)]
        while self.kind() == "DOT":
            self._at += 1
            found.append(self.name(what))
        return tuple(found)

    def names(self, what: str) -> tuple[str, ...]:
        """Names in parentheses, each once."""
        self.expect("(")
        found = [self.name(what)]
        while self.takes(","):
            found.append(self.name(what))
        self.expect(")")
        self.check_once([(each,) for each in found], what)
        return tuple(found)

    def ref(self, what: str) -> str:
        """The name of a branch or tag: a text, a quoted name, or what has no space in it."""
        if self.is_done:
            raise self.wrong(what)
        if self.kind() in _QUOTED:
            return self._next()
        first = last = self._tokens[self._at]
        while not self.is_done:
            each = self._tokens[self._at]
            if each is not first and each.start > last.end + 1:
                break
            last = each
            self._at += 1
        found = self._script[first.start : last.end + 1]
        if not _is_ref(found):
            self._at = next(at for at, each in enumerate(self._tokens) if each is first)
            raise self.wrong(f"{what}; one with other characters stands in backticks")
        return found

    def text(self, what: str) -> str:
        """A text in quotes."""
        if self.kind() not in ("STRING", "RAW_STRING"):
            raise self.wrong(f"{what} in quotes")
        return self._next()

    def alias(self, *stops: str) -> str | None:
        """An alias, with or without AS, if something else than these words comes next."""
        if self.takes("AS"):
            return self.name("an alias")
        if self.is_done or self.word() in stops or not self._is_name():
            return None
        return self._next()

    def target(self) -> Target:
        """A table, at most with a branch.

        Raises NotOursError for a qualified name, InvalidInputError for a revision that cannot be
        changed.
        """
        found = self.table()
        self.check_branch(found)
        return found

    def table(self) -> Target:
        """A table at any revision. Raises NotOursError for a qualified name."""
        if self.kind() == "STRING":
            written = self._next()
        else:
            if self.sees("IDENTIFIER", "(") and self.kind(2) in ("STRING", "COLON", "PLACEHOLDER"):
                raise NotOursError
            *above, written = self.path("the name of a table")
            if above:
                self._check_qualified(above, written)
        name, at, revision = written.partition("@")
        if not name or (at and not revision):
            self._at -= 1
            raise self.wrong("the name of a table, such as photos or photos@exp")
        return Target(name, revision if at else None)

    def check_branch(self, table: Target, *, may_be_as_of: bool = False) -> None:
        """Raise InvalidInputError if the table that was just read is at one state, which cannot be
        changed."""
        if not table.can_be_branch:
            self._at -= 1
            raise self.refused(
                f"{table.written} is one state, and only a branch can be changed: write "
                f"{table.name} or {table.name}@branch; CREATE BRANCH fix ON {table.name} FROM "
                f"'{table.revision}' makes one that begins there"
            )
        follows = self.word(self.sees("FOR"))
        is_as_of = follows in (*_VERSIONS, *_MOMENTS) and "AS" in (self.word(1), self.word(2))
        if is_as_of and not may_be_as_of:
            raise self.refused(
                f"{table.written} {follows} AS OF is one state, and only a branch can be changed: "
                f"write {table.name} or {table.name}@branch"
            )

    def query(self, what: str = "a query") -> str:
        """All that is left, which has to be a query."""
        first = self._at
        self._at = len(self._tokens)
        return self._checked_query(first, what)

    def queries(self, *stops: str) -> str:
        """The queries of a WITH that was just read, with it."""
        first = self._at - 1
        self._skip(frozenset(stops))
        text = self._text(first, self._at)
        self._query(f"{text} SELECT 1", first)
        return text

    def rest(self) -> tuple[str, Sequence[Any], Settings]:
        """What is left, as another reader takes it."""
        first, self._at = self._at, len(self._tokens)
        return self._script, self._tokens[first:], self.settings

    def relation(self, *stops: str) -> tuple[str, str | None]:
        """A query for what can stand in FROM, and the name that qualifies its columns."""
        from sqlglot import exp

        text, first = self._span(frozenset(stops), "a table or a query in parentheses")
        tree = self._query(f"SELECT * FROM {text}", first).tree
        source = tree.find(exp.From).this
        is_one = isinstance(tree, exp.Select) and not source.args.get("joins")
        if not is_one or {each for each, found in tree.args.items() if found} > _ALONE:
            self._at = first
            raise self.wrong("one table, or one query in parentheses")
        return f"SELECT * FROM {text}", str(source.alias_or_name).partition("@")[0] or None

    def expression(self, what: str, *stops: str) -> str:
        """An expression, to the first of these words outside of parentheses and CASE."""
        text, first = self._span(frozenset(stops), what)
        if text.upper() == "DEFAULT":
            self._at = first
            raise self.refused("columns have no DEFAULT: write a value, or NULL")
        tree = self._fragment(text, first, "Condition")
        if tree.is_star:
            self._at = first
            raise self.wrong(what)
        return text

    def has_default(self) -> bool:
        """Whether DEFAULT is one of the values that follow."""
        around = zip(*(range(self._at + at, len(self._tokens)) for at in range(3)), strict=False)
        words = ([self.word(at - self._at) for at in each] for each in around)
        return any(
            one in ("(", ",") and word == "DEFAULT" and other in (")", ",")
            for one, word, other in words
        )

    def type(self) -> str:
        """The type of a column, as it is written; raises InvalidInputError for one that tables
        cannot hold."""
        first, angles, depth = self._at, 0, 0
        while not self.is_done:
            kind = self.kind()
            if not angles and not depth and (kind == "COMMA" or kind in _CLOSING):
                break
            if not angles and not depth and self.word() in AFTER_TYPE:
                break
            angles += (kind == "LT") - (kind == "GT")
            depth += (kind in _OPENING) - (kind in _CLOSING)
            self._at += 1
        if self._at == first:
            raise self.wrong("a type such as BIGINT")
        text = self._text(first, self._at)
        reason = "expected a type such as BIGINT or ARRAY<FLOAT>"
        self._fragment(text, first, "DataType", reason)
        try:
            arrow_type(text, self.settings)
        except (InvalidInputError, UnsupportedError) as error:
            self._at = first
            raise self.refused(error.message) from None
        return text

    def at(self) -> At | None:
        """``VERSION AS OF 12``, ``AS OF TIMESTAMP '…'`` and the like; None if none is there."""
        if self.takes("AS", "OF"):
            word = self.takes_one(*_VERSIONS, *_MOMENTS)
            if not word:
                raise self.wrong("VERSION or TIMESTAMP")
        elif self.word() in (*_VERSIONS, *_MOMENTS):
            word = self.takes_one(*_VERSIONS, *_MOMENTS)
            self.expect("AS", "OF")
        else:
            return None
        if word in _MOMENTS:
            return Moment(self.expression("a time", "ON", "RETAIN"))
        if self.kind() == "STRING":
            return self._next()
        number = version_number(self._tokens[self._at].text) if self.kind() == "NUMBER" else None
        if number is None:
            raise self.wrong(
                "the number of a version, of which the first is 1, or a revision in quotes"
            )
        self._at += 1
        return number

    def pairs(self, what: str) -> tuple[tuple[str, str], ...]:
        """Keys and values in parentheses: ``('a' = '1', b.c = 2)``."""
        self.expect("(")
        found = [self._pair(what)]
        while self.takes(","):
            found.append(self._pair(what))
        self.expect(")")
        self.check_once([(key,) for key, _ in found], what)
        return tuple(found)

    def check_once(self, paths: Sequence[Path], what: str) -> None:
        """Raise InvalidInputError where two are the same."""
        seen: set[Path] = set()
        for each in paths:
            folded = tuple(map(self.settings.folded, each))
            if folded in seen:
                self._at = min(self._at, len(self._tokens)) - 1
                raise self.refused(f"{'.'.join(each)!r} is given twice: give {what} once")
            seen.add(folded)

    def wrong(self, expected: str) -> InvalidInputError:
        """The error for something else than what was expected here."""
        if self.is_done:
            found = "the end of the statement"
        else:
            each = self._tokens[self._at]
            found = shown(self._script[each.start : each.end + 1])
        return self.refused(f"expected {expected}, found {found}")

    def refused(self, why: str) -> InvalidInputError:
        """The error about this place of the statement."""
        at = min(self._at, len(self._tokens) - 1)
        token = self._tokens[at]
        start = token.start if at == self._at else token.end + 1
        line = self._script.count("\n", 0, start) + 1
        column = start - self._script.rfind("\n", 0, start)
        return InvalidInputError(
            f"cannot read {shown(self.sql)} as SQL at line {line}, column {column}: {why}",
            sql=self.sql,
            line=line,
            column=column,
        )

    def _pair(self, what: str) -> tuple[str, str]:
        key = self.text(what) if self.kind() == "STRING" else ".".join(self.path(what))
        self.takes("=")
        if self.kind() in ("STRING", "RAW_STRING", "NUMBER") or self.word() in ("TRUE", "FALSE"):
            value = self._next()
            return key, value.lower() if value.upper() in ("TRUE", "FALSE") else value
        raise self.wrong(f"a value for {key!r}: a text, a number, true or false")

    def _next(self) -> str:
        self._at += 1
        return str(self._tokens[self._at - 1].text)

    def _is_name(self) -> bool:
        token = self._tokens[self._at]
        kind = token.token_type.name
        is_word = kind not in _QUOTED and kind != "NUMBER" and _is_name(token.text) is not None
        return kind == "IDENTIFIER" or is_word

    def _check_qualified(self, above: Collection[str], written: str) -> NoReturn:
        whole = ".".join((*above, written))
        if "lance" in above:
            self._at -= 1
            raise self.refused(f"{whole} is no name: a path stands in quotes, '{written}'")
        if "@" in written:
            self._at -= 1
            raise self.refused(
                f"{whole!r} has a revision, and only tables of Lancewood have those, by one name "
                "without a dot: give it a name in tables="
            )
        raise NotOursError

    def _span(self, stops: frozenset[str], what: str) -> tuple[str, int]:
        """The text to the first of these words, and the place of its first token."""
        first = self._at
        self._skip(stops)
        if self._at == first:
            raise self.wrong(what)
        return self._text(first, self._at), first

    def _skip(self, stops: frozenset[str]) -> None:
        depth = cases = 0
        while not self.is_done:
            kind = self.kind()
            is_stop = self.word() in stops and self.word(-1) != "DISTINCT"
            if not depth and not cases and is_stop:
                return
            if not depth and kind in _CLOSING:
                return
            depth += (kind in _OPENING) - (kind in _CLOSING)
            if not depth:
                cases = max(0, cases + (kind == "CASE") - (kind == "END"))
            self._at += 1

    def _checked_query(self, first: int, what: str) -> str:
        if self._at == first:
            raise self.wrong(what)
        text = self._text(first, self._at)
        self._query(text, first)
        return text

    def _text(self, first: int, last: int) -> str:
        text = self._script[self._tokens[first].start : self._tokens[last - 1].end + 1]
        return str(text)

    def _query(self, text: str, first: int) -> Query:
        return self._placed(text, first, lambda each: parse_query(each, self.settings))

    def _fragment(self, text: str, first: int, kind: str, reason: str = "") -> Any:
        def parse(each: str) -> Any:
            return parse_fragment(each, kind, self.settings, reason)

        return self._placed(text, first, parse)

    def _placed(self, text: str, first: int, parse: Callable[[str], T]) -> T:
        """What is made of a text; an error says where in the script it stands, for which as many
        lines and spaces are put before the text."""
        try:
            return parse(text)
        except InvalidInputError:
            start: int = self._tokens[first].start
            lines = self._script.count("\n", 0, start)
            spaces = start - self._script.rfind("\n", 0, start) - 1
            parse("\n" * lines + " " * spaces + text)
            raise
