"""One side of ``bench against``: a work comes in, its milliseconds go out.

The works are written in what both checkouts understand. One that changes rows changes others each
time.
"""

from __future__ import annotations

import gc
import itertools
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import lancewood as lw

Work: TypeAlias = Callable[[str, int], object]
"""What is done to the table at a uri, and how many times it was done before."""
_COLD = """
import sys, lancewood as lw
lw.sql('SELECT count(*) FROM t', tables={'t': sys.argv[1]}).to_arrow()
"""


def _scanned(where: str | None = None, columns: Any = None) -> Work:
    return lambda uri, _: lw.open(uri).scan(columns=columns, where=where).to_arrow()


def _asked(query: str) -> Work:
    return lambda uri, _: lw.sql(query, tables={"t": uri}).to_arrow()


def _said(statement: str) -> Work:
    return lambda uri, time: lw.sql(statement.format(time), tables={"t": uri}).to_arrow()


def _on_spark(where: str) -> Work:
    """A read on two threads of Spark, which has a Python for each; only ``wall`` counts them."""

    def work(uri: str, _: int) -> object:
        from lancewood import spark

        return spark.read(spark.session("local[2]"), uri, where=where).groupBy().sum("id").collect()

    return work


def _cold(uri: str, _: int) -> None:
    subprocess.run([sys.executable, "-c", _COLD, uri], check=True)


WORKS: Mapping[str, Work] = {
    "scan all": _scanned(),
    "where value < 0.01": _scanned("value < 0.01"),
    "where value * 2 > id": _scanned("value * 2 > id"),
    "where name LIKE": _scanned("name LIKE '%77%'"),
    "where upper(name)": _scanned("upper(name) = 'ROW-77' OR id = 5"),
    "where id IN": _scanned("id IN (1, 5, 77777, 1000000)"),
    "count where": lambda uri, _: lw.open(uri).count_rows("value * 2 > 0.5"),
    "column id + 1": _scanned(None, {"a": "id + 1"}),
    "columns of texts": _scanned(None, {"a": "id * 2 + 1", "b": "upper(name)"}),
    "delete": lambda uri, time: lw.open(uri, access=lw.Access(fsync=False)).delete(
        f"id % 997 = {time}"
    ),
    "update": lambda uri, time: lw.open(uri, access=lw.Access(fsync=False)).update(
        {"value": "value + 1"}, f"id % 997 = {time + 100}"
    ),
    "sql count": _asked("SELECT count(*) FROM t"),
    "sql group": _asked("SELECT id % 7 AS g, sum(value) AS s FROM t GROUP BY g ORDER BY g"),
    "sql where": _asked("SELECT max(name) FROM t WHERE value < 0.01"),
    "sql delete": _said("DELETE FROM t WHERE id % 997 = {0} + 200"),
    "sql update": _said("UPDATE t SET value = value + 1 WHERE id % 997 = {0} + 300"),
    "sql cold": _cold,
    "spark where value < 0.01": _on_spark("value < 0.01"),
    "spark where value * 2 > 0.5": _on_spark("value * 2 > 0.5"),
}


def _cpu() -> float:
    """Processor time of this process and of those that it has waited for."""
    return sum(
        each.ru_utime + each.ru_stime
        for each in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    )


CLOCKS: Mapping[str, Callable[[], float]] = {"wall": time.perf_counter, "cpu": _cpu}


def main() -> None:
    uri, clock = sys.argv[1], CLOCKS[sys.argv[2]]
    times = {name: itertools.count() for name in WORKS}
    print(json.dumps(lw.__file__), flush=True)
    for line in sys.stdin:
        name = line.strip()
        number = next(times[name])
        gc.collect()
        start = clock()
        WORKS[name](uri, number)
        print(json.dumps((clock() - start) * 1_000), flush=True)


if __name__ == "__main__":
    main()
