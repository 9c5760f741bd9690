"""``python -m tests.merges``: MERGE beside Delta's and Iceberg's, on a Spark that is fetched.

Where the two differ, Iceberg has the rules of Spark itself, and is the one that we follow. Says
where we do something else than the cases expect, and exits with 1 then; ``--record`` keeps what
they did.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bench.peers.packages import COMMON_SPARK, DELTA, ICEBERG, choose
from bench.peers.provision import ROOT, Unavailable, environment, fetch_jars
from tests.merges.cases import Case, chosen
from tests.merges.outcomes import JUDGES, OURS, RECORD, Outcome, essence, is_expected

_UNEXPECTED = "not as expected"


def main(arguments: Sequence[str]) -> int:
    asked = _parse(arguments)
    try:
        env = environment(COMMON_SPARK)
        packages = [choose(each, COMMON_SPARK).package for each in (DELTA, ICEBERG)]
        jars = [jar for each in packages for jar in fetch_jars(each, env)]
    except Unavailable as reason:
        print(reason, file=sys.stderr)
        return 1
    tally: Counter[str] = Counter()
    record, cases = [], chosen(asked.seed, asked.random)[:: asked.every]
    for case, found in zip(cases, _answers(env, jars, asked), strict=True):
        record.append({"case": case.name, **_theirs(found)})
        tally.update(_judged(case, found))
    print(f"{len(cases)} merges: " + ", ".join(f"{n} {what}" for what, n in sorted(tally.items())))
    if asked.record:
        RECORD.write_text("".join(json.dumps(each, ensure_ascii=False) + "\n" for each in record))
    return 1 if tally[_UNEXPECTED] else 0


def _theirs(found: Mapping[str, Outcome]) -> dict[str, Outcome]:
    """What is recorded of a case; of Delta only where it does something else."""
    theirs = {name: essence(found[name]) for name in JUDGES if name in found}
    if theirs.get("delta") == theirs["iceberg"]:
        del theirs["delta"]
    return theirs


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.merges", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="another than 0: random merges alone")
    parser.add_argument("--random", type=int, default=40, help="how many random merges (40)")
    parser.add_argument("--every", type=int, default=1, help="every N-th merge alone")
    parser.add_argument("--short", action="store_true", help="Iceberg and we alone, without Delta")
    parser.add_argument("--record", action="store_true", help="keep what the others did")
    asked = parser.parse_args(arguments)
    if asked.record and (asked.seed, asked.random, asked.every) != (0, 40, 1):
        parser.error("--record keeps the cases of every day: leave out which of them")
    return asked


def _answers(
    env: Mapping[str, str], jars: Sequence[str], asked: argparse.Namespace
) -> Iterator[dict[str, Outcome]]:
    """What each of them made of the cases, one by one."""
    teams = [(JUDGES[0], OURS[0])] if asked.short else [(JUDGES[0], *OURS), JUDGES[1:]]
    with ExitStack() as running:
        workers = [running.enter_context(_worker(env, jars, asked, each)) for each in teams]
        for lines in zip(*workers, strict=False):  # one that ends early says why
            yield {name: found for each in lines for name, found in json.loads(each).items()}


@contextmanager
def _worker(
    env: Mapping[str, str], jars: Sequence[str], asked: argparse.Namespace, names: Sequence[str]
) -> Iterator[Iterator[str]]:
    """What a process prints, in which some of them work."""
    with tempfile.TemporaryDirectory(prefix="lancewood-merges-") as home:
        log = Path(home) / "log"
        numbers = map(str, (asked.seed, asked.random, asked.every))
        order = (home, ",".join(dict.fromkeys(jars)), *numbers, ",".join(names))
        process = subprocess.Popen(
            (sys.executable, "-m", "tests.merges.worker", *order),
            cwd=ROOT,
            env={**env, "LANCEWOOD_FSYNC": "0"},
            stdout=subprocess.PIPE,
            stderr=log.open("w"),
            text=True,
        )
        try:
            assert process.stdout is not None
            yield process.stdout
            if not process.stdout.readline() and process.wait():
                raise RuntimeError(log.read_text()[-4000:])
        finally:
            process.kill()
            process.wait()


def _judged(case: Case, found: Mapping[str, Outcome]) -> Iterator[str]:
    """What is to be said of one case; what differs is printed."""
    if "delta" in _theirs(found):
        _tell("Delta differs", case, found, ("delta",))
        yield "where Delta differs from Iceberg"
    for name in (each for each in OURS if each in found):
        if is_expected(case, found[name], found["iceberg"], found.get("delta")):
            yield f"as expected {name}"
        else:
            _tell("NOT AS EXPECTED", case, found, (name,))
            yield _UNEXPECTED


def _tell(what: str, case: Case, found: Mapping[str, Outcome], names: Sequence[str]) -> None:
    print(f"{what}: {case.name}")
    for name in ("iceberg", *names):
        print(f"    {name:16} {json.dumps(found[name], ensure_ascii=False)}", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
