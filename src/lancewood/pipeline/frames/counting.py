"""How many rows came in, counted by Spark while it reads them for other reasons.

A count that no job has come by is not known: nobody waits for it for long. Over Connect a job
brings it only if the frame was used without SQL of ours in between, for the client does not see
what is behind a view.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from lancewood.pipeline.frames.refusals import spark_errors
from lancewood.spark.tasks import is_connect

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_ROWS = "rows"
_PATIENCE_SECONDS = 0.5
_PAUSE_SECONDS = 0.01


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
