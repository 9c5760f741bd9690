"""The options of commands on one table: which version, how it is reached, what a commit says.

A command that reads takes ``read: Reading`` and gets its table by ``read.table(uri)``. It also
takes names of tables in the repository around it. A command that writes takes ``write: Writing``,
or ``PlannedWriting`` if it has a dry run: it continues from the newest version of a branch, or of
the one in a uri like ``t.lance@exp``.

A command on a whole table refuses a uri with a revision. One that writes refuses a uri that names a
single version, since what it writes would come after the newest one of the branch.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar, TypeAlias, TypeVar

import typer

import lancewood as lw
from lancewood.cli.options import DryRun, OptionSet, StoreOptions, pairs
from lancewood.cli.output import outcome
from lancewood.cli.progress import task_runner
from lancewood.cli.repository import TableNames, check_main_is_meant
from lancewood.errors import InvalidInputError
from lancewood.table import (
    MAIN,
    Address,
    NamedVersion,
    Runner,
    called,
    count_versions,
    history,
    open_named,
)

T = TypeVar("T")
Branch: TypeAlias = Annotated[
    str | None,
    typer.Option("--branch", metavar="NAME", help="On this branch; as in URI@NAME."),
]


@dataclass(frozen=True, kw_only=True)
class Revision(OptionSet):
    """Which version; without any option, the newest version of what the uri names.

    Raises typer.BadParameter if two of them contradict each other. The help begins with a verb,
    for which a subclass may have another one.
    """

    verb: ClassVar[str] = "Read"

    branch: Branch = None
    version: Annotated[
        int | None,
        typer.Option("--version", metavar="N", help="{verb} this version, of main or of --branch."),
    ] = None
    tag: Annotated[
        str | None,
        typer.Option("--tag", metavar="NAME", help="{verb} the version that a tag names."),
    ] = None
    as_of: Annotated[
        str | None,
        typer.Option(
            "--as-of",
            metavar="TIME",
            help="{verb} the newest version of that moment: ISO 8601, local time without a zone.",
        ),
    ] = None
    at: Annotated[
        str | None,
        typer.Option(
            "--at",
            metavar="REVISION",
            help="{verb} this revision: a tag or branch, branch:N, :N of main, tag:NAME; as in "
            "URI@REVISION.",
        ),
    ] = None

    def __post_init__(self) -> None:
        given = {
            "--version": self.version,
            "--tag": self.tag,
            "--as-of": self.as_of,
            "--at": self.at,
        }
        said = [name for name, value in given.items() if value is not None]
        if len(said) > 1:
            raise typer.BadParameter(f"give {' or '.join(said)}, not both")
        if self.branch is not None and (self.tag is not None or self.at is not None):
            raise typer.BadParameter(f"give --branch or {said[0]}, not both")

    @property
    def is_past(self) -> bool:
        """Whether the version may be older than the newest of a branch."""
        return any(each is not None for each in (self.version, self.tag, self.as_of, self.at))

    @property
    def has_only_at(self) -> bool:
        """Whether nothing is said, or ``--at`` alone."""
        return all(each is None for each in (self.branch, self.version, self.tag, self.as_of))

    def arguments(self) -> dict[str, Any]:
        """The arguments for ``lancewood.open``."""
        return {
            "branch": self.branch,
            "version": self.version,
            "tag": self.tag,
            "as_of": _when(self.as_of),
            "at": self.at,
        }

    def on_branch(self) -> int | str | datetime | None:
        """The argument ``at`` of verbs that know their branch; None if nothing is said.

        Raises typer.BadParameter if a branch is given.
        """
        if self.branch is not None:
            raise typer.BadParameter("the branch is known here; leave --branch out")
        tag = None if self.tag is None else f"tag:{self.tag}"
        said = (self.version, tag, _when(self.as_of), self.at)
        return next((each for each in said if each is not None), None)


NEWEST = Revision()


def _when(text: str | None) -> datetime | None:
    """A point in time; local time without a zone."""
    if text is None:
        return None
    try:
        return datetime.fromisoformat(text.strip()).astimezone(UTC)
    except (ValueError, OverflowError):
        raise typer.BadParameter(
            f"--as-of {text!r} is no time: write it as 2026-05-01 or 2026-05-01T12:30:00Z"
        ) from None


@dataclass(frozen=True, kw_only=True)
class TableOptions(StoreOptions):
    """How a table is reached. The environment may name the manifest store, since its uri may hold a
    password."""

    manifest_store: Annotated[
        str | None,
        typer.Option(
            "--manifest-store",
            metavar="URI",
            envvar="LANCEWOOD_MANIFEST_STORE",
            help="Where versions are committed, if not in the object store itself: sqlite:///FILE, "
            "postgresql://…, dynamodb://TABLE.",
        ),
    ] = None

    @property
    def access(self) -> lw.Access:
        """How tables are reached."""
        return lw.Access(storage_options=self.storage, manifest_store=self.manifest_store)

    def address(self, uri: str) -> Address:
        return Address(uri, self.access)

    def whole_uri(self, uri: str) -> str:
        """Where a whole table is; raises InvalidInputError if the uri has a revision."""
        return self.address(uri).whole("the command").uri

    def opened(self, uri: str, revision: Revision = NEWEST) -> lw.Table:
        return lw.Table(self.address(uri).open(**revision.arguments()))

    def to_read(self, uri: str, revision: Revision) -> lw.Table:
        """One version, for a command that reads: the uri may be a name in the repository around."""
        names = TableNames(self.storage)
        if revision.has_only_at:
            exact = names.read_as(uri, revision.at)
            revision = revision if exact is None else NEWEST
        else:
            exact = names.whole(uri)
        with names.shown_in_errors():
            return self.opened(exact or uri, revision)

    def runner(self) -> AbstractContextManager[Runner]:
        """Threads that show how many tasks of a job are done while the block runs."""
        return task_runner(wanted=not self.json)

    def answer(self, table: lw.Table, text: str, **more: Any) -> None:
        """Print the uri and the version of a table, and more facts, for programs; the text for
        people."""
        self.output.document({"uri": table.uri, "version": table.version, **more}, text)


@dataclass(frozen=True, kw_only=True)
class Reading(Revision, TableOptions):
    """The options of a command that reads one version."""

    def table(self, uri: str) -> lw.Table:
        return self.to_read(uri, self)


@dataclass(frozen=True, kw_only=True)
class BranchOptions(TableOptions):
    """The options of a command that looks at the versions of one branch."""

    branch: Branch = None

    def newest(self, uri: str) -> lw.Table:
        """The newest version of the branch."""
        return self.opened(uri, Revision(branch=self.branch))

    def history(self, uri: str, limit: int | None) -> Iterator[lw.VersionInfo]:
        """The versions of the branch; the newest need not be readable."""
        names = TableNames(self.storage)
        access = self.address(names.whole(uri) or uri)
        with names.shown_in_errors():
            return history(access, branch=self.branch, limit=limit)

    def count_versions(self, uri: str) -> int:
        """How many versions of the branch there are."""
        access = self.address(TableNames(self.storage).whole(uri) or uri)
        return count_versions(access, branch=self.branch)

    def to_compare(self, uri: str) -> lw.Table:
        """A table whose versions are compared; the uri may be a name in the repository around."""
        names = TableNames(self.storage)
        named = names.compared_as(uri) if self.branch is None else names.whole(uri)
        with names.shown_in_errors():
            return self.newest(named or uri)

    def compared(self, uri: str, table: lw.Table, text: str) -> lw.Table:
        """The version of the table that a text means: its number, a revision of the repository
        around, or a revision of the table."""
        if text.isascii() and text.isdecimal():
            return table.checkout(at=int(text))
        names = TableNames(self.storage)
        # A path that exists is not split.
        named = names.compared_as(uri if os.path.isdir(uri) else uri.partition("@")[0], text)
        with names.shown_in_errors():
            return table.checkout(at=text) if named is None else self.opened(named)

    def compared_version(self, uri: str, table: lw.Table, text: str) -> int:
        """The number of a version that is in the past of the table's."""
        if text.isascii() and text.isdecimal():
            return int(text)
        found = self.compared(uri, table, text)
        if not table.follows(found):
            raise InvalidInputError(
                f"{text!r} is version {found.version} of {called(found.branch)}, which is none of "
                f"{called(table.branch)}; --branch or URI@REVISION says of which branch changes "
                "are asked for",
                revision=text,
            )
        return found.version


