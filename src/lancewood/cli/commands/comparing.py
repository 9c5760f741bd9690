"""``lw table diff``, ``changes`` and ``blame``, and ``lw diff`` and ``blame``: which rows and cells
differ between versions or commits, and who brought them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import pyarrow as pa
import typer

import lancewood as lw
from lancewood.cli import options
from lancewood.cli.file_options import ToStdout, check_safe
from lancewood.cli.output import counted, paged, picked
from lancewood.cli.repository import REVISIONS, InRepository, Revision, change_facts, stat_lines
from lancewood.cli.showing import BlameOptions, DiffOptions, ShownDiff, print_rows, write_rows
from lancewood.cli.tables import BranchOptions, Reading
from lancewood.errors import InvalidInputError, NotFoundError
from lancewood.files.sinks import STDOUT
from lancewood.table import CHANGE, Changes, diff

if TYPE_CHECKING:
    from lancewood.repo import Repository
    from lancewood.table import Diff


def table_diff_command(
    uri: options.UriOrName,
    a: Annotated[
        str,
        typer.Argument(
            metavar="A",
            help="The earlier revision: number, tag, branch, branch:number; or another table.",
        ),
    ],
    b: Annotated[
        str | None, typer.Argument(metavar="B", help="The later one; the newest version without.")
    ] = None,
    *,
    asked: DiffOptions,
    given: BranchOptions,
) -> None:
    """Show which rows and cells differ between two revisions.

    They may be on any branches. + is a row that B has and A has not, - the other way round, ~ one
    that both have with other values. Files that were rewritten, new, renamed and cast columns are
    no changes of rows. Rows are known by their stable ids; those that were written anew by --on, or
    by the primary key. Where A is another table, that is the later one, and all rows are known by
    key.

    JSON lines with keys: _change, _rowid, _columns, before, after; with --cells _rowid, the key,
    column, before and after as JSON texts. With --stat one document with uri, from, to, inserted,
    updated, deleted, unchanged, cells and columns.
    """
    asked.check(as_json=given.json)
    table = given.to_compare(uri)
    try:
        one = given.compared(uri, table, a)
    except (NotFoundError, InvalidInputError):
        another: lw.Table | None = None
        with suppress(NotFoundError, InvalidInputError):
            another = given.newest(a) if b is None else None
        if another is None:  # a table was not meant either
            raise
        one, other = table, another
        about = {"uri": table.uri, "from": table.version, "to": a}
    else:
        other = table if b is None else given.compared(uri, table, b)
        about = {"uri": table.uri, "from": a, "to": b or table.version}
    found = diff(one, other, **asked.arguments)
    output = given.output
    with paged(output, is_text=asked.format is None):
        shown = asked.show(found, output, about)
    asked.end(each.is_different for each in [shown])


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
        known = picked(changes.counts, "inserted", "updated", "deleted")
        document = {"uri": table.uri, **picked(changes, "since", "until"), **known}
        given.output.document(document, _summary(changes))
        return
    known_schema = changes.schema
    names = [CHANGE, *(each for each in known_schema.names if each != CHANGE)]
    schema = pa.schema([known_schema.field(each) for each in names], known_schema.metadata)
    batches = (each.select(names) for each in changes.to_batches())
    if format is None:
        print_rows(names, batches, given.output_of_rows(full=full))
        given.note(_summary(changes))
        return
    write_rows(STDOUT, format, schema, batches, safe=safe)


def _summary(changes: Changes) -> str:
    found = changes.counts
    return (
        f"{counted(found.inserted, 'row')} inserted, {found.updated:,} updated, "
        f"{found.deleted:,} deleted since version {changes.since} until {changes.until}"
    )


def table_blame_command(uri: options.UriOrName, *, asked: BlameOptions, read: Reading) -> None:
    """Show which version wrote each row or cell.

    Values count: what was written again, compacted, or got another column did not change. A line
    has the branch and the version, the operation and its moment, and the row: its primary key, or
    else its first columns. ^ says that versions that had to be read were cleaned up: then it is the
    version that the row is marked with.

    JSON lines with keys: _rowid, _inserted, _changed; and one for each column that is shown.
    _inserted and _changed have version, branch, time, operation, message, and _changed has exact.
    With --cells _column, _value and _written instead of these two.
    """
    table, output = read.table(uri), read.output
    with paged(output, is_text=asked.format is None):
        asked.show(table.blame, table.schema, output)


_KEYS = (
    *("table", "change", "rows", "rows_before", "fragments", "fragments_before"),
    *("inserted", "updated", "deleted", "exact", "same_rows", "unrelated"),
    *("added_columns", "removed_columns", "renamed_columns"),
    *("added_indices", "removed_indices", "changed_indices"),
)
_NOTHING = "no table differs"


def diff_command(
    before: Annotated[
        str,
        typer.Argument(
            metavar="[BEFORE]",
            help=f"A commit: {REVISIONS}; or both as A..B, or A...B for B since the merge base.",
        ),
    ] = "HEAD",
    after: Annotated[
        str | None,
        typer.Argument(
            metavar="[AFTER]", help="Another one; the tables as they stand if left out."
        ),
    ] = None,
    table: Annotated[
        str | None, typer.Option("--table", metavar="NAME", help="Only this table.")
    ] = None,
    rows: Annotated[
        bool, typer.Option("--rows", help="Show the rows that differ, with both values.")
    ] = False,
    *,
    asked: DiffOptions,
    here: InRepository,
) -> None:
    """Show which tables differ between two commits, and with --rows which rows and cells.

    Without AFTER the tables of the current branch as they stand are compared. Without --rows it is
    a summary as that of git diff --stat: rows are counted by what became of them, and where more
    than 16 MiB would have to be read to tell which were updated, it says at most how many. With
    --rows it is lw table diff for every table that differs, --limit is for each of them, and
    --format is for one --table.

    JSON lines with keys: table, change, rows, rows_before, fragments, fragments_before, inserted,
    updated, deleted, exact, same_rows, unrelated, added_columns, removed_columns, renamed_columns,
    added_indices, removed_indices, changed_indices. Counts that are not known are null; exact is
    false where updated is at most so many; same_rows is true where a small table was written over
    by what it held, unrelated where both commits have a table of this name and no history that
    they share; indices are names with kinds. With --rows there is table, and then what lw table
    diff prints, for --cells too; with --rows --stat there are table, change, inserted, updated,
    deleted, unchanged, cells and columns.
    """
    is_range = ".." in before
    if is_range and after is not None:
        raise typer.BadParameter(f"{before} names both sides: leave {after} out")
    if asked.about_rows and not rows:
        raise typer.BadParameter(f"{asked.about_rows[0]} is for rows: say --rows as well")
    if asked.format is not None and table is None:
        raise typer.BadParameter("--format writes one file: say which --table it is for")
    asked.check(as_json=here.json)
    sides = before, "HEAD" if is_range else after
    with here.repository() as repo, _tables_told(repo, sides):
        if not rows:
            changes = repo.diff(*sides, table=table)
            if here.json:
                here.output.rows(_KEYS, (tuple(change_facts(each).values()) for each in changes))
            for line in () if here.json else stat_lines(changes):
                print(line)
            if not changes:
                here.note(_NOTHING)
            asked.end(each.kind != "moved" for each in changes)
            return
        diffs: Any = repo.diff(*sides, table=table, rows=True, **asked.arguments)
        found: dict[str, Diff] = diffs if table is None else {table: diffs}
        output, shown = here.output, list[ShownDiff]()
        with paged(output, is_text=asked.format is None):
            for name, each in found.items():
                about = {"table": name, "change": each.kind}
                title = name if table is None or here.json else None
                shown.append(asked.show(each, output, about, title))
        if not found:
            here.note(_NOTHING)
        asked.end(each.is_different for each in shown)


@contextmanager
def _tables_told(repo: Repository, sides: Iterable[str | None]) -> Iterator[None]:
    """Tell how to ask for a table if somebody names it as a revision."""
    try:
        yield
    except NotFoundError as missing:
        named = next((each for each in sides if each in repo.tables), None)
        if named is not None:
            missing.add_note(f"lw diff --table {named} compares the table")
        raise


def blame_command(
    table: Annotated[str, typer.Argument(metavar="TABLE", help="The name of the table.")],
    revision: Revision = "HEAD",
    *,
    asked: BlameOptions,
    here: InRepository,
) -> None:
    """Show which commit brought each row or cell.

    Values count: what was written again, compacted, or got another column did not change. A line
    has the commit, its author and moment, and the row: its primary key, or else its first columns.
    ^ says that versions that had to be read were cleaned up: then it is the commit of the version
    that the row is marked with.

    JSON lines with keys: _rowid, _inserted, _changed; and one for each column that is shown.
    _inserted and _changed have version, branch, time, operation, message, commit, author, email,
    commit_time, commit_message, and _changed has exact. With --cells _column, _value and _written
    instead of these two.
    """
    output = here.output
    with here.repository() as repo, paged(output, is_text=asked.format is None):
        schema = repo.at(revision).table(table).schema
        asked.show(partial(repo.blame, table, revision=revision), schema, output)
