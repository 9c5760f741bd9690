"""Verbs on a table: delete and update rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from lancewood.engine.projection import Parameters
from lancewood.jobs.execute import execute
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