@dataclass(frozen=True, kw_only=True)
class Changing(TableOptions):
    """The options of a command that changes a table in any way."""

    unsafe: Annotated[
        bool,
        typer.Option(
            "--unsafe",
            help="Trust an object store's put-if-absent without a proof; two writers at once may "
            "lose a commit.",
        ),
    ] = False

    @property
    def access(self) -> lw.Access:
        return replace(super().access, unsafe=self.unsafe)


@dataclass(frozen=True, kw_only=True)
class Committing(Changing):
    """The options of a command that commits a version.

    Raises typer.BadParameter for a property without a key.
    """

    message: Annotated[
        str | None,
        typer.Option("--message", "-m", metavar="TEXT", help="What the new version is about."),
    ] = None
    properties: Annotated[
        list[str] | None,
        typer.Option(
            "--property",
            metavar="KEY=VALUE",
            help="A fact to keep with the new version. May be repeated.",
        ),
    ] = None

    def __post_init__(self) -> None:
        pairs(self.properties, "--property")

    @property
    def facts(self) -> dict[str, Any]:
        """The arguments of every verb that commits."""
        properties = pairs(self.properties, "--property")
        commit = lw.CommitOptions(properties=properties) if properties else None
        return {"message": self.message, "commit": commit}

    def answer(self, table: lw.Table, text: str, **more: Any) -> None:
        """Print what was done to a table, and name its branch."""
        super().answer(table, text, **{"branch": table.branch or MAIN, **more})

    def run(self, verb: Callable[..., lw.Table], *args: Any, **given: Any) -> lw.Table:
        """The table after a verb that commits; people see how many of its tasks are done."""
        with self.runner() as runner:
            return verb(*args, **given, runner=runner, **self.facts)

    def named(
        self, uri: str, branch: str | None = None, *, is_main_meant: bool = False
    ) -> NamedVersion:
        """What a uri and a branch lead to.

        Raises InvalidInputError where no branch is named, and the repository around the table is on
        another branch than main. ``is_main_meant`` is for commands that name their branches
        themselves.
        """
        found = open_named(self.address(uri), branch)
        if not found.is_branch_named and not is_main_meant:
            check_main_is_meant(uri, found.table, self.storage)
        return found

    def to_write(
        self, uri: str, branch: str | None = None, *, is_main_meant: bool = False
    ) -> lw.Table:
        """The newest version of the branch to write to.

        Raises InvalidInputError for a uri with a tag or the number of a version, and as ``named``.
        """
        found = self.named(uri, branch, is_main_meant=is_main_meant)
        table, single = found.table, found.single
        if single is not None:
            kind = "a tag" if found.is_tag else "a single version"
            raise InvalidInputError(
                f"{single!r} is {kind}, and {kind} is not written to: make a branch there "
                f"(lw table branch URI NAME --at {single}), or write to {called(table.branch)} "
                f"(URI@{table.branch or MAIN})",
                revision=single,
            )
        return table


