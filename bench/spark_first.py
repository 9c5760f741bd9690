"""A process whose Spark session answers one query, its first; it prints how long that took.

``python -m bench.spark_first FORMAT PATH COLUMN``: milliseconds by the wall and of processors.
"""

from __future__ import annotations

import json
import sys

import lancewood.spark as lws
from bench.measure import CpuClock, wall_clock


def main(kind: str, path: str, column: str) -> None:
    spark = lws.session("local[2]", conf={"spark.driver.memory": "2g"})
    try:
        clock = CpuClock()
        cpu, wall = clock(), wall_clock()
        frame = spark.read.parquet(path) if kind == "parquet" else lws.read(spark, path)
        frame.groupBy().sum(column).collect()
        print(json.dumps([wall_clock() - wall, clock() - cpu]))
    finally:
        spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
