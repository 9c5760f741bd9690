"""Ten rows into a small table through a handle that is kept: the cost of a commit as such."""

from __future__ import annotations

from pathlib import Path

from bench import PYLANCE
from bench.contenders import OurAppender, PylanceAppender, ten_rows
from bench.measure import interleave
from bench.places import Places, scratch
from bench.result import LeastRatio, Row, Section
from bench.scale import Scale
from bench.tables import make_small

_PLAIN = "plain"
_SYNCED = "synced"


def run(scale: Scale, places: Places) -> Section:
    data = ten_rows()
    with scratch(places.disk) as here:
        plain = OurAppender(_made(here / "plain.lance"))
        synced = OurAppender(_made(here / "synced.lance"), fsync=True)
        pylance = PylanceAppender(_made(here / "pylance.lance"))
        found = interleave(
            {
                _PLAIN: lambda: plain.append(data),
                _SYNCED: lambda: synced.append(data),
                PYLANCE: lambda: pylance.append(data),
            },
            scale.append_passes,
        )
    return Section(
        name="small-append",
        title="Small append",
        note="On disk; ten rows each time, the handle is kept. pylance never syncs.",
        rows=(
            Row(
                work="append 10 rows",
                unit="ms",
                ours=found[_PLAIN],
                pylance=found[PYLANCE],
                target=LeastRatio(1.0),
            ),
            Row(
                work="append 10 rows, ours with fsync",
                unit="ms",
                ours=found[_SYNCED],
                pylance=found[PYLANCE],
            ),
        ),
    )


def _made(table: Path) -> Path:
    make_small(table)
    return table
