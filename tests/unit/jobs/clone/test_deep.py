"""Deep clones: everything is copied before there is a table, and what is missing stops it."""

from __future__ import annotations

import os
import pickle
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pytest
from tests.counted import counts_of
from tests.manifests import decode_fragments, edit_manifest, put_fragments

import lancewood as lw
from lancewood.errors import FormatError, NotFoundError

ROWS = pa.table({"a": [1, 2, 3]})
T = TypeVar("T")
R = TypeVar("R")


class PicklingRunner:
    """Runs tasks as executors would: function, task and result travel."""

    slots = 2

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
            assert len(sent) < 20_000
            there, task = pickle.loads(sent)
            yield pickle.loads(pickle.dumps(there(task)))


@pytest.fixture
def table(tmp_path: Path) -> lw.Table:
    """Three fragments, one of them with a deletion file."""
    made = lw.create(tmp_path / "t", ROWS, access=lw.Access(fsync=False)).append(ROWS).append(ROWS)
    return made.delete("_rowid = 4")


def data(uri: str | Path) -> list[Path]:
    return sorted(Path(uri, "data").iterdir())


def test_tasks_and_their_results_travel(table: lw.Table, tmp_path: Path) -> None:
    made = table.clone(tmp_path / "c", deep=True, runner=PicklingRunner())
    assert counts_of(made, lw.DeepClone).files == 4
    shallow = made.clone(tmp_path / "s")
    detached = shallow.detach(runner=PicklingRunner())
    assert counts_of(detached, lw.DetachCounts).files == 4
    shutil.rmtree(table.uri)
    assert made.to_arrow() == shallow.latest().to_arrow()
    assert made.count_rows() == 8


def test_files_of_a_deep_clone_are_no_links(table: lw.Table, tmp_path: Path) -> None:
    made = table.clone(tmp_path / "c", deep=True)
    mine = {os.stat(each).st_ino for each in data(made.uri)}
    assert mine.isdisjoint(os.stat(each).st_ino for each in data(table.uri))
    assert [each.name for each in data(made.uri)] == [each.name for each in data(table.uri)]


def test_a_missing_file_stops_it_before_there_is_a_table(table: lw.Table, tmp_path: Path) -> None:
    data(table.uri)[1].unlink()
    with pytest.raises(NotFoundError, match="not found"):
        table.clone(tmp_path / "c", deep=True)
    assert not lw.exists(tmp_path / "c")


@pytest.mark.usefixtures("pages_decoded_here")
def test_a_file_of_another_size_stops_it_and_a_second_attempt_works(
    table: lw.Table, tmp_path: Path
) -> None:
    victim = data(table.uri)[1]
    whole = victim.read_bytes()
    victim.write_bytes(whole[:-1])
    with pytest.raises(FormatError, match=f"has {len(whole) - 1} bytes, expected {len(whole)}"):
        table.clone(tmp_path / "c", deep=True)
    assert not lw.exists(tmp_path / "c")
    victim.write_bytes(whole)
    made = table.clone(tmp_path / "c", deep=True)
    assert made.to_arrow() == table.to_arrow()
    assert made.verify(deep=True).problems == ()


def test_what_others_copied_to_the_same_place_is_left_alone(
    table: lw.Table, tmp_path: Path
) -> None:
    class _TwoAtOnce(PicklingRunner):
        def run(self, *args: Any, **options: Any) -> Iterator[Any]:
            yield from super().run(*args, **options)
            table.clone(tmp_path / "c", deep=True)

    with pytest.raises(lw.AlreadyExistsError):
        table.clone(tmp_path / "c", deep=True, runner=_TwoAtOnce())
    assert lw.open(tmp_path / "c").to_arrow() == table.to_arrow()


def test_two_files_of_the_same_name_in_two_homes_are_both_copied(tmp_path: Path) -> None:
    one = lw.create(
        tmp_path / "one",
        ROWS,
        layout=lw.Layout(stable_row_ids=False),
        access=lw.Access(fsync=False),
    )
    other = [*range(7, 1000)]
    two = lw.create(tmp_path / "two", pa.table({"a": other}), access=lw.Access(fsync=False))
    name = data(one.uri)[0].name
    data(two.uri)[0].rename(Path(two.uri, "data", name))

    def both(message: Any) -> None:
        message.base_paths.add(id=4, path=two.uri, is_dataset_root=True)
        fragments = decode_fragments(message)
        for each in fragments[1:]:
            each.files[0].path = name
            each.files[0].base_id = 4
            each.files[0].file_size_bytes = os.path.getsize(Path(two.uri, "data", name))
            each.physical_rows = len(other)
        put_fragments(message, fragments)

    one.append(ROWS)
    edit_manifest(one.uri, both)
    expected = [1, 2, 3, *other]
    assert lw.open(one.uri).to_arrow()["a"].to_pylist() == expected
    made = lw.open(one.uri).clone(tmp_path / "c", deep=True)
    shutil.rmtree(one.uri)
    shutil.rmtree(two.uri)
    assert lw.open(made.uri).to_arrow()["a"].to_pylist() == expected
    assert len(data(made.uri)) == 2
