"""The report of a run in a real browser: it fits a phone, shows the figures, and runs nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.chromium import Browser, Tab, browser, find_chromium
from tests.unit.pipeline.report_facts import broken, failed_checks, large, published
from tests.unit.pipeline.report_pages import with_texts

from lancewood.pipeline.report.facts import CheckFacts, Ending
from lancewood.pipeline.report.markup import count
from lancewood.pipeline.report.page import page

PHONE, DESKTOP = 390, 1280
SMALLEST = 320
POLICY = re.compile(r'<meta http-equiv="Content-Security-Policy"[^>]*>')
ATTACK = (
    "<script>window.ran = 'script'</script><img src=x onerror=\"window.ran = 'image'\">"
    "<svg onload=\"window.ran = 'svg'\"></svg>\"' onmouseover='window.ran = 1' x=\"</title></style>"
)
CELLS = """(caption) => {
    const all = [...document.querySelectorAll('table')];
    const found = all.find(each => each.caption.textContent === caption);
    return [...found.tBodies[0].rows].map(
        row => [...row.cells].map(cell => cell.innerText.trim()));
}"""
CHECK_OF_MANY = CheckFacts(
    "photos.name+taken+image+thumbnail+features not null", "not null", "photos", True
)
RUNS = {
    "published": published(),
    "failed": failed_checks(),
    "broken": broken(),
    "many columns": replace(published(), checks=[CHECK_OF_MANY, *published().checks]),
    "hostile": with_texts(lambda location: ATTACK + location, Ending.CHECKS_FAILED),
    "long names": with_texts(lambda location: location + "x" * 5_000, Ending.CHECKS_FAILED),
    "large": large("orders_2026", is_passed=False),
}


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    program = find_chromium()
    if program is None:
        pytest.skip("there is no Chromium on this machine: scripts/install_browser.sh installs it")
    with browser(program, tmp_path_factory.mktemp("profile")) as made:
        yield made


def opened(
    chromium: Browser, folder: Path, html: str, width: int = DESKTOP, scheme: str = "light"
) -> Tab:
    file = folder / "report.html"
    file.write_text(html, encoding="utf-8")
    tab = chromium.new_tab()
    tab.look(width, 844, scheme=scheme, is_phone=width < 600)
    tab.open(file.as_uri())
    return tab


def cells(tab: Tab, caption: str) -> list[list[str]]:
    found: list[list[str]] = tab.ask(f"({CELLS})({json.dumps(caption)})")
    return found


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", RUNS)
def test_the_page_fits_every_width_loads_nothing_and_the_console_is_silent(
    name: str, scheme: str, chromium: Browser, tmp_path: Path
) -> None:
    tab = opened(chromium, tmp_path, page(RUNS[name]), PHONE, scheme)
    for width in (SMALLEST, PHONE, DESKTOP):
        tab.look(width, 844, scheme=scheme, is_phone=width < 600)
        assert tab.ask("document.documentElement.scrollWidth") == width
    assert tab.complaints() == []
    assert tab.requests() == [(tmp_path / "report.html").as_uri()]


@pytest.mark.parametrize("name", ["published", "failed", "broken", "many columns"])
@pytest.mark.parametrize("width", [SMALLEST, PHONE, 760, DESKTOP])
def test_cells_are_within_reach_and_say_what_they_are_and_words_stay_whole(
    name: str, width: int, chromium: Browser, tmp_path: Path
) -> None:
    tab = opened(chromium, tmp_path, page(RUNS[name]), width)
    if width <= PHONE:
        looked, beyond = tab.ask(CELLS_BEYOND)
        assert looked > 10
        assert (beyond, tab.ask(UNNAMED_CELLS)) == ([], [])
    looked, split = tab.ask(SPLIT_WORDS)
    assert looked > 100
    assert split == [] or width == SMALLEST, "there a run's id is longer than a line"


@pytest.mark.parametrize("width", [PHONE, DESKTOP])
def test_what_is_wider_than_its_box_scrolls_there_and_its_edge_says_so(
    width: int, chromium: Browser, tmp_path: Path
) -> None:
    tab = opened(chromium, tmp_path, page(RUNS["long names"]), width)
    boxes: list[Any] = tab.ask(
        "[...document.querySelectorAll('.scroll')].map(e => [e.scrollWidth, e.clientWidth, "
        "getComputedStyle(e).backgroundImage.includes('gradient')])"
    )
    assert any(inside > outside for inside, outside, _ in boxes)
    assert all(outside <= width and is_shaded for _, outside, is_shaded in boxes)


def test_the_axis_of_rows_begins_at_zero(chromium: Browser, tmp_path: Path) -> None:
    facts = published()
    tab = opened(chromium, tmp_path, page(facts))
    heights: list[Any] = tab.ask(
        "[...document.querySelectorAll('.plot')].map(plot => {"
        "const at = e => e.getBoundingClientRect(), zero = at(plot.querySelector('.zero')).bottom;"
        "const line = at(plot.querySelector('.line'));"
        "return (zero - line.bottom) / (zero - line.top); })"
    )
    rows = {each.table: each.rows_after or 0 for each in facts.targets}
    shares = [facts.past[0].rows[table] / rows[table] for table in rows]
    assert heights == [pytest.approx(each, abs=0.03) for each in shares]


def test_a_stage_that_failed_is_red_and_says_so(chromium: Browser, tmp_path: Path) -> None:
    facts = broken()
    facts.stages[-1].is_failed = True
    tab = opened(chromium, tmp_path, page(facts))
    assert cells(tab, "Stages")[-1][0].split() == [facts.stages[-1].name, "failed"]
    assert tab.ask("document.querySelectorAll('rect.bad').length") == 1
    assert tab.ask("document.querySelectorAll('rect.span').length") == len(facts.stages) - 1


@pytest.mark.parametrize("width", [PHONE, DESKTOP])
def test_the_figures_in_the_browser_are_those_of_the_facts(
    width: int, chromium: Browser, tmp_path: Path
) -> None:
    facts = failed_checks()
    tab = opened(chromium, tmp_path, page(facts), width)
    assert tab.ask("document.querySelector('h1').innerText") == "1 check failed"
    tables = cells(tab, "Tables")
    assert [each[2] for each in tables] == [
        f"{count(each.rows_before)} → {count(each.rows_after)}" for each in facts.targets
    ]
    assert [each[4:7] for each in tables] == [
        [count(each.inserted), count(each.updated), count(each.deleted)] for each in facts.targets
    ]
    assert [each[2] for each in cells(tab, "Sources")] == [
        count(each.rows) for each in facts.sources
    ]
    assert cells(tab, "5 of 214 failing rows") == [list(each) for each in facts.checks[2].sample]
    assert facts.quarantine is not None
    assert [tuple(each[:3]) for each in cells(tab, "Reasons")] == [
        (origin, reason, count(number)) for origin, reason, number in facts.quarantine.by_reason
    ]


def test_bars_are_as_long_as_what_they_stand_for(chromium: Browser, tmp_path: Path) -> None:
    tab = opened(chromium, tmp_path, page(published()))
    lengths: list[float] = tab.ask(
        "[...document.querySelectorAll('rect.span')].map(e => e.getBoundingClientRect().width)"
    )
    stages = published().stages
    assert len(lengths) == len(stages)
    per_second = lengths[1] / stages[1].seconds
    for length, stage in zip(lengths, stages, strict=True):
        assert length == pytest.approx(per_second * stage.seconds, abs=2)


@pytest.mark.parametrize("is_guarded", [True, False])
def test_hostile_data_does_not_run(is_guarded: bool, chromium: Browser, tmp_path: Path) -> None:
    html = page(RUNS["hostile"])
    if not is_guarded:
        html, removed = POLICY.subn("", html)
        assert removed == 1
    tab = opened(chromium, tmp_path, html)
    assert tab.ask("window.ran === undefined")
    assert tab.ask("document.querySelectorAll('script, img, [onload], [onmouseover]').length") == 0
    assert tab.complaints() == []
    assert ATTACK[:20] in tab.ask("document.body.innerText")


def test_the_same_attack_runs_in_a_page_that_does_not_escape(
    chromium: Browser, tmp_path: Path
) -> None:
    tab = opened(chromium, tmp_path, f"<!doctype html><body>{ATTACK}</body>")
    assert tab.ask("window.ran") is not None
    assert tab.complaints() != []


def test_a_page_that_forgets_to_escape_is_stopped_by_its_own_policy(
    chromium: Browser, tmp_path: Path
) -> None:
    html = page(published()).replace("<main>", f"<main>{ATTACK}")
    assert ATTACK in html
    tab = opened(chromium, tmp_path, html)
    assert tab.ask("window.ran === undefined")
    assert [each for each in tab.complaints() if "Content Security Policy" in each]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["published", "failed"])
def test_texts_stand_out_from_what_is_behind_them(
    name: str, scheme: str, chromium: Browser, tmp_path: Path
) -> None:
    tab = opened(chromium, tmp_path, page(RUNS[name]), scheme=scheme)
    weak: list[Any] = tab.ask(WEAK_TEXTS)
    assert weak == []


CELLS_BEYOND = """(() => {
    const all = [...document.querySelectorAll('tbody th, tbody td')];
    const wide = document.documentElement.clientWidth;
    const beyond = all.filter(each => {
        const at = each.getBoundingClientRect();
        return at.left < 0 || at.right > wide || each.scrollWidth > each.clientWidth + 1;
    });
    return [all.length, beyond.map(each => each.innerText)];
})()"""
"""How many cells there are, and those that one would have to scroll for."""

UNNAMED_CELLS = """[...document.querySelectorAll('tbody td:not(.drawing)')]
    .filter(e => !getComputedStyle(e, '::before').content.includes(e.dataset.name))
    .map(e => e.innerText)"""
"""Cells that do not say what they are."""

SPLIT_WORDS = """(() => {
    const words = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    const split = [];
    let looked = 0;
    while (words.nextNode()) {
        const node = words.currentNode, range = document.createRange();
        const hidden = node.parentElement.closest('caption, thead');
        if (hidden && getComputedStyle(hidden).clipPath !== 'none') continue;
        for (const found of node.data.matchAll(/[A-Za-z0-9_]+/g)) {
            range.setStart(node, found.index);
            range.setEnd(node, found.index + found[0].length);
            const lines = new Set([...range.getClientRects()].map(each => Math.round(each.top)));
            looked += 1;
            if (lines.size > 1) split.push(found[0]);
        }
    }
    return [looked, split];
})()"""
"""How many words there are, and those that stand on two lines."""

WEAK_TEXTS = """(() => {
    const numbers = text => text.match(/[\\d.]+/g).map(Number);
    const light = ([r, g, b]) => {
        const part = each => (each /= 255) <= 0.03928 ? each / 12.92
            : ((each + 0.055) / 1.055) ** 2.4;
        return 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
    };
    const behind = element => {
        for (let each = element; each; each = each.parentElement) {
            const found = numbers(getComputedStyle(each).backgroundColor);
            if (found.length < 4 || found[3] > 0) return found;
        }
        return [255, 255, 255];
    };
    const words = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    const weak = [];
    let looked = 0;
    while (words.nextNode()) {
        const element = words.currentNode.parentElement;
        if (!words.currentNode.data.trim() || element.closest('svg')) continue;
        looked += 1;
        const a = light(numbers(getComputedStyle(element).color)), b = light(behind(element));
        const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
        if (contrast < 4.5) weak.push([words.currentNode.data, contrast]);
    }
    return looked > 50 ? weak : ['too few texts'];
})()"""
"""Texts whose contrast is below what the web's guidelines for accessibility ask for."""
