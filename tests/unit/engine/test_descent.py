"""What a branch has from before it was made, as it sees it."""

from __future__ import annotations

import json
from itertools import count
from pathlib import Path

import pyarrow as pa
import pytest

import lancewood as lw
from lancewood.engine.location.location import Location
from lancewood.engine.snapshot import descent
from lancewood.engine.snapshot.descent import Descent
from lancewood.engine.snapshot.snapshot import Snapshot
from lancewood.errors import NotFoundError
from lancewood.format.layout import manifest_key
from lancewood.format.refs import branch_key
from lancewood.jobs.counts import RowCounts
from lancewood.model.ids import Version
from lancewood.model.refs import BranchName
from lancewood.model.transaction import Append, Clone, Delete, MissingTransaction, Overwrite
from lancewood.testing.faults import FaultyStore

_names = count()


def rows(*values: int) -> pa.Table:
    return pa.table({"a": pa.array(values, pa.int64())})


@pytest.fixture
def deep() -> Snapshot:
    """Version 5 of a branch that left version 4 of ``exp``, which left version 2 of main."""
    main = lw.create(f"memory://descent/{next(_names)}", rows(1, 2)).append(rows(3))
    exp = main.branches.create("exp")
    main.append(rows(99))
    exp = exp.append(rows(4)).delete("a = 1")
    made = exp.branches.create("deep")
    exp.append(rows(98))
    return made.append(rows(5))._snapshot


def values(snapshot: Snapshot) -> list[int]:
    return sorted(lw.Table(snapshot).to_arrow().column("a").to_pylist())


def test_every_version_of_the_history_is_found_where_it_is(deep: Snapshot) -> None:
    found = [values(Descent(deep).load(each)) for each in (1, 2, 3, 4, 5)]
    assert found == [[1, 2], [1, 2, 3], [1, 2, 3, 4], [2, 3, 4], [2, 3, 4, 5]]


def test_what_a_branch_has_in_common_with_its_past_is_the_same_byte_for_byte(
    deep: Snapshot,
) -> None:
    history = Descent(deep)
    known = set(deep.manifest.message.fragments)
    assert set(history.load(3).manifest.message.fragments) & known
    untouched = [each for each in history.load(2).manifest.message.fragments if each in known]
    assert len(untouched) == 1  # the other one has a deletion file by now
    assert history.load(1).location is deep.location
    assert history.load(1).manifest.base_paths == deep.manifest.base_paths


def test_the_transaction_of_a_fork_is_the_parents_and_not_that_of_the_branch(
    deep: Snapshot,
) -> None:
    history = Descent(deep)
    made = [type(history.transaction(Version(each)).operation) for each in (1, 2, 3, 4, 5)]
    assert made == [Overwrite, Append, Append, Delete, Append]


def test_a_version_after_the_fork_is_not_the_parents(deep: Snapshot) -> None:
    with pytest.raises(NotFoundError, match="version 6"):
        Descent(deep).load(6)
    missing = Descent(deep).transaction(Version(6)).operation
    assert isinstance(missing, MissingTransaction)


@pytest.mark.parametrize("record", [None, b"{"], ids=["missing", "damaged"])
def test_a_branch_whose_record_cannot_be_read_has_its_own_versions_only(
    deep: Snapshot, record: bytes | None
) -> None:
    main = deep.location.main(deep.manifest)
    assert main is not None
    key = branch_key(BranchName("deep"))
    if record is None:
        main.delete([key])
    else:
        main.put(key, record)
    assert values(Descent(deep).load(4)) == [2, 3, 4]
    with pytest.raises(NotFoundError, match="version 3"):
        Descent(deep).load(3)
    assert isinstance(Descent(deep).transaction(Version(4)).operation, Clone)


def test_a_branch_that_was_brought_elsewhere_has_its_own_versions_only(tmp_path: Path) -> None:
    table = lw.create(tmp_path / "t", rows(1)).append(rows(2))
    table.branches.create("exp")
    (tmp_path / "t/tree/exp").rename(tmp_path / "x")
    brought = lw.open(tmp_path / "x")
    with pytest.raises(NotFoundError, match="version 1"):
        brought.changes(1)


def test_main_has_no_history_but_its_own(deep: Snapshot) -> None:
    main = lw.Table(deep).checkout(branch="main")._snapshot
    assert values(Descent(main).load(1)) == [1, 2]
    with pytest.raises(NotFoundError, match="version 9"):
        Descent(main).load(9)


