"""Which commit brought what a table holds: its rows are blamed on versions, and those on commits.
And the other way round, which commits changed certain rows.

A commit holds the versions up to the one that it pins. The oldest one on the way back that holds a
version is the one that brought it. What a merge brought is followed on the line that it came from.
Reads commits and pins, and asks a table only where a writer from outside came in between.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

import pyarrow as pa

from lancewood.catalog.pin import Pin
from lancewood.engine.snapshot import Snapshot
from lancewood.engine.staging import find_landing
from lancewood.errors import NotFoundError
from lancewood.git.history import walk
from lancewood.git.objects import Commit
from lancewood.git.values import Hash
from lancewood.jobs.blame import BlameRows, History, Line, Writer
from lancewood.jobs.diff import Touching
from lancewood.model.ids import Version
from lancewood.repo.context import RepoContext
from lancewood.repo.inspect.view import changing
from lancewood.repo.landing import pinned_state

FIELDS = (
    pa.field("commit", pa.string()),
    pa.field("author", pa.string()),
    pa.field("email", pa.string()),
    pa.field("commit_time", pa.timestamp("s", "UTC")),
    pa.field("commit_message", pa.string()),
)
_LAST_SECOND = int(datetime(9998, 12, 31, tzinfo=UTC).timestamp())
"""A clock that says more is wrong, and its moment is null."""


def blame_rows(
    context: RepoContext, commit: Commit, pin: Pin, table: str, **asked: Any
) -> BlameRows:
    """The rows of a table as a commit pins it, each with versions and the commits that brought
    them; what is ``asked`` is what ``BlameRows.asked`` takes."""
    line = _CommitLine(context, commit, table, pin)
    return BlameRows.asked(line.history.newest, line=line, **asked)


@dataclass(frozen=True)
class _Pinned:
    """A commit that changed the table, and what it pins."""

    commit: Commit
    pin: Pin

    @property
    def version(self) -> Version:
        """The version that it pins, or became, unless somebody else wrote before it landed."""
        return self.pin.exact_version


class _CommitLine(Line):
    """The commits that lead to one, and the versions of a table that they brought."""

    fields = FIELDS

    def __init__(self, context: RepoContext, tip: Commit, table: str, pin: Pin) -> None:
        super().__init__(History(pinned_state(context, pin)))
        self.context, self.tip, self.table, self.pin = context, tip, table, pin
        self._landings = dict[Hash, tuple[Version, ...]]()
        self._brought = dict[Version, Commit | None]()

    def said(self, writer: Writer) -> tuple[Any, ...]:
        """What is said of the commit that brought a version; nulls if none did."""
        found = self._of(writer)
        if found is None:
            return (None,) * len(FIELDS)
        author = found.author
        is_near = author.seconds <= _LAST_SECOND
        moment = datetime.fromtimestamp(author.seconds, UTC) if is_near else None
        return found.hash, author.name, author.email, moment, found.message

    def merged(self, writer: Writer) -> Iterator[Line]:
        """The lines of the other parents, for a version that a merge brought."""
        found = self._of(writer)
        for parent in () if found is None else found.parents[1:]:
            pin = self.context.tree(parent).find(self.table)
            if pin is not None and pin.uri == self.pin.uri:
                with contextlib.suppress(NotFoundError):
                    commit = self.context.git.objects.commit(parent)
                    yield _CommitLine(self.context, commit, self.table, pin)

    def _of(self, writer: Writer) -> Commit | None:
        """The oldest commit that holds a version; None if it is in none."""
        if writer.version not in self._brought:
            self._brought[writer.version] = self._found(writer)
        return self._brought[writer.version]

    def _found(self, writer: Writer) -> Commit | None:
        if not self.history.is_landed and writer.version > self.history.landed:
            return [each.commit for each in self._pinned if each.pin == self.pin][-1]
        holding = [each for each in self._pinned if self._holds(each, writer)]
        below = self._pinned[self._pinned.index(holding[-1]) + 1 :] if holding else self._pinned
        for each in below:
            if each.pin.branch == writer.branch:
                if writer.version in self._landed(each):
                    return each.commit
                break
        while holding and self._is_beside(holding[-1], writer):
            holding.pop()
        return holding[-1].commit if holding else None

    def _is_beside(self, pinned: _Pinned, writer: Writer) -> bool:
        """Whether somebody else made a version before the one that a commit became."""
        landing = pinned.pin.landing
        if landing is None or pinned.pin.branch != writer.branch:
            return False
        versions = self._landed(pinned)
        return writer.version > landing.base and bool(versions) and writer.version not in versions

    def _landed(self, pinned: _Pinned) -> tuple[Version, ...]:
        """The versions that the steps of a commit became; none for one that pins a version."""
        known = self._landings.get(pinned.commit.hash)
        if known is None:
            known, landing = (), pinned.pin.landing
            if landing is not None:
                with contextlib.suppress(NotFoundError):
                    known = find_landing(self.context.location(pinned.pin), landing).versions
            self._landings[pinned.commit.hash] = known
        return known

    @cached_property
    def _pinned(self) -> tuple[_Pinned, ...]:
        """The commits that changed the table, newest first."""
        return tuple(self._walk())

    def _walk(self) -> Iterator[_Pinned]:
        objects = self.context.git.objects
        commits = changing(
            self.context, walk(objects, [self.tip.hash]), self.table, [self.tip.hash]
        )
        for each in commits:
            pin = self.context.tree(each.hash).find(self.table)
            if pin is not None and pin.uri == self.pin.uri:
                yield _Pinned(each, pin)

    def _holds(self, pinned: _Pinned, writer: Writer) -> bool:
        """Whether what a commit pins has a version in its history, by their numbers."""
        descent = self.history.descent
        if descent is None:
            return pinned.pin.branch == writer.branch and pinned.version >= writer.version
        last = self.history.landed
        here = descent.passes(pinned.pin.branch, min(pinned.version, last))
        there = descent.passes(writer.branch, min(writer.version, last))
        if here is None or there is None:
            return False
        return here < there or (here == there and pinned.version >= writer.version)


def touching(
    context: RepoContext, commits: Iterable[Commit], table: str, tips: Iterable[Hash], where: str
) -> Iterator[Commit]:
    """Commits that changed rows which meet ``where``, against all of their parents.

    Raises InvalidInputError at once for a condition that cannot be asked of the table at a tip.
    """
    touched = Touching(where)
    known = dict[Hash, Snapshot | None]()

    def state(commit: Hash) -> Snapshot | None:
        if commit not in known:
            pin = context.tree(commit).find(table)
            known[commit] = None if pin is None else pinned_state(context, pin)
        return known[commit]

    for each in tips:
        now = state(each)
        if now is not None:
            touched.check(now)

    def found() -> Iterator[Commit]:
        for each in commits:
            after = state(each.hash)
            befores = [state(parent) for parent in each.parents] or [None]
            if all(touched.is_between(before, after) for before in befores):
                yield each
            known.clear()
            known.update(zip(each.parents, befores, strict=False))

    return found()
