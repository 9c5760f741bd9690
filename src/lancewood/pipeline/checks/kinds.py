"""The kinds of checks: every class of ``definition.model`` and what is done for it."""

from __future__ import annotations

from collections.abc import Mapping

from lancewood.pipeline.checks.accepted import ACCEPTED
from lancewood.pipeline.checks.kind import Kind
from lancewood.pipeline.checks.not_null import NOT_NULL
from lancewood.pipeline.checks.published_names import table_names
from lancewood.pipeline.checks.references import REFERENCES
from lancewood.pipeline.checks.row_counts import ROWS
from lancewood.pipeline.checks.schemas import SCHEMA
from lancewood.pipeline.checks.sql import SQL
from lancewood.pipeline.checks.unique import UNIQUE
from lancewood.pipeline.definition.model import (
    AcceptedCheck,
    Check,
    NotNullCheck,
    ReferenceCheck,
    RowsCheck,
    SchemaCheck,
    SqlCheck,
    UniqueCheck,
)

KINDS: Mapping[type[Check], Kind] = {
    SqlCheck: SQL,
    NotNullCheck: NOT_NULL,
    UniqueCheck: UNIQUE,
    AcceptedCheck: ACCEPTED,
    RowsCheck: ROWS,
    SchemaCheck: SCHEMA,
    ReferenceCheck: REFERENCES,
}


def kind_of(check: Check) -> Kind:
    return KINDS[type(check)]


def table_of(check: Check) -> str | None:
    """The table that a check is about; a query is about none alone."""
    return getattr(check, "table", None)


def tables_seen(check: Check) -> frozenset[str]:
    """All tables that a check looks at, now or as they were, as it spells them: in SQL that may
    differ from the repository in upper and lower case."""
    if isinstance(check, SqlCheck):
        return frozenset(each.table for each in table_names(check.sql))
    other = {check.other} if isinstance(check, ReferenceCheck) else set[str]()
    table = table_of(check)
    return frozenset(other if table is None else {table, *other})
