"""What changed: each table before and after."""

from __future__ import annotations

from lancewood.pipeline.report.facts import RunFacts, TargetFacts
from lancewood.pipeline.report.figures import UNKNOWN, count, counted, duration, size
from lancewood.pipeline.report.markup import Child, Html, element, joined
from lancewood.pipeline.report.plots import parts_bar
from lancewood.pipeline.report.sections.layout import Column, legend, section, table
from lancewood.pipeline.report.verdict import is_published

_MOST = 100
_MOST_COLUMNS = 8
_KINDS = (
    ("insert", "inserted"),
    ("update", "updated"),
    ("delete", "deleted"),
    ("rest", "unchanged"),
)


def changes_section(facts: RunFacts) -> Html | None:
    """The targets in the order in which they were written; None without any."""
    if not facts.targets:
        return None
    has_replaced = any(each.replaced is not None for each in facts.targets)
    columns = [
        Column("table"),
        Column("mode"),
        Column("rows before → after", "number pair"),
        Column("of the table", "drawing"),
        Column("inserted", "number"),
        Column("updated", "number"),
        Column("deleted", "number"),
        *([Column("replaced", "number")] if has_replaced else []),
        Column("files", "number"),
        Column("size", "number"),
        Column("version", "number"),
        Column("time", "number"),
    ]
    rows = [_row(each, has_replaced=has_replaced) for each in facts.targets[:_MOST]]
    more = len(facts.targets) - len(rows)
    tables = counted(len({each.table for each in facts.targets}), "table")
    done = is_published(facts)
    note = tables if done else f"{tables}, not published"
    title = "What changed" if done else "What would change"
    return section(title, note, table("Tables", columns, rows, more=more), legend(_KINDS))


def _row(target: TargetFacts, *, has_replaced: bool) -> list[Child]:
    replaced = [_amount("delete", target.replaced)] if has_replaced else []
    return [
        joined(element("span", target.table), _new_columns(target.columns_added)),
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


def _new_columns(names: tuple[str, ...]) -> Html | None:
    if not names:
        return None
    told: list[Child] = [element("code", each) for each in names[:_MOST_COLUMNS]]
    apart = [each for name in told for each in (joined(" "), name)]
    more = len(names) - _MOST_COLUMNS
    rest = f" and {more:,} more" if more > 0 else None
    return element("span", "new columns", *apart, rest, class_="below")


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
