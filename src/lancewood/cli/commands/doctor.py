"""``lw doctor``: the checks of a place and the table in it.

``lw spark doctor``: what Spark needs on this machine, and what of it is there.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Annotated, Any

import typer

from lancewood.cli import options
from lancewood.cli.failing import ExitCode
from lancewood.cli.output import Output
from lancewood.cli.tables import opened_store
from lancewood.engine.upkeep import examine
from lancewood.errors import InvalidInputError
from lancewood.spark.doctor import Trial, examine_spark
from lancewood.store.checkup import Check, Status


def doctor_command(
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
            "ok": not _failed_checks(seen),
            "checks": [
                {"name": e.name, "status": e.status.value, "figure": e.figure, "advice": e.advice}
                for e in seen
            ],
        }
        output.document(document, "")
    else:
        output.rows(("check", "status", "seen"), _check_lines(store, read_only, seen))
        for each in seen:
            if each.advice:
                print(f"{each.name}: {each.advice}")
    if _failed_checks(seen):
        raise typer.Exit(ExitCode.CHECK_FAILED)


def _check_lines(store: Any, read_only: bool, seen: list[Check]) -> Iterator[tuple[str, str, str]]:
    for each in examine(store, read_only=read_only):
        seen.append(each)
        yield each.name, each.status.value, each.figure


def _failed_checks(checks: list[Check]) -> bool:
    return any(each.status is Status.FAIL for each in checks)


def spark_doctor_command(
    run: Annotated[
        bool, typer.Option("--run", help="Start a session, and try it out on its workers.")
    ] = False,
    master: Annotated[
        str | None,
        typer.Option(
            "--master", metavar="URL", help="With --run: where, instead of two local threads."
        ),
    ] = None,
    place: Annotated[
        str | None,
        typer.Option(
            "--place",
            metavar="URI",
            help="With --run: where a table is tried that is removed again; a cluster needs it.",
        ),
    ] = None,
    conf: Annotated[
        list[str] | None,
        typer.Option(
            "--conf", metavar="KEY=VALUE", help="With --run: a setting of Spark's. May be repeated."
        ),
    ] = None,
    json: options.Json = False,
) -> None:
    """Say what Spark needs, and what of it is there.

    Looks for pyspark, a Java, the packages that executors need, and variables that mislead Spark.
    With --run a session is started in a process of its own: its workers say what they run, and
    write and read a small table. Ends with an exit code of its own if something is missing.

    JSON keys: ok, checks. A check has name, status (ok, warn, fail, skip), figure, advice.
    """
    trial = _trial(run, master, place, conf or ())
    seen: list[Check] = []
    output = Output(as_json=json)
    if json:
        seen += examine_spark(os.environ, trial)
        checks = [
            {"name": e.name, "status": e.status.value, "figure": e.figure, "advice": e.advice}
            for e in seen
        ]
        output.document({"ok": not _failed_parts(seen), "checks": checks}, "")
    else:
        output.rows(("check", "status", "seen"), _part_lines(trial, seen))
        for each in seen:
            if each.advice:
                print(f"{each.name}: {each.advice}")
    if _failed_parts(seen):
        raise typer.Exit(ExitCode.CHECK_FAILED)


def _trial(run: bool, master: str | None, place: str | None, conf: Sequence[str]) -> Trial | None:
    if not run:
        if master or place or conf:
            raise InvalidInputError("--master, --place and --conf are for a trial: add --run")
        return None
    settings = {}
    for each in conf:
        name, equals, value = each.partition("=")
        if not equals:
            raise InvalidInputError("--conf is not KEY=VALUE, as in spark.executor.memory=4g")
        settings[name] = value
    return Trial(master or Trial().master, place, settings)


def _part_lines(trial: Trial | None, seen: list[Check]) -> Iterator[tuple[str, str, str]]:
    for each in examine_spark(os.environ, trial):
        seen.append(each)
        yield each.name, each.status.value, each.figure


def _failed_parts(checks: Sequence[Check]) -> bool:
    return any(each.status is Status.FAIL for each in checks)
