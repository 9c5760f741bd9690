"""Printing rows as they are read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import pyarrow as pa

from lancewood.cli.output import Output
from lancewood.cli.text_forms import plain_batch


class Rows(Protocol):
    """Rows that are read as they are asked for: a scan, or the changes of a table."""

    @property
    def schema(self) -> pa.Schema: ...

    def to_batches(self) -> Iterator[pa.RecordBatch]: ...


def print_rows(rows: Rows, output: Output) -> int:
    """Print every row; how many there were."""
    return output.rows(rows.schema.names, _rows(rows), cut=True)


def _rows(rows: Rows) -> Iterator[tuple[Any, ...]]:
    for batch in rows.to_batches():
        columns = [each.to_pylist() for each in plain_batch(batch).columns]
        yield from zip(*columns, strict=True)
