"""Verbs on a table: delete and update rows.

Verbs on a table: merge rows by key.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

from lancewood.engine.schema import Parameters
from lancewood.jobs.job import execute
from lancewood.jobs.merging.merge import MergeRows
from lancewood.jobs.merging.source import Choices, Matched, NotMatched, NotMatchedBySource
from lancewood.jobs.rows.delete import DeleteRows
from lancewood.jobs.rows.update import UpdateRows
from lancewood.jobs.rows.updating import Rewriting
from lancewood.jobs.runner import Runner
from lancewood.table.handle import Handle, runner_or_threads, terms


class RowVerbs(Handle):
    """Verbs on a table: delete and update rows."""

    def delete(
        self,
        where: str,
        *,
        parameters: Parameters = None,
        message: str | None = None,
        properties: Mapping[str, str] | None = None,
        runner: Runner | None = None,
        serializable: bool = False,
        app: str | None = None,
        batch: int | None = None,
    ) -> Self:
        """Delete the rows for which a condition is true, not those for which it is null.

        The columns of the condition are read, in fragments that can match; data files stay as they
        are. ``"true"`` removes every row without reading. ``parameters`` fill in ``:name`` or
        ``?``. ``counts.deleted`` says how many rows went; if none did there is no new version.

        ``app`` and ``batch`` are as for ``append``.
        """
        job = DeleteRows(where, parameters, runner_or_threads(runner))
        after, counts = execute(
            self._snapshot,
            job.prepare,
            terms(message, properties, serializable=serializable, app=app, batch=batch),
        )
        return self._after(after, counts)

    def update(
        self,
        set: Mapping[str, Any],
        where: str | None = None,
        *,
        parameters: Parameters = None,
        rewrite: Rewriting = "auto",
        message: str | None = None,
        properties: Mapping[str, str] | None = None,
        runner: Runner | None = None,
        serializable: bool = False,
        app: str | None = None,
        batch: int | None = None,
    ) -> Self:
        """Give columns new values in the rows for which a condition is true; None is every row.

        A text in ``set`` is an SQL expression over the row's old values (``"score * 2"``,
        ``"'text'"``, ``":name"`` with ``parameters``); any other value is a constant. A dotted name
        sets a field inside a struct: its other fields keep their values, and a struct that is null
        stays null. Values are cast to the column's type; one that does not fit is an error.

        ``rewrite="rows"`` moves the rows, whole, to new fragments, under the same row ids;
        ``"columns"`` writes the columns that are set anew for all rows of every fragment with a
        match, and leaves rows in place. ``"auto"`` takes what writes less: of up to four fragments
        it counts the rows that match, and compares their stored size with that of the columns.
        Blobs that are not set stay where they are. ``counts.updated`` says how many rows were
        updated; if none was there is no new version.

        ``app`` and ``batch`` are as for ``append``.
        """
        job = UpdateRows(set, where, parameters, rewrite, runner_or_threads(runner))
        after, counts = execute(
            self._snapshot,
            job.prepare,
            terms(message, properties, serializable=serializable, app=app, batch=batch),
        )
        return self._after(after, counts)


class MergeVerbs(Handle):
    """Verbs on a table: merge rows by key."""

    def merge(
        self,
        source: Any,
        on: str | Sequence[str] | None = None,
        *,
        matched: Matched = "update",
        not_matched: NotMatched = "insert",
        not_matched_by_source: NotMatchedBySource = "keep",
        matched_where: str | None = None,
        parameters: Parameters = None,
        rewrite: Rewriting = "auto",
        message: str | None = None,
        properties: Mapping[str, str] | None = None,
        runner: Runner | None = None,
        serializable: bool = False,
        app: str | None = None,
        batch: int | None = None,
    ) -> Self:
        """Merge rows of Arrow data by key; ``counts`` of the handle tells what became of rows.

        ``on`` names the columns of the key, dotted for a field of a struct; None takes the
        unenforced primary key of the schema. A row with a null in its key matches none. Two rows
        of the source with the same key are refused; every row of the table with a key is matched,
        if there are several. Rows of the table that match are updated, left (``"ignore"``) or
        deleted; rows of the source that match none are inserted or ignored; rows of the table that
        no row of the source matches are kept or deleted, those with a null in their key included.

        ``matched_where`` is a condition in SQL on a pair of rows, over ``source.x`` and
        ``target.x``; a row of the table that does not meet it stays, and its row of the source is
        not inserted. A source with fewer columns updates only those, and inserts nulls for the
        others. The source is read once and held in memory.

        A row that is updated moves to a new fragment and keeps its row id. Where neither inserts
        nor deletes are to be done and it writes less, as told from the stored widths of a few
        fragments, whole columns are rewritten in place instead; ``rewrite`` forces either way.
        If others commit meanwhile what this rests on, it is done again on the newest version.

        ``app`` and ``batch`` are as for ``append``.
        """
        choices = Choices(
            on=on,
            matched=matched,
            not_matched=not_matched,
            not_matched_by_source=not_matched_by_source,
            matched_where=matched_where,
            parameters=parameters,
            rewrite=rewrite,
        )
        wishes = terms(message, properties, serializable=serializable, app=app, batch=batch)
        job = MergeRows(self._snapshot, source, choices, runner_or_threads(runner))
        after, counts = execute(self._snapshot, job.prepare, wishes)
        return self._after(after, counts)
