"""The same changes through both libraries, and by rewriting Parquet files.

Each contender is a mapping from the name of a change to what does it. ``first`` and ``last`` bound
the ids that a change speaks of, so that it can be spread over the table or kept in one part of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bench import OURS, PYLANCE
from lancewood import Access

PARQUET = "parquet"
DELETE, UPDATE, UPSERT, ADD, COMPACT = (
    "delete 1 %",
    "update 1 %",
    "upsert 1 %",
    "add a column",
    "compact",
)


@dataclass(frozen=True, slots=True)
class Task:
    """Which rows change: conditions in SQL, the same as ranges of a column, and rows to upsert."""

    column: str
    deleted: tuple[float, float]
    updated: tuple[float, float]
    upserted: pa.Table

    def where(self, bounds: tuple[float, float]) -> str:
        return f"{self.column} >= {bounds[0]} AND {self.column} < {bounds[1]}"


def spread(rows: int) -> Task:
    """One per cent of the rows, here and there in all fragments."""
    return Task("value", (0.1, 0.11), (0.5, 0.51), upserted_rows(rows, spread=True))


def together(rows: int) -> Task:
    """One per cent of the rows, neighbours of each other."""
    part = rows // 100
    return Task(
        "id",
        (10 * part, 11 * part),
        (50 * part, 51 * part),
        upserted_rows(rows, spread=False),
    )


def upserted_rows(rows: int, *, spread: bool) -> pa.Table:
    """One per cent of the table: half of the ids are there already, half are new."""
    half = max(rows // 200, 1)
    old = np.arange(half, dtype=np.int64) * (200 if spread else 1)
    ids = np.concatenate([old, rows + np.arange(half, dtype=np.int64)])
    moments = np.datetime64("2025-01-01T00:00:00", "us") + ids * np.timedelta64(1_000, "us")
    return pa.table(
        {
            "id": ids,
            "value": np.full(len(ids), 2.0),
            "name": pc.binary_join_element_wise("new", pa.array(ids).cast(pa.string()), "-"),
            "moment": pa.array(moments),
        }
    )


def changes(library: str, table: Path, task: Task) -> Mapping[str, Callable[[], object]]:
    """What the library does for each change, one after the other, on the same table."""
    return {OURS: _ours, PYLANCE: _pylance, PARQUET: _parquet}[library](table, task)


def _ours(table: Path, task: Task) -> Mapping[str, Callable[[], object]]:
    import lancewood as lw

    def opened() -> Any:
        return lw.open(table, access=Access(fsync=False))

    return {
        DELETE: lambda: opened().delete(task.where(task.deleted)),
        UPDATE: lambda: opened().update({"value": "value + 1"}, task.where(task.updated)),
        UPSERT: lambda: opened().merge(task.upserted, on="id"),
        ADD: lambda: opened().add_columns({"double": "value * 2"}),
        COMPACT: lambda: opened().compact(),
    }


def _pylance(table: Path, task: Task) -> Mapping[str, Callable[[], object]]:
    import lance

    def opened() -> Any:
        return lance.dataset(table)

    def upsert() -> object:
        merge = opened().merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
        return merge.execute(task.upserted)

    return {
        DELETE: lambda: opened().delete(task.where(task.deleted)),
        UPDATE: lambda: opened().update({"value": "value + 1"}, where=task.where(task.updated)),
        UPSERT: upsert,
        ADD: lambda: opened().add_columns({"double": "value * 2"}),
        COMPACT: lambda: opened().optimize.compact_files(),
    }


def _parquet(table: Path, task: Task) -> Mapping[str, Callable[[], object]]:
    """Every file is read, changed and written anew, one at a time; the old ones stay, as the old
    versions of the others do."""

    def rewrite(change: Callable[[pa.Table], pa.Table], extra: pa.Table | None = None) -> None:
        newest = max(table.iterdir(), key=lambda each: int(each.name))
        target = table / str(int(newest.name) + 1)
        target.mkdir()
        for each in sorted(newest.iterdir()):
            pq.write_table(change(pq.read_table(each)), target / each.name)
        if extra is not None:
            pq.write_table(extra, target / "upserted.parquet")

    def within(rows: pa.Table, bounds: tuple[float, float]) -> pa.Array:
        column = rows[task.column]
        return pc.and_(pc.greater_equal(column, bounds[0]), pc.less(column, bounds[1]))

    def updated(rows: pa.Table) -> pa.Table:
        value = rows["value"]
        new = pc.if_else(within(rows, task.updated), pc.add(value, 1.0), value)
        return rows.set_column(rows.schema.get_field_index("value"), "value", new)

    def without_upserted(rows: pa.Table) -> pa.Table:
        return rows.filter(pc.invert(pc.is_in(rows["id"], task.upserted["id"].combine_chunks())))

    def compact() -> None:
        newest = max(table.iterdir(), key=lambda each: int(each.name))
        target = table / str(int(newest.name) + 1)
        target.mkdir()
        files = sorted(newest.iterdir())
        share = max(len(files) // 10, 1)
        for first in range(0, len(files), share):
            some = pa.concat_tables(pq.read_table(each) for each in files[first : first + share])
            pq.write_table(some, target / f"{first:06}.parquet")

    return {
        DELETE: lambda: rewrite(lambda rows: rows.filter(pc.invert(within(rows, task.deleted)))),
        UPDATE: lambda: rewrite(updated),
        UPSERT: lambda: rewrite(without_upserted, task.upserted),
        ADD: lambda: rewrite(
            lambda rows: rows.append_column("double", pc.multiply(rows["value"], 2.0))
        ),
        COMPACT: compact,
    }
