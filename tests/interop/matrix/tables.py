"""The table that both sides write to, and what a program that we did not write sees of it.

24 rows in four fragments of six. Rows 0 and 12 are deleted, row 7 was updated and stands in a
fragment of its own:

    k  primary key, 0 to 23
    a  k % 4, a BITMAP index (names rows by id, where ids are stable)
    b  k * 10, a BTREE index (names them by address)
    c  k, an index that was dropped again, "late"
    d  a text, in files of its own
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
from tests.manifests import newest_manifest
from tests.pylance import MARKS, judged

import lancewood as lw
from lancewood.model.index import Index
from lancewood.model.transaction import ReserveFragments

RESTORABLE = 3
"""A version with all rows, before there was an index."""
WITH_LATE_INDEX = 6
BASE = 11
"""The version that both sides have read."""
RESERVED = 5
"""The first of the fragment ids that are set aside for our compactions."""
_PRIMARY_KEY = {"lance-schema:unenforced-primary-key": "true"}


def rows(*keys: int) -> pa.Table:
    """Rows as the table has them, without the last column."""
    schema = pa.schema(
        [
            pa.field("k", pa.int64(), nullable=False, metadata=_PRIMARY_KEY),
            pa.field("a", pa.int64()),
            pa.field("b", pa.int64()),
            pa.field("c", pa.int64()),
        ]
    )
    return pa.table([keys, [k % 4 for k in keys], [k * 10 for k in keys], keys], schema=schema)


def full_rows(*keys: int) -> pa.Table:
    """Rows with all columns."""
    return rows(*keys).append_column("d", pa.array([f"d{k}" for k in keys]))


def make_base(uri: Path, *, stable: bool) -> None:
    """The table at the version that both sides have read."""
    dataset: Any = lance.write_dataset(
        rows(*range(18)), uri, max_rows_per_file=6, enable_stable_row_ids=stable
    )
    dataset = lance.write_dataset(rows(*range(18, 24)), uri, mode="append")
    dataset.add_columns({"d": "concat('d', cast(k as string))"})
    dataset.create_scalar_index("a", "BITMAP")
    dataset.create_scalar_index("b", "BTREE")
    dataset.create_scalar_index("c", "BITMAP", name="late")
    dataset.drop_index("late")
    dataset.delete("k in (0, 12)")
    dataset.update({"a": "9"}, where="k = 7")
    dataset.update_config({"base": "1"})
    table = lw.open(uri)
    table = table.commit(table.transaction(ReserveFragments(4)))
    assert table.version == BASE


def copy(source: Path, target: Path) -> Path:
    """The same table elsewhere. Files never change, so they are shared."""
    shutil.copytree(source, target, copy_function=os.link)
    return target


def late_index(table: lw.Table) -> Index:
    """The index that was dropped; its files are still there."""
    found = [
        each for each in table.checkout(version=WITH_LATE_INDEX).indices if each.name == "late"
    ]
    return found[0]


def seen(uri: Path) -> dict[str, Any]:
    """What pylance reads, rows with ids and lineage; raises if it finds the table broken."""
    dataset = judged(uri)
    manifest = newest_manifest(uri)
    columns = [*dataset.schema.names, "_rowaddr"]
    if manifest.has_stable_row_ids:
        columns += MARKS
    live = {each.fragment_id for each in dataset.get_fragments()}
    return {
        "rows": dataset.scanner(columns=columns, with_row_id=True).to_table().to_pylist(),
        "schema": [(each.name, each.type, each.nullable, each.metadata) for each in dataset.schema],
        "schema metadata": dict(dataset.schema.metadata or {}),
        "config": dataset.config(),
        "metadata": dict(dataset.metadata),
        "bases": sorted(each.path for each in manifest.base_paths),
        "marks": (manifest.max_fragment_id, manifest.next_row_id),
        "indices": sorted((i.name, sorted(live & set(i.fragments))) for i in manifest.indices),
        "version": dataset.version,
    }


def values(state: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows, without which version last changed them."""
    return [
        {name: value for name, value in row.items() if name != MARKS[1]} for row in state["rows"]
    ]


def unordered(state: dict[str, Any], stable: bool) -> list[dict[str, Any]]:
    """The rows wherever they stand, under their ids if these are stable."""
    moving = {"_rowaddr", MARKS[1]} if stable else {"_rowaddr", "_rowid"}
    rows = [{n: value for n, value in row.items() if n not in moving} for row in state["rows"]]
    return sorted(rows, key=lambda row: row["k"])


def check_answers(uri: Path, state: dict[str, Any]) -> None:
    """What pylance finds through its indices is what stands in the rows."""
    dataset: Any = lance.dataset(uri)
    ids = [row["_rowid"] for row in state["rows"]]
    assert len(set(ids)) == len(ids)
    manifest = newest_manifest(uri)
    names = {each.id: each.name for each in manifest.fields}
    for index in manifest.indices:
        column = names[index.fields[0]]
        for some in _OLD_VALUES[column], _NEW_VALUES:
            found = dataset.scanner(
                columns=[], filter=f"{column} in ({some})", with_row_id=True
            ).to_table()
            wanted = {int(each) for each in some.split(", ")}
            there = [row["_rowid"] for row in state["rows"] if row[column] in wanted]
            assert sorted(found["_rowid"].to_pylist()) == sorted(there), (index.name, some)


_OLD_VALUES = {
    "k": "2, 3, 4, 7, 20",
    "a": "0, 1, 2, 3",
    "b": "20, 30, 40, 70, 200",
    "c": "2, 3, 4, 7, 20",
}
_NEW_VALUES = "9, 50, 51, 52, 53, 54, 55, 77, 88, 1002, 1003, 2002, 5004, 5020"
"""What either side writes into a column that may have an index."""
