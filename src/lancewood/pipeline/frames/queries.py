"""SQL of a pipeline over its frames, through views whose names nobody else in a session has.

The SQL itself is not changed: its names are bound to the views around it. So what Spark means by
aliases, CTEs and letters of either case stays what it means. Over Connect as on a classic session.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING
from uuid import uuid4

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LINES_BEFORE = 1
"""So many lines stand before the SQL in what ``over_views`` makes of it."""


def over_views(sql: str, views: Mapping[str, str]) -> str:
    """The same query, in which names are those of views; ``views`` are by such names."""
    if not views:
        return sql
    bound = ", ".join(f"`{name}` AS (SELECT * FROM `{view}`)" for name, view in views.items())
    return f"WITH {bound} (\n{without_end(sql)}\n)"


def without_end(sql: str) -> str:
    """Without semicolons behind the query, also where comments follow them."""
    from sqlglot import TokenType, tokenize

    tokens = tokenize(sql, read="spark")
    while tokens and tokens[-1].token_type is TokenType.SEMICOLON:
        last = tokens.pop()
        sql = f"{sql[: last.start]} {sql[last.start + 1 :]}"
    return sql.rstrip()


class Views:
    """Frames under names of their own in a session, until ``close``."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._prefix = f"lancewood_{uuid4().hex}"
        self._by_frame: dict[str, str] = {}

    def named(self, name: str, frame: DataFrame) -> str:
        """The view of a frame, made when it is first asked for."""
        known = self._by_frame.get(name)
        if known is None:
            known = f"{self._prefix}_{name}"
            frame.createOrReplaceTempView(known)
            self._by_frame[name] = known
        return known

    def close(self) -> None:
        """Take the views out of the session."""
        for each in self._by_frame.values():
            self._spark.catalog.dropTempView(each)
        self._by_frame.clear()
