"""Where the tables of a script are: how it reads them, and how it writes to them.

A table that was given by uri or handle is written directly, each statement one version. A table of
a repository is written in a transaction: that between BEGIN and COMMIT, or one for the statement.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeVar

from lancewood.engine.snapshot import TAG, Snapshot
from lancewood.errors import InvalidInputError, RetryableConflictError
from lancewood.query.sources import Source, Sources, is_uri
from lancewood.query.statements.model import Target
from lancewood.repo.committing.transaction import Transaction
from lancewood.repo.outcome import Committed
from lancewood.repo.repository import Repository
from lancewood.store.retry import JOBS
from lancewood.table.by_uri import exists
from lancewood.table.table import Table

R = TypeVar("R")
_MOST_CHARACTERS = 72


class Workplace:
    """The tables of a script."""

    def __init__(self, given: Sources) -> None:
        self._given = given
        self._identifiers = given.identifiers
        self._transaction: Transaction | None = None
        self._branch: str | None = None
        self._staged: set[str] = set()

    @property
    def storage_options(self) -> Mapping[str, str] | None:
        return self._given.storage_options

    @property
    def repository(self) -> Repository:
        """Raises InvalidInputError if there is none."""
        if self._given.repository is None:
            raise InvalidInputError(
                "only a repository has transactions, branches and tags without a table: give "
                "repository=, or name the table"
            )
        return self._given.repository

    @property
    def _tables(self) -> Mapping[str, Source]:
        return self._given.tables or {}

    def sources(self) -> Sources:
        """The tables as a query sees them now, with what was written in the transaction."""
        transaction, revision = self._transaction, self._given.revision
        if transaction is not None and transaction.tip is not None:
            revision = str(transaction.tip)
        found = replace(self._given, revision=revision)
        for name in self._staged:
            assert transaction is not None
            state = transaction.table(name)._snapshot
            found.put(name, None, state)
            found.put(name, self._branch, state)
        return found

    def is_in_repository(self, target: Target) -> bool:
        """Whether a table is, or would be, one of the repository."""
        if self._given.repository is None:
            return False
        return self._given_name(target.name) is None

    def table(self, target: Target, *, dry_run: bool = False) -> Table:
        """The table that is changed; a table of the repository in the transaction, unless it is
        only looked at. Raises NotFoundError, and InvalidInputError for what is no branch."""
        sources = self.sources()
        name = sources.known_as(target.name)
        transaction = self._transaction
        if transaction is not None and self.is_in_repository(target):
            self._check_branch(target)
            found = self._identifiers.find(target.name, transaction.tables)
            if found is None:
                raise sources.unknown(target.name)
            if not dry_run or found in self._staged:
                return transaction.table(found)
        if name is None:
            raise sources.unknown(target.name)
        if transaction is not None and not dry_run:
            raise InvalidInputError(
                f"{target.written} is no table of the repository, and cannot be part of its "
                "transaction: write to it before BEGIN or after COMMIT",
                table=name,
            )
        source = self._tables.get(name)
        revision = None if target.revision is None else target.revision.removesuffix(":")
        if isinstance(source, Table) and revision is None:
            return source
        return Table(_on_branch(target, sources.version(name, revision)))

    def uri(self, target: Target) -> str | os.PathLike[str] | None:
        """Where a table is to be made that does not exist; None in a repository.

        Raises InvalidInputError if the statement names no place for it.
        """
        if target.revision is not None and self._given.repository is None:
            raise InvalidInputError(
                f"{target.written}: a new table has no branches yet; create it without '@', then "
                "its branches"
            )
        source = self._tables.get(self._given_name(target.name) or target.name)
        if isinstance(source, Table):
            return source.uri
        if source is not None:
            return source
        if self._given.repository is not None:
            return None
        if self._given.tables is None and is_uri(target.name):
            return target.name
        raise InvalidInputError(
            f"it is not known where table {target.name!r} is to be: give it a uri in tables=, a "
            "LOCATION, or a path in quotes for a name",
            table=target.name,
        )

    def exists(self, target: Target) -> bool:
        """Whether there is a table of this name."""
        if self._transaction is not None and self.is_in_repository(target):
            self._check_branch(target)
            return self._identifiers.find(target.name, self._transaction.tables) is not None
        if self.is_in_repository(target):
            return self.sources().known_as(target.name) is not None
        uri = self.uri(target)
        return uri is not None and exists(uri, storage_options=self.storage_options)

    @property
    def transaction(self) -> Transaction | None:
        """The transaction of the repository that is under way."""
        return self._transaction

    def wrote(self, target: Target, after: Table) -> None:
        """Go on with what a statement made of a table."""
        if self._transaction is not None and self.is_in_repository(target):
            found = self._identifiers.find(target.name, self._transaction.tables)
            self._staged.add(found or target.name)
            return
        name = self._given_name(target.name)
        is_handle = name is not None and isinstance(self._tables.get(name), Table)
        if is_handle and target.revision is None:
            assert name is not None
            self._given = replace(self._given, tables={**self._tables, name: after})

    def remove(self, target: Target, message: str | None) -> str:
        """Take a table out of the repository, and give the commit that does it."""
        name = self.sources().known_as(target.name)
        made = self.repository.remove(str(name), branch=self._given.revision, message=message)
        return str(made.hash)

    def begin(self, message: str | None, branch: str | None = None) -> None:
        """Begin a transaction on a branch of the repository, HEAD's by default."""
        repository = self.repository
        if self._transaction is not None:
            raise InvalidInputError(
                "BEGIN stands in a transaction: COMMIT or ROLLBACK the one before it"
            )
        branch = branch or self._given.revision or repository.head.branch
        if branch is None or (
            branch not in repository.branches.list() and branch != repository.head.branch
        ):
            raise InvalidInputError(
                f"{branch or 'HEAD'!r} is no branch of the repository, and only branches are "
                "written: name one, or make it with CREATE BRANCH"
            )
        self._transaction = repository.transaction(branch, message)
        self._branch = branch

    def commit(self) -> Committed:
        """Make what was written since ``begin`` one commit; raises ConflictError if it cannot."""
        try:
            return self._running("COMMIT").commit()
        finally:
            self._forget()

    def rollback(self) -> None:
        """Forget what was written since ``begin``."""
        try:
            self._running("ROLLBACK").abandon()
        finally:
            self._forget()

    def alone(
        self, target: Target, sql: str, run: Callable[[], R], *, dry_run: bool
    ) -> tuple[R, Committed | None]:
        """Run one statement: in the transaction that is under way, or in one of its own. A commit
        of its own is tried again where another was faster."""
        is_direct = dry_run or not self.is_in_repository(target)
        if self._transaction is not None or is_direct:
            return run(), None
        revision = target.revision
        if revision is not None and revision.endswith(":"):
            raise InvalidInputError(
                f"{target.written} is the table's own branch, beside the repository: give the "
                f"table a name in tables=, or write to a branch of the repository, "
                f"{target.name}@{revision.removesuffix(':')}"
            )
        for attempt in JOBS:
            self.begin(commit_message(sql), revision)
            try:
                found = run()
                return found, self.commit()
            except RetryableConflictError:
                if attempt == JOBS.last:
                    raise
            finally:
                if self._transaction is not None:
                    self.rollback()
        raise AssertionError("there is a last attempt")

    def _running(self, word: str) -> Transaction:
        if self._transaction is None:
            raise InvalidInputError(f"{word} stands in no transaction: BEGIN one before it")
        return self._transaction

    def _forget(self) -> None:
        self._transaction, self._branch = None, None
        self._staged.clear()

    def _check_branch(self, target: Target) -> None:
        if target.revision not in (None, self._branch):
            raise InvalidInputError(
                f"{target.written} is on another branch than the transaction, which is on "
                f"{self._branch!r}: a commit is made on one branch",
                table=target.name,
            )

    def _given_name(self, name: str) -> str | None:
        """The name under which a table was given."""
        return self._identifiers.find(name, self._tables)


def commit_message(*statements: str) -> str:
    """The message of a commit that statements made: one short line, and below it the statements as
    they were written, where the line does not say all of them."""
    whole = "; ".join(statements)
    line = " ".join(whole.split())
    if line == whole and len(line) <= _MOST_CHARACTERS:
        return line
    if len(line) > _MOST_CHARACTERS:
        start = line[:_MOST_CHARACTERS]
        line = f"{start.rpartition(' ')[0] or start[:-1]}…"
    return "\n\n".join([line, ";\n".join(statements)])


def _on_branch(target: Target, found: Snapshot) -> Snapshot:
    """The newest version of a branch; raises InvalidInputError for a tag."""
    if TAG in found.derived:
        raise InvalidInputError(
            f"{target.written} is the tag {found.derived[TAG]!r}, and only branches are written: "
            "make one with CREATE BRANCH"
        )
    return found
