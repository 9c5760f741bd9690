"""``lw table branch``, ``merge-branch``, ``conflicts`` and ``publish``: other histories of a table,
and what they bring to each other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, TypeAlias

import typer

import lancewood as lw
from lancewood.cli import options
from lancewood.cli.merge_options import ConflictOptions, MergeOptions
from lancewood.cli.options import LIST, NEW, check_fits, chosen_verb, iso, one, two
from lancewood.cli.output import moment, paged
from lancewood.cli.showing import in_words, note_all
from lancewood.cli.tables import (
    NEWEST,
    Changing,
    Planned,
    Revision,
    TableOptions,
    counts_of,
    stands,
)
from lancewood.table import MAIN

_DELETE, _RENAME, _RESET = "--delete", "--rename", "--reset"
_KEYS = ("name", "parent", "parent_version", "created", "metadata")


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
        self._change.output.listing(found, (_KEYS, _facts), (columns, _line))

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


def _facts(each: lw.Branch) -> tuple[Any, ...]:
    parent = each.parent_branch or MAIN
    return each.name, parent, each.parent_version, iso(each.created_at), dict(each.metadata)


def _line(each: lw.Branch) -> tuple[Any, ...]:
    parent, facts = each.parent_branch or MAIN, options.shown_facts(each.metadata)
    return each.name, parent, each.parent_version, moment(each.created_at), facts


Name: TypeAlias = Annotated[
    str, typer.Argument(metavar="BRANCH", help="The branch whose work is merged.")
]
Into: TypeAlias = Annotated[
    str | None,
    typer.Option("--into", metavar="NAME", help="The branch that gets it; as in URI@NAME."),
]


def merge_branch_command(
    uri: options.Uri,
    name: Name,
    into: Into = None,
    *,
    decide: MergeOptions,
    write: Planned,
) -> None:
    """Merge the work on a branch into another one, by rows.

    Any branch goes into any other, as often as you like, as one version. Different rows, and
    different cells of one row, are put together. Where both changed the same cell, or one deleted
    what the other changed, the command ends with 16 and nothing has changed: conflicts shows them,
    and the options decide them, the first that says something about one. The branch stays as it is.

    JSON keys: uri, version, branch, dry_run, branch_version, into, bases, merged, fast_forward,
    inserted, updated, deleted, rewritten, joined, resolved, stale, adopted_files, written_rows,
    uncovered_indices, left_out_indices.
    """
    table = write.to_write(uri, is_main_meant=into is not None)
    facts = decide.facts(lambda rules: {uri: table.branches.conflicts(name, into, resolve=rules)})
    with write.runner() as runner:
        after = table.branches.merge(name, into, runner=runner, **facts, **write.facts)
    counts, target = counts_of(after, lw.Merged), after.branch or MAIN
    text = f"{target} has all of {name} already: {stands(after)}"
    if counts.is_new:
        came = "as it is" if counts.is_fast_forward else in_words(counts)
        what = f"version {counts.branch_version} of {name} into {target}: {came}"
        text = write.outcome("merge", "merged", f"{what}; {stands(after)}")
    write.answer(
        after,
        text,
        branch=counts.branch,
        branch_version=counts.branch_version,
        into=target,
        bases=list(counts.bases),
        merged=counts.is_new,
        fast_forward=counts.is_fast_forward,
        inserted=counts.inserted,
        updated=counts.updated,
        deleted=counts.deleted,
        rewritten=counts.rewritten,
        joined=counts.joined,
        resolved=counts.resolved,
        stale=counts.stale,
        adopted_files=counts.adopted_files,
        written_rows=counts.written_rows,
        uncovered_indices=list(counts.uncovered_indices),
        left_out_indices=list(counts.left_out_indices),
    )
    note_all(counts.notes)


def conflicts_command(
    uri: options.Uri,
    name: Name,
    into: Into = None,
    *,
    asked: ConflictOptions,
    given: TableOptions,
) -> None:
    """Show the rows that a merge of a branch would leave to decide.

    One line for each cell that both sides changed, with its value in the base, here and on the
    branch. Nothing is changed. With options that decide conflicts, those that are left. Columns in
    conflict are shown instead of rows, until --schema decides them.

    JSON lines with keys: _conflict, _kind, _rowid, _columns, base, ours, theirs; where there is a
    primary key it is key, before base. Of columns column, kind, ours, theirs; with -o one document
    with file, format, conflicts.
    """
    asked.check(as_json=given.json)
    branches = given.opened(uri).branches
    facts = asked.facts(lambda rules: {uri: branches.conflicts(name, into, resolve=rules)})
    found = branches.conflicts(name, into, **facts)
    with paged(given.output, is_text=asked.kind is None):
        count = asked.show(found, given.output)
    asked.note_stale([found], facts["resolve"])
    asked.end([count])


def publish_command(
    uri: options.Uri,
    name: Annotated[
        str | None,
        typer.Argument(metavar="BRANCH", help="The branch to publish; as in URI@BRANCH."),
    ] = None,
    onto: Annotated[
        str | None,
        typer.Option("--onto", metavar="NAME", help="Make sure that this is the branch's parent."),
    ] = None,
    by_reference: Annotated[
        bool,
        typer.Option(
            "--by-reference",
            help="Leave files below the branch where they are; a tag then keeps the branch.",
        ),
    ] = False,
    *,
    write: Planned,
) -> None:
    """Bring the work on a branch to the branch it was made from.

    It becomes one version there, beside whatever others did meanwhile; where the two do not go
    together it is refused, and nothing has changed. The branch is closed afterwards: branch --reset
    opens it again, and branch --delete removes it. If it is cut off, run it again. --dry-run tells
    whether it would be refused.

    JSON keys: uri, version, branch, dry_run, branch_version, onto, published, fast_forward,
    adopted_files, left_out_indices.
    """
    table = write.to_write(uri, is_main_meant=name is not None)
    name = table.branch if name is None else name
    if name is None:
        raise typer.BadParameter("say which branch: BRANCH, or URI@BRANCH")
    with write.runner() as runner:
        after = table.branches.publish(
            name, onto, adopt=not by_reference, runner=runner, **write.facts
        )
    counts, target = counts_of(after, lw.Published), after.branch or MAIN
    text = f"{target} has all of {name} already: {stands(after)}"
    if counts.is_new:
        how = "as it is" if counts.is_fast_forward else "beside what others did"
        what = f"version {counts.branch_version} of {name} onto {target}, {how}: {stands(after)}"
        text = write.outcome("publish", "published", what)
    left = list(counts.left_out_indices)
    write.answer(
        after,
        text,
        branch=counts.branch,
        branch_version=counts.branch_version,
        onto=target,
        published=counts.is_new,
        fast_forward=counts.is_fast_forward,
        adopted_files=counts.adopted_files,
        left_out_indices=left,
    )
    note_all(counts.notes)
