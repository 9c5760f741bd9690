"""A script from its first statement to its last, and what it answers.

A statement outside of BEGIN and COMMIT is done, whatever comes after it. What stands between them
is done as a whole or not at all: an error, ROLLBACK, or an end without COMMIT leaves nothing of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pyarrow as pa

from lancewood.errors import NotFoundError
from lancewood.model.ids import version_words
from lancewood.model.refs import called
from lancewood.query.answer import Answer
from lancewood.query.statements import model
from lancewood.query.statements.engine import Engine
from lancewood.query.statements.verbs import Done, Statements
from lancewood.query.statements.workplace import Workplace, commit_message

SCHEMA = pa.schema(
    {
        "statement": pa.string(),
        "table": pa.string(),
        "inserted": pa.int64(),
        "updated": pa.int64(),
        "deleted": pa.int64(),
        "version": pa.int64(),
        "commit": pa.string(),
    }
)
"""What statements did: a row for each. Counts are null where no rows are counted, ``version`` is
that of the table afterwards, ``commit`` that of the repository."""


class Report(Answer):
    """What statements did, as rows."""

    def __init__(self, rows: pa.Table) -> None:
        self._rows = rows
        self._schema = rows.schema

    def explain(self) -> str:
        """Nothing is read for it any more."""
        return ""

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        yield from self._rows.to_batches()

    def __repr__(self) -> str:
        return f"<Report {self._rows.to_pylist()}>"


class ScriptRun:
    """A script that is run with an engine, once."""

    def __init__(self, script: model.Script, workplace: Workplace, engine: Engine) -> None:
        self._script = script
        self._workplace = workplace
        self._engine = engine
        self._done: list[Done] = []
        self._before = 0
        """How many statements were done before BEGIN."""

    def run(self) -> Any:
        """Run all statements; raises the error of the first that fails.

        The answer is that of the engine if the last statement is a query, else an Arrow table: for
        EXPLAIN at the end with a column ``plan``, or of ``SCHEMA``.
        """
        found: Any = None
        try:
            for at, each in enumerate(self._script):
                found = self._step(at, each)
        except BaseException as error:
            if self._workplace.rollback():
                error.add_note("nothing that stands after BEGIN was done")
                del self._done[self._before :]
            if self._done:
                words = ", ".join(each.statement for each in self._done)
                error.add_note(f"what stands before it was done: {words}")
            raise
        if found is None:
            return pa.Table.from_pylist([each.row for each in self._done], SCHEMA)
        return found

    def _step(self, at: int, statement: model.Statement) -> Any:
        """Run one statement; gives its answer if it has one."""
        match statement:
            case model.Passed(sql=text):
                return self._engine.passed(text, self._workplace.sources())
            case model.Explain(statement=asked):
                return pa.table({"plan": self._plan(asked).split("\n")})
            case model.Begin():
                self._before = len(self._done)
                self._workplace.begin(self._message(at))
            case model.Commit():
                made = self._workplace.commit().hash
                self._done.append(Done("commit", None, commit=None if made is None else str(made)))
            case model.Rollback():
                self._workplace.rollback()
                self._done[self._before :] = [Done("rollback", None)]
            case _:
                self._done.append(self._run(statement))
        return None

    def _run(self, statement: model.Change, *, dry_run: bool = False) -> Done:
        return Statements(self._workplace, self._engine, dry_run=dry_run).run(statement)

    def _plan(self, asked: model.Change | model.Passed) -> str:
        """What a query reads, or a statement would do, in lines."""
        if isinstance(asked, model.Passed):
            planned = self._engine.planned(asked.sql, self._workplace.sources())
            return planned.explain() or "no table of ours is read"
        lines = [f"would run {' '.join(asked.sql.split())}"]
        if asked.target is not None:
            version = "no table yet"
            with suppress(NotFoundError):
                found = self._workplace.table(asked.target, dry_run=True)
                version = f"{version_words(found.version)} of {called(found.branch)}"
            lines.append(f"  {asked.target.written}: {version}")
        row = self._run(asked, dry_run=True).row
        if "inserted" in row:
            inserted, updated, deleted = row["inserted"], row["updated"], row["deleted"]
            lines.append(f"  {inserted} rows inserted, {updated} updated, {deleted} deleted")
        return "\n".join(lines)

    def _message(self, begin: int) -> str:
        """That of COMMIT, which stands further on; without one, the statements."""
        some = []
        for each in self._script[begin + 1 :]:
            if isinstance(each, model.Commit | model.Rollback):
                if isinstance(each, model.Commit) and each.message is not None:
                    return each.message
                break
            some.append(each.sql)
        return commit_message(*some) or "nothing"
