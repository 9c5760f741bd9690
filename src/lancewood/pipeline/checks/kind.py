"""What a kind of check is, and how failing rows are counted and sampled in one Spark job.

Each task answers with its number of rows and the first few of them. One more task joins these
answers, and only its result reaches the driver. Kept rows are the first ones in the order of the
frame's partitions; every step is bounded in rows and in bytes.
"""

from __future__ import annotations

import json
from bisect import insort
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lancewood.pipeline.checks.tables import CheckedTable, CheckedTables, cell_text, cut_cells
from lancewood.pipeline.definition.model import Pipeline, Spot
from lancewood.pipeline.report.markup import counted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


MOST_SHOWN = 10
_MOST_BYTES_OF_A_TASK = 8 * 1024 * 1024
_MOST_BYTES = 32 * 1024 * 1024
_ANSWER = pa.schema(
    [
        ("partition", pa.int32()),
        ("rows", pa.int64()),
        ("weight", pa.int64()),
        ("kept", pa.binary()),
        ("kept_rows", pa.int64()),
        ("shown", pa.string()),
    ]
)
_SPARK_ANSWER = "partition int, rows long, weight long, kept binary, kept_rows long, shown string"


@dataclass(frozen=True)
class Gathered:
    """The failing rows: how many there are, and some of them."""

    rows: int
    weight: int
    """The sum of the ``weight`` column; 0 without one."""
    columns: tuple[str, ...]
    kept: pa.Table | None
    """The first rows; None if none are kept."""
    shown: tuple[tuple[str, ...], ...]
    """The first few rows, as short texts."""


@dataclass(frozen=True)
class CheckWork:
    """What a check works with."""

    spark: SparkSession
    pipeline: Pipeline
    relations: CheckedTables

    def now(self, table: str, spot: Spot) -> CheckedTable:
        """The table that a check at a spot is about, as the run leaves it."""
        return self.relations.now(table, spot.at("table"))


@dataclass(frozen=True)
class Finding:
    """The result of a check."""

    is_passed: bool
    found: str
    """The figure, in words."""
    failing_rows: int = 0
    gathered: Gathered | None = None
    """The failing rows, if the check looks at rows."""


@dataclass(frozen=True)
class CheckKind:
    """One kind of check; ``kinds.KINDS`` lists them all."""

    word: str
    """The value of ``CheckFacts.kind``."""
    asked: Callable[[Any], str]
    """What must hold, in words."""
    plan: Callable[[CheckWork, Any], None]
    """Raise InvalidInputError, starting with the spot, for a check that could not be judged."""
    judge: Callable[[CheckWork, Any], Finding]
    """Run the check, with at most one Spark job."""


def in_table(table: str, columns: tuple[str, ...]) -> str:
    """Columns as people write them: ``photos.id``, ``labels (photo, label)``."""
    return f"{table}.{columns[0]}" if len(columns) == 1 else f"{table} ({', '.join(columns)})"


def find_failing(
    work: CheckWork,
    relation: CheckedTable,
    failing: Callable[[], DataFrame],
    weight: str | None = None,
) -> Finding:
    """Count the failing rows and keep some; ``failing`` makes their frame. An empty table passes
    without being read. With ``weight`` the rows of the frame are keys, and it says how many rows of
    the table have each."""
    total = relation.count()
    if not total:
        return Finding(True, "0 of 0 rows")
    found = gather(failing(), work.pipeline.kept_rows, weight)
    rows = found.rows if weight is None else found.weight
    text = f"{rows:,} of {counted(total, 'row')}"
    if weight is not None and found.rows:
        text = f"{text} have {counted(found.rows, 'key')} that others have, too"
    return Finding(not found.rows, text, rows, found)


