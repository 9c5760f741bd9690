"""pylance works on a branch whose rows have ids of a space of their own, however large those are.

The branch is made by us; everything after that is done by pylance, and judged by a scan of it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from tests.pylance import lance

import lancewood as lw
from lancewood.format.refs import space_key
from lancewood.model.lines import first_id, space_of

WIDTH, OLD, NEW = 8, 300, 120
SPACES = {"small": 1, "large": 1_000, "near 2^62": 1 << 26}


def rows(first: int, stop: int) -> pa.Table:
    values = np.random.default_rng(first).random((stop - first) * WIDTH)
    return pa.table(
        {
            "k": pa.array(range(first, stop), pa.int64()),
            "btree": pa.array([k % 17 for k in range(first, stop)], pa.int32()),
            "bitmap": pa.array([k % 5 for k in range(first, stop)], pa.int32()),
            "text": [f"word{k} of {k % 9}" for k in range(first, stop)],
            "near": pa.FixedSizeListArray.from_arrays(pa.array(values, pa.float32()), WIDTH),
        }
    )


class Branch:
    """A branch of ours as pylance sees it, beside what its rows have to be."""

    def __init__(self, uri: Path, space: int) -> None:
        table = lw.create(uri, rows(0, OLD), layout=lw.Layout(max_rows_per_file=100))
        table._snapshot.location.store.put(space_key(max(space - 1, 1)), b"{}")
        table.branches.create("exp")
        self.uri = uri
        self.ids: dict[int, int] = {k: k for k in range(OLD)}
        self.first = self.ours().first
        assert self.first == first_id(space_of(self.first)) >= first_id(space)

    def ours(self) -> Ours:
        return Ours(lw.open(self.uri, branch="exp"))

    def now(self) -> Any:
        return lance.dataset(str(self.uri)).checkout_version(("exp", None))

    def check(self) -> None:
        """pylance finds the same rows under the same ids, by a scan, a filter and by id."""
        dataset = self.now()
        dataset.validate()
        found = dataset.to_table(columns=["k", "_rowid"])
        assert dict(zip(found["k"].to_pylist(), found["_rowid"].to_pylist(), strict=True)) == (
            self.ids
        )
        large = dataset.to_table(columns=["k"], filter=f"_rowid >= {self.first}")
        assert sorted(large["k"].to_pylist()) == sorted(
            k for k, each in self.ids.items() if each >= self.first
        )
        some = sorted(self.ids)[::7]
        taken = dataset._take_rows([self.ids[k] for k in some], columns=["k"])
        assert taken["k"].to_pylist() == some
        assert self.ours().values() == sorted(self.ids)

    def hand_out(self, *keys: int) -> None:
        mark = max(self.first, *(each + 1 for each in self.ids.values()), self.mark)
        for at, key in enumerate(keys):
            self.ids[key] = mark + at
        self.mark = mark + len(keys)

    mark = 0


class Ours:
    """The same as we see it."""

    def __init__(self, table: lw.Table) -> None:
        self._table = table
        self.first = table._snapshot.manifest.next_row_id

    def values(self) -> list[int]:
        report = self._table.verify()
        assert report.ok, report.problems
        return sorted(self._table.to_arrow()["k"].to_pylist())


@pytest.fixture(params=SPACES)
def branch(request: pytest.FixtureRequest, tmp_path: Path) -> Branch:
    return Branch(tmp_path / "t.lance", SPACES[request.param])


def test_rows_are_written_changed_and_moved_under_their_ids(branch: Branch) -> None:
    branch.now().insert(rows(OLD, OLD + NEW))
    branch.hand_out(*range(OLD, OLD + NEW))
    branch.check()
    before, known = branch.now().version, dict(branch.ids)
    branch.now().delete("k % 10 = 3")
    branch.ids = {k: each for k, each in branch.ids.items() if k % 10 != 3}
    branch.now().update({"btree": "99"}, where="k % 10 = 4")
    branch.check()
    merge = branch.now().merge_insert("k").when_matched_update_all()
    merge.when_not_matched_insert_all().execute(rows(OLD + NEW - 20, OLD + NEW + 20))
    fresh = [k for k in range(OLD + NEW - 20, OLD + NEW + 20) if k not in branch.ids]
    found = branch.now().to_table(columns=["k", "_rowid"])
    given = dict(zip(found["k"].to_pylist(), found["_rowid"].to_pylist(), strict=True))
    assert {given[k] for k in fresh} == {*range(branch.mark, branch.mark + len(fresh))}
    branch.ids |= {k: given[k] for k in fresh}
    branch.mark += len(fresh)
    branch.check()
    branch.now().optimize.compact_files(target_rows_per_fragment=10_000)
    assert len(branch.now().get_fragments()) == 1
    branch.check()
    branch.now().add_columns({"more": "k * 2"})
    assert pc.all(pc.equal(branch.now().to_table()["more"], pc.multiply(_k(branch), 2))).as_py()
    branch.check()
    old = branch.now().checkout_version(("exp", before))
    old.restore()
    branch.ids = known
    branch.check()
    branch.now().insert(rows(900, 903))
    branch.hand_out(900, 901, 902)
    branch.check()


def _k(branch: Branch) -> pa.ChunkedArray:
    return branch.now().to_table()["k"]


@pytest.mark.sliced(2)
@pytest.mark.parametrize("vector", ["IVF_FLAT", "IVF_PQ"])
def test_indices_answer_as_a_scan_does(branch: Branch, vector: str) -> None:
    branch.now().insert(rows(OLD, OLD + NEW))
    branch.hand_out(*range(OLD, OLD + NEW))
    for column, kind in {"btree": "BTREE", "bitmap": "BITMAP", "text": "INVERTED"}.items():
        branch.now().create_scalar_index(column, kind, name=column)
    parts = {"num_sub_vectors": 4, "num_bits": 4} if vector == "IVF_PQ" else {}
    branch.now().create_index("near", vector, num_partitions=2, name="near", **parts)
    _check_indices(branch)
    branch.now().delete("k % 10 = 3")
    branch.now().update({"btree": "5"}, where="k % 10 = 4")
    _check_indices(branch)
    branch.now().optimize.compact_files(target_rows_per_fragment=10_000)
    _check_indices(branch)
    branch.now().optimize.optimize_indices()
    _check_indices(branch)


def _check_indices(branch: Branch) -> None:
    dataset = branch.now()
    dataset.validate()
    for condition in ("btree = 5", "bitmap = 2", "bitmap = 2 AND btree = 5"):
        asked, scanned = (
            dataset.scanner(columns=["k", "_rowid"], filter=condition, use_scalar_index=used)
            for used in (True, False)
        )
        assert _sorted(asked.to_table()) == _sorted(scanned.to_table()), condition
    rows_there = dataset.to_table(columns=["k", "_rowid", "text"]).to_pylist()
    for k in (5, OLD + 5):
        found = dataset.to_table(columns=["k", "_rowid"], full_text_query=f"word{k}")
        expected = [each for each in rows_there if each["k"] == k]
        assert [(each["k"], each["_rowid"]) for each in found.to_pylist()] == [
            (each["k"], each["_rowid"]) for each in expected
        ]
    asked = {"column": "near", "q": [0.5] * WIDTH, "k": 15, "nprobes": 2, "refine_factor": 50}
    found, brute = (
        dataset.to_table(columns=["k", "_rowid"], nearest={**asked, "use_index": used})
        for used in (True, False)
    )
    assert _sorted(found) == _sorted(brute)


def _sorted(found: pa.Table) -> list[tuple[int, int]]:
    return sorted(zip(found["k"].to_pylist(), found["_rowid"].to_pylist(), strict=True))
