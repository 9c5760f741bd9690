"""Where the tables of a script are: how it reads them, and how statements write to them.

A table that was given by uri or handle is written directly, each statement one version. A table of
a repository is written in a transaction: that between BEGIN and COMMIT, or one for the statement.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from lancewood.engine.snapshot import NUMBERED, TAG
from lancewood.errors import InvalidInputError, RetryableConflictError
from lancewood.query.sources import Sources, is_uri
from lancewood.query.statements.model import Target
from lancewood.store.retry import JOBS
from lancewood.table.by_uri import exists
from lancewood.table.table import Table

if TYPE_CHECKING:
    from lancewood.repo.commit.transaction import Transaction
    from lancewood.repo.outcome import Committed
    from lancewood.repo.repository import Repository

T = TypeVar("T")
_MOST_CHARACTERS = 72


class Workplace:
    """The tables of a script, and the transaction of the repository that is under way."""

    def __init__(self, given: Sources) -> None:
        self.given = given
        self.transaction: Transaction | None = None
        self._branch: str | None = None
        self._is_default = True
        """Whether names without a revision mean the branch of the transaction."""
        self._staged: set[str] = set()

    @property
    def repository(self) -> Repository:
        """Raises InvalidInputError if there is none."""
        if self.given.repository is None:
            raise InvalidInputError(
                "only a repository has transactions, branches and tags without a table: give "
                "repository=, or name the table"
            )
        return self.given.repository

    def sources(self) -> Sources:
        """The tables as a query sees them now, with what was written in the transaction."""
        transaction, revision = self.transaction, self.given.revision
        if transaction is not None and transaction.tip is not None and self._is_default:
            revision = str(transaction.tip)
        found = replace(self.given, revision=revision)
        for name in self._staged:
            assert transaction is not None
            state = transaction.table(name)._snapshot
            for meant in (None, self._branch) if self._is_default else (self._branch,):
                found.put(name, meant, state)
        return found

    def is_in_repository(self, target: Target) -> bool:
        """Whether a table is, or would be, one of the repository: no table was given by its
        name."""
        return self.given.repository is not None and self._given_name(target) is None

    def exists(self, target: Target, location: str | None = None) -> bool:
        """Whether there is a table of this name, or at this location."""
        if self.is_in_repository(target):
            self._check_branch(target)
            return self.sources().known_as(target.name, target.revision) is not None
        return exists(self.uri(target, location), access=self.given.access)

    def table(self, target: Target, *, dry_run: bool = False) -> Table:
        """The table that is changed; a table of the repository in the transaction, unless it is
        only looked at. Raises NotFoundError, and InvalidInputError for what is no branch."""
        sources = self.sources()
        name = sources.known_as(target.name, target.revision)
        if name is None:
            raise sources.unknown(target.name)
        if self.transaction is not None and self.is_in_repository(target):
            self._check_branch(target)
            if not dry_run or name in self._staged:
                return self.transaction.table(name)
        given = self.given.named.get(name)
        revision = None if target.revision is None else target.revision.removesuffix(":")
        found = sources.version(name, revision)
        if NUMBERED in found.derived:
            raise InvalidInputError(
                f"{target.written} is given at version {found.manifest.version}, and only a branch "
                "can be changed: give it without a version, or CREATE BRANCH there first"
            )
        if isinstance(given, Table) and revision is None:
            return given
        if TAG in found.derived:
            raise InvalidInputError(
                f"{target.written} is the tag {found.derived[TAG]!r}, and only branches are "
                "written: make one with CREATE BRANCH"
            )
        return Table(found)

    def uri(self, target: Target, location: str | None = None) -> str | os.PathLike[str]:
        """Where a table is, or is to be made, that is none of the repository.

        Raises InvalidInputError if the statement names no place for it.
        """
        if target.revision is not None:
            raise InvalidInputError(
                f"{target.written}: a new table has no branches yet; create it without '@', then "
                "its branches"
            )
        name = self._given_name(target)
        if location is not None:
            return location
        if name is not None:
            given = self.given.named[name]
            return given.uri if isinstance(given, Table) else given
        if self.given.takes_uris and is_uri(target.name):
            return target.name
        raise InvalidInputError(
            f"it is not known where table {target.name!r} is to be: give it a uri in tables=, a "
            "LOCATION, or a path in quotes for a name",
            table=target.name,
        )

    def wrote(self, target: Target, after: Table) -> None:
        """Go on with what a statement made of a table."""
        name, named = self._given_name(target), self.given.named
        if self.transaction is not None and name is None:
            known = self.given.identifiers.find(target.name, self.transaction.tables)
            self._staged.add(known or target.name)
        elif name is not None and target.revision is None and isinstance(named[name], Table):
            self.given = replace(self.given, tables={**named, name: after})

    def begin(self, message: str | None, branch: str | None = None) -> None:
        """Begin a transaction on a branch of the repository, HEAD's by default."""
        repository = self.repository
        current = repository.head.branch
        branch = branch or self.given.revision or current
        if branch is None or (branch != current and branch not in repository.branches.list()):
            raise InvalidInputError(
                f"{branch or 'HEAD'!r} is no branch of the repository, and only branches are "
                "written: name one, or make it with CREATE BRANCH"
            )
        self.transaction = repository.transaction(branch, message)
        self._branch = branch
        self._is_default = branch == (self.given.revision or current)

    def commit(self) -> Committed:
        """Make what was written since ``begin`` one commit; raises ConflictError if it cannot."""
        ended = self._ended()
        assert ended is not None
        return ended.commit()

    def rollback(self) -> bool:
        """Forget what was written since ``begin``; whether a transaction was under way."""
        ended = self._ended()
        if ended is not None:
            ended.abandon()
        return ended is not None

    def alone(self, target: Target, sql: str, run: Callable[[], T]) -> tuple[T, Committed]:
        """Run one statement as a commit, tried again where another was faster."""
        if target.revision is not None and target.revision.endswith(":"):
            raise InvalidInputError(
                f"{target.written} is the table's own branch, beside the repository: give the "
                f"table a name in tables=, or write to a branch of the repository, "
                f"{target.written.removesuffix(':')}"
            )

        def committed(_: int) -> tuple[T, Committed]:
            self.begin(commit_message(sql), target.revision)
            try:
                return run(), self.commit()
            finally:
                self.rollback()

        return self.tried(committed)

    def tried(self, run: Callable[[int], T]) -> T:
        """What comes of the first attempt that meets no other writer; in a transaction there is
        one, which is tried as a whole."""
        for attempt in JOBS:
            try:
                return run(attempt)
            except RetryableConflictError:
                if self.transaction is not None or attempt == JOBS.last:
                    raise
        raise AssertionError("there is a last attempt")

    def _ended(self) -> Transaction | None:
        """The transaction, if there is one, which is under way no more."""
        ended, self.transaction, self._branch = self.transaction, None, None
        self._staged.clear()
        return ended

    def _check_branch(self, target: Target) -> None:
        if self.transaction is not None and target.revision not in (None, self._branch):
            raise InvalidInputError(
                f"{target.written} is on another branch than the transaction, which is on "
                f"{self._branch!r}: a commit is made on one branch",
                table=target.name,
            )

    def _given_name(self, target: Target) -> str | None:
        """The name under which a table was given; None if it was not."""
        return self.given.identifiers.find(target.name, self.given.named)


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
