"""Deleting rows: which fragments are looked at, what is written, and what is left behind."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pytest
from tests.manifests import decode_fragments, edit_manifest, put_fragments

import lancewood as lw
from lancewood.engine.write.column_file import mark_deleted
from lancewood.errors import FormatError, InvalidInputError, StorageError
from lancewood.jobs.counts import RowCounts
from lancewood.jobs.job import execute
from lancewood.jobs.rows import delete as module
from lancewood.jobs.rows.delete import DeletedRows, DeleteRows, delete_in
from lancewood.jobs.rows.matching import Matching
from lancewood.jobs.runner import LocalRunner
from lancewood.model.fragment import Fragment
from lancewood.model.transaction import Delete
from lancewood.proto import table_pb2
from lancewood.store.base import Store

T = TypeVar("T")
R = TypeVar("R")
ROWS = pa.table(
    {
        "a": pa.array(range(100), pa.int64()),
        "maybe": [None if each % 2 else each for each in range(100)],
    }
)


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return str(tmp_path / "t")


@pytest.fixture
def table(uri: str) -> lw.Table:
    """Fragments of 30, 30, 30 and 10 rows."""
    return lw.create(
        uri, ROWS, layout=lw.Layout(max_rows_per_file=30), access=lw.Access(fsync=False)
    )


class Sent:
    """A runner that sends tasks and results as another process would get them."""

    slots = 2

    def __init__(self) -> None:
        self.tasks: list[Any] = []

    def run(
        self,
        work: Callable[[T], R],
        tasks: Sequence[T],
        *,
        what: str,
        leftover: Callable[[R], object] | None = None,
    ) -> Iterator[R]:
        for task in tasks:
            self.tasks.append(task)
            there = pickle.loads(pickle.dumps(work))
            yield pickle.loads(pickle.dumps(there(pickle.loads(pickle.dumps(task)))))


def numbers(table: lw.Table) -> list[int]:
    found: list[int] = table.to_arrow().column("a").to_pylist()
    return found


def store_of(table: lw.Table) -> Store:
    return table._snapshot.location.store


def files(table: lw.Table) -> set[str]:
    return {each.key for each in store_of(table).list()}


def test_rows_that_meet_the_condition_are_gone_and_counted(table: lw.Table) -> None:
    after = table.delete(
        "a % 10 = 3", message="threes", commit=lw.CommitOptions(properties={"who": "me"})
    )
    assert numbers(after) == [each for each in range(100) if each % 10 != 3]
    assert after.counts == RowCounts(deleted=10)
    assert after.version == 2
    assert numbers(table) == list(range(100)), "the older handle stays where it was"
    assert table.counts is None
    assert [each.num_deleted_rows for each in after.fragments] == [3, 3, 3, 1]


def test_a_row_whose_condition_is_null_stays(table: lw.Table) -> None:
    after = table.delete("maybe >= 0")
    assert numbers(after) == list(range(1, 100, 2))


def test_deletions_add_up(table: lw.Table) -> None:
    after = table.delete("a = 1").delete("a = 2").delete("a in (1, 2, 31)")
    assert after.counts == RowCounts(deleted=1)
    assert [each.num_deleted_rows for each in after.fragments] == [2, 1, 0, 0]


def test_nothing_to_delete_is_no_new_version(table: lw.Table) -> None:
    before = files(table)
    after = table.delete("a > 1000")
    assert after.version == 1
    assert after.counts == RowCounts()
    assert files(table) == before


def test_a_fragment_without_rows_goes_whole(table: lw.Table) -> None:
    after = table.delete("a >= 30 and a < 61")
    assert [each.id for each in after.fragments] == [0, 2, 3]
    assert after.fragments[1].num_deleted_rows == 1
    assert after.delete("a < 90").count_rows() == 10


@pytest.mark.parametrize("where", ["true", "1 = 1", "not false or a = 1 and false"])
def test_a_condition_that_is_always_true_removes_everything(table: lw.Table, where: str) -> None:
    table = table.delete("a = 5")
    after = table.delete(where)
    assert after.count_rows() == 0
    assert after.counts == RowCounts(deleted=99)
    assert list(after.fragments) == []
    assert after.append(ROWS).fragments[0].id == 4


def test_everything_goes_without_a_data_file_being_opened(table: lw.Table) -> None:
    for each in files(table):
        if each.startswith("data/"):
            store_of(table).delete([each])
    assert table.delete("true").counts == RowCounts(deleted=100)


@pytest.mark.parametrize("where", ["false", "null", "1 = 2"])
def test_a_condition_that_is_never_true_deletes_nothing(table: lw.Table, where: str) -> None:
    assert table.delete(where).version == 1


def test_an_empty_table_has_nothing_to_delete(uri: str) -> None:
    table = lw.create(uri, ROWS.schema, access=lw.Access(fsync=False))
    assert table.delete("true").version == 1
    assert table.delete("a = 1").version == 1


def test_parameters_fill_in_the_condition(table: lw.Table) -> None:
    after = table.delete("a < $low or a >= $high", parameters={"low": 10, "high": 95})
    assert numbers(after) == list(range(10, 95))
    assert numbers(table.latest().delete("a <> ?", parameters=[50])) == [50]


def test_system_columns_may_stand_in_the_condition(table: lw.Table) -> None:
    grown = table.append(pa.table({"a": [1000], "maybe": [1]}))
    assert numbers(grown.delete("_row_created_at_version = 2")) == list(range(100))
    by_id = grown.latest().delete("_rowid in (3, 4)")
    assert numbers(by_id) == [each for each in range(100) if each not in (3, 4)]
    by_address = by_id.delete(f"_rowaddr = {(1 << 32) + 5}")
    assert 35 not in numbers(by_address)
    assert by_address.counts == RowCounts(deleted=1)


def test_fragments_that_cannot_match_are_not_looked_at(table: lw.Table) -> None:
    grown = table.append(pa.table({"a": [1000], "maybe": [1]}))
    runner = Sent()
    grown.delete("_row_created_at_version = 2 and a = 1000", runner=runner)
    assert [[each.id for each in task] for task in runner.tasks] == [[4]]


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("", "empty"),
        ("   ", "empty"),
        ("b = 1", "no column 'b'"),
        ("a", "not a condition"),
        ("a +", "cannot read"),
        ("a = 'x'", "'x'"),
        ("a = $low", "parameter"),
        ("CAST('x' AS INT) = 1", "cannot be computed"),
    ],
)
def test_a_wrong_condition_is_told_before_anything_is_written(
    table: lw.Table, where: str, message: str
) -> None:
    before = files(table)
    with pytest.raises(InvalidInputError, match=message):
        table.delete(where)
    assert files(table) == before


@pytest.mark.parametrize("where", [None, 5, b"a = 1"])
def test_a_condition_is_a_text(table: lw.Table, where: Any) -> None:
    with pytest.raises(InvalidInputError, match="takes a condition in SQL"):
        table.delete(where)


def test_tasks_and_results_travel(table: lw.Table) -> None:
    runner = Sent()
    after = table.delete("a % 2 = 0 or a >= 90", runner=runner)
    assert numbers(after) == list(range(1, 90, 2))
    assert after.counts == RowCounts(deleted=55)
    work = (Matching(table._snapshot.bare(), "a > 1"), runner.tasks[0])
    assert len(pickle.dumps(work)) < 10_000


def test_a_task_that_runs_twice_leaves_a_spare_file_and_no_more(table: lw.Table) -> None:
    matching = Matching(table._snapshot, "a = 1").bare()
    task = (table.fragments[0],)
    one, other = delete_in(matching, task), delete_in(matching, task)
    assert one.files != other.files
    assert one.rows == other.rows == 1
    assert table.latest().version == 1


def test_an_error_in_a_task_leaves_no_deletion_file(
    table: lw.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = files(table)
    honest = mark_deleted

    def failing(snapshot: Any, fragment: Fragment, *offsets: Any) -> Fragment | None:
        if fragment.id == 2:
            raise StorageError("the disk is full")
        return honest(snapshot, fragment, *offsets)

    monkeypatch.setattr(module, "mark_deleted", failing)
    for runner in (LocalRunner(1), Sent()):
        with pytest.raises(StorageError, match="disk is full"):
            table.delete("a % 10 = 3", runner=runner)
        assert files(table) == before
    with pytest.raises(StorageError, match="disk is full"):
        delete_in(Matching(table._snapshot, "a % 10 = 3"), tuple(table.fragments))
    assert files(table) == before


def test_ctrl_c_leaves_nothing_behind(table: lw.Table) -> None:
    before = files(table)

    def interrupt(what: str, done: int, total: int) -> None:
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        table.delete("a % 10 = 3", runner=LocalRunner(1, interrupt))
    assert files(table) == before
    assert table.latest().version == 1


def test_deletion_files_of_a_lost_race_are_removed_and_the_rows_looked_for_again(
    table: lw.Table,
) -> None:
    """The other one deletes one of our rows while we are at it."""
    seen: list[int] = []
    job = DeleteRows("a < 3", None, LocalRunner(1))

    def prepare(snapshot: Any) -> Any:
        change = job.prepare(snapshot)
        if not seen:
            table.latest().delete("a = 1")
        seen.append(snapshot.manifest.version)
        return change

    after, counts = execute(table._snapshot, prepare)
    assert seen == [1, 2]
    assert counts == RowCounts(deleted=2)
    assert after.manifest.version == 3
    listed = [each for each in files(table) if each.startswith("_deletions/")]
    assert len(listed) == 2


def test_a_serializable_delete_does_not_follow_another_commit(table: lw.Table) -> None:
    table.append(ROWS)
    with pytest.raises(lw.ConflictError):
        table.delete("a = 1", commit=lw.CommitOptions(serializable=True))
    with pytest.raises(InvalidInputError):
        table.delete("a = 1", message=5)  # type: ignore[arg-type]


def test_the_transaction_tells_the_condition(table: lw.Table) -> None:
    job = DeleteRows("a < $n", {"n": 3}, LocalRunner(1))
    operation = job.prepare(table._snapshot).operation
    assert isinstance(operation, Delete)
    assert operation.predicate == "a < $n"


def test_a_fragment_of_unknown_length_is_refused_by_name(table: lw.Table, uri: str) -> None:
    def forget(manifest: table_pb2.Manifest) -> None:
        fragments = decode_fragments(manifest)
        fragments[0].physical_rows = 0
        put_fragments(manifest, fragments)

    edit_manifest(uri, forget)
    with pytest.raises(FormatError, match="fragment 0 does not record how many rows"):
        lw.open(uri).delete("a = 1")


def test_results_of_tasks_tell_their_files(table: lw.Table) -> None:
    done = delete_in(Matching(table._snapshot, "a >= 0 and a < 31"), tuple(table.fragments))
    assert isinstance(done, DeletedRows)
    assert done.removed == (0,)
    assert [each.id for each in done.updated] == [1]
    (file,) = done.files
    assert store_of(table).head(file.key).size > 0
