"""The repository: a git history over many tables, and the verbs that name and commit.

A bare git repository in SHA-256 format. Lance records what a table holds; git, which states of
tables belong together: a commit pins them. Each verb is a few lines into the module that does it.
The verbs that bring commits over or take them back, and that keep a repository in order, are in
``verbs``, those that look and compare in ``looking_verbs``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Self
from uuid import uuid4

from lancewood.catalog.names import ID, SECTION, TABLES_DIR
from lancewood.errors import AlreadyExistsError, NotFoundError
from lancewood.git.names import RepositoryRoot, is_uri
from lancewood.git.refs import Head
from lancewood.git.repository import init_git, open_git
from lancewood.repo.context import EXCLUSIVE, RepoContext
from lancewood.repo.looking_verbs import LookingVerbs
from lancewood.repo.outcome import Committed
from lancewood.repo.verbs import BringingVerbs, KeepingVerbs

if TYPE_CHECKING:
    import pyarrow as pa

    from lancewood.repo.commit.swapping import FilesBeside
    from lancewood.repo.commit.transaction import Transaction
    from lancewood.repo.refs import Branches, Marks, Tags
    from lancewood.table.table import Table

_SUBJECT = 72
"""Characters in the first line of a message."""


class Repository(LookingVerbs, BringingVerbs, KeepingVerbs):
    """Many tables under one history. Made by ``init`` and ``open``."""

    def __init__(self, context: RepoContext) -> None:
        self._context = context

    @classmethod
    def init(
        cls,
        path: str | os.PathLike[str],
        *,
        exclusive: bool = False,
        storage_options: Mapping[str, str] | None = None,
        fsync: bool | None = None,
    ) -> Self:
        """A new repository, without a commit, at a path or in a bucket, as ``"s3://bucket/path"``.

        ``exclusive`` keeps its tables for its own transactions, see ``exclusive()``.
        ``storage_options`` are for that bucket, and for tables that are in object stores; they are
        never written down. Raises AlreadyExistsError, and UnsupportedError for a store that does
        not hold to conditional puts: commits could be lost there.
        """
        settings = {f"{SECTION}.{ID}": uuid4().hex}
        if exclusive:
            settings[f"{SECTION}.{EXCLUSIVE}"] = "true"
        git = init_git(path, settings=settings, storage_options=storage_options, fsync=fsync)
        if not git.get(SECTION, ID):  # the settings are of another, interrupted init
            git.set(SECTION, ID, uuid4().hex)
        if isinstance(git.root, Path):
            (git.root / TABLES_DIR).mkdir(exist_ok=True)
        return cls(RepoContext(git, storage_options, fsync))

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        storage_options: Mapping[str, str] | None = None,
        fsync: bool | None = None,
    ) -> Self:
        """The repository at a path, or at a uri in a bucket. Raises NotFoundError, and FormatError
        for another kind."""
        git = open_git(path, storage_options=storage_options, fsync=fsync)
        context = RepoContext(git, storage_options, fsync)
        _ = context.id
        return cls(context)

    @classmethod
    def open_or_init(
        cls,
        path: str | os.PathLike[str],
        *,
        storage_options: Mapping[str, str] | None = None,
        fsync: bool | None = None,
    ) -> Self:
        """The repository at a path or a uri, made if it is not there; two may do so at once."""
        if is_uri(path):
            with suppress(NotFoundError):
                return cls.open(path, storage_options=storage_options, fsync=fsync)
            is_there = False
        else:
            is_there = os.path.lexists(Path(path) / "HEAD")
        if not is_there:
            with suppress(AlreadyExistsError):
                return cls.init(path, storage_options=storage_options, fsync=fsync)
        return cls.open(path, storage_options=storage_options, fsync=fsync)

    @property
    def path(self) -> Path:
        """The directory of a repository on a disk; raises InvalidInputError for one in a bucket."""
        return self._context.git.path

    @property
    def root(self) -> RepositoryRoot:
        """The directory, or the uri in a bucket."""
        return self._context.root

    @property
    def uri(self) -> str:
        """Where the repository is: its directory, or its uri in a bucket."""
        return str(self._context.root)

    # Tables

    def add(
        self,
        name: str,
        uri: str | os.PathLike[str],
        *,
        branch: str | None = None,
        message: str | None = None,
        author: str | None = None,
    ) -> Committed:
        """Take a table in as it stands, as a commit. It stays where it is.

        Raises AlreadyExistsError for a name that is taken, NotFoundError where there is no table.
        """
        return self.add_all({name: uri}, branch=branch, message=message, author=author)

    def add_all(
        self,
        tables: Mapping[str, str | os.PathLike[str]],
        *,
        branch: str | None = None,
        message: str | None = None,
        author: str | None = None,
    ) -> Committed:
        """Take several tables in, uris by name, as one commit: all of them, or none.

        Raises what ``add`` raises.
        """
        from lancewood.repo.commit.adding import add_tables

        said = message or _adding(tables)
        with self.transaction(branch, said, author=author) as changes:
            add_tables(self._context, changes, tables)
        return changes.result

    def remove(
        self,
        name: str,
        *,
        branch: str | None = None,
        message: str | None = None,
        author: str | None = None,
    ) -> Committed:
        """Take a table out of the repository, as a commit. The table itself stays, and so do
        commits that pin it. Raises NotFoundError."""
        from lancewood.repo.commit.adding import remove_table

        with self.transaction(branch, message or f"remove table {name}", author=author) as changes:
            remove_table(changes, name)
        return changes.result

    # Names

    @property
    def branches(self) -> Branches:
        from lancewood.repo.refs import Branches

        return Branches(self._context)

    @property
    def tags(self) -> Tags:
        from lancewood.repo.refs import Tags

        return Tags(self._context)

    @property
    def marks(self) -> Marks:
        from lancewood.repo.refs import Marks

        return Marks(self._context)

    def switch(self, branch: str, *, create: bool = False, at: str = "HEAD") -> Head:
        """Make a branch the current one; ``create`` makes it first, at a revision.

        Nothing happens to the tables: each branch has its own. Raises NotFoundError.
        """
        from lancewood.repo.moving import switch

        return switch(self._context, branch, create=create, at=at)

    def detach(self, revision: str = "HEAD") -> Head:
        """Have HEAD name a commit instead of a branch: for reading, nothing is written there."""
        from lancewood.repo.moving import detach

        return detach(self._context, revision)

    # Committing

    def prepare(
        self,
        table: str,
        *,
        branch: str | None = None,
        adopt: bool = False,
        onto: str | None = None,
        own_ids: bool = False,
    ) -> Table:
        """A table on a branch, to be written without a transaction, by whatever writer; then
        ``commit`` records it.

        Its branch of that name is made if need be, and what commits pin lands there first.
        ``adopt`` is as for ``transaction``. ``onto`` is the branch that the work is going to be
        merged into, squashed: the table's branch then comes from that one's, and can be merged by
        rows if ``own_ids`` gives it row ids that no other branch hands out. Raises NotFoundError.
        """
        from lancewood.repo.commit.adding import prepare, prepare_work

        context, name = self._context, self._context.branch(branch)
        if onto is None:
            return prepare(context, name, table, adopt=adopt)
        target, by = context.branch(onto), context.author()
        return prepare_work(context, name, table, onto=target, by=by, own_ids=own_ids)

    def prepare_new(
        self,
        table: str,
        schema: pa.Schema,
        *,
        branch: str | None = None,
        onto: str | None = None,
        uri: str | os.PathLike[str] | None = None,
        own_ids: bool = False,
    ) -> Table:
        """Open a table for writing that the branch does not have yet: empty, with these columns,
        and known to this branch only. With ``uri`` it lives there; a table that is there already is
        taken in as it stands.

        Raises AlreadyExistsError if another table is in its place.
        """
        from lancewood.repo.commit.adding import prepare_new

        context = self._context
        name, by = context.branch(branch), context.author()
        target = name if onto is None else context.branch(onto)
        return prepare_new(
            context, name, table, schema, onto=target, by=by, uri=uri, own_ids=own_ids
        )

    def transaction(
        self,
        branch: str | None = None,
        message: str | None = None,
        *,
        author: str | None = None,
        adopt: bool = False,
        files: FilesBeside | None = None,
    ) -> Transaction:
        """Changes to several tables that become one commit, all or nothing.

        ``branch`` is HEAD's if it is not given. ``author`` is ``"Name <address>"``. ``adopt``
        takes over branches of that name which tables have already, and which this repository did
        not make. ``files`` are put into the commit beside its tables and other files: bytes by
        path, or a function of the commit that is followed, as for ``merge``.

        What was written directly to a table that the transaction changes, and not committed, comes
        into the commit, too; ``result.taken_in`` names it.

        with repo.transaction("main", message="day 3") as changes:
            changes.create_table("labels", labels)
            changes.table("photos").append(photos)
        """
        from lancewood.repo.commit.transaction import Transaction
        from lancewood.repo.identity import checked_message

        return Transaction(
            self._context,
            self._context.branch(branch),
            checked_message(message),
            self._context.author(author),
            adopt=adopt,
            files=files,
        )

    def commit(
        self,
        message: str,
        *,
        branch: str | None = None,
        author: str | None = None,
        adopt: bool = False,
    ) -> Committed:
        """Record where the tables stand now, like ``git commit -a``: all at one moment.

        What is the same as before is no commit; the result says so. ``adopt`` is as for
        ``transaction``.
        """
        from lancewood.repo.commit.swapping import StandingTables, record

        tables = StandingTables(self._context, self._context.branch(branch), adopt)
        return record(tables, message, author)

    def snapshot(
        self,
        files: Mapping[str, bytes],
        message: str,
        *,
        branch: str | None = None,
        author: str | None = None,
    ) -> Committed:
        """Record files as a commit, for repositories that hold those instead of tables; they are
        read back by ``at(revision).read(path)``.

        The files are the whole set, by paths with ``/``: what is left out is gone from the branch.
        Tables of the branch stay as they are. The same files as before are no commit; the result
        says so. Raises InvalidInputError for paths that lead out of the commit or into git, and
        RetryableConflictError if another commit changed the files meanwhile.
        """
        from lancewood.catalog.files import checked_files
        from lancewood.repo.commit.swapping import FileSet, record

        files_there = FileSet(self._context, self._context.branch(branch), checked_files(files))
        return record(files_there, message, author)

    def __repr__(self) -> str:
        return f"<Repository {self.uri}>"


def _adding(tables: Mapping[str, object]) -> str:
    """The message of a commit that adds tables."""
    names = ", ".join(tables)
    if len(tables) == 1:
        return f"add table {names}"
    subject = f"add tables {names}"
    return subject if len(subject) <= _SUBJECT else f"add {len(tables):,} tables\n\n{names}"