def test_a_branch_tells_its_changes_since_the_version_that_it_left() -> None:
    main = lw.create(f"memory://descent/{next(_names)}", rows(1, 2)).append(rows(3))
    exp = main.branches.create("exp").append(rows(4))
    main.append(rows(99))
    assert exp.changes(since=2).inserted.to_arrow()["a"].to_pylist() == [4]
    assert exp.changes(since=":2").inserted.to_arrow()["a"].to_pylist() == [4]
    with pytest.raises(lw.InvalidInputError, match="version 3 of main is not known to be in"):
        exp.append(rows(5)).changes(since=":3")


def test_a_version_from_before_a_reset_is_not_part_of_the_history() -> None:
    main = lw.create(f"memory://descent/{next(_names)}", rows(1, 2))
    old = main.branches.create("exp").append(rows(100, 101))
    main.append(rows(200, 201)).append(rows(300))
    made = main.latest().branches.reset("exp", force=True)
    new = made.append(rows(5))
    with pytest.raises(lw.InvalidInputError, match=f"reset in version {made.version}"):
        new.changes(since=old.version)
    assert new.changes(since=made.version).inserted.to_arrow()["a"].to_pylist() == [5]
    assert old.changes(since=1).inserted.to_arrow()["a"].to_pylist() == [100, 101]


def test_a_version_from_beside_a_reset_that_was_taken_back_is_not_part_of_the_history() -> None:
    main = lw.create(f"memory://descent/{next(_names)}", rows(1, 2))
    old = main.branches.create("exp").append(rows(100, 101))
    made = main.append(rows(200)).branches.reset("exp", force=True)
    new = made.append(rows(5))
    back = new.restore(version=old.version)
    with pytest.raises(lw.InvalidInputError, match=f"reset in version {made.version}") as refused:
        back.changes(since=new.version)
    assert "ask for changes since" not in str(refused.value)
    assert back.changes(since=old.version).counts == RowCounts()


def test_a_version_of_the_parent_from_before_its_reset_is_not_part_of_the_history() -> None:
    main = lw.create(f"memory://descent/{next(_names)}", rows(1, 2))
    old = main.branches.create("dev").append(rows(100)).append(rows(101))  # 2, 3
    made = main.branches.reset("dev", force=True)  # 4
    assert (old.version, made.version) == (3, 4)
    child = made.append(rows(7)).branches.create("child").append(rows(8))
    with pytest.raises(lw.InvalidInputError, match="reset in version 4"):
        child.changes(since=3)
    assert child.changes(since=1).inserted.to_arrow()["a"].to_pylist() == [7, 8]
    again = made.latest().branches.reset("child", force=True)
    with pytest.raises(lw.InvalidInputError, match="reset in version"):
        again.changes(since=3)
    with pytest.raises(lw.InvalidInputError, match=f"reset in version {again.version}"):
        again.changes(since=child.version)
    assert again.changes(since=4).inserted.to_arrow()["a"].to_pylist() == [7]


