"""Open and append where the directory of manifests is long: finding the newest is the work."""

from __future__ import annotations

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
from bench.result import Row, Section
from bench.scale import Scale
from bench.tables import make_versions


def run(scale: Scale, places: Places) -> Section:
    rows = _measure(scale, places) if scale.versions else ()
    left_out = "" if rows else " Left out of a quick run."
    return Section(
        name="versions",
        title="Many versions",
        note=f"On {places.fast_name}; a table of ten rows with a long history.{left_out}",
        rows=rows,
    )


def _measure(scale: Scale, places: Places) -> tuple[Row, ...]:
    data = ten_rows()
    with scratch(places.fast) as here:
        ours = here / "t.lance"
        make_versions(ours, scale.versions)
        pylances = twin(ours)
        our_handle, pylance_handle = OurAppender(ours), PylanceAppender(pylances)
        jobs = (
            ("open", lambda: our_open(ours), lambda: pylance_open(pylances)),
            (
                "append to an open handle",
                lambda: our_handle.append(data),
                lambda: pylance_handle.append(data),
            ),
            (
                "append by uri",
                lambda: our_append_by_uri(ours, data),
                lambda: pylance_append_by_uri(pylances, data),
            ),
        )
        rows = []
        for verb, our_job, pylance_job in jobs:
            found = interleave({OURS: our_job, PYLANCE: pylance_job}, scale.metadata_passes)
            work = f"{scale.versions:,} versions: {verb}"
            rows.append(Row(work=work, unit="ms", ours=found[OURS], pylance=found[PYLANCE]))
    return tuple(rows)
