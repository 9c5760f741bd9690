"""What was checked: what did not hold first, with rows that show it."""

from __future__ import annotations

from lancewood.pipeline.report.facts import CheckFacts, RunFacts
from lancewood.pipeline.report.markup import (
    Child,
    Html,
    count,
    data,
    duration,
    element,
    path,
    several_lines,
)
from lancewood.pipeline.report.sections.layout import (
    ReportColumn,
    code,
    not_shown,
    pairs,
    section,
    table,
)
from lancewood.pipeline.report.sections.summary import mark
from lancewood.pipeline.report.verdict import Tone, checks_text, not_passed

_MOST_NOT_PASSED, _MOST_PASSED, _MOST_SAMPLES = 100, 200, 20
_MOST_ROWS, _MOST_COLUMNS, _MOST_VALUE, _MOST_ASKED = 10, 12, 80, 1_000
_PASSED_OPEN = 25
_COLUMNS = (
    ReportColumn("check"),
    ReportColumn("what must hold", "wide"),
    ReportColumn("found", "wide"),
    ReportColumn("time", "number beside"),
)


def checks_section(facts: RunFacts) -> Html | None:
    """The checks: failed, then warned, then passed; None without any."""
    text = checks_text(facts.checks)
    if text is None:
        return None
    bad = not_passed(facts.checks)
    cards = [_card(number, each) for number, each in enumerate(bad[:_MOST_NOT_PASSED], 1)]
    rest = not_shown(len(bad) - len(cards), "check")
    return section("Checks", text, *cards, rest, _passed(facts.checks))


def _card(number: int, check: CheckFacts) -> Html:
    tone, word = (Tone.WARN, "warned") if check.is_warning else (Tone.BAD, "failed")
    name = element("span", path(check.name))
    return element(
        "article",
        element("h3", mark(tone), name, element("em", word, class_=tone)),
        pairs(
            [
                ("must hold", _asked(check.asked)),
                ("found", check.found or None),
                ("failing rows", count(check.failing_rows)),
                ("kind", check.kind),
                ("table", code(check.table)),
                ("rows kept at", code(check.kept_at)),
                ("time", duration(check.seconds)),
            ]
        ),
        _sample(check) if number <= _MOST_SAMPLES else None,
        id=f"check-{number}",
        class_=tone,
    )


def _asked(text: str) -> Html | None:
    return element("span", several_lines(text, _MOST_ASKED), class_="asked") if text else None


def _sample(check: CheckFacts) -> Html | None:
    if not check.sample or not check.columns:
        return None
    names = check.columns[:_MOST_COLUMNS]
    columns = [ReportColumn(data(each, _MOST_VALUE), "value") for each in names]
    rows: list[list[Child]] = [
        [data(each, _MOST_VALUE) for each in _filled(row, len(names))]
        for row in check.sample[:_MOST_ROWS]
    ]
    caption = f"{len(rows):,} of {check.failing_rows:,} failing rows"
    left_out = len(check.columns) - len(names)
    if left_out > 0:
        caption += f", {len(names)} of {len(check.columns):,} columns"
    return table(caption, columns, rows)


def _filled(row: tuple[str, ...], width: int) -> tuple[str, ...]:
    return (*row[:width], *[""] * (width - len(row)))


def _passed(checks: list[CheckFacts]) -> Html | None:
    passed = [each for each in checks if each.is_passed]
    if not passed:
        return None
    rows: list[list[Child]] = [
        [
            element("span", mark(Tone.GOOD), element("span", path(each.name)), class_="marked"),
            _asked(each.asked),
            each.found,
            duration(each.seconds),
        ]
        for each in passed[:_MOST_PASSED]
    ]
    more = len(passed) - len(rows)
    return element(
        "details",
        element("summary", f"{len(passed):,} passed"),
        table("Checks that passed", _COLUMNS, rows, more=more),
        open="" if len(passed) <= _PASSED_OPEN else None,
    )
