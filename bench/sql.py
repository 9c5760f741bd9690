"""SQL on Spark that reads what a query needs, against the same query without the columnar door."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import lancewood.spark as lws
from bench import OURS
from bench.measure import interleave
from bench.places import Places, scratch
from bench.result import LeastRatio, Row, Section
from bench.scale import Scale
from bench.tables import make_narrow, make_wide
from lancewood.spark.columnar.door import SETTING

WHOLE = "all is read"
_FRAGMENTS = 8

_QUERIES = {
    "narrow": {
        "count(*)": ("SELECT count(*) FROM t", 5.0),
        "sum of one column": ("SELECT sum(value) FROM t", None),
        "1 % of the rows": ("SELECT max(name) FROM t WHERE value < 0.01", None),
        "ten rows": ("SELECT * FROM t LIMIT 10", None),
    },
    "wide": {
        "count(*)": ("SELECT count(*) FROM t", 5.0),
        "one column, grouped": ("SELECT label, count(*) FROM t GROUP BY label", 2.0),
        "1 % of the rows": ("SELECT sum(size(vector)) FROM t WHERE score < 0.01", None),
    },
}
"""By what they are called: the query, and how many times as fast it has to be."""


def run(scale: Scale, places: Places) -> Section:
    spark = lws.session("local[2]", conf={"spark.driver.memory": "6g"})
    try:
        rows = tuple(_measure(spark, scale, places))
    finally:
        spark.stop()
    return Section(
        name="sql",
        title="SQL on Spark: what a query needs, with and without the columnar door",
        note=f"On {places.fast_name}; `local[2]`; `lancewood.spark.sql` with the columnar door and "
        f"without, one session. Narrow: {scale.rows:,} rows of int64, double, string and "
        f"timestamp; wide: {scale.wide_rows:,} rows of a number, a score, a label, 768 floats and "
        f"20 KB of noise; {_FRAGMENTS} fragments. Planning and Spark's own work are in it.",
        against=WHOLE,
        rows=rows,
    )


def _measure(spark: Any, scale: Scale, places: Places) -> Iterator[Row]:
    for kind, queries in _QUERIES.items():
        with scratch(places.fast) as here:
            table = here / f"{kind}.lance"
            if kind == "narrow":
                make_narrow(table, scale.rows, _FRAGMENTS)
            else:
                make_wide(table, scale.wide_rows, _FRAGMENTS)
            for work, (query, least) in queries.items():
                ask = partial(_ask, spark, table, query)
                samples = interleave(
                    {OURS: ask, WHOLE: partial(_ask, spark, table, query, is_columnar=False)},
                    scale.spark_passes,
                )
                yield Row(
                    work=f"{kind}: {work}",
                    unit="ms",
                    ours=samples[OURS],
                    pylance=samples[WHOLE],
                    target=None if least is None else LeastRatio(least),
                )


def _ask(spark: Any, table: Path, query: str, *, is_columnar: bool = True) -> None:
    spark.conf.set(SETTING, str(is_columnar).lower())
    lws.sql(spark, query, tables={"t": table}).collect()
