"""Shallow clones: what is refused, what is pinned, and whose pins go."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.counted import counts_of
from tests.manifests import edit_manifest, manifest_path

import lancewood as lw
from lancewood.engine.commit.commit import CommitPolicy
from lancewood.engine.commit.publish import Detached
from lancewood.engine.location.location import Location
from lancewood.engine.snapshot.snapshot import Snapshot
from lancewood.engine.upkeep.pins import CLONE_PIN, PINS_CONFIG, ClonePin, PinRecord, read_record
from lancewood.errors import (
    AlreadyExistsError,
    CommitUnknownError,
    InvalidInputError,
    NotFoundError,
    StorageError,
)
from lancewood.jobs.clone import clone_shallow
from lancewood.model.transaction import Transaction, UpdateConfig
from lancewood.store.base import PutOutcome, Store
from lancewood.store.disk import DiskStore
from lancewood.testing.faults import WatchedStore

ROWS = pa.table({"a": [1, 2, 3]})


@pytest.fixture
def table(tmp_path: Path) -> lw.Table:
    return lw.create(tmp_path / "t", ROWS, access=lw.Access(fsync=False))


def pins(uri: str | Path) -> list[str]:
    found = Path(uri, "_refs", "tags")
    return sorted(os.listdir(found)) if found.exists() else []


def through(table: lw.Table, store: Store) -> Snapshot:
    snapshot = table._snapshot
    return Snapshot(Location(store), snapshot.manifest, snapshot.scheme)


def test_a_clone_has_the_rows_and_settings_of_its_source(table: lw.Table, tmp_path: Path) -> None:
    made = table.set_config({"colour": "green"}).clone(tmp_path / "c")
    assert made.to_arrow() == ROWS
    assert made.version == 2
    assert made.config["colour"] == "green"
    assert table.latest().config == {"colour": "green"}
    assert made.append(ROWS).count_rows() == 6
    assert table.latest().count_rows() == 3


def test_a_clone_lives_in_memory_as_well() -> None:
    table = lw.create("memory://clones/t", ROWS)
    made = table.clone("memory://clones/c")
    assert made.to_arrow() == ROWS
    assert [each.root for each in counts_of(made, lw.ShallowClone).pins] == ["memory://clones/t"]
    assert table.clone("memory://clones/d", deep=True).to_arrow() == ROWS
    assert made.detach().base_paths == ()


@pytest.mark.parametrize("deep", [False, True])
def test_a_place_that_holds_a_table_is_refused(table: lw.Table, tmp_path: Path, deep: bool) -> None:
    lw.create(tmp_path / "c", ROWS)
    with pytest.raises(AlreadyExistsError, match="there is a table at"):
        table.clone(tmp_path / "c", deep=deep)
    assert pins(table.uri) == []
    assert len(lw.open(tmp_path / "c").fragments) == 1


@pytest.mark.parametrize("deep", [False, True])
@pytest.mark.parametrize("below", ["c", "tree/c", "data/c"])
def test_a_place_inside_the_source_is_refused(table: lw.Table, below: str, deep: bool) -> None:
    with pytest.raises(InvalidInputError, match="lies inside the table at"):
        table.clone(f"{table.uri}/{below}", deep=deep)
    assert not Path(table.uri, below).exists()


def test_a_place_that_has_the_source_among_its_directories_is_refused(tmp_path: Path) -> None:
    table = lw.create(tmp_path / "data" / "t", ROWS)
    with pytest.raises(InvalidInputError, match="would lie among the directories of its clone"):
        table.clone(tmp_path)
    assert pins(table.uri) == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"message": 7},
        {"commit": {"properties": {"a": 1}}},
        {"tag": "no/tag"},
        {"tag": 3},
        {"runner": "threads"},
        {"access": {"storage_options": {"a": 1}}},
        {"access": "x"},
    ],
)
@pytest.mark.parametrize("deep", [False, True])
def test_a_wrong_argument_is_refused_before_anything_is_written(
    table: lw.Table, tmp_path: Path, wrong: dict[str, Any], deep: bool
) -> None:
    with pytest.raises(InvalidInputError):
        table.clone(tmp_path / "c", deep=deep, **wrong)
    assert pins(table.uri) == []
    assert not (tmp_path / "c").exists()


@pytest.mark.parametrize("deep", [False, True])
def test_a_detached_version_is_refused(table: lw.Table, tmp_path: Path, deep: bool) -> None:
    transaction = Transaction.new(table._snapshot.manifest.version, UpdateConfig())
    beside = table._snapshot.commit(transaction, CommitPolicy(publisher=Detached()))
    with pytest.raises(InvalidInputError, match="is detached"):
        lw.Table(beside).clone(tmp_path / "c", deep=deep)
    assert pins(table.uri) == []


class _ReadOnly(WatchedStore):
    """A store where nothing may be written."""

    def put(self, key: str, data: bytes) -> None:
        raise StorageError(f"cannot write {key!r}: no permission", key=key, final=True)


def test_a_source_that_may_not_be_written_to_cannot_know_of_the_clone(
    table: lw.Table, tmp_path: Path
) -> None:
    source = lw.Table(through(table, _ReadOnly(DiskStore(table.uri))))
    with pytest.warns(UserWarning, match=r"cannot know that .* needs its files"):
        made = source.clone(tmp_path / "c")
    assert made.to_arrow() == ROWS
    assert counts_of(made, lw.ShallowClone).pins == ()
    assert [each.root for each in counts_of(made, lw.ShallowClone).unpinned] == [table.uri]
    assert PINS_CONFIG not in made.config


class _Failing(WatchedStore):
    """A store that fails when a tag is written, but may have written it."""

    def put(self, key: str, data: bytes) -> None:
        super().put(key, data)
        if "/tags/" in key:
            raise StorageError("no answer")


def test_a_pin_that_may_be_there_or_not_stops_the_clone_and_is_removed(
    table: lw.Table, tmp_path: Path
) -> None:
    source = lw.Table(through(table, _Failing(DiskStore(table.uri))))
    with pytest.raises(StorageError, match="no answer"):
        source.clone(tmp_path / "c")
    assert pins(table.uri) == []
    assert not lw.exists(tmp_path / "c")


class _Meddling(WatchedStore):
    """Does something before the first call of one kind."""

    def __init__(self, inner: Store, verb: str, act: Callable[[], object]) -> None:
        super().__init__(inner)
        self._verb, self._act = verb, [act]

    def _call(self, verb: str, key: str, action: Callable[[], Any]) -> Any:
        if verb == self._verb and self._act:
            self._act.pop()()
        return action()


def test_a_version_that_a_cleanup_removed_before_the_pin_is_not_cloned(
    table: lw.Table, tmp_path: Path
) -> None:
    table.append(ROWS)
    store = _Meddling(DiskStore(table.uri), "put", manifest_path(table.uri, 1).unlink)
    with pytest.raises(NotFoundError, match=r"version 1 of .* was removed meanwhile"):
        clone_shallow(through(table, store), Location(DiskStore(tmp_path / "c")))
    assert pins(table.uri) == []
    assert not lw.exists(tmp_path / "c")


def test_a_version_that_a_cleanup_removed_after_the_pin_leaves_the_clone_in_doubt(
    table: lw.Table, tmp_path: Path
) -> None:
    table.append(ROWS)
    target = _Meddling(DiskStore(tmp_path / "c"), "put_new", manifest_path(table.uri, 1).unlink)
    with pytest.raises(CommitUnknownError, match="files of it may be gone"):
        clone_shallow(table._snapshot, Location(target))
    assert len(pins(table.uri)) == 1
    lw.drop(tmp_path / "c")
    assert pins(table.uri) == []


def test_the_pins_go_when_somebody_else_was_faster(table: lw.Table, tmp_path: Path) -> None:
    def other() -> None:
        lw.create(tmp_path / "c", ROWS)

    target = _Meddling(DiskStore(tmp_path / "c"), "put_new", other)
    with pytest.raises(AlreadyExistsError):
        clone_shallow(table._snapshot, Location(target))
    assert pins(table.uri) == []


def test_an_unknown_outcome_leaves_the_pins(table: lw.Table, tmp_path: Path) -> None:
    class _Silent(WatchedStore):
        def put_new(self, key: str, data: bytes) -> PutOutcome:
            raise StorageError("no answer")

        def get(self, key: str) -> bytes:
            raise StorageError("no answer")

    with pytest.raises(CommitUnknownError):
        clone_shallow(table._snapshot, Location(_Silent(DiskStore(tmp_path / "c"))))
    assert len(pins(table.uri)) == 1


def test_every_clone_has_pins_of_its_own(table: lw.Table, tmp_path: Path) -> None:
    one = table.clone(tmp_path / "one")
    two = one.clone(tmp_path / "two")
    three = two.clone(tmp_path / "three")
    assert [each.root for each in counts_of(two, lw.ShallowClone).pins] == [one.uri, table.uri]
    assert [each.root for each in counts_of(three, lw.ShallowClone).pins] == [two.uri, table.uri]
    assert len(pins(table.uri)) == 3
    assert read_record(three.config) == PinRecord(three.uri, counts_of(three, lw.ShallowClone).pins)
    lw.drop(three.uri)
    assert (len(pins(table.uri)), len(pins(two.uri)), len(pins(one.uri))) == (2, 0, 1)


def test_a_clone_of_a_branch_is_pinned_in_the_main_root(table: lw.Table, tmp_path: Path) -> None:
    branch = table.branches.create("exp").append(ROWS)
    made = branch.clone(tmp_path / "c")
    assert [each.root for each in counts_of(made, lw.ShallowClone).pins] == [table.uri]
    (name,) = pins(table.uri)
    found = json.loads(Path(table.uri, "_refs", "tags", name).read_text())
    assert (found["branch"], found["version"]) == ("exp", 2)
    assert made.count_rows() == 6
    with pytest.raises(InvalidInputError, match=f"{CLONE_PIN}.* the clone at {made.uri} reads"):
        table.branches.delete("exp")


def test_a_table_with_the_record_of_another_clone_leaves_its_pins_alone(
    table: lw.Table, tmp_path: Path
) -> None:
    made = table.clone(tmp_path / "c")
    other = lw.create(tmp_path / "other", ROWS).set_config({PINS_CONFIG: made.config[PINS_CONFIG]})
    other.detach()
    with pytest.warns(UserWarning, match=f"names the clone at {made.uri}"):
        lw.drop(other.uri)
    shutil.copytree(made.uri, tmp_path / "copy")
    with pytest.warns(UserWarning, match=f"names the clone at {made.uri}"):
        lw.drop(tmp_path / "copy")
    assert len(pins(table.uri)) == 1
    lw.drop(made.uri)
    assert pins(table.uri) == []


def test_a_clone_that_was_moved_takes_its_pin_along(table: lw.Table, tmp_path: Path) -> None:
    made = table.clone(tmp_path / "c")
    shutil.move(made.uri, tmp_path / "moved")
    lw.drop(tmp_path / "moved")
    assert pins(table.uri) == []


@pytest.mark.filterwarnings("ignore:s3.* keeps a pin")
def test_a_record_that_somebody_made_up_removes_nothing(table: lw.Table, tmp_path: Path) -> None:
    table.tags.create("release")
    victim = Path(table.uri, "_refs", "tags", "release.json")
    clone = tmp_path / "c"
    for tag in ("release", f"{CLONE_PIN}x", "../../_versions/x", ""):
        record = PinRecord(
            str(clone), (ClonePin(table.uri, tag), ClonePin("s3://", tag), ClonePin("/", tag))
        )
        lw.create(clone, ROWS).set_config({PINS_CONFIG: record.encode()})
        lw.drop(clone)
        assert victim.exists()
    for text in ("", "[]", "{}", '{"clone": 1, "pins": 3}', "[" * 100_000):
        lw.create(clone, ROWS).set_config({PINS_CONFIG: text}).detach()
        lw.drop(clone)
    assert victim.exists()


def test_a_clone_of_a_moved_table_leads_to_where_the_files_are_now(
    table: lw.Table, tmp_path: Path
) -> None:
    table.branches.create("exp").append(ROWS)
    shutil.move(table.uri, tmp_path / "moved")
    made = lw.open(tmp_path / "moved", branch="exp").clone(tmp_path / "c")
    assert {each.path for each in made.base_paths} == {
        str(tmp_path / "moved"),
        str(tmp_path / "moved" / "tree" / "exp"),
    }
    assert lw.open(tmp_path / "c").to_arrow() == pa.concat_tables([ROWS, ROWS])


def test_a_clone_spells_a_relative_base_path_out(
    table: lw.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = table.clone(tmp_path / "one")

    def relative(message: Any) -> None:
        message.base_paths[0].path = "t"

    edit_manifest(one.uri, relative)
    monkeypatch.chdir(tmp_path)
    with pytest.warns(UserWarning, match="relative path"):
        made = lw.open(one.uri).clone(tmp_path / "two")
    monkeypatch.chdir("/")
    assert [each.path for each in made.base_paths] == [table.uri, one.uri]
    assert lw.open(made.uri).to_arrow() == ROWS
