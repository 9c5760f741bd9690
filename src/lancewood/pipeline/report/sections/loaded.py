"""Sections about data: what came in, what changed in each table, which rows were bad and why; what
was checked, what did not hold first.
"""

from __future__ import annotations

from lancewood.pipeline.report.facts import (
    CheckFacts,
    Ending,
    QuarantineFacts,
    RunFacts,
    SourceFacts,
    TargetFacts,
)
from lancewood.pipeline.report.lines import (
    Tone,
    checks_text,
    index_changes,
    is_published,
    not_passed,
    rows_read,
)
from lancewood.pipeline.report.markup import (
    UNKNOWN,
    Child,
    Html,
    count,
    counted,
    data,
    duration,
    element,
    joined,
    path,
    several_lines,
    size,
    total,
)
from lancewood.pipeline.report.sections.layout import (
    ReportColumn,
    amount_bar,
    code,
    legend,
    not_shown,
    pairs,
    parts_bar,
    section,
    table,
)
from lancewood.pipeline.report.sections.summary import mark

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
_REASON_COLUMNS = (
    ReportColumn("source or step"),
    ReportColumn("reason", "wide"),
    ReportColumn("rows", "number"),
    ReportColumn("compared", "drawing"),
)


def sources_section(facts: RunFacts) -> Html | None:
    """The sources, and how much was read of each; None if there are none."""
    if not facts.sources:
        return None
    has_since = any(each.since is not None for each in facts.sources)
    columns = [
        ReportColumn("source"),
        ReportColumn("kind"),
        ReportColumn("rows", "number"),
        ReportColumn("files", "number"),
        ReportColumn("size", "number"),
        *([ReportColumn("new since", "since")] if has_since else []),
        ReportColumn("where", "wide"),
    ]
    rows = [_source_row(each, has_since=has_since) for each in facts.sources[:_MOST_SOURCES]]
    more = len(facts.sources) - len(rows)
    return section("What came in", _sources_note(facts), table("Sources", columns, rows, more=more))


def _source_row(source: SourceFacts, *, has_since: bool) -> list[Child]:
    since: list[Child] = [source.since or "everything"] if has_since else []
    return [
        source.name,
        element("span", source.kind, class_="kind"),
        count(source.rows),
        f"{count(source.files)}, {source.passed_over:,} passed over"
        if source.passed_over
        else count(source.files),
        size(source.bytes),
        *since,
        code(source.where),
    ]


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
    has_replaced = any(each.replaced is not None for each in facts.targets)
    columns = [
        ReportColumn("table"),
        ReportColumn("mode"),
        ReportColumn("rows before → after", "number pair"),
        ReportColumn("of the table", "drawing"),
        ReportColumn("inserted", "number"),
        ReportColumn("updated", "number"),
        ReportColumn("deleted", "number"),
        *([ReportColumn("replaced", "number")] if has_replaced else []),
        ReportColumn("files", "number"),
        ReportColumn("size", "number"),
        ReportColumn("version", "number"),
        ReportColumn("time", "number"),
    ]
    rows = [_change_row(each, has_replaced=has_replaced) for each in facts.targets[:_MOST_TABLES]]
    more = len(facts.targets) - len(rows)
    tables = counted(len({each.table for each in facts.targets}), "table")
    done = is_published(facts)
    note = tables if done else f"{tables}, not published"
    title = "What changed" if done else "What would change"
    return section(title, note, table("Tables", columns, rows, more=more), legend(_KINDS))


def _change_row(target: TargetFacts, *, has_replaced: bool) -> list[Child]:
    replaced = [_amount("delete", target.replaced)] if has_replaced else []
    return [
        joined(
            element("span", target.table),
            _names("new columns", target.columns_added),
            *(_names(what, names) for what, names in index_changes(target)),
        ),
        joined(element("span", target.mode, class_="kind"), _left_out(target.duplicates)),
        _before_after(target),
        parts_bar(_parts(target)),
        _amount("insert", target.inserted),
        _amount("update", target.updated),
        _amount("delete", target.deleted),
        *replaced,
        count(target.files),
        size(target.bytes),
        count(target.version),
        duration(target.seconds),
    ]


def _before_after(target: TargetFacts) -> Html:
    before = element("span", "new" if target.rows_before is None else count(target.rows_before))
    after = element("b", count(target.rows_after))
    return joined(before, " → ", after)


def _names(what: str, names: tuple[str, ...]) -> Html | None:
    if not names:
        return None
    parts: list[Child] = [element("code", each) for each in names[:_MOST_COLUMNS]]
    apart = [each for name in parts for each in (joined(" "), name)]
    more = len(names) - _MOST_COLUMNS
    rest = f" and {more:,} more" if more > 0 else None
    return element("span", what, *apart, rest, class_="below")


def _left_out(duplicates: int | None) -> Html | None:
    if not duplicates:
        return None
    return element("span", f"{counted(duplicates, 'duplicate')} left out", class_="below")


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
    rows: list[list[Child]] = [
        [origin, reason, count(number), amount_bar("warn", number, most)]
        for origin, reason, number in found.by_reason[:_MOST_REASONS]
    ]
    location: list[Child] = [element("code", found.table)]
    if facts.ending in _ON_THE_BRANCH and not facts.batches:
        location += [" on the branch ", element("code", facts.run_branch)]
    kept = element("p", "They are kept in ", *location, ".", class_="quiet")
    text = table("Reasons", _REASON_COLUMNS, rows) if rows else None
    return section("Bad rows", _bad_rows_note(found), kept, text, _sample(found))


def _sample(found: QuarantineFacts) -> Html | None:
    """A few of the rows; file and line only if some are known."""
    if not found.sample:
        return None
    has_file = any(file for _, _, file, _, _ in found.sample)
    locations = [ReportColumn("file", "wide"), ReportColumn("line", "number")] if has_file else []
    row = ReportColumn("row", "value whole")
    columns = [ReportColumn("source or step"), ReportColumn("reason", "wide"), *locations, row]
    rows: list[list[Child]] = []
    for origin, reason, file, line, record in found.sample[:_MOST_REASONS]:
        location: list[Child] = [code(file), line or UNKNOWN] if has_file else []
        rows.append([origin, reason, *location, data(record, _MOST_CHARACTERS)])
    shown = f"{len(rows):,} of {counted(found.rows, 'bad row')}"
    return element("div", table(shown, columns, rows), class_="sample")


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
