"""What a run was given and ran on, the commits around it, and what to type next."""

from __future__ import annotations

from lancewood.pipeline.report.commit_graph import MOST_LINES, commit_graph
from lancewood.pipeline.report.facts import RunFacts
from lancewood.pipeline.report.markup import Html, element
from lancewood.pipeline.report.sections.layout import code, not_shown, pairs, section

_MOST_PAIRS, _MOST_COMMANDS = 100, 20


def history_section(facts: RunFacts) -> Html | None:
    """The newest commits of the branch; None before the first."""
    if not facts.graph:
        return None
    drawn = commit_graph(facts.graph, facts.commit)
    box = element(
        "div", drawn, class_="scroll", tabindex=0, role="region", aria_label="Commit graph"
    )
    more = not_shown(len(facts.graph) - MOST_LINES, "line")
    return section("History", f"newest commits of {facts.branch}", box, more)


def setting_section(facts: RunFacts) -> Html | None:
    """Parameters and versions side by side; None where there are neither."""
    boxes = [
        _box(title, found)
        for title, found in (("Parameters", facts.parameters), ("Versions", facts.versions))
        if found
    ]
    if not boxes:
        return None
    return section("How it was run", None, element("div", *boxes, class_="boxes"))


def next_section(facts: RunFacts) -> Html | None:
    """Commands that may be wanted now; None where there are none."""
    if not facts.what_next:
        return None
    commands = [element("li", code(each)) for each in facts.what_next[:_MOST_COMMANDS]]
    more = not_shown(len(facts.what_next) - len(commands), "command")
    told = element("ul", *commands, class_="commands")
    return section("What next", None, told, more)


def _box(title: str, found: dict[str, str]) -> Html:
    shown = [(name, code(value)) for name, value in list(found.items())[:_MOST_PAIRS]]
    more = not_shown(len(found) - len(shown), "line")
    return element("div", element("h3", title), pairs(shown), more)
