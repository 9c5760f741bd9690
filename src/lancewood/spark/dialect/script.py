"""From the text of a script to its statements.

The first words decide: a statement that we know is read to its end, and what is wrong in it is an
error before anything runs; all others, queries among them, are passed on as they were written.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from lancewood.errors import InvalidInputError
from lancewood.query.statements.model import (
    Begin,
    Commit,
    CreateRef,
    CreateTable,
    DropRef,
    Explain,
    Insert,
    Merge,
    Passed,
    Rollback,
    Statement,
)
from lancewood.query.statements.script import check_transactions
from lancewood.spark.dialect.reader import NotOursError, Reader
from lancewood.spark.dialect.rows import (
    read_delete,
    read_insert,
    read_merge,
    read_truncate,
    read_update,
)
from lancewood.spark.dialect.settings import Settings
from lancewood.spark.dialect.tables import (
    or_replace,
    read_alter_table,
    read_create_ref,
    read_create_table,
    read_drop_ref,
    read_optimize,
    read_restore,
    ref_kind,
)
from lancewood.spark.dialect.text import script_tokens, with_revisions

_EXPLAINED_BY_SPARK = ("EXTENDED", "CODEGEN", "COST", "FORMATTED")
_DML = ("INSERT", "MERGE", "UPDATE", "DELETE")
_has_long_comment = re.compile(r"--[^\n]*\\\r?\n").search


def parse_script(text: str, settings: Settings) -> tuple[Statement | Passed, ...]:
    """The statements of a script, which semicolons separate.

    A text that is one statement of none of ours, such as a query, is passed on whole. Raises
    InvalidInputError for a statement that we know and that is wrong, and for a transaction that
    does not begin, or does not end.
    """
    tokens = script_tokens(text, settings)
    found = tuple(_statement(text, each, settings) for each in _parts(tokens))
    if all(isinstance(each, Passed) for each in found) and len(found) <= 1:
        return (Passed(text),)
    if _has_long_comment(text):
        raise InvalidInputError(
            "a comment in the script ends in a backslash, and Spark takes the next line for a part "
            "of it: take the backslash away"
        )
    check_transactions(found)
    return found


def _parts(tokens: Sequence[Any]) -> Iterator[list[Any]]:
    """The tokens of each statement; one of Spark's own scripts is a single statement."""
    part: list[Any] = []
    for at, each in enumerate(tokens):
        if not part and _is_compound(tokens, at):
            yield list(tokens[at:])
            return
        if each.token_type.name != "SEMICOLON":
            part.append(each)
        elif part:
            yield part
            part = []
    if part:
        yield part


def _is_compound(tokens: Sequence[Any], at: int = 0) -> bool:
    """Whether ``BEGIN … END`` begins there, whose statements are Spark's."""
    if tokens[at].token_type.name != "BEGIN" or at + 1 == len(tokens):
        return False
    if tokens[at + 1].token_type.name == "SEMICOLON":
        return False
    last = next(each for each in reversed(tokens) if each.token_type.name != "SEMICOLON")
    return bool(last.token_type.name == "END")


def _statement(script: str, tokens: Sequence[Any], settings: Settings) -> Statement | Passed:
    line = tokens[0].line
    text = script[tokens[0].start : tokens[-1].end + 1]
    passed = Passed(text, line)
    words = _begins(tokens)
    if not words:
        return passed
    reader = Reader(script, with_revisions(script, tokens), settings)
    try:
        reader.expect(*words)
        found = _READING[words](reader)
    except NotOursError:
        return passed
    reader.end()
    return replace(found, sql=text, line=line)


def _after_with(tokens: Sequence[Any]) -> str:
    """What stands after WITH: SELECT, INSERT and the like."""
    depth = 0
    for each in tokens:
        kind, word = each.token_type.name, str(each.text).upper()
        depth += (kind == "L_PAREN") - (kind == "R_PAREN")
        if not depth and kind != "IDENTIFIER" and word in ("SELECT", "FROM", "VALUES", *_DML):
            return word
    return ""


def _begins(tokens: Sequence[Any]) -> tuple[str, ...]:
    """The words that decide what a statement is; none for one that is not ours."""
    if _is_compound(tokens):
        return ()
    words = [str(each.text).upper() for each in tokens[:2]]
    if words[0] == "WITH":
        return ("WITH",) if _after_with(tokens) in _DML else ()
    return next((each for each in (tuple(words), tuple(words[:1])) if each in _READING), ())


def _with_queries(reader: Reader) -> Insert | Merge:
    """WITH … INSERT, and WITH … MERGE: the queries belong to the one of the statement."""
    queries = reader.queries(*_DML)
    word = reader.takes_one(*_DML)
    if word == "INSERT":
        insert = read_insert(reader)
        return replace(insert, query=f"{queries} {insert.query}")
    if word == "MERGE":
        merge = read_merge(reader)
        return replace(merge, source=f"{queries} {merge.source}")
    raise reader.refused(f"WITH does not stand before {word}: write its queries into the condition")


def _create(reader: Reader) -> CreateTable | CreateRef:
    existing = or_replace(reader)
    if reader.takes("TABLE"):
        return read_create_table(reader, existing)
    return read_create_ref(reader, ref_kind(reader), existing)


def _replace(reader: Reader) -> Statement:
    if reader.word() in ("TABLE", "BRANCH", "TAG"):
        raise reader.refused(f"write CREATE OR REPLACE {reader.word()}")
    raise NotOursError


def _drop(reader: Reader) -> DropRef:
    return read_drop_ref(reader, ref_kind(reader))


def _begin(reader: Reader) -> Begin:
    reader.takes_one("TRANSACTION", "WORK")
    reader.end("a semicolon")
    return Begin()


def _commit(reader: Reader) -> Commit:
    reader.takes_one("TRANSACTION", "WORK")
    if reader.is_done:
        return Commit()
    message = reader.text("a message")
    if not message.strip():
        raise reader.refused("the message is empty: write one, or none")
    return Commit(message)


def _rollback(reader: Reader) -> Rollback:
    reader.takes_one("TRANSACTION", "WORK")
    return Rollback()


def _explain(reader: Reader) -> Explain:
    if reader.word() in _EXPLAINED_BY_SPARK:
        raise NotOursError
    if reader.is_done or reader.sees("EXPLAIN"):
        raise reader.wrong("a statement or a query")
    script, tokens, settings = reader.rest()
    found = _statement(script, tokens, settings)
    if isinstance(found, Explain | Begin | Commit | Rollback):
        raise reader.refused("EXPLAIN is about one statement that changes something, or a query")
    return Explain(found)


_READING: dict[tuple[str, ...], Callable[[Reader], Statement]] = {
    ("INSERT",): read_insert,
    ("DELETE",): read_delete,
    ("UPDATE",): read_update,
    ("MERGE",): read_merge,
    ("TRUNCATE", "TABLE"): read_truncate,
    ("CREATE",): _create,
    ("REPLACE",): _replace,
    ("DROP",): _drop,
    ("ALTER", "TABLE"): read_alter_table,
    ("RESTORE",): read_restore,
    ("OPTIMIZE",): read_optimize,
    ("BEGIN",): _begin,
    ("START", "TRANSACTION"): _begin,
    ("COMMIT",): _commit,
    ("ROLLBACK",): _rollback,
    ("EXPLAIN",): _explain,
    ("WITH",): _with_queries,
}
