"""The check that a query returns no rows.

Only the tables that the query names are opened, and of those only the columns that it needs are
read. Tables go by name as the run leaves them, ``published.`` before the name means before it; one
that was not there then has no rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pyarrow as pa

from lancewood.errors import InvalidInputError
from lancewood.expr.parse import shorten
from lancewood.pipeline.checks.columns import is_readable, is_told
from lancewood.pipeline.checks.gathering import gather
from lancewood.pipeline.checks.kind import Finding, Kind, Work
from lancewood.pipeline.checks.published_names import TableName, table_names, without_qualifiers
from lancewood.pipeline.checks.query_columns import QueryColumns
from lancewood.pipeline.checks.relations import Relation, Relations
from lancewood.pipeline.checks.result_shape import shaped
from lancewood.pipeline.definition.model import Spot, SqlCheck
from lancewood.pipeline.definition.refusal import told_at, wrong
from lancewood.pipeline.frames.queries import LINES_BEFORE, Views, over_views
from lancewood.pipeline.frames.refusals import refused_at, spark_may_be_gone
from lancewood.pipeline.report.figures import counted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_MOST_CHARACTERS = 300


def _asked(check: SqlCheck) -> str:
    return f"no rows from {shorten(' '.join(check.sql.split()), _MOST_CHARACTERS)}"


def _plan(work: Work, check: SqlCheck) -> None:
    with _queried(work, check) as frame, refused_at(check.spot.at("sql"), work.pipeline):
        _ = shaped(frame).schema


def _judge(work: Work, check: SqlCheck) -> Finding:
    with _queried(work, check) as frame:
        found = gather(shaped(frame), work.pipeline.kept_rows)
    return Finding(not found.rows, counted(found.rows, "row"), found.rows, found)


@contextmanager
def _queried(work: Work, check: SqlCheck) -> Iterator[DataFrame]:
    """The result of the query, analysed; its views are there until the end of the block."""
    query = _Query(work, check.spot.at("sql"), check.sql)
    with told_at(query.spot):
        columns = QueryColumns(check.sql)
    try:
        needed = query.views(lambda schema: columns.of(schema, is_told))
        try:
            frame = query.frame(needed)
        except InvalidInputError:
            # Perhaps because of a column that was left out; else this says it with all of them.
            frame = query.frame(query.views(_readable))
        yield frame
    finally:
        query.close()


def _readable(schema: pa.Schema) -> list[str]:
    return [each.name for each in schema if is_readable(each)]


class _Query:
    """A query of a check over its tables."""

    def __init__(self, work: Work, spot: Spot, sql: str) -> None:
        self._work, self.spot = work, spot
        self._relations = _relations(work.relations, table_names(sql), spot)
        self._sql = without_qualifiers(sql)
        self._views: list[Views] = []

    def views(self, columns: Callable[[pa.Schema], list[str]]) -> dict[str, str]:
        """Views of some columns of the tables, by the names that the query has for them."""
        made = Views(self._work.spark)
        self._views.append(made)
        found: dict[str, str] = {}
        with refused_at(self.spot, self._work.pipeline):
            for number, (name, relation) in enumerate(self._relations.items()):
                rows = relation.rows(self._work.spark, columns(relation.schema))
                # A number, for names of tables may have characters that those of views may not.
                found[name] = made.named(str(number), rows)
        return found

    def frame(self, views: dict[str, str]) -> DataFrame:
        """The result, analysed."""
        before = LINES_BEFORE if views else 0
        with refused_at(self.spot, self._work.pipeline, views=views, lines_before=before):
            found = self._work.spark.sql(over_views(self._sql, views))
            _ = found.schema
        return found

    def close(self) -> None:
        for each in self._views:
            with spark_may_be_gone():
                each.close()


def _relations(relations: Relations, names: list[TableName], spot: Spot) -> dict[str, Relation]:
    """By the names that stand for them in the text, each once in one spelling."""
    found: dict[str, Relation] = {}
    for each in names:
        now = relations.now(_spelt(relations, each.table), spot)
        known = {name.casefold(): relation for name, relation in found.items()}
        same = known.get(each.bound.casefold())
        if same is not None and same.name != now.name:
            raise wrong(
                spot,
                f"{same.name!r} and {now.name!r} are two tables, and one name to SQL: make two "
                "checks of it",
            )
        if same is None:
            before = relations.before(now.name, spot) or Relation(now.name, now.schema)
            found[each.bound] = before if each.is_published else now
    return found


def _spelt(relations: Relations, table: str) -> str:
    """A table as the repository spells it, if that is clear: SQL knows no upper and lower case."""
    if relations.find_now(table) is not None:
        return table
    same = [each for each in relations.names() if each.casefold() == table.casefold()]
    return same[0] if len(same) == 1 else table


SQL = Kind("sql", _asked, _plan, _judge)
