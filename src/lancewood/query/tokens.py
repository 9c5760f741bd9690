"""SQL text as tokens with places, by DuckDB's own tokenizer, and edits of the text at places.

`photos@v1.0` is not in DuckDB's grammar. A name, an `@` and a revision without spaces between them
have no other meaning there, and are one token here: the quoted name `"photos@v1.0"`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise, zip_longest
from typing import Literal, TypeAlias

from lancewood.errors import InvalidInputError
from lancewood.expr.database import MAX_DEPTH
from lancewood.expr.syntax import check_text, shorten, too_deep

MAX_LENGTH = 1_000_000
"""The longest text, in characters."""
_MOST_DIGITS = 18
OPENING, CLOSING = frozenset("([{"), frozenset(")]}")

_revision = re.compile(r"@(?:(?!--|/\*)[\w./~^:{}@+-])+").match
_quoted_revision = re.compile(r'@"(?:[^"]|"")+"').match
_dollars = re.compile(r"(\$\w*\$)(.*)\1", re.DOTALL).fullmatch
_is_ended = re.compile(r"""[^"'$].*|"([^"]|"")*"|'([^']|'')*'|(\$\w*\$).*\3""", re.DOTALL).fullmatch


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of SQL text, between two characters of it."""

    kind: Literal["word", "name", "text", "number", "sign"]
    """A `name` is an identifier in quotes, a `word` any other one or a keyword."""
    text: str
    """What it says, without the quotes of a name or text."""
    start: int
    end: int

    @property
    def word(self) -> str:
        """A keyword or sign, in upper case; empty for names and texts in quotes."""
        return self.text.upper() if self.kind in ("word", "sign") else ""


Edit: TypeAlias = tuple[int, int, str]
"""The characters from the first number to before the second, and what replaces them."""


def quoted(name: str) -> str:
    """A name in double quotes."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """A text in single quotes."""
    return "'" + text.replace("'", "''") + "'"


def edited(sql: str, edits: Iterable[Edit]) -> str:
    """The text after edits that do not overlap."""
    for start, end, new in sorted(edits, reverse=True):
        sql = sql[:start] + new + sql[end:]
    return sql


def version_number(text: str) -> int | None:
    """The number of a version, from 1 on; None for a text that is none."""
    is_number = text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS
    return int(text) or None if is_number else None


def shown(sql: str) -> str:
    """SQL in quotes for a message, in one line and shortened in the middle."""
    return shorten(" ".join(sql.split()))


def tokens(sql: str) -> list[Token]:
    """The tokens of a text without its comments. Raises InvalidInputError for what is no text."""
    check_text(sql, "the query", MAX_LENGTH)
    return list(_with_revisions(sql, list(_plain_tokens(sql))))


def with_revisions_quoted(sql: str) -> str:
    """The text with `photos@v1` as `"photos@v1"`, and with quotes around the argument `on` of
    `diff`, which DuckDB takes for its keyword."""
    edits, found = [], tokens(sql)
    for token, after in zip_longest(found, found[1:]):
        if token.kind == "name" and not sql.startswith(quoted(token.text), token.start):
            edits.append((token.start, token.end, quoted(token.text)))
        elif token.word == "ON" and after is not None and after.text == "=>":
            edits.append((token.start, token.end, '"on"'))
    return edited(sql, edits)


def statements(sql: str) -> Iterator[list[Token]]:
    """The tokens of each statement of a script, which semicolons separate."""
    found, dots = tokens(sql), 0
    for one, two in pairwise(found):
        dots = dots + 1 if one.text == "." else dots if two.text == "." else 0
        if dots > MAX_DEPTH:
            raise too_deep(sql)
    for each in found:
        if each.kind in ("word", "name") and each.text.lower().startswith("__lancewood"):
            raise InvalidInputError(f"{shown(each.text)}: such names are taken; choose another")
    for is_end, part in groupby(found, lambda each: each.word == ";"):
        if not is_end:
            yield list(part)


def _plain_tokens(sql: str) -> Iterator[Token]:
    import duckdb

    kinds = duckdb.token_type
    found, raw = duckdb.tokenize(sql) if sql.strip() else [], sql.encode()
    offsets = [*(offset for offset, _ in found), len(raw)]  # DuckDB counts bytes
    after = len(raw[: offsets[0]].decode())
    for (_, kind), (first, last) in zip(found, pairwise(offsets), strict=True):
        piece = raw[first:last].decode()
        start, after, written = after, after + len(piece), piece.rstrip()
        end = start + len(written)
        if kind == kinds.comment or not written:
            continue
        if kind in (kinds.identifier, kinds.string_const) and not _is_ended(written):
            raise InvalidInputError(
                f"cannot read {shown(sql)} as SQL: {shown(written)} does not end", sql=sql
            )
        if written.startswith('"'):
            yield Token("name", _unquoted(written), start, end)
        elif kind == kinds.string_const and written.startswith("'"):
            yield Token("text", written[1:-1].replace("''", "'"), start, end)
        elif kind == kinds.string_const:  # one with escapes stays as it is written
            dollars = _dollars(written)
            yield Token("text", written if dollars is None else dollars[2], start, end)
        elif kind in (kinds.identifier, kinds.keyword):
            yield Token("word", written, start, end)
        elif kind == kinds.numeric_const and written != ".":
            yield Token("number", written, start, end)
        elif set(written) == {";"}:  # they may come together
            yield from (Token("sign", ";", at, at + 1) for at in range(start, end))
        else:
            yield Token("sign", written, start, end)


def _with_revisions(sql: str, found: Sequence[Token]) -> Iterator[Token]:
    """The tokens, with a name and its revision as one."""
    done = 0
    for token, after in zip_longest(found, found[1:]):
        if token.start < done:
            continue
        is_before_at = after is not None and after.start == token.end and after.text.startswith("@")
        match = None
        if is_before_at and token.kind in ("name", "word"):
            match = _quoted_revision(sql, token.end) or _revision(sql, token.end)
        if match is None:
            yield token
            continue
        done, revision = match.end(), match[0][1:]
        if revision.startswith('"'):
            revision = _unquoted(revision)
        yield Token("name", f"{token.text}@{revision}", token.start, done)


def _unquoted(name: str) -> str:
    return name[1:-1].replace('""', '"')
