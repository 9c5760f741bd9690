"""``lw table changes``: rows that differ between two versions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import pyarrow as pa
import typer

from lancewood.cli import options
from lancewood.cli.commands.rows import print_rows
from lancewood.cli.file_options import ToStdout, check_safe
from lancewood.cli.output import counted
from lancewood.cli.tables import BranchOptions
from lancewood.files.sinks import STDOUT, writing
from lancewood.table import CHANGE, Changes


def changes_command(
    uri: options.UriOrName,
    since: Annotated[
        str,
        typer.Option(
            "--since",
            metavar="REVISION",
            help="The earlier version: its number, a tag or branch, or a commit of the repository.",
        ),
    ],
    until: Annotated[
        str | None,
        typer.Option(
            "--until", metavar="REVISION", help="The later version, said so; the newest without."
        ),
    ] = None,
    columns: options.Columns = None,
    count: Annotated[bool, typer.Option("--count", help="Only how many rows of each.")] = False,
    format: ToStdout = None,
    safe: options.Safe = False,
    full: options.Full = False,
    *,
    given: BranchOptions,
) -> None:
    """Show rows that were inserted, updated or deleted in between.

    A deleted row is shown with the values that it had, an updated one with those that it has. New
    columns, renamed ones and compaction are no changes of rows. Needs stable row ids.

    JSON lines with keys: _change, _rowid; then one for each column. With --count one document with
    uri, since, until, inserted, updated and deleted.
    """
    if format is not None and (given.json or count):
        raise typer.BadParameter("--format stands alone, without --json and --count")
    check_safe(safe, format)
    table = given.to_compare(uri)
    first, last = (
        None if each is None else given.compared_version(uri, table, each)
        for each in (since, until)
    )
    assert first is not None
    changes = table.changes(first, last, columns=options.names(columns))
    if count:
        found = changes.counts
        known = {"inserted": found.inserted, "updated": found.updated, "deleted": found.deleted}
        document = {"uri": table.uri, "since": changes.since, "until": changes.until, **known}
        given.output.document(document, _summary(changes))
        return
    shown = _ChangeFirst(changes)
    if format is None:
        print_rows(shown, given.output_of_rows(full=full))
        given.note(_summary(changes))
        return
    with writing(STDOUT, format, shown.schema, force=False, safe=safe) as sink:
        for batch in shown.to_batches():
            sink.write(batch)


class _ChangeFirst:
    """Changes with the word for what became of a row in front."""

    def __init__(self, changes: Changes) -> None:
        self._changes = changes

    @property
    def schema(self) -> pa.Schema:
        known = self._changes.schema
        return pa.schema([known.field(each) for each in self._names()], known.metadata)

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        for each in self._changes.to_batches():
            yield each.select(self._names())

    def _names(self) -> list[str]:
        return [CHANGE, *(each for each in self._changes.schema.names if each != CHANGE)]


def _summary(changes: Changes) -> str:
    found = changes.counts
    return (
        f"{counted(found.inserted, 'row')} inserted, {found.updated:,} updated, "
        f"{found.deleted:,} deleted since version {changes.since} until {changes.until}"
    )
