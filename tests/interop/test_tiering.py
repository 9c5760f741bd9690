"""Hot and cold storage, and several regions: fragments go to and fro, both implementations go on.

On disk, on S3 in two buckets, and from a disk to S3. pylance reads, validates, appends, deletes,
compacts and cleans up afterwards.
"""

from __future__ import annotations

import urllib.request
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import lance
import numpy as np
import pyarrow as pa
import pytest
from lance import DatasetBasePath
from tests.counted import counts_of
from tests.pylance import judged

import lancewood as lw
from lancewood.store.base import Store
from lancewood.store.locate import open_store

pytestmark = pytest.mark.sliced(4)

ROWS, PER_FILE, WIDTH = 400, 100, 8
FIRST = date(2024, 1, 1)
Options = dict[str, str]


def some_rows(first: int, stop: int) -> pa.Table:
    """A row a day."""
    numbers = range(first, stop)
    values = np.random.default_rng(first).random(len(numbers) * WIDTH)
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(values, pa.float32()), WIDTH)
    return pa.table(
        {
            "k": pa.array(numbers, pa.int64()),
            "day": pa.array([FIRST + timedelta(days=k) for k in numbers], pa.date32()),
            "kind": pa.array([k % 5 for k in numbers], pa.int32()),
            "words": [f"word{k % 9} and more" for k in numbers],
            "vector": vectors,
        }
    )


@dataclass(frozen=True)
class Tiers:
    """A hot root and a cold place, and how to reach them."""

    hot: str
    cold: str
    options: Options

    def ours(self) -> lw.Table:
        return lw.open(
            self.hot,
            access=lw.Access(
                storage_options=self.options or None, base_storage_options={"cold": self.options}
            ),
        )

    def theirs(self, version: int | None = None) -> Any:
        return judged(self.hot, version=version, storage_options=self.options or None)

    def append(self, rows: pa.Table) -> None:
        lance.write_dataset(rows, self.hot, mode="append", storage_options=self.options or None)

    def files(self, uri: str, directory: str = "") -> set[str]:
        """The bare names of data files at a place."""
        store: Store = open_store(uri, storage_options=self.options or None)
        return {each.key.rpartition("/")[2] for each in store.list(directory)}

    def where(self) -> dict[int, int | None]:
        """The home of each fragment's only file, as pylance sees it."""
        found = {}
        for each in self.theirs().get_fragments():
            (file,) = each.metadata.files
            found[each.fragment_id] = file.base_id
        return found


def new_bucket(endpoint: str) -> str:
    bucket = f"cold-{uuid4().hex}"
    request = urllib.request.Request(f"{endpoint}/{bucket}", method="PUT")
    urllib.request.urlopen(request, timeout=30).close()
    return f"s3://{bucket}"


@pytest.fixture(params=["disk", "s3", "disk to s3"])
def tiers(request: pytest.FixtureRequest, tmp_path: Path) -> Tiers:
    hot, cold, options = str(tmp_path / "hot.lance"), str(tmp_path / "cold"), {}
    if request.param != "disk":
        options = request.getfixturevalue("s3_options")
        cold = new_bucket(request.getfixturevalue("s3_endpoint")) + "/photos"
    if request.param == "s3":
        hot = request.getfixturevalue("s3_root") + "/hot.lance"
    return Tiers(hot, cold, options)


def by_pylance(tiers: Tiers, *, is_root: bool, stable: bool = True) -> None:
    lance.write_dataset(
        some_rows(0, ROWS),
        tiers.hot,
        max_rows_per_file=PER_FILE,
        enable_stable_row_ids=stable,
        storage_options=tiers.options or None,
        initial_bases=[DatasetBasePath(tiers.cold, name="cold", is_dataset_root=is_root)],
    )


def by_us(tiers: Tiers, *, is_root: bool, stable: bool = True) -> None:
    lw.create(
        tiers.hot,
        some_rows(0, ROWS),
        layout=lw.Layout(
            max_rows_per_file=PER_FILE,
            stable_row_ids=stable,
            bases=[lw.BasePath(tiers.cold, name="cold", is_dataset_root=is_root)],
        ),
        access=lw.Access(
            storage_options=tiers.options or None, base_storage_options={"cold": tiers.options}
        ),
    )


