"""Names of tables in the SQL of a check: as the run leaves them, or with ``published.`` before the
name, as they were before it.

Views are bound to names without a qualifier (see ``frames.queries``), so a published table gets one
of those, and the rest of the text stays as it is. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lancewood.pipeline.definition.checks import PUBLISHED
from lancewood.pipeline.definition.queries import parsed_query, tables_in


@dataclass(frozen=True, order=True)
class TableName:
    """A table that a query reads."""

    table: str
    """As the query spells it."""
    is_published: bool

    @property
    def bound(self) -> str:
        """The name without a qualifier that stands for it in the text."""
        return f"{PUBLISHED}.{self.table}" if self.is_published else self.table


def table_names(sql: str) -> list[TableName]:
    """The tables that a query reads, each once, or once for each spelling."""
    found = (TableName(each.name, bool(each.db)) for each in tables_in(parsed_query(sql)))
    return list(dict.fromkeys(found))


def without_qualifiers(sql: str) -> str:
    """The query with ``published.photos`` as one name, in backticks.

    A table without an alias keeps the name that columns are qualified with: ``photos.id`` and
    ``published.photos.id`` mean what they meant.
    """
    from sqlglot import exp

    tree = parsed_query(sql)
    tables = [each for each in tables_in(tree) if each.db]
    # Behind a sample no alias can be put without reading more of Spark's grammar.
    unnamed = [each for each in tables if not each.alias and not each.args.get("sample")]
    plain = {each.name.casefold() for each in unnamed}
    edits = []
    for each in tables:
        bound = f"`{PUBLISHED}.{each.name}`"
        alias = f" AS `{each.name}`" if any(each is one for one in unnamed) else ""
        edits.append((_start(each.parts[0]), _end(each.parts[-1]), bound + alias))
    for column in tree.find_all(exp.Column):
        names = [part.name.casefold() for part in column.parts[:2]]
        if len(column.parts) > 2 and names[0] == PUBLISHED and names[1] in plain:
            edits.append((_start(column.parts[0]), _start(column.parts[1]), ""))
    for start, end, text in sorted(edits, reverse=True):
        sql = sql[:start] + text + sql[end:]
    return sql


def _start(identifier: Any) -> int:
    return int(identifier.meta["start"])


def _end(identifier: Any) -> int:
    return int(identifier.meta["end"]) + 1
