"""What histories have found, made short."""

from __future__ import annotations

from collections.abc import Callable

import lance
import pyarrow as pa
import pytest

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
