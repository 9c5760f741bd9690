"""The same statement run by us and by DuckDB, on tables of the same rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

import lancewood as lw

TARGET = pa.table(
    {
        "id": pa.array([1, 2, 3, 4, None, 6], pa.int64()),
        "label": ["a", "b", None, "d", "n", "f"],
        "score": pa.array([1.5, 2.5, None, 4.5, 5.5, 6.5], pa.float64()),
        "count": pa.array([10, 20, 30, None, 50, 60], pa.int32()),
    }
)
SOURCE = pa.table(
    {
        "id": pa.array([2, 3, 6, 7, None, 8], pa.int64()),
        "label": ["B", "C", "F", "G", "N", None],
        "score": pa.array([20.5, 30.5, None, 70.5, 0.5, 80.5], pa.float64()),
        "count": pa.array([200, 300, 600, 700, 500, None], pa.int32()),
    }
)
Rows = list[tuple[Any, ...]]


class Judged:
    """A Lance table and its twin in DuckDB. ``ask`` runs a statement, as ``lancewood.sql`` does."""

    def __init__(
        self,
        folder: Path,
        target: pa.Table = TARGET,
        source: pa.Table = SOURCE,
        ask: Callable[..., pa.Table] = lambda sql, **given: lw.sql(sql, **given).to_arrow(),
        *,
        rows_per_file: int = 2,
    ) -> None:
        self._ask = ask
        self.uri = str(folder / "t.lance")
        lw.create(self.uri, target, layout=lw.Layout(max_rows_per_file=rows_per_file))
        self.tables: dict[str, str | lw.Table] = {
            "t": self.uri,
            "s": lw.create(folder / "s.lance", source),
        }
        self._judge = duckdb.connect(config={"threads": 1})
        for name, rows in {"t": target, "s": source}.items():
            self._judge.register("given", rows)
            self._judge.execute(f"CREATE TABLE {name} AS SELECT * FROM given")

    def run(self, sql: str, args: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """What we say that we did; both hold the same rows afterwards."""
        found = self._ask(sql, tables=self.tables, args=args).to_pylist()
        self._judge.execute(sql.replace(":", "$") if args else sql, dict(args or {}))
        assert self.ours() == self.theirs(), sql
        assert len(found) == 1
        return dict(found[0])

    def ours(self) -> Rows:
        rows = lw.open(self.uri).to_arrow()
        return ordered([tuple(each.values()) for each in rows.to_pylist()])

    def theirs(self) -> Rows:
        return ordered(self._judge.execute("FROM t").fetchall())

    @property
    def version(self) -> int:
        return lw.open(self.uri).version


def ordered(rows: Rows) -> Rows:
    return sorted(rows, key=repr)
