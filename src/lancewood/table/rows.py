"""Verbs on a table: delete, update and merge rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

from lancewood.engine.schema import Parameters
from lancewood.jobs.job import CommitOptions
from lancewood.jobs.runner import Runner
from lancewood.table.handle import Handle, runner_or_threads

if TYPE_CHECKING:
    from lancewood.jobs.merge_into.addressed import Find
    from lancewood.jobs.merge_into.source import Matched, NotMatched, NotMatchedBySource
    from lancewood.jobs.rows.updating import Rewriting


class RowVerbs(Handle):
    """Verbs on a table: delete and update rows."""

    def delete(
        self,
        where: str,
        *,
        parameters: Parameters = None,
        dry_run: bool = False,
        message: str | None = None,
        commit: CommitOptions | None = None,
        runner: Runner | None = None,
    ) -> Self:
        """Delete the rows for which a condition is true, not those for which it is null.

        Only the columns of the condition are read, in fragments that can match; data files stay as
        they are. ``"true"`` deletes every row without reading. ``parameters`` fill in ``$name`` or
        ``?``. ``counts.deleted`` is the number of rows; if it is 0 there is no new version.
        ``dry_run`` writes nothing: this handle comes back, with ``counts`` of what would be done.

        An app and batch in ``commit`` are as for ``append``.
        """
        from lancewood.jobs.rows.delete import DeleteRows

        job = DeleteRows(where, parameters, runner_or_threads(runner))
        commit_options = CommitOptions.of(commit, message, takes_batch=True)
        return self._run(job, commit_options, dry_run=dry_run)

    def update(
        self,
        set: Mapping[str, Any],
        where: str | None = None,
        *,
        parameters: Parameters = None,
        rewrite: Rewriting = "auto",
        dry_run: bool = False,
        message: str | None = None,
        commit: CommitOptions | None = None,
        runner: Runner | None = None,
    ) -> Self:
        """Set columns in the rows for which a condition is true; ``where=None`` is every row.

        A text in ``set`` is an SQL expression over the row's old values (``"score * 2"``,
        ``"'text'"``, ``"$name"`` with ``parameters``); any other value is a constant. A dotted name
        sets a field inside a struct: its other fields keep their values, and a struct that is null
        stays null. Values are cast to the column's type; one that does not fit is an error.

        ``rewrite="rows"`` moves whole rows to new fragments, under the same row ids. ``"columns"``
        rewrites the set columns for all rows of every fragment with a match, and leaves rows in
        place. ``"auto"`` chooses the way that writes less: it counts the matching rows of up to
        four fragments, and compares their stored size with that of the columns. Blobs that are not
        set stay where they are. ``counts.updated`` is the number of updated rows; if it is 0 there
        is no new version. ``dry_run`` is as for ``delete``.

        An app and batch in ``commit`` are as for ``append``.
        """
        from lancewood.jobs.rows.update import UpdateRows

        job = UpdateRows(set, where, parameters, rewrite, runner_or_threads(runner))
        commit_options = CommitOptions.of(commit, message, takes_batch=True)
        return self._run(job, commit_options, dry_run=dry_run)


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
        dry_run: bool = False,
        message: str | None = None,
        commit: CommitOptions | None = None,
        runner: Runner | None = None,
    ) -> Self:
        """Merge rows of Arrow data by key; ``counts`` of the returned handle counts rows.

        ``on`` names the key columns, dotted for a field of a struct; None is the unenforced primary
        key of the schema. A row with a null in its key never matches. Two source rows with the same
        key are refused; of the table, all rows with the key match. Matching rows of the table are
        updated, left alone (``"ignore"``) or deleted. Source rows without a match are inserted or
        ignored. Rows of the table without a match, including those with a null in their key, are
        kept or deleted.

        ``matched_where`` is an SQL condition on a pair of rows, over ``source.x`` and ``target.x``;
        if it is not true, the row of the table stays and the source row is not inserted. A source
        with fewer columns updates only those, and inserts nulls for the others. The source is read
        once and held in memory.

        An updated row moves to a new fragment and keeps its row id. If there is nothing to insert
        or delete and it writes less, judged by the stored widths of a few fragments, whole columns
        are rewritten in place instead; ``rewrite`` forces either way. After a conflict with another
        commit the merge is repeated on the newest version. ``dry_run`` is as for ``delete``.

        An app and batch in ``commit`` are as for ``append``.
        """
        from lancewood.jobs.merge_into.merge import MergeRows
        from lancewood.jobs.merge_into.source import Choices

        choices = Choices(
            on=on,
            matched=matched,
            not_matched=not_matched,
            not_matched_by_source=not_matched_by_source,
            matched_where=matched_where,
            parameters=parameters,
            rewrite=rewrite,
        )
        commit_options = CommitOptions.of(commit, message, takes_batch=True)
        job = MergeRows(self._snapshot, source, choices, runner_or_threads(runner))
        return self._run(job, commit_options, dry_run=dry_run)

    def _change(
        self,
        find: Find,
        *,
        dry_run: bool = False,
        message: str | None = None,
        runner: Runner | None = None,
    ) -> Self:
        """Change rows that a function finds, by their addresses; for engines of queries."""
        from lancewood.jobs.merge_into.addressed import ChangeRows

        job = ChangeRows(find, runner_or_threads(runner))
        return self._run(job, CommitOptions(message), dry_run=dry_run)
