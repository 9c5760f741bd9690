"""``lw table delete``, ``update`` and ``merge``: rows that a condition selects, or a key."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import typer

import lancewood as lw
from lancewood.cli import options
from lancewood.cli.file_options import FileOptions, Files
from lancewood.cli.output import UNCHANGED, counted
from lancewood.cli.progress import reading_rows, task_bars
from lancewood.cli.tables import PlannedWriting, counts_of, stands, stays


def delete_command(
    uri: options.Uri,
    where: options.Where = None,
    yes: options.Yes = False,
    *,
    write: PlannedWriting,
) -> None:
    """Delete rows.

    Those for which --where is true; without it all of them, after a question. Older versions keep
    them.

    JSON keys: uri, version, branch, dry_run, deleted. A dry run adds fragments, in which the rows
    are.
    """
    table = write.table(uri)
    if where is None and not write.dry_run:
        rows = counted(table.count_rows(), "row")
        about = f"{stands(table)}, has {rows}, and there is no --where."
        write.confirm("Delete all of them?", about, yes=yes)
    with write.runner() as runner:
        after = table.delete("true" if where is None else where, runner=runner, **write.facts)
    _tell(write, "delete", after, counts_of(after, lw.RowCounts).deleted)


def update_command(
    uri: options.Uri,
    set: Annotated[
        list[str],
        typer.Option(
            "--set",
            metavar="NAME=SQL",
            help="A column and its new value, in which columns have their old values: "
            '"size=size + 1", "name=\'x\'". May be repeated.',
        ),
    ],
    where: options.Where = None,
    rewrite: options.Rewrite = options.WrittenAnew.AUTO,
    *,
    write: PlannedWriting,
) -> None:
    """Change values of rows.

    Of those for which --where is true, or of all. Rows keep their ids.

    JSON keys: uri, version, branch, dry_run, updated. A dry run adds fragments, in which the rows
    are.
    """
    values = options.expressions(set, "--set")
    table = write.table(uri)
    with write.runner() as runner:
        after = table.update(values, where, rewrite=rewrite.value, runner=runner, **write.facts)
    _tell(write, "update", after, counts_of(after, lw.RowCounts).updated)


def _tell(write: PlannedWriting, verb: str, after: lw.Table, rows: int) -> None:
    known = {f"{verb}d": rows}
    text = f"{verb}d {counted(rows, 'row')} of {stands(after)}"
    if write.dry_run:
        fragments = known["fragments"] = counts_of(after, lw.RowCounts).fragments
        text = (
            f"would {verb} {counted(rows, 'row')} in {counted(fragments, 'fragment')} of "
            f"{stands(after)}; {UNCHANGED}"
        )
    elif not rows:
        text = f"no row matched; {stays(after)}"
    write.answer(after, text, **known)


class Matched(StrEnum):
    """What becomes of rows of the table whose key is in the files."""

    UPDATE = "update"
    IGNORE = "ignore"
    DELETE = "delete"


class NotMatched(StrEnum):
    """What becomes of rows of the files whose key is not in the table."""

    INSERT = "insert"
    IGNORE = "ignore"


class NotMatchedBySource(StrEnum):
    """What becomes of rows of the table whose key is not in the files."""

    KEEP = "keep"
    DELETE = "delete"


def merge_command(
    uri: options.Uri,
    paths: Files,
    on: Annotated[
        list[str] | None,
        typer.Option(
            "--on",
            metavar="A,B",
            help="The columns that make the key; without it the table's own primary key.",
        ),
    ] = None,
    matched: Annotated[
        Matched, typer.Option("--matched", help="Rows of the table whose key is in the files.")
    ] = Matched.UPDATE,
    not_matched: Annotated[
        NotMatched, typer.Option("--not-matched", help="Rows of the files whose key is new.")
    ] = NotMatched.INSERT,
    not_matched_by_source: Annotated[
        NotMatchedBySource,
        typer.Option(
            "--not-matched-by-source", help="Rows of the table whose key is not in the files."
        ),
    ] = NotMatchedBySource.KEEP,
    matched_where: Annotated[
        str | None,
        typer.Option(
            "--matched-where",
            metavar="SQL",
            help="Change a matched row only if this is true: 'source.time > target.time'.",
        ),
    ] = None,
    rewrite: options.Rewrite = options.WrittenAnew.AUTO,
    *,
    files: FileOptions,
    write: PlannedWriting,
) -> None:
    """Insert, update and delete rows by key, from files.

    Files are read as by import, with the types of the table; the rows of all of them are held in
    memory. A file with some of the columns changes only those. Two rows with one key are an error.

    JSON keys: uri, version, branch, dry_run, inserted, updated, deleted, unchanged.
    """
    table = write.table(uri)
    sources = files.sources(paths, table.schema)
    chosen: dict[str, Any] = {
        "on": options.names(on),
        "matched": matched.value,
        "not_matched": not_matched.value,
        "not_matched_by_source": not_matched_by_source.value,
        "matched_where": matched_where,
        "rewrite": rewrite.value,
    }
    with task_bars(wanted=not write.json) as tell:
        runner = lw.LocalRunner(progress=tell)
        rows = sources.reader(reading_rows(tell, sources.total_rows))
        table = table.merge(rows, runner=runner, **chosen, **write.facts)
    counts = counts_of(table, lw.RowCounts)
    known = {
        "inserted": counts.inserted,
        "updated": counts.updated,
        "deleted": counts.deleted,
        "unchanged": counts.unchanged,
    }
    text = ", ".join(f"{number:,} {what}" for what, number in known.items())
    text = f"{text}: {stands(table)}"
    write.answer(table, f"would be {text}; {UNCHANGED}" if write.dry_run else text, **known)
