"""``lw table tag``: names for versions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

import lancewood as lw
from lancewood.cli import options
from lancewood.cli.options import LIST, NEW, check_fits, chosen_verb, iso, one
from lancewood.cli.output import Output, moment
from lancewood.cli.tables import Changing, Revision
from lancewood.table import MAIN

_DELETE, _UPDATE = "--delete", "--update"
_KEYS = ("name", "branch", "version", "created", "updated", "metadata")


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
        self._output.listing(found, (_KEYS, _facts), (columns, _line))

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


def _facts(each: lw.Tag) -> tuple[Any, ...]:
    created, updated = iso(each.created_at), iso(each.updated_at)
    return each.name, each.branch or MAIN, each.version, created, updated, dict(each.metadata)


def _line(each: lw.Tag) -> tuple[Any, ...]:
    created, facts = moment(each.created_at), options.shown_facts(each.metadata)
    return each.name, each.branch or MAIN, each.version, created, facts
