"""What runs on executors for a read: the rows of one task, or their number.

Every task gets the version without its fragments, and a message with its own. Fragments of a table
are much alike, so messages are compressed. A task opens no manifest and lists nothing. As several
run on one machine, it starts no threads besides the codec's.

Batches are resized for the way from Python to Spark: large ones are cut, which copies nothing, and
small ones joined, since each costs a round trip. Rows keep their order.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lancewood.engine.rows import ScanPlan, ScanRequest
from lancewood.engine.snapshot import Snapshot
from lancewood.errors import NotFoundError
from lancewood.model.fragment import Fragment
from lancewood.model.ids import FragmentId
from lancewood.model.manifest import decode_fragment
from lancewood.model.schema import ROW_ADDRESS, ROW_ID, SYSTEM_COLUMNS
from lancewood.spark.types import Reading

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_CODEC = "zstd"
_SIZE_BYTES = 8
MOST_BYTES = 4 << 20
FEW_BYTES = 1 << 20
FEW_ROWS = 8_192
"""A batch with as many bytes or rows is not held back to be joined with others."""
_LARGE_FRAGMENT = 1_024
"""Fragments from this size on are stripped of what their tasks do not need."""
WORKERS = 1
COUNT_SCHEMA = "rows long not null"
_COUNTS = pa.schema([pa.field("rows", pa.int64(), False)])
MARK_SCHEMA = "mark boolean"
_MARKS = pa.schema([pa.field("mark", pa.bool_())])


@dataclass(frozen=True)
class TablePortion:
    """A part of a table: some fragments, perhaps not all of their rows."""

    fragments: Sequence[bytes]
    """The fragments undecoded, as they are in the manifest."""
    spans: Mapping[FragmentId, tuple[int, int]] = field(default_factory=dict)
    """The physical rows to read of fragments that are not read whole: see ``ScanRequest``."""

    def encode(self) -> bytes:
        """A message for a task."""
        return pack((list(self.fragments), dict(self.spans)))

    @classmethod
    def decode(cls, message: bytes) -> TablePortion:
        """The portion in a message; only for messages that ``encode`` made."""
        return cls(*unpack(message))

    def decoded(self, name: str) -> list[Fragment]:
        """The fragments; raises FormatError naming the manifest."""
        return [Fragment(decode_fragment(each, name)) for each in self.fragments]


def pack(value: object) -> bytes:
    """A value as a compressed message."""
    plain = pickle.dumps(value)
    size = len(plain).to_bytes(_SIZE_BYTES, "little")
    return size + bytes(pa.compress(plain, _CODEC, asbytes=True))


def unpack(message: bytes) -> Any:
    """The value in a message; only for messages that ``pack`` made."""
    size = int.from_bytes(message[:_SIZE_BYTES], "little")
    return pickle.loads(pa.decompress(message[_SIZE_BYTES:], size, _CODEC, asbytes=True))


def sized(
    batches: Iterator[pa.RecordBatch], most_rows: int | None = None
) -> Iterator[pa.RecordBatch]:
    """Join and cut batches to a few megabytes, with at most ``most_rows`` rows each."""
    few: list[pa.RecordBatch] = []
    rows = size = 0
    enough = FEW_ROWS if most_rows is None else min(FEW_ROWS, most_rows)
    for batch in batches:
        held = batch.nbytes
        if batch.num_rows >= enough or held >= FEW_BYTES or not batch.num_columns:
            yield from _joined(few, most_rows)
            yield from _cut(batch, held, most_rows)
            few, rows, size = [], 0, 0
            continue
        few.append(batch)
        rows, size = rows + batch.num_rows, size + held
        if rows >= enough or size >= FEW_BYTES:
            yield from _joined(few, most_rows)
            few, rows, size = [], 0, 0
    yield from _joined(few, most_rows)


def _joined(few: list[pa.RecordBatch], most_rows: int | None) -> Iterator[pa.RecordBatch]:
    if few:
        whole = few[0] if len(few) == 1 else pa.concat_batches(few)
        yield from _cut(whole, whole.nbytes, most_rows)


def _cut(batch: pa.RecordBatch, size: int, most_rows: int | None) -> Iterator[pa.RecordBatch]:
    rows = batch.num_rows
    step = rows if size <= MOST_BYTES else max(1, rows * MOST_BYTES // size)
    step = step if most_rows is None else min(step, most_rows)
    if step >= rows:
        yield batch
        return
    pieces = -(-rows // step)
    even = -(-rows // pieces)
    yield from (batch.slice(at, even) for at in range(0, rows, even))


@dataclass(frozen=True)
class Selecting:
    """A reading of which only some columns are wanted."""

    reading: Reading
    names: tuple[str, ...]

    @property
    def spark(self) -> StructType:
        from pyspark.sql.types import StructType

        return StructType([self.reading.spark[each] for each in self.names])

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([self.reading.schema.field(each) for each in self.names])

    def convert(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """A batch of the scan as Spark's columns."""
        return self.reading.convert(batch).select(list(self.names))


