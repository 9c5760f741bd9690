"""A process with one contender in its own Spark session: an order a line in, an answer a line out.

It measures and looks at what it has read; whether that is right is for others to say.
"""

from __future__ import annotations

import gc
import json
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any

import lancewood.spark as lws
from bench.measure import CpuClock, wall_clock
from bench.peers import works
from bench.peers.contender import Cannot, Contender
from bench.peers.outcome import LANCEWOOD, PARQUET
from bench.peers.packaged import Delta, Iceberg, LanceSpark
from bench.peers.packages import DELTA, ICEBERG, LANCE_SPARK
from bench.peers.plain import Lancewood, Parquet

CONTENDERS: Mapping[str, type[Contender]] = {
    LANCEWOOD: Lancewood,
    PARQUET: Parquet,
    DELTA: Delta,
    ICEBERG: Iceberg,
    LANCE_SPARK: LanceSpark,
}


def main(name: str, kind: str, home: str, source: str, jars: str, memory: str) -> None:
    """Java writes to the standard output too: answers go to a copy, the rest to the errors."""
    with os.fdopen(os.dup(1), "w") as answers:
        os.dup2(2, 1)
        conf = {"spark.driver.memory": memory, "spark.sql.shuffle.partitions": "2"}
        if jars:
            conf["spark.jars"] = jars
        _serve(CONTENDERS[name], works.KINDS[kind], Path(home), Path(source), conf, answers)


def _serve(
    contending: type[Contender],
    kind: works.Kind,
    home: Path,
    source: Path,
    conf: Mapping[str, str],
    answers: IO[str],
) -> None:
    spark = lws.session("local[2]", conf={**conf, **contending.settings(home)})
    contender = contending(spark, kind, home, source)
    _say(answers, {"spark": spark.version})
    for line in sys.stdin:
        order = json.loads(line)
        _say(answers, _answer(contender, order["work"], check=order["check"]))
    spark.stop()


def _answer(contender: Contender, work: str, *, check: bool) -> dict[str, Any]:
    try:
        if work == works.WRITE:
            contender.renew()
        found = _measure(contender, _doing(contender, work))
        if check:
            found |= _checks(contender, work)
    except Cannot as reason:
        return {"cannot": str(reason)}
    except Exception as error:
        return {"failed": _first_line(error)}
    return found


def _measure(contender: Contender, do: Callable[[], object]) -> dict[str, Any]:
    before, clock = sizes(contender.home), CpuClock()
    gc.collect()
    cpu, wall = clock(), wall_clock()
    do()
    wall = wall_clock() - wall
    cpu = clock() - cpu
    after = sizes(contender.home)
    written = sum(size for path, size in after.items() if before.get(path) != size)
    return {"seconds": wall / 1_000, "cpu": cpu / 1_000, "bytes": written}


def _doing(contender: Contender, work: str) -> Callable[[], object]:
    """What the clocks are for; frames that only have to be looked at go into Spark's ``noop``, and
    are made before, unless planning is meant too."""
    if work == works.APPEND:
        rows = contender.rows_with_extra().where(works.DELETED)
        return lambda: contender.append_to_branch(rows)
    if work == works.SUM:
        frame = contender.frame()
        return lambda: frame.groupBy().sum(contender.kind.summed).collect()
    if (read := _reading(contender, work)) is not None:
        if work == works.ANEW:
            return lambda: _drain(read())
        frame = read()
        return lambda: _drain(frame)
    changes: Mapping[str, Callable[[], None]] = {
        works.WRITE: contender.write,
        works.ADD: contender.add_column,
        works.DELETE: contender.delete,
        works.BRANCH: contender.make_branch,
    }
    return changes[work]


def _reading(contender: Contender, work: str) -> Callable[[], Any] | None:
    readers: Mapping[str, Callable[[], Any]] = {
        works.SCAN: contender.frame,
        works.FILTERED: lambda: _filtered(contender, contender.frame()),
        works.ANEW: lambda: _filtered(contender, contender.frame()),
        works.TRAVEL: contender.first_version,
        works.BRANCH_SCAN: contender.branch,
    }
    return readers.get(work)


def _filtered(contender: Contender, frame: Any) -> Any:
    return frame.where(contender.kind.filter).select(*contender.kind.filtered)


def _drain(frame: Any) -> None:
    frame.write.format("noop").mode("overwrite").save()


def _checks(contender: Contender, work: str) -> dict[str, Any]:
    """What is there after the work, and what there should be: the same sums of the same rows."""
    if work == works.BRANCH:
        pairs = [(contender.branch(), _after_delete(contender))]
    elif work == works.APPEND:
        pairs = [
            (contender.branch(), contender.rows_with_extra()),
            (contender.frame(), _after_delete(contender)),
        ]
    else:
        read = _reading(contender, work) or contender.frame
        pairs = [(read(), _expected(contender, work))]
    found = [(digest(one), digest(other)) for one, other in pairs]
    return {"answer": [one for one, _ in found], "expected": [other for _, other in found]}


def _expected(contender: Contender, work: str) -> Any:
    if work in (works.FILTERED, works.ANEW):
        return _filtered(contender, contender.rows())
    if work in (works.ADD, works.BRANCH_SCAN):
        return contender.rows_with_extra()
    return _after_delete(contender) if work == works.DELETE else contender.rows()


def _after_delete(contender: Contender) -> Any:
    return contender.rows_with_extra().where(works.KEPT)


def digest(frame: Any) -> list[Any]:
    """How many rows, and all their values in two numbers that do not depend on their order."""
    names = sorted(frame.columns)
    row = f"xxhash64({', '.join(names)})"
    sums = ("count(*)", f"bit_xor({row})", f"sum(CAST({row} AS DECIMAL(38, 0)))")
    return [names, *(str(each) for each in frame.selectExpr(*sums).collect()[0])]


def sizes(directory: Path) -> dict[str, int]:
    """Of all files but the checksums that Hadoop lays beside them."""
    return {
        os.path.join(folder, name): os.stat(os.path.join(folder, name)).st_size
        for folder, _, names in os.walk(directory)
        for name in names
        if not name.endswith(".crc")
    }


def _first_line(error: Exception) -> str:
    """Java's own words where it has some."""
    java = getattr(error, "java_exception", None)
    text = str(java) if java is not None else f"{type(error).__name__}: {error}"
    return " ".join(text.split())[:200]


def _say(answers: IO[str], word: object) -> None:
    answers.write(json.dumps(word) + "\n")
    answers.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
