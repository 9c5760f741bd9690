"""The tables of a page in Markdown, so that tests can execute what the page says.

Knows headings and rows between bars. Does not know what the cells mean.
"""

from __future__ import annotations

from pathlib import Path


def page_tables(page: Path) -> dict[str, list[tuple[str, ...]]]:
    """The rows of the table below each heading, without its head; backticks are taken off."""
    found: dict[str, list[tuple[str, ...]]] = {}
    heading = ""
    for line in page.read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            heading = line.lstrip("# ")
        elif line.startswith("|"):
            cells = tuple(each.strip().strip("`") for each in line.strip("|").split("|"))
            found.setdefault(heading, []).append(cells)
    return {heading: rows[2:] for heading, rows in found.items()}
