"""``lw reflog``: where a ref has been."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Annotated, Any

import typer

from lancewood.cli import options
from lancewood.cli.output import Output
from lancewood.cli.repository.finding import repository
from lancewood.cli.repository.telling import iso, plain, short
from lancewood.git.hashes import ZERO
from lancewood.git.refs import LogEntry

_KEYS = ("ref", "number", "old", "new", "name", "email", "time", "why")


def command(
    ref: Annotated[
        str, typer.Argument(metavar="[REF]", help="HEAD, a branch or the full name of a ref.")
    ] = "HEAD",
    limit: Annotated[
        int | None, typer.Option("--max-count", "-n", metavar="N", min=0, help="At most N moves.")
    ] = None,
    storage_option: options.StorageOptions = None,
    json: options.Json = False,
) -> None:
    """Show every move of HEAD or of a branch, newest first.

    REF@{2} names where it was two moves ago, wherever a revision is asked for.

    JSON lines with keys: ref, number, old, new, name, email, time, why.
    """
    with repository(storage_option) as repo:
        found = islice(repo.reflog(ref), limit)
        if json:
            Output(as_json=True).rows(_KEYS, _facts(ref, found))
            return
        for number, each in enumerate(found):
            print(f"{short(each.new)} {ref}@{{{number}}}: {plain(each.why)}")


def _facts(ref: str, entries: Iterator[LogEntry]) -> Iterator[tuple[Any, ...]]:
    for number, each in enumerate(entries):
        old = None if each.old == ZERO else each.old
        new = None if each.new == ZERO else each.new
        yield ref, number, old, new, each.by.name, each.by.email, iso(each.by), each.why
