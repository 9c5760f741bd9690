"""Changes to many small fragments, which are read together, judged by pylance."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance as pylance
import pyarrow as pa
import pytest
from tests.small_sizes import small_sizes

import lancewood as lw
from lancewood.engine.rows import group_scan as fragment_group

pytestmark = pytest.mark.sliced(6)

lance: Any = pylance

ROWS = 10
LINEAGE = ["_row_created_at_version", "_row_last_updated_at_version"]


def rows(first: int, count: int, **more: pa.Array) -> pa.Table:
    numbers = range(first, first + count)
    return pa.table(
        {
            "k": pa.array(numbers, pa.int64()),
            "b": pa.array([None if each % 5 == 0 else each % 2 == 0 for each in numbers]),
            "s": pa.array([None if each % 7 == 0 else f"text {each}" for each in numbers]),
            "p": pa.array([None if each % 4 == 0 else {"x": each, "y": "y"} for each in numbers]),
            "l": pa.array([list(range(each % 4)) for each in numbers], pa.list_(pa.int32())),
            **more,
        }
    )


def lived(uri: str, *, stable: bool) -> lw.Table:
    """Small fragments of several layouts, some with deleted rows, and one that is not small."""
    table = lw.create(
        uri, rows(0, 80), layout=lw.Layout(stable_row_ids=stable, max_rows_per_file=ROWS)
    )
    lance.dataset(uri).delete("k % 9 = 2")
    lance.dataset(uri).add_columns({"double": "k * 2"})
    table = lw.open(uri).rename_column("s", "t").rename_column("b", "s")
    table = table.append(_renamed(rows(80, 400)), layout=lw.Layout(max_rows_per_file=400))
    for first in range(480, 560, ROWS):
        table = table.append(_renamed(rows(first, ROWS)))
    lance.dataset(uri).delete("k BETWEEN 485 AND 502")
    return lw.open(uri)


def _renamed(table: pa.Table) -> pa.Table:
    return table.rename_columns(["k", "s", "t", "p", "l"]).append_column(
        "double", pa.nulls(table.num_rows, pa.int64())
    )


def deleted(table: lw.Table) -> lw.Table:
    table.delete("k % 3 = 1 AND coalesce(t, '') <> 'text 13'")
    return table.latest()


def updated_rows(table: lw.Table) -> lw.Table:
    table.update({"t": "concat(t, '!')", "p.x": "7"}, "k % 4 = 1 OR s", rewrite="rows")
    return table.latest()


def updated_with_ids(table: lw.Table) -> lw.Table:
    table.update({"k": "_rowid + 100000"}, "k % 4 = 1", rewrite="rows")
    return table.latest()


def updated_columns(table: lw.Table) -> lw.Table:
    table.update({"t": "concat(t, '!')"}, "k % 4 = 1", rewrite="columns")
    return table.latest()


def merged(table: lw.Table) -> lw.Table:
    table.merge(_renamed(rows(3, 600)).take(list(range(0, 600, 5))), on="k")
    return table.latest()


def merged_in_part(table: lw.Table) -> lw.Table:
    source = pa.table({"k": list(range(0, 700, 3)), "t": ["new"] * 234})
    table.merge(source, on="k", not_matched="ignore", rewrite="rows")
    return table.latest()


def synchronised(table: lw.Table) -> lw.Table:
    source = _renamed(rows(0, 200))
    table.merge(source, on="k", matched="ignore", not_matched_by_source="delete")
    return table.latest()


def with_columns(table: lw.Table) -> lw.Table:
    table.add_columns({"e": "k + 1", "not_s": "NOT s", "t2": "upper(t)"})
    return table.latest()


def with_a_function(table: lw.Table) -> lw.Table:
    def lengths(batch: pa.RecordBatch) -> pa.RecordBatch:
        return pa.record_batch({"n": [len(each or []) for each in batch["l"].to_pylist()]})

    table.add_columns(lengths, columns_read=["l"])
    return table.latest()


def cast(table: lw.Table) -> lw.Table:
    table.cast_column("k", pa.int32())
    return table.latest()


def compacted(table: lw.Table) -> lw.Table:
    table.compact()
    return table.latest()


CHANGES: list[Callable[[lw.Table], lw.Table]] = [
    deleted,
    updated_rows,
    updated_with_ids,
    updated_columns,
    merged,
    merged_in_part,
    synchronised,
    with_columns,
    with_a_function,
    cast,
    compacted,
]


def everything(uri: str, *, stable: bool) -> list[dict[str, Any]]:
    """What pylance finds, in the order in which it lies there."""
    dataset = lance.dataset(uri)
    dataset.validate()
    system = ["_rowid", *LINEAGE] if stable else []
    found: list[dict[str, Any]] = dataset.to_table(
        columns=[*dataset.schema.names, *system]
    ).to_pylist()
    return found


@pytest.mark.usefixtures("pages_decoded_here")
@pytest.mark.parametrize("stable", [True, False])
@pytest.mark.parametrize("change", CHANGES, ids=lambda each: str(each.__name__))
def test_small_fragments_change_together_as_they_do_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Any, stable: bool
) -> None:
    found = []
    for name, most_stored, most_fragments in (
        ("alone", 0, 1),
        ("together", 1 << 20, 256),
        ("in groups", 1 << 20, 3),
    ):
        monkeypatch.setattr(fragment_group, "_MOST_FRAGMENTS", most_fragments)
        uri = str(tmp_path / f"{name}.lance")
        with small_sizes(stored=most_stored, rows=300):
            table = change(lived(uri, stable=stable))
            found.append(everything(uri, stable=stable))
            assert table.verify(deep=True).ok
    alone, together, in_groups = found
    assert alone
    assert together == alone
    assert in_groups == alone


def test_small_fragments_are_indeed_read_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = lived(str(tmp_path / "t.lance"), stable=True)
    sizes: list[int] = []
    honest = fragment_group.FragmentGroup.__init__

    def noted(self: Any, snapshot: Any, fragments: Any, *more: Any) -> None:
        sizes.append(len(fragments))
        honest(self, snapshot, fragments, *more)

    monkeypatch.setattr(fragment_group.FragmentGroup, "__init__", noted)
    with small_sizes(rows=300):
        assert table.count_rows("k % 3 = 1") > 0
    assert sizes == [8, 7]


def test_a_missing_file_among_small_fragments_is_named(tmp_path: Path) -> None:
    table = lived(str(tmp_path / "t.lance"), stable=True)
    lost = table.fragments[3].files[0].path
    (tmp_path / "t.lance" / "data" / lost).unlink()
    for work in (
        lambda: table.scan().to_arrow(),
        lambda: table.delete("k % 3 = 1"),
        lambda: table.compact(),
    ):
        with pytest.raises(lw.NotFoundError, match=lost):
            work()
    assert table.latest().version == table.version
