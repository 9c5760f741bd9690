"""``format("lance")``: from options to readers and writers.

Spark makes a source when a DataFrame is loaded, pickles it, and plans the reads of all later
actions with that copy, in another process and perhaps much later. So the version is resolved before
the source is pickled and travels with it, without its fragments. With ``.schema(…)``, and over
Connect, Spark makes the source only when something first needs it, and the version is that of this
moment. A source that writes is made anew, is not pickled, and resolves no version. There is no
Spark session here: sources live in worker processes beside the driver.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from lancewood.engine.location import Location
from lancewood.engine.rows import ScanPlan, plan_scan
from lancewood.engine.snapshot import Snapshot
from lancewood.engine.versions import load_manifest
from lancewood.engine.write import WriteRequest, plan_write
from lancewood.errors import InvalidInputError, NotFoundError, RetryableConflictError
from lancewood.format.layout import NamingScheme
from lancewood.jobs.job import TASKS_PER_SLOT, CommitOptions
from lancewood.model.ids import Version
from lancewood.model.manifest import ManifestHead
from lancewood.model.refs import OnBranch, parse_revision
from lancewood.spark.abilities import LIMITED_STREAMS, release_here, require
from lancewood.spark.columnar import say_once, why_not_tried
from lancewood.spark.reading.plan import MOST, plan_read
from lancewood.spark.reading.task import narrowed_request
from lancewood.spark.source import streams
from lancewood.spark.source.metadata import METADATA_SCHEMAS, check_kind, plan_metadata
from lancewood.spark.source.options import (
    SourceOptions,
    Use,
    check_use,
    parse_options,
    with_credentials,
)
from lancewood.spark.source.shape import BatchShape, check_names, shape_of, spark_class
from lancewood.spark.streaming.fitting import StreamColumns, stream_schema
from lancewood.spark.streaming.options import (
    MAX_ROWS,
    MAX_VERSIONS,
    STARTING_TAG,
    STARTING_VERSION,
    OnChange,
    StreamOptions,
)
from lancewood.spark.streaming.task import TaskSize
from lancewood.spark.tasks import keep_loaded
from lancewood.spark.types import spark_schema
from lancewood.spark.writing.job import WriteJob
from lancewood.spark.writing.work import answers_in

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

Work: TypeAlias = Callable[[bytes], Iterator[pa.RecordBatch]]

MOST_BYTES = 256 << 20
"""Bytes that one task reads if the number of tasks is not given: slots are unknown here."""


@dataclass(frozen=True)
class PinnedVersion:
    """One version of one table, for a source and all of its copies."""

    location: Location
    version: Version
    scheme: NamingScheme
    mark: tuple[int, str | None]
    """When and by which transaction it was committed; a table that was made again differs in
    this."""

    @classmethod
    def of(cls, snapshot: Snapshot) -> PinnedVersion:
        head = snapshot.manifest
        return cls(snapshot.location, head.version, snapshot.scheme, _mark(head))

    def load(self) -> Snapshot:
        """The version, with its manifest.

        Raises NotFoundError if it was cleaned up, RetryableConflictError if it is another table.
        """
        store = self.location.store
        try:
            manifest = load_manifest(store, self.version, self.scheme)
        except NotFoundError as cause:
            raise NotFoundError(
                f"version {self.version} of {store.uri}, which this DataFrame reads, is gone: it "
                "was cleaned up, or the table was dropped; load the DataFrame anew, or tag a "
                "version that is to stay",
                version=self.version,
            ) from cause
        if _mark(manifest) != self.mark:
            raise RetryableConflictError(
                f"{store.uri} was replaced since this DataFrame was loaded: its version "
                f"{self.version} is of another moment; load the DataFrame anew",
                version=self.version,
            )
        return Snapshot(self.location, manifest, self.scheme)


def _mark(head: ManifestHead) -> tuple[int, str | None]:
    return head.timestamp_ns, head.transaction_file


class TableSource:
    """One table, as options describe it."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self.options = options
        self._asked = with_credentials(parse_options(options), os.environ)
        self._pin: PinnedVersion | None = None
        self._is_copy = False

    @classmethod
    def name(cls) -> str:
        return "lance"

    def __getstate__(self) -> dict[str, Any]:
        """The state with the version, so that the copy reads the same one."""
        if self._pin is None:
            with suppress(NotFoundError):  # a stream's sink travels, too, before there is a table
                self._found()
        return {**self.__dict__, "_is_copy": True}

    @property
    def asked(self) -> SourceOptions:
        """What the options say."""
        return self._asked

    def scan(self) -> ScanPlan:
        """What is read of the version, if all of its columns are wanted."""
        return _scan(self._found(), self._asked)

    def schema(self) -> StructType:
        """The schema of a read, in Spark's types."""
        snapshot = self._found()
        keep_loaded()
        if self._asked.metadata is not None:
            return _metadata_schema(self._asked.metadata)
        if self._asked.streaming:
            return stream_schema(snapshot, self._streamed(snapshot)[1])
        return spark_schema(_scan(snapshot, self._asked).schema)

    def reader(self, schema: StructType) -> Any:
        """A planned read of the columns that ``schema`` names."""
        check_use(self._asked, Use.READ)
        snapshot = self._found()
        if self._asked.metadata is not None:
            found = plan_metadata(snapshot, self._asked.metadata)
            given = _metadata_schema(self._asked.metadata)
            check_names(schema, given.names)
            return __getattr__("LanceReader")(found.work, found.messages, shape_of(schema, given))
        if why_not_tried(os.environ) is None:
            say_once()
        whole = _scan(snapshot, self._asked)
        known = whole.schema.names
        request = narrowed_request(whole.request, known, check_names(schema, known))
        partitions = self._asked.partitions
        most_bytes = MOST_BYTES if partitions is None else MOST
        plan = plan_read(snapshot, request, assumed_slots(partitions), most_bytes=most_bytes)
        if plan.limit is not None:
            raise InvalidInputError(
                "option 'limit' cannot be kept to here together with 'filter': each task would "
                "count for itself. Use df.limit(…), or lancewood.spark.read(limit=)"
            )
        return __getattr__("LanceReader")(plan.work, plan.messages, shape_of(schema, plan.spark))

    def streamReader(self, schema: StructType) -> Any:
        """A stream of the changes of versions."""
        check_use(self._asked, Use.READ_STREAM)
        for each in (MAX_ROWS, MAX_VERSIONS):
            if each in self._asked.streaming:
                require(f"option {each!r}", LIMITED_STREAMS, release_here(), option=each)
        partitions = self._asked.partitions
        tasks = TaskSize(assumed_slots(partitions), MOST_BYTES if partitions is None else MOST)
        opened = self._found()
        _check_path(opened, self._asked)
        options, columns = self._streamed(opened)
        # The class of readers that this Spark knows how to ask.
        is_limited = LIMITED_STREAMS.is_in(release_here())
        make = streams.LanceStreamReader if is_limited else streams.UnlimitedStreamReader
        return make(opened, schema, columns, options, tasks)

    def streamWriter(self, schema: StructType, overwrite: bool) -> Any:
        """A sink; each batch is planned before its rows are written."""
        check_use(self._asked, Use.WRITE_STREAM)
        plan = partial(self._plan_write, schema, overwrite, is_in_stream=True)
        writer = streams.LanceStreamWriter(plan, self._asked.app)
        # Where a batch is planned the source is made anew; a copy only commits.
        if not self._is_copy:
            writer.prepare()
        return writer

    def writer(self, schema: StructType, overwrite: bool) -> Any:
        """A planned write; everything is checked and nothing written."""
        check_use(self._asked, Use.WRITE)
        return __getattr__("LanceWriter")(self._plan_write(schema, overwrite))

    def _streamed(self, opened: Snapshot) -> tuple[StreamOptions, StreamColumns]:
        """What is said to a stream, and what it reads."""
        options = StreamOptions.parsed(self._asked.streaming)
        request, with_changes = (
            _scan(opened, self._asked).request,
            options.on_change is OnChange.CHANGES,
        )
        request = replace(request, with_row_id=request.with_row_id or with_changes)
        return options, StreamColumns(request, with_changes)

    def _plan_write(
        self, schema: StructType, overwrite: bool, *, is_in_stream: bool = False
    ) -> WriteJob:
        asked = self._asked
        request = WriteRequest(
            mode="overwrite" if overwrite else "append",
            branch=asked.branch,
            max_rows_per_file=asked.max_rows_per_file,
            max_bytes_per_file=asked.max_bytes_per_file,
            stable_row_ids=asked.stable_row_ids,
            file_version=asked.file_version,
            merge_schema=asked.merge_schema,
            overwrite_schema=asked.overwrite_schema,
            replace_where=asked.replace_where,
        )
        commit_options = CommitOptions(
            asked.message,
            asked.properties or {},
            serializable=asked.serializable,
            app=None if is_in_stream else asked.app,
            batch=asked.batch,
        )
        plan = plan_write(asked.address, request, commit_options.policy.applied)
        return WriteJob.of(plan, schema, commit_options)

    def _found(self) -> Snapshot:
        """The version that this source and its copies read."""
        if self._pin is not None:
            return self._pin.load()
        asked = self._asked
        snapshot = asked.address.open(
            branch=asked.branch, version=asked.version, tag=asked.tag, as_of=asked.as_of
        )
        self._pin = PinnedVersion.of(snapshot)
        return snapshot


