"""The top of the page: how the run ended, where it is published, how long it took. Its end: stages,
earlier runs, commits, parameters, what to do next.
"""

from __future__ import annotations

from collections.abc import Iterator

from lancewood.pipeline.report.commit_graph import MOST_LINES, commit_graph
from lancewood.pipeline.report.facts import Ending, PastRun, RunFacts, StageFacts
from lancewood.pipeline.report.lines import (
    CHANGES,
    RunVerdict,
    Tone,
    is_published,
    not_passed,
    own_branch,
    row_changes,
    rows_read,
    verdict,
)
from lancewood.pipeline.report.markup import (
    UNKNOWN,
    Child,
    Html,
    count,
    counted,
    day,
    duration,
    element,
    joined,
    moment,
    several_lines,
    short_hash,
    size,
)
from lancewood.pipeline.report.sections.layout import (
    ReportColumn,
    code,
    line_plot,
    not_shown,
    pairs,
    scrolled,
    section,
    span_bar,
    table,
)

_MOST_ERROR = 8_000
_MOST_REASONS = 5
_MARKS = {
    Tone.GOOD: "M7 12.5l3.4 3.4L17 9",
    Tone.QUIET: "M7.5 12h9",
    Tone.WARN: "M12 7v6.2M12 16.6v.4",
    Tone.BAD: "M8.5 8.5l7 7M15.5 8.5l-7 7",
}


def summary_section(facts: RunFacts) -> Html:
    """The verdict and its figures; an error, if there was one."""
    found = verdict(facts)
    return element(
        "header",
        element("p", element("b", facts.pipeline), " · run ", code(facts.run), class_="over"),
        element("h1", mark(found.tone), element("span", found.title)),
        element("p", *_spaced(found.sentences), class_="lead"),
        _why(facts),
        _error(facts),
        _figures(facts),
        _where(facts),
        class_=f"verdict {found.tone}",
    )


def mark(tone: Tone) -> Html:
    """The sign of a tone: a tick, a dash, an exclamation mark, a cross."""
    return element(
        "svg",
        element("circle", cx=12, cy=12, r=11),
        element("path", d=_MARKS[tone]),
        class_=f"mark {tone}",
        viewBox="0 0 24 24",
        aria_hidden="true",
    )


def title_of(facts: RunFacts, found: RunVerdict) -> str:
    """What a tab of a browser shows."""
    return f"{found.title} · {facts.pipeline} {facts.run}"


def _spaced(sentences: tuple[str, ...]) -> list[Html]:
    """Apart from each other: one that names something very long leaves room for the others."""
    return [joined(each, " ") for each in sentences]


def _why(facts: RunFacts) -> Html | None:
    """The first checks that did not hold, each with a link to its details below."""
    bad = not_passed(facts.checks)
    if not bad:
        return None
    parts = [
        element(
            "li",
            element("a", each.name, href=f"#check-{number}"),
            joined(": ", each.found) if each.found else None,
        )
        for number, each in enumerate(bad[:_MOST_REASONS], 1)
    ]
    more = len(bad) - len(parts)
    rest = element("li", f"and {more:,} more") if more else None
    return element("ul", *parts, rest, class_="why")


def _error(facts: RunFacts) -> Html | None:
    if facts.error is None:
        return None
    return element("pre", several_lines(facts.error, _MOST_ERROR), class_="error", tabindex=0)


def _figures(facts: RunFacts) -> Html:
    """A few large numbers, each under its name."""
    parts: list[tuple[str, str]] = [("took", duration(facts.seconds))]
    rows_in, of_which = rows_read(facts.sources)
    if rows_in is not None:
        parts.append((of_which, count(rows_in)))
    words = CHANGES
    if not is_published(facts):
        words = ("to insert", "to update", "to delete", "to replace")
    for name, number in zip(words, row_changes(facts.targets), strict=True):
        if number:
            parts.append((name, count(number)))
    if facts.checks:
        passed = len(facts.checks) - len(not_passed(facts.checks))
        parts.append(("checks passed", f"{passed:,} of {len(facts.checks):,}"))
    if facts.quarantine is not None:
        parts.append(("bad rows", count(facts.quarantine.rows)))
    return pairs(parts, class_="figures")


def _where(facts: RunFacts) -> Html:
    commit = None
    if facts.commit is not None:
        commit = element("code", short_hash(facts.commit), title=facts.commit)
    base = None
    if facts.base_commit is not None:
        base = element("code", short_hash(facts.base_commit), title=facts.base_commit)
    attempts = f" ({counted(facts.attempts, 'attempt')})" if facts.attempts > 1 else ""
    return pairs(
        [
            ("commit", commit),
            ("tag", code(facts.tag)),
            ("branch", code(facts.branch)),
            ("built on", base),
            ("run's branch", None if facts.commit is not None else code(own_branch(facts))),
            ("started", joined(moment(facts.started), attempts)),
            ("repository", code(facts.repository)),
            ("file", code(facts.file) if facts.file else None),
        ]
    )


