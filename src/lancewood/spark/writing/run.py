"""Having a frame written by executors: each partition becomes files, and answers once.

Knows frames, and what a failed Spark job means. What is written is decided in ``work``; nothing is
committed here, and nothing removed.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from lancewood.spark.batches import batches_for
from lancewood.spark.running.failures import our_error
from lancewood.spark.writing.work import ANSWER_DDL, WriteWork, write_task

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def write_rows(df: DataFrame, work: WriteWork) -> list[bytes]:
    """Write all rows of a frame, once; the answers of its partitions, in their order.

    Raises the error of ours that a task raised each time Spark tried it. What is wrong with the
    frame itself stays Spark's own exception: its owner knows those.
    """
    plan = df.mapInArrow(partial(write_task, work), ANSWER_DDL)
    try:
        with batches_for(df):
            return [bytes(each[0]) for each in plan.collect()]
    except Exception as failure:
        known = our_error(str(failure))
        if known is None:
            raise
        raise known from failure
