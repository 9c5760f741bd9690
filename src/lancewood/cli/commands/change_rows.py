"""``lw table delete`` and ``lw table update``: changing the rows that a condition selects.

A dry run counts these rows and their fragments. It reads only the columns of the condition.
"""

from __future__ import annotations

from typing import Annotated

import typer

import lancewood as lw
from lancewood.cli import options
from lancewood.cli.output import UNCHANGED, counted
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
