"""The page of a run: one HTML file that needs nothing else, neither network nor scripts.

A pure function of the facts: equal facts give equal bytes. The page itself tells the browser to run
nothing and load nothing. It suits a phone, a wide screen and paper, in light and in dark. Each
colour has one meaning: good, warn and bad judge; insert, update and delete say what happened to
rows; everything else is ink. Nothing is said by colour alone. The style is ``page.css``.
"""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path
from urllib.parse import quote

from lancewood.pipeline.report.facts import RunFacts
from lancewood.pipeline.report.layout import code
from lancewood.pipeline.report.lines import Tone, verdict
from lancewood.pipeline.report.markup import Html, element
from lancewood.pipeline.report.sections import (
    changes_section,
    checks_section,
    history_section,
    next_section,
    past_section,
    quarantine_section,
    setting_section,
    sources_section,
    stages_section,
    summary_section,
)

_ICON = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16">'
    '<circle cx="8" cy="8" r="7" fill="COLOUR"/></svg>'
)
_ICON_COLOURS = {
    Tone.GOOD: "#1f7a4d",
    Tone.QUIET: "#6b7076",
    Tone.WARN: "#b57a00",
    Tone.BAD: "#b3261e",
}
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
    kept = (code(facts.folder), " has this report, and report.json with every figure.")
    footer = element("footer", *(kept if facts.folder else ("Written by Lancewood.",)))
    sections = [each(facts) for each in (summary_section, *_SECTIONS)]
    body = element("body", element("main", *sections), footer)
    html = element("html", _head(facts), body, lang="en")
    return f"<!doctype html>\n{html}\n"


def _head(facts: RunFacts) -> Html:
    found = verdict(facts)
    style = Path(__file__).with_name("page.css").read_text("utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; style-src 'sha256-{digest}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    icon = "data:image/svg+xml," + quote(_ICON.replace("COLOUR", _ICON_COLOURS[found.tone]))
    return element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=Html(policy)),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("meta", name="referrer", content="no-referrer"),
        element("title", f"{found.title} · {facts.pipeline} {facts.run}"),
        element("link", rel="icon", href=Html(icon)),
        element("style", Html(style)),
    )
