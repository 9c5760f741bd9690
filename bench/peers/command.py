"""``python -m bench peers [--kind KIND] [--rows N] [--passes N] [--spark VERSION] [--json PATH]``.

A peer that cannot be fetched or does not start is told of and left out; the others run.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.machine import is_busy, machine_facts
from bench.peers.course import WARMING, race, start
from bench.peers.outcome import LANCEWOOD, PARQUET, Entrant, render_json, render_markdown
from bench.peers.packages import COMMON_SPARK, OLDER_SPARK, PACKAGES, choose, minor
from bench.peers.provision import Unavailable, environment, fetch_jars, own_spark
from bench.peers.works import KINDS, MIX, Kind, make_source
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
        note = _note(chosen, locations.fast_name)
    print(render_markdown(facts, note, entrants))
    if chosen.json is not None:
        named = ("kind", "rows", "passes", "spark")
        settings = {name: getattr(chosen, name) for name in named}
        found = render_json(facts, settings, entrants)
        chosen.json.parent.mkdir(parents=True, exist_ok=True)
        chosen.json.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
        _tell(f"wrote {chosen.json}")
    return 0


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="bench peers", description="Lancewood, Parquet, Delta, Iceberg and lance-spark."
    )
    parser.add_argument(
        "--kind",
        choices=KINDS,
        default=MIX.name,
        help=f"of the rows ({MIX.name}); of the others only what reads is asked for",
    )
    sizes = ", ".join(f"{each.rows} {each.name}" for each in KINDS.values())
    parser.add_argument("--rows", type=int, help=f"of the table ({sizes})")
    parser.add_argument("--passes", type=int, default=3, help="that are measured (3)")
    parser.add_argument(
        "--spark",
        default=COMMON_SPARK,
        metavar="VERSION",
        help=f"PySpark for all of them ({COMMON_SPARK}; lance-spark needs {OLDER_SPARK}; "
        f"here is {own_spark()})",
    )
    parser.add_argument("--json", type=Path, metavar="PATH", help="where the result goes")
    chosen = parser.parse_args(arguments)
    if chosen.rows is None:
        chosen.rows = KINDS[chosen.kind].rows
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
    entrants, jars = [Entrant(PARQUET), Entrant(LANCEWOOD)], dict[str, tuple[str, ...]]()
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
    kind: Kind = KINDS[chosen.kind]
    with scratch(locations.fast) as here:
        make_source(kind, here / "source", chosen.rows)
        with start(entrants, kind, jars, here, env) as workers:
            _tell(f"{', '.join(workers)}: {chosen.rows:,} rows, {chosen.passes} passes …")
            race(entrants, workers, kind.works, chosen.passes, _tell)


def _note(chosen: argparse.Namespace, location: str) -> str:
    return (
        f"On {location}; PySpark {chosen.spark}, `local[2]`, a session for each; {chosen.rows:,} "
        f"rows of {KINDS[chosen.kind].what}; medians of {chosen.passes} after {WARMING} passes "
        "that are dropped, the first of them checked, contenders in turn. In brackets: how many "
        "times faster than Parquet; "
        "CPU is that of Java and of all Python processes. One table a pass, all works on it in "
        "this order; frames to read are made before the clock starts, unless planned anew; "
        f"1 % are read as `{KINDS[chosen.kind].filter}`; nobody syncs (Lancewood would); "
        "defaults, but for Delta with deletion vectors and its log read in 2 tasks instead of 50, "
        "Iceberg in format 3 with deletes merged on reading, and Lance's vectors of fixed size."
    )


def _tell(text: str) -> None:
    print(f"bench: {text}", file=sys.stderr, flush=True)
