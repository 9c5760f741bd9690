"""Files that move while pylance writes: no row is lost, and no old file comes back.

pylance made the tables and is the judge. Its writer has read the version before ours, or has landed
between our plan and our commit.
"""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from lance import DatasetBasePath, LanceOperation
from lance.file import LanceFileWriter
from lance.fragment import DataFile
from tests.counted import counts_of
from tests.pylance import LINEAGE, judged

import lancewood as lw
from lancewood.jobs.counts import MoveCounts
from lancewood.jobs.runner import LocalRunner

pytestmark = pytest.mark.sliced(4)

ROWS, PER_FILE = 40, 10
FileRoots = dict[int, list[int | None]]


def some_rows(first: int, stop: int) -> pa.Table:
    return pa.table(
        {
            "k": pa.array(range(first, stop), pa.int64()),
            "s": pa.array([f"s{k}" if k % 7 else None for k in range(first, stop)], pa.string()),
        }
    )


def make(directory: Path, *, stable: bool = True, is_root: bool = False) -> str:
    """Four fragments in the hot root, an index, and a cold base."""
    uri, cold = str(directory / "hot.lance"), directory / "cold"
    cold.mkdir()
    dataset = lance.write_dataset(
        some_rows(0, ROWS),
        uri,
        max_rows_per_file=PER_FILE,
        enable_stable_row_ids=stable,
        initial_bases=[DatasetBasePath(str(cold), name="cold", is_dataset_root=is_root)],
    )
    dataset.create_scalar_index("k", "BTREE")
    return uri


