"""Sections as Markdown and as JSON, and the part of docs/benchmarks.md that is generated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bench.result import Least, LeastRatio, Most, Row, Section

BEGIN = "<!-- bench:begin (written by `make bench`; do not edit) -->"
END = "<!-- bench:end -->"
MET = "✓"
TIMES = "\N{MULTIPLICATION SIGN}"


def render_markdown(facts: Mapping[str, str], sections: Sequence[Section]) -> str:
    """The facts of the machine, then one table a section."""
    machine = render_table(("fact", "value"), [(name, text) for name, text in facts.items()])
    return "\n\n".join(["## The machine", machine, *map(_render_section, sections)])


def render_json(
    scale: str, facts: Mapping[str, str], sections: Sequence[Section]
) -> dict[str, Any]:
    """The same for programs, with every sample."""
    return {
        "scale": scale,
        "machine": dict(facts),
        "sections": [each.as_json() for each in sections],
    }


def replace_generated(document: str, generated: str) -> str:
    """The document with what stands between the markers replaced.

    Raises ValueError if it does not have both markers once, in order.
    """
    if document.count(BEGIN) != 1 or document.count(END) != 1:
        raise ValueError(f"the document needs {BEGIN!r} and {END!r} once each")
    before, rest = document.split(BEGIN)
    if END not in rest:
        raise ValueError(f"{END!r} stands before {BEGIN!r}")
    return f"{before}{BEGIN}\n\n{generated}\n\n{END}{rest.split(END)[1]}"


def render_table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A Markdown table whose columns line up; all but the first to the right."""
    widths = [max(map(len, column)) for column in zip(head, *lines, strict=True)]
    rule = [f"{'-' * widths[0]}", *(f"{'-' * (width - 1)}:" for width in widths[1:])]
    return "\n".join(_line(each, widths) for each in (head, rule, *lines))


def format_number(value: float) -> str:
    """Three digits that matter, thousands separated."""
    if value == 0:
        return "0"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def verdict(row: Row) -> str:
    """A tick, or by how much the target is missed; empty where there is none."""
    if row.is_met is None:
        return ""
    if row.is_met:
        return MET
    if isinstance(row.target, LeastRatio) and row.ratio is not None:
        return f"missed: {row.ratio / row.target.ratio:.0%} of it"
    if isinstance(row.target, Least):
        return f"missed: {row.our_median / row.target.value:.0%} of it"
    return "missed"


def _render_section(section: Section) -> str:
    parts = [f"## {section.title}"]
    if section.note:
        parts.append(section.note)
    if section.rows:
        head = ("work", "ours", section.against, "ratio", "target", "met")
        parts.append(render_table(head, [_cells(each) for each in section.rows]))
    return "\n\n".join(parts)


def _cells(row: Row) -> tuple[str, ...]:
    theirs, ratio = row.pylance_median, row.ratio
    return (
        row.work,
        _with_unit(row.our_median, row.unit),
        "" if theirs is None else _with_unit(theirs, row.unit),
        "" if ratio is None else f"{format_number(ratio)}{TIMES}",
        _target(row),
        verdict(row),
    )


def _with_unit(value: float, unit: str) -> str:
    return f"{format_number(value)} {unit}".strip()


def _target(row: Row) -> str:
    if isinstance(row.target, LeastRatio):
        return f"≥ {row.target.ratio:g}{TIMES}"
    if isinstance(row.target, Most):
        return f"≤ {_with_unit(row.target.value, row.unit)}"
    if isinstance(row.target, Least):
        return f"≥ {_with_unit(row.target.value, row.unit)}"
    return ""


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    first, *others = zip(cells, widths, strict=True)
    texts = [first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in others)]
    return f"| {' | '.join(texts)} |"
