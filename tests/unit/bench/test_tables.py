"""Tables of awkward sizes are real tables: both libraries open them."""

from __future__ import annotations

from pathlib import Path

import lance
from bench.places import twin
from bench.tables import make_fragments, make_narrow, make_versions, newest_manifest

import lancewood as lw


def test_table_of_many_fragments_is_read_by_both(tmp_path: Path) -> None:
    table = tmp_path / "t.lance"
    make_fragments(table, 30, stable_row_ids=True)
    assert lw.open(table).count_rows() == 300
    assert len(lance.dataset(table).get_fragments()) == 30


def test_table_of_many_versions_has_every_one_of_them(tmp_path: Path) -> None:
    table = tmp_path / "t.lance"
    make_versions(table, 25)
    assert lw.open(table).version == 25
    assert [each.version for each in lw.open(table).versions(limit=2)] == [25, 24]
    assert lance.dataset(table, version=13).count_rows() == 10
    assert len(lance.dataset(table).versions()) == 25


def test_narrow_rows_are_spread_evenly(tmp_path: Path) -> None:
    table = tmp_path / "t.lance"
    make_narrow(table, 1_000)
    assert {each.num_rows for each in lw.open(table).fragments} == {100}
    assert lance.dataset(table).schema.names == ["id", "value", "name", "moment"]


def test_append_to_a_twin_leaves_the_first_table_alone(tmp_path: Path) -> None:
    table = tmp_path / "t.lance"
    make_versions(table, 2)
    before = newest_manifest(table).read_bytes()
    other = twin(table)
    lance.write_dataset(lw.open(table).to_arrow(), other, mode="append")
    assert lw.open(other).count_rows() == 20
    assert lw.open(table).count_rows() == 10
    assert newest_manifest(table).read_bytes() == before
