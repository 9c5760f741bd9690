"""A failure, a lost answer or a death at every store call of merging a branch by rows.

Afterwards the target is old or new, never between, the branch that is merged is untouched, and both
implementations read them. Merging again finishes what was cut off, and never merges twice.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest
from tests.counted import counts_of
from tests.faults.hurting import MODES, ONE, Deaf, copied, every_call, through
from tests.pylance import judged, lance

import lancewood as lw
from lancewood.format.refs import SPACES_DIR
from lancewood.jobs.counts import Merged
from lancewood.jobs.merge import row_merge as plan
from lancewood.model.refs import MAIN
from lancewood.store.disk import DiskStore
from lancewood.testing.faults import Mode

pytestmark = pytest.mark.usefixtures("no_waiting")

WAYS = [("exp", MAIN), (MAIN, "exp"), ("exp", "other")]
"""What is merged, and into what."""


def rows(first: int, stop: int) -> pa.Table:
    numbers = pa.array(range(first, stop), pa.int64())
    return pa.table({"k": numbers, "a": numbers, "b": numbers})


def root(uri: str, branch: str) -> str:
    return uri if branch == MAIN else f"{uri}/tree/{branch}"


def content(uri: str, branch: str) -> list[str]:
    found = judged(root(uri, branch))
    return sorted(map(repr, found.to_table(columns=["k", "a", "b", "_rowid"]).to_pylist()))


def files(uri: str, branch: str) -> dict[str, bytes]:
    """Everything below a branch; for main without the branches, and the spaces that are claimed."""
    start = Path(root(uri, branch))
    others = (Path(uri, "tree"), Path(uri, SPACES_DIR))
    return {
        str(each.relative_to(start)): each.read_bytes()
        for each in start.rglob("*")
        if each.is_file() and (branch != MAIN or not any(map(each.is_relative_to, others)))
    }


def change(table: lw.Table, far: int, column: str) -> lw.Table:
    """A row deleted, others updated, a whole fragment updated in place, new rows in a fragment with
    a hole, in one that has few rows left, and a cell of a row whose other cell changes on other
    branches."""
    table = table.update(
        {column: "k + 1000"}, f"k IN ({far}, {far + 1}, {far + 2})", rewrite="rows"
    )
    table = table.delete(f"k IN ({far + 3}, {far + 1})").append(rows(far * 100, far * 100 + 6))
    table = table.append(rows(far * 100 + 20, far * 100 + 32)).delete(
        f"k = {far * 100 + 2} OR k >= {far * 100 + 24}"
    )
    table = table.update({column: far}, "k = 0", rewrite="rows")
    return table.update({column: 8}, f"k >= {far + 4} AND k < {far + 14}", rewrite="columns")


@dataclass(frozen=True)
class Case:
    """A table with two branches, kept aside: base paths are absolute, so it is always tried at the
    same place."""

    kept: Path
    uri: str
    source: str
    target: str
    before: list[str]
    after: list[str]
    version: int

    def restore(self) -> DiskStore:
        return copied(self.kept, self.uri)

    def merge(self, table: lw.Table) -> lw.Table:
        return table.branches.merge(self.source, self.target, runner=ONE)

    def check_merged(self, where: object = None) -> None:
        """Merging again gives what merging once gives, in one version."""
        assert self.merge(lw.open(self.uri)).version == self.version + 1, where
        assert content(self.uri, self.target) == self.after, where
        again = self.merge(lw.open(self.uri))
        assert not counts_of(again, Merged).is_new, where
        assert again.version == self.version + 1, where


@pytest.fixture(params=WAYS, ids=lambda way: " into ".join(way))
def case(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Case:
    """Rows that are adopted, with and without a mask, in files that are brought from the branch,
    copied, merged and written, and deleted."""
    monkeypatch.setattr(plan, "_FEW_ROWS", 4)
    uri = str(tmp_path / "t.lance")
    table = lw.create(uri, rows(0, 60), layout=lw.Layout(max_rows_per_file=10))
    change(table.branches.create("other"), 36, "b")
    change(table.branches.create("exp"), 6, "a")
    lance.dataset(root(uri, "exp")).insert(rows(7000, 7005))
    table.update({"b": 5}, "k = 0").append(rows(70, 73))
    kept = tmp_path / "kept"
    shutil.copytree(uri, kept)
    source, target = request.param
    before = content(uri, target)
    version = lw.open(uri, branch=target).version
    merged = table.branches.merge(source, target, runner=ONE)
    found = Case(kept, uri, source, target, before, content(uri, target), version)
    counts = counts_of(merged, Merged)
    assert counts.joined
    if source != MAIN:
        assert min(counts.inserted, counts.updated, counts.deleted, counts.adopted_files)
        assert counts.written_rows > counts.joined
        masked = [each.num_deleted_rows for each in merged.fragments if each.physical_rows == 6]
        assert masked == [1] * len(masked) != []
        assert len(list(Path(uri, SPACES_DIR).iterdir())) > len(list((kept / SPACES_DIR).iterdir()))
    found.restore()
    return found


@pytest.mark.sliced(4)
@pytest.mark.parametrize("mode", MODES)
def test_merging_is_done_once_or_not_at_all_whatever_call_goes_wrong(
    case: Case, mode: Mode
) -> None:
    source, target = files(case.uri, case.source), files(case.uri, case.target)
    for attempt in every_call(mode, lambda _: case.restore(), more_than=20):
        attempt.run(case.merge, through(case.uri, attempt.store))
        attempt.check(content(case.uri, case.target), case.before, case.after)
        if attempt.must_leave_nothing:
            left = files(case.uri, case.target).keys() - target.keys()
            assert all(each.startswith("_transactions/") for each in left), attempt.where
        case.check_merged(attempt.where)
        now = files(case.uri, case.source)
        assert source.items() <= now.items(), attempt.where
        # New files of branches lie in main's root, too.
        fresh = now.keys() - source.keys()
        assert all(case.source == MAIN and each.startswith("data/") for each in fresh)


@pytest.mark.parametrize("case", WAYS[:1], indirect=True)
def test_files_of_a_merge_whose_fate_is_unknown_are_never_deleted(case: Case) -> None:
    with pytest.raises(lw.CommitUnknownError):
        case.merge(through(case.uri, Deaf(DiskStore(case.uri))))
    assert content(case.uri, case.target) == case.after
    case.check_merged()
