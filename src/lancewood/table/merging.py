"""Verbs on a table: merge rows by key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

from lancewood.engine.projection import Parameters
from lancewood.jobs.execute import execute
from lancewood.jobs.merging.merge import MergeRows
from lancewood.jobs.merging.source import Choices, Matched, NotMatched, NotMatchedBySource
from lancewood.jobs.rows.updating import Rewriting
from lancewood.jobs.runner import Runner
from lancewood.table.handle import Handle, runner_or_threads, terms


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
