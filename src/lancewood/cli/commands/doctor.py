"""``lw doctor``: the checks of a place and the table in it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from lancewood.cli import options
from lancewood.cli.exit_codes import ExitCode
from lancewood.cli.output import Output
from lancewood.cli.snapshots import opened_store
from lancewood.engine.doctor import examine
from lancewood.store.checkup import Check, Status


def command(
    uri: options.Uri,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Leave out the checks that write.")
    ] = False,
    storage_option: options.StorageOptions = None,
    json: options.Json = False,
) -> None:
    """Check a place and the table in it.

    What commits rest on is tried out in a directory that is removed again: rights, put-if-absent,
    listings, clock, syncing, space. Ends with an exit code of its own if a check fails.

    JSON keys: uri, ok, checks. A check has name, status (ok, warn, fail, skip), figure, advice.
    """
    store = opened_store(uri, storage_option)
    seen: list[Check] = []
    output = Output(as_json=json)
    if json:
        seen += examine(store, read_only=read_only)
        document = {
            "uri": store.uri,
            "ok": not _failed(seen),
            "checks": [
                {"name": e.name, "status": e.status.value, "figure": e.figure, "advice": e.advice}
                for e in seen
            ],
        }
        output.document(document, "")
    else:
        output.rows(("check", "status", "seen"), _lines(store, read_only, seen))
        for each in seen:
            if each.advice:
                print(f"{each.name}: {each.advice}")
    if _failed(seen):
        raise typer.Exit(ExitCode.CHECK_FAILED)


def _lines(store: Any, read_only: bool, seen: list[Check]) -> Iterator[tuple[str, str, str]]:
    for each in examine(store, read_only=read_only):
        seen.append(each)
        yield each.name, each.status.value, each.figure


def _failed(checks: list[Check]) -> bool:
    return any(each.status is Status.FAIL for each in checks)
