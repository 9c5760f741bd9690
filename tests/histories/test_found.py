"""What histories have found, made short."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest
from tests.pylance import lance

import lancewood as lw

CHANGES: dict[str, Callable[[lw.Table], lw.Table]] = {
    "cast": lambda table: table.cast_column("a", pa.int64()),
    "add": lambda table: table.add_columns({"b": "a + 1"}),
}


@pytest.mark.parametrize("name", CHANGES)
def test_rows_that_a_restore_brings_back_have_values_in_a_column_that_is_written_again(
    uri: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = pa.table({"k": pa.array([1, 2, 3]), "a": pa.array([1, 2, 3], pa.int32())})
    stale = lw.create(uri, rows).delete("k = 2")
    stale.add_columns({"other": "k"})
    monkeypatch.setattr("lancewood.store.retry.time.sleep", lambda _: lw.open(uri).restore(1))
    after = CHANGES[name](stale)
    last = "a" if name == "cast" else "b"
    expected = [1, 2, 3] if name == "cast" else [2, 3, 4]
    assert after.to_arrow().column(last).to_pylist() == expected
    assert lance.dataset(uri).to_table().column(last).to_pylist() == expected


WITH_NULLS = pa.table({"k": range(8), "s": ["x", None, "y", "z", None, "q", "r", "s"]})


def found_by_all(uri: str, condition: str) -> list[int]:
    """What pylance finds by an index; without it, and for us, it is the same."""
    dataset, table = lance.dataset(uri), lw.open(uri)
    answers = [
        dataset.scanner(columns=["k"], filter=condition).to_table(),
        dataset.scanner(columns=["k"], filter=condition, use_scalar_index=False).to_table(),
        table.scan(["k"], where=condition).to_arrow(),
    ]
    one, *others = [sorted(each.column("k").to_pylist()) for each in answers]
    assert others == [one, one]
    return one


@pytest.mark.parametrize("kind", ["ZONEMAP", "BLOOMFILTER"])
@pytest.mark.parametrize("stable", [True, False])
def test_nulls_that_were_overwritten_are_not_found_by_zones_and_filters(
    uri: str, stable: bool, kind: str
) -> None:
    """pylance believes any segment that says where nulls are."""
    table = lw.create(uri, WITH_NULLS, layout=lw.Layout(max_rows_per_file=4, stable_row_ids=stable))
    table = table.indices.create("s", kind)
    table = table.update({"s": "'new'"}, "k = 1", rewrite="columns").indices.extend()
    assert found_by_all(uri, "s IS NULL") == [4]
    assert found_by_all(uri, "s IS NOT NULL") == [0, 1, 2, 3, 5, 6, 7]
    assert [sorted(each.fragments) for each in table.indices] == [[0, 1]]
    table = table.append(WITH_NULLS.slice(0, 1)).indices.extend()
    table = table.update({"s": None}, "k = 6", rewrite="columns").indices.optimize()
    assert found_by_all(uri, "s IS NULL") == [4, 6]
    assert [sorted(each.fragments) for each in table.indices] == [[0, 1, 2]]


def test_zones_that_pylance_merged_with_old_ones_are_left_alone(uri: str) -> None:
    lw.create(uri, WITH_NULLS, layout=lw.Layout(max_rows_per_file=4))
    lance.dataset(uri).create_scalar_index("s", "ZONEMAP")
    lw.open(uri).update({"s": "'zz'"}, "k = 1", rewrite="columns")
    lance.dataset(uri).optimize.optimize_indices()
    (segment,) = lw.open(uri).indices
    assert sorted(segment.fragments) == [0, 1]
    assert found_by_all(uri, "s > 'y'") == [1, 3]
    assert found_by_all(uri, "s = 'r'") == [6]
