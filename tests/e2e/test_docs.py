"""Every snippet of the documentation is run, and prints what the page says it prints."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]+\]\(([^)#:]+)(?:#[^)]*)?\)")


@pytest.mark.parametrize("page", PAGES, ids=lambda each: each.name)
def test_the_snippets_of_a_page_print_what_it_says(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    space: dict[str, object] = {"__name__": "__docs__"}
    blocks = FENCE.findall(page.read_text())
    for (kind, text), (after, expected) in zip(blocks, [*blocks[1:], ("", "")], strict=False):
        if kind != "python":
            continue
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(text, str(page), "exec"), space)
        assert printed.getvalue() == (expected if after == "text" else "")


@pytest.mark.parametrize("page", PAGES, ids=lambda each: each.name)
def test_the_links_of_a_page_lead_somewhere(page: Path) -> None:
    for target in LINK.findall(page.read_text()):
        assert (page.parent / target).exists(), target


def test_every_make_target_of_the_readme_exists() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"make ([a-z]+)", (ROOT / "README.md").read_text()))
    assert {"demo", "test", "help"} <= named <= targets


def test_the_pages_name_no_registry_and_the_lock_file_no_address() -> None:
    assert "://" not in (ROOT / "requirements.lock").read_text()
    lines = (ROOT / "requirements.lock").read_text().splitlines()
    assert all(re.match(r"[\w.-]+==[\w.]+", line) for line in lines if line)
