"""The options that name a version of a table, and opening that table.

A command that reads takes ``revision: Revision = NEWEST`` and is wrapped in ``with_revision``,
which gives it the five options; ``with_revision_to`` puts another verb into their help. It also
takes names of tables in the repository around it. A command that writes takes only ``branch``: it
continues from the newest version of that branch, or of the one in a uri like ``t.lance@exp``.

A command on a whole table refuses a uri with a revision. One that writes refuses a uri that names a
single version, since what it writes would come after the newest one of the branch.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import wraps
from typing import Annotated, Any, TypeAlias, TypeVar

import typer

import lancewood as lw
from lancewood.cli import options
from lancewood.cli.options import Command, manifest_store
from lancewood.cli.repository.names import TableNames
from lancewood.engine.location import Location
from lancewood.engine.snapshot import (
    TAG,
    Access,
    Descent,
    Snapshot,
    history_location,
    open_revision,
)
from lancewood.errors import InvalidInputError
from lancewood.model.refs import MAIN, called
from lancewood.model.revision import OnBranch, parse_revision
from lancewood.store.base import Store

T = TypeVar("T")
Branch: TypeAlias = Annotated[
    str | None,
    typer.Option("--branch", metavar="NAME", help="On this branch; as in URI@NAME."),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Revision:
    """What the options say; without any, the newest version of what the uri names.

    Raises typer.BadParameter if two of them contradict each other.
    """

    branch: str | None = None
    version: int | None = None
    tag: str | None = None
    as_of: str | None = None
    at: str | None = None

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
        """Whether it may be older than the newest version of a branch."""
        return any(each is not None for each in (self.version, self.tag, self.as_of, self.at))

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


def with_revision_to(verb: str) -> Callable[[Command], Command]:
    """Replaces a command's parameter ``revision`` by the five options; their help begins with the
    verb."""
    group = _group(verb)

    def wrapped(command: Command) -> Command:
        signature = inspect.signature(command, eval_str=True)
        parameters = [
            new
            for each in signature.parameters.values()
            for new in (_options(each, group) if each.name == "revision" else [each])
        ]

        @wraps(command)
        def expanded(**given: Any) -> None:
            said = {name: given.pop(name) for name in group}
            command(revision=Revision(**said), **given)

        expanded.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        expanded.__annotations__ = {each.name: each.annotation for each in parameters}
        return expanded

    return wrapped


def _group(verb: str) -> dict[str, Any]:
    """The five options by the names of their parameters; the help begins with the verb."""

    def option(kind: Any, name: str, metavar: str, text: str) -> Any:
        return Annotated[kind | None, typer.Option(name, metavar=metavar, help=f"{verb} {text}")]

    return {
        "branch": Branch,
        "version": option(int, "--version", "N", "this version, of main or of --branch."),
        "tag": option(str, "--tag", "NAME", "the version that a tag names."),
        "as_of": option(
            str,
            "--as-of",
            "TIME",
            "the newest version of that moment: ISO 8601, local time without a zone.",
        ),
        "at": option(
            str,
            "--at",
            "REVISION",
            "this revision: a tag or branch, branch:N, :N of main, tag:NAME; as in URI@REVISION.",
        ),
    }


def _options(parameter: inspect.Parameter, group: dict[str, Any]) -> list[inspect.Parameter]:
    return [
        inspect.Parameter(name, parameter.kind, default=None, annotation=option)
        for name, option in group.items()
    ]


with_revision = with_revision_to("Read")
"""For commands that read."""


def opened_store(uri: str, storage_options: Sequence[str] | None, *, unsafe: bool = False) -> Store:
    """The store where a table is, or could be."""
    return opened_location(uri, storage_options, unsafe=unsafe).store


def opened_location(
    uri: str, storage_options: Sequence[str] | None, *, unsafe: bool = False
) -> Location:
    """Where a table is, with access to all its base paths."""
    return _access(uri, storage_options, unsafe).whole("the command")


def opened_history(
    uri: str, storage_options: Sequence[str] | None, branch: str | None = None
) -> Store:
    """The root of a branch; its newest version need not be readable."""
    names = TableNames(options.storage(storage_options))
    location, revision = _access(names.whole(uri) or uri, storage_options).find()
    with names.told():
        return history_location(location, branch=branch, in_uri=revision).store


def opened_snapshot(
    uri: str,
    storage_options: Sequence[str] | None,
    revision: Revision = NEWEST,
    *,
    unsafe: bool = False,
) -> Snapshot:
    """One version of a table."""
    return _access(uri, storage_options, unsafe).open(**revision.arguments())


def opened_to_read(
    uri: str,
    storage_options: Sequence[str] | None,
    revision: Revision = NEWEST,
    *,
    unsafe: bool = False,
) -> Snapshot:
    """One version, for a command that reads: the uri may be a name in the repository around."""
    names = TableNames(options.storage(storage_options))
    if revision in (NEWEST, Revision(at=revision.at)):
        exact = names.read_as(uri, revision.at)
        revision = revision if exact is None else NEWEST
    else:
        exact = names.whole(uri)
    with names.told():
        return opened_snapshot(exact or uri, storage_options, revision, unsafe=unsafe)


def table_to_read(
    uri: str,
    storage_options: Sequence[str] | None,
    revision: Revision = NEWEST,
    *,
    unsafe: bool = False,
) -> lw.Table:
    """The table for ``opened_to_read``."""
    return lw.Table(opened_to_read(uri, storage_options, revision, unsafe=unsafe))


def table_to_compare(
    uri: str, storage_options: Sequence[str] | None, branch: str | None
) -> lw.Table:
    """A table whose versions are compared; the uri may be a name in the repository around."""
    names = TableNames(options.storage(storage_options))
    named = names.compared_as(uri) if branch is None else names.whole(uri)
    with names.told():
        return lw.Table(opened_snapshot(named or uri, storage_options, Revision(branch=branch)))


def compared_version(
    uri: str, storage_options: Sequence[str] | None, table: lw.Table, text: str
) -> int:
    """The version of the table that a text means: its number, a revision of the repository around,
    or a revision of the table."""
    if text.isascii() and text.isdecimal():
        return int(text)
    names = TableNames(options.storage(storage_options))
    named = names.compared_as(_without_revision(uri), text)
    with names.told():
        if named is None:
            found = table.checkout(at=text)._snapshot
        else:
            found = opened_snapshot(named, storage_options)
    number = found.manifest.version
    if Descent(table._snapshot).find(found) is None:
        raise InvalidInputError(
            f"{text!r} is version {number} of {called(found.manifest.branch)}, which is none of "
            f"{called(table.branch)}; --branch or URI@REVISION says of which branch changes are "
            "asked for",
            revision=text,
        )
    return number


def opened_to_write(
    uri: str, storage_options: Sequence[str] | None, branch: str | None, *, unsafe: bool = False
) -> Snapshot:
    """The newest version of the branch to write to.

    Raises InvalidInputError for a uri with a tag or the number of a version.
    """
    snapshot, single = opened_maybe_past(uri, storage_options, branch, unsafe=unsafe)
    if single is not None:
        kind = "a tag" if TAG in snapshot.derived else "a single version"
        on = snapshot.manifest.branch
        raise InvalidInputError(
            f"{single!r} is {kind}, and {kind} is not written to: make a branch there "
            f"(lw table branch URI NAME --at {single}), or write to {called(on)} "
            f"(URI@{on or MAIN})",
            revision=single,
        )
    return snapshot


def table_to_write(
    uri: str, storage_options: Sequence[str] | None, branch: str | None, *, unsafe: bool = False
) -> lw.Table:
    """The table for ``opened_to_write``."""
    return lw.Table(opened_to_write(uri, storage_options, branch, unsafe=unsafe))


def counts_of(table: lw.Table, kind: type[T]) -> T:
    """What a verb did that counts in this way, or would do."""
    counts = table.counts
    assert isinstance(counts, kind)
    return counts


def opened_maybe_past(
    uri: str, storage_options: Sequence[str] | None, branch: str | None, *, unsafe: bool = False
) -> tuple[Snapshot, str | None]:
    """The version that a branch or a uri names, and the uri's revision if that is a tag or the
    number of a version."""
    location, in_uri = _access(uri, storage_options, unsafe).find()
    snapshot = open_revision(location, in_uri=in_uri, branch=branch)
    if in_uri is None:
        return snapshot, None
    meant = parse_revision(in_uri)
    is_numbered = isinstance(meant, OnBranch) and meant.version is not None
    return snapshot, in_uri if is_numbered or TAG in snapshot.derived else None


def _without_revision(uri: str) -> str:
    """The table alone; a path that exists is not split."""
    return uri if os.path.isdir(uri) else uri.partition("@")[0]


def _access(uri: str, storage_options: Sequence[str] | None, unsafe: bool = False) -> Access:
    return Access(
        uri,
        storage_options=options.storage(storage_options),
        manifest_store=manifest_store(),
        unsafe=unsafe,
    )
