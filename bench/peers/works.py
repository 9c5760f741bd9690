"""What every contender is asked to do, one work after the other on one table, and on which rows.

Knows the rows and the names of the works; knows no contender and no Spark.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

WRITE = "write"
SCAN = "scan"
FILTERED = "scan 1 %, two columns"
ADD = "add a column"
DELETE = "delete 1 %"
TRAVEL = "scan the first version"
BRANCH = "make a branch"
APPEND = "append 1 % to the branch"
BRANCH_SCAN = "scan the branch"
WORKS = (WRITE, SCAN, FILTERED, ADD, DELETE, TRAVEL, BRANCH, APPEND, BRANCH_SCAN)
"""In the order in which they are done: each finds the table as the one before left it."""
WRITING = (WRITE, ADD, DELETE, BRANCH, APPEND)

FLOATS = 64
COLUMNS = ("id", "category", "text", "vector")
FILTER = "category = 'c07'"
FILTERED_COLUMNS = ("id", "text")
EXTRA = "extra"
EXTRA_VALUE = "id * 2 + length(text)"
DELETED = "id % 100 = 7"
KEPT = "id % 100 <> 7"

SCHEMA = pa.schema(
    {
        "id": pa.int64(),
        "category": pa.string(),
        "text": pa.string(),
        "vector": pa.list_(pa.float32(), FLOATS),
    }
)
_FILES = 8


def make_source(directory: Path, rows: int) -> None:
    """Parquet files that everybody writes a table from: the same ones for the same ``rows``."""
    directory.mkdir(parents=True)
    bounds = np.linspace(0, rows, _FILES + 1, dtype=np.int64)
    for number in range(_FILES):
        first, last = int(bounds[number]), int(bounds[number + 1])
        if first < last:
            pq.write_table(_rows(first, last), directory / f"part-{number}.parquet")


def _rows(first: int, last: int) -> pa.Table:
    random = np.random.default_rng(first)
    count = last - first
    categories = pa.array([f"c{number:02}" for number in range(100)])
    words = pa.array([f"{word:016x}" for word in random.integers(0, 1 << 60, 5_000)])
    texts = [
        words.take(pa.array(random.integers(0, len(words), count), pa.int64())) for _ in range(3)
    ]
    vector = pa.array(random.random(count * FLOATS, dtype=np.float32))
    return pa.table(
        [
            pa.array(np.arange(first, last)),
            categories.take(pa.array(random.integers(0, 100, count))),
            pc.binary_join_element_wise(*texts, " "),
            pa.FixedSizeListArray.from_arrays(vector, FLOATS),
        ],
        schema=SCHEMA,
    )
