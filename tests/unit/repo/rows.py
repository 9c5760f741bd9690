"""Rows of a single column, for tests that only count and compare them."""

from __future__ import annotations

import pyarrow as pa


def rows(*values: int) -> pa.Table:
    return pa.table({"id": pa.array(values, pa.int64())})
