"""Printing the rows of a scan as they are read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import lancewood as lw
from lancewood.cli.output import Output
from lancewood.cli.text_forms import plain_batch


def print_rows(scan: lw.Scan, output: Output) -> int:
    """Print every row; how many there were."""
    return output.rows(scan.schema.names, _rows(scan), cut=True)


def _rows(scan: lw.Scan) -> Iterator[tuple[Any, ...]]:
    for batch in scan.to_batches():
        columns = [each.to_pylist() for each in plain_batch(batch).columns]
        yield from zip(*columns, strict=True)
