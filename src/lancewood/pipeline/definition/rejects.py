"""``bad`` and ``reject``: which rows of a source or a step are bad, and why."""

from __future__ import annotations

from lancewood.pipeline.definition.model import Reject
from lancewood.pipeline.definition.queries import check_expression
from lancewood.pipeline.definition.refusal import told_at
from lancewood.pipeline.definition.section import Section

KEYS = ("where", "reason")


def read_rejects(section: Section) -> tuple[Reject, ...]:
    """Those of a source or a step, in the order of the file."""
    return tuple(_read(each) for each in section.tables("reject", KEYS))


def read_expression(section: Section, key: str) -> str | None:
    """A key that holds a Spark SQL expression over the columns of one frame."""
    found = section.sql(key)
    if found is not None:
        with told_at(section.spot.at(key)):
            check_expression(found)
    return found


def _read(section: Section) -> Reject:
    section.needed_sql("where")
    where = read_expression(section, "where")
    return Reject(str(where), section.needed_text("reason"), section.spot)
