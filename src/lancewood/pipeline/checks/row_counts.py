"""The check that a table has so many rows, and not too many more or fewer than it had.

Counts come from manifests: no job runs, and there are no failing rows to be kept. Against a table
that was not there, or had no rows, a change is not judged.
"""

from __future__ import annotations

from fractions import Fraction

from lancewood.pipeline.checks.kind import CheckKind, CheckWork, Finding
from lancewood.pipeline.definition.model import RowsCheck
from lancewood.pipeline.report.markup import counted


def _asked(check: RowsCheck) -> str:
    bounds = []
    if check.least is not None and check.least == check.most:
        bounds.append(f"exactly {counted(check.least, 'row')}")
    else:
        if check.least is not None:
            bounds.append(f"at least {counted(check.least, 'row')}")
        if check.most is not None:
            bounds.append(f"at most {counted(check.most, 'row')}")
    if check.least_change is not None:
        bounds.append(_change_asked(check.least_change, "least"))
    if check.most_change is not None:
        bounds.append(_change_asked(check.most_change, "most"))
    return f"{check.table} has {' and '.join(bounds)}"


def _change_asked(change: float, bound: str) -> str:
    """A bound on a change in words, turned around below zero: at least -0.1 is at most 10 %
    fewer."""
    if change == 0:
        return f"at {bound} as many rows as before"
    if change > 0:
        return f"at {bound} {percent(change)} more rows than before"
    turned = "most" if bound == "least" else "least"
    return f"at {turned} {percent(-change)} fewer rows than before"


def percent(share: float | Fraction) -> str:
    """``3.1 %``."""
    return f"{float(share) * 100:.3g} %" if share < 10 else f"{float(share) * 100:,.0f} %"


def _plan(work: CheckWork, check: RowsCheck) -> None:
    work.now(check.table, check.spot)


def _judge(work: CheckWork, check: RowsCheck) -> Finding:
    now = work.now(check.table, check.spot).count()
    before = work.relations.before(check.table, check.spot.at("table"))
    return judge_counts(check, now, None if before is None else before.count())


def judge_counts(check: RowsCheck, now: int, before: int | None) -> Finding:
    """Compare; ``before`` is None where there was no table."""
    is_within = (check.least is None or now >= check.least) and (
        check.most is None or now <= check.most
    )
    text = counted(now, "row")
    if not is_within:
        text += _beyond(check, now)
    is_asked = check.least_change is not None or check.most_change is not None
    if not before:
        if is_asked and is_within:
            why = "the table is new" if before is None else "there were no rows before"
            text = f"{text}; {why}: the change is not judged"
        return Finding(is_within, text)
    change = Fraction(now - before, before)
    if is_asked:
        is_within = is_within and _is_between(change, check)
    return Finding(is_within, f"{text}, {_change_text(change)} before")


def _beyond(check: RowsCheck, now: int) -> str:
    if check.least is not None and now < check.least:
        return f", fewer than {check.least:,}"
    return f", more than {check.most:,}"


def _is_between(change: Fraction, check: RowsCheck) -> bool:
    # Through the text, so that -0.1 is a tenth and not the number beside it that a float is.
    least = None if check.least_change is None else Fraction(repr(check.least_change))
    most = None if check.most_change is None else Fraction(repr(check.most_change))
    return (least is None or change >= least) and (most is None or change <= most)


def _change_text(change: Fraction) -> str:
    if not change:
        return "as many as"
    return f"{percent(abs(change))} {'more' if change > 0 else 'fewer'} than"


ROWS = CheckKind("rows", _asked, _plan, _judge)
