"""Peak memory of opening a large manifest, as a multiple of its size; a process each time."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from bench import OURS, PYLANCE
from bench.places import Places, scratch
from bench.result import Row, Section
from bench.scale import Scale
from bench.tables import make_fragments, make_small, newest_manifest

ROOT = Path(__file__).resolve().parent.parent
_SECONDS = 120


def run(scale: Scale, places: Places) -> Section:
    with scratch(places.fast) as here:
        small, large = here / "small.lance", here / "large.lance"
        make_small(small)
        make_fragments(large, scale.memory_fragments, stable_row_ids=False)
        size = newest_manifest(large).stat().st_size
        found: dict[str, list[float]] = {OURS: [], PYLANCE: []}
        for _ in range(scale.memory_passes):
            for library, multiples in found.items():
                multiples.append(_peak_growth(library, small, large) / size)
    return Section(
        name="memory",
        title="Memory of opening",
        note=f"Growth of the peak resident size over a process that has just opened a small "
        f"table, divided by the {size:,} bytes of the manifest.",
        rows=(
            Row(
                work=f"{scale.memory_fragments:,} fragments: open",
                unit="manifests",
                ours=tuple(found[OURS]),
                pylance=tuple(found[PYLANCE]),
            ),
        ),
    )


def _peak_growth(library: str, small: Path, large: Path) -> int:
    command = [sys.executable, "-m", "bench.memory_worker", library, str(small), str(large)]
    done = subprocess.run(
        command, cwd=ROOT, check=True, capture_output=True, text=True, timeout=_SECONDS
    )
    return int(json.loads(done.stdout)["growth"])
