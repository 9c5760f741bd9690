"""What every contender is asked to do, one work after the other on one table, and on which rows.

Knows the rows and the names of the works; knows no contender and no Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bench.tables import narrow_batch, wide_batch

WRITE = "write"
SCAN = "scan"
SUM = "sum of one column"
FILTERED = "1 % of the rows"
ANEW = "1 % of the rows, planned anew"
ADD = "add a column"
DELETE = "delete 1 %"
TRAVEL = "scan the first version"
BRANCH = "make a branch"
APPEND = "append 1 % to the branch"
BRANCH_SCAN = "scan the branch"
READING = (WRITE, SCAN, SUM, FILTERED, ANEW)
WORKS = (*READING, ADD, DELETE, TRAVEL, BRANCH, APPEND, BRANCH_SCAN)
"""In the order in which they are done: each finds the table as the one before left it."""
WRITING = (WRITE, ADD, DELETE, BRANCH, APPEND)

FLOATS = 64
EXTRA = "extra"
DELETED = "id % 100 = 7"
KEPT = "id % 100 <> 7"
_FILES = 8
_STEP = 100_000
_WIDE_STEP = 500
_CATEGORIES = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """Rows of one kind, and what is asked of them."""

    name: str
    what: str
    """Its columns in words."""
    make: Callable[[int, int], pa.RecordBatch]
    """So many rows from an id on."""
    step: int
    """Rows that are made at once."""
    rows: int
    """Of a table, if nobody says otherwise."""
    works: tuple[str, ...]
    summed: str
    filter: str
    """What 1 % of the rows meet."""
    filtered: tuple[str, ...]
    """The columns of them that are read."""
    extra_value: str
    floats: int = 0
    """In the column ``vector``, if there is one."""

    @property
    def schema(self) -> pa.Schema:
        return self.make(0, 1).schema


def make_source(kind: Kind, directory: Path, rows: int) -> None:
    """Parquet files that everybody writes a table from: the same ones for the same ``rows``."""
    directory.mkdir(parents=True)
    bounds = np.linspace(0, rows, _FILES + 1, dtype=np.int64).tolist()
    for number, (first, last) in enumerate(pairwise(bounds)):
        if first < last:
            path = directory / f"part-{number}.parquet"
            with pq.ParquetWriter(path, kind.schema) as writer:
                for at in range(first, last, kind.step):
                    writer.write_batch(kind.make(at, min(kind.step, last - at)))


def _mixed_batch(first: int, rows: int) -> pa.RecordBatch:
    random = np.random.default_rng(first)
    categories = pa.array([f"c{number:02}" for number in range(_CATEGORIES)])
    words = pa.array(
        [f"{word:016x}" for word in np.random.default_rng(0).integers(0, 1 << 60, 5_000)]
    )
    texts = [
        words.take(pa.array(random.integers(0, len(words), rows), pa.int64())) for _ in range(3)
    ]
    vector = pa.array(random.random(rows * FLOATS, dtype=np.float32))
    return pa.record_batch(
        {
            "id": pa.array(np.arange(first, first + rows)),
            "category": categories.take(pa.array(random.integers(0, _CATEGORIES, rows))),
            "text": pc.binary_join_element_wise(*texts, " "),
            "vector": pa.FixedSizeListArray.from_arrays(vector, FLOATS),
        }
    )


def _narrow_batch(first: int, rows: int) -> pa.RecordBatch:
    """With a moment instead of a reading of a clock, which not every peer has."""
    batch = narrow_batch(first, rows)
    moments = batch["moment"].cast(pa.timestamp("us", "UTC"))
    return batch.set_column(batch.schema.get_field_index("moment"), "moment", moments)


MIX = Kind(
    name="mix",
    what=f"a number, a category, a text and {FLOATS} floats",
    make=_mixed_batch,
    step=_STEP,
    rows=500_000,
    works=WORKS,
    summed="id",
    filter="category = 'c07'",
    filtered=("id", "text"),
    extra_value="id * 2 + length(text)",
    floats=FLOATS,
)
NARROW = Kind(
    name="narrow",
    what="int64, double, string and timestamp",
    make=_narrow_batch,
    step=_STEP,
    rows=5_000_000,
    works=READING,
    summed="value",
    filter="value < 0.01",
    filtered=("name",),
    extra_value="value * 2",
)
WIDE = Kind(
    name="wide",
    what="a number, a score, a label, 768 floats and 20 KB of noise",
    make=wide_batch,
    step=_WIDE_STEP,
    rows=20_000,
    works=READING,
    summed="score",
    filter="score < 0.01",
    filtered=("label",),
    extra_value="score * 2",
    floats=768,
)
KINDS: Mapping[str, Kind] = {each.name: each for each in (MIX, NARROW, WIDE)}
