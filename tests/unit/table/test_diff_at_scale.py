"""What a diff costs: calls of the store over very many versions, memory over very many changes."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest
from tests.breadth import daily

import lancewood as lw
from lancewood.engine.location import Location
from lancewood.engine.rows import Ids, Ints, LiveRows
from lancewood.engine.snapshot import load_snapshot
from lancewood.format.layout import NamingScheme, manifest_key
from lancewood.format.manifest import encode_manifest_file
from lancewood.jobs.diff import ranges
from lancewood.model.ids import Version
from lancewood.store.locate import open_store
from lancewood.testing.faults import HeldStore

MANY = daily(1_050, of=10_000)
"""More than S3 lists at once."""


def make_versions(uri: str, options: Mapping[str, str] | None, last: int) -> None:
    """Versions in which nothing changes, after the newest one, up to ``last``."""
    snapshot = load_snapshot(Location(open_store(uri, storage_options=options)))
    head = snapshot.manifest

    def put(number: int) -> None:
        message = type(head.message)()
        message.CopyFrom(head.message)
        message.version = number
        data = encode_manifest_file(message, index_section=None, transaction_section=None)
        snapshot.location.store.put(manifest_key(Version(number), NamingScheme.V2), data)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(put, range(head.version + 1, last + 1)))


@pytest.mark.parametrize("where", ["disk", "s3"])
def test_very_many_versions_in_between_cost_a_few_calls(
    where: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    uri, options = f"{tmp_path}/t.lance", None
    if where == "s3":
        uri = f"{request.getfixturevalue('s3_root')}/t.lance"
        options = request.getfixturevalue("s3_options")
    table = lw.create(
        uri, pa.table({"id": range(8), "x": [0.5] * 8}), access=lw.Access(storage_options=options)
    )
    table.branches.create("exp").update({"x": "2.0"}, "id = 4")
    make_versions(uri, options, MANY)
    last = lw.open(uri, access=lw.Access(storage_options=options)).update({"x": "1.0"}, "id = 3")
    assert last.version == MANY + 1
    store = HeldStore(open_store(uri, storage_options=options))
    opened = lw.Table(load_snapshot(Location(store, options)))
    assert opened.diff(1, opened.version).stat() == lw.DiffStat(
        updated=1, unchanged=7, cells={"x": 1}
    )
    assert opened.diff("exp").updated.to_arrow().num_rows == 2
    assert len(store.calls) <= 100


def test_very_many_changes_are_compared_in_ranges_of_ids(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = pa.table({"id": range(3_000), "x": [0.5] * 3_000})
    table = lw.create(tmp_path / "t.lance", rows, layout=lw.Layout(max_rows_per_file=1_000))
    table = table.update({"x": "1.0"}, "id % 7 = 3").delete("id % 50 = 1").append(rows.slice(0, 40))
    expected = table.diff(1, table.version)
    plainly, matched = LiveRows.find, list[int]()

    def find(rows: LiveRows, ids: Ids) -> Ints:
        matched.append(len(rows.firsts))
        return plainly(rows, ids)

    monkeypatch.setattr(LiveRows, "find", find)
    monkeypatch.setattr(ranges, "MOST_STRETCHES", 64)
    monkeypatch.setattr(ranges, "_SAMPLE", 8)
    found = table.diff(1, table.version)
    assert found.stat() == expected.stat()
    assert found.counts == expected.counts
    assert found.explain() == expected.explain()
    assert len(matched) > 20
    assert max(matched) <= 128
    order = [("_change", "ascending"), ("_rowid", "ascending")]
    assert found.to_arrow().sort_by(order) == expected.to_arrow().sort_by(order)


def test_rows_of_different_ranges_are_paired_by_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = pa.table({"id": range(200), "x": [0.5] * 200})
    table = lw.create(tmp_path / "t.lance", rows, layout=lw.Layout(max_rows_per_file=10))
    last = table.update({"x": "2.0"}, "id % 9 = 1").delete("id % 3 = 0")
    last = last.append(rows.slice(0, 40))
    monkeypatch.setattr(ranges, "MOST_STRETCHES", 16)
    monkeypatch.setattr(ranges, "_SAMPLE", 4)
    found = last.diff(1, last.version, on="id")
    assert found.stat() == lw.DiffStat(
        inserted=26, updated=23, deleted=53, unchanged=124, cells={"x": 23}
    )
