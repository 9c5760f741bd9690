"""What all sections look like: a heading, tables, pairs of facts.

On a phone each row of a table stands as a small block, whose cells say what they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lancewood.pipeline.report.figures import counted
from lancewood.pipeline.report.markup import Child, Html, element, joined, path
from lancewood.pipeline.report.plots import swatch


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    kind: str = "text"
    """``text``, or a class of the style: ``number``, ``wide`` for long texts, ``drawing``, …"""


def section(title: str, note: str | None, *children: Child) -> Html:
    """A part of the page. The note says beside the title what matters most."""
    heading = element("h2", title)
    told = element("p", note, class_="note") if note else None
    return element("section", element("div", heading, told, class_="head"), *children)


def table(
    caption: str, columns: Sequence[Column], rows: Iterable[Sequence[Child]], *, more: int = 0
) -> Html:
    """A table whose first cells name the rows. Says how many rows are not shown."""
    heads = [element("th", each.name, scope="col", class_=_class(each)) for each in columns]
    body = [element("tr", *_cells(columns, row)) for row in rows]
    return joined(
        element(
            "div",
            element(
                "table",
                element("caption", caption),
                element("thead", element("tr", *heads)),
                element("tbody", *body),
            ),
            class_="scroll",
            tabindex=0,
            role="region",
            aria_label=caption,
        ),
        not_shown(more, "row"),
    )


def not_shown(number: int, thing: str) -> Html | None:
    """Where a list was cut."""
    if number <= 0:
        return None
    return element("p", f"and {counted(number, thing)} more, in report.json", class_="note")


def pairs(facts: Iterable[tuple[str, Child]], *, class_: str = "pairs") -> Html:
    """Names and what they are."""
    told = [
        element("div", element("dt", name), element("dd", value))
        for name, value in facts
        if value is not None
    ]
    return element("dl", *told, class_=class_)


def code(text: str | None) -> Html | None:
    """A name, a path or a hash."""
    return None if text is None else element("code", path(text))


def legend(kinds: Sequence[tuple[str, str]]) -> Html:
    """What the colours of bars mean: (class, word)."""
    told = [element("li", swatch(kind), word) for kind, word in kinds]
    return element("ul", *told, class_="legend")


def _cells(columns: Sequence[Column], row: Sequence[Child]) -> list[Html]:
    (first, name), *others = zip(columns, row, strict=True)
    return [
        element("th", name, scope="row", class_=_class(first), data_name=first.name),
        *(
            element("td", value, class_=_class(column), data_name=column.name)
            for column, value in others
        ),
    ]


def _class(column: Column) -> str | None:
    return None if column.kind == "text" else column.kind
