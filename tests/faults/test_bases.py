"""A failure, a lost answer or a death at every store call of writes to several homes, and of
changes to base paths; the calls of all homes count.

Afterwards the table is old or new, both implementations read it, and what did not land can be done
again. What failed before it could land left no file in any home.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from tests.faults.hurting import MODES, every_call
from tests.pylance import judged

import lancewood as lw
from lancewood.engine.location.location import Location
from lancewood.engine.snapshot.snapshot import Snapshot
from lancewood.engine.write import WriteRequest, create_table
from lancewood.store.base import Store
from lancewood.store.disk import DiskStore
from lancewood.testing.faults import FaultyStore, Mode

pytestmark = pytest.mark.usefixtures("no_waiting")
ROWS = pa.table({"a": pa.array(range(12), pa.int64())})


def location_in(directory: Path, store: FaultyStore) -> Location:
    """The table's place below a directory, all of whose homes are reached through the store."""
    file_roots: dict[tuple[int, str], Store] = {
        (number, str(directory / each)): store.at(each)
        for number in range(5)
        for each in ("cold", "new")
    }
    return Location(store.at("t"), _file_roots=file_roots)


def handle_in(directory: Path, store: FaultyStore) -> lw.Table:
    opened = lw.open(directory / "t")._snapshot
    return lw.Table(Snapshot(location_in(directory, store), opened.manifest, opened.scheme))


def create(directory: Path, store: FaultyStore) -> None:
    create_table(
        location_in(directory, store),
        ROWS,
        WriteRequest(
            file_version="2.2",
            max_rows_per_file=3,
            bases=[lw.BasePath(directory / "cold", name="cold", is_dataset_root=True)],
            into="all",
        ),
    )


def append(directory: Path, store: FaultyStore) -> None:
    handle_in(directory, store).append(ROWS, layout=lw.Layout(into="all", max_rows_per_file=5))


def overwrite(directory: Path, store: FaultyStore) -> None:
    handle_in(directory, store).overwrite(
        ROWS.slice(3), layout=lw.Layout(into=["cold", None], max_rows_per_file=5)
    )


def add_base(directory: Path, store: FaultyStore) -> None:
    handle_in(directory, store).add_base(directory / "more", name="more")


def set_base(directory: Path, store: FaultyStore) -> None:
    handle_in(directory, store).set_base("cold", directory / "new")


Act = Callable[[Path, FaultyStore], None]
ACTS: dict[str, Act] = {
    "create": create,
    "append": append,
    "overwrite": overwrite,
    "add": add_base,
    "set": set_base,
}


def begin(directory: Path, name: str) -> DiskStore:
    """What is there before the act; after it, the base path reads at both places."""
    directory.mkdir()
    store = DiskStore(str(directory))
    if name != "create":
        create(directory, FaultyStore(store))
        shutil.copytree(directory / "cold", directory / "new")
    return store


def seen(directory: Path) -> tuple[list[int], tuple[str, ...]] | None:
    """The rows, and where base paths lead, as both implementations find them."""
    uri = str(directory / "t")
    if not lw.exists(uri):
        return None
    table, dataset = lw.open(uri), judged(uri)
    rows = table.to_arrow()
    assert rows == dataset.to_table()
    return rows["a"].to_pylist(), tuple(Path(each.path).name for each in table.base_paths)


def data_files(directory: Path) -> set[Path]:
    return {each.relative_to(directory) for each in directory.rglob("*.lance") if each.is_file()}


@pytest.mark.sliced(3)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ACTS)
def test_homes_are_old_or_new_whatever_call_goes_wrong(
    tmp_path: Path, name: str, mode: Mode
) -> None:
    whole = begin(tmp_path / "whole", name)
    before = seen(tmp_path / "whole")
    ACTS[name](tmp_path / "whole", FaultyStore(whole))
    after = seen(tmp_path / "whole")
    assert before != after
    for attempt in every_call(mode, lambda at: begin(tmp_path / str(at), name)):
        directory = Path(attempt.store.uri)
        there = data_files(directory)
        outcome = attempt.run(ACTS[name], directory, attempt.store)
        found = seen(directory)
        attempt.check(found, before, after)
        if attempt.must_leave_nothing:
            assert data_files(directory) == there, attempt.where
        if outcome == "dead" and found == before:
            ACTS[name](directory, FaultyStore(DiskStore(str(directory))))
            assert seen(directory) == after, attempt.where
    assert any(key.startswith(("cold", "new")) for _, key in attempt.store.calls) or name == "add"
