"""Compaction: which fragments are joined, what is left when others write, what stays behind."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import lance as pylance
import numpy as np
import pyarrow as pa
import pytest
from pyroaring import BitMap
from tests.manifests import decode_fragments, edit_manifest, put_fragments

import lancewood as lw
from lancewood.data import open_files
from lancewood.engine.snapshot.snapshot import Snapshot
from lancewood.errors import (
    IncompatibleConflictError,
    InvalidInputError,
    RetryableConflictError,
    StorageError,
)
from lancewood.format.deletion import deletion_file_name, encode_deletions
from lancewood.jobs.compaction import compact as module
from lancewood.jobs.compaction import plan as compact_plan
from lancewood.jobs.compaction.compact import rewrite_bin
from lancewood.jobs.compaction.plan import CompactionGoal, FragmentSizes, coverage_of, plan_bins
from lancewood.jobs.counts import CompactionCounts
from lancewood.jobs.runner import LocalRunner
from lancewood.model.ids import FragmentId, Version
from lancewood.proto import table_pb2

lance: Any = pylance
T = TypeVar("T")
R = TypeVar("R")

GOAL = CompactionGoal(target_rows=100, max_deleted=0.1, max_bytes=1_000_000)
LINEAGE = ["a", "_rowid", "_row_created_at_version", "_row_last_updated_at_version"]


def sizes(
    live: Sequence[int],
    deleted: Sequence[int] | None = None,
    bytes: Sequence[int] | None = None,
    coverage: Sequence[int] | None = None,
) -> FragmentSizes:
    rows = np.array(live, np.int64)
    gone = np.array(deleted or [0] * len(live), np.int64)
    return FragmentSizes(
        np.where(rows < 0, 0, rows + gone),
        rows,
        np.array(bytes or [1] * len(live), np.int64),
        np.array(coverage or [0] * len(live), np.int64),
    )


def planned(
    live: Sequence[int], goal: CompactionGoal = GOAL, **facts: Sequence[int]
) -> list[list[int]]:
    return [list(each) for each in plan_bins(sizes(live, **facts), goal)]


# The plan


def test_small_neighbours_are_joined_up_to_the_target() -> None:
    assert planned([30, 30, 30, 30, 30]) == [[0, 1, 2], [3, 4]]


def test_a_fragment_of_the_target_size_parts_its_neighbours() -> None:
    assert planned([10, 10, 100, 10, 10]) == [[0, 1], [3, 4]]


def test_a_small_fragment_without_a_neighbour_to_join_stays() -> None:
    assert planned([100, 10, 100]) == []
    assert planned([60, 60, 60]) == []
    assert planned([]) == []


def test_a_fragment_with_many_deleted_rows_is_rewritten_alone_and_one_with_few_is_not() -> None:
    assert planned([200, 100, 200], deleted=[23, 10, 22]) == [[0]]
    assert planned([89, 100], deleted=[11, 0]) == [[0]]
    assert planned([90, 100], deleted=[10, 0]) == []


def test_a_fragment_with_many_deleted_rows_joins_its_neighbours_if_they_fit() -> None:
    assert planned([20, 50, 20], deleted=[0, 50, 0]) == [[0, 1, 2]]
    assert planned([20, 150, 20], deleted=[0, 50, 0]) == [[1]]


def test_a_fragment_whose_rows_are_all_deleted_always_goes() -> None:
    goal = CompactionGoal(target_rows=100, max_deleted=1.0, max_bytes=1_000_000)
    assert planned([100, 0, 100], goal, deleted=[0, 5, 0]) == [[1]]


def test_every_deleted_row_counts_if_none_is_allowed() -> None:
    goal = CompactionGoal(target_rows=100, max_deleted=0.0, max_bytes=1_000_000)
    assert planned([100, 100], goal, deleted=[1, 0]) == [[0]]


def test_a_bin_ends_where_another_index_begins() -> None:
    assert planned([10] * 6, coverage=[0, 0, 1, 1, 1, 0]) == [[0, 1], [2, 3, 4]]


def test_fragments_of_unknown_size_stay_and_part_their_neighbours() -> None:
    assert planned([10, -1, 10, 10]) == [[2, 3]]


def test_a_bin_does_not_outgrow_a_file() -> None:
    assert planned([1] * 4, bytes=[400_000] * 4) == [[0, 1], [2, 3]]
    assert planned([1, 1], bytes=[1_000_000, 10]) == []


def test_what_a_plan_leaves_is_not_planned_again() -> None:
    generator = np.random.default_rng(3)
    for _ in range(50):
        live = generator.integers(1, 130, 40).tolist()
        bins = planned(live)
        joined = {at for each in bins for at in each}
        assert all(sum(live[at] for at in each) <= 100 for each in bins if len(each) > 1)
        after, at = [], 0
        while at < len(live):
            group = next((each for each in bins if each[0] == at), [at])
            after.append(sum(live[each] for each in group))
            at = group[-1] + 1
        assert planned(after) == []
        assert joined or planned(live) == []


def test_a_bin_holds_so_many_fragments_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compact_plan, "MOST_FRAGMENTS", 3)
    assert planned([1] * 7) == [[0, 1, 2], [3, 4, 5]]


def test_coverage_tells_fragments_apart_that_differ_in_one_index() -> None:
    ids = np.array([3, 4, 7, 9], np.uint32)
    labels = coverage_of(ids, [BitMap([3, 4, 100]), BitMap([4, 7]), BitMap()]).tolist()
    assert len(set(labels)) == 4
    assert coverage_of(ids, [BitMap([3, 4, 7, 9])] * 70).tolist() == [0] * 4


# The job

ROWS = pa.table({"a": pa.array(range(120), pa.int64())})


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return str(tmp_path / "t")


@pytest.fixture
def table(uri: str) -> lw.Table:
    """Four fragments of 30 rows."""
    return lw.create(
        uri, ROWS, layout=lw.Layout(max_rows_per_file=30), access=lw.Access(fsync=False)
    )


def contents(table: lw.Table) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = table.scan(LINEAGE).to_arrow().to_pylist()
    return sorted(found, key=lambda each: each["_rowid"])


def data_files(table: lw.Table) -> set[str]:
    return {each.name for each in (Path(table.uri) / "data").iterdir()}


class Meanwhile:
    """A runner that lets somebody else work once the tasks are done, so many times."""

    slots = 2

    def __init__(self, act: Callable[[], object], times: int = 1) -> None:
        self._act, self._times = act, times

    def run(
        self,
        work: Callable[[T], R],
        tasks: Sequence[T],
        *,
        what: str,
        leftover: Callable[[R], object] | None = None,
    ) -> Iterator[R]:
        yield from LocalRunner(1).run(work, tasks, what=what)
        if self._times:
            self._times -= 1
            self._act()


class Sent:
    """A runner that sends tasks and results as another process would get them."""

    slots = 2

    def __init__(self) -> None:
        self.bytes = 0

    def run(
        self,
        work: Callable[[T], R],
        tasks: Sequence[T],
        *,
        what: str,
        leftover: Callable[[R], object] | None = None,
    ) -> Iterator[R]:
        for task in tasks:
            sent = pickle.dumps((work, task))
            self.bytes = max(self.bytes, len(sent))
            there, its_task = pickle.loads(sent)
            yield pickle.loads(pickle.dumps(there(its_task)))


def test_rows_ids_and_versions_stay(table: lw.Table) -> None:
    changed = table.update({"a": "a + 1000"}, "a % 7 = 0").delete("a % 5 = 0")
    before = contents(changed)
    after = changed.compact()
    assert contents(after) == before
    assert len(after.fragments) == 1
    assert after.counts == CompactionCounts(5, 1, 10, 1)
    assert after.version == changed.version + 2


def test_a_limit_above_all_numbers_is_none(table: lw.Table) -> None:
    before = contents(table)
    after = table.compact(target_rows=1 << 70, max_bytes_per_file=1 << 70)
    assert contents(after) == before
    assert len(after.fragments) == 1


def test_nothing_to_gain_makes_no_version(table: lw.Table) -> None:
    done = table.compact()
    again = done.compact()
    assert again.version == done.version
    assert again.counts == CompactionCounts()


def test_bins_become_one_fragment_each_in_one_commit(table: lw.Table) -> None:
    after = table.compact(target_rows=60)
    assert [each.physical_rows for each in after.fragments] == [60, 60]
    assert [each.id for each in after.fragments] == [4, 5]
    assert after.version == 3
    assert after.to_arrow().column("a").to_pylist() == list(range(120))


def test_a_large_fragment_with_many_deleted_rows_is_cut_to_size(uri: str) -> None:
    table = lw.create(uri, ROWS, access=lw.Access(fsync=False)).delete("a < 30")
    after = table.compact(target_rows=40)
    assert [each.physical_rows for each in after.fragments] == [40, 40, 10]
    assert contents(after) == contents(table)


def test_tasks_and_results_travel_and_carry_only_their_own_fragments(uri: str) -> None:
    table = lw.create(
        uri, ROWS, layout=lw.Layout(max_rows_per_file=1), access=lw.Access(fsync=False)
    )
    sent = Sent()
    after = table.compact(target_rows=2, runner=sent)
    assert len(after.fragments) == 60
    assert sent.bytes < 6_000


def test_without_stable_ids_there_is_no_lineage(uri: str) -> None:
    lance.write_dataset(ROWS, uri, max_rows_per_file=30)
    after = lw.open(uri).compact()
    assert after.fragments[0].lineage("row_ids") is None
    assert after.to_arrow().column("a").to_pylist() == list(range(120))


def test_planning_opens_no_data_file(table: lw.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    done = table.compact()

    def refuse(*_: object) -> None:
        raise AssertionError("a data file was opened")

    open_files.OPEN_FILES.close()
    monkeypatch.setattr(open_files, "open_reader", refuse)
    assert done.compact().version == done.version


def test_a_bin_that_somebody_changed_is_left_out_and_its_files_are_removed(
    table: lw.Table,
) -> None:
    def somebody() -> None:
        lw.open(table.uri).delete("a = 70")

    before = data_files(table)
    after = table.compact(target_rows=60, runner=Meanwhile(somebody))
    assert after.counts == CompactionCounts(2, 1, 2, 1)
    assert [each.physical_rows for each in after.fragments] == [30, 30, 60]
    assert after.count_rows() == 119
    assert len(data_files(after) - before) == 1
    assert contents(after) == [each for each in contents(table) if each["a"] != 70]


def test_if_every_bin_was_changed_everything_is_planned_again(table: lw.Table) -> None:
    def somebody() -> None:
        lw.open(table.uri).delete("a in (5, 70)")

    before = data_files(table)
    after = table.compact(target_rows=60, runner=Meanwhile(somebody))
    assert after.counts == CompactionCounts(4, 2, 6, 2)
    assert after.count_rows() == 118
    assert len(data_files(after) - before) == 2


def test_an_append_meanwhile_is_no_conflict(table: lw.Table) -> None:
    def somebody() -> None:
        lw.open(table.uri).append(ROWS.slice(0, 7))

    after = table.compact(runner=Meanwhile(somebody))
    assert after.counts == CompactionCounts(4, 1, 4, 1)
    assert after.count_rows() == 127


def test_a_column_added_meanwhile_is_not_lost(table: lw.Table) -> None:
    def somebody() -> None:
        lance.dataset(table.uri).add_columns({"b": "a * 2"})

    after = table.compact(runner=Meanwhile(somebody))
    found = after.to_arrow()
    assert found.column("b").to_pylist() == [2 * each for each in found.column("a").to_pylist()]
    assert len(after.fragments) == 1
    lance.dataset(table.uri).validate()


def test_an_index_made_meanwhile_is_covered_wholly_or_not_at_all(table: lw.Table) -> None:
    def somebody() -> None:
        lance.dataset(table.uri).create_scalar_index("a", "BITMAP")

    after = table.compact(target_rows=60, runner=Meanwhile(somebody))
    live = {each.id for each in after.fragments}
    assert set(after.indices[0].fragments) == live
    found = lance.dataset(table.uri).to_table(filter="a in (3, 50, 119)")
    assert found.column("a").to_pylist() == [3, 50, 119]


def test_two_compactions_at_once_leave_every_row_once(table: lw.Table) -> None:
    def somebody() -> None:
        lw.open(table.uri).compact(target_rows=60)

    after = table.compact(target_rows=60, runner=Meanwhile(somebody))
    assert contents(after) == contents(table)
    assert after.counts == CompactionCounts()
    assert len(after.fragments) == 2
    named = {file.path for each in (*table.fragments, *after.fragments) for file in each.files}
    assert data_files(after) == named


def test_others_that_are_always_faster_are_told_with_attempts(
    table: lw.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lancewood.store.retry.time.sleep", lambda seconds: None)
    numbers = iter(range(1_000))

    def somebody() -> None:
        lw.open(table.uri).delete(f"a in ({next(numbers)}, {next(numbers) + 60})")

    before = data_files(table)
    with pytest.raises(RetryableConflictError, match="compacted 10 times") as caught:
        table.compact(runner=Meanwhile(somebody, times=1_000))
    assert caught.value.facts["attempts"] == 10
    assert data_files(table) == before


def test_an_overwrite_meanwhile_is_for_a_person_to_decide(table: lw.Table) -> None:
    def somebody() -> None:
        lw.open(table.uri).overwrite(ROWS.slice(0, 3))

    with pytest.raises(IncompatibleConflictError):
        table.compact(runner=Meanwhile(somebody))
    newest = table.latest()
    assert newest.count_rows() == 3
    named = {file.path for each in (*table.fragments, *newest.fragments) for file in each.files}
    assert data_files(table) == named


def test_serializable_compaction_lands_when_nobody_writes(table: lw.Table) -> None:
    after = table.compact(commit=lw.CommitOptions(serializable=True))
    assert (after.version, len(after.fragments)) == (3, 1)


def test_serializable_compaction_tolerates_nobody(table: lw.Table) -> None:
    def somebody() -> None:
        lw.open(table.uri).append(ROWS.slice(0, 1))

    before = data_files(table)
    with pytest.raises(RetryableConflictError, match="serializable"):
        table.compact(commit=lw.CommitOptions(serializable=True), runner=Meanwhile(somebody))
    assert len(data_files(table) - before) == 1, "only what was appended"


def test_a_task_that_fails_leaves_nothing_visible(
    table: lw.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(snapshot: Any, goal: Any, fragments: Sequence[Any]) -> Any:
        if fragments[0].id:
            raise StorageError("the disk is full")
        return rewrite_bin(snapshot, goal, fragments)

    monkeypatch.setattr(module, "rewrite_bin", failing)
    before = data_files(table)
    with pytest.raises(StorageError, match="full"):
        table.compact(target_rows=60, runner=LocalRunner(1))
    assert data_files(table) == before
    assert table.latest().version == table.version


def test_a_store_that_fails_after_a_conflict_keeps_no_file_of_it(
    table: lw.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(snapshot: Snapshot) -> Snapshot:
        raise StorageError("the store is away")

    table.delete("a = 3")
    before = data_files(table)
    monkeypatch.setattr(Snapshot, "newest", failing)
    with pytest.raises(StorageError, match="away"):
        table.compact(runner=LocalRunner(1))
    assert data_files(table) == before


def test_fragments_without_a_live_row_disappear(table: lw.Table) -> None:
    uri = Path(table.uri)
    kind, data = encode_deletions(BitMap(range(30)))
    name = deletion_file_name(FragmentId(1), Version(1), 5, bool(kind))
    (uri / "_deletions").mkdir(exist_ok=True)
    (uri / "_deletions" / name).write_bytes(data)

    def change(manifest: table_pb2.Manifest) -> None:
        fragments = decode_fragments(manifest)
        deletion = fragments[1].deletion_file
        deletion.file_type, deletion.read_version, deletion.id = kind, 1, 5
        deletion.num_deleted_rows = 30
        put_fragments(manifest, fragments)

    edit_manifest(uri, change)
    broken = lw.open(uri)
    after = broken.compact(target_rows=30)
    assert [each.id for each in after.fragments] == [0, 2, 3]
    assert after.counts == CompactionCounts(1, 0, 2, 0)
    assert after.version == 2, "there was nothing to reserve"
    assert contents(after) == contents(broken)


def test_sequences_outside_the_manifest_come_back_into_it(table: lw.Table) -> None:
    uri = Path(table.uri)
    changed = table.delete("a in (1, 40)")
    before = contents(changed)
    out = bytearray()

    def change(manifest: table_pb2.Manifest) -> None:
        fragments = decode_fragments(manifest)
        for each in fragments:
            data = each.inline_row_ids
            location = each.external_row_ids
            location.path, location.offset, location.size = "ids.bin", len(out), len(data)
            out.extend(data)
        put_fragments(manifest, fragments)

    edit_manifest(uri, change)
    (uri / "ids.bin").write_bytes(bytes(out))
    after = lw.open(uri).compact()
    assert contents(after) == before
    assert isinstance(after.fragments[0].lineage("row_ids"), bytes)
    lance.dataset(uri).validate()


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"target_rows": 0}, "target_rows"),
        ({"target_rows": 2.5}, "target_rows"),
        ({"max_deleted": -0.1}, "max_deleted"),
        ({"max_deleted": 1.5}, "max_deleted"),
        ({"max_deleted": float("nan")}, "max_deleted"),
        ({"max_deleted": True}, "max_deleted"),
        ({"max_bytes_per_file": 0}, "max_bytes_per_file"),
        ({"message": 3}, "message"),
    ],
)
def test_wrong_wishes_are_told_at_once(table: lw.Table, arguments: Any, text: str) -> None:
    with pytest.raises(InvalidInputError, match=text):
        table.compact(**arguments)
    assert table.latest().version == table.version
