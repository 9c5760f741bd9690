"""Processes appending to one table on S3: commits a second, and how many requests each costs.

The server is moto's, on this machine: it answers some hundred requests a second, all writers
together, so this compares how sparing and how patient the libraries are, and not how fast S3 is.
"""

from __future__ import annotations

import contextlib
import statistics
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from uuid import uuid4

import lancewood as lw
from bench import OURS, PYLANCE
from bench.contenders import Options, open_appender, ten_rows
from bench.contention import rows_off
from bench.crew import ROOT, Crew
from bench.places import Places
from bench.result import Most, Row, Section
from bench.scale import Scale
from lancewood.testing.wire import FaultyWire


@dataclass(frozen=True, slots=True)
class Round:
    """What one round on a fresh table came to."""

    commits_per_second: float
    longest_wait_ms: float
    errors: int
    rows_off: int


def run(scale: Scale, places: Places) -> Section:
    rows: list[Row] = []
    with _server() as endpoint:
        for writers in scale.s3_writers:
            rounds: dict[str, list[Round]] = {OURS: [], PYLANCE: []}
            with Crew(writers) as crew:
                for _ in range(scale.s3_rounds + 1):
                    for library, done in rounds.items():
                        appends = scale.s3_appends_per_writer
                        done.append(_round(crew, library, endpoint, appends))
            rows += _rows(f"{writers} writers" if writers > 1 else "1 writer", rounds)
        rows.append(_requests(endpoint))
    return Section(
        name="s3",
        title="Processes appending to one table on S3",
        note=f"{scale.s3_appends_per_writer} appends of 10 rows each, all started together, with "
        "handles kept; moto's server on this machine, which is most of what is measured. Errors "
        "and rows are totals of all rounds, the first included.",
        rows=tuple(rows),
    )


@contextlib.contextmanager
def _server() -> Iterator[str]:
    with subprocess.Popen(
        [sys.executable, str(ROOT / "scripts" / "s3_server.py")],
        stdout=subprocess.PIPE,
        text=True,
    ) as server:
        assert server.stdout is not None
        try:
            endpoint = server.stdout.readline().strip()
            if not endpoint:
                raise RuntimeError("the S3 server did not start")
            yield endpoint
        finally:
            server.kill()


def _fresh_table(endpoint: str, options: Options) -> str:
    """A table in a bucket of its own, because the server's listings go through all of a bucket."""
    bucket = f"bench-{uuid4().hex}"
    request = urllib.request.Request(f"{endpoint}/{bucket}", method="PUT")
    urllib.request.urlopen(request, timeout=30).close()
    uri = f"s3://{bucket}/t.lance"
    lw.create(uri, ten_rows(), access=lw.Access(storage_options=options))
    return uri


def _options(endpoint: str) -> Options:
    return {
        "aws_access_key_id": "bench",
        "aws_secret_access_key": "bench",
        "aws_region": "us-east-1",
        "aws_endpoint": endpoint,
        "allow_http": "true",
    }


def _round(crew: Crew, library: str, endpoint: str, appends: int) -> Round:
    options = _options(endpoint)
    table = _fresh_table(endpoint, options)
    reports = crew.append(library, table, appends=appends, fsync=False, options=options)
    acknowledged = [first for report in reports for first in report.acknowledged]
    if not acknowledged:
        raise RuntimeError(f"{library}: not one append succeeded: {reports[0].errors[:1]}")
    seconds = max(each.ended for each in reports) - min(each.started for each in reports)
    return Round(
        commits_per_second=len(acknowledged) / seconds,
        longest_wait_ms=max(wait for report in reports for wait in report.waits) * 1_000,
        errors=sum(len(each.errors) for each in reports),
        rows_off=rows_off(table, acknowledged, options),
    )


def _rows(who: str, rounds: dict[str, list[Round]]) -> list[Row]:
    ours, pylance = rounds[OURS], rounds[PYLANCE]
    return [
        Row(
            work=f"{who}: commits",
            unit="/s",
            ours=tuple(each.commits_per_second for each in ours[1:]),
            pylance=tuple(each.commits_per_second for each in pylance[1:]),
            more_is_better=True,
        ),
        Row(
            work=f"{who}: longest wait",
            unit="ms",
            ours=tuple(each.longest_wait_ms for each in ours[1:]),
            pylance=tuple(each.longest_wait_ms for each in pylance[1:]),
        ),
        Row(
            work=f"{who}: errors",
            unit="",
            ours=(sum(each.errors for each in ours),),
            pylance=(sum(each.errors for each in pylance),),
            target=Most(0),
        ),
        Row(
            work=f"{who}: rows lost or doubled",
            unit="",
            ours=(sum(each.rows_off for each in ours),),
            pylance=(sum(each.rows_off for each in pylance),),
            target=Most(0),
        ),
    ]


def _requests(endpoint: str) -> Row:
    """How many requests an append makes that meets nobody."""
    counted: dict[str, tuple[float, ...]] = {}
    with FaultyWire(endpoint) as wire:
        options = _options(wire.endpoint)
        for library in (OURS, PYLANCE):
            appender = open_appender(library, _fresh_table(endpoint, options), options=options)
            samples = []
            for first in (10, 20, 30):
                wire.play()
                appender.append(ten_rows(first))
                samples.append(float(len(wire.requests)))
            counted[library] = (statistics.median(samples),)
    return Row(work="requests of one append", unit="", ours=counted[OURS], pylance=counted[PYLANCE])
