"""Work whose cost is the manifest's: open, count and append, by the number of fragments."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from bench import OURS, PYLANCE
from bench.contenders import (
    OurAppender,
    PylanceAppender,
    our_append_by_uri,
    our_open,
    pylance_append_by_uri,
    pylance_open,
    ten_rows,
)
from bench.measure import interleave
from bench.places import Places, scratch, twin
from bench.result import LeastRatio, Row, Section
from bench.scale import Scale
from bench.tables import make_fragments

BUDGETED = 100_000
"""The number of fragments that the budget speaks of."""


def run(scale: Scale, places: Places) -> Section:
    cases = [(count, False) for count in scale.fragments]
    cases += [(count, True) for count in scale.stable_fragments]
    rows: list[Row] = []
    for count, stable in cases:
        with scratch(places.fast) as here:
            rows += _measure(here / "t.lance", count, stable, scale.metadata_passes)
    return Section(
        name="metadata",
        title="Metadata, by the number of fragments",
        note=f"On {places.fast_name}; a fragment has ten rows, an append adds one fragment.",
        rows=tuple(rows),
    )


def _measure(ours: Path, count: int, stable: bool, passes: int) -> Iterator[Row]:
    make_fragments(ours, count, stable_row_ids=stable)
    pylances = twin(ours)
    data = ten_rows()
    our_handle, pylance_handle = OurAppender(ours), PylanceAppender(pylances)
    jobs = (
        ("open", 10.0, lambda: our_open(ours), lambda: pylance_open(pylances)),
        (
            "open and count rows",
            None,
            lambda: our_open(ours).count_rows(),
            lambda: pylance_open(pylances).count_rows(),
        ),
        (
            "append to an open handle",
            5.0,
            lambda: our_handle.append(data),
            lambda: pylance_handle.append(data),
        ),
        (
            "append by uri",
            5.0,
            lambda: our_append_by_uri(ours, data),
            lambda: pylance_append_by_uri(pylances, data),
        ),
    )
    kind = ", stable row ids" if stable else ""
    for verb, least, our_job, pylance_job in jobs:
        found = interleave({OURS: our_job, PYLANCE: pylance_job}, passes)
        yield Row(
            work=f"{count:,} fragments{kind}: {verb}",
            unit="ms",
            ours=found[OURS],
            pylance=found[PYLANCE],
            target=LeastRatio(least) if least and count == BUDGETED else None,
        )
