"""A failure, a lost answer or a death at every store call of a move, in either home.

Afterwards files are where they were or where they should be, never between, and both
implementations read the same rows. What was reported as failed left no copies behind.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from lance import DatasetBasePath
from tests.faults.hurting import MODES, ONE, Deaf, copied, every_call, through
from tests.pylance import LINEAGE, judged

import lancewood as lw
from lancewood.store.disk import DiskStore
from lancewood.store.locate import open_store
from lancewood.testing.faults import FaultyStore, Mode

pytestmark = pytest.mark.usefixtures("no_waiting")
ROWS = pa.table({"k": pa.array(range(12), pa.int64()), "s": [f"s{k}" for k in range(12)]})
FileRoots = list[list[int | None]]

MOVES: dict[str, Callable[[lw.Table], lw.Table]] = {
    "away": lambda t: t.move_fragments([1, 2], base="cold", runner=ONE),
    "back": lambda t: t.move_fragments(base=None, runner=ONE),
}


class Tables:
    """Every test has the directory to itself: base paths are absolute."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.uri = str(directory / "hot.lance")
        self.cold = directory / "cold"

    def rows(self) -> list[dict[str, Any]]:
        """As both implementations find them."""
        table, dataset = lw.open(self.uri), judged(self.uri)
        names = ["k", "s", *LINEAGE]
        found: list[dict[str, Any]] = dataset.to_table(columns=names).to_pylist()
        assert table.scan(names).to_arrow().to_pylist() == found
        return found

    def file_roots(self) -> FileRoots:
        return [[file.base_id for file in each.files] for each in lw.open(self.uri).fragments]

    def files(self) -> set[str]:
        """Data files of both homes."""
        file_roots = (Path(self.uri, "data"), self.cold)
        return {
            str(each) for file_root in file_roots for each in file_root.rglob("*") if each.is_file()
        }

    def through(self, store: FaultyStore, version: int | None = None) -> lw.Table:
        """A handle on the table whose calls go through a store around the directory."""
        return through(self.uri, store.at("hot.lance"), version)


@pytest.fixture
def tables(tmp_path: Path) -> Tables:
    """Fragment 0 is in the cold, 1 and 2 are not; rows of 0 and 1 are deleted."""
    tables = Tables(tmp_path / "home")
    tables.cold.mkdir(parents=True)
    lance.write_dataset(
        ROWS,
        tables.uri,
        max_rows_per_file=4,
        enable_stable_row_ids=True,
        initial_bases=[DatasetBasePath(str(tables.cold), name="cold", is_dataset_root=False)],
    )
    table = lw.open(tables.uri).delete("k IN (2, 6)")
    table.move_fragments([0], base="cold")
    return tables


@contextmanager
def around_both(tables: Tables, store: FaultyStore) -> Iterator[None]:
    """The base path is reached through the store, too, so that calls are counted together."""

    def opened(uri: Any, **options: Any) -> Any:
        is_cold = str(uri).rstrip("/") == str(tables.cold)
        return store.at("cold") if is_cold else open_store(uri, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lancewood.engine.location.location.open_store", opened)
        yield


def writes(store: FaultyStore) -> set[str]:
    return {verb for verb, key in store.calls if key.startswith("cold/")}


@pytest.mark.sliced(3)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", MOVES)
def test_files_are_here_or_there_whatever_call_goes_wrong(
    tables: Tables, tmp_path: Path, name: str, mode: Mode
) -> None:
    rows, before, there = tables.rows(), tables.file_roots(), tables.files()
    after: FileRoots = [[1], [1], [1]] if name == "away" else [[None], [None], [None]]
    kept = shutil.copytree(tables.directory, tmp_path / "kept")
    for attempt in every_call(mode, lambda _: copied(kept, tables.directory), more_than=10):
        with around_both(tables, attempt.store):
            attempt.run(MOVES[name], tables.through(attempt.store))
        assert tables.rows() == rows, attempt.where
        found = tables.file_roots()
        attempt.check(found, before, after)
        if attempt.must_leave_nothing:
            assert tables.files() == there, attempt.where
        if attempt.outcome == "dead" and found == before:
            MOVES[name](lw.open(tables.uri))
            assert (tables.file_roots(), tables.rows()) == (after, rows), attempt.where
    assert writes(attempt.store) >= ({"copy_from", "head"} if name == "away" else {"head"})


@pytest.mark.sliced(3)
@pytest.mark.parametrize("mode", MODES)
def test_a_move_that_meets_others_is_old_or_new_whatever_call_goes_wrong(
    tables: Tables, tmp_path: Path, mode: Mode
) -> None:
    """Somebody deleted rows of one fragment, and all of another, since the version that is read."""
    read = lw.open(tables.uri).version
    lance.dataset(tables.uri).delete("k = 5 OR k >= 8")
    rows, before, there = tables.rows(), tables.file_roots(), tables.files()
    kept = shutil.copytree(tables.directory, tmp_path / "kept")
    for attempt in every_call(mode, lambda _: copied(kept, tables.directory)):
        with around_both(tables, attempt.store):
            attempt.run(MOVES["away"], tables.through(attempt.store, version=read))
        assert tables.rows() == rows, attempt.where
        attempt.check(tables.file_roots(), before, [[1], [1]])
    assert attempt.outcome == "done"
    assert len(tables.files() - there) == 1


def test_copies_of_a_move_whose_fate_is_unknown_stay(tables: Tables) -> None:
    rows = tables.rows()
    table = tables.through(Deaf(DiskStore(tables.directory)))
    with pytest.raises(lw.CommitUnknownError, match="nothing was deleted"):
        MOVES["away"](table)
    assert tables.file_roots() == [[1], [1], [1]]
    assert tables.rows() == rows
