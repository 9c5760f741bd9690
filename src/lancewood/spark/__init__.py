"""Tables in Spark: frames in and out, SQL, streams, and jobs on executors.

Importing this room does not load pyspark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lancewood.lazy_names import lazy_names

# Not lazily: once a module is loaded, its package has it under the name that the function needs.
from lancewood.spark.runner import SparkRunner, runner
from lancewood.spark.session import session

if TYPE_CHECKING:
    from lancewood.jobs.counts import RowCounts
    from lancewood.spark.columns.add import add_columns
    from lancewood.spark.dialect.querying import explain_sql
    from lancewood.spark.dialect.scripts import sql
    from lancewood.spark.diffs.conflicts import conflicts
    from lancewood.spark.diffs.diff import diff
    from lancewood.spark.reading.read import count, read
    from lancewood.spark.searching import search
    from lancewood.spark.source.metadata import metadata
    from lancewood.spark.write_frame import write
    from lancewood.spark.writing.work import Written

__all__ = [
    "RowCounts",
    "SparkRunner",
    "Written",
    "add_columns",
    "conflicts",
    "count",
    "diff",
    "explain_sql",
    "metadata",
    "read",
    "runner",
    "search",
    "session",
    "sql",
    "write",
]

_NAMES = {
    "lancewood.jobs.counts": "RowCounts",
    "lancewood.spark.columns.add": "add_columns",
    "lancewood.spark.diffs.conflicts": "conflicts",
    "lancewood.spark.diffs.diff": "diff",
    "lancewood.spark.dialect.querying": "explain_sql",
    "lancewood.spark.reading.read": "count read",
    "lancewood.spark.dialect.scripts": "sql",
    "lancewood.spark.searching": "search",
    "lancewood.spark.source.metadata": "metadata",
    "lancewood.spark.write_frame": "write",
    "lancewood.spark.writing.work": "Written",
}
__getattr__, __dir__ = lazy_names(globals(), _NAMES)