def gather(frame: DataFrame, most_rows: int, weight: str | None = None) -> Gathered:
    """Count the rows of a frame and keep at most ``most_rows``; ``weight`` names an integer column
    to sum over all rows."""
    first: Any = partial(_seen, most_rows, weight)
    joined: Any = partial(_joined, most_rows)
    for each in (first, joined):
        each.__name__ = "failing rows"
    answers = frame.mapInArrow(first, _SPARK_ANSWER).repartition(1)
    found = answers.mapInArrow(joined, _SPARK_ANSWER).collect()
    columns = tuple(frame.columns)
    # An empty frame may have no task at all.
    if not found or not found[0]["rows"]:
        return Gathered(0, 0, columns, None, ())
    answer = found[0]
    kept = pa.ipc.open_stream(bytes(answer["kept"])).read_all() if answer["kept_rows"] else None
    shown = tuple(tuple(each) for each in json.loads(answer["shown"]))
    return Gathered(answer["rows"], answer["weight"], columns, kept, shown)


@dataclass(order=True)
class _Answer:
    partition: int
    rows: int
    weight: int
    kept: bytes
    kept_rows: int
    shown: str

    def encode(self) -> pa.RecordBatch:
        values = [getattr(self, name) for name in _ANSWER.names]
        arrays = [pa.array([one], kind) for one, kind in zip(values, _ANSWER.types, strict=True)]
        return pa.record_batch(arrays, schema=_ANSWER)


def _seen(
    most_rows: int, weight: str | None, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Runs on an executor: the answer for one partition."""
    rows = total = 0
    room, left = most_rows, _MOST_BYTES_OF_A_TASK
    kept: list[pa.RecordBatch] = []
    shown: list[list[str]] = []
    for batch in batches:
        rows += batch.num_rows
        if weight is not None:
            total += pc.sum(batch.column(weight)).as_py() or 0
        for at in range(min(batch.num_rows, MOST_SHOWN - len(shown))):
            shown.append([cell_text(each[at]) for each in batch.columns])
        if room:
            wanted = min(room, batch.num_rows)
            first = _within(cut_cells(batch.slice(0, wanted)), left)
            kept.append(first)
            left -= first.nbytes
            room = room - wanted if first.num_rows == wanted and left > 0 else 0
    if rows:
        count = sum(each.num_rows for each in kept)
        answer = _Answer(_partition(), rows, total, _encode(kept), count, json.dumps(shown))
        yield answer.encode()


def _within(batch: pa.RecordBatch, most_bytes: int) -> pa.RecordBatch:
    """The first rows of a batch that fit, at least one."""
    while batch.num_rows > 1 and batch.nbytes > most_bytes:
        batch = batch.slice(0, batch.num_rows // 2)
    return batch


def _joined(most_rows: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Runs on an executor: one answer from those of all partitions."""
    first: list[_Answer] = []
    rows = weight = 0
    for batch in batches:
        for each in batch.to_pylist():
            answer = _Answer(**each)
            rows, weight = rows + answer.rows, weight + answer.weight
            insort(first, answer)
            del first[_enough(first, most_rows) :]
    tables = [pa.ipc.open_stream(each.kept).read_all() for each in first if each.kept_rows]
    kept = pa.concat_tables(tables).slice(0, most_rows).to_batches() if tables else []
    count = sum(each.num_rows for each in kept)
    shown = [row for each in first for row in json.loads(each.shown)][:MOST_SHOWN]
    yield _Answer(0, rows, weight, _encode(kept), count, json.dumps(shown)).encode()


def _enough(answers: list[_Answer], most_rows: int) -> int:
    """Number of first answers that hold everything that is kept and shown."""
    rows = size = 0
    for at, each in enumerate(answers):
        rows, size = rows + each.rows, size + len(each.kept)
        if rows >= max(most_rows, MOST_SHOWN) or size >= _MOST_BYTES:
            return at + 1
    return len(answers)


def _encode(batches: list[pa.RecordBatch]) -> bytes:
    if not batches:
        return b""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batches[0].schema) as writer:
        for each in batches:
            writer.write_batch(each)
    return bytes(sink.getvalue())


def _partition() -> int:
    from pyspark import TaskContext

    context = TaskContext.get()
    return 0 if context is None else context.partitionId()
