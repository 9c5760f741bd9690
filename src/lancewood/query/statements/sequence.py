"""A script from its first statement to its last, and what it answers.

A statement outside of BEGIN and COMMIT is done, whatever comes after it. What stands between them
is done as a whole or not at all: an error, ROLLBACK, or an end without COMMIT leaves nothing of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar

import pyarrow as pa

from lancewood.errors import InvalidInputError, NotFoundError
from lancewood.model.refs import called
from lancewood.query.statements import model
from lancewood.query.statements.engine import Here
from lancewood.query.statements.running import Done, RowStatements
from lancewood.query.statements.shaping import TableStatements
from lancewood.query.statements.workplace import Workplace, commit_message

R = TypeVar("R")
Script: TypeAlias = Sequence[model.Statement | model.Passed]

SCHEMA = pa.schema(
    [
        ("statement", pa.string()),
        ("table", pa.string()),
        ("inserted", pa.int64()),
        ("updated", pa.int64()),
        ("deleted", pa.int64()),
        ("version", pa.int64()),
        ("commit", pa.string()),
    ]
)
"""What statements did: a row for each. Counts are null where no rows are counted, ``version`` is
that of the table afterwards, ``commit`` that of the repository."""
PLAN = pa.schema([("plan", pa.string())])


@dataclass(frozen=True)
class Outcome(Generic[R]):
    """What a script answers: the rows of a query, if that is its last statement, or what it did."""

    rows: R | None
    report: pa.Table
    """Of ``SCHEMA``, or of ``PLAN`` for an EXPLAIN at the end."""


def run_script(script: Script, workplace: Workplace, engine: Here) -> Outcome[Any]:
    """Run all statements; raises the error of the first that fails."""
    return _Running(script, workplace, engine).run()


class _Running:
    def __init__(self, script: Script, workplace: Workplace, engine: Here) -> None:
        self._script = script
        self._workplace = workplace
        self._engine = engine
        self._rows = RowStatements(workplace, engine)
        self._tables = TableStatements(workplace, engine)
        self._done: list[Done] = []
        self._before = 0
        """How many statements were done before BEGIN."""

    def run(self) -> Outcome[Any]:
        found: Outcome[Any] | None = None
        try:
            for at, each in enumerate(self._script):
                found = self._step(at, each)
        except BaseException as error:
            done = self._done
            if self._abandon():
                error.add_note("nothing that stands after BEGIN was done")
                done = self._done[: self._before]
            if done:
                words = ", ".join(each.statement for each in done)
                error.add_note(f"what stands before it was done: {words}")
            raise
        if self._abandon():
            raise InvalidInputError(
                "the script ends without COMMIT, and nothing that stands after BEGIN was done: end "
                "it with COMMIT 'message', or with ROLLBACK"
            )
        return found or Outcome(None, _report(self._done))

    def _step(self, at: int, statement: model.Statement | model.Passed) -> Outcome[Any] | None:
        """Run one statement; gives its answer if it is not a report."""
        if isinstance(statement, model.Passed):
            text = statement.text
            rows = self._engine.passed(text, self._workplace.sources)
            return Outcome(rows, _report(self._done))
        if isinstance(statement, model.Explain):
            return Outcome(None, pa.table({"plan": self._plan(statement).split("\n")}, PLAN))
        if isinstance(statement, model.Begin):
            self._before = len(self._done)
            self._workplace.begin(self._message(at))
        elif isinstance(statement, model.Commit):
            made = self._workplace.commit()
            commit = None if made.hash is None else str(made.hash)
            self._done.append(Done("commit", None, commit=commit))
        elif isinstance(statement, model.Rollback):
            self._workplace.rollback()
            del self._done[self._before :]
            self._done.append(Done("rollback", None))
        else:
            self._done.append(self._run(statement))
        return None

    def _run(self, statement: model.Change, *, dry_run: bool = False) -> Done:
        if isinstance(statement, model.Insert | model.Delete | model.Update | model.Merge):
            return self._rows.run(statement, dry_run=dry_run)
        return self._tables.run(statement, dry_run=dry_run)

    def _plan(self, statement: model.Explain) -> str:
        asked = statement.statement
        if isinstance(asked, model.Passed):
            return self._rows.planned(asked.text).explain() or "no table of ours is read"
        lines = [f"would run {' '.join(asked.sql.split())}"]
        if asked.target is not None:
            lines.append(f"  {asked.target.written}: {self._version(asked.target)}")
        counts = self._run(asked, dry_run=True).rows
        if counts is not None:
            lines.append(
                f"  {counts.inserted} rows inserted, {counts.updated} updated, "
                f"{counts.deleted} deleted"
            )
        return "\n".join(lines)

    def _version(self, target: model.Target) -> str:
        """The version that a statement about a table begins from, in words."""
        try:
            found = self._workplace.table(target, dry_run=True)
        except NotFoundError:
            return "no table yet"
        return f"version {found.version} of {called(found.branch)}"

    def _message(self, begin: int) -> str:
        """That of COMMIT, which stands further on; without one, the statements."""
        some = []
        for each in self._script[begin + 1 :]:
            if isinstance(each, model.Commit | model.Rollback):
                if isinstance(each, model.Commit) and each.message is not None:
                    return each.message
                break
            some.append(each.text if isinstance(each, model.Passed) else each.sql)
        return commit_message(*some) or "nothing"

    def _abandon(self) -> bool:
        """Forget a transaction that is under way; gives whether there was one."""
        if self._workplace.transaction is None:
            return False
        self._workplace.rollback()
        return True


def _report(done: Sequence[Done]) -> pa.Table:
    rows = [each.rows for each in done]
    columns = {
        "statement": [each.statement for each in done],
        "table": [each.table for each in done],
        "inserted": [None if each is None else each.inserted for each in rows],
        "updated": [None if each is None else each.updated for each in rows],
        "deleted": [None if each is None else each.deleted for each in rows],
        "version": [each.version for each in done],
        "commit": [each.commit for each in done],
    }
    return pa.table(columns, SCHEMA)
