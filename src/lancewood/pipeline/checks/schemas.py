"""The check that a table keeps its columns, or that they only became wider.

Compares what manifests say: no job runs, and there are no failing rows. A table that was not there
before is not judged.
"""

from __future__ import annotations

from lancewood.pipeline.checks.kind import Finding, Kind, Work
from lancewood.pipeline.checks.schema_changes import Change, schema_changes
from lancewood.pipeline.definition.model import SchemaCheck, SchemaRule

_MOST_TOLD = 10


def _asked(check: SchemaCheck) -> str:
    if check.rule is SchemaRule.UNCHANGED:
        return f"{check.table} has the columns that it had"
    return f"{check.table} has the columns that it had, perhaps wider, and perhaps more"


def _plan(work: Work, check: SchemaCheck) -> None:
    work.relations.now(check.table, check.spot.at("table"))


def _judge(work: Work, check: SchemaCheck) -> Finding:
    now = work.relations.now(check.table, check.spot.at("table"))
    before = work.relations.before(check.table, check.spot.at("table"))
    if before is None:
        return Finding(True, "the table is new: there is nothing to compare with")
    changes = schema_changes(before.schema, now.schema)
    wrong = [each for each in changes if not _is_fine(check, each)]
    return Finding(not wrong, _told(wrong or changes))


def _is_fine(check: SchemaCheck, change: Change) -> bool:
    return check.rule is SchemaRule.WIDENED and change.is_wider


def _told(changes: list[Change]) -> str:
    if not changes:
        return "nothing changed"
    shown = [each.text for each in changes[:_MOST_TOLD]]
    more = [f"and {len(changes) - _MOST_TOLD:,} more"] if len(changes) > _MOST_TOLD else []
    return "; ".join(shown + more)


SCHEMA = Kind("schema", _asked, _plan, _judge)
