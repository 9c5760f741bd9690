"""``lw table branch``: other histories of a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

import lancewood as lw
from lancewood.cli import options
from lancewood.cli import options as ref_options
from lancewood.cli.options import LIST, NEW, check_fits, chosen_verb, confirm, iso, one, two
from lancewood.cli.output import Output, moment
from lancewood.cli.progress import task_runner
from lancewood.cli.tables import NEWEST, Revision, opened_table, with_revision_to
from lancewood.table import MAIN

_DELETE, _RENAME, _RESET = "--delete", "--rename", "--reset"
_KEYS = ("name", "parent", "parent_version", "created", "metadata")


@with_revision_to("Begin at")
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
    pattern: ref_options.Pattern = None,
    revision: Revision = NEWEST,
    metadata: ref_options.Metadata = None,
    storage_option: options.StorageOptions = None,
    unsafe: options.Unsafe = False,
    json: options.Json = False,
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
    begin = revision if verb == NEW else NEWEST
    table = opened_table(uri, storage_option, begin, unsafe=unsafe)
    branches = _Branches(table, Output(as_json=json))
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
    """The branches of one table, and where is told what becomes of them."""

    def __init__(self, table: lw.Table, output: Output) -> None:
        self._table = table
        self._from = table.branch or MAIN
        self._uri = table.main_uri
        self._output = output

    def show(self, pattern: str | None) -> None:
        found = ref_options.matching(self._table.branches.list(), pattern)
        if self._output.as_json:
            self._output.rows(_KEYS, map(_facts, found))
        else:
            columns = ("branch", "from", "version", "created", "metadata")
            self._output.rows(columns, map(_line, found))

    def make(self, name: str, metadata: Mapping[str, str]) -> None:
        version = self._table.branches.create(name, metadata=metadata).version
        told = f"made branch {name} of version {version} of {self._from} in {self._uri}"
        self._tell("created", name, version, told)

    def delete(self, names: Sequence[str], *, force: bool, yes: bool) -> None:
        if not force:
            for each in names:
                self._table.branches.get(each)
        about = f"{', '.join(names)} of {self._uri}: all versions go, also what was not published."
        confirm("Delete for good?", about, yes=yes, json=self._output.as_json)
        for each in names:
            self._table.branches.delete(each, force=force)
            self._tell("deleted", each, None, f"deleted branch {each} of {self._uri}")

    def rename(self, old: str, new: str) -> None:
        with task_runner(wanted=not self._output.as_json) as runner:
            version = self._table.branches.rename(old, new, runner=runner).version
        told = f"renamed branch {old} of {self._uri} to {new}"
        self._tell("renamed", new, version, told, renamed_from=old)

    def reset(self, name: str, revision: Revision, *, force: bool) -> None:
        version = self._table.branches.reset(name, revision.on_branch(), force=force).version
        found = self._table.branches.get(name)
        parent = found.parent_branch or MAIN
        told = f"branch {name} of {self._uri} begins anew as version {found.parent_version} of "
        self._tell("reset", name, version, f"{told}{parent}, with its version {version}")

    def _tell(self, action: str, name: str, version: int | None, told: str, **more: str) -> None:
        document = {"action": action, "uri": self._uri, "branch": name, "version": version}
        self._output.document({**document, **more}, told)


def _facts(each: lw.Branch) -> tuple[Any, ...]:
    parent = each.parent_branch or MAIN
    return each.name, parent, each.parent_version, iso(each.created_at), dict(each.metadata)


def _line(each: lw.Branch) -> tuple[Any, ...]:
    parent, facts = each.parent_branch or MAIN, ref_options.told_facts(each.metadata)
    return each.name, parent, each.parent_version, moment(each.created_at), facts
