"""The sections of the page, each from facts to HTML.

The top: how the run ended, where it is published, how long it took. Data: what came in, what
changed in each table, which rows were bad and why, what was checked. The end: stages, earlier runs,
commits, parameters, what to do next.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from operator import itemgetter

from lancewood.pipeline.report.facts import (
    CheckFacts,
    Ending,
    PastRun,
    QuarantineFacts,
    RunFacts,
    SourceFacts,
    StageFacts,
    TargetFacts,
)
from lancewood.pipeline.report.layout import (
    MOST_LINES,
    ReportColumn,
    amount_bar,
    code,
    commit_graph,
    legend,
    line_plot,
    not_shown,
    pairs,
    parts_bar,
    scrolled,
    section,
    span_bar,
    table,
)
from lancewood.pipeline.report.lines import (
    CHANGES,
    Tone,
    checks_text,
    index_changes,
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
    data,
    day,
    duration,
    element,
    joined,
    moment,
    path,
    several_lines,
    short_hash,
    size,
    total,
)

_MOST_ERROR = 8_000
_MOST_WHY = 5
_MARKS = {
    Tone.GOOD: "M7 12.5l3.4 3.4L17 9",
    Tone.QUIET: "M7.5 12h9",
    Tone.WARN: "M12 7v6.2M12 16.6v.4",
    Tone.BAD: "M8.5 8.5l7 7M15.5 8.5l-7 7",
}


def summary_section(facts: RunFacts) -> Html:
    """The verdict and its figures; an error, if there was one."""
    found = verdict(facts)
    error = None
    if facts.error is not None:
        error = element("pre", several_lines(facts.error, _MOST_ERROR), class_="error", tabindex=0)
    return element(
        "header",
        element("p", element("b", facts.pipeline), " · run ", code(facts.run), class_="over"),
        element("h1", mark(found.tone), element("span", found.title)),
        # Apart from each other: one that names something very long leaves room for the others.
        element("p", *(joined(each, " ") for each in found.sentences), class_="lead"),
        _why(facts),
        error,
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
        for number, each in enumerate(bad[:_MOST_WHY], 1)
    ]
    more = len(bad) - len(parts)
    rest = element("li", f"and {more:,} more") if more else None
    return element("ul", *parts, rest, class_="why")


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
    commit, base = (
        None if each is None else element("code", short_hash(each), title=each)
        for each in (facts.commit, facts.base_commit)
    )
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


_MOST_PLOTS, _MOST_RUNS = 24, 60
_MOST_PAIRS, _MOST_COMMANDS = 100, 20
_MOST_STAGES = 100


def stages_section(facts: RunFacts) -> Html | None:
    """The stages as bars over time; None if there are none."""
    if not facts.stages:
        return None
    spans = list(_spans(facts.stages))
    whole = max(facts.seconds, *(end for _, _, end in spans))
    columns = [
        ReportColumn("stage", lambda each: _name(each[0])),
        ReportColumn("time", lambda each: duration(each[0].seconds), "number"),
        ReportColumn("from beginning to end of the run", partial(_span, whole), "drawing long"),
        ReportColumn("rows", lambda each: count(each[0].rows), "number"),
        ReportColumn("files", lambda each: count(each[0].files), "number"),
        ReportColumn("size", lambda each: size(each[0].bytes), "number"),
    ]
    note = f"{counted(len(spans), 'stage')} in {duration(facts.seconds)}"
    text = table("Stages", columns, spans, _MOST_STAGES)
    return section("Where the time went", note, text)


def _span(whole: float, stage: tuple[StageFacts, float, float]) -> Html:
    facts, begin, end = stage
    return span_bar("bad" if facts.is_failed else "span", begin, end, whole)


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
        _plot(each, past, now[each], is_published=is_published) for each in tables[:_MOST_PLOTS]
    ]
    note = f"this run and {counted(len(past), 'run')} before it, drawn from zero"
    more = not_shown(len(tables) - len(plots), "table")
    return section("Rows over time", note, element("div", *plots, class_="plots"), more)


def _plot(table: str, past: list[PastRun], now: int | None, *, is_published: bool) -> Html:
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
    box = scrolled(commit_graph(facts.graph, facts.commit), "Commit graph")
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


_MOST_SOURCES = 100
_MOST_TABLES = 100
_MOST_COLUMNS = 8
_KINDS = (
    ("insert", "inserted"),
    ("update", "updated"),
    ("delete", "deleted"),
    ("rest", "unchanged"),
)
_MOST_REASONS, _MOST_CHARACTERS = 20, 600
_ON_THE_BRANCH = (Ending.CHECKS_FAILED, Ending.TOO_MANY_BAD_ROWS)


def sources_section(facts: RunFacts) -> Html | None:
    """The sources, and how much was read of each; None if there are none."""
    if not facts.sources:
        return None
    since = ReportColumn("new since", lambda each: each.since or "everything", "since")
    has_since = any(each.since is not None for each in facts.sources)
    columns = [
        ReportColumn("source", lambda each: each.name),
        ReportColumn("kind", lambda each: element("span", each.kind, class_="kind")),
        ReportColumn("rows", lambda each: count(each.rows), "number"),
        ReportColumn("files", _files, "number"),
        ReportColumn("size", lambda each: size(each.bytes), "number"),
        *([since] if has_since else []),
        ReportColumn("where", lambda each: code(each.where), "wide"),
    ]
    text = table("Sources", columns, facts.sources, _MOST_SOURCES)
    return section("What came in", _sources_note(facts), text)


def _files(source: SourceFacts) -> str:
    passed_over = f", {source.passed_over:,} passed over" if source.passed_over else ""
    return f"{count(source.files)}{passed_over}"


def _sources_note(facts: RunFacts) -> str:
    rows, of_which = rows_read(facts.sources)
    files = total(each.files for each in facts.sources)
    parts = [counted(len(facts.sources), "source")]
    if rows is not None:
        parts.append(f"{count(rows)} {of_which}")
    if files is not None:
        parts.append(counted(files, "file"))
    return ", ".join(parts)


def changes_section(facts: RunFacts) -> Html | None:
    """The targets in the order in which they were written; None if there are none."""
    if not facts.targets:
        return None
    replaced = ReportColumn("replaced", lambda each: _amount("delete", each.replaced), "number")
    has_replaced = any(each.replaced is not None for each in facts.targets)
    columns = [
        ReportColumn("table", _table_cell),
        ReportColumn("mode", _mode_cell),
        ReportColumn("rows before → after", _before_after, "number pair"),
        ReportColumn("of the table", lambda each: parts_bar(_parts(each)), "drawing"),
        ReportColumn("inserted", lambda each: _amount("insert", each.inserted), "number"),
        ReportColumn("updated", lambda each: _amount("update", each.updated), "number"),
        ReportColumn("deleted", lambda each: _amount("delete", each.deleted), "number"),
        *([replaced] if has_replaced else []),
        ReportColumn("files", lambda each: count(each.files), "number"),
        ReportColumn("size", lambda each: size(each.bytes), "number"),
        ReportColumn("version", lambda each: count(each.version), "number"),
        ReportColumn("time", lambda each: duration(each.seconds), "number"),
    ]
    tables = counted(len({each.table for each in facts.targets}), "table")
    done = is_published(facts)
    note = tables if done else f"{tables}, not published"
    title = "What changed" if done else "What would change"
    text = table("Tables", columns, facts.targets, _MOST_TABLES)
    return section(title, note, text, legend(_KINDS))


def _table_cell(target: TargetFacts) -> Html:
    return joined(
        element("span", target.table),
        _names("new columns", target.columns_added),
        *(_names(what, names) for what, names in index_changes(target)),
    )


def _mode_cell(target: TargetFacts) -> Html:
    left_out = None
    if target.duplicates:
        text = f"{counted(target.duplicates, 'duplicate')} left out"
        left_out = element("span", text, class_="below")
    return joined(element("span", target.mode, class_="kind"), left_out)


def _before_after(target: TargetFacts) -> Html:
    before = element("span", "new" if target.rows_before is None else count(target.rows_before))
    return joined(before, " → ", element("b", count(target.rows_after)))


def _names(what: str, names: tuple[str, ...]) -> Html | None:
    if not names:
        return None
    parts: list[Child] = [element("code", each) for each in names[:_MOST_COLUMNS]]
    apart = [each for name in parts for each in (joined(" "), name)]
    more = len(names) - _MOST_COLUMNS
    rest = f" and {more:,} more" if more > 0 else None
    return element("span", what, *apart, rest, class_="below")


def _amount(kind: str, number: int | None) -> Html:
    if not number:
        return element("span", UNKNOWN if number is None else "0", class_="nil")
    return element("span", count(number), class_=f"ink-{kind}")


def _parts(target: TargetFacts) -> list[tuple[str, int]]:
    inserted, updated, deleted = target.inserted or 0, target.updated or 0, target.deleted or 0
    before = target.rows_before or 0
    rest = max(before - updated - deleted - (target.replaced or 0), 0)
    return [("insert", inserted), ("update", updated), ("delete", deleted), ("rest", rest)]


def quarantine_section(facts: RunFacts) -> Html | None:
    """The reasons, most rows first; None if no row could be bad."""
    found = facts.quarantine
    if found is None:
        return None
    if not found.rows:
        return section(
            "Bad rows", _bad_rows_note(found), element("p", "No row was bad.", class_="quiet")
        )
    most = max((number for _, _, number in found.by_reason), default=0)
    columns = [
        ReportColumn("source or step", itemgetter(0)),
        ReportColumn("reason", itemgetter(1), "wide"),
        ReportColumn("rows", lambda each: count(each[2]), "number"),
        ReportColumn("compared", lambda each: amount_bar("warn", each[2], most), "drawing"),
    ]
    location: list[Child] = [element("code", found.table)]
    if facts.ending in _ON_THE_BRANCH and not facts.batches:
        location += [" on the branch ", element("code", facts.run_branch)]
    kept = element("p", "They are kept in ", *location, ".", class_="quiet")
    reasons = found.by_reason[:_MOST_REASONS]
    text = table("Reasons", columns, reasons, _MOST_REASONS) if reasons else None
    return section("Bad rows", _bad_rows_note(found), kept, text, _sample(found))


def _sample(found: QuarantineFacts) -> Html | None:
    """A few of the rows; file and line only if some are known."""
    if not found.sample:
        return None
    has_file = any(file for _, _, file, _, _ in found.sample)
    locations = [
        ReportColumn("file", lambda each: code(each[2]), "wide"),
        ReportColumn("line", lambda each: each[3] or UNKNOWN, "number"),
    ]
    columns = [
        ReportColumn("source or step", itemgetter(0)),
        ReportColumn("reason", itemgetter(1), "wide"),
        *(locations if has_file else []),
        ReportColumn("row", lambda each: data(each[4], _MOST_CHARACTERS), "value whole"),
    ]
    rows = found.sample[:_MOST_REASONS]
    shown = f"{len(rows):,} of {counted(found.rows, 'bad row')}"
    return element("div", table(shown, columns, rows, _MOST_REASONS), class_="sample")


def _bad_rows_note(found: QuarantineFacts) -> str:
    text = counted(found.rows, "row")
    if not found.limit:
        return text
    if found.is_beyond:
        return f"{text}, more than allowed ({found.limit})"
    return f"{text}; allowed: {found.limit}"


_MOST_NOT_PASSED, _MOST_PASSED, _MOST_SAMPLES = 100, 200, 20
_MOST_ROWS, _MOST_FIGURES, _MOST_VALUE, _MOST_ASKED = 10, 12, 80, 1_000
_PASSED_OPEN = 25


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
        _failing_rows(check) if number <= _MOST_SAMPLES else None,
        id=f"check-{number}",
        class_=tone,
    )


def _asked(text: str) -> Html | None:
    return element("span", several_lines(text, _MOST_ASKED), class_="asked") if text else None


def _failing_rows(check: CheckFacts) -> Html | None:
    if not check.sample or not check.columns:
        return None
    names = check.columns[:_MOST_FIGURES]
    columns = [
        ReportColumn(data(each, _MOST_VALUE), partial(_value, at), "value")
        for at, each in enumerate(names)
    ]
    rows = check.sample[:_MOST_ROWS]
    caption = f"{len(rows):,} of {check.failing_rows:,} failing rows"
    left_out = len(check.columns) - len(names)
    if left_out > 0:
        caption += f", {len(names)} of {len(check.columns):,} columns"
    return table(caption, columns, rows, _MOST_ROWS)


def _value(at: int, row: tuple[str, ...]) -> Html:
    return data(row[at] if at < len(row) else "", _MOST_VALUE)


def _passed_name(check: CheckFacts) -> Html:
    name = element("span", path(check.name))
    return element("span", mark(Tone.GOOD), name, class_="marked")


def _passed(checks: list[CheckFacts]) -> Html | None:
    passed = [each for each in checks if each.is_passed]
    if not passed:
        return None
    columns = [
        ReportColumn("check", _passed_name),
        ReportColumn("what must hold", lambda each: _asked(each.asked), "wide"),
        ReportColumn("found", lambda each: each.found, "wide"),
        ReportColumn("time", lambda each: duration(each.seconds), "number beside"),
    ]
    return element(
        "details",
        element("summary", f"{len(passed):,} passed"),
        table("Checks that passed", columns, passed, _MOST_PASSED),
        open="" if len(passed) <= _PASSED_OPEN else None,
    )
