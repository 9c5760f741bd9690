"""``python -m bench [names…] [--quick] [--json PATH]``: run, print, and write down what was found.

``python -m bench peers``, which fetches packages, and ``python -m bench against`` another checkout
are commands of their own. Only a full run of everything else rewrites docs/benchmarks.md and
bench/results/latest.json. A missed target is a finding, not a failure: the exit code says only
whether the benchmarks ran.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import FrameType

from bench import (
    against,
    changes,
    contention,
    diffs,
    filtered,
    indexing,
    items,
    lookup,
    memory,
    merging,
    metadata,
    publishing,
    refs,
    repository,
    rows,
    s3,
    small_append,
    spark,
    spark_plans,
    sql,
    versions,
)
from bench.machine import is_busy, machine_facts
from bench.peers import command as peers
from bench.places import Places, temporary_places
from bench.report import render_json, render_markdown, replace_generated
from bench.result import Section
from bench.scale import FULL, QUICK, Scale

ROOT = Path(__file__).resolve().parent.parent
DOCUMENT = ROOT / "docs" / "benchmarks.md"
LATEST = ROOT / "bench" / "results" / "latest.json"

BENCHMARKS: Mapping[str, Callable[[Scale, Places], Section]] = {
    "metadata": metadata.run,
    "memory": memory.run,
    "small-append": small_append.run,
    "contention": contention.run,
    "s3": s3.run,
    "versions": versions.run,
    "refs": refs.run,
    "publishing": publishing.run,
    "rows": rows.run,
    "filtered": filtered.run,
    "lookup": lookup.run,
    "indexing": indexing.run,
    "changes": changes.run,
    "diffs": diffs.run,
    "diffs-spark": diffs.run_on_spark,
    "merging": merging.run,
    "merging-spark": merging.run_on_spark,
    "changes-parquet": changes.run_against_parquet,
    "changes-fragments": changes.run_on_many_fragments,
    "repository": repository.run,
    "items": items.run,
    "spark": spark.run,
    "spark-plans": spark_plans.run,
    "sql": sql.run,
}


def main(arguments: Sequence[str] | None = None) -> int:
    arguments = sys.argv[1:] if arguments is None else arguments
    signal.signal(signal.SIGTERM, _leave)
    if list(arguments[:1]) == ["peers"]:
        return peers.main(arguments[1:])
    if list(arguments[:1]) == ["against"]:
        return against.main(arguments[1:])
    chosen = _parse(arguments)
    scale = QUICK if chosen.quick else FULL
    names = list(dict.fromkeys(chosen.names)) or list(BENCHMARKS)
    whole = not chosen.quick and not chosen.names
    if is_busy():
        _tell("the machine is busy with something else: the figures will say little")
    facts = machine_facts()
    with temporary_places() as places:
        sections = [_run(name, scale, places) for name in names]
    generated = render_markdown(facts, sections)
    print(generated)
    target = chosen.json or (LATEST if whole else None)
    if target is not None:
        target.parent.mkdir(parents=True, exist_ok=True)
        found = render_json(scale.name, facts, sections)
        target.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
        _tell(f"wrote {target}")
    if whole:
        DOCUMENT.write_text(replace_generated(DOCUMENT.read_text(), generated))
        _tell(f"wrote {DOCUMENT}")
    return 0


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench", description="Lancewood against pylance.")
    parser.add_argument(
        "names", nargs="*", metavar="name", help=f"which ones: {', '.join(BENCHMARKS)} (all)"
    )
    parser.add_argument("--quick", action="store_true", help="small sizes, to try the harness")
    parser.add_argument("--json", type=Path, metavar="PATH", help="where the result goes")
    chosen = parser.parse_args(arguments)
    unknown = [each for each in chosen.names if each not in BENCHMARKS]
    if unknown:
        parser.error(f"no benchmark is named {unknown[0]!r}; there are {', '.join(BENCHMARKS)}")
    return chosen


def _run(name: str, scale: Scale, places: Places) -> Section:
    _tell(f"{name} …")
    start = time.perf_counter()
    section = BENCHMARKS[name](scale, places)
    seconds = time.perf_counter() - start
    _tell(f"{name} took {seconds:.1f} s")
    section = dataclasses.replace(section, seconds=seconds)
    return section if scale.is_budgeted else section.without_ratios()


def _tell(text: str) -> None:
    print(f"bench: {text}", file=sys.stderr, flush=True)


def _leave(signum: int, frame: FrameType | None) -> None:
    """Leave by an exception, so that the temporary tables are removed."""
    raise SystemExit(128 + signum)


if __name__ == "__main__":
    sys.exit(main())
