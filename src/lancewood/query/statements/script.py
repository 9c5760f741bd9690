"""From the text of a script to its statements.

The first words decide: a statement that we know is read to its end, and what is wrong in it is an
error before anything runs; all others, queries among them, are passed on as they were written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from lancewood.errors import InvalidInputError
from lancewood.query.statements import model
from lancewood.query.statements.reader import Reader
from lancewood.query.statements.rows import (
    read_delete,
    read_insert,
    read_merge,
    read_truncate,
    read_update,
)
from lancewood.query.statements.tables import (
    read_alter,
    read_copy,
    read_create,
    read_drop,
    read_merge_branch,
    read_optimize,
    read_restore,
)
from lancewood.query.tokens import CLOSING, OPENING, Token, shown, statements

_NO_PART = (model.CreateRef, model.DropRef, model.MergeBranch, model.DropTable, model.CopyTo)
_DML = ("INSERT", "MERGE", "UPDATE", "DELETE")


def parse_script(text: str) -> tuple[model.Statement | model.Passed, ...]:
    """The statements of a script, which semicolons separate.

    A text that is one statement of none of ours, such as a query, is passed on whole. Raises
    InvalidInputError for a statement that we know and that is wrong, and for a transaction that
    does not begin, or does not end.
    """
    found = tuple(_statement(text, each) for each in statements(text))
    if all(isinstance(each, model.Passed) for each in found) and len(found) <= 1:
        return (model.Passed(text),)
    check_transactions(found)
    return found


def is_query(script: Sequence[model.Statement | model.Passed]) -> bool:
    """Whether a script is no script, but one text that goes on as it is."""
    return len(script) == 1 and isinstance(script[0], model.Passed)


def check_no_files(script: Sequence[model.Statement | model.Passed]) -> None:
    """Raise InvalidInputError for a COPY, explained or not."""
    for each in script:
        meant = each.statement if isinstance(each, model.Explain) else each
        if isinstance(meant, model.CopyTo | model.CopyFrom):
            raise InvalidInputError(
                f"{shown(meant.sql)} reads or writes a file, and texts may not do that here: give "
                "files=True to lancewood.sql, or use lw sql"
            )


def check_transactions(script: Sequence[model.Statement | model.Passed]) -> None:
    """Raise InvalidInputError unless every BEGIN has its COMMIT or ROLLBACK, and no other, and what
    stands between them can be part of a commit."""
    begun: model.Begin | None = None
    for each in script:
        if isinstance(each, model.Begin):
            if begun is not None:
                raise _misplaced(each, f"the transaction of line {begun.line} has not ended yet")
            begun = each
        elif isinstance(each, model.Commit | model.Rollback):
            if begun is None:
                raise _misplaced(each, "no BEGIN stands before it")
            begun = None
        elif begun is not None and isinstance(each, _NO_PART):
            raise _misplaced(
                each,
                "branches and tags, DROP TABLE and files that are written are no part of a "
                "transaction: put it before BEGIN, or after COMMIT",
            )
    if begun is not None:
        raise _misplaced(begun, "no COMMIT follows: end the script with COMMIT 'message'")


def _statement(script: str, tokens: Sequence[Token]) -> model.Statement | model.Passed:
    line = script.count("\n", 0, tokens[0].start) + 1
    text = script[tokens[0].start : tokens[-1].end]
    read = _READING.get(tokens[0].word)
    if tokens[0].word == "WITH":
        read = _with_queries if _after_with(tokens) in _DML else None
    if read is None:
        return model.Passed(text, line)
    reader = Reader(script, tokens)
    reader.expect(tokens[0].word)
    found = read(reader)
    reader.end()
    return replace(found, sql=text, line=line)


def _after_with(tokens: Sequence[Token]) -> str:
    """What stands after WITH: SELECT, INSERT and the like."""
    depth = 0
    for each in tokens:
        depth += (each.word in OPENING) - (each.word in CLOSING)
        if not depth and each.word in ("SELECT", "FROM", "VALUES", "PIVOT", "UNPIVOT", *_DML):
            return each.word
    return ""


def _with_queries(reader: Reader) -> model.Insert | model.Merge | model.Update | model.Delete:
    """WITH … INSERT and its like: the queries belong to the statement."""
    queries = reader.queries(*_DML)
    word = reader.takes_one(*_DML)
    if word == "INSERT":
        insert = read_insert(reader)
        if insert.values:
            raise reader.refused("WITH stands before a query, and VALUES is none: leave it out")
        return replace(insert, query=f"{queries} {insert.query}")
    if word == "MERGE":
        return replace(read_merge(reader), queries=queries)
    if word == "UPDATE":
        return replace(read_update(reader), queries=queries)
    return replace(read_delete(reader), queries=queries)


def _merge(reader: Reader) -> model.Merge | model.MergeBranch:
    return read_merge_branch(reader) if reader.takes("BRANCH") else read_merge(reader)


def _begin(reader: Reader) -> model.Begin:
    reader.takes_one("TRANSACTION", "WORK")
    reader.end("a semicolon")
    return model.Begin()


def _start(reader: Reader) -> model.Begin:
    reader.expect("TRANSACTION")
    reader.end("a semicolon")
    return model.Begin()


def _commit(reader: Reader) -> model.Commit:
    reader.takes_one("TRANSACTION", "WORK")
    if reader.is_done:
        return model.Commit()
    message = reader.text("a message")
    if not message.strip():
        raise reader.refused("the message is empty: write one, or none")
    return model.Commit(message)


def _rollback(reader: Reader) -> model.Rollback:
    reader.takes_one("TRANSACTION", "WORK")
    return model.Rollback()


def _explain(reader: Reader) -> model.Explain:
    if reader.sees("ANALYZE") or reader.sees("("):
        raise reader.refused("EXPLAIN says what would be asked of tables, and takes no options")
    if reader.is_done or reader.sees("EXPLAIN"):
        raise reader.wrong("a statement or a query")
    tokens = list(reader.rest)
    found = _statement(reader.script, tokens)
    if isinstance(found, model.Explain | model.Begin | model.Commit | model.Rollback):
        raise reader.refused("EXPLAIN is about one statement that changes something, or a query")
    reader.skip_rest()
    return model.Explain(found)


_READING: dict[str, Callable[[Reader], model.Statement]] = {
    "INSERT": read_insert,
    "DELETE": read_delete,
    "UPDATE": read_update,
    "MERGE": _merge,
    "COPY": read_copy,
    "TRUNCATE": read_truncate,
    "CREATE": read_create,
    "DROP": read_drop,
    "ALTER": read_alter,
    "RESTORE": read_restore,
    "OPTIMIZE": read_optimize,
    "BEGIN": _begin,
    "START": _start,
    "COMMIT": _commit,
    "ROLLBACK": _rollback,
    "EXPLAIN": _explain,
}


def _misplaced(statement: model.Statement, why: str) -> InvalidInputError:
    return InvalidInputError(f"{shown(statement.sql)} at line {statement.line}: {why}")
