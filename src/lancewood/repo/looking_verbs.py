"""Verbs of a repository that look at it: its tables, its commits, and where both stand."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from lancewood.errors import InvalidInputError
from lancewood.git.hashes import Hash
from lancewood.git.history import merge_base, walk
from lancewood.git.objects import Commit
from lancewood.git.refs import Head, LogEntry
from lancewood.repo.grounds import Grounds
from lancewood.repo.looking.comparing import Shown, TableChange, compare
from lancewood.repo.looking.measuring import measured, told_apart
from lancewood.repo.looking.standing import standing_tables
from lancewood.repo.looking.status import Status, find_status
from lancewood.repo.looking.story import changing, held_commits, paged
from lancewood.repo.looking.view import View
from lancewood.repo.ref_names import full_ref


class LookingVerbs:
    """Verbs of a repository that change nothing."""

    _grounds: Grounds

    @property
    def tables(self) -> tuple[str, ...]:
        """The names of the tables of HEAD."""
        head = self._grounds.git.refs.head()
        return tuple(self._grounds.tree(head.hash).names())

    def at(self, revision: str = "HEAD") -> View:
        """A commit, to be read: a branch, a tag, a hash, ``HEAD~2``; raises NotFoundError."""
        return View(self._grounds, self._grounds.commit(revision))

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
        changed it: those whose pin is that of none of their parents. The end is a NotFoundError if
        no commit that is reached ever had the table.
        """
        tips = [self._grounds.commit(each) for each in revisions or ("HEAD",)]
        if table is not None:
            commits = walk(self._grounds.git.objects, tips, first_parent=first_parent)
            found = changing(self._grounds, commits, table, tips)
            return paged(found, limit=limit, skip=skip)
        return walk(
            self._grounds.git.objects, tips, limit=limit, skip=skip, first_parent=first_parent
        )

    def show(self, revision: str = "HEAD") -> Shown:
        """A commit, and what it changed against its first parent."""
        commit = self._grounds.git.objects.commit(self._grounds.commit(revision))
        parent = commit.parents[0] if commit.parents else None
        before, after = self._grounds.tree(parent), self._grounds.tree(commit.hash)
        return Shown(commit, measured(self._grounds, compare(before, after)))

    def diff(self, before: str = "HEAD~1", after: str | None = "HEAD") -> tuple[TableChange, ...]:
        """What differs between two revisions, for each table: how many rows were inserted, updated
        and deleted, and which columns.

        ``after`` None means the tables of the current branch as they stand now. Of the tables that
        differ manifests are read, and of rows that changed their numbers; data files only to see
        that a small table was written over by what it held. Where row ids cannot tell, ``counts``
        is None, and the rest is what the pins say; two tables of one name that share no history
        are ``is_unrelated``.
        """
        grounds = self._grounds
        one = grounds.commit(before)
        if after is None:
            return measured(grounds, compare(grounds.tree(one), standing_tables(grounds)))
        other = grounds.commit(after)
        found = measured(grounds, compare(grounds.tree(one), grounds.tree(other)))
        return tuple(told_apart(grounds, found, one, other))

    def merge_base(self, one: str, other: str) -> Hash | None:
        """The best commit that leads to both; None where there is none."""
        objects = self._grounds.git.objects
        return merge_base(objects, self._grounds.commit(one), self._grounds.commit(other))

    def held(self, commits: Iterable[Hash], revision: str = "HEAD") -> dict[Hash, Hash | None]:
        """Of some commits those that lead to a revision, each with the commit that reverted it, or
        None. One that is left out was reset away, or was never there."""
        return held_commits(self._grounds.git.objects, commits, self._grounds.commit(revision))

    def reflog(self, ref: str = "HEAD") -> Iterator[LogEntry]:
        """Every move of HEAD, of a branch or of a tag, newest first."""
        refs = self._grounds.git.refs
        if not isinstance(ref, str):
            raise InvalidInputError(f"{ref!r} is no ref: HEAD, a branch or a tag is")
        known = () if ref.startswith("refs/") else refs.names("refs/")
        return refs.log(full_ref(known, ref))