def narrowed_request(
    request: ScanRequest, known: Sequence[str], names: Sequence[str]
) -> ScanRequest:
    """The request for only the columns ``names`` of those that it gives, which are ``known``; the
    same request where it cannot be said of less than all."""
    columns = request.columns
    if len(names) == len(known) or not set(columns or known) <= set(known):
        return request
    if isinstance(columns, Mapping) and request.parameters is not None:
        return request
    listed = frozenset(columns or ())  # where a row id may be named like any other column
    stored = [each for each in names if each in listed or each not in (ROW_ID, ROW_ADDRESS)]
    return replace(
        request,
        columns={each: columns[each] for each in stored}
        if isinstance(columns, Mapping)
        else stored,
        with_row_id=request.with_row_id and ROW_ID in names,
        with_row_address=request.with_row_address and ROW_ADDRESS in names,
    )


@dataclass(frozen=True)
class ReadWork:
    """What all tasks of a read share. Pickles; ``snapshot`` has no fragments."""

    snapshot: Snapshot
    request: ScanRequest
    reading: Reading | Selecting
    index_section: bytes | None = field(default=None, repr=False)
    """Indices that tasks ask for rows that meet a condition which Spark adds; the driver has asked
    them for those that meet the reader's own."""

    @property
    def name(self) -> str:
        """What is read, for people who look at Spark's plans."""
        table = self.snapshot.location.uri.rstrip("/").rpartition("/")[2]
        return f"{table} version {self.snapshot.manifest.version}"

    def __call__(self, message: bytes) -> Iterator[pa.RecordBatch]:
        """The rows of one task, as Spark takes them."""
        return self.rows(self.portion(message))

    def portion(self, message: bytes) -> TablePortion:
        """What a task reads."""
        return TablePortion.decode(message)

    def rows(self, portion: TablePortion) -> Iterator[pa.RecordBatch]:
        """The rows of a portion in table order, in batches that suit Spark.

        Raises NotFoundError if files of the version are gone, and what a scan raises.
        """
        with missing_explained("read", self.snapshot):
            batches = self.plan(portion).batches(WORKERS)
            yield from sized(map(self.reading.convert, batches), self.request.batch_rows)

    def narrowed(self, names: Sequence[str], where: str | None, limit: int | None) -> ReadWork:
        """This read with some of the columns only, in the order of ``names``, and less of the rows.

        Fixed-size lists stay such. Raises InvalidInputError for a condition that is none.
        """
        request = narrowed_request(self.request, self.reading.schema.names, names)
        if where is not None:
            own = request.where
            # A comment may end it.
            where = where if own is None else f"({own}\n) AND {where}"
            request = replace(request, where=where, use_indices=self.index_section is not None)
        if limit is not None:
            own_limit = limit if request.limit is None else request.limit
            request = replace(request, limit=min(limit, own_limit))
        schema = ScanPlan(self.snapshot, replace(request, fragments=())).schema
        reading = Reading(schema, keeps_fixed_lists=True)
        is_same = schema.names == list(names)
        chosen = reading if is_same else Selecting(reading, tuple(names))
        return replace(self, request=request, reading=chosen)

    def plan(self, portion: TablePortion) -> ScanPlan:
        """The scan of a portion."""
        snapshot = self.snapshot
        if self.request.use_indices and self.index_section is not None:
            snapshot = snapshot.of_fragments(portion.fragments, self.index_section)
        fragments = portion.decoded(snapshot.manifest.name)
        request = replace(self.request, fragments=fragments, spans=portion.spans, batch_rows=None)
        return ScanPlan(snapshot, request)


def mark_rows(work: ReadWork, message: bytes) -> Iterator[pa.RecordBatch]:
    """One empty column for rows that have none; otherwise as the work itself."""
    for batch in work(message):
        marks = pa.nulls(batch.num_rows, pa.bool_())
        yield pa.RecordBatch.from_arrays([marks], schema=_MARKS)


def count_rows(work: ReadWork, message: bytes) -> Iterator[pa.RecordBatch]:
    """The number of rows of one task; raises what reading them raises."""
    with missing_explained("read", work.snapshot):
        counted = work.plan(work.portion(message)).count(WORKERS)
    yield pa.RecordBatch.from_arrays([pa.array([counted], pa.int64())], schema=_COUNTS)


@contextmanager
def missing_explained(done: str, *snapshots: Snapshot) -> Iterator[None]:
    """Have a NotFoundError say what a missing file means for a DataFrame, which cannot be ``done``
    any more: read, searched, compared."""
    try:
        yield
    except NotFoundError as missing:
        versions = [each.manifest.version for each in snapshots]
        many = "s" if len(versions) > 1 else ""
        raise NotFoundError(
            f"version{many} {' and '.join(map(str, versions))} of {snapshots[-1].location.uri} "
            f"cannot be {done} any more: {missing}. Either a version was cleaned up since the "
            "DataFrame was made: make it again, a tag keeps a version. Or this machine does not "
            "see the files: put the table where all do",
            **(missing.facts if many else {**missing.facts, "version": versions[0]}),
        ) from missing


def needs_lineage(scan: ScanPlan) -> bool:
    """Whether a scan gives, or compares, the ids or versions of rows."""
    compared = () if scan.predicate is None else scan.predicate.columns
    asked = {*scan.projection.system, *compared}
    return not asked.isdisjoint(frozenset(SYSTEM_COLUMNS) - {ROW_ADDRESS})


def without_lineage(raw: bytes, name: str) -> bytes:
    """A fragment of a manifest for tasks that need neither ids nor versions of its rows, which
    may take megabytes; ``name`` is the manifest's."""
    if len(raw) < _LARGE_FRAGMENT:
        return raw
    fragment = Fragment(decode_fragment(raw, name))
    return fragment.with_lineage(None, None, None).message.SerializeToString()
