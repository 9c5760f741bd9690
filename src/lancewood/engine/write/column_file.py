"""Files for the rows that a fragment already has: new columns, one data file of exactly as many
rows, and deletions.

A deletion file lists all deleted rows, those of the file before it included, and lies under the
table's own root wherever the data is. Nothing refers to either file until a commit does.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap

from lancewood.data.align import align_schema
from lancewood.data.writer import WritePlan, write_fragments
from lancewood.engine.location import write_deletions
from lancewood.engine.snapshot import Snapshot
from lancewood.errors import InvalidInputError
from lancewood.model.fragment import DataFile, Fragment
from lancewood.model.schema import Schema


class ColumnFileWriter:
    """Writes the columns of one schema, which has the table's field ids, for many fragments.

    The files are durable after ``finish``: one by one that would take longer. ``mark`` is in their
    names.
    """

    def __init__(self, snapshot: Snapshot, schema: Schema, mark: str = "") -> None:
        """Raises InvalidInputError or UnsupportedError for columns that no file can hold."""
        self._snapshot = snapshot
        self._schema = schema
        self._mark = mark
        self._plan = WritePlan(schema, snapshot.manifest.file_version)
        self._alignment = align_schema(schema, self._plan.arrow, complete=True)
        self._keys: list[str] = []

    def write(self, fragment: Fragment, batches: Iterable[pa.RecordBatch]) -> DataFile:
        """The new file of a fragment.

        The batches cover all of its physical rows in order, deleted ones included; raises
        InvalidInputError, and leaves no file, if they are more or fewer.
        """
        rows = fragment.physical_rows
        exactly = _exactly(batches, rows, fragment)
        written = write_fragments(
            pa.RecordBatchReader.from_batches(self._plan.arrow, exactly),
            self._schema,
            file_roots=[self._snapshot.default_file_root],
            file_version=self._plan.file_version,
            max_rows=max(rows, 1),
            alignment=self._alignment,
            plan=self._plan,
            is_synced=False,
            mark=self._mark,
        )
        (file,) = written[0].files
        self._keys.append(self._snapshot.default_file_root.key(file.path))
        return file

    def finish(self) -> None:
        """Wait until all files are durable."""
        self._snapshot.default_file_root.store.sync(self._keys)
        self._keys = []


def laid_over(
    name: str, old: pa.Array, new: pa.Array, locations: npt.NDArray[np.int64]
) -> pa.Array:
    """The old values of column ``name``, with new ones at these places.

    Raises InvalidInputError where Arrow cannot hold both in one array.
    """
    order = np.arange(len(old), dtype=np.int64)
    order[locations] = np.arange(len(old), len(old) + len(new))
    try:
        return pa.concat_arrays([old, new]).take(pa.array(order))
    except pa.ArrowException as cause:
        raise InvalidInputError(
            f"column {name!r} cannot hold old and new values together: {cause}", column=name
        ) from cause


def _exactly(
    batches: Iterable[pa.RecordBatch], rows: int, fragment: Fragment
) -> Iterable[pa.RecordBatch]:
    seen = 0
    for each in batches:
        seen += each.num_rows
        if seen > rows:
            break
        yield each
    if seen != rows:
        found = f"more than {rows}" if seen > rows else str(seen)
        raise InvalidInputError(
            f"fragment {fragment.id} has {rows} rows, its new columns have {found}",
            fragment=fragment.id,
        )


def mark_deleted(
    snapshot: Snapshot, fragment: Fragment, offsets: BitMap, before: BitMap | None = None
) -> Fragment | None:
    """The fragment with these rows deleted as well; None if none is left, and nothing is written.

    ``offsets`` are physical; ``before`` are those that are deleted already, from a caller who has
    read them. Raises FormatError where the manifest does not say how many rows
    there are, or an offset lies beyond them.
    """
    if before is None:
        before = snapshot.deletions(fragment)
    deleted = offsets if not before else offsets | before
    return write_deletions(snapshot.location.store, snapshot.manifest.version, fragment, deleted)