def test_what_a_branch_of_a_branch_that_began_anew_has_for_its_past_is_not_walked_through(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    main = lw.create(f"memory://descent/{next(_names)}", rows(1, 2))
    main.branches.create("dev").append(rows(100))
    made = main.branches.reset("dev", force=True).append(rows(7))
    child = made.branches.create("child").append(rows(8)).append(rows(9))
    own = made.append(rows(10))
    monkeypatch.setattr(descent, "load_manifest", None)
    assert child.changes(since=child.version - 1).counts == RowCounts(inserted=1)
    assert child.changes(since=made.version).counts == RowCounts(inserted=2)
    assert own.changes(since=made.version).counts == RowCounts(inserted=1)


def reset_twice() -> tuple[lw.Table, lw.Table]:
    """Main at version 4, and version 3 of a branch that left main at 1, and began anew at 2 and 4
    of it since."""
    main = lw.create(f"memory://descent/{next(_names)}", rows(1, 2))
    old = main.branches.create("exp").append(rows(100)).append(rows(101))
    main.append(rows(200)).branches.reset("exp", force=True).append(rows(102))
    main.latest().append(rows(300)).append(rows(301)).branches.reset("exp", force=True)
    return main.latest(), old


@pytest.mark.parametrize("is_marked", [True, False], ids=["record", "record of another writer"])
def test_the_record_of_a_branch_tells_nothing_of_what_was_before_its_reset(is_marked: bool) -> None:
    main, old = reset_twice()
    if not is_marked:
        store, key = main._snapshot.location.store, branch_key(BranchName("exp"))
        found = json.loads(store.get(key))
        assert found.pop("lancewood.reset") == old.latest().version
        store.put(key, json.dumps(found).encode())
    newest, between = old.latest(), old.checkout(version=5)
    for table, fork in ((old, 1), (between, 2), (newest, 4)):
        history = Descent(table._snapshot)
        seen = [history.find(main.checkout(version=each)._snapshot) for each in (1, 2, 3, 4)]
        assert [each is not None for each in seen] == [each <= fork for each in (1, 2, 3, 4)]
    own = old.checkout(version=2)._snapshot
    uuid = Descent(old._snapshot).transaction(Version(2)).uuid
    assert uuid == own.transaction_of(Version(2)).uuid
    assert Descent(old._snapshot).find(own) is not None
    assert Descent(newest._snapshot).find(own) is Descent(between._snapshot).find(own) is None


def test_a_record_that_lost_its_mark_is_not_believed_for_versions_of_before() -> None:
    """b@4 began at main@1; the record says main@3, which is no more than its number either."""
    main = lw.create(f"memory://descent/{next(_names)}", rows(1))
    old = main.branches.create("b").append(rows(100)).append(rows(101)).append(rows(102))
    main.append(rows(2)).append(rows(3)).branches.reset("b", force=True)
    store, key = main._snapshot.location.store, branch_key(BranchName("b"))
    found = json.loads(store.get(key))
    assert found.pop("lancewood.reset") == 5
    store.put(key, json.dumps(found).encode())
    history = Descent(old._snapshot)
    seen = [history.find(main.checkout(version=each)._snapshot) for each in (1, 2, 3)]
    assert [each is not None for each in seen] == [True, False, False]
    assert old.changes(since=1).inserted.to_arrow()["a"].to_pylist() == [100, 101, 102]


def test_a_version_that_was_cleaned_up_is_not_taken_for_the_parents_of_that_number() -> None:
    _, old = reset_twice()
    old._snapshot.location.store.delete([manifest_key(Version(2), old._snapshot.scheme)])
    with pytest.raises(NotFoundError, match="version 2"):
        old.changes(since=2)
    assert old.changes(since=1).inserted.to_arrow()["a"].to_pylist() == [100, 101]


def test_where_nothing_tells_how_a_version_began_it_has_no_past_of_before() -> None:
    main, old = reset_twice()
    old._snapshot.location.store.delete([manifest_key(Version(1), old._snapshot.scheme)])
    assert Descent(old._snapshot).find(main.checkout(version=1)._snapshot) is None
    assert Descent(old.latest()._snapshot).find(main._snapshot) is not None


def test_what_was_seen_of_the_parent_keeps_the_past_it_was_seen_in() -> None:
    main, old = reset_twice()
    uuid = main._snapshot.transaction_of(Version(3)).uuid
    newest = Descent(old.latest()._snapshot)
    seen = newest.find(main._snapshot)
    assert seen is not None
    assert Descent(seen).transaction(Version(3)).uuid == uuid


def test_a_handle_on_a_branch_that_was_made_again_is_told_so() -> None:
    main = lw.create(f"memory://descent/{next(_names)}", rows(1, 2)).append(rows(3))
    old = main.branches.create("exp", at=1).append(rows(100)).append(rows(101))
    main.branches.delete("exp")
    main.branches.create("exp").append(rows(200)).append(rows(201))
    for since in (1, 2):
        with pytest.raises(NotFoundError, match="made again"):
            old.changes(since=since)
    assert old.latest().changes(since=2).inserted.to_arrow()["a"].to_pylist() == [200, 201]


def test_a_parent_that_was_made_again_is_not_the_one_that_a_branch_came_from() -> None:
    main = lw.create(f"memory://descent/{next(_names)}", rows(1, 2))
    dev = main.branches.create("dev").append(rows(100)).append(rows(101))
    child = dev.branches.create("child").append(rows(5))
    store, record = main._snapshot.location.store, branch_key(BranchName("child"))
    kept = store.get(record)
    store.delete([record])
    main.branches.delete("dev")
    main.branches.create("dev").append(rows(200)).append(rows(201))
    store.put(record, kept)
    for version in (1, 2):
        with pytest.raises(NotFoundError, match=f"version {version}"):
            child.changes(since=version)
    assert child.changes(since=3).inserted.to_arrow()["a"].to_pylist() == [5]


@pytest.mark.parametrize("since", [2, 1], ids=["own version", "the parent's version"])
def test_what_changes_asks_of_the_store_does_not_grow_with_the_versions(
    tmp_path: Path, since: int
) -> None:
    asked = []
    for versions in (3, 30):
        main = lw.create(str(tmp_path / f"t{versions}"), rows(1))  # 1
        table = main.branches.create("exp").append(rows(2)).append(rows(3))
        for number in range(versions):
            table = table.set_config({"a.b": str(number)})
        found = table._snapshot
        store = FaultyStore(found.location.store, at=10**9, mode="before")
        counted = lw.Table(Snapshot(Location(store), found.manifest, found.scheme))
        assert counted.changes(since).counts == RowCounts(inserted=3 - since)
        asked.append(len(store.calls))
    assert asked[0] == asked[1] <= 4
