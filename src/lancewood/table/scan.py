"""A scan that people hold: a plan that can be read in several shapes, as often as they like."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from lancewood.engine.rows import ScanPlan
from lancewood.errors import InvalidInputError, UnsupportedError


class Rows(ABC):
    """Rows that can be read in several shapes, as often as one likes."""

    @property
    @abstractmethod
    def _row_schema(self) -> pa.Schema:
        """The schema of what comes out, under whatever name people ask for it."""

    @abstractmethod
    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """The rows as record batches, within a bounded memory."""

    def to_reader(self) -> pa.RecordBatchReader:
        """The rows as a reader, for libraries that take one; closing it stops the reading.

        What goes wrong while reading comes as pyarrow's own error, with our text in it.
        """
        # Through the C stream, because a reader over a generator does not close it.
        return pa.RecordBatchReader.from_stream(_Batches(self._row_schema, self.to_batches()))

    def to_arrow(self) -> pa.Table:
        """All rows as one table in memory."""
        return pa.Table.from_batches(self.to_batches(), schema=self._row_schema)

    def to_pandas(self) -> Any:
        """All rows as a pandas DataFrame (needs pandas)."""
        return self.to_arrow().to_pandas()

    def to_polars(self) -> Any:
        """All rows as a polars DataFrame (needs polars)."""
        try:
            import polars
        except ModuleNotFoundError as cause:
            raise UnsupportedError("to_polars needs polars: pip install polars") from cause
        return polars.from_arrow(self.to_arrow())

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Arrow's C stream, its columns cast to the types that are asked for.

        Raises InvalidInputError where other columns are asked for.
        """
        batches = _Batches(self._row_schema, self.to_batches())
        return batches.__arrow_c_stream__(requested_schema)


class Scan(Rows):
    """Rows of one version, read when one of its methods asks for them."""

    def __init__(self, plan: ScanPlan) -> None:
        self._plan = plan

    @property
    def schema(self) -> pa.Schema:
        """The schema of what comes out."""
        return self._plan.schema

    _row_schema = schema

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """The rows as record batches, within a bounded memory.

        Leaving the loop, or closing the iterator, stops the threads that read ahead.
        """
        return self._plan.batches()

    def count(self) -> int:
        """How many rows there are; from the manifest alone where that is enough."""
        return self._plan.count()

    def explain(self) -> str:
        """What will be read, in words: which index tells, and on further lines why others on
        columns of the condition do not."""
        return self._plan.explain()

    def __repr__(self) -> str:
        return f"<Scan {self._plan.describe()}>"


class _Batches:
    """A generator of batches that is closed when whoever took its stream lets go of it."""

    def __init__(self, schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> None:
        self._schema = schema
        self._batches = batches

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        reader = pa.RecordBatchReader.from_batches(self._schema, self._batches)
        try:
            return reader.__arrow_c_stream__(requested_schema)
        except (pa.ArrowException, TypeError, ValueError) as cause:
            raise InvalidInputError(
                f"the columns {', '.join(self._schema.names)} cannot be converted to the "
                f"requested types: {cause}"
            ) from cause
