"""The page of a run: one HTML file that needs nothing else, neither network nor scripts.

A pure function of the facts: equal facts give equal bytes. What a browser may do with the page is
said in the page itself: it draws what is here, runs nothing and loads nothing.
"""

from __future__ import annotations

import base64
import hashlib
from urllib.parse import quote

from lancewood.pipeline.report.facts import RunFacts
from lancewood.pipeline.report.markup import Html, element
from lancewood.pipeline.report.sections.changes import changes_section
from lancewood.pipeline.report.sections.checks import checks_section
from lancewood.pipeline.report.sections.layout import code
from lancewood.pipeline.report.sections.past import past_section
from lancewood.pipeline.report.sections.quarantine import quarantine_section
from lancewood.pipeline.report.sections.setting import (
    history_section,
    next_section,
    setting_section,
)
from lancewood.pipeline.report.sections.sources import sources_section
from lancewood.pipeline.report.sections.stages import stages_section
from lancewood.pipeline.report.sections.summary import summary_section, title_of
from lancewood.pipeline.report.style import ICON, ICON_COLOURS, STYLE
from lancewood.pipeline.report.verdict import verdict

_SECTIONS = (
    sources_section,
    changes_section,
    checks_section,
    quarantine_section,
    stages_section,
    past_section,
    history_section,
    setting_section,
    next_section,
)


def page(facts: RunFacts) -> str:
    """The whole file, to be written as UTF-8."""
    body = element(
        "body",
        element("main", summary_section(facts), *(each(facts) for each in _SECTIONS)),
        _footer(facts),
    )
    html = element("html", _head(facts), body, lang="en")
    return f"<!doctype html>\n{html}\n"


def _head(facts: RunFacts) -> Html:
    found = verdict(facts)
    icon = "data:image/svg+xml," + quote(ICON.replace("COLOUR", ICON_COLOURS[found.tone]))
    return element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=_policy()),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("meta", name="referrer", content="no-referrer"),
        element("title", title_of(facts, found)),
        element("link", rel="icon", href=Html(icon)),
        element("style", Html(STYLE)),
    )


def _policy() -> Html:
    digest = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
    style = f"style-src 'sha256-{digest}'"
    rest = "img-src data:; base-uri 'none'; form-action 'none'"
    return Html(f"default-src 'none'; {style}; {rest}")


def _footer(facts: RunFacts) -> Html:
    kept = (code(facts.folder), " has this report, and report.json with every figure.")
    return element("footer", *(kept if facts.folder else ("Written by Lancewood.",)))
