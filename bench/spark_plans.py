"""What it costs the driver to plan a read and to commit a write, as the fragments grow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import lancewood.spark as lws
from bench.measure import Contender, interleave
from bench.places import Places, scratch
from bench.result import Most, Row, Section
from bench.scale import Scale
from bench.tables import make_fragments
from lancewood.engine.location import Location
from lancewood.engine.rows.scan import ScanRequest
from lancewood.engine.snapshot.snapshot import load_snapshot
from lancewood.spark.reading.plan import plan_read
from lancewood.store.disk import DiskStore


def run(scale: Scale, places: Places) -> Section:
    spark = lws.session("local[2]")
    try:
        rows = tuple(_measure(spark, scale, places))
    finally:
        spark.stop()
    return Section(
        name="spark-plans",
        title="Spark: what the driver does",
        note=f"On {places.fast_name}; `local[2]`; fragments of ten rows that all name one file, so "
        "that messages compress better than real ones. To plan is to open the table and to make "
        "the DataFrame with its tasks; no task is run. The write appends two partitions of ten "
        "rows; most of it is Spark's two stages.",
        rows=rows,
    )


def _measure(spark: Any, scale: Scale, places: Places) -> Iterator[Row]:
    for count in scale.spark_fragments:
        with scratch(places.fast) as here:
            uri = str(here / "many.lance")
            make_fragments(here / "many.lance", count, stable_row_ids=True)
            work = _work(spark, uri)
            found = interleave(work, scale.spark_passes)
            for name, samples in found.items():
                target = Most(1_000.0) if name == "plan a read" else None
                yield Row(
                    work=f"{count:,} fragments: {name}", unit="ms", ours=samples, target=target
                )
            yield Row(
                work=f"{count:,} fragments: messages to all tasks",
                unit="KB",
                ours=(_plan_bytes(uri) / 1_000,),
            )


def _work(spark: Any, uri: str) -> dict[str, Contender]:
    frame = spark.range(0, 20, numPartitions=2).selectExpr("id", "id * 0.5D AS value")
    return {
        "plan a read": lambda: lws.read(spark, uri),
        "plan a filtered read": lambda: lws.read(spark, uri, where="id < 5"),
        "count": lambda: lws.count(spark, uri),
        "append 20 rows": lambda: lws.write(frame, uri, mode="append"),
    }


def _plan_bytes(uri: str) -> int:
    plan = plan_read(load_snapshot(Location(DiskStore(uri))), ScanRequest(), slots=2)
    return sum(map(len, plan.messages))
