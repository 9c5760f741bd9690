"""The repository: a git history over many tables, and every verb on it.

A bare git repository in SHA-256 format. A commit pins the tables it names; what a table holds is
said by Lance, what belongs together by git. Each verb is a few lines into the module that does it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Self
from uuid import uuid4

from lancewood.catalog.files import checked_files
from lancewood.errors import InvalidInputError
from lancewood.git.hashes import Hash
from lancewood.git.history import merge_base, walk
from lancewood.git.objects import Commit
from lancewood.git.refs import Head, LogEntry
from lancewood.git.repository import GitRepository
from lancewood.repo.adding import add_table, remove_table
from lancewood.repo.branches import Branches
from lancewood.repo.comparing import Shown, TableChange, compare
from lancewood.repo.cut import Cut
from lancewood.repo.grounds import EXCLUSIVE, ID, SECTION, TABLES, Grounds
from lancewood.repo.identity import author_of
from lancewood.repo.items import Snapshot
from lancewood.repo.keeping import KeepingVerbs
from lancewood.repo.merging import merge
from lancewood.repo.names import full_ref
from lancewood.repo.outcome import Committed
from lancewood.repo.preparing import prepare
from lancewood.repo.resetting import reset
from lancewood.repo.reverting import cherry_pick, revert
from lancewood.repo.standing import standing_tables
from lancewood.repo.status import Status, find_status
from lancewood.repo.story import changing, paged
from lancewood.repo.swapping import swap
from lancewood.repo.switching import detach, switch
from lancewood.repo.tags import Tags
from lancewood.repo.transaction import Transaction
from lancewood.repo.view import View
from lancewood.table.table import Table


class Repository(KeepingVerbs):
    """Many tables under one history. Made by ``init`` and ``open``."""

    def __init__(self, grounds: Grounds) -> None:
        self._grounds = grounds

    @classmethod
    def init(
        cls,
        path: str | os.PathLike[str],
        *,
        exclusive: bool = False,
        storage_options: Mapping[str, str] | None = None,
        fsync: bool | None = None,
    ) -> Self:
        """A new repository, without a commit. Raises AlreadyExistsError.

        ``exclusive`` keeps its tables for its own transactions, see ``exclusive()``.
        ``storage_options`` are for tables that are in object stores; they are never written down.
        """
        settings = {f"{SECTION}.{ID}": uuid4().hex}
        if exclusive:
            settings[f"{SECTION}.{EXCLUSIVE}"] = "true"
        git = GitRepository.init(path, settings=settings, fsync=fsync)
        if not git.get(SECTION, ID):  # the settings of an init that was cut off, and was not ours
            git.set(SECTION, ID, uuid4().hex)
        (git.path / TABLES).mkdir(exist_ok=True)
        return cls(Grounds(git, storage_options, fsync))

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        storage_options: Mapping[str, str] | None = None,
        fsync: bool | None = None,
    ) -> Self:
        """The repository at a path. Raises NotFoundError, and FormatError for another kind."""
        grounds = Grounds(GitRepository.open(path, fsync=fsync), storage_options, fsync)
        _ = grounds.id
        return cls(grounds)

    @classmethod
    def open_or_init(
        cls,
        path: str | os.PathLike[str],
        *,
        storage_options: Mapping[str, str] | None = None,
        fsync: bool | None = None,
    ) -> Self:
        """The repository at a path, made if it is not there."""
        make = cls.open if os.path.lexists(Path(path) / "HEAD") else cls.init
        return make(path, storage_options=storage_options, fsync=fsync)

    @property
    def path(self) -> Path:
        return self._grounds.path

    # Tables

    @property
    def tables(self) -> tuple[str, ...]:
        """The names of the tables of HEAD."""
        head = self._grounds.git.refs.head()
        return tuple(self._grounds.tree(head.hash).names())

    def at(self, revision: str = "HEAD") -> View:
        """A commit, to be read: a branch, a tag, a hash, ``HEAD~2``; raises NotFoundError."""
        return View(self._grounds, self._grounds.commit(revision))

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
        with self.transaction(branch, message or f"add table {name}", author=author) as changes:
            add_table(self._grounds, changes, name, uri)
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
        with self.transaction(branch, message or f"remove table {name}", author=author) as changes:
            remove_table(changes, name)
        return changes.result

    # Looking

    @property
    def head(self) -> Head:
        """What HEAD names: a branch, or a commit when it is detached."""
        return self._grounds.git.refs.head()

    def status(self) -> Status:
        """Where the tables stand, compared with what HEAD pins: content, not version numbers."""
        return find_status(self._grounds)

    def log(
        self,
        *revisions: str,
        limit: int | None = None,
        skip: int = 0,
        first_parent: bool = False,
        table: str | None = None,
    ) -> Iterator[Commit]:
        """The commits that lead to revisions, or to HEAD, newest first; each is read when it is
        reached.

        ``first_parent`` leaves out what merges brought in. ``table`` keeps the commits that
        changed it: those whose pin is that of none of their parents.
        """
        tips = [self._grounds.commit(each) for each in revisions or ("HEAD",)]
        if table is not None:
            commits = walk(self._grounds.git.objects, tips, first_parent=first_parent)
            return paged(changing(self._grounds, commits, table), limit=limit, skip=skip)
        return walk(
            self._grounds.git.objects, tips, limit=limit, skip=skip, first_parent=first_parent
        )

    def show(self, revision: str = "HEAD") -> Shown:
        """A commit, and what it changed against its first parent."""
        commit = self._grounds.git.objects.commit(self._grounds.commit(revision))
        parent = commit.parents[0] if commit.parents else None
        before, after = self._grounds.tree(parent), self._grounds.tree(commit.hash)
        return Shown(commit, compare(before, after))

    def diff(self, before: str = "HEAD~1", after: str | None = "HEAD") -> tuple[TableChange, ...]:
        """What differs between two revisions: a summary per table, from the pins alone.

        ``after`` None means the tables of the current branch as they stand now.
        """
        one = self._grounds.tree(self._grounds.commit(before))
        if after is None:
            return compare(one, standing_tables(self._grounds))
        return compare(one, self._grounds.tree(self._grounds.commit(after)))

    def merge_base(self, one: str, other: str) -> Hash | None:
        """The best commit that leads to both; None where there is none."""
        objects = self._grounds.git.objects
        return merge_base(objects, self._grounds.commit(one), self._grounds.commit(other))

    def reflog(self, ref: str = "HEAD") -> Iterator[LogEntry]:
        """Every move of HEAD, of a branch or of a tag, newest first."""
        refs = self._grounds.git.refs
        return refs.log(full_ref(refs.names("refs/"), ref))

    # Names

    @property
    def branches(self) -> Branches:
        return Branches(self._grounds)

    @property
    def tags(self) -> Tags:
        return Tags(self._grounds)

    def switch(self, branch: str, *, create: bool = False, at: str = "HEAD") -> Head:
        """Make a branch the current one; ``create`` makes it first, at a revision.

        Nothing happens to the tables: each branch has its own. Raises NotFoundError.
        """
        return switch(self._grounds, branch, create=create, at=at)

    def detach(self, revision: str = "HEAD") -> Head:
        """Have HEAD name a commit instead of a branch: for reading, nothing is written there."""
        return detach(self._grounds, revision)

    # Committing

    def prepare(self, table: str, *, branch: str | None = None, adopt: bool = False) -> Table:
        """A table on a branch, to be written without a transaction, by whatever writer; then
        ``commit`` records it.

        Its branch of that name is made if need be, and what commits pin lands there first.
        ``adopt`` is as for ``transaction``. Raises NotFoundError.
        """
        return prepare(self._grounds, self._grounds.branch(branch), table, adopt=adopt)

    def transaction(
        self,
        branch: str | None = None,
        message: str | None = None,
        *,
        author: str | None = None,
        adopt: bool = False,
    ) -> Transaction:
        """Changes to several tables that become one commit, all or nothing.

        ``branch`` is HEAD's if it is not given. ``author`` is ``"Name <address>"``. ``adopt``
        takes over branches of that name which tables have already, and which this repository did
        not make.

        with repo.transaction("main", message="day 3") as changes:
            changes.create_table("labels", labels)
            changes.table("photos").append(photos)
        """
        return Transaction(
            self._grounds,
            self._grounds.branch(branch),
            checked_message(message),
            author_of(self._grounds.git, author),
            adopt=adopt,
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
        name = self._grounds.branch(branch)
        cut = Cut(self._grounds, name, adopt)
        text, author_now = checked_message(message), author_of(self._grounds.git, author)
        commit = swap(self._grounds, name, cut, message=text, author=author_now)
        if commit is None:
            return Committed(self._grounds.tip(name), name, (), is_new=False)
        return Committed(commit, name, cut.changed)

    # Bringing together and taking back

    def merge(
        self,
        name: str,
        into: str | None = None,
        *,
        message: str | None = None,
        author: str | None = None,
        dry_run: bool = False,
        adopt: bool = False,
    ) -> Committed:
        """Bring what a branch, or any revision, has into a branch, by default the current one; the
        result tells what was done to each table.

        A table that only the other side changed is taken over, one that only this side changed
        stays, and one that both changed is judged by the rules of any two writers. All become one
        commit with two parents. If tables refuse, IncompatibleConflictError names all that do, and
        nothing has changed. A branch other than main that has nothing of its own just moves. What
        is merged already is no commit. ``dry_run`` judges, and writes nothing. ``adopt`` is as for
        ``transaction``.
        """
        grounds = self._grounds
        return merge(
            grounds,
            name,
            grounds.branch(into),
            message=None if message is None else checked_message(message),
            author=author_of(grounds.git, author),
            dry_run=dry_run,
            adopt=adopt,
        )

    def reset(
        self, revision: str = "HEAD", *, branch: str | None = None, soft: bool = False
    ) -> Committed:
        """Move a branch, by default the current one, to a commit, and its tables with it.

        Every table whose content is another gets a new version with that of the commit: numbers
        only grow, and older versions stay. What was written and not committed is given up.
        ``soft`` moves the branch only. If a table cannot follow, IncompatibleConflictError names
        all that cannot, and nothing has changed.
        """
        return reset(self._grounds, self._grounds.branch(branch), revision, soft=soft)

    def revert(
        self, revision: str, *, branch: str | None = None, author: str | None = None
    ) -> Committed:
        """Take back what a commit did, as a new commit on a branch, by default the current one.

        Each table that it changed becomes what it was before, where it still is what the commit
        made of it. If tables are something else by now, IncompatibleConflictError names all of
        them, and nothing has changed. Of a merge, what it brought to its first parent is taken
        back.
        """
        grounds = self._grounds
        by = author_of(grounds.git, author)
        return revert(grounds, grounds.branch(branch), revision, author=by)

    def cherry_pick(self, revision: str, *, branch: str | None = None) -> Committed:
        """Do once more what a commit did, as a new commit on a branch, by default the current one.

        Each table that it changed becomes what it is there, where it still is what it was before
        that commit. If tables are something else, IncompatibleConflictError names all of them, and
        nothing has changed. Author and message are the commit's.
        """
        grounds = self._grounds
        by = author_of(grounds.git)
        return cherry_pick(grounds, grounds.branch(branch), revision, by=by)

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
        name, checked = self._grounds.branch(branch), checked_files(files)
        text, author_now = checked_message(message), author_of(self._grounds.git, author)
        proposal = Snapshot(self._grounds, name, checked)
        commit = swap(self._grounds, name, proposal, message=text, author=author_now)
        if commit is None:
            return Committed(self._grounds.tip(name), name, (), is_new=False)
        return Committed(commit, name, ())

    def __repr__(self) -> str:
        return f"<Repository {self.path}>"


def checked_message(message: object) -> str:
    """A commit message; raises InvalidInputError for what is none."""
    if not isinstance(message, str) or not message.strip():
        raise InvalidInputError(f"a commit needs a message, got {message!r}")
    if "\0" in message:
        raise InvalidInputError("a commit message cannot hold a NUL")
    return message
