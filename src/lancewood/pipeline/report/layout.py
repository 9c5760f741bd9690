"""What all sections of the page are built of: headings, tables, pairs of facts, small SVG drawings,
and the commits of a branch as ``log --graph`` shows them, drawn.

On a phone each row of a table becomes a small block whose cells say what they are. Colours of
drawings are classes of the page's style, and every drawing has a text beside it or a label. Of
commits only that a line of the graph may begin with a hash is known.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from lancewood.pipeline.report.markup import Child, Html, counted, element, joined, path

_WIDE = 1000
_LEAST = 12
"""The least part of ``_WIDE``: anything that exists at all stays visible."""
_PLOT_WIDTH, _PLOT_HEIGHT, _EDGE = 240, 56, 5


@dataclass(frozen=True, slots=True)
class ReportColumn:
    name: str
    cell: Callable[[Any], Child]
    """What a row says here of the thing that it is about."""
    kind: str = "text"
    """``text``, or a class of the style: ``number``, ``wide`` for long texts, ``drawing``, …"""


def section(title: str, note: str | None, *children: Child) -> Html:
    """A part of the page. The note beside the title says what matters most."""
    heading = element("h2", title)
    text = element("p", note, class_="note") if note else None
    return element("section", element("div", heading, text, class_="head"), *children)


def table(caption: str, columns: Sequence[ReportColumn], things: Sequence[Any], most: int) -> Html:
    """A table with a row for each of the first ``most`` things, which the first cell names; says
    how many are left out."""
    classes = [None if each.kind == "text" else each.kind for each in columns]
    styled = list(zip(columns, classes, strict=True))
    heads = [element("th", each.name, scope="col", class_=style) for each, style in styled]
    body = []
    for thing in things[:most]:
        (first, style), *others = styled
        name = first.cell(thing)
        cells = [element("th", name, scope="row", class_=style, data_name=first.name)]
        for each, style in others:
            cells.append(element("td", each.cell(thing), class_=style, data_name=each.name))
        body.append(element("tr", *cells))
    head = element("thead", element("tr", *heads))
    whole = element("table", element("caption", caption), head, element("tbody", *body))
    return joined(scrolled(whole, caption), not_shown(len(things) - most, "row"))


def scrolled(child: Html, label: str) -> Html:
    """A box for what may be wider than the screen."""
    return element("div", child, class_="scroll", tabindex=0, role="region", aria_label=label)


def not_shown(number: int, thing: str) -> Html | None:
    """A note that a list was cut."""
    if number <= 0:
        return None
    return element("p", f"and {counted(number, thing)} more, in report.json", class_="note")


def pairs(facts: Iterable[tuple[str, Child]], *, class_: str = "pairs") -> Html:
    """Names and values."""
    parts = [
        element("div", element("dt", name), element("dd", value))
        for name, value in facts
        if value is not None
    ]
    return element("dl", *parts, class_=class_)


def code(text: str | None) -> Html | None:
    """A name, a path or a hash."""
    return None if text is None else element("code", path(text))


def legend(kinds: Sequence[tuple[str, str]]) -> Html:
    """What the colours of bars mean: (class, word)."""
    parts = [element("li", swatch(kind), word) for kind, word in kinds]
    return element("ul", *parts, class_="legend")


def swatch(kind: str) -> Html:
    """The colour of a class, for a legend."""
    rect = element("rect", class_=kind, width=10, height=10, rx=2)
    return element("svg", rect, class_="swatch", viewBox="0 0 10 10", aria_hidden="true")


def parts_bar(parts: Sequence[tuple[str, int]]) -> Html:
    """One bar of parts side by side, each with its class."""
    whole = sum(max(number, 0) for _, number in parts)
    rects = []
    at = 0.0
    widths = _widths([max(number, 0) for _, number in parts], whole)
    for (kind, _), width in zip(parts, widths, strict=True):
        if width:
            rects.append(_rect(kind, at, width))
            at += width
    return _bar(*rects)


def amount_bar(kind: str, number: float, most: float) -> Html:
    """A bar whose length is a number; ``most`` fills it."""
    share = number / most if most > 0 else 0.0
    width = max(share * _WIDE, _LEAST) if number > 0 else 0.0
    return _bar(_rect(kind, 0, width) if width else None)


def span_bar(kind: str, begin: float, end: float, whole: float) -> Html:
    """A bar from one moment to another, of a whole that starts at 0."""
    if whole <= 0:
        return _bar()
    left = min(max(begin / whole, 0.0), 1.0) * _WIDE
    right = min(max(end / whole, 0.0), 1.0) * _WIDE
    width = max(right - left, _LEAST / 2)
    return _bar(_rect(kind, min(left, _WIDE - width), width))


def line_plot(values: Sequence[int], label: str, *, is_last_hollow: bool = False) -> Html:
    """A line through the values, oldest on the left, above zero, with a dot on the last one."""
    points = _points(values)
    drawn = " ".join(f"{_number(x)},{_number(y)}" for x, y in points)
    x, y = points[-1]
    context = _PLOT_HEIGHT - _EDGE
    area = f"{_number(points[0][0])},{context} {drawn} {_number(x)},{context}"
    return element(
        "svg",
        element("path", class_="zero", d=f"M0 {context}H{_PLOT_WIDTH}"),
        element("polygon", class_="area", points=Html(area)) if len(points) > 1 else None,
        element("polyline", class_="line", points=Html(drawn)) if len(points) > 1 else None,
        element("circle", class_="hollow" if is_last_hollow else "dot", cx=x, cy=y, r=3.5),
        class_="plot",
        viewBox=f"0 0 {_PLOT_WIDTH} {_PLOT_HEIGHT}",
        role="img",
        aria_label=label,
    )


def _widths(numbers: Sequence[int], whole: int) -> list[float]:
    """Parts of ``_WIDE``; small ones get a little more at the cost of the others."""
    if not whole:
        return [0.0 for _ in numbers]
    raw = [max(each / whole * _WIDE, _LEAST) if each else 0.0 for each in numbers]
    return [each * _WIDE / sum(raw) for each in raw]


def _points(values: Sequence[int]) -> list[tuple[float, float]]:
    most = max(*values, 1)
    step = (_PLOT_WIDTH - 2 * _EDGE) / max(len(values) - 1, 1)
    height = _PLOT_HEIGHT - 2 * _EDGE
    first = _EDGE if len(values) > 1 else _PLOT_WIDTH / 2
    return [
        (round(first + at * step, 1), round(_EDGE + height * (1 - each / most), 1))
        for at, each in enumerate(values)
    ]


def _bar(*children: Html | None) -> Html:
    return element(
        "svg",
        element("rect", class_="track", width=_WIDE, height=10),
        joined(*children),
        class_="bar",
        viewBox=f"0 0 {_WIDE} 10",
        preserveAspectRatio="none",
        aria_hidden="true",
    )


def _rect(kind: str, x: float, width: float) -> Html:
    return element("rect", class_=kind, x=_number(x), width=_number(width), height=10)


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


MOST_LINES = 60
_MOST_COLUMNS = 40
_ROW, _THIN, _COLUMN = 28, 14, 8
"""Pixels, as the style has them; a row without words is thin."""
_PARTS = re.compile(r"([*|/\\ ]*)(.*)", re.DOTALL)
_COMMIT = re.compile(r"((?:commit )?)([0-9a-f]{7,64})(?![0-9a-f])( \([^()]*\))?(.*)", re.DOTALL)


def commit_graph(lines: Sequence[str], commit: str | None) -> Html:
    """The drawing and its texts; the line of ``commit`` stands out."""
    parts = []
    for line in lines[:MOST_LINES]:
        found = _PARTS.fullmatch(line)
        assert found is not None, "any text is a gutter, which may be empty, and the rest"
        parts.append((found[1], found[2]))
    rows = [element("li", *_words(text), class_=_row_class(text, commit)) for _, text in parts]
    heights = [_ROW if text else _THIN for _, text in parts]
    drawing = _drawing([gutter[:_MOST_COLUMNS].rstrip() for gutter, _ in parts], heights)
    return element("div", drawing, element("ol", *rows), class_="graph")


def _row_class(text: str, commit: str | None) -> str | None:
    if not text:
        return "thin"
    found = _COMMIT.fullmatch(text)
    return "this" if commit and found and commit.startswith(found[2]) else None


def _words(text: str) -> list[Html]:
    found = _COMMIT.fullmatch(text)
    if found is None:
        return [joined(text)]
    before, hash, names, rest = found.groups()
    parts = [joined(before), element("code", hash, class_="hash")]
    for each in (names or "")[2:-1].split(", "):
        if each:
            kind = "tag" if each.startswith("tag: ") else "branch"
            parts += [joined(" "), element("span", each, class_=f"name {kind}")]
    return [*parts, joined(rest)]


def _drawing(gutters: Sequence[str], heights: Sequence[int]) -> Html:
    columns = max((len(each) for each in gutters), default=0)
    width, height = (columns + 1) * _COLUMN, sum(heights)
    strokes, dots = [], []
    top = 0
    for row, gutter in enumerate(gutters):
        above = gutters[row - 1] if row else ""
        below = gutters[row + 1] if row + 1 < len(gutters) else ""
        bottom = top + heights[row]
        for column, mark in enumerate(gutter):
            strokes.append(_stroke(mark, column, top, bottom, above, below))
            if mark == "*":
                dots.append(element("circle", cx=_x(column), cy=(top + bottom) // 2, r=4.5))
        top = bottom
    return element(
        "svg",
        element("path", d=Html("".join(strokes))) if any(strokes) else None,
        *dots,
        width=width,
        height=height,
        viewBox=f"0 0 {width} {height}",
        aria_hidden="true",
    )


def _stroke(mark: str, column: int, top: int, bottom: int, above: str, below: str) -> str:
    x, middle = _x(column), (top + bottom) // 2
    if mark == "|":
        return f"M{x} {top}V{bottom}"
    if mark == "/":
        return f"M{x + _COLUMN} {top}L{x - _COLUMN} {bottom}"
    if mark == "\\":
        return f"M{x - _COLUMN} {top}L{x + _COLUMN} {bottom}"
    if mark == "*":
        up = f"M{x} {middle}V{top}" if _leads_to(column, above, "/", "\\") else ""
        down = f"M{x} {middle}V{bottom}" if _leads_to(column, below, "\\", "/") else ""
        return up + down
    return ""


def _leads_to(column: int, gutter: str, from_right: str, from_left: str) -> bool:
    """Whether a row above or below has a line that ends at this column."""

    def at(index: int) -> str:
        return gutter[index] if 0 <= index < len(gutter) else ""

    meets = at(column) in ("|", "*")
    return meets or at(column + 1) == from_right or at(column - 1) == from_left


def _x(column: int) -> int:
    return (column + 1) * _COLUMN
