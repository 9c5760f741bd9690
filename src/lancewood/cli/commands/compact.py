"""``lw table compact``: fewer fragments, without deleted rows."""

from __future__ import annotations

from typing import Annotated

import typer

import lancewood as lw
from lancewood.cli import options
from lancewood.cli.output import counted, note
from lancewood.cli.tables import PlannedWriting, counts_of, stands, stays
from lancewood.table import FileLimits


def compact_command(
    uri: options.Uri,
    target_rows: Annotated[
        int,
        typer.Option(
            "--target-rows", metavar="N", min=1, help="Fragments with fewer rows are joined."
        ),
    ] = FileLimits().max_rows,
    max_deleted: Annotated[
        float,
        typer.Option(
            "--max-deleted",
            metavar="SHARE",
            min=0,
            max=1,
            help="A fragment of which more is deleted is written anew.",
        ),
    ] = 0.1,
    *,
    write: PlannedWriting,
) -> None:
    """Join small fragments and leave out deleted rows.

    Rows keep their order, and their ids where those are stable. Others may write meanwhile. Older
    versions keep their files until cleanup removes them. Indices that name rows by where they are
    (BTREE, ZONEMAP and BLOOMFILTER; all without stable row ids) no longer cover what was rewritten.

    JSON keys: uri, version, branch, dry_run, fragments_removed, fragments_added, files_removed,
    files_added, uncovered_indices, uncovered_rows, blocking_indices.
    """
    table = write.table(uri)
    with write.runner() as runner:
        table = table.compact(
            target_rows=target_rows, max_deleted=max_deleted, runner=runner, **write.facts
        )
    counts = counts_of(table, lw.CompactionCounts)
    text = f"nothing would be gained; {stays(table)}"
    if counts.fragments_removed:
        old = f"{counted(counts.fragments_removed, 'fragment')} of {counts.files_removed:,} files"
        new = f"{counts.fragments_added:,} of {counts.files_added:,}"
        text = write.outcome("replace", "replaced", f"{old} by {new} in {stands(table)}")
    write.answer(
        table,
        text,
        fragments_removed=counts.fragments_removed,
        fragments_added=counts.fragments_added,
        files_removed=counts.files_removed,
        files_added=counts.files_added,
        uncovered_indices=list(counts.uncovered_indices),
        uncovered_rows=counts.uncovered_rows,
        blocking_indices=list(counts.blocking_indices),
    )
    if counts.blocking_indices:
        note(
            f"small fragments stay apart because indices {', '.join(counts.blocking_indices)} "
            f"cover them in several segments, or not all: lw table index optimize {table.uri} "
            "(Table.indices.optimize()), and compact again"
        )
    if counts.uncovered_indices:
        cover = "would no longer cover" if write.dry_run else "no longer cover"
        rows = counted(counts.uncovered_rows, "row")
        names = ", ".join(counts.uncovered_indices)
        note(f"indices {names} {cover} {rows}: lw table index extend {table.uri}")
