"""Where the time went: the stages under each other, as bars from their beginning to their end."""

from __future__ import annotations

from collections.abc import Iterator

from lancewood.pipeline.report.facts import RunFacts, StageFacts
from lancewood.pipeline.report.figures import UNKNOWN, count, counted, duration, size
from lancewood.pipeline.report.markup import Child, Html, element, joined
from lancewood.pipeline.report.plots import span_bar
from lancewood.pipeline.report.sections.layout import Column, section, table
from lancewood.pipeline.report.sections.summary import mark
from lancewood.pipeline.report.verdict import Tone

_MOST = 100
_COLUMNS = (
    Column("stage"),
    Column("time", "number"),
    Column("from beginning to end of the run", "drawing long"),
    Column("rows", "number"),
    Column("files", "number"),
    Column("size", "number"),
)


def stages_section(facts: RunFacts) -> Html | None:
    """The stages in the order of the run; None without any."""
    if not facts.stages:
        return None
    spans = list(_spans(facts.stages))
    whole = max(facts.seconds, *(end for _, _, end in spans))
    rows: list[list[Child]] = [
        [
            _name(stage),
            duration(stage.seconds),
            span_bar("bad" if stage.is_failed else "span", begin, end, whole),
            count(stage.rows),
            count(stage.files),
            UNKNOWN if stage.bytes is None else size(stage.bytes),
        ]
        for stage, begin, end in spans[:_MOST]
    ]
    note = f"{counted(len(spans), 'stage')} in {duration(facts.seconds)}"
    told = table("Stages", _COLUMNS, rows, more=len(spans) - len(rows))
    return section("Where the time went", note, told)


def _name(stage: StageFacts) -> Html:
    if not stage.is_failed:
        return joined(stage.name)
    failed = element("em", "failed", class_="bad")
    return element("span", mark(Tone.BAD), element("span", stage.name, failed), class_="marked")


def _spans(stages: list[StageFacts]) -> Iterator[tuple[StageFacts, float, float]]:
    """Each stage with its beginning and end; one whose beginning is not known follows the last."""
    at = 0.0
    for each in stages:
        begin = at if each.begun is None else each.begun
        at = begin + each.seconds
        yield each, begin, at
