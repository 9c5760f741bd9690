"""``python -m bench peers [--rows N] [--passes N] [--spark VERSION] [--json PATH]``.

A peer that cannot be fetched or does not start is told of and left out; the others run.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.machine import is_busy, machine_facts
from bench.peers.course import race, start
from bench.peers.outcome import LANCEWOOD, PARQUET, Entrant, render_json, render_markdown
from bench.peers.packages import COMMON_SPARK, FIRST_OF_OURS, OLDER_SPARK, PACKAGES, choose, minor
from bench.peers.provision import Unavailable, environment, fetch_jars, own_spark
from bench.peers.works import FLOATS, make_source
from bench.places import Places, scratch, temporary_places


def main(arguments: Sequence[str]) -> int:
    chosen = _parse(arguments)
    if is_busy():
        _tell("the machine is busy with something else: the figures will say little")
    facts = {**machine_facts(), "pyspark": chosen.spark}
    try:
        env = environment(chosen.spark)
    except Unavailable as reason:
        _tell(str(reason))
        return 1
    entrants, jars = _enter(chosen.spark, env)
    with temporary_places() as locations:
        _run(entrants, jars, env, chosen, locations)
        note = _note(chosen.spark, chosen.rows, chosen.passes, locations.fast_name)
    print(render_markdown(facts, note, entrants))
    if chosen.json is not None:
        settings = {"rows": chosen.rows, "passes": chosen.passes, "spark": chosen.spark}
        found = render_json(facts, settings, entrants)
        chosen.json.parent.mkdir(parents=True, exist_ok=True)
        chosen.json.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
        _tell(f"wrote {chosen.json}")
    return 0


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="bench peers", description="Lancewood, Parquet, Delta, Iceberg and lance-spark."
    )
    parser.add_argument("--rows", type=int, default=500_000, help="of the table (500000)")
    parser.add_argument("--passes", type=int, default=3, help="that are measured (3)")
    parser.add_argument(
        "--spark",
        default=COMMON_SPARK,
        metavar="VERSION",
        help=f"PySpark for all of them ({COMMON_SPARK}; lance-spark needs {OLDER_SPARK}, where "
        f"Lancewood does not run; here is {own_spark()})",
    )
    parser.add_argument("--json", type=Path, metavar="PATH", help="where the result goes")
    chosen = parser.parse_args(arguments)
    if chosen.rows < 100:
        parser.error(
            f"--rows {chosen.rows} is too few: 1 % of them must be a row; take 100 or more"
        )
    if chosen.passes < 1:
        parser.error(f"--passes {chosen.passes} measures nothing; take 1 or more")
    try:
        minor(chosen.spark)
    except ValueError as error:
        parser.error(str(error))
    return chosen


def _enter(spark: str, env: dict[str, str]) -> tuple[list[Entrant], dict[str, tuple[str, ...]]]:
    """Everybody, and the jars of those that were fetched."""
    entrants, jars = [Entrant(PARQUET), Entrant(LANCEWOOD)], {}
    if minor(spark) < FIRST_OF_OURS:
        needed = ".".join(map(str, FIRST_OF_OURS))
        entrants[1].refusal = f"needs Spark {needed}, and this is {spark}"
    for peer in PACKAGES:
        entrant = Entrant(peer)
        entrants.append(entrant)
        try:
            choice = choose(peer, spark)
            entrant.package = choice.package
            if choice.is_foreign:
                older = ".".join(map(str, choice.made_for))
                _tell(f"{peer} has no package for Spark {spark}; trying the one for {older}")
            _tell(f"fetching {choice.package} …")
            jars[peer] = fetch_jars(choice.package, env)
        except (ValueError, Unavailable) as reason:
            entrant.refusal = str(reason)
            _tell(str(reason))
    return entrants, jars


def _run(
    entrants: Sequence[Entrant],
    jars: dict[str, tuple[str, ...]],
    env: dict[str, str],
    chosen: argparse.Namespace,
    locations: Places,
) -> None:
    with scratch(locations.fast) as here:
        make_source(here / "source", chosen.rows)
        with start(entrants, jars, here, env) as workers:
            _tell(f"{', '.join(workers)}: {chosen.rows:,} rows, {chosen.passes} passes …")
            race(entrants, workers, chosen.passes, _tell)


def _note(spark: str, rows: int, passes: int, location: str) -> str:
    return (
        f"On {location}; PySpark {spark}, `local[2]`, a session for each; {rows:,} rows of a "
        f"number, a category, a text and {FLOATS} floats; medians of {passes} after one pass that "
        "is checked and dropped, contenders in turn. In brackets: how many times faster than "
        "Parquet. One table a pass, all works on it in this order; nobody syncs (Lancewood would); "
        "defaults, but for Delta with deletion vectors and its log read in 2 tasks instead of 50, "
        "Iceberg in format 3 with deletes merged on reading, and Lance's vectors of fixed size."
    )


def _tell(text: str) -> None:
    print(f"bench: {text}", file=sys.stderr, flush=True)
