"""Files of new columns: exactly as many rows as the fragment has, and durable before the commit."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest

import lancewood as lw
from lancewood.engine.write.column_file import ColumnFileWriter
from lancewood.errors import InvalidInputError
from lancewood.model.schema import Schema
from lancewood.store.disk import DiskStore


@pytest.fixture
def table(tmp_path: Path) -> lw.Table:
    return lw.create(
        tmp_path / "t", pa.table({"n": range(50)}), layout=lw.Layout(max_rows_per_file=10)
    )


def batch(rows: int) -> pa.RecordBatch:
    return pa.record_batch({"n": pa.array(range(rows), pa.int64())})


@pytest.mark.parametrize("rows", [9, 11, 0])
def test_other_numbers_of_rows_than_the_fragment_has_are_refused(
    table: lw.Table, rows: int
) -> None:
    before = set((Path(table.uri) / "data").iterdir())
    writer = ColumnFileWriter(table._snapshot, Schema(table._snapshot.schema.fields))
    with pytest.raises(InvalidInputError, match="fragment 1 has 10 rows"):
        writer.write(table.fragments[1], [batch(rows)])
    assert set((Path(table.uri) / "data").iterdir()) == before


@pytest.mark.parametrize("change", ["add", "update", "merge", "function"])
def test_every_new_file_is_synced_before_the_commit(
    table: lw.Table, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    synced: set[str] = set()
    at_commit: list[set[str]] = []
    sync, put_new = DiskStore.sync, DiskStore.put_new

    def noted(self: DiskStore, keys: Sequence[str]) -> None:
        synced.update(keys)
        sync(self, keys)

    def committed(self: DiskStore, key: str, data: bytes) -> object:
        if key.startswith("_versions/"):
            at_commit.append(set(synced))
        return put_new(self, key, data)

    monkeypatch.setattr(DiskStore, "sync", noted)
    monkeypatch.setattr(DiskStore, "put_new", committed)
    before = {path.name for path in (Path(table.uri) / "data").iterdir()}
    if change == "add":
        table.add_columns({"m": "n + 1"})
    elif change == "function":
        table.add_columns(lambda batch: pa.record_batch({"m": batch["n"]}))
    elif change == "update":
        table.update({"n": "n + 1"}, rewrite="columns")
    else:
        wide = table.add_columns({"m": "n + 1"})
        before = {path.name for path in (Path(table.uri) / "data").iterdir()}
        source = pa.table({"n": range(50), "m": range(50)})
        wide.merge(source, on="n", not_matched="ignore", rewrite="columns")
    new = {path.name for path in (Path(table.uri) / "data").iterdir()} - before
    assert len(new) == 5
    assert {f"data/{name}" for name in new} <= at_commit[-1]
