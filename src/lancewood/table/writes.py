"""Verbs on a table: add rows, and replace them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

import pyarrow as pa

from lancewood.engine.write import (
    Layout,
    RowsToWrite,
    WriteRequest,
    commit_written,
    rows_to_append,
    rows_to_overwrite,
)
from lancewood.jobs.counts import RowCounts
from lancewood.jobs.job import CommitOptions
from lancewood.jobs.runner import LocalRunner
from lancewood.model.fragment import Fragment
from lancewood.model.transaction import Transaction
from lancewood.table.handle import Handle


class WriteVerbs(Handle):
    """Verbs on a table: append and overwrite."""

    def append(
        self,
        data: Any,
        *,
        merge_schema: bool = False,
        layout: Layout | None = None,
        dry_run: bool = False,
        message: str | None = None,
        commit: CommitOptions | None = None,
    ) -> Self:
        """Add rows. Columns are matched by name; a missing nullable one becomes null.

        With ``merge_schema`` columns, and fields of structs, that only the data has are added to
        the table in the same version; they are nullable, and null in the rows that are there.

        ``layout`` says how large files are, and in which roots of the table. ``counts.inserted`` is
        the number of rows; ``dry_run`` checks all of them and writes nothing, so that a stream is
        read to its end.

        An app and batch in ``commit`` load a batch once: the version also notes it, and a batch
        that is there already, or comes before one that is, is a BatchAppliedError.
        """
        request = WriteRequest.of(
            layout,
            mode="append",
            merge_schema=merge_schema,
        )
        commit_options = CommitOptions.of(commit, message, takes_batch=True)
        self._snapshot.check_new(commit_options.policy.applied)
        rows = rows_to_append(self._snapshot, data, request)
        return self._write(rows, commit_options, dry_run=dry_run)

    def overwrite(
        self,
        data: Any,
        *,
        schema: pa.Schema | None = None,
        merge_schema: bool = False,
        replace_where: str | None = None,
        layout: Layout | None = None,
        dry_run: bool = False,
        message: str | None = None,
        commit: CommitOptions | None = None,
    ) -> Self:
        """Replace schema and rows. Configuration, metadata and base paths stay; older versions too.

        With ``merge_schema`` the columns stay, and those that only the data has are added, as for
        ``append``. With ``replace_where`` the columns and the other rows stay: only rows that meet
        this condition are replaced, in one commit, and a new row that does not meet it is an error.
        ``counts`` says how many rows were deleted and inserted; if there are none there is no new
        version. ``layout``, ``dry_run`` and ``commit`` are as for ``append``.
        """
        request = WriteRequest.of(
            layout,
            mode="overwrite",
            schema=schema,
            merge_schema=merge_schema,
            overwrite_schema=not merge_schema and replace_where is None,
            replace_where=replace_where,
        )
        commit_options = CommitOptions.of(commit, message, takes_batch=True)
        self._snapshot.check_new(commit_options.policy.applied)
        rows = rows_to_overwrite(self._snapshot, data, request)
        return self._write(rows, commit_options, dry_run=dry_run)

    def write_fragments(
        self,
        data: Any,
        *,
        layout: Layout | None = None,
    ) -> tuple[Fragment, ...]:
        """Write rows that a later ``commit`` of an Append will name; nothing is visible yet.

        Fragments pickle, so that other processes can write and one can commit. ``layout`` is as for
        ``append``.
        """
        request = WriteRequest.of(
            layout,
            mode="append",
        )
        rows = rows_to_append(self._snapshot, data, request)
        return rows.files.write(rows.reader)

    def _write(self, rows: RowsToWrite, commit_options: CommitOptions, *, dry_run: bool) -> Self:
        """The handle after rows were written and committed; a dry run only checks them."""
        if dry_run:
            return self._after(self._snapshot, self._checked(rows))
        written = rows.files.write(rows.reader)
        if rows.plan.follows_newest:
            from lancewood.jobs.rows.writing import WrittenRows

            job = WrittenRows(rows.plan, rows.files, written, LocalRunner())
            return self._after(*job.commit(self._snapshot, commit_options))
        operation = rows.plan.operation(rows.files, written)
        transaction = Transaction.new(
            self._snapshot.manifest.version, operation, properties=commit_options.properties
        )
        after = commit_written(self._snapshot, transaction, commit_options.policy)
        inserted = sum(each.physical_rows for each in written)
        return self._after(after, RowCounts(inserted=inserted, fragments=len(written)))

    def _checked(self, rows: RowsToWrite) -> RowCounts:
        """What a write would do. Reads all rows, and of the table what is asked about."""
        inserted, where = rows.check(), rows.plan.request.replace_where
        if where is None:
            return RowCounts(inserted=inserted)
        from lancewood.jobs.rows.delete import DeleteRows

        gone = DeleteRows(where, None, LocalRunner()).plan(self._snapshot)
        return replace(gone, inserted=inserted)
