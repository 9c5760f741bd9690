"""``lw table merge``: rows of files into a table, by key."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import typer

import lancewood as lw
from lancewood.cli import file_options, options
from lancewood.cli.output import UNCHANGED, Output
from lancewood.cli.progress import reading_rows, task_bars
from lancewood.cli.tables import Branch, counts_of, table_to_write


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
    files: file_options.Files,
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
    format: file_options.Format = None,
    cast: file_options.Casts = None,
    delimiter: file_options.Delimiter = None,
    header: file_options.Header = True,
    names: file_options.Names = None,
    null_value: file_options.NullValues = None,
    dry_run: options.DryRun = False,
    message: options.Message = None,
    properties: options.Properties = None,
    branch: Branch = None,
    storage_option: options.StorageOptions = None,
    unsafe: options.Unsafe = False,
    json: options.Json = False,
) -> None:
    """Insert, update and delete rows by key, from files.

    Files are read as by import, with the types of the table; the rows of all of them are held in
    memory. A file with some of the columns changes only those. Two rows with one key are an error.

    JSON keys: uri, version, dry_run, inserted, updated, deleted, unchanged.
    """
    facts = options.commit_facts(message, properties)
    csv = file_options.csv_options(delimiter, header, names, null_value)
    table = table_to_write(uri, storage_option, branch, unsafe=unsafe)
    sources = file_options.sources(files, format, cast, table.schema, csv)
    chosen: dict[str, Any] = {
        "on": options.names(on),
        "matched": matched.value,
        "not_matched": not_matched.value,
        "not_matched_by_source": not_matched_by_source.value,
        "matched_where": matched_where,
        "rewrite": rewrite.value,
    }
    with task_bars(wanted=not json) as tell:
        runner = lw.LocalRunner(progress=tell)
        rows = sources.reader(reading_rows(tell, sources.total_rows))
        table = table.merge(rows, dry_run=dry_run, runner=runner, **chosen, **facts)
    counts = counts_of(table, lw.RowCounts)
    known = {
        "inserted": counts.inserted,
        "updated": counts.updated,
        "deleted": counts.deleted,
        "unchanged": counts.unchanged,
    }
    told = ", ".join(f"{number:,} {what}" for what, number in known.items())
    told = f"{told}: {table.uri}, version {table.version}"
    document = {"uri": table.uri, "version": table.version, "dry_run": dry_run, **known}
    Output(as_json=json).document(document, f"would be {told}; {UNCHANGED}" if dry_run else told)
