"""Stored bytes per row of each column: the judge is pylance's own statistics of the files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from lance.file import LanceFileReader

import lancewood as lw
from lancewood.data.open_files import OPEN_FILES
from lancewood.engine.rows import column_widths


def rows(count: int, size: int = 100) -> pa.Table:
    made = np.random.default_rng(count)
    points = pa.StructArray.from_arrays(
        [pa.array(made.random(count)), pa.array(made.random(count))], ["x", "y"]
    )
    return pa.table(
        {
            "label": [f"{each % 3}" for each in range(count)],
            "data": [made.bytes(size) for _ in range(count)],
            "point": points,
        }
    )


def sizes_of(table: lw.Table, fragment: int = 0) -> list[int]:
    """The sizes of the physical columns in the files of a fragment, as pylance says."""
    paths = [Path(table.uri) / "data" / each.path for each in table.fragments[fragment].files]
    readers = [LanceFileReader(str(each)) for each in paths]
    return [column.size_bytes for each in readers for column in each.file_statistics().columns]


def test_widths_are_those_of_the_file(tmp_path: Path) -> None:
    made = lw.create(tmp_path / "t.lance", rows(5_000), access=lw.Access(fsync=False))
    label, data, x, y = sizes_of(made)
    found = column_widths(made._snapshot)
    assert found == pytest.approx(
        {"label": label / 5e3, "data": data / 5e3, "point": (x + y) / 5e3}
    )
    assert found["label"] < 10
    assert found["data"] > 100


def test_columns_in_files_of_their_own_and_fragments_without_them_count(tmp_path: Path) -> None:
    made = lw.create(tmp_path / "t.lance", rows(1_000), access=lw.Access(fsync=False))
    made = made.add_columns({"twice": "point.x * 2"})
    assert column_widths(made._snapshot)["twice"] == pytest.approx(sizes_of(made)[-1] / 1e3)
    made = made.append(rows(1_000).select(["label", "data", "point"]))
    assert column_widths(made._snapshot)["twice"] == pytest.approx(sizes_of(made)[-1] / 2e3)
    assert column_widths(made._snapshot)["data"] == pytest.approx(
        (sizes_of(made)[1] + sizes_of(made, 1)[1]) / 2e3
    )


def test_nothing_is_opened_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = lw.create(tmp_path / "t.lance", rows(100), access=lw.Access(fsync=False))
    found = column_widths(made._snapshot)

    def opened(*_: object) -> None:
        raise AssertionError("a file was opened again")

    monkeypatch.setattr("lancewood.data.open_files.open_reader", opened)
    assert column_widths(made._snapshot) == found
    assert column_widths(lw.open(made.uri)._snapshot) == found


def test_types_tell_where_no_file_can_be_read(tmp_path: Path) -> None:
    empty = lw.create(tmp_path / "empty.lance", rows(10).schema, access=lw.Access(fsync=False))
    assert column_widths(empty._snapshot) == {"label": 16, "data": 16, "point": 16}
    made = lw.create(tmp_path / "t.lance", rows(10), access=lw.Access(fsync=False))
    OPEN_FILES.close()
    (file,) = made.fragments[0].files
    (Path(made.uri) / "data" / file.path).unlink()
    assert column_widths(made._snapshot) == {"label": 16, "data": 16, "point": 16}
