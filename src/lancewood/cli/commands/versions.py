"""``lw table versions``: what happened, newest first."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from lancewood.cli import options
from lancewood.cli.output import Output, count, moment
from lancewood.cli.revision_options import Branch
from lancewood.cli.snapshots import opened_history
from lancewood.engine.history import VersionInfo, iterate_versions
from lancewood.engine.versions import require_newest

_KEYS = ("version", "timestamp", "operation", "rows", "message", "properties", "damage")


def command(
    uri: options.UriOrName,
    limit: Annotated[
        int, typer.Option("--limit", "-n", metavar="N", min=0, help="At most N versions.")
    ] = 20,
    all_versions: Annotated[bool, typer.Option("--all", help="All versions.")] = False,
    branch: Branch = None,
    storage_option: options.StorageOptions = None,
    json: options.Json = False,
) -> None:
    """List versions, newest first.

    Each is opened when the list comes to it; a damaged one is listed with what is wrong.

    JSON lines with keys: version, timestamp, operation, rows, message, properties, damage.
    """
    output = Output(as_json=json)
    found = _versions(uri, storage_option, branch, None if all_versions else limit)
    if json:
        output.rows(_KEYS, map(_facts, found))
    else:
        output.rows(("version", "time", "operation", "rows", "message"), map(_line, found))


def _versions(
    uri: str, storage_option: list[str] | None, branch: str | None, limit: int | None
) -> Iterator[VersionInfo]:
    store = opened_history(uri, storage_option, branch)
    require_newest(store)
    return iterate_versions(store, limit)


def _facts(each: VersionInfo) -> tuple[Any, ...]:
    return (
        each.version,
        None if each.timestamp is None else each.timestamp.isoformat(),
        each.operation,
        each.rows,
        each.message,
        dict(each.properties),
        each.damage,
    )


def _line(each: VersionInfo) -> tuple[Any, ...]:
    told = f"damaged: {each.damage}" if each.damage else each.message or ""
    return each.version, moment(each.timestamp), each.operation, count(each.rows), told
