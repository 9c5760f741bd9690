"""How many rows the tables had after earlier runs, and have now."""

from __future__ import annotations

from lancewood.pipeline.report.facts import Ending, PastRun, RunFacts
from lancewood.pipeline.report.figures import count, counted, day
from lancewood.pipeline.report.markup import Html, element
from lancewood.pipeline.report.plots import line_plot
from lancewood.pipeline.report.sections.layout import not_shown, section

_MOST_TABLES, _MOST_RUNS = 24, 60


def past_section(facts: RunFacts) -> Html | None:
    """A small plot for each table that this run wrote; None where there is nothing to compare."""
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
