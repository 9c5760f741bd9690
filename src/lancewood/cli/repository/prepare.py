"""``lw prepare``: tables are made ready to be written on a branch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any

import typer

import lancewood as lw
from lancewood.catalog.pin import Pin
from lancewood.cli import options
from lancewood.cli.output import Output
from lancewood.cli.repository import words
from lancewood.cli.repository.finding import place_of, repository

_KEYS = ("table", "branch", "version", "uri")


def command(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME]...", help="Tables; all of them if left out."),
    ] = None,
    branch: words.OnBranch = None,
    adopt: words.Adopt = False,
    storage_option: options.StorageOptions = None,
    json: options.Json = False,
) -> None:
    """Make tables ready to be written on the current branch, and say where.

    For lw table, pylance and Spark: what they write there is recorded by lw commit. A branch of
    the table is made from what is committed, if it has none of that name yet; what was written
    since stays.

    JSON lines with keys: table, branch, version, uri.
    """
    with repository(storage_option) as repo:
        on = branch or repo.head.branch
        found = _prepared(repo, on, names, adopt=adopt)
        Output(as_json=json).rows(_KEYS, found)


def _prepared(
    repo: lw.Repository, branch: str | None, names: Sequence[str] | None, *, adopt: bool
) -> Iterator[tuple[Any, ...]]:
    known = repo.at(f"refs/heads/{branch}") if branch else repo.at()
    for name in known.tables if names is None else names:
        table = repo.prepare(name, branch=branch, adopt=adopt)
        uri = _uri(repo, known.pin(name), table.branch)
        yield name, table.branch or "main", table.version, uri


def _uri(repo: lw.Repository, pin: Pin, branch: str | None) -> str:
    place = place_of(repo, pin)
    return f"{place}@{branch}" if branch else place
