"""``lw doctor`` and ``lw spark doctor``: checks of a place, and of Spark on this machine."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any

import typer

from lancewood.cli import options
from lancewood.cli.failing import ExitCode
from lancewood.cli.options import Printing
from lancewood.cli.tables import TableOptions
from lancewood.errors import InvalidInputError
from lancewood.spark.doctor import Trial, examine_spark
from lancewood.table import CheckStatus, StoreCheck, examine


def doctor_command(
    uri: options.Uri,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Leave out the checks that write.")
    ] = False,
    *,
    given: TableOptions,
) -> None:
    """Check a place and the table in it.

    What commits rest on is tried out in a directory that is removed again: rights, put-if-absent,
    listings, clock, syncing, space. Ends with an exit code of its own if a check fails.

    JSON keys: uri, ok, checks. A check has name, status (ok, warn, fail, skip), figure, advice.
    """
    store = given.access(uri).whole("the command").store
    _tell(examine(store, read_only=read_only), {"uri": store.uri}, given)


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
    location: Annotated[
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
    *,
    given: Printing,
) -> None:
    """Say what Spark needs, and what is missing.

    Looks for pyspark, a Java, the packages that executors need, and variables that mislead Spark.
    With --run a session is started in a process of its own: its workers say what they run, and
    write and read a small table. Ends with an exit code of its own if something is missing.

    JSON keys: ok, checks. A check has name, status (ok, warn, fail, skip), figure, advice.
    """
    trial = _trial(run, master, location, conf or ())
    _tell(examine_spark(os.environ, trial), {}, given)


def _trial(
    run: bool, master: str | None, location: str | None, conf: Sequence[str]
) -> Trial | None:
    if not run:
        if master or location or conf:
            raise InvalidInputError("--master, --place and --conf are for a trial: add --run")
        return None
    settings = {}
    for each in conf:
        name, equals, value = each.partition("=")
        if not equals:
            raise InvalidInputError("--conf is not KEY=VALUE, as in spark.executor.memory=4g")
        settings[name] = value
    return Trial(master or Trial().master, location, settings)


def _tell(checks: Iterable[StoreCheck], facts: Mapping[str, str], given: Printing) -> None:
    """Print checks as they are made, then advice; raise Exit if one failed."""
    seen: list[StoreCheck] = []
    if given.json:
        seen += checks
        document: dict[str, Any] = {
            **facts,
            "ok": not _has_failed(seen),
            "checks": [
                {"name": e.name, "status": e.status.value, "figure": e.figure, "advice": e.advice}
                for e in seen
            ],
        }
        given.output.document(document, "")
    else:
        given.output.rows(("check", "status", "seen"), _lines(checks, seen))
        for each in seen:
            if each.advice:
                print(f"{each.name}: {each.advice}")
    if _has_failed(seen):
        raise typer.Exit(ExitCode.CHECK_FAILED)


def _lines(checks: Iterable[StoreCheck], seen: list[StoreCheck]) -> Iterator[tuple[str, str, str]]:
    for each in checks:
        seen.append(each)
        yield each.name, each.status.value, each.figure


def _has_failed(checks: Iterable[StoreCheck]) -> bool:
    return any(each.status is CheckStatus.FAIL for each in checks)
