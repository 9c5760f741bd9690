"""What runs on executors for a diff: the rows of one task, compared and shown.

Every task gets both states without their fragments, and a message with the fragments and places of
its own rows. It opens no manifest and lists nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from lancewood.engine.snapshot import Snapshot
from lancewood.jobs.diff import Comparison, DiffPortion, DiffShape, DiffTask
from lancewood.spark.reading.task import WORKERS, missing_explained, pack, sized, unpack
from lancewood.spark.types import Reading


@dataclass(frozen=True)
class DiffWork:
    """What all tasks of a diff share. Pickles; the snapshots have no fragments."""

    one: Snapshot
    other: Snapshot
    shape: DiffShape
    reading: Reading
    """How the columns that come out become Spark's."""

    @property
    def name(self) -> str:
        """What is compared, for people who look at Spark's plans."""
        table = self.other.location.uri.rstrip("/").rpartition("/")[2]
        return f"{table} from version {self.one.manifest.version} to {self.other.manifest.version}"

    def __call__(self, message: bytes) -> Iterator[pa.RecordBatch]:
        """The rows of one task, as Spark takes them; raises NotFoundError for files that are
        gone."""
        return self.rows(decode(message).comparison(self.one, self.other, self.shape))

    def rows(self, found: Comparison) -> Iterator[pa.RecordBatch]:
        """The rows of a comparison, as Spark takes them."""
        names = self.reading.schema.names
        with missing_explained("compared", self.one, self.other):
            batches = DiffTask(self.shape, found).batches(WORKERS)
            yield from sized(self.reading.convert(each.select(names)) for each in batches)


def encode(portion: DiffPortion) -> bytes:
    """A message for a task."""
    return pack(portion)


def decode(message: bytes) -> DiffPortion:
    """The portion in a message; only for messages that ``encode`` made."""
    found: DiffPortion = unpack(message)
    return found
