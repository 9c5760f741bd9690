"""``lancewood.spark.write``: a frame into a table, in any of five modes.

``engine.write`` says what the write is; rows are written by ``writing``, and frames merged by
``merging``.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lancewood.engine.base import check_number
from lancewood.engine.schema import Parameters
from lancewood.engine.snapshot import Access, Address
from lancewood.engine.write import (
    Layout,
    PlannedWrite,
    WriteMode,
    WriteRequest,
    not_for,
    plan_on,
    plan_write,
)
from lancewood.errors import BatchAppliedError, InvalidInputError
from lancewood.jobs.job import CommitOptions
from lancewood.jobs.merge_into.source import Choices, Matched, NotMatched, NotMatchedBySource
from lancewood.jobs.rows.updating import Rewriting
from lancewood.spark.merge_into.merge import FrameMerge
from lancewood.spark.reading.read import snapshot_in
from lancewood.spark.runner import runner
from lancewood.spark.writing.job import WriteJob
from lancewood.spark.writing.work import (
    Written,
    as_planned,
    as_skipped,
    as_written,
    is_nothing,
    write_rows,
)
from lancewood.table.table import Table

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_MOST_PARTITIONS = 1_000_000


def write(
    df: DataFrame,
    uri: str | os.PathLike[str] | Table,
    mode: WriteMode = "error",
    *,
    on: str | Sequence[str] | None = None,
    branch: str | None = None,
    partitions: int | None = None,
    sort_by: str | Column | Sequence[str | Column] | None = None,
    layout: Layout | None = None,
    schema: pa.Schema | None = None,
    merge_schema: bool = False,
    overwrite_schema: bool = False,
    replace_where: str | None = None,
    matched: Matched = "update",
    not_matched: NotMatched = "insert",
    not_matched_by_source: NotMatchedBySource = "keep",
    matched_where: str | None = None,
    parameters: Parameters = None,
    rewrite: Rewriting = "auto",
    deleted: str | None = None,
    skip_empty: bool = False,
    dry_run: bool = False,
    message: str | None = None,
    commit: CommitOptions | None = None,
    access: Access | None = None,
) -> Written:
    """Write a frame: executors write files, the driver commits once, and then all rows are visible.

    ``mode`` is "error" by default, as everywhere in Spark: AlreadyExistsError if there is a table,
    before anything runs. "ignore" leaves such a table alone. "append" adds the rows to it, and
    "overwrite" replaces them in a new version; older versions stay. All four make a table that
    does not exist. "merge" updates and inserts rows by key into an existing table;
    ``on``, ``matched``, ``not_matched``, ``not_matched_by_source``, ``matched_where``,
    ``parameters`` and ``rewrite`` are only for it, and mean what they mean for ``Table.merge``. So
    is ``deleted``: it names a boolean column that only the frame has, and a row in which it is true
    deletes the row with its key, if there is one.

    Columns are matched by name and checked before Spark runs anything. A table's own types win: an
    array becomes a fixed-size list again, and a number too large for its column is an error. For a
    new table ``schema`` gives types that the frame cannot express, such as the length of a vector.
    A table keeps its columns, and what does not fit them is refused, unless ``merge_schema`` adds
    columns, and fields of structs, that only the frame has: they are null in the rows that are
    there, and come in the same version as the rows. An "overwrite" with ``overwrite_schema``
    replaces the columns, too; one that the frame has with the same Spark type keeps its Arrow type.
    An "overwrite" with ``replace_where`` replaces only the rows that meet this condition, in the
    SQL of the table; every row of the frame has to meet it, too.

    ``uri`` may also be a table that is open: a state of a transaction of a repository
    (``tx.table("photos")``), where the rows are part of the transaction, or a handle on a branch.
    ``branch``, or a uri such as ``photos.lance@exp``, writes to a branch. An app and batch in
    ``commit`` load once: the version records the newest batch of an application, and a batch that
    is already there is skipped, even if a driver died after its commit. ``partitions`` first
    spreads the rows over so many tasks, each of which writes its own files; ``sort_by`` sorts the
    rows of each. ``layout`` says how large files are, and which of the table's roots get them; what
    it says of a new table must hold for one that is there. With ``skip_empty`` an append without
    rows to an existing table makes no version.

    With ``dry_run`` everything is checked that does not depend on the rows, and no Spark job runs.
    The result then has the version that the write would build on and says whether it would be
    skipped; counts, files and bytes are None. The ``commit_lock`` of
    ``access`` is taken by the driver, which alone commits.

    If a task fails, Spark tries it again. If the job fails, no version changes, and at most files
    are left that cleanup removes by age. Errors that another attempt would not change (a null that
    is not allowed) are raised once all tasks have ended.

    Raises InvalidInputError for a wrong argument or one that is not for this mode, and for columns
    or values that do not fit; AlreadyExistsError in mode "error"; NotFoundError if a branch, or the
    table of a merge, does not exist, and if the files or the planned version are gone;
    UnsupportedError for a type or a table that cannot be written; IncompatibleConflictError for a
    branch that was published and closed. A commit by another writer that cannot be reconciled is a
    ConflictError, RetryableConflictError if the same write may be run again. CommitUnknownError
    says that a commit may have landed, StorageError that the store failed at every attempt, and
    FormatError that the table is damaged. Errors of the frame itself are Spark's own exceptions.
    """
    _check_frame(df)
    request = WriteRequest.of(
        layout,
        mode=mode,
        branch=branch,
        schema=schema,
        merge_schema=merge_schema,
        overwrite_schema=overwrite_schema,
        replace_where=replace_where,
    )
    choices = Choices(
        on=on,
        matched=matched,
        not_matched=not_matched,
        not_matched_by_source=not_matched_by_source,
        matched_where=matched_where,
        parameters=parameters,
        rewrite=rewrite,
    )
    _check_mode(mode, choices, deleted=deleted, skip_empty=skip_empty, sort_by=sort_by)
    commit_options = CommitOptions.of(commit, message, takes_batch=True)
    how: dict[str, Any] = {
        "access": access,
    }
    opened = snapshot_in(uri, branch=branch, **how)
    if partitions is not None:
        partitions = check_number("partitions", partitions, least=1)
        if partitions > _MOST_PARTITIONS:
            raise InvalidInputError(
                f"partitions is at most {_MOST_PARTITIONS}, got {partitions}: each is a task that "
                "writes a file"
            )
    columns = _sort_columns(df, sort_by)
    applied = commit_options.policy.applied
    if opened is None:
        assert not isinstance(uri, Table)
        plan = plan_write(Address(uri, access), request, applied)
    else:
        opened.check_writable()
        opened.check_open()
        plan = plan_on(opened, request, applied)
    if plan.kind == "nothing":
        return as_skipped(plan.before, dry_run=dry_run)
    spread = df if partitions is None else df.repartition(partitions)
    if plan.kind == "merge":
        merge = FrameMerge(spread, plan.before, choices, deleted=deleted)
        return as_planned(plan.before) if dry_run else _merge(merge, plan, commit_options)
    job = WriteJob.of(plan, df.schema, commit_options)
    if dry_run:
        return as_planned(plan.before)
    return run_job(
        spread.sortWithinPartitions(*columns) if columns else spread,
        job,
        skip_empty=skip_empty and not job.is_new,
    )


def run_job(df: DataFrame, job: WriteJob, *, skip_empty: bool = False) -> Written:
    """Have executors write the rows of a frame, and commit them."""
    assert job.work is not None
    answers = write_rows(df, job.work)
    if skip_empty and is_nothing(answers):
        return as_skipped(job.base)
    try:
        looking = runner(df.sparkSession) if job.plan.kind == "replace" else None
        return job.commit(answers, looking)
    except Exception:
        job.abort(answers)
        raise


def _merge(merge: FrameMerge, plan: PlannedWrite, commit_options: CommitOptions) -> Written:
    try:
        after, counts = merge.run(commit_options)
    except BatchAppliedError:
        return as_skipped(plan.before.newest())
    return as_written(after, counts)


def _check_mode(
    mode: WriteMode, choices: Choices, *, deleted: str | None, skip_empty: bool, sort_by: Any
) -> None:
    """Raise InvalidInputError for arguments that are not for this mode."""
    if mode == "merge" and sort_by is not None:
        raise not_for("sort_by", mode)
    if mode != "merge":
        for each in fields(choices):
            if getattr(choices, each.name) != each.default:
                raise not_for(each.name, mode)
        if deleted is not None:
            raise not_for("deleted", mode)
    if skip_empty and mode != "append":
        raise InvalidInputError(f"skip_empty is for mode 'append', not for {mode!r}: leave it out")


def _check_frame(df: Any) -> None:
    if not callable(getattr(type(df), "mapInArrow", None)):
        raise InvalidInputError(
            f"write takes a Spark DataFrame, got {type(df).__name__}; lancewood.create and "
            "Table.append write other data"
        )
    if df.isStreaming:
        raise InvalidInputError(
            "write takes a frame that ends, and this one is a stream: use "
            "df.writeStream.format('lance'), or foreachBatch with an app and a batch in commit="
        )


def _sort_columns(df: DataFrame, sort_by: Any) -> list[Any]:
    """The columns to sort by; raises InvalidInputError for a name that the frame lacks."""
    from pyspark.sql import Column

    if sort_by is None:
        return []
    listed = list(sort_by) if isinstance(sort_by, list | tuple) else [sort_by]
    for each in listed:
        if not isinstance(each, str | Column):
            raise InvalidInputError(
                f"sort_by takes names and columns of Spark, one or a list, got {each!r}"
            )
        if isinstance(each, str) and each not in df.columns:
            raise InvalidInputError(
                f"sort_by names {each!r}, which the frame does not have: {', '.join(df.columns)}"
            )
    if not listed:
        raise InvalidInputError("sort_by is an empty list; name a column, or leave it out")
    return listed