class Reader:
    """One planned read, for which Spark asks partitions on the driver, and rows on executors.

    Spark pickles the reader before it asks for the partitions, and sends it to every task: what
    only the partitions need stays behind. There is no ``pushFilters``: Spark 4.3 would apply the
    filter of one query to the next one of the same DataFrame.
    """

    def __init__(self, work: Work, messages: list[bytes], shape: BatchShape | None = None) -> None:
        """``work`` is what the tasks share, and gives the rows of a message."""
        self._work = work
        self._messages = messages
        self._shape = shape

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_messages": []}

    def partitions(self) -> list[Any]:
        """A partition for each task."""
        from pyspark.sql.datasource import InputPartition

        keep_loaded()
        return [InputPartition(each) for each in self._messages]

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        """The rows of a partition. Where there is none, Spark asks for one without a value, and
        Spark 4.0 for None."""
        if partition is None or partition.value is None:
            return
        for batch in self._work(partition.value):
            yield batch if self._shape is None else self._shape.fit(batch)
        keep_loaded()


class Writer:
    """One planned write, run by executors, committed or aborted by the driver.

    Spark makes the writer in one process, writes in others and commits in a third: nothing but the
    messages comes back from the executors. After a commit that raised it calls ``abort`` with all
    messages; the job itself finds out whether it landed.
    """

    def __init__(self, job: WriteJob) -> None:
        self._job = job

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Any:
        """On an executor: the rows of one partition into files."""
        return __getattr__("FilesWritten")(self._job.run(iterator))

    def commit(self, messages: Sequence[Any]) -> None:
        """On the driver, once all partitions are written."""
        self._job.commit(answers_in(messages))

    def abort(self, messages: Sequence[Any]) -> None:
        """On the driver, where something failed."""
        self._job.abort(answers_in(messages))