def keys(tiers: Tiers) -> list[int]:
    found: list[int] = tiers.theirs().to_table(columns=["k"]).column("k").to_pylist()
    assert tiers.ours().scan(["k"]).to_arrow().column("k").to_pylist() == found
    return sorted(found)


@pytest.mark.parametrize("is_root", [True, False], ids=["root", "directory"])
@pytest.mark.parametrize("make", [by_pylance, by_us])
def test_old_days_go_to_the_cold_and_both_go_on_working(
    tiers: Tiers, make: Any, is_root: bool
) -> None:
    make(tiers, is_root=is_root)
    rows = tiers.theirs().to_table()
    moved = tiers.ours().move_fragments(where="day < DATE '2024-08-01'", base="cold")
    assert counts_of(moved, lw.MoveCounts).fragments == 2
    assert tiers.where() == {0: 1, 1: 1, 2: None, 3: None}
    assert tiers.theirs().to_table() == rows
    assert moved.to_arrow() == rows
    cold = "data" if is_root else ""
    names = {each.files[0].path for each in moved.fragments[:2]}
    assert tiers.files(tiers.cold, cold) == names

    tiers.append(some_rows(ROWS, ROWS + 10))
    tiers.theirs().delete("k IN (5, 150, 250)")
    tiers.theirs().update({"kind": "9"}, where="k = 7")
    moved.latest().delete("k IN (6, 151)")
    gone = {5, 150, 250, 6, 151}
    assert keys(tiers) == sorted({*range(ROWS + 10)} - gone)
    assert tiers.where()[0] == tiers.where()[1] == 1
    deletions = tiers.files(tiers.hot, "_deletions")
    assert deletions
    assert tiers.files(tiers.cold) == names

    tiers.theirs().optimize.compact_files(target_rows_per_fragment=1000)
    assert keys(tiers) == sorted({*range(ROWS + 10)} - gone)
    assert set(tiers.where().values()) == {None}
    again = tiers.ours().move_fragments(base="cold")
    assert counts_of(again, lw.MoveCounts).fragments == len(again.fragments)
    assert keys(tiers) == sorted({*range(ROWS + 10)} - gone)
    back = again.move_fragments(base=None)
    assert set(tiers.where().values()) == {None}
    assert keys(tiers) == sorted({*range(ROWS + 10)} - gone)
    assert back.verify().ok


@pytest.mark.parametrize("cleaner", ["ours", "theirs"])
def test_cleanup_collects_what_was_moved_away_and_nothing_else(
    tiers: Tiers, cleaner: str, no_commit_under_way: None
) -> None:
    by_pylance(tiers, is_root=True)
    before = tiers.files(tiers.hot, "data")
    moved = tiers.ours().move_fragments([0, 2], base="cold")
    first = tiers.ours().checkout(version=1).fragments
    old = {first[at].files[0].path for at in (0, 2)}
    assert tiers.files(tiers.hot, "data") == before
    if cleaner == "ours":
        report = moved.cleanup(keep_versions=1, in_flight=timedelta(0))
        assert report.data_files == 2
    else:
        stats = tiers.theirs().cleanup_old_versions(older_than=timedelta(0), delete_unverified=True)
        assert stats.old_versions == 1
    assert tiers.files(tiers.hot, "data") == before - old
    assert len(tiers.files(tiers.cold, "data")) == 2
    assert keys(tiers) == list(range(ROWS))

    back = moved.move_fragments(base=None)
    if cleaner == "ours":
        back.cleanup(keep_versions=1, in_flight=timedelta(0))
    else:
        tiers.theirs().cleanup_old_versions(older_than=timedelta(0), delete_unverified=True)
    assert keys(tiers) == list(range(ROWS))
    assert len(tiers.files(tiers.hot, "data")) == 4
    assert len(tiers.files(tiers.cold, "data")) == 2


INDICES = {"k": "BTREE", "kind": "BITMAP", "words": "INVERTED", "vector": "IVF_FLAT"}


def build_indices(dataset: Any) -> None:
    for column, kind in INDICES.items():
        if column == "vector":
            dataset.create_index(column, kind, num_partitions=2)
        else:
            dataset.create_scalar_index(column, kind)


