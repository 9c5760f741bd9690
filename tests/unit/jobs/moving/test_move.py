"""How a move is carried out: copies, checks, one commit, and nothing left behind when it fails."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pytest
from tests.counted import counts_of
from tests.manifests import decode_fragments, edit_manifest, put_fragments

import lancewood as lw
from lancewood.engine.location.file_roots import find_file_root
from lancewood.engine.write import file_copies
from lancewood.engine.write.file_copies import copy_fragments
from lancewood.jobs.counts import MoveCounts
from lancewood.jobs.moving import move_in
from lancewood.jobs.runner import LocalRunner
from lancewood.model.fragment import LINEAGE_FIELDS
from lancewood.proto import table_pb2
from lancewood.store.transfer import copy_object

T = TypeVar("T")
R = TypeVar("R")
ONE = LocalRunner(1)


def make(directory: Path, **options: Any) -> lw.Table:
    rows = pa.table({"k": pa.array(range(40), pa.int64()), "s": [f"s{k}" for k in range(40)]})
    return lw.create(
        directory / "t.lance",
        rows,
        layout=lw.Layout(
            max_rows_per_file=10,
            bases=[
                lw.BasePath(directory / "cold", name="cold"),
                lw.BasePath(directory / "ice", name="ice", is_dataset_root=True),
            ],
        ),
        access=lw.Access(fsync=False),
        **options,
    )


@pytest.fixture
def table(tmp_path: Path) -> lw.Table:
    return make(tmp_path)


def copies(directory: Path) -> list[Path]:
    return sorted(each for each in directory.rglob("*") if each.is_file())


def file_roots(table: lw.Table) -> list[list[int | None]]:
    return [[file.base_id for file in each.files] for each in table.fragments]


def test_counts_tell_what_was_moved(table: lw.Table, tmp_path: Path) -> None:
    done = table.move_fragments(
        [0, 3], base="cold", commit=lw.CommitOptions(properties={"why": "old"})
    )
    sizes = [each.stat().st_size for each in copies(tmp_path / "cold")]
    assert done.counts == MoveCounts(fragments=2, files=2, bytes=sum(sizes))
    (info,) = done.versions(1)
    assert (info.properties["why"], info.operation) == ("old", "Update")


def test_every_file_of_a_fragment_moves_unless_it_is_there(table: lw.Table) -> None:
    table = table.move_fragments([1], base="cold").add_columns({"d": "k * 2"})
    done = table.move_fragments([0, 1], base="cold")
    assert file_roots(done) == [[1, 1], [1, 1], [None, None], [None, None]]
    assert (counts_of(done, lw.MoveCounts).fragments, counts_of(done, lw.MoveCounts).files) == (
        2,
        3,
    )
    assert done.to_arrow() == table.to_arrow()


def test_files_go_from_one_base_to_another(table: lw.Table, tmp_path: Path) -> None:
    cold = table.move_fragments(base="cold")
    ice = cold.move_fragments(base="ice")
    assert file_roots(ice) == [[2]] * 4
    assert len(copies(tmp_path / "ice" / "data")) == 4
    assert len(copies(tmp_path / "cold")) == 4
    assert ice.to_arrow() == cold.to_arrow() == table.to_arrow()


def test_the_own_root_may_be_named_by_its_path(table: lw.Table, tmp_path: Path) -> None:
    cold = table.move_fragments(base="cold")
    back = cold.move_fragments(base=tmp_path / "t.lance")
    assert file_roots(back) == [[None]] * 4


def test_a_base_path_that_is_the_own_root_is_no_other_home(tmp_path: Path) -> None:
    """The form of the specification: the own root is base path 0, and files refer to it."""
    uri = tmp_path / "t.lance"
    lw.create(uri, pa.table({"k": [1]}), access=lw.Access(fsync=False))

    def change(manifest: table_pb2.Manifest) -> None:
        manifest.base_paths.add(id=0, path=str(uri), is_dataset_root=True)
        fragments = decode_fragments(manifest)
        fragments[0].files[0].base_id = 0
        put_fragments(manifest, fragments)

    edit_manifest(uri, change)
    table = lw.open(uri)
    assert file_roots(table) == [[0]]
    for base in (None, 0, uri):
        assert table.move_fragments(base=base).version == table.version


def test_rows_marked_as_deleted_stay_so_and_their_files_stay_in_the_own_root(
    table: lw.Table, tmp_path: Path
) -> None:
    table = table.delete("k IN (3, 13)")
    done = table.move_fragments(base="cold")
    assert done.to_arrow() == table.to_arrow()
    now = [each.deletion_file for each in done.fragments]
    assert now == [each.deletion_file for each in table.fragments]
    assert not (tmp_path / "cold" / "_deletions").exists()


def test_tasks_and_results_travel_and_are_small(table: lw.Table) -> None:
    seen: list[int] = []

    class Travelling(LocalRunner):
        def run(
            self,
            work: Callable[[T], R],
            tasks: Sequence[T],
            *,
            what: str,
            leftover: Callable[[R], object] | None = None,
        ) -> Iterator[R]:
            for each in tasks:
                sent = pickle.dumps((work, each))
                again, task = pickle.loads(sent)
                back = pickle.dumps(again(task))
                seen.extend((len(sent), len(back)))
                yield pickle.loads(back)

    done = table.move_fragments(base="cold", where="k < 30", runner=Travelling())
    assert file_roots(done) == [[1], [1], [1], [None]]
    assert len(seen) > 4
    assert max(seen) < 5_000


def test_a_task_that_runs_twice_leaves_spare_files_and_nothing_else(
    table: lw.Table, tmp_path: Path
) -> None:
    class Twice(LocalRunner):
        def run(self, work: Any, tasks: Any, **more: Any) -> Iterator[Any]:
            for each in tasks:
                work(each)
                yield work(each)

    done = table.move_fragments(base="cold", runner=Twice())
    assert done.to_arrow() == table.to_arrow()
    assert len(copies(tmp_path / "cold")) == 8
    assert len({file.path for each in done.fragments for file in each.files}) == 4


class Stop(Exception):
    """What a test breaks off with."""


@pytest.mark.parametrize("failure", [Stop, KeyboardInterrupt])
@pytest.mark.parametrize("workers", [1, 3])
def test_whoever_stops_a_move_leaves_no_copies(
    table: lw.Table,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    failure: type[BaseException],
    workers: int,
) -> None:
    done: list[object] = []

    def failing(*arguments: Any, **more: Any) -> int:
        if len(done) == 3:
            raise failure
        done.append(None)
        return copy_object(*arguments, **more)

    monkeypatch.setattr(file_copies, "copy_object", failing)
    with pytest.raises(failure):
        table.move_fragments(base="cold", runner=LocalRunner(workers))
    assert len(done) == 3
    assert copies(tmp_path / "cold") == []
    assert table.latest().version == table.version


def test_a_copy_that_is_no_data_file_is_not_switched_to(
    table: lw.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def torn(source: Any, key: Any, target: Any, target_key: str, **more: Any) -> int:
        size = copy_object(source, key, target, target_key, **more)
        target.put(target_key, target.get(target_key)[: size - 8] + b"\0" * 8)
        return size

    monkeypatch.setattr(file_copies, "copy_object", torn)
    with pytest.raises(lw.FormatError):
        table.move_fragments(base="cold")
    assert copies(tmp_path / "cold") == []
    assert table.latest().version == table.version


def test_a_file_that_has_other_rows_than_its_fragment_is_not_moved(
    table: lw.Table, tmp_path: Path
) -> None:
    data = tmp_path / "t.lance" / "data"
    short = lw.create(
        tmp_path / "o.lance", table.head(5).to_batches(), access=lw.Access(fsync=False)
    )
    other = tmp_path / "o.lance" / "data" / short.fragments[0].files[0].path
    file = table.fragments[2].files[0]
    (data / file.path).write_bytes(other.read_bytes())
    with pytest.raises(lw.FormatError):
        table.move_fragments(base="cold")
    assert copies(tmp_path / "cold") == []


def test_a_missing_file_is_told_and_nothing_is_moved(table: lw.Table, tmp_path: Path) -> None:
    file = table.fragments[2].files[0]
    (tmp_path / "t.lance" / "data" / file.path).unlink()
    with pytest.raises(lw.NotFoundError, match=file.path):
        table.move_fragments(base="cold")
    assert copies(tmp_path / "cold") == []
    assert table.latest().version == table.version


def test_a_home_that_is_not_allowed_gets_no_copies(table: lw.Table, tmp_path: Path) -> None:
    strict = lw.open(table.uri, access=lw.Access(allowed_bases=[str(tmp_path / "ice")]))
    with pytest.raises(lw.InvalidInputError, match="not among the allowed bases"):
        strict.move_fragments(base="cold")
    assert counts_of(strict.move_fragments([0], base="ice"), lw.MoveCounts).fragments == 1


def test_a_trial_run_writes_nothing(table: lw.Table, tmp_path: Path) -> None:
    plan = table.move_fragments([0, 1], base="cold", dry_run=True)
    assert counts_of(plan, lw.MoveCounts).fragments == 2
    assert plan.version == table.latest().version == table.version
    assert not (tmp_path / "cold").exists()


def test_changes_show_nothing_of_a_move_and_all_of_the_rest(table: lw.Table) -> None:
    first = table.version
    table = table.delete("k = 1").move_fragments([0, 1], base="cold")
    table = table.update({"s": "'u'"}, "k = 12").add_columns({"d": "k * 2"})
    table = table.move_fragments(base="ice").append(
        pa.table({"k": pa.array([100], pa.int64()), "s": ["x"], "d": pa.array([200], pa.int64())})
    )
    changes = table.changes(first)
    assert changes.deleted.to_arrow()["k"].to_pylist() == [1]
    assert changes.updated.to_arrow()["k"].to_pylist() == [12]
    assert changes.inserted.to_arrow()["k"].to_pylist() == [100]


def test_a_move_on_a_branch_leaves_main_as_it_is(table: lw.Table) -> None:
    branch = table.branches.create("try")
    there = [file.path for each in branch.fragments for file in each.files]
    moved = branch.move_fragments([0, 1], base="cold")
    assert counts_of(moved, lw.MoveCounts).fragments == 2
    assert moved.to_arrow() == table.to_arrow()
    assert file_roots(table.latest()) == [[None]] * 4
    main = [file.path for each in table.latest().fragments for file in each.files]
    assert main == there
    back = moved.move_fragments(base=None)
    assert counts_of(back, lw.MoveCounts).fragments == 2
    assert back.to_arrow() == table.to_arrow()
    assert len({each[0] for each in file_roots(back)}) == 1


def test_a_branch_already_has_its_files_at_home(table: lw.Table) -> None:
    branch = table.branches.create("try")
    assert branch.move_fragments(base=None).counts == MoveCounts()


def test_copies_have_new_names_each_time(table: lw.Table) -> None:
    snapshot = table._snapshot
    file_root = find_file_root(snapshot.location, snapshot.manifest, "cold")
    fragments = list(snapshot.manifest.fragments)
    one, two = (copy_fragments(snapshot.bare(), fragments, file_root) for _ in range(2))
    names = {copy.name for each in (*one, *two) for copy in each.copies}
    assert len(names) == 8
    task = move_in(snapshot.bare(), file_root, fragments[:1])
    assert [each.base_id for each in task.files] == [1]


def test_lineage_in_the_manifest_is_untouched(table: lw.Table) -> None:
    table = table.update({"s": "'u'"}, "k = 12", rewrite="columns")
    done = table.move_fragments(base="ice")
    for before, after in zip(table.fragments, done.fragments, strict=True):
        for what in LINEAGE_FIELDS:
            assert before.lineage(what) == after.lineage(what)