class Wrote:
    """The answer of a partition, as ``writing.work`` encodes it."""

    def __init__(self, answer: bytes) -> None:
        self.answer = answer


_CLASSES = {
    "LanceSource": (TableSource, "pyspark.sql.datasource.DataSource"),
    "LanceReader": (Reader, "pyspark.sql.datasource.DataSourceReader"),
    "LanceWriter": (Writer, "pyspark.sql.datasource.DataSourceArrowWriter"),
    "FilesWritten": (Wrote, "pyspark.sql.datasource.WriterCommitMessage"),
}


def __getattr__(name: str) -> Any:
    return spark_class(globals(), _CLASSES, name)


def _scan(snapshot: Snapshot, asked: SourceOptions) -> ScanPlan:
    return plan_scan(
        snapshot,
        columns=asked.columns,
        where=asked.where,
        limit=asked.limit,
        batch_rows=asked.batch_rows,
        with_row_id=asked.with_row_id,
        with_row_address=asked.with_row_address,
    )


def _check_path(opened: Snapshot, asked: SourceOptions) -> None:
    """Raises InvalidInputError for a path that carries a tag or a single version."""
    if "@" not in asked.path:
        return
    _, revision = asked.address.find()
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


def assumed_slots(partitions: int | None) -> int:
    """How many tasks are assumed to run at once: by default the driver's own cores.

    There is no session here to ask.
    """
    if partitions is None:
        return os.cpu_count() or 1
    return -(-partitions // TASKS_PER_SLOT)


def _metadata_schema(kind: str) -> StructType:
    return spark_schema(METADATA_SCHEMAS[check_kind(kind)])
