"""``lw table blame``: which version wrote what is in a table."""

from __future__ import annotations

from lancewood.cli import options
from lancewood.cli.paging import paged
from lancewood.cli.showing_blames import BlameOptions
from lancewood.cli.tables import Reading


def blame_command(uri: options.UriOrName, *, asked: BlameOptions, read: Reading) -> None:
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
