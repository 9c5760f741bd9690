"""``lw tables``: what a commit pins."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import lancewood as lw
from lancewood.catalog.pin import Pin
from lancewood.cli import options
from lancewood.cli.output import Output, count
from lancewood.cli.repository import words
from lancewood.cli.repository.finding import place_of, repository
from lancewood.model.refs import MAIN
from lancewood.repo.looking.view import View

_KEYS = ("table", "rows", "fragments", "branch", "version", "uri")


def command(
    revision: words.Revision = "HEAD",
    storage_option: options.StorageOptions = None,
    json: options.Json = False,
) -> None:
    """List the tables of a commit, and where each is read.

    The uri names exactly the version that is pinned, for lw table cat and all that read. A
    version that a transaction of the repository made has a large number of its own.

    JSON lines with keys: table, rows, fragments, branch, version, uri.
    """
    with repository(storage_option) as repo:
        is_unborn = revision == "HEAD" and repo.head.hash is None
        view = None if is_unborn else repo.at(revision)
        found = iter(()) if view is None else _rows(view, repo)
        if json:
            Output(as_json=True).rows(_KEYS, found)
        else:
            shown = ((row[0], count(row[1]), count(row[2]), row[5]) for row in found)
            Output(as_json=False).rows(("table", "rows", "fragments", "uri"), shown)


def _rows(view: View, repo: lw.Repository) -> Iterator[tuple[Any, ...]]:
    for name in view.tables:
        pin = view.pin(name)
        branch = str(pin.branch or MAIN)
        yield name, pin.rows, pin.fragments, branch, int(pin.version), _uri(pin, repo)


def _uri(pin: Pin, repo: lw.Repository) -> str:
    """What ``lw table`` takes, seen from the current directory."""
    return f"{place_of(repo, pin)}@{pin.branch or ''}:{pin.version}"
