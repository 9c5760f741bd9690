"""What a merge leaves behind, ours and that of others, and where they may differ."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
from tests.merges.cases import Case

import lancewood as lw
from lancewood.errors import InvalidInputError, UnsupportedError

Outcome: TypeAlias = dict[str, Any]
"""``rows`` in an order of their own, or ``error``: ``twice`` where rows of the source match the
same row of the target, ``refused`` for every other; ``why`` is for people."""

RECORD = Path(__file__).with_name("record.jsonl")
TWICE, REFUSED = "twice", "refused"
JUDGES = ("iceberg", "delta")
OURS = ("ours on Spark",)


def rows_of(table: pa.Table) -> list[list[Any]]:
    return sorted(([*each.values()] for each in table.to_pylist()), key=repr)


def failure(error: Exception, kind: str) -> Outcome:
    return {"error": kind, "why": str(error).strip().partition("\n")[0][:300]}


def ours(case: Case, folder: Path, ask: Callable[..., pa.Table]) -> Outcome:
    """What we do; ``ask`` runs a statement, as ``on_spark`` does."""
    target, source = case.tables
    uri = str(folder / "t.lance")
    lw.create(uri, target, layout=lw.Layout(max_rows_per_file=2))
    tables = {"t": uri, "s": str(lw.create(folder / "s.lance", source).uri)}
    try:
        done = ask(case.merge.format(t="t", s="s"), tables=tables).to_pylist()[0]
    except (InvalidInputError, UnsupportedError) as error:
        assert lw.open(uri).version == 1
        return failure(error, TWICE if "several rows of the source" in str(error) else REFUSED)
    counts = [done[each] for each in ("inserted", "updated", "deleted")]
    return {"rows": rows_of(lw.open(uri).to_arrow()), "counts": counts}


def on_spark(spark: Any, text: str, **given: Any) -> pa.Table:
    """A statement on Spark. An error of the query itself is Spark's own, and counts as refused."""
    from pyspark.errors import PySparkException

    from lancewood.spark import sql
    from lancewood.spark.tasks import arrow_of

    try:
        return arrow_of(sql(spark, text, **given))
    except PySparkException as error:
        raise InvalidInputError(str(error)) from error


def essence(outcome: Outcome) -> Outcome:
    """What two have to agree on."""
    return {name: outcome[name] for name in ("rows", "error") if name in outcome}


def recorded() -> dict[str, Mapping[str, Outcome]]:
    """What the others did, by the name of the case."""
    lines = map(json.loads, RECORD.read_text().splitlines())
    return {each.pop("case"): each for each in lines}


def is_expected(case: Case, mine: Outcome, iceberg: Outcome, delta: Outcome | None = None) -> bool:
    """Whether we did what Iceberg did, and counted as Delta did; or something else, where a case
    says so."""
    if case.differs:
        return essence(mine) != essence(iceberg)
    if essence(mine) != essence(iceberg):
        return False
    is_counted = delta is not None and "counts" in delta and essence(delta) == essence(mine)
    return not is_counted or mine["counts"] == (delta or {})["counts"]
