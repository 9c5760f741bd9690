"""All kinds of checks. A new one is a class in ``definition.model``, its keys and its reader in
``definition.checks``, a ``CheckKind`` in a module of this room, and a line here.
"""

from __future__ import annotations

from collections.abc import Mapping

from lancewood.pipeline.checks.column_checks import ACCEPTED, NOT_NULL, REFERENCES, UNIQUE
from lancewood.pipeline.checks.kind import CheckKind
from lancewood.pipeline.checks.row_counts import ROWS
from lancewood.pipeline.checks.schemas import SCHEMA
from lancewood.pipeline.checks.sql import SQL
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

KINDS: Mapping[type[Check], CheckKind] = {
    SqlCheck: SQL,
    NotNullCheck: NOT_NULL,
    UniqueCheck: UNIQUE,
    AcceptedCheck: ACCEPTED,
    RowsCheck: ROWS,
    SchemaCheck: SCHEMA,
    ReferenceCheck: REFERENCES,
}


def kind_of(check: Check) -> CheckKind:
    return KINDS[type(check)]
