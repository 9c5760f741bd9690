"""The steps that pylance makes, through its dataset API.

Changes of rows are made on a dataset that may be of an older version; others open the newest.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import lance
import pyarrow as pa
from tests.histories.drawing import Assignment

Counts = tuple[int, int, int]
"""How many rows it says it inserted, updated and deleted."""


def append(dataset: Any, data: pa.Table, per_file: int) -> Counts:
    lance.write_dataset(data, dataset, mode="append", max_rows_per_file=per_file)
    return data.num_rows, 0, 0


def delete(dataset: Any, where: str) -> Counts:
    return 0, 0, dataset.delete(where)["num_deleted_rows"]


def update(dataset: Any, chosen: Sequence[Assignment], where: str) -> Counts:
    given = {each.target: each.given for each in chosen}
    return 0, dataset.update(given, where=where)["num_rows_updated"], 0


def merge(dataset: Any, source: pa.Table, key: str, choices: dict[str, str]) -> Counts:
    builder = dataset.merge_insert(key)
    if choices["matched"] == "update":
        builder = builder.when_matched_update_all()
    elif choices["matched"] == "delete":
        builder = builder.when_matched_delete()
    if choices["not_matched"] == "insert":
        builder = builder.when_not_matched_insert_all()
    if choices["not_matched_by_source"] == "delete":
        builder = builder.when_not_matched_by_source_delete()
    told = builder.execute(source)
    return told["num_inserted_rows"], told["num_updated_rows"], told["num_deleted_rows"]


def overwrite(uri: str, data: pa.Table, per_file: int) -> None:
    lance.write_dataset(data, uri, mode="overwrite", max_rows_per_file=per_file)


def add_column(uri: str, name: str, sql: str | pa.Field) -> None:
    _open(uri).add_columns({name: sql} if isinstance(sql, str) else sql)


def drop_column(uri: str, path: str) -> None:
    _open(uri).drop_columns([path])


def rename_column(uri: str, path: str, name: str) -> None:
    _open(uri).alter_columns({"path": path, "name": name})


def cast_column(uri: str, path: str, kind: pa.DataType) -> None:
    _open(uri).alter_columns({"path": path, "data_type": kind})


def compact(uri: str, target_rows: int) -> None:
    _open(uri).optimize.compact_files(target_rows_per_fragment=target_rows)


def restore(uri: str, version: int) -> None:
    lance.dataset(uri, version=version).restore()


def cleanup(uri: str) -> None:
    _open(uri).cleanup_old_versions(older_than=timedelta(0))


def create_index(uri: str, column: str, kind: str, name: str) -> None:
    if kind == "IVF_FLAT":
        _open(uri).create_index(column, kind, name=name, replace=True, num_partitions=1)
    else:
        _open(uri).create_scalar_index(column, kind, name=name, replace=True)


def drop_index(uri: str, name: str) -> None:
    _open(uri).drop_index(name)


def optimize_indices(uri: str) -> None:
    _open(uri).optimize.optimize_indices()


def _open(uri: str) -> Any:
    return lance.dataset(uri)
