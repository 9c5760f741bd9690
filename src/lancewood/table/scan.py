"""A scan that people hold: a plan that can be read in several shapes, as often as they like."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from lancewood.engine.scan import ScanPlan


class Scan:
    """Rows of one version, read when one of its methods asks for them."""

    def __init__(self, plan: ScanPlan) -> None:
        self._plan = plan

    @property
    def schema(self) -> pa.Schema:
        """The schema of what comes out."""
        return self._plan.schema

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """The rows as record batches, within a bounded memory."""
        return self._plan.batches()

    def to_reader(self) -> pa.RecordBatchReader:
        """The same as a reader, for libraries that take one."""
        return pa.RecordBatchReader.from_batches(self.schema, self._plan.batches())

    def to_arrow(self) -> pa.Table:
        """All rows as one table in memory."""
        return pa.Table.from_batches(self._plan.batches(), schema=self.schema)

    def to_pandas(self) -> Any:
        """All rows as a pandas DataFrame (needs pandas)."""
        return self.to_arrow().to_pandas()

    def count(self) -> int:
        """How many rows there are; from the manifest alone where that is enough."""
        return self._plan.count()

    def explain(self) -> str:
        """What will be read, in words."""
        return self._plan.explain()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        return f"<Scan {self.explain()}>"