@pytest.fixture(params=[True, False], ids=["stable ids", "addresses"])
def uri(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return make(tmp_path, stable=request.param)


def file_roots(uri: str) -> FileRoots:
    """The base ids of the files of every fragment, as pylance sees them."""
    return {
        each.fragment_id: [file.base_id for file in each.metadata.files]
        for each in judged(uri).get_fragments()
    }


def seen(uri: str, version: int | None = None) -> list[dict[str, Any]]:
    """All rows and what is known of them."""
    dataset = lance.dataset(uri, version=version)
    names = [*dataset.schema.names, "_rowaddr", *LINEAGE]
    rows: list[dict[str, Any]] = dataset.to_table(columns=names).to_pylist()
    return rows


def keys(uri: str) -> list[int]:
    found: list[int] = judged(uri).to_table(columns=["k"]).column("k").to_pylist()
    assert lw.open(uri).scan(["k"]).to_arrow().column("k").to_pylist() == found
    return sorted(found)


def covered(uri: str) -> dict[str, list[int]]:
    return {
        each.name: sorted(n for segment in each.segments for n in segment.fragment_ids)
        for each in judged(uri).describe_indices()
    }


def check_index(uri: str) -> None:
    """The index answers, and answers right."""
    dataset = judged(uri)
    for k in (3, 12, 33, 100):
        through = dataset.to_table(filter=f"k = {k}")
        scanned = dataset.to_table(filter=f"k = {k}", use_scalar_index=False)
        assert through == scanned
    assert "ScalarIndexQuery" in dataset.scanner(filter="k = 3").explain_plan()


@pytest.mark.usefixtures("pages_decoded_here")
@pytest.mark.parametrize("is_root", [True, False], ids=["root", "directory"])
@pytest.mark.parametrize("stable", [True, False], ids=["stable ids", "addresses"])
def test_a_move_is_not_to_be_seen_in_rows_lineage_or_indices(
    tmp_path: Path, stable: bool, is_root: bool
) -> None:
    uri = make(tmp_path, stable=stable, is_root=is_root)
    lance.dataset(uri).delete("k IN (4, 25)")
    before, was = lw.open(uri), seen(uri)
    after = before.move_fragments([0, 2], base="cold", message="to the cellar")
    assert (counts_of(after, lw.MoveCounts).fragments, counts_of(after, lw.MoveCounts).files) == (
        2,
        2,
    )
    assert file_roots(uri) == {0: [1], 1: [None], 2: [1], 3: [None]}
    assert seen(uri) == was
    assert covered(uri) == {"k_idx": [0, 1, 2, 3]}
    check_index(uri)
    assert after.verify(deep=True).ok
    cold = tmp_path / "cold" / "data" if is_root else tmp_path / "cold"
    copies = [each for each in cold.iterdir() if each.is_file()]
    assert {each.name for each in copies} == {after.fragments[at].files[0].path for at in (0, 2)}
    assert counts_of(after, lw.MoveCounts).bytes == sum(each.stat().st_size for each in copies)
    transaction = judged(uri).read_transaction(after.version)
    assert isinstance(transaction.operation, LanceOperation.Update)
    assert transaction.operation.fields_modified == []
    assert [each.message for each in after.versions(1)] == ["to the cellar"]
    assert seen(uri, before.version) == was
    if stable:
        changes = after.changes(before.version).counts
        assert (changes.inserted, changes.updated, changes.deleted) == (0, 0, 0)


def test_a_move_there_and_back_gives_the_files_new_names_each_time(uri: str) -> None:
    first = lw.open(uri)
    there = first.move_fragments([1], base="cold")
    back = there.move_fragments(base=None)
    assert counts_of(back, lw.MoveCounts).fragments == 1
    names = [each.fragments[1].files[0].path for each in (first, there, back)]
    assert len(set(names)) == 3
    assert file_roots(uri) == {0: [None], 1: [None], 2: [None], 3: [None]}
    assert seen(uri) == seen(uri, first.version)


def test_what_is_there_already_is_not_moved_again(uri: str, tmp_path: Path) -> None:
    done = lw.open(uri).move_fragments([0], base="cold")
    again = done.move_fragments([0], base=str(tmp_path / "cold"))
    assert again.version == done.version
    assert again.counts == MoveCounts()
    assert counts_of(done.move_fragments(base="cold"), lw.MoveCounts).fragments == 3
    assert len(list((tmp_path / "cold").iterdir())) == 4


MORE = some_rows(100, 101)


def upsert(dataset: Any) -> None:
    rows = pa.table({"k": pa.array([3, 200], pa.int64()), "s": ["m", "n"]})
    job = dataset.merge_insert("k").when_matched_update_all().when_not_matched_insert_all()
    job.execute(rows)


WRITES: dict[str, tuple[Callable[[Any], object], set[int], set[int]]] = {
    "append": (lambda d: lance.write_dataset(MORE, d, mode="append"), set(), {100}),
    "delete": (lambda d: d.delete("k = 3"), {3}, set()),
    "delete elsewhere": (lambda d: d.delete("k = 33"), {33}, set()),
    "delete a fragment": (lambda d: d.delete("k < 10"), set(range(10)), set()),
    "update": (lambda d: d.update({"s": "'u'"}, where="k = 3"), set(), set()),
    "merge": (upsert, set(), {200}),
    "drop": (lambda d: d.drop_columns(["s"]), set(), set()),
    "index": (lambda d: d.create_scalar_index("s", "BTREE"), set(), set()),
    "config": (lambda d: d.update_config({"a": "b"}), set(), set()),
}
"""What pylance does, and the keys that go and come."""
PREEMPTED: dict[str, Callable[[Any], object]] = {
    "compact": lambda d: d.optimize.compact_files(target_rows_per_fragment=100),
    "add": lambda d: d.add_columns({"d": "k * 2"}),
}


@pytest.mark.parametrize("name", WRITES)
def test_a_writer_that_read_before_the_move_loses_nothing_and_brings_no_file_back(
    uri: str, name: str
) -> None:
    act, gone, come = WRITES[name]
    reader = lance.dataset(uri)
    moved = lw.open(uri).move_fragments([0, 1], base="cold")
    act(reader)
    assert keys(uri) == sorted({*range(ROWS), *come} - gone)
    now = file_roots(uri)
    assert now.get(0, [1]) == [1]
    assert now[1] == [1]
    assert now[2] == [None]
    check_index(uri)
    assert lw.open(uri).version > moved.version


@pytest.mark.parametrize("name", PREEMPTED)
def test_a_writer_that_lists_files_as_they_were_is_preempted(uri: str, name: str) -> None:
    reader = lance.dataset(uri)
    lw.open(uri).move_fragments([0, 1], base="cold")
    with pytest.raises(OSError, match="preempted by concurrent transaction Update"):
        PREEMPTED[name](reader)
    assert file_roots(uri) == {0: [1], 1: [1], 2: [None], 3: [None]}
    PREEMPTED[name](lance.dataset(uri))
    assert keys(uri) == list(range(ROWS))


class Meanwhile:
    """Runs tasks; when all are done and nothing is committed yet, somebody else writes."""

    def __init__(self, act: Callable[[], object]) -> None:
        self._act: Callable[[], object] | None = act
        self._inner = LocalRunner(1)
        self.slots = 1
        self.rounds = 0

    def run(self, work: Any, tasks: Any, **more: Any) -> Iterator[Any]:
        self.rounds += 1
        yield from self._inner.run(work, tasks, **more)
        if self._act is not None:
            act, self._act = self._act, None
            act()


@pytest.mark.parametrize("name", [*WRITES, *PREEMPTED])
def test_a_write_between_our_copies_and_our_commit_stays_and_nothing_is_copied_twice(
    uri: str, name: str
) -> None:
    act, gone, come = WRITES.get(name) or (PREEMPTED[name], set(), set())
    runner = Meanwhile(lambda: act(lance.dataset(uri)))
    table = lw.open(uri)
    if name == "compact":
        table = table.delete("k = 39")
        gone = {39}
    moved = table.move_fragments([0, 1], base="cold", runner=runner)
    assert keys(uri) == sorted({*range(ROWS), *come} - gone)
    now = file_roots(uri)
    if name == "compact":
        assert moved.counts == MoveCounts()
        assert all(each == [None] for each in now.values())
    else:
        assert now.get(0, [1])[0] == 1
        assert now[1][0] == 1
        assert counts_of(moved, lw.MoveCounts).fragments == 1 + (0 in now)
        assert lance.dataset(uri).version == moved.version
    assert runner.rounds == 1
    cold = {each.name for each in Path(uri).parent.joinpath("cold").iterdir()}
    named = {file.path for each in moved.fragments for file in each.files if file.base_id == 1}
    assert cold == named
    if name != "compact":
        check_index(uri)
    if name == "update":
        found = lance.dataset(uri).to_table(filter="k = 3").column("s").to_pylist()
        assert found == ["u"]
    if name == "add":
        assert moved.scan(["d"]).to_arrow().column("d").to_pylist() == [2 * k for k in range(ROWS)]


def raw_delete(dataset: Any) -> Any:
    image = dataset.get_fragment(0).delete("k = 3")
    return LanceOperation.Delete([image], [], "k = 3")


def raw_update(dataset: Any) -> Any:
    values = pa.table({"k": pa.array([3], pa.int64()), "s": ["z"]})
    image, fields = dataset.get_fragment(0).update_columns(values, left_on="k")
    return LanceOperation.Update(
        updated_fragments=[image],
        removed_fragment_ids=[],
        new_fragments=[],
        fields_modified=fields,
        update_mode="rewrite_columns",
    )


def raw_replacement(dataset: Any) -> Any:
    path = os.path.join(dataset.uri, "data", "replaced.lance")
    schema = pa.schema([("k", pa.int64()), ("s", pa.string())])
    with LanceFileWriter(path, schema, version="2.2") as writer:
        writer.write_batch(pa.table({"k": range(PER_FILE), "s": ["z"] * PER_FILE}, schema=schema))
    old = dataset.get_fragment(0).metadata.files[0]
    size = os.path.getsize(path)
    file = DataFile("replaced.lance", old.fields, old.column_indices, 2, 2, size)
    return LanceOperation.DataReplacement([LanceOperation.DataReplacementGroup(0, file)])


@pytest.mark.parametrize("build", [raw_delete, raw_update])
def test_a_transaction_with_the_files_as_they_were_is_refused_by_pylance(
    uri: str, build: Callable[[Any], Any]
) -> None:
    reader = lance.dataset(uri)
    operation = build(reader)
    lw.open(uri).move_fragments([0], base="cold")
    with pytest.raises(lance.commit.CommitConflictError, match="preempted") as caught:
        lance.LanceDataset.commit(uri, operation, read_version=reader.version)
    assert caught.value.retryable
    assert file_roots(uri)[0] == [1]
    assert keys(uri) == list(range(ROWS))


def test_a_file_that_pylance_replaces_after_the_move_is_in_its_own_home(uri: str) -> None:
    reader = lance.dataset(uri)
    operation = raw_replacement(reader)
    lw.open(uri).move_fragments([0], base="cold")
    lance.LanceDataset.commit(uri, operation, read_version=reader.version)
    assert file_roots(uri)[0] == [None]
    assert keys(uri) == list(range(ROWS))
    assert lw.open(uri).scan(["s"], limit=2).to_arrow().column("s").to_pylist() == ["z", "z"]
    check_index(uri)


@pytest.mark.parametrize("build", [raw_delete, raw_update, raw_replacement])
def test_a_transaction_of_pylance_that_lands_before_the_move_is_kept(
    uri: str, build: Callable[[Any], Any]
) -> None:
    def commit() -> None:
        reader = lance.dataset(uri)
        lance.LanceDataset.commit(uri, build(reader), read_version=reader.version)

    moved = lw.open(uri).move_fragments([0, 1], base="cold", runner=Meanwhile(commit))
    rows = {row["k"]: row["s"] for row in seen(uri)}
    if build is raw_delete:
        assert 3 not in rows
    else:
        assert rows[3] == "z"
    wanted: FileRoots = {1: [1], 2: [None], 3: [None]}
    first: dict[Callable[[Any], Any], list[int | None]] = {
        raw_delete: [1],
        raw_update: [1, None],
        raw_replacement: [None],
    }
    assert file_roots(uri) == {0: first[build], **wanted}
    assert counts_of(moved, lw.MoveCounts).fragments == 2 - (build is raw_replacement)
    check_index(uri)


def test_a_restore_between_our_copies_and_our_commit_is_respected(uri: str) -> None:
    table = lw.open(uri).append(MORE)
    runner = Meanwhile(lambda: lance.dataset(uri, version=2).restore())
    table.move_fragments([0, 4], base="cold", runner=runner)
    assert file_roots(uri) == {0: [1], 1: [None], 2: [None], 3: [None]}
    assert keys(uri) == list(range(ROWS))


def test_an_overwrite_between_our_copies_and_our_commit_leaves_nothing_to_move(
    uri: str, tmp_path: Path
) -> None:
    runner = Meanwhile(lambda: lance.write_dataset(MORE, uri, mode="overwrite"))
    table = lw.open(uri)
    moved = table.move_fragments([0, 1], base="cold", runner=runner)
    assert moved.counts == MoveCounts()
    assert keys(uri) == [100]
    assert list((tmp_path / "cold").iterdir()) == []


def test_a_serializable_move_tolerates_nothing_in_between(uri: str, tmp_path: Path) -> None:
    runner = Meanwhile(lambda: lance.write_dataset(MORE, uri, mode="append"))
    with pytest.raises(lw.RetryableConflictError, match="serializable"):
        lw.open(uri).move_fragments(
            base="cold", runner=runner, commit=lw.CommitOptions(serializable=True)
        )
    assert list((tmp_path / "cold").iterdir()) == []
    assert keys(uri) == [*range(ROWS), 100]


def test_threads_of_pylance_write_while_fragments_go_to_and_fro(uri: str) -> None:
    """Appends and deletes all land, and the last look is right."""
    failures: list[BaseException] = []

    def append(start: int) -> None:
        for at in range(5):
            lance.write_dataset(some_rows(start + at, start + at + 1), uri, mode="append")

    def delete() -> None:
        for k in (1, 11, 21, 31, 2):
            lance.dataset(uri).delete(f"k = {k}")

    def guarded(act: Callable[..., None], *arguments: int) -> None:
        try:
            act(*arguments)
        except BaseException as failure:
            failures.append(failure)

    threads = [
        threading.Thread(target=guarded, args=(append, 1000)),
        threading.Thread(target=guarded, args=(append, 2000)),
        threading.Thread(target=guarded, args=(delete,)),
    ]
    for each in threads:
        each.start()
    for base in ("cold", None, "cold", None, "cold"):
        lw.open(uri).move_fragments([0, 1, 2], base=base, runner=LocalRunner(1))
    for each in threads:
        each.join()
    assert failures == []
    gone = {1, 11, 21, 31, 2}
    wanted = {*range(ROWS), *range(1000, 1005), *range(2000, 2005)} - gone
    assert keys(uri) == sorted(wanted)
    assert [file_roots(uri)[each] for each in range(4)] == [[1], [1], [1], [None]]
    assert lw.open(uri).verify().ok
    check_index(uri)


BLOBS = [b"hello", None, b"y" * 100_000, b"z" * 5_000_000, b"", b"end"]


@pytest.mark.usefixtures("pages_decoded_here")
@pytest.mark.parametrize("is_root", [True, False], ids=["root", "directory"])
@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_the_bytes_of_blobs_go_along(tmp_path: Path, version: str, is_root: bool) -> None:
    """Inside the data file in the old layout; in the new one large ones are files beside it.

    Those of the old layout pylance looks for in the own root alone, whoever put them elsewhere.
    """
    uri, cold = str(tmp_path / "hot.lance"), tmp_path / "cold"
    lance_any: Any = lance
    if version == "2.1":
        field = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
        values: Any = pa.array(BLOBS, pa.large_binary())
    else:
        field, values = lance_any.blob_field("b"), lance_any.blob_array(BLOBS)
    rows = pa.table(
        [range(len(BLOBS)), values], schema=pa.schema([pa.field("n", pa.int64()), field])
    )
    lance_any.write_dataset(
        rows,
        uri,
        data_storage_version=version,
        max_rows_per_file=3,
        initial_bases=[DatasetBasePath(str(cold), name="cold", is_dataset_root=is_root)],
    )
    table = lw.open(uri)
    beside = list(Path(uri, "data").rglob("*.blob"))
    assert bool(beside) == (version == "2.2")
    sizes = sum(each.stat().st_size for each in Path(uri, "data").rglob("*") if each.is_file())
    moved = table.move_fragments(base="cold")
    assert moved.counts == MoveCounts(2, 2, sizes)
    shutil.rmtree(Path(uri, "data"))
    every = list(range(len(BLOBS)))
    found = [each and each.read() for each in moved.take_blobs("b", every)]
    assert found == BLOBS
    if version == "2.1":
        with pytest.raises(ValueError, match="Not found"):
            judged(uri).take_blobs("b", indices=every)[0].read()
    else:
        theirs = [each and each.read() for each in judged(uri).take_blobs("b", indices=every)]
        assert theirs == BLOBS
    back = moved.move_fragments(base=None)
    shutil.rmtree(cold)
    assert [each and each.read() for each in back.take_blobs("b", every)] == BLOBS
    assert back.verify(deep=True).ok