def answers(dataset: Any, *, use_index: bool = True) -> list[list[int]]:
    target = np.full(WIDTH, 0.4, np.float32)
    near = {"column": "vector", "q": target, "k": 12, "nprobes": 2, "use_index": use_index}
    scans: list[dict[str, Any]] = [
        {"filter": "k IN (3, 130, 399)", "use_scalar_index": use_index},
        {"filter": "kind = 3", "use_scalar_index": use_index},
        {"nearest": near},
    ]
    if use_index:
        scans.append({"full_text_query": "word4"})
    else:
        scans.append({"filter": "words LIKE 'word4 %'"})
    return [sorted(dataset.to_table(columns=["k"], **each)["k"].to_pylist()) for each in scans]


def covered(dataset: Any) -> dict[str, list[int]]:
    return {
        each.name: sorted(n for segment in each.segments for n in segment.fragment_ids)
        for each in dataset.describe_indices()
    }


@pytest.mark.parametrize("stable", [True, False], ids=["stable ids", "addresses"])
def test_indices_go_on_to_answer_for_fragments_that_moved(tiers: Tiers, stable: bool) -> None:
    by_pylance(tiers, is_root=False, stable=stable)
    build_indices(tiers.theirs())
    wanted, coverage = answers(tiers.theirs()), covered(tiers.theirs())
    assert wanted == answers(tiers.theirs(), use_index=False)
    assert set(map(tuple, coverage.values())) == {(0, 1, 2, 3)}
    tiers.ours().move_fragments([1, 3], base="cold")
    assert covered(tiers.theirs()) == coverage
    assert answers(tiers.theirs()) == wanted
    tiers.append(some_rows(ROWS, ROWS + 20))
    tiers.theirs().delete("k = 130")
    tiers.theirs().optimize.optimize_indices()
    tiers.ours().move_fragments(base="cold")
    assert answers(tiers.theirs()) == answers(tiers.theirs(), use_index=False)
    assert set(tiers.where().values()) == {1}


def test_regions_have_their_own_storage_options(
    s3_root: str, s3_options: Options, s3_endpoint: str
) -> None:
    """The table's options lead nowhere but to the hot region, those of the base to the other."""
    far = new_bucket(s3_endpoint) + "/far"
    hot = f"{s3_root}/hot.lance"
    bases = {"far": {**s3_options, "aws_access_key_id": "AKIAFAR"}}
    lw.create(
        hot,
        some_rows(0, ROWS),
        layout=lw.Layout(max_rows_per_file=PER_FILE, bases=[lw.BasePath(far, name="far")]),
        access=lw.Access(storage_options=s3_options, base_storage_options=bases),
    )
    table = lw.open(hot, access=lw.Access(storage_options=s3_options, base_storage_options=bases))
    moved = table.move_fragments([0, 1], base="far")
    assert [each.files[0].base_id for each in moved.fragments] == [1, 1, None, None]
    assert moved.to_arrow() == some_rows(0, ROWS)
    assert moved.scan(in_bases="far").count() == 2 * PER_FILE
    reached = judged(hot, storage_options=s3_options)
    assert reached.count_rows("k < 150") == 150
    lost = {**s3_options, "aws_endpoint": "http://127.0.0.1:9", "client_retry_timeout": "1"}
    with pytest.raises(lw.StorageError):
        lw.open(
            hot, access=lw.Access(storage_options=s3_options, base_storage_options={"far": lost})
        ).move_fragments(base="far")
    assert table.latest().version == moved.version


def test_three_regions_each_have_their_part_and_a_fourth_has_all(tmp_path: Path) -> None:
    """Parts of the table in the seed's regions, then gathered in one."""
    uri = str(tmp_path / "t.lance")
    bases = [lw.BasePath(tmp_path / each, name=each) for each in ("us", "eu", "asia")]
    table = lw.create(
        uri, some_rows(0, ROWS), layout=lw.Layout(max_rows_per_file=PER_FILE, bases=bases)
    )
    for at, each in enumerate(("us", "eu", "asia")):
        table = table.move_fragments(where=f"k >= {at * 100} AND k < {at * 100 + 100}", base=each)
        assert counts_of(table, lw.MoveCounts).fragments == 1
    tiers = Tiers(uri, "", {})
    assert tiers.where() == {0: 1, 1: 2, 2: 3, 3: None}
    assert table.scan(["k"], in_bases="eu").to_arrow()["k"].to_pylist() == list(range(100, 200))
    table = table.move_fragments(base="asia")
    assert counts_of(table, lw.MoveCounts).fragments == 3
    assert set(tiers.where().values()) == {3}
    assert keys(tiers) == list(range(ROWS))
