"""``lw diff`` and ``lw blame``: which tables, rows and cells differ between commits, and which
commit brought them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from lancewood.cli.diff_options import DiffOptions
from lancewood.cli.output import paged
from lancewood.cli.repository.names import InRepository
from lancewood.cli.repository.showing import REVISIONS, Revision, change_facts, stat_lines
from lancewood.cli.showing import BlameOptions
from lancewood.errors import NotFoundError

if TYPE_CHECKING:
    from lancewood.cli.showing import ShownDiff
    from lancewood.repo import Repository, TableChange
    from lancewood.table import Diff


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
        if rows:
            found = _rows(repo, sides, table, asked)
            asked.end(each.is_different for each in _show_rows(found, here, table, asked))
        else:
            changes = repo.diff(*sides, table=table)
            _show_tables(changes, here)
            asked.end(each.kind != "moved" for each in changes)


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


def _rows(
    repo: Repository, sides: tuple[str, str | None], table: str | None, asked: DiffOptions
) -> dict[str, Diff]:
    if table is not None:
        return {table: repo.diff(*sides, table=table, rows=True, **asked.arguments)}
    found: dict[str, Diff] = repo.diff(*sides, rows=True, **asked.arguments)
    return found


def _show_tables(changes: Sequence[TableChange], here: InRepository) -> None:
    if here.json:
        here.output.rows(_KEYS, (tuple(change_facts(each).values()) for each in changes))
    for line in () if here.json else stat_lines(changes):
        print(line)
    if not changes:
        here.note(_NOTHING)


def _show_rows(
    found: Mapping[str, Diff], here: InRepository, table: str | None, asked: DiffOptions
) -> list[ShownDiff]:
    output, shown = here.output, []
    with paged(output, is_text=asked.format is None):
        for name, each in found.items():
            about = {"table": name, "change": each.kind}
            title = name if table is None or here.json else None
            shown.append(asked.show(each, output, about, title))
    if not found:
        here.note(_NOTHING)
    return shown


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
