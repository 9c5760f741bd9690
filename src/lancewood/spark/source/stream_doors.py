"""From the options of ``format("lance")`` to a stream that reads or writes.

That the options are for such a stream was checked before (``source.options``). A path that means
one version is refused here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from lancewood.engine.snapshot import Snapshot
from lancewood.errors import InvalidInputError
from lancewood.model.revision import OnBranch, parse_revision
from lancewood.spark.source import stream_reader as readers
from lancewood.spark.source import stream_writer as writers
from lancewood.spark.streaming.fitting import StreamColumns, stream_schema
from lancewood.spark.streaming.options import (
    STARTING_TAG,
    STARTING_VERSION,
    OnChange,
    StreamOptions,
)
from lancewood.spark.streaming.task import TaskSize
from lancewood.spark.writing.job import WriteJob

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from lancewood.spark.source.options import SourceOptions


def open_stream_schema(opened: Snapshot, asked: SourceOptions) -> StructType:
    """The schema of a stream with these options; see ``stream_schema``."""
    return stream_schema(opened, _columns(asked, StreamOptions.parsed(asked.streaming)))


def open_reader(opened: Snapshot, schema: StructType, asked: SourceOptions, tasks: TaskSize) -> Any:
    """A stream of the rows that versions bring. Raises InvalidInputError."""
    _check_path(opened, asked)
    options = StreamOptions.parsed(asked.streaming)
    return readers.LanceStreamReader(opened, schema, _columns(asked, options), options, tasks)


def open_writer(plan: Callable[[], WriteJob], asked: SourceOptions, *, is_planned_now: bool) -> Any:
    """A sink whose batch is planned by ``plan``, now or when the writer travels to executors.

    Raises what ``plan`` raises, if now.
    """
    writer = writers.LanceStreamWriter(plan, asked.app)
    if is_planned_now:
        writer.prepare()
    return writer


def _columns(asked: SourceOptions, options: StreamOptions) -> StreamColumns:
    return StreamColumns(
        columns=asked.columns,
        where=asked.where,
        with_row_id=asked.with_row_id,
        with_row_address=asked.with_row_address,
        batch_rows=asked.batch_rows,
        with_changes=options.on_change is OnChange.CHANGES,
    )


def _check_path(opened: Snapshot, asked: SourceOptions) -> None:
    """Raises InvalidInputError for a path that carries a tag or a single version."""
    if "@" not in asked.path:
        return
    _, revision = asked.access.find()
    if revision is None:
        return
    meant = parse_revision(revision)
    is_branch = isinstance(meant, OnBranch) and meant.version is None
    if not is_branch and str(meant) != (opened.manifest.branch or "main"):
        raise InvalidInputError(
            f"the path carries {revision!r}, which is one version, and a stream goes on with the "
            f"versions of a branch; leave it out, and begin with {STARTING_VERSION} or "
            f"{STARTING_TAG}",
            revision=revision,
        )
