"""``lw table branch`` and ``tag``: names for the versions of a table, and its other histories."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

import lancewood as lw
from lancewood.cli import options
from lancewood.cli.options import LIST, NEW, check_fits, chosen_verb, iso, one, two
from lancewood.cli.output import Output, moment
from lancewood.cli.tables import (
    NEWEST,
    Changing,
    Revision,
)
from lancewood.table import MAIN

_DELETE, _RENAME, _RESET = "--delete", "--rename", "--reset"
_BRANCH_KEYS = ("name", "parent", "parent_version", "created", "metadata")


class BeginAt(Revision):
    """Where a new branch begins."""

    verb = "Begin at"


def branch_command(
    uri: options.Uri,
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME]...", help="The branch to make; without one, list them."),
    ] = None,
    delete: Annotated[
        bool, typer.Option(_DELETE, "-d", help="Delete branches with all their versions.")
    ] = False,
    rename: Annotated[
        bool, typer.Option(_RENAME, "-m", help="Rename the first NAME to the second.")
    ] = False,
    reset: Annotated[
        bool,
        typer.Option(
            _RESET, help="Begin a branch anew from its parent's newest version, or from --at."
        ),
    ] = False,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            "-f",
            help="Delete the tags on a branch, too, and what a deletion left; reset a branch with "
            "work that was not published.",
        ),
    ] = False,
    yes: options.Yes = False,
    pattern: options.Pattern = None,
    metadata: options.Metadata = None,
    *,
    revision: BeginAt,
    change: Changing,
) -> None:
    """List, make, delete, rename or reset branches.

    A new branch begins as the newest version of main, or as another one (--at v1), and costs one
    small file. Write to it with --branch NAME or URI@NAME; publish brings the work back. Deleting
    asks first.

    JSON lines with keys: name, parent, parent_version, created, metadata. A change is told with
    action, uri, branch and version; a rename adds renamed_from.
    """
    given = names or []
    verb = chosen_verb({_DELETE: delete, _RENAME: rename, _RESET: reset}, given)
    check_fits(
        verb,
        {
            "--list": (pattern is not None, [LIST]),
            "--metadata": (metadata is not None, [NEW]),
            "--branch": (revision.branch is not None, [NEW]),
            "a revision": (revision.is_past, [NEW, _RESET]),
            "--force": (force, [_DELETE, _RESET]),
            "--yes": (yes, [_DELETE]),
        },
    )
    facts = options.pairs(metadata, "--metadata")
    branches = _Branches(change.opened(uri, revision if verb == NEW else NEWEST), change)
    if verb == LIST:
        branches.show(pattern)
    elif verb == NEW:
        branches.make(one(given, NEW), facts)
    elif verb == _RENAME:
        branches.rename(*two(given, verb))
    elif verb == _RESET:
        branches.reset(one(given, verb), revision, force=force)
    else:
        branches.delete(given, force=force, yes=yes)


class _Branches:
    """The branches of one table, and how what becomes of them is shown."""

    def __init__(self, table: lw.Table, change: Changing) -> None:
        self._table = table
        self._from = table.branch or MAIN
        self._uri = table.main_uri
        self._change = change

    def show(self, pattern: str | None) -> None:
        found = options.matching(self._table.branches.list(), pattern)
        columns = ("branch", "from", "version", "created", "metadata")
        self._change.output.listing(found, (_BRANCH_KEYS, _branch_facts), (columns, _branch_line))

    def make(self, name: str, metadata: Mapping[str, str]) -> None:
        version = self._table.branches.create(name, metadata=metadata).version
        text = f"made branch {name} of version {version} of {self._from} in {self._uri}"
        self._tell("created", name, version, text)

    def delete(self, names: Sequence[str], *, force: bool, yes: bool) -> None:
        if not force:
            for each in names:
                self._table.branches.get(each)
        about = f"{', '.join(names)} of {self._uri}: all versions go, also what was not published."
        self._change.confirm("Delete for good?", about, yes=yes)
        for each in names:
            self._table.branches.delete(each, force=force)
            self._tell("deleted", each, None, f"deleted branch {each} of {self._uri}")

    def rename(self, old: str, new: str) -> None:
        with self._change.runner() as runner:
            version = self._table.branches.rename(old, new, runner=runner).version
        text = f"renamed branch {old} of {self._uri} to {new}"
        self._tell("renamed", new, version, text, renamed_from=old)

    def reset(self, name: str, revision: Revision, *, force: bool) -> None:
        version = self._table.branches.reset(name, revision.on_branch(), force=force).version
        found = self._table.branches.get(name)
        parent = found.parent_branch or MAIN
        text = f"branch {name} of {self._uri} begins anew as version {found.parent_version} of "
        self._tell("reset", name, version, f"{text}{parent}, with its version {version}")

    def _tell(self, action: str, name: str, version: int | None, text: str, **more: str) -> None:
        document = {"action": action, "uri": self._uri, "branch": name, "version": version}
        self._change.output.document({**document, **more}, text)


def _branch_facts(each: lw.Branch) -> tuple[Any, ...]:
    parent = each.parent_branch or MAIN
    return each.name, parent, each.parent_version, iso(each.created_at), dict(each.metadata)


def _branch_line(each: lw.Branch) -> tuple[Any, ...]:
    parent, facts = each.parent_branch or MAIN, options.shown_facts(each.metadata)
    return each.name, parent, each.parent_version, moment(each.created_at), facts


_DELETE, _UPDATE = "--delete", "--update"
_TAG_KEYS = ("name", "branch", "version", "created", "updated", "metadata")


class NamedRevision(Revision):
    """The version that a tag is to name."""

    verb = "Name"


def tag_command(
    uri: options.Uri,
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME]...", help="The tag to make; without one, list them."),
    ] = None,
    update: Annotated[
        bool, typer.Option(_UPDATE, "-u", help="Move a tag to another version.")
    ] = False,
    delete: Annotated[bool, typer.Option(_DELETE, "-d", help="Delete tags.")] = False,
    force: Annotated[
        bool,
        typer.Option(
            "--force", "-f", help="Also a tag that keeps files for a clone or another branch."
        ),
    ] = False,
    pattern: options.Pattern = None,
    pins: Annotated[
        bool, typer.Option("--pins", help="List also the tags that clones and publishing left.")
    ] = False,
    metadata: options.Metadata = None,
    *,
    revision: NamedRevision,
    change: Changing,
) -> None:
    """List, make, move or delete tags.

    A tag names one version, by default the newest of main, and keeps it from being cleaned up. Read
    that with --tag NAME or URI@NAME.

    JSON lines with keys: name, branch, version, created, updated, metadata. A change is told with
    action, uri, tag, branch and version.
    """
    given = names or []
    verb = chosen_verb({_UPDATE: update, _DELETE: delete}, given)
    says = revision.is_past or revision.branch is not None
    check_fits(
        verb,
        {
            "--list": (pattern is not None, [LIST]),
            "--pins": (pins, [LIST]),
            "--metadata": (metadata is not None, [NEW]),
            "a revision": (says, [NEW, _UPDATE]),
            "--force": (force, [NEW, _UPDATE, _DELETE]),
        },
    )
    facts = options.pairs(metadata, "--metadata")
    tags = _Tags(change.opened(uri, revision), change.output, force=force)
    if verb == LIST:
        tags.show(pattern, pins=pins)
    elif verb == NEW:
        tags.make(one(given, NEW), facts)
    elif verb == _UPDATE:
        tags.update(one(given, verb))
    else:
        tags.delete(given)


class _Tags:
    """The tags of one table, and how what becomes of them is shown."""

    def __init__(self, table: lw.Table, output: Output, *, force: bool) -> None:
        self._tags = table.tags
        self._uri = table.main_uri
        self._output = output
        self._force = force

    def show(self, pattern: str | None, *, pins: bool) -> None:
        found = options.matching(self._tags.list(pins=pins), pattern)
        columns = ("tag", "branch", "version", "created", "metadata")
        self._output.listing(found, (_TAG_KEYS, _tag_facts), (columns, _tag_line))

    def make(self, name: str, metadata: Mapping[str, str]) -> None:
        made = self._tags.create(name, metadata=metadata, force=self._force)
        self._tell("created", name, made)

    def update(self, name: str) -> None:
        self._tell("updated", name, self._tags.update(name, force=self._force))

    def delete(self, names: Sequence[str]) -> None:
        for each in names:
            self._tags.delete(each, force=self._force)
            self._tell("deleted", each, None)

    def _tell(self, action: str, name: str, tag: lw.Tag | None) -> None:
        branch = None if tag is None else tag.branch or MAIN
        version = None if tag is None else tag.version
        document = {
            "action": action,
            "uri": self._uri,
            "tag": name,
            "branch": branch,
            "version": version,
        }
        text = f"tag {name} is version {version} of {branch} in {self._uri}"
        if tag is None:
            text = f"deleted tag {name} of {self._uri}"
        self._output.document(document, text)


def _tag_facts(each: lw.Tag) -> tuple[Any, ...]:
    created, updated = iso(each.created_at), iso(each.updated_at)
    return each.name, each.branch or MAIN, each.version, created, updated, dict(each.metadata)


def _tag_line(each: lw.Tag) -> tuple[Any, ...]:
    created, facts = moment(each.created_at), options.shown_facts(each.metadata)
    return each.name, each.branch or MAIN, each.version, created, facts
