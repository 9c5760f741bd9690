"""``lw table branch`` and ``tag``: names for the versions of a table, and its other histories."""

from __future__ import annotations

from typing import Annotated, Any

import typer

import lancewood as lw
from lancewood.cli import options
from lancewood.cli.options import LIST, NEW, chosen_verb, iso, one, two
from lancewood.cli.output import moment
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
    verb = chosen_verb(
        {_DELETE: delete, _RENAME: rename, _RESET: reset},
        given,
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
    table = change.opened(uri, revision if verb == NEW else NEWEST)
    branches, whole = table.branches, table.main_uri

    def tell(action: str, name: str, version: int | None, text: str, **more: str) -> None:
        document = {"action": action, "uri": whole, "branch": name, "version": version}
        change.output.document({**document, **more}, text)

    if verb == LIST:
        found = options.matching(branches.list(), pattern)
        columns = ("branch", "from", "version", "created", "metadata")
        change.output.listing(found, (_BRANCH_KEYS, _branch_facts), (columns, _branch_line))
    elif verb == NEW:
        name = one(given, NEW)
        version = branches.create(name, metadata=facts).version
        begin = f"version {version} of {table.branch or MAIN}"
        tell("created", name, version, f"made branch {name} of {begin} in {whole}")
    elif verb == _RENAME:
        old, name = two(given, verb)
        with change.runner() as runner:
            version = branches.rename(old, name, runner=runner).version
        text = f"renamed branch {old} of {whole} to {name}"
        tell("renamed", name, version, text, renamed_from=old)
    elif verb == _RESET:
        name = one(given, verb)
        version = branches.reset(name, revision.on_branch(), force=force).version
        made = branches.get(name)
        begin = f"version {made.parent_version} of {made.parent_branch or MAIN}"
        text = f"branch {name} of {whole} begins anew as {begin}, with its version {version}"
        tell("reset", name, version, text)
    else:
        if not force:
            for name in given:
                branches.get(name)
        about = f"{', '.join(given)} of {whole}: all versions go, also what was not published."
        change.confirm("Delete for good?", about, yes=yes)
        for name in given:
            branches.delete(name, force=force)
            tell("deleted", name, None, f"deleted branch {name} of {whole}")


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
    says = revision.is_past or revision.branch is not None
    verb = chosen_verb(
        {_UPDATE: update, _DELETE: delete},
        given,
        {
            "--list": (pattern is not None, [LIST]),
            "--pins": (pins, [LIST]),
            "--metadata": (metadata is not None, [NEW]),
            "a revision": (says, [NEW, _UPDATE]),
            "--force": (force, [NEW, _UPDATE, _DELETE]),
        },
    )
    facts = options.pairs(metadata, "--metadata")
    table = change.opened(uri, revision)
    tags, whole = table.tags, table.main_uri

    def tell(action: str, name: str, tag: lw.Tag | None) -> None:
        branch = None if tag is None else tag.branch or MAIN
        version = None if tag is None else tag.version
        document = {"action": action, "uri": whole, "tag": name}
        text = f"tag {name} is version {version} of {branch} in {whole}"
        text = f"deleted tag {name} of {whole}" if tag is None else text
        change.output.document({**document, "branch": branch, "version": version}, text)

    if verb == LIST:
        found = options.matching(tags.list(pins=pins), pattern)
        columns = ("tag", "branch", "version", "created", "metadata")
        change.output.listing(found, (_TAG_KEYS, _tag_facts), (columns, _tag_line))
    elif verb == NEW:
        name = one(given, NEW)
        tell("created", name, tags.create(name, metadata=facts, force=force))
    elif verb == _UPDATE:
        name = one(given, verb)
        tell("updated", name, tags.update(name, force=force))
    else:
        for name in given:
            tags.delete(name, force=force)
            tell("deleted", name, None)


def _tag_facts(each: lw.Tag) -> tuple[Any, ...]:
    created, updated = iso(each.created_at), iso(each.updated_at)
    return each.name, each.branch or MAIN, each.version, created, updated, dict(each.metadata)


def _tag_line(each: lw.Tag) -> tuple[Any, ...]:
    created, facts = moment(each.created_at), options.shown_facts(each.metadata)
    return each.name, each.branch or MAIN, each.version, created, facts
