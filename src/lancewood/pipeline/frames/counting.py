"""How many rows came in, counted by Spark while it reads them for other reasons.

A count that no job has come by is not known: nobody waits for it for long. Over Connect a job
brings it only if the frame was used without SQL of ours in between, for the client does not see
what is behind a view.
"""

from __future__ import annotations

import time
from functools import cached_property
from typing import TYPE_CHECKING, Any

from lancewood.pipeline.definition.model import Source
from lancewood.pipeline.frames.refusals import spark_errors
from lancewood.spark.tasks import is_connect

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_ROWS = "rows"
_PATIENCE_SECONDS = 0.5
_PAUSE_SECONDS = 0.01
_BY_COLUMNS = frozenset(["parquet", "orc"])
"""Formats that Spark reads column by column, and that say how many rows they have."""
_WHOLE_FILES = "binaryfile"


class RowCount:
    """Counts the rows of a frame the first time that it is evaluated."""

    def __init__(self) -> None:
        from pyspark.sql import Observation

        self._observation: Any = Observation()
        self._is_connect = False
        self._patience = _PATIENCE_SECONDS

    def of(self, frame: DataFrame) -> DataFrame:
        """The frame to be used from now on."""
        from pyspark.sql import functions as F

        self._is_connect = is_connect(frame.sparkSession)
        return frame.observe(self._observation, F.count(F.lit(1)).alias(_ROWS))

    def value(self) -> int | None:
        """The count; None if no job has evaluated the frame, or none to its end."""
        try:
            if not self._is_connect and not self._has_arrived():
                return None
            found = self._observation.get.get(_ROWS)
        except spark_errors():  # the optimizer has left the frame out
            return None
        return None if found is None else int(found)

    def _has_arrived(self) -> bool:
        """Spark tells of a job that has ended a moment later; it is waited for once."""
        future = self._observation._jo.future()
        end, self._patience = time.monotonic() + self._patience, 0.0
        while not future.isCompleted():
            if time.monotonic() > end:
                return False
            time.sleep(_PAUSE_SECONDS)
        return True


class RowsOfFiles:
    """The rows of files that say it themselves: one each, or what a small job of Spark's finds in
    their footers. Not known of those in partitions: a run may have read few of them."""

    def __init__(self, frame: DataFrame, source: Source) -> None:
        self._frame, self._source = frame, source

    def value(self) -> int | None:
        """The count; None if it is not known."""
        return self._value

    @cached_property
    def _value(self) -> int | None:
        if (self._source.format or "").casefold() == _WHOLE_FILES:
            return files_and_bytes(self._frame)[0]
        if not is_by_columns(self._source) or _has_partitions(self._frame):
            return None
        try:
            return self._frame.count()
        except spark_errors():  # one of them is gone by now
            return None


def is_by_columns(source: Source) -> bool:
    """Whether a part of a source is cheap to read."""
    return (source.format or "").casefold() in _BY_COLUMNS


def is_read_whole(frame: DataFrame, source: Source) -> bool:
    """Whether Spark reads every row of a source, whatever is asked of them: then to count them
    costs nothing. So it is with files of rows, unless they lie in partitions."""
    format = (source.format or "").casefold()
    if not source.paths or is_by_columns(source) or format == _WHOLE_FILES:
        return False
    return not _has_partitions(frame)


def _has_partitions(frame: DataFrame) -> bool:
    """Whether directories say something of the rows in them (``day=7``), or Spark does not tell."""
    if is_connect(frame.sparkSession):
        return True
    java: Any = frame._jdf
    try:
        leaves = java.queryExecution().analyzed().collectLeaves()
        found = [leaves.apply(at).relation().partitionSchema() for at in range(leaves.size())]
        return any(not each.isEmpty() for each in found)
    except spark_errors():  # no files
        return True


def files_and_bytes(frame: DataFrame) -> tuple[int | None, int | None]:
    """How many files a frame of ``spark.read`` has, and how large they are, as Spark has listed
    them; not known over Connect, and for what is not in files."""
    if is_connect(frame.sparkSession):
        return None, None
    java: Any = frame._jdf
    try:
        files = len(java.inputFiles())
        size = int(java.queryExecution().optimizedPlan().stats().sizeInBytes())
    except spark_errors():
        return None, None
    return (files, size) if files else (None, None)
