"""What Spark calls to read: it hands out partitions on the driver, and rows on executors.

Spark pickles the reader before it asks for the partitions, and sends it to every task: what only
the partitions need stays behind. There is no ``pushFilters``: Spark 4.3 would apply the filter of
one query to the next one of the same DataFrame.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import pyarrow as pa

from lancewood.spark.source.shape import BatchShape, spark_class

Work: TypeAlias = Callable[[bytes], Iterator[pa.RecordBatch]]


class Reader:
    """One planned read. ``work`` is what the tasks share, and gives the rows of a message."""

    def __init__(self, work: Work, messages: list[bytes], shape: BatchShape | None = None) -> None:
        self._work = work
        self._messages = messages
        self._shape = shape

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_messages": []}

    def partitions(self) -> list[Any]:
        """One for each task."""
        from pyspark.sql.datasource import InputPartition

        return [InputPartition(each) for each in self._messages]

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        """The rows of a partition. Spark asks for one without a value where there is none."""
        if partition.value is None:
            return
        for batch in self._work(partition.value):
            yield batch if self._shape is None else self._shape.fit(batch)


_CLASSES = {"LanceReader": (Reader, "pyspark.sql.datasource.DataSourceReader")}


def __getattr__(name: str) -> Any:
    return spark_class(globals(), _CLASSES, name)
