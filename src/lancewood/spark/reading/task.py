"""What runs on executors: the rows of one task, or how many there are.

A task gets the version without its fragments, as all tasks do, and a message with its own. It
opens no manifest and lists nothing. It is one of several on its machine, so it starts no threads
besides the codec's.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import pyarrow as pa

from lancewood.engine.scan import ScanPlan, ScanRequest
from lancewood.engine.snapshot import Snapshot
from lancewood.errors import NotFoundError
from lancewood.spark.reading.batches import sized
from lancewood.spark.reading.message import Portion
from lancewood.spark.tasks import messages_of
from lancewood.spark.types import Reading

WORKERS = 1
COUNT_SCHEMA = "rows long not null"
_COUNTS = pa.schema([pa.field("rows", pa.int64(), False)])


@dataclass(frozen=True)
class ReadWork:
    """What all tasks of a read share. Pickles; ``snapshot`` has no fragments."""

    snapshot: Snapshot
    request: ScanRequest
    reading: Reading

    @property
    def name(self) -> str:
        """What is read, for people who look at Spark's plans."""
        table = self.snapshot.place.uri.rstrip("/").rpartition("/")[2]
        return f"{table} version {self.snapshot.manifest.version}"

    def __call__(self, message: bytes) -> Iterator[pa.RecordBatch]:
        """The rows of one task, as Spark takes them."""
        return read_task(self, message)

    def plan(self, message: bytes) -> ScanPlan:
        """The scan of one task."""
        portion = Portion.decode(message)
        fragments = portion.decoded(self.snapshot.manifest.name)
        request = replace(self.request, fragments=fragments, spans=portion.spans, batch_rows=None)
        return ScanPlan(self.snapshot, request)


def read_task(work: ReadWork, message: bytes) -> Iterator[pa.RecordBatch]:
    """The rows of one task, in the order of the table, in batches that suit Spark.

    Raises NotFoundError if files of the version are gone, and what a scan raises.
    """
    with _told(work.snapshot):
        batches = work.plan(message).batches(WORKERS)
        yield from sized(map(work.reading.convert, batches), work.request.batch_rows)


def count_task(work: ReadWork, message: bytes) -> int:
    """How many rows one task has; raises what ``read_task`` raises."""
    with _told(work.snapshot):
        return work.plan(message).count(WORKERS)


def read_tasks(work: ReadWork, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """For mapInArrow over a spread frame: the rows of its tasks."""
    for _, message in messages_of(batches):
        yield from read_task(work, message)


def count_rows(work: ReadWork, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """For mapInArrow over a spread frame: one number for each task."""
    for _, message in messages_of(batches):
        counted = pa.array([count_task(work, message)], pa.int64())
        yield pa.RecordBatch.from_arrays([counted], schema=_COUNTS)


@contextmanager
def _told(snapshot: Snapshot) -> Iterator[None]:
    """Say what a missing file means to one who holds a DataFrame."""
    try:
        yield
    except NotFoundError as missing:
        version = snapshot.manifest.version
        raise NotFoundError(
            f"version {version} of {snapshot.place.uri} cannot be read any more: {missing}. Either "
            "it was cleaned up since the DataFrame was made: read the table again, a tag keeps a "
            "version. Or this machine does not see the files: put the table where all do",
            **{**missing.facts, "version": version},
        ) from missing
