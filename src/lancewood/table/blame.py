"""Verbs on a table: which versions wrote what is there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from lancewood.table.handle import Handle
from lancewood.table.scan import Rows

if TYPE_CHECKING:
    from lancewood.jobs.blame import BlameRows


class Blame(Rows):
    """Rows of a version with the versions that wrote them. Made by ``Table.blame``.

    A row has ``_rowid``, the columns of the primary key and those that were asked for, and two
    structs: ``_inserted``, the version that inserted the row, and ``_changed``, the last one that
    wrote other values. Each has ``version``, ``branch``, ``time``, and of its transaction
    ``operation`` and ``message``; these three are null if the version was cleaned up. By cells,
    there is a row for each cell instead, with ``_column``, ``_value`` as JSON, and ``_written``,
    the version that wrote it. In a repository the structs also have ``commit``, ``author``,
    ``email``, ``commit_time`` and ``commit_message``, of the commit that brought the version.

    ``exact``, in ``_changed`` and ``_written``, is false if versions that had to be read were
    cleaned up: then the version is the one that the row is marked with, and values may be older.

    What is asked for is checked when this is made; rows are read when they are asked for.
    """

    def __init__(self, rows: BlameRows) -> None:
        self._rows = rows

    @property
    def arrow_schema(self) -> pa.Schema:
        """The schema of what comes out."""
        return self._rows.schema

    _row_schema = arrow_schema

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Rows or cells as record batches, in the order of the table, within a bounded memory."""
        return self._rows.batches()

    def count(self) -> int:
        """How many rows or cells there are, without looking who wrote them."""
        return self._rows.count()

    def __repr__(self) -> str:
        head = self._rows.snapshot.manifest
        return f"<Blame of version {head.version} of {self._rows.snapshot.location.uri}>"


class BlameVerbs(Handle):
    """Verbs on a table: which versions wrote what is there."""

    def blame(
        self,
        where: str | None = None,
        columns: Sequence[str] | None = None,
        *,
        cells: bool = False,
        show: Sequence[str] | None = None,
        limit: int | None = None,
    ) -> Blame:
        """For each row that matches ``where``, or each of its ``cells``, the version that wrote
        what is there.

        Values count: a version that wrote the same values again, compacted files, or added,
        renamed or cast columns did not change a row. A restored row was written by the version
        that first wrote it, and one from before a branch was made by a version of its parent. A
        row that was deleted and inserted again, or overwritten, is a new one.

        ``columns`` are those whose values count; they are shown, too, as are the primary key and
        the columns in ``show``. ``limit`` is a number of rows. What is read grows with the number
        of versions that wrote the rows, and not with that of all versions.

        Raises InvalidInputError for a wrong ``where`` and unknown columns, and UnsupportedError
        for a table without stable row ids.
        """
        from lancewood.jobs.blame import BlameRows

        return Blame(
            BlameRows.asked(
                self._snapshot, where=where, columns=columns, show=show, cells=cells, limit=limit
            )
        )
