"""Running statements that change tables, with the verbs of tables, one commit each.

Which rows change, and what they become, an engine computes (``queries``). A DELETE of all rows
needs none: the verb does it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from lancewood.engine.snapshot import Snapshot
from lancewood.errors import RetryableConflictError
from lancewood.jobs.counts import Counts, Merged, RowCounts
from lancewood.query.identifiers import Identifiers
from lancewood.query.sources import AddressedSnapshot, Sources
from lancewood.query.statements import model
from lancewood.query.statements.engine import Answered, Here
from lancewood.query.statements.queries import TARGET, ChangeQuery, not_as_many
from lancewood.query.statements.workplace import Workplace, commit_message
from lancewood.store.retry import JOBS
from lancewood.table.table import Table

RowChange: TypeAlias = model.Insert | model.Delete | model.Update | model.Merge
"""What changes the rows of a table."""


@dataclass(frozen=True)
class Done:
    """What a statement did."""

    statement: str
    """Its first words: ``insert``, ``merge``, …"""
    table: str | None
    counts: Counts = None
    version: int | None = None
    commit: str | None = None
    """The commit of the repository, if the statement was one by itself."""

    @property
    def rows(self) -> RowCounts | Merged | None:
        return self.counts if isinstance(self.counts, RowCounts | Merged) else None


class Runs:
    """What all statements share: where tables are, who computes, and how a commit is made."""

    def __init__(self, workplace: Workplace, engine: Here) -> None:
        self._workplace = workplace
        self._engine = engine

    @property
    def _identifiers(self) -> Identifiers:
        return self._engine.identifiers

    def planned(self, sql: str, sources: Sources | None = None) -> Any:
        """A query over the tables as they are now, or over these."""
        return self._engine.planned(sql, sources or self._workplace.sources())

    def _message(self, statement: model.Written) -> str | None:
        """What the version says of itself: in a transaction, its own message."""
        if self._workplace.transaction is not None:
            return None
        return commit_message(statement.sql) or None

    def _tried(self, run: Callable[[int], Table]) -> Table:
        """What comes of the first attempt that meets no other writer; in a transaction there is
        one, which is tried as a whole."""
        for attempt in JOBS:
            try:
                return run(attempt)
            except RetryableConflictError:
                if self._workplace.transaction is not None or attempt == JOBS.last:
                    raise
        raise AssertionError("there is a last attempt")

    def _done(
        self, word: str, target: model.Target, sql: str, run: Callable[[], Table], *, dry_run: bool
    ) -> Done:
        """Run a statement in its transaction, and say what it did."""

        def noted() -> Table:
            after = run()
            if not dry_run:
                self._workplace.wrote(target, after)
            return after

        after, commit = self._workplace.alone(target, sql, noted, dry_run=dry_run)
        made = commit.hash if commit is not None and commit.is_new else None
        return Done(
            word,
            target.written,
            after.counts,
            after.version,
            None if made is None else str(made),
        )


class RowStatements(Runs):
    """Runs the statements that change the rows of a table."""

    def run(self, statement: RowChange, *, dry_run: bool = False) -> Done:
        """What a statement did, or would do. Raises what the verbs raise."""
        if isinstance(statement, model.Insert):
            return self.insert(statement, dry_run=dry_run)
        if isinstance(statement, model.Delete):
            return self.delete(statement, dry_run=dry_run)
        if isinstance(statement, model.Update):
            return self.update(statement, dry_run=dry_run)
        return self.merge(statement, dry_run=dry_run)

    def insert(self, statement: model.Insert, *, dry_run: bool) -> Done:
        if statement.mode is model.InsertMode.REPLACE_WHERE:
            return self._change(statement, self._replaced(statement), dry_run=dry_run)

        def run() -> Table:
            table = self._workplace.table(statement.target, dry_run=dry_run)
            return self._tried(
                lambda attempt: self._filled(
                    statement, table.latest() if attempt else table, dry_run=dry_run
                )
            )

        return self._done("insert", statement.target, statement.sql, run, dry_run=dry_run)

    def _filled(self, statement: model.Insert, table: Table, *, dry_run: bool) -> Table:
        """The table with the rows of the query, which sees the version that is built on. Rows that
        others add to it meanwhile are not among them, and an overwrite by what the table has itself
        would lose them: it may only follow the version that it has read."""
        engine = self._engine
        sources = self._workplace.sources()
        sources.put(statement.target.name, statement.target.revision, table._snapshot)
        query = engine.insert_query(statement, table.schema)
        planned = self.planned(query, sources)
        rows = engine.answer(planned)
        overwrite = statement.mode is model.InsertMode.OVERWRITE
        return engine.insert(
            table,
            rows,
            self._inserted(statement, table.schema.names, engine.names(rows)),
            overwrite=overwrite,
            serializable=overwrite and planned.sees(table._snapshot),
            dry_run=dry_run,
            message=self._message(statement),
        )

    def delete(self, statement: model.Delete, *, dry_run: bool) -> Done:
        engine = self._engine
        if statement.where is not None or statement.using is not None:
            return self._change(
                statement, lambda *_: engine.delete_query(statement), dry_run=dry_run
            )

        def run() -> Table:
            return self._workplace.table(statement.target, dry_run=dry_run).delete(
                "true",
                dry_run=dry_run,
                message=self._message(statement),
                runner=self._engine.runner,
            )

        return self._done("delete", statement.target, statement.sql, run, dry_run=dry_run)

    def update(self, statement: model.Update, *, dry_run: bool) -> Done:
        engine = self._engine

        def made(snapshot: Snapshot, _: Sources) -> ChangeQuery:
            return engine.update_query(statement, snapshot.arrow_schema)

        return self._change(statement, made, dry_run=dry_run)

    def merge(self, statement: model.Merge, *, dry_run: bool) -> Done:
        def made(snapshot: Snapshot, sources: Sources) -> ChangeQuery:
            planned = self.planned(f"{statement.queries} {statement.source}", sources)
            source = self._engine.names(self._engine.answer(planned))
            return self._engine.merge_query(statement, snapshot.arrow_schema, source)

        return self._change(statement, made, dry_run=dry_run)

    def _replaced(self, statement: model.Insert) -> Callable[[Snapshot, Sources], ChangeQuery]:
        def made(snapshot: Snapshot, sources: Sources) -> ChangeQuery:
            given = self._engine.names(self._engine.answer(self.planned(statement.query, sources)))
            names = self._inserted(statement, snapshot.arrow_schema.names, given)
            return self._engine.replace_query(statement, names, snapshot.arrow_schema)

        return made

    def _change(
        self,
        statement: RowChange,
        query: Callable[[Snapshot, Sources], ChangeQuery],
        *,
        dry_run: bool,
    ) -> Done:
        """Have the engine find what changes."""
        target = statement.target

        def ask(snapshot: Snapshot) -> Answered:
            sources = self._workplace.sources()
            sources.put(target.name, target.revision, snapshot)
            asked = query(snapshot, sources)
            sources.put(TARGET, None, AddressedSnapshot.of(snapshot))
            return asked, self._engine.answer(self.planned(asked.sql, sources))

        def run() -> Table:
            table = self._workplace.table(target, dry_run=dry_run)
            message = self._message(statement)
            return self._engine.change(table, ask, dry_run=dry_run, message=message)

        word = type(statement).__name__.lower()
        return self._done(word, target, statement.sql, run, dry_run=dry_run)

    def _inserted(
        self, statement: model.Insert, table: Sequence[str], given: Sequence[str]
    ) -> tuple[str, ...]:
        """The columns of the table that the query's are for, in the order of the query."""
        if statement.by_name:
            return tuple(self._identifiers.column(each, table, "the table") for each in given)
        names = tuple(table)
        if statement.columns is not None:
            names = tuple(
                self._identifiers.column(each, table, "the table") for each in statement.columns
            )
        if len(names) != len(given):
            raise not_as_many(statement, len(given), names)
        return names
