"""What no writer makes: a version that lists a fragment twice, or two rows under one id.

A change would write such rows once more, so it is refused; ``verify`` tells what is wrong, and
going back to a version that is whole is not refused.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from tests.manifests import decode_fragments, edit_manifest, put_fragments

import lancewood as lw
from lancewood.model.rowids import RowIdSequence
from lancewood.proto import table_pb2

ROWS = pa.table({"a": range(6), "s": ["x"] * 6})
CHANGES: dict[str, Callable[[lw.Table], object]] = {
    "compact": lambda table: table.compact(),
    "update": lambda table: table.update({"s": "'new'"}, "a = 1"),
    "update of columns": lambda table: table.update({"s": "'new'"}, "a = 1", rewrite="columns"),
    "delete": lambda table: table.delete("a = 1"),
    "merge": lambda table: table.merge(ROWS.slice(1, 1), on="a"),
    "add_columns": lambda table: table.add_columns({"b": "a + 1"}),
    "drop_columns": lambda table: table.drop_columns(["s"]),
}


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """Two versions; the second has two fragments of three rows each."""
    location = str(tmp_path / "t.lance")
    lw.create(location, ROWS.slice(0, 3)).append(ROWS.slice(3))
    return location


def beside(message: table_pb2.Manifest) -> None:
    first, second = message.fragments
    message.fragments[:] = [first, first, second]


def at_the_end(message: table_pb2.Manifest) -> None:
    message.fragments.append(message.fragments[0])


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("double", [beside, at_the_end])
def test_a_fragment_that_is_there_twice_is_not_changed(
    uri: str, change: str, double: Callable[[table_pb2.Manifest], None]
) -> None:
    edit_manifest(uri, double)
    table = lw.open(uri)
    with pytest.raises(lw.FormatError, match=r"fragment 0 is there twice.*restore"):
        CHANGES[change](table)
    assert lw.open(uri).version == 2
    assert any("twice" in each.text for each in table.verify().problems)
    assert table.restore(1).to_arrow() == lance.dataset(uri, version=1).to_table()


@pytest.mark.parametrize(
    "change",
    [lambda table: table.compact(), lambda table: table.update({"s": "'new'"}, rewrite="rows")],
    ids=["compact", "update"],
)
def test_rows_that_share_an_id_are_not_written_again(
    uri: str, change: Callable[[lw.Table], object]
) -> None:
    def overlap(message: table_pb2.Manifest) -> None:
        fragments = decode_fragments(message)
        fragments[1].inline_row_ids = RowIdSequence.from_range(2, 3).encode()
        put_fragments(message, fragments)

    edit_manifest(uri, overlap)
    with pytest.raises(lw.FormatError, match=r"two rows have the row id 2"):
        change(lw.open(uri))
    assert lw.open(uri).to_arrow()["s"].to_pylist() == ["x"] * 6


def test_new_rows_do_not_get_ids_that_others_have(uri: str) -> None:
    def fall(message: table_pb2.Manifest) -> None:
        message.next_row_id = 5

    edit_manifest(uri, fall)
    with pytest.raises(lw.FormatError, match="fragment 1 has the row id 5"):
        lw.open(uri).append(ROWS)
