"""A process with one Spark: what Delta, Iceberg and we make of a case, a line each."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from bench.peers.packaged import Delta, Iceberg
from tests.merges.cases import Case, chosen
from tests.merges.outcomes import REFUSED, TWICE, Outcome, failure, on_spark, ours, rows_of

import lancewood.spark as lws

_TWICE = ("MERGE_CARDINALITY_VIOLATION", "DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE")
_FOR_FEW_ROWS = {
    "spark.driver.memory": "1500m",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.shuffle.partitions": "1",
    "spark.default.parallelism": "1",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.codegen.wholeStage": "false",
    "spark.databricks.delta.stats.collect": "false",
    "spark.databricks.delta.snapshotPartitions": "1",
}
_COUNTED = ("num_inserted_rows", "num_updated_rows", "num_deleted_rows")


class Peers:
    """The tables of one of them in a session: Delta's rules reach into merges of others."""

    def __init__(self, home: Path, jars: str, judge: str) -> None:
        self._home = home
        own = (Delta if judge == "delta" else Iceberg).settings(home)
        settings = {**own, "spark.jars": jars, **_FOR_FEW_ROWS}
        self.spark: Any = lws.session("local[1]", conf=settings)
        self._number = 0

    def outcomes(self, case: Case, names: Sequence[str]) -> dict[str, Outcome]:
        """What some of them make of a case."""
        self._number += 1
        frames = [self._frame(each) for each in case.tables]
        frames[1].createOrReplaceTempView("s")
        ways: dict[str, Callable[[], Outcome]] = {
            "iceberg": lambda: self._iceberg(case, frames[0]),
            "delta": lambda: self._delta(case, frames[0]),
            "ours on Spark": lambda: self._ours(case, partial(on_spark, self.spark)),
        }
        return {name: ways[name]() for name in names}

    def _frame(self, rows: pa.Table) -> Any:
        return self.spark.createDataFrame(rows).coalesce(1)

    def _iceberg(self, case: Case, target: Any) -> Outcome:
        name = f"{Iceberg.CATALOG}.t{self._number}"
        target.writeTo(name).tableProperty("format-version", "2").create()
        return self._merged(case, name)

    def _delta(self, case: Case, target: Any) -> Outcome:
        path = self._home / f"delta{self._number}"
        target.write.format("delta").save(str(path))
        return self._merged(case, f"delta.`{path}`")

    def _merged(self, case: Case, name: str) -> Outcome:
        try:
            done = self.spark.sql(case.merge.format(t=name, s="s")).collect()
        except Exception as error:
            found = failure(error, TWICE if any(each in str(error) for each in _TWICE) else REFUSED)
            found["why"] = found["why"] or type(error).__name__
            return found
        rows = rows_of(self.spark.table(name).toArrow())
        if done and _COUNTED[0] in done[0]:
            return {"rows": rows, "counts": [done[0][each] for each in _COUNTED]}
        return {"rows": rows}

    def _ours(self, case: Case, ask: Callable[..., pa.Table]) -> Outcome:
        folder = Path(tempfile.mkdtemp(dir=self._home))
        try:
            return ours(case, folder, ask)
        finally:
            shutil.rmtree(folder)


def main(home: str, jars: str, seed: str, count: str, every: str, names: str) -> None:
    """Java writes to the standard output too: answers go to a copy, the rest to the errors."""
    with os.fdopen(os.dup(1), "w") as answers:
        os.dup2(2, 1)
        chosen_names = names.split(",")
        peers = Peers(Path(home), jars, chosen_names[0])
        for case in chosen(int(seed), int(count))[:: int(every)]:
            found = peers.outcomes(case, chosen_names)
            print(json.dumps(found), file=answers, flush=True)
        peers.spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
