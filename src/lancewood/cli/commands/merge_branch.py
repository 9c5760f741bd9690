"""``lw table merge-branch`` and ``conflicts``: two branches of a table, put together by rows."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import typer

import lancewood as lw
from lancewood.cli import options
from lancewood.cli.merge_options import ConflictOptions, MergeOptions
from lancewood.cli.paging import paged
from lancewood.cli.showing_conflicts import in_words, note_all
from lancewood.cli.tables import Planned, TableOptions, counts_of, stands
from lancewood.table import MAIN

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
    with write.runner() as runner:
        after = table.branches.merge(name, into, runner=runner, **decide.facts, **write.facts)
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
    facts = asked.facts
    found = given.opened(uri).branches.conflicts(name, into, **facts)
    with paged(given.output, is_text=asked.kind is None):
        count = asked.show(found, given.output)
    asked.note_stale([found], facts["resolve"])
    asked.end([count])
