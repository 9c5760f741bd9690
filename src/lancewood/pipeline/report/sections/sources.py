"""What came in."""

from __future__ import annotations

from lancewood.pipeline.report.facts import RunFacts, SourceFacts
from lancewood.pipeline.report.figures import count, counted, size, total
from lancewood.pipeline.report.markup import Child, Html, element
from lancewood.pipeline.report.sections.layout import Column, code, section, table
from lancewood.pipeline.report.verdict import rows_read

_MOST = 100


def sources_section(facts: RunFacts) -> Html | None:
    """The sources, and how much was read of each; None without any."""
    if not facts.sources:
        return None
    has_since = any(each.since is not None for each in facts.sources)
    columns = [
        Column("source"),
        Column("kind"),
        Column("rows", "number"),
        Column("files", "number"),
        Column("size", "number"),
        *([Column("new since", "since")] if has_since else []),
        Column("where", "wide"),
    ]
    rows = [_row(each, has_since=has_since) for each in facts.sources[:_MOST]]
    more = len(facts.sources) - len(rows)
    return section("What came in", _note(facts), table("Sources", columns, rows, more=more))


def _row(source: SourceFacts, *, has_since: bool) -> list[Child]:
    since: list[Child] = [source.since or "everything"] if has_since else []
    return [
        source.name,
        element("span", source.kind, class_="kind"),
        count(source.rows),
        count(source.files),
        size(source.bytes),
        *since,
        code(source.where),
    ]


def _note(facts: RunFacts) -> str:
    rows, of_which = rows_read(facts.sources)
    files = total(each.files for each in facts.sources)
    told = [counted(len(facts.sources), "source")]
    if rows is not None:
        told.append(f"{count(rows)} {of_which}")
    if files is not None:
        told.append(counted(files, "file"))
    return ", ".join(told)
