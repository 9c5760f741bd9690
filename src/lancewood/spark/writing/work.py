"""What an executor does for a write: rows of one partition into new data files.

Knows the columns, where files go and how large they get. Reads no manifest, lists nothing and
commits nothing: until the driver does, nothing refers to the files. Run twice, it writes other
files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from lancewood.data.align import align_schema
from lancewood.data.home import DataHome
from lancewood.data.writer import write_fragments
from lancewood.engine.limits import FileLimits
from lancewood.errors import LancewoodError, NotFoundError, StorageError
from lancewood.model.fragment import Fragment
from lancewood.model.schema import Schema
from lancewood.spark.types import Writing
from lancewood.spark.writing.answers import encode_error, encode_fragments

ANSWER = "answer"
ANSWER_DDL = f"{ANSWER} binary"
"""What comes out of ``write_task``, in Spark's words."""


@dataclass(frozen=True)
class WriteWork:
    """The same for every partition; small, and it pickles."""

    writing: Writing
    schema: Schema
    """The table's, with the ids of its fields."""
    homes: tuple[DataHome, ...] = field(repr=False)
    file_version: str
    limits: FileLimits

    def run(self, batches: Iterable[pa.RecordBatch]) -> bytes:
        """Write and sync the rows; the answer for the driver.

        An error that another attempt would meet again is an answer, too. A store's failure and
        what is not ours are raised, so that Spark tries again; then no file is left.
        """
        rows = self.writing.schema
        try:
            reader = pa.RecordBatchReader.from_batches(rows, self._converted(batches))
            alignment = align_schema(self.schema, rows)
            fragments = write_fragments(
                reader,
                alignment.schema,
                alignment=alignment,
                homes=self.homes,
                file_version=self.file_version,
                max_rows=self.limits.max_rows,
                max_bytes=self.limits.max_bytes,
            )
        except StorageError:
            raise
        except LancewoodError as error:
            return encode_error(error)
        return encode_fragments(fragments)

    def check_there(self, fragments: Sequence[Fragment]) -> None:
        """On the driver: raise NotFoundError if what was written is gone.

        Whoever takes files of a job takes all: an abort, a cleanup that was told to spare none. So
        one is looked at, however many there are.
        """
        for file in (file for each in fragments[:1] for file in each.files[:1]):
            home = next(each for each in self.homes if each.base_id == file.base_id)
            try:
                home.store.head(home.key(file.path))
            except NotFoundError as gone:
                raise NotFoundError(
                    f"data file {file.path} of this write to {home.store.uri} is gone: the write "
                    "was aborted, the table dropped, or a cleanup took it; write anew",
                    path=file.path,
                ) from gone

    def _converted(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for each in batches:
            if each.num_rows:
                yield self.writing.convert(each)


def write_task(work: WriteWork, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """For mapInArrow: one row with the answer."""
    answer = work.run(batches)
    yield pa.record_batch({ANSWER: pa.array([answer], pa.binary())})