@dataclass(frozen=True, kw_only=True)
class Writing(Committing):
    """The options of a command that writes to a branch."""

    branch: Branch = None

    def table(self, uri: str) -> lw.Table:
        """The newest version of the branch."""
        return self.to_write(uri, self.branch)


@dataclass(frozen=True, kw_only=True)
class Planned(Committing):
    """The options of a command that commits a version, or plans it in a dry run."""

    dry_run: DryRun = False

    @property
    def facts(self) -> dict[str, Any]:
        return {**super().facts, "dry_run": self.dry_run}

    def answer(self, table: lw.Table, text: str, **more: Any) -> None:
        super().answer(table, text, **{"dry_run": self.dry_run, **more})

    def outcome(self, verb: str, past: str, what: str) -> str:
        """What would be done, or was done, in words."""
        return outcome(verb, past, what, dry_run=self.dry_run)


@dataclass(frozen=True, kw_only=True)
class PlannedWriting(Planned, Writing):
    """The options of a command that writes to a branch, and has a dry run."""


def counts_of(table: lw.Table, kind: type[T]) -> T:
    """What a verb did that counts in this way, or would do."""
    counts = table.counts
    assert isinstance(counts, kind)
    return counts


def stands(table: lw.Table) -> str:
    """Where a table is, and at which version of which branch."""
    return f"{table.main_uri}, version {table.version} of {table.branch or MAIN}"


def stays(table: lw.Table) -> str:
    """Where a table is, and at which version of which branch it stays."""
    return f"{table.main_uri} stays at version {table.version} of {table.branch or MAIN}"
