"""The check that a query returns no rows.

A table name means the table as the run leaves it, and ``published.name`` the one before the run,
which has no rows if it did not exist. Views can only be bound to unqualified names (see
``frames.functions``), so each published table gets such a name, and the rest of the text stays.

Only columns that the query needs are read. A column that the text does not mention is left out,
unless something in the query stands for all columns. A plain ``*`` in the outermost SELECT has no
influence on which rows there are: small columns are shown then, and large ones left out. In doubt
all columns are read. Column types that no table can hold are kept as text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lancewood.errors import InvalidInputError, UnsupportedError
from lancewood.pipeline.checks.kind import CheckKind, CheckWork, Finding, gather
from lancewood.pipeline.checks.tables import (
    CheckedTable,
    CheckedTables,
    is_readable,
    is_shown,
    is_small,
)
from lancewood.pipeline.definition.checks import PUBLISHED
from lancewood.pipeline.definition.model import Spot, SqlCheck
from lancewood.pipeline.definition.names import errors_at, parsed_query, tables_in, wrong
from lancewood.pipeline.frames.functions import LINES_BEFORE, Views, over_views
from lancewood.pipeline.frames.refusals import refused_at, spark_may_be_gone
from lancewood.pipeline.report.markup import counted
from lancewood.spark.types import Writing
from lancewood.table import is_column_name, shorten

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


Shown = Callable[[pa.Field], bool]
_WHOLE_ROWS = frozenset(["NATURAL", "PIVOT", "UNPIVOT", "TABLE", "TRANSFORM", "|>"])
"""Words by which a query refers to columns that it does not name."""
_MOST_CHARACTERS = 300


@dataclass(frozen=True, order=True)
class TableName:
    """A table that a query reads."""

    table: str
    """The name as the query spells it."""
    is_published: bool

    @property
    def bound(self) -> str:
        """The unqualified name that stands for the table in the text."""
        return f"{PUBLISHED}.{self.table}" if self.is_published else self.table


def table_names(sql: str) -> list[TableName]:
    """The tables that a query reads, each spelling once."""
    found = (TableName(each.name, bool(each.db)) for each in tables_in(parsed_query(sql)))
    return list(dict.fromkeys(found))


def without_qualifiers(sql: str) -> str:
    """The query with ``published.photos`` as one name, in backticks.

    A table without an alias gets its own name as alias, so ``photos.id`` and
    ``published.photos.id`` keep their meaning.
    """
    from sqlglot import exp

    tree = parsed_query(sql)
    tables = [each for each in tables_in(tree) if each.db]
    # Placing an alias after a sample would take more of Spark's grammar.
    unnamed = [each for each in tables if not each.alias and not each.args.get("sample")]
    plain = {each.name.casefold() for each in unnamed}
    edits = []
    for each in tables:
        bound = f"`{PUBLISHED}.{each.name}`"
        alias = f" AS `{each.name}`" if any(each is one for one in unnamed) else ""
        end = int(each.parts[-1].meta["end"]) + 1
        edits.append((_start(each.parts[0]), end, bound + alias))
    for column in tree.find_all(exp.Column):
        names = [part.name.casefold() for part in column.parts[:2]]
        if len(column.parts) > 2 and names[0] == PUBLISHED and names[1] in plain:
            edits.append((_start(column.parts[0]), _start(column.parts[1]), ""))
    for start, end, text in sorted(edits, reverse=True):
        sql = sql[:start] + text + sql[end:]
    return sql


def _start(identifier: Any) -> int:
    return int(identifier.meta["start"])


class QueryColumns:
    """The columns that one query needs."""

    def __init__(self, sql: str) -> None:
        from sqlglot import exp, tokenize

        self._text = sql.casefold()
        tree = parsed_query(sql)
        # count(*) looks at no column; count(t.*) does.
        stars = [each for each in tree.find_all(exp.Star) if not isinstance(each.parent, exp.Count)]
        words = {each.text.upper() for each in tokenize(sql, read="spark")}
        # Columns of a table may be named by position, as in ``photos AS p (a, b)``.
        has_positions = any(
            each.args.get("columns") and isinstance(each.parent, exp.Table)
            for each in tree.find_all(exp.TableAlias)
        )
        is_outer = all(_is_outer(each, tree) for each in stars)
        self._is_open = bool(not is_outer or words & _WHOLE_ROWS or has_positions)
        self._has_star = bool(stars)

    def of(self, schema: pa.Schema, is_shown: Shown | None = None) -> list[str]:
        """The columns of a table that must be read, at least one, in table order.

        ``is_shown`` says which columns a star shows; by default the small ones.
        """
        is_shown = is_shown or (lambda field: is_small(field.type))
        if self._is_open:
            return list(schema.names)
        found = []
        for each in schema:
            name = re.escape(each.name.casefold())
            is_named = re.search(rf"(?<!\w){name}(?!\w)", self._text) is not None
            if is_named or (self._has_star and is_shown(each)):
                found.append(each.name)
        if found:
            return found
        # A query that only counts rows: the column that is read most cheaply.
        small = [each for each in schema if is_small(each.type)]
        fixed = [each for each in small if pa.types.is_primitive(each.type)]
        return [each.name for each in (fixed or small or list(schema))[:1]]


def _is_outer(star: Any, tree: Any) -> bool:
    """Whether a star only decides what is shown of the rows, not which rows there are."""
    from sqlglot import exp

    if not isinstance(tree, exp.Select) or tree.args.get("distinct") or tree.args.get("group"):
        return False
    shown = star.parent if isinstance(star.parent, exp.Column) else star
    return any(each is shown for each in tree.expressions)


def shaped(frame: DataFrame) -> DataFrame:
    """The frame with column names and types that a table can hold."""
    from pyspark.sql import functions

    names = allowed_names(frame.columns)
    kinds = [each.dataType for each in frame.schema]
    if names == frame.columns and all(map(_is_kept, kinds)):
        return frame
    renamed = frame.toDF(*names)
    columns = [
        functions.col(f"`{name}`")
        if _is_kept(kind)
        else functions.col(f"`{name}`").cast("string").alias(name)
        for name, kind in zip(names, kinds, strict=True)
    ]
    return renamed.select(*columns)


def allowed_names(names: Sequence[str]) -> list[str]:
    """Names for the columns of a table: a duplicate gets a number, a name that is not allowed is
    replaced by its position."""
    found: list[str] = []
    taken: set[str] = set()
    for number, name in enumerate(names, 1):
        wanted = plain = name if is_column_name(name) else f"column_{number}"
        again = 1
        while wanted.casefold() in taken:
            again += 1
            wanted = f"{plain}_{again}"
        taken.add(wanted.casefold())
        found.append(wanted)
    return found


def _is_kept(kind: Any) -> bool:
    from pyspark.sql.types import StructField, StructType

    try:
        Writing(StructType([StructField("value", kind)]))
    except (InvalidInputError, UnsupportedError):
        return False
    return True


def _asked(check: SqlCheck) -> str:
    return f"no rows from {shorten(' '.join(check.sql.split()), _MOST_CHARACTERS)}"


def _plan(work: CheckWork, check: SqlCheck) -> None:
    with _queried(work, check) as frame, refused_at(check.spot.at("sql"), work.pipeline):
        _ = shaped(frame).schema


def _judge(work: CheckWork, check: SqlCheck) -> Finding:
    with _queried(work, check) as frame:
        found = gather(shaped(frame), work.pipeline.kept_rows)
    return Finding(not found.rows, counted(found.rows, "row"), found.rows, found)


@contextmanager
def _queried(work: CheckWork, check: SqlCheck) -> Iterator[DataFrame]:
    """The analysed result of the query; its views exist until the end of the block."""
    query = _Query(work, check.spot.at("sql"), check.sql)
    with errors_at(query.spot):
        columns = QueryColumns(check.sql)
    try:
        needed = query.views(lambda schema: columns.of(schema, is_shown))
        try:
            frame = query.frame(needed)
        except InvalidInputError:
            # Perhaps a column is missing that was left out; if not, this raises the same.
            readable = query.views(lambda schema: [e.name for e in schema if is_readable(e)])
            frame = query.frame(readable)
        yield frame
    finally:
        query.close()


class _Query:
    """The query of a check, over its tables."""

    def __init__(self, work: CheckWork, spot: Spot, sql: str) -> None:
        self._work, self.spot = work, spot
        self._relations = _relations(work.relations, table_names(sql), spot)
        self._sql = without_qualifiers(sql)
        self._views: list[Views] = []

    def views(self, columns: Callable[[pa.Schema], list[str]]) -> dict[str, str]:
        """Views of some columns of the tables, by the names that the query uses."""
        made = Views(self._work.spark)
        self._views.append(made)
        found: dict[str, str] = {}
        with refused_at(self.spot, self._work.pipeline):
            for number, (name, relation) in enumerate(self._relations.items()):
                rows = relation.rows(self._work.spark, columns(relation.schema))
                # A number: table names may have characters that view names may not.
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


def _relations(
    relations: CheckedTables, names: list[TableName], spot: Spot
) -> dict[str, CheckedTable]:
    """The tables by the names that stand for them in the text, one spelling each."""
    found: dict[str, CheckedTable] = {}
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
            before = relations.before(now.name, spot) or CheckedTable(now.name, now.schema)
            found[each.bound] = before if each.is_published else now
    return found


def _spelt(relations: CheckedTables, table: str) -> str:
    """A table as the repository spells it, if that is clear: SQL ignores case."""
    if relations.find_now(table) is not None:
        return table
    same = [each for each in relations.names() if each.casefold() == table.casefold()]
    return same[0] if len(same) == 1 else table


SQL = CheckKind("sql", _asked, _plan, _judge)
