"""The top of the page: how the run ended, where it is published, how long it took."""

from __future__ import annotations

from lancewood.pipeline.report.facts import RunFacts
from lancewood.pipeline.report.markup import (
    Html,
    count,
    counted,
    duration,
    element,
    joined,
    moment,
    several_lines,
    short_hash,
)
from lancewood.pipeline.report.sections.layout import code, pairs
from lancewood.pipeline.report.verdict import (
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