_MOST_TABLES, _MOST_RUNS = 24, 60
_MOST_PAIRS, _MOST_COMMANDS = 100, 20
_MOST_STAGES = 100
_COLUMNS = (
    ReportColumn("stage"),
    ReportColumn("time", "number"),
    ReportColumn("from beginning to end of the run", "drawing long"),
    ReportColumn("rows", "number"),
    ReportColumn("files", "number"),
    ReportColumn("size", "number"),
)


def stages_section(facts: RunFacts) -> Html | None:
    """The stages as bars over time; None if there are none."""
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
        for stage, begin, end in spans[:_MOST_STAGES]
    ]
    note = f"{counted(len(spans), 'stage')} in {duration(facts.seconds)}"
    text = table("Stages", _COLUMNS, rows, more=len(spans) - len(rows))
    return section("Where the time went", note, text)


def _name(stage: StageFacts) -> Html:
    if not stage.is_failed:
        return joined(stage.name)
    failed = element("em", "failed", class_="bad")
    return element("span", mark(Tone.BAD), element("span", stage.name, failed), class_="marked")


def _spans(stages: list[StageFacts]) -> Iterator[tuple[StageFacts, float, float]]:
    """Each stage with its beginning and end; with an unknown beginning it follows the one
    before."""
    at = 0.0
    for each in stages:
        begin = at if each.begun is None else each.begun
        at = begin + each.seconds
        yield each, begin, at


def past_section(facts: RunFacts) -> Html | None:
    """A small row-count plot for each table that this run wrote; None without earlier runs."""
    past = [each for each in facts.past if each.run != facts.run][-_MOST_RUNS:]
    now = {each.table: each.rows_after for each in facts.targets}
    tables = [each for each in now if any(each in run.rows for run in past)]
    if not tables:
        return None
    is_published = facts.ending is Ending.PUBLISHED
    plots = [
        _figure(each, past, now[each], is_published=is_published) for each in tables[:_MOST_TABLES]
    ]
    note = f"this run and {counted(len(past), 'run')} before it, drawn from zero"
    more = not_shown(len(tables) - len(plots), "table")
    return section("Rows over time", note, element("div", *plots, class_="plots"), more)


def _figure(table: str, past: list[PastRun], now: int | None, *, is_published: bool) -> Html:
    known = [each for each in past if table in each.rows]
    values = [each.rows[table] for each in known]
    if now is not None:
        values.append(now)
    first = f"{count(values[0])} rows on {day(known[0].seconds_since_epoch)}"
    last = f"{count(values[-1])} rows {'now' if is_published else 'in this run, not published'}"
    hollow = now is not None and not is_published
    words = element("figcaption", element("b", table), element("span", f"{count(values[-1])} rows"))
    ends = element(
        "p",
        element("span", day(known[0].seconds_since_epoch)),
        element("span", f"{count(min(values))} to {count(max(values))}"),
        element("span", "now" if is_published else "not published"),
    )
    plot = line_plot(values, f"{table}: {first}, {last}", is_last_hollow=hollow)
    return element("figure", words, plot, ends)


def history_section(facts: RunFacts) -> Html | None:
    """The newest commits of the branch; None before the first."""
    if not facts.graph:
        return None
    drawn = commit_graph(facts.graph, facts.commit)
    box = scrolled(drawn, "Commit graph")
    more = not_shown(len(facts.graph) - MOST_LINES, "line")
    return section("History", f"newest commits of {facts.branch}", box, more)


def setting_section(facts: RunFacts) -> Html | None:
    """Parameters and versions side by side; None if there are neither."""
    boxes = [
        _box(title, found)
        for title, found in (("Parameters", facts.parameters), ("Versions", facts.versions))
        if found
    ]
    if not boxes:
        return None
    return section("How it was run", None, element("div", *boxes, class_="boxes"))


def next_section(facts: RunFacts) -> Html | None:
    """Commands to type next; None if there are none."""
    if not facts.what_next:
        return None
    commands = [element("li", code(each)) for each in facts.what_next[:_MOST_COMMANDS]]
    more = not_shown(len(facts.what_next) - len(commands), "command")
    text = element("ul", *commands, class_="commands")
    return section("What next", None, text, more)


def _box(title: str, found: dict[str, str]) -> Html:
    shown = [(name, code(value)) for name, value in list(found.items())[:_MOST_PAIRS]]
    more = not_shown(len(found) - len(shown), "line")
    return element("div", element("h3", title), pairs(shown), more)
