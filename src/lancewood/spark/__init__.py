"""The same table SEEN FROM SPARK. Importing this room does not load pyspark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lancewood.lazy_names import lazy_names

# Not lazily: once a module is loaded, its package has it under the name that the function needs.
from lancewood.spark.runner import runner
from lancewood.spark.session import session

if TYPE_CHECKING:
    from lancewood.spark import items
    from lancewood.spark.columns.add import add_columns
    from lancewood.spark.querying.query import explain_sql, sql
    from lancewood.spark.reading.read import count, read
    from lancewood.spark.source.metadata import metadata
    from lancewood.spark.writing.write import write
    from lancewood.spark.writing.written import Written

__all__ = [
    "Written",
    "add_columns",
    "count",
    "explain_sql",
    "items",
    "metadata",
    "read",
    "runner",
    "session",
    "sql",
    "write",
]

_HOMES = {
    "add_columns": "lancewood.spark.columns.add",
    "count": "lancewood.spark.reading.read",
    "explain_sql": "lancewood.spark.querying.query",
    "read": "lancewood.spark.reading.read",
    "metadata": "lancewood.spark.source.metadata",
    "sql": "lancewood.spark.querying.query",
    "write": "lancewood.spark.writing.write",
    "Written": "lancewood.spark.writing.written",
}
__getattr__, __dir__ = lazy_names(globals(), _HOMES, rooms=("items",))
