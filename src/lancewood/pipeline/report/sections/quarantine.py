"""Rows that were bad, and why."""

from __future__ import annotations

from lancewood.pipeline.report.facts import Ending, QuarantineFacts, RunFacts
from lancewood.pipeline.report.figures import UNKNOWN, count, counted
from lancewood.pipeline.report.markup import Child, Html, data, element
from lancewood.pipeline.report.plots import amount_bar
from lancewood.pipeline.report.sections.layout import Column, code, section, table

_MOST, _MOST_CHARACTERS = 20, 600
_ON_THE_BRANCH = (Ending.CHECKS_FAILED, Ending.TOO_MANY_BAD_ROWS)
_COLUMNS = (
    Column("source or step"),
    Column("reason", "wide"),
    Column("rows", "number"),
    Column("compared", "drawing"),
)


def quarantine_section(facts: RunFacts) -> Html | None:
    """The reasons, most rows first; None where no row was bad and none could be."""
    found = facts.quarantine
    if found is None:
        return None
    if not found.rows:
        return section("Bad rows", _note(found), element("p", "No row was bad.", class_="quiet"))
    most = max((number for _, _, number in found.by_reason), default=0)
    rows: list[list[Child]] = [
        [origin, reason, count(number), amount_bar("warn", number, most)]
        for origin, reason, number in found.by_reason[:_MOST]
    ]
    place: list[Child] = [element("code", found.table)]
    if facts.ending in _ON_THE_BRANCH and not facts.batches:
        place += [" on the branch ", element("code", facts.run_branch)]
    kept = element("p", "They are kept in ", *place, ".", class_="quiet")
    told = table("Reasons", _COLUMNS, rows) if rows else None
    return section("Bad rows", _note(found), kept, told, _sample(found))


def _sample(found: QuarantineFacts) -> Html | None:
    """A few of the rows; files and lines only where some are known."""
    if not found.sample:
        return None
    has_file = any(file for _, _, file, _, _ in found.sample)
    places = [Column("file", "wide"), Column("line", "number")] if has_file else []
    row = Column("row", "value whole")
    columns = [Column("source or step"), Column("reason", "wide"), *places, row]
    rows: list[list[Child]] = []
    for origin, reason, file, line, record in found.sample[:_MOST]:
        place: list[Child] = [code(file), line or UNKNOWN] if has_file else []
        rows.append([origin, reason, *place, data(record, _MOST_CHARACTERS)])
    shown = f"{len(rows):,} of {counted(found.rows, 'bad row')}"
    return element("div", table(shown, columns, rows), class_="sample")


def _note(found: QuarantineFacts) -> str:
    told = counted(found.rows, "row")
    if not found.limit:
        return told
    return (
        f"{told}, more than allowed ({found.limit})"
        if found.is_beyond
        else (f"{told}; allowed: {found.limit}")
    )
