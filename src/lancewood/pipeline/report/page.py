"""The page of a run: one HTML file that needs nothing else, neither network nor scripts.

A pure function of the facts: equal facts give equal bytes. The page itself tells the browser to run
nothing and load nothing. It suits a phone, a wide screen and paper, in light and in dark. Each
colour has one meaning: good, warn and bad judge; insert, update and delete say what happened to
rows; everything else is ink. Nothing is said by colour alone.
"""

from __future__ import annotations

import base64
import hashlib
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
_COLOURS = """
:root {
  color-scheme: light dark;
  --paper: #f6f5f1; --card: #fffefb; --ink: #1e2124; --soft: #5f646a; --line: #e4e1d9;
  --faint: #efede7; --good: #1f7a4d; --warn: #8a5a00; --bad: #b3261e;
  --insert: #2e6cb0; --update: #8556b3; --delete: #b0613a; --rest: #d6d3ca; --span: #54718c;
  --shade: rgb(30 33 36 / .16);
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #131517; --card: #1b1e21; --ink: #e9e7e2; --soft: #a4a9af; --line: #2f3338;
    --faint: #25292d; --good: #5fc491; --warn: #e3b04b; --bad: #f58a80;
    --insert: #6fabeb; --update: #bd99e8; --delete: #e09a70; --rest: #454a50; --span: #86a7c6;
    --shade: rgb(0 0 0 / .6);
  }
}
"""
_TEXT = """
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; text-size-adjust: 100%; }
body {
  margin: 0; background: var(--paper); color: var(--ink);
  font: 400 1rem/1.55 Inter, system-ui, -apple-system, "Segoe UI", Roboto, sans-serif;
  font-variant-numeric: tabular-nums; overflow-wrap: break-word;
}
main, footer { max-width: 68rem; margin: 0 auto; padding: 0 clamp(.9rem, 3vw, 2rem); }
main { padding-top: clamp(1rem, 4vw, 2.75rem); }
h1, h2, h3, p, dl, dd, ul, ol, figure, pre { margin: 0; padding: 0; }
h1 { font-size: clamp(1.6rem, 5.4vw, 2.35rem); line-height: 1.15; letter-spacing: -.022em;
  font-weight: 680; display: flex; gap: .6rem; align-items: flex-start; }
h1 .mark { width: 1.15em; height: 1.15em; }
h1 span { min-width: 0; }
h2 { font-size: 1.14rem; line-height: 1.3; letter-spacing: -.011em; font-weight: 650; }
h3 { font-size: 1rem; line-height: 1.35; font-weight: 620; }
code, pre, .graph { font-family: ui-monospace, "SF Mono", "Cascadia Mono", Menlo, Consolas,
  "DejaVu Sans Mono", monospace; font-size: .875em; }
code, b, span, em, td, th, dd { unicode-bidi: isolate; }
.note, .over, .quiet { color: var(--soft); }
.note { font-size: .9rem; }
.head > *, .pairs div > *, .marked > *, .commands > *, figcaption > *, figure p > *
  { min-width: 0; }
"""
_VERDICT = """
header, section { background: var(--card); border: 1px solid var(--line); border-radius: 14px;
  padding: clamp(1rem, 3vw, 1.7rem); margin-bottom: clamp(.8rem, 2vw, 1.25rem); }
header { border-top: 5px solid var(--tone); }
.good { --tone: var(--good); } .warn { --tone: var(--warn); } .bad { --tone: var(--bad); }
.quiet { --tone: var(--soft); }
header.quiet { color: var(--ink); }
.over { font-size: .92rem; margin-bottom: .55rem; }
.over b { color: var(--ink); font-weight: 600; }
.lead { margin-top: .7rem; font-size: 1.05rem; max-width: 46rem; text-wrap: pretty; }
.why { list-style: none; margin-top: .6rem; display: grid; gap: .25rem;
  grid-template-columns: minmax(0, 1fr); }
.why a { color: inherit; font-weight: 600; text-decoration-color: var(--tone);
  text-underline-offset: .2em; }
.mark { width: 1.15em; height: 1.15em; flex: none; vertical-align: -.2em; }
.mark circle { fill: var(--tone); }
.mark path { fill: none; stroke: var(--card); stroke-width: 2.2; stroke-linecap: round;
  stroke-linejoin: round; }
.error { margin-top: 1rem; padding: .8rem 1rem; border-radius: 8px; background: var(--faint);
  border-left: 3px solid var(--bad); white-space: pre-wrap; max-height: 24rem; overflow: auto; }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(6.6rem, 1fr));
  gap: .9rem 1.4rem; margin-top: 1.35rem; padding-top: 1.15rem; border-top: 1px solid var(--line); }
.figures div { display: flex; flex-direction: column-reverse; justify-content: flex-end; }
.figures dd { font-size: 1.42rem; line-height: 1.2; font-weight: 620; letter-spacing: -.018em; }
.figures dt { font-size: .84rem; color: var(--soft); }
.pairs { display: grid; gap: .3rem 2rem; margin-top: .9rem; font-size: .92rem;
  grid-template-columns: repeat(auto-fill, minmax(min(100%, 21rem), 1fr)); }
.pairs div { display: grid; grid-template-columns: 7.2rem minmax(0, 1fr); gap: .6rem; }
.pairs dt { color: var(--soft); }
header .pairs { margin-top: 1.25rem; padding-top: 1.1rem; border-top: 1px solid var(--line); }
"""
_TABLES = """
.head { display: flex; flex-wrap: wrap; align-items: baseline; justify-content: space-between;
  gap: .15rem 1rem; margin-bottom: .75rem; }
.scroll { overflow-x: auto; margin: 0 calc(-1 * clamp(1rem, 3vw, 1.7rem));
  padding: 0 clamp(1rem, 3vw, 1.7rem); scrollbar-width: thin; --ground: var(--card);
  background: linear-gradient(to right, var(--ground) 40%, transparent) 0 0 / 3rem 100% no-repeat
    local, linear-gradient(to left, var(--ground) 40%, transparent) 100% 0 / 3rem 100% no-repeat
    local, linear-gradient(to right, var(--shade), transparent) 0 0 / 1rem 100% no-repeat,
    linear-gradient(to left, var(--shade), transparent) 100% 0 / 1rem 100% no-repeat; }
section > .scroll:last-child, details > .scroll:last-child { margin-bottom: -.5rem; }
.scroll:focus-visible, summary:focus-visible, pre:focus-visible { outline: 2px solid var(--span);
  outline-offset: -2px; }
table { border-collapse: separate; border-spacing: 0; width: 100%; font-size: .92rem; }
caption { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
article caption, .sample caption { position: static; width: auto; height: auto;
  clip-path: none; text-align: left; color: var(--soft); font-size: .88rem; padding-bottom: .3rem; }
th, td { padding: .5rem .9rem .5rem 0; text-align: left; vertical-align: top; font-weight: 400;
  border-bottom: 1px solid var(--line); }
th:last-child, td:last-child { padding-right: 0; }
tbody tr:last-child > * { border-bottom: 0; }
thead th { color: var(--soft); font-size: .82rem; white-space: nowrap; vertical-align: bottom;
  padding-top: 0; }
tbody th { font-weight: 600; min-width: 7.5rem; max-width: 18rem; }
.number { white-space: nowrap; }
@media (min-width: 40.01rem) {
  .number { text-align: right; }
  .number + :not(.number) { padding-left: .8rem; }
  .since { min-width: 9.5rem; }
  td.wide, th.wide { min-width: 13rem; max-width: 30rem; }
}
.value { font-size: .86rem; min-width: 4rem; font-weight: 400; overflow-wrap: break-word;
  font-family: ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; }
.kind { color: var(--soft); white-space: nowrap; }
.below { display: block; font-weight: 400; font-size: .84rem; color: var(--soft); }
.nil { color: var(--soft); }
.ink-insert { color: var(--insert); } .ink-update { color: var(--update); }
.ink-delete { color: var(--delete); }
.ink-insert, .ink-update, .ink-delete { font-weight: 600; }
.marked { display: flex; gap: .5rem; align-items: flex-start; }
.marked .mark { margin-top: .2em; }
.asked { white-space: pre-wrap; }
.quiet + .scroll, .sample { margin-top: .8rem; }
.marked em { display: block; font-style: normal; font-size: .84rem; color: var(--tone); }
"""
_DRAWINGS = """
.drawing { min-width: 7rem; width: 16%; }
.drawing.long { min-width: 12rem; width: 46%; }
.bar { display: block; width: 100%; height: .62rem; margin-top: .46rem; border-radius: 3px; }
.track { fill: var(--faint); } .rest { fill: var(--rest); }
.insert { fill: var(--insert); } .update { fill: var(--update); } .delete { fill: var(--delete); }
.span { fill: var(--span); } rect.warn { fill: var(--warn); } rect.bad { fill: var(--bad); }
.legend { list-style: none; display: flex; flex-wrap: wrap; gap: .2rem 1.2rem; margin-top: .8rem;
  font-size: .86rem; color: var(--soft); }
.legend li { display: flex; align-items: center; gap: .42rem; }
.swatch { width: .72rem; height: .72rem; }
.plots { display: grid; gap: 1.1rem 2rem;
  grid-template-columns: repeat(auto-fill, minmax(min(100%, 16.5rem), 1fr)); }
figcaption, figure p { display: flex; flex-wrap: wrap; justify-content: space-between;
  gap: 0 1rem; }
figure p span { white-space: nowrap; }
figcaption { font-size: .95rem; }
figure p { font-size: .8rem; color: var(--soft); }
.plot { display: block; width: 100%; margin: .25rem 0; }
.plot .line { fill: none; stroke: var(--span); stroke-width: 2; stroke-linejoin: round; }
.plot .zero { fill: none; stroke: var(--rest); }
.plot .area { fill: var(--span); opacity: .13; }
.plot .dot { fill: var(--span); }
.plot .hollow { fill: var(--card); stroke: var(--span); stroke-width: 2; }
.graph { display: flex; font-size: .84rem; }
.graph svg { flex: none; margin-left: -3px; }
.graph path { fill: none; stroke: var(--rest); stroke-width: 2; stroke-linecap: round; }
.graph circle { fill: var(--span); }
.graph ol { list-style: none; padding-left: .6rem; white-space: pre; }
.graph li { height: 28px; line-height: 28px; }
.graph li.thin { height: 14px; }
.graph li.this { font-weight: 700; }
.hash { color: var(--soft); font-size: 1em; }
.name { border: 1px solid var(--line); border-radius: 5px; padding: .08rem .4rem;
  background: var(--faint); font-weight: 400; }
"""
_REST = """
article { border-left: 4px solid var(--tone); background: var(--faint);
  border-radius: 0 10px 10px 0; margin-bottom: .9rem;
  padding: .95rem clamp(.8rem, 2.5vw, 1.25rem) 1.05rem; }
article h3 { display: flex; gap: .5rem; align-items: flex-start; }
article h3 span { min-width: 0; }
article h3 em { font-style: normal; font-size: .84rem; font-weight: 600; color: var(--tone);
  margin-left: auto; }
article .mark path { stroke: var(--faint); }
article .mark { margin-top: .1em; }
article .pairs { margin-top: .55rem; }
article .scroll { margin: .8rem 0 0; padding: 0; --ground: var(--faint); }
details { margin-top: .4rem; }
summary { cursor: pointer; font-weight: 600; padding: .3rem 0; }
.boxes { display: grid; gap: 1.2rem 2.5rem;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 20rem), 1fr)); }
.boxes .pairs { grid-template-columns: 1fr; margin-top: .45rem; }
.commands { list-style: none; display: grid; gap: .5rem; grid-template-columns: minmax(0, 1fr); }
.commands code { display: block; padding: .6rem .85rem; border-radius: 8px;
  background: var(--faint); user-select: all; -webkit-user-select: all; }
.commands code::before { content: "$ "; color: var(--soft); }
footer { color: var(--soft); font-size: .85rem; padding-top: .3rem; padding-bottom: 2.5rem; }
@media (max-width: 40rem) {
  table, caption, tbody { display: block; }
  thead { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
  tbody tr { display: grid; grid-template-columns: repeat(auto-fill, minmax(4.6rem, 1fr));
    gap: .4rem .6rem; padding: .7rem 0; border-bottom: 1px solid var(--line); }
  tbody tr:first-child { padding-top: .2rem; }
  tbody tr:last-child { border-bottom: 0; }
  tbody th, tbody td, tbody .drawing, tbody .drawing.long { display: block; min-width: 0;
    max-width: none; width: auto; padding: 0; border: 0; }
  tbody th, .wide, .since, .beside, .drawing, .value { grid-column: 1 / -1; }
  tbody th { order: -2; } .drawing { order: -1; } .pair { grid-column: span 2; }
  td:not(.drawing)::before, th.value::before { content: attr(data-name); display: block;
    font: 400 .8rem/1.4 Inter, system-ui, -apple-system, "Segoe UI", Roboto, sans-serif;
    color: var(--soft); }
  tbody .wide, tbody .since, tbody .beside, tbody .value { display: grid; gap: .6rem;
    align-items: baseline; grid-template-columns: 6rem minmax(0, 1fr); }
  tbody .whole { display: block; }
  .kind { white-space: normal; }
  .bar { margin: .2rem 0; }
}
@media print {
  :root { --paper: #fff; --card: #fff; --faint: #f4f4f2; }
  html { font-size: 8.5pt; }
  header, section { border-radius: 0; border-width: 1px 0 0; padding: 12pt 0; margin: 0; }
  main, footer { max-width: none; padding: 0; }
  .scroll { overflow: visible; margin: 0; padding: 0; background: none; }
  tr, article, figure, .graph li { break-inside: avoid; }
  h2, .head { break-after: avoid; }
  svg { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
}
"""
STYLE = "".join((_COLOURS, _TEXT, _VERDICT, _TABLES, _DRAWINGS, _REST))
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
    digest = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
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
        element("style", Html(STYLE)),
    )
