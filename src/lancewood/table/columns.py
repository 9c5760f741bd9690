"""Verbs on a table: add, drop, rename, cast and replace columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from lancewood.jobs.job import CommitOptions
from lancewood.jobs.runner import Runner
from lancewood.table.handle import Handle, runner_or_threads

if TYPE_CHECKING:
    from lancewood.jobs.columns.add import NewValues


class ColumnVerbs(Handle):
    """Verbs on a table: add, drop, rename, cast and replace columns."""

    def add_columns(
        self,
        new: NewValues | Any,
        *,
        columns_read: Sequence[str] | None = None,
        schema: pa.Schema | None = None,
        on: str | Sequence[str] | None = None,
        batch_rows: int | None = None,
        repeatable: bool = False,
        dry_run: bool = False,
        message: str | None = None,
        commit: CommitOptions | None = None,
        runner: Runner | None = None,
    ) -> Self:
        """Add columns. Only their own files are written; row ids and other columns stay.

        ``new`` is one of these:

        - a mapping from names to SQL expressions over the row's stored columns;
        - a ``pyarrow.Schema``, a field or a list of fields: null everywhere, no file is written;
        - a function from a record batch to one of as many rows. It is given live rows with
          ``columns_read`` (all by default), in batches of at most ``batch_rows``, from several
          threads at once. Its columns are those of ``schema``, else those of its first result,
          which is then computed before the tasks begin;
        - Arrow data (pyarrow, polars, pandas, duckdb). Without ``on`` it has one row for each row
          of the table, in the order of a scan. With ``on``, columns that both have, a row gets
          the values of the row with its key, and nulls where there is none. The data is then held
          in memory; two of its rows with the same key are an error.

        A dotted name adds a field to a struct; where the struct is null it stays null. A column
        that may not be null needs a value for every row.

        When another writer is faster, only rows that are new or have changed are computed
        again. Where that would call a function a second time for a row, and it is not said to be
        ``repeatable``, or needs data that was read already, the conflict is raised instead.

        ``counts`` has the columns. ``dry_run`` writes nothing, and returns this handle with them.
        Expressions are checked and not computed, a function is called once if there is no
        ``schema``, and Arrow data is read to its end.

        An app and batch in ``commit`` are as for ``append``.
        """
        from lancewood.jobs.columns.add import new_columns_job

        job = new_columns_job(
            self._snapshot,
            new,
            columns_read=columns_read,
            schema=schema,
            on=on,
            batch_rows=batch_rows,
            repeatable=repeatable,
            runner=runner_or_threads(runner),
        )
        commit_options = CommitOptions.of(commit, message, takes_batch=True)
        return self._run(job, commit_options, dry_run=dry_run)

    def drop_columns(
        self,
        names: Sequence[str],
        *,
        dry_run: bool = False,
        message: str | None = None,
        commit: CommitOptions | None = None,
        runner: Runner | None = None,
    ) -> Self:
        """Drop columns, or fields of structs by their dotted names; indices on them go too.

        Data files stay as they are, older versions have the columns still. A struct or list that
        nothing is left of goes as well. Part of a primary or clustering key cannot be dropped.
        A file of nulls is written for fragments that would be left without any.
        """
        from lancewood.jobs.columns.drop import DropColumns

        job = DropColumns(self._snapshot, names, runner_or_threads(runner))
        commit_options = CommitOptions.of(commit, message)
        return self._run(job, commit_options, dry_run=dry_run)

    def rename_column(
        self,
        old: str,
        new: str,
        *,
        dry_run: bool = False,
        message: str | None = None,
        commit: CommitOptions | None = None,
    ) -> Self:
        """Give a column, or a field of a struct by its dotted name, another name.

        ``new`` is the name alone. Data files and indices stay as they are.
        """
        from lancewood.jobs.columns.drop import RenameColumn

        commit_options = CommitOptions.of(commit, message)
        return self._run(RenameColumn(old, new), commit_options, dry_run=dry_run)

    def cast_column(
        self,
        name: str,
        type: pa.DataType,
        *,
        dry_run: bool = False,
        message: str | None = None,
        commit: CommitOptions | None = None,
        runner: Runner | None = None,
    ) -> Self:
        """Give a column, or a field below one by its dotted name, another type.

        Its values are written anew, under a new field id; other columns are not, except those that
        share a list or map with the field. Nullability and metadata stay, indices on it go. A
        value that the type cannot hold is an error that names it, and nothing changes; of floats,
        digits may be lost. There is no new version if the type is the same. ``dry_run`` tries
        every value.
        """
        from lancewood.jobs.columns.cast import CastColumn

        job = CastColumn(self._snapshot, name, type, runner_or_threads(runner))
        commit_options = CommitOptions.of(commit, message)
        return self._run(job, commit_options, dry_run=dry_run)

    def replace_columns(
        self,
        fragment_ids: Sequence[int],
        source: Any,
        *,
        dry_run: bool = False,
        message: str | None = None,
        commit: CommitOptions | None = None,
        runner: Runner | None = None,
    ) -> Self:
        """Replace whole columns of some fragments by given values.

        ``source`` is Arrow data whose columns are columns of the table, of the same types. Its
        rows are the live rows of the fragments, in the order in which
        ``scan(fragment_ids=...)`` gives them; deleted rows are not among them. More or fewer rows
        are an error. Only the files of these columns are written; indices on them no longer
        cover the fragments. ``counts.rows`` says how many rows got new values. ``dry_run``
        reads the source to its end.
        """
        from lancewood.jobs.columns.replace import ReplaceColumns

        job = ReplaceColumns(self._snapshot, fragment_ids, source, runner_or_threads(runner))
        commit_options = CommitOptions.of(commit, message)
        return self._run(job, commit_options, dry_run=dry_run)
