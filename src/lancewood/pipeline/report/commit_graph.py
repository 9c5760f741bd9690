r"""The commits of a branch as ``log --graph`` shows them, with the ``* | / \`` drawn as lines.

Takes lines apart, and knows of commits only that a line may begin with a hash. Whatever else a line
says is shown as it is.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from lancewood.pipeline.report.markup import Html, element, joined

MOST_LINES = 60
_MOST_COLUMNS = 40
_ROW, _THIN, _COLUMN = 28, 14, 8
"""Pixels, as the style has them; a row without words is thin."""
_PARTS = re.compile(r"([*|/\\ ]*)(.*)", re.DOTALL)
_COMMIT = re.compile(r"((?:commit )?)([0-9a-f]{7,64})(?![0-9a-f])( \([^()]*\))?(.*)", re.DOTALL)


def commit_graph(lines: Sequence[str], commit: str | None) -> Html:
    """The drawing and its texts; the line of ``commit`` stands out."""
    parts = [_parts(each) for each in lines[:MOST_LINES]]
    rows = [element("li", *_words(text), class_=_class(text, commit)) for _, text in parts]
    heights = [_ROW if text else _THIN for _, text in parts]
    drawing = _drawing([gutter[:_MOST_COLUMNS].rstrip() for gutter, _ in parts], heights)
    return element("div", drawing, element("ol", *rows), class_="graph")


def _class(text: str, commit: str | None) -> str | None:
    if not text:
        return "thin"
    return "this" if _is_of(commit, text) else None


def _parts(line: str) -> tuple[str, str]:
    found = _PARTS.fullmatch(line)
    assert found is not None, "any text is a gutter, which may be empty, and the rest"
    return found[1], found[2]


def _is_of(commit: str | None, text: str) -> bool:
    found = _COMMIT.fullmatch(text)
    return bool(commit and found and commit.startswith(found[2]))


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
