"""What no commit leads to goes, when it is old enough; everything else stays."""

from __future__ import annotations

import json
import os
import shutil
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from tests.interop.git_judge import git
from tests.repo.faults import OPENING, at_store_call, hurting, outcome
from tests.repo.scene import FIRST, ONE, TWO, Scene, rows

import lancewood as lw
from lancewood.errors import (
    InvalidInputError,
    NotFoundError,
    RetryableConflictError,
    StorageError,
    UnsupportedError,
)
from lancewood.jobs.refs import deletion
from lancewood.jobs.refs.records import Intent, declare
from lancewood.repo.gc.needed import TableBranch
from lancewood.repo.outcome import NotLandedWarning
from lancewood.repo.repository import Repository
from lancewood.store import lockfile
from lancewood.store.locate import open_store

LONG_AGO = 8 * 24 * 3600


def age(path: Path, below: str = "tables") -> None:
    """Let everything of the tables be older than any writer may be at work."""
    then = time.time() - LONG_AGO
    for each in (path / below).rglob("*"):
        os.utime(each, (then, then))


def leave(scene: Scene, *values: int, branch: str = "main") -> None:
    """A transaction that stages its states, and dies before its commit."""
    changes = scene.repo.transaction(branch, message="never")
    changes.table(ONE).append(rows(*values))
    changes.tree(scene.repo.branches.list()[branch])
    changes.abandon()


def states(scene: Scene, name: str = ONE, branch: str | None = None) -> set[str]:
    """The files of detached versions."""
    root = Path(scene.uri(name))
    root = root if branch is None else root / "tree" / branch
    return {each.name for each in (root / "_versions").glob("d*.manifest")}


def transactions(scene: Scene, name: str = ONE) -> set[str]:
    return {each.name for each in (Path(scene.uri(name)) / "_transactions").glob("*.txn")}


def forget(scene: Scene) -> None:
    """What git does to old reflogs."""
    git(scene.path, "reflog", "expire", "--expire=now", "--expire-unreachable=now", "--all")


def test_states_of_a_transaction_without_a_commit_go(scene: Scene) -> None:
    scene.both(4)
    kept, written = states(scene), transactions(scene)
    leave(scene, 5, 6)
    assert len(states(scene)) == len(kept) + 1
    age(scene.path)
    dry = scene.repo.gc(dry_run=True)
    assert (dry.states, dry.transactions, dry.dry_run) == (1, 1, True)
    assert len(states(scene)) == len(kept) + 1
    report = scene.repo.gc()
    assert (report.states, report.transactions, report.bytes) == (1, 1, dry.bytes)
    assert report.bytes > 0
    assert states(scene) == kept
    assert transactions(scene) == written
    assert scene.repo.gc().states == 0
    assert scene.counts("main~1") == (3, 3)
    assert scene.values() == [1, 2, 3, 4]


def two_steps(scene: Scene, value: int) -> None:
    with scene.repo.transaction(message=f"{value} in two steps") as changes:
        changes.table(ONE).append(rows(value))
        changes.table(ONE).append(rows(value + 1))


def test_the_states_on_the_way_to_one_that_landed_go(scene: Scene) -> None:
    before = len(states(scene))
    two_steps(scene, 10)
    assert len(states(scene)) == before + 2
    age(scene.path)
    assert scene.repo.gc(dry_run=True).states == 1
    assert scene.repo.gc().states == 1
    assert len(states(scene)) == before + 1
    assert scene.seen("main")[-2:] == [10, 11]
    assert scene.repo.gc().states == 0


def test_the_states_on_the_way_to_one_that_has_not_landed_stay(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    with cut_off(monkeypatch):
        two_steps(scene, 10)
    age(scene.path)
    assert scene.repo.gc(dry_run=True).states == 0
    report = scene.repo.gc()
    assert report.landed == (TableBranch(ONE, "main"),)
    assert report.states == 1
    assert scene.values()[-2:] == [10, 11]


def test_a_compaction_that_was_committed_lets_go_of_the_files_before_it(scene: Scene) -> None:
    """It reserves numbers of fragments first, and the state after that has all the old files."""
    data = Path(scene.uri()) / "data"
    first = {*data.iterdir()}
    for value in range(4, 14):
        scene.outside(value)
    before = states(scene)
    with scene.repo.transaction(message="compact") as changes:
        changes.table(ONE).compact()
    assert len(states(scene) - before) == 2
    age(scene.path)
    assert scene.repo.gc().states == 1
    scene.table().cleanup(keep_versions=1, in_flight=timedelta(0))
    assert len({*data.iterdir()} - first) == 1, "the compacted one"
    assert scene.seen() == scene.values() == [*range(1, 14)]
    assert scene.seen("main~1") == [1, 2, 3]
    assert not scene.repo.fsck().problems


def test_young_states_stay(scene: Scene) -> None:
    leave(scene, 5)
    before = states(scene)
    report = scene.repo.gc()
    assert (report.states, report.in_flight) == (0, 1)
    assert states(scene) == before
    assert scene.repo.gc(in_flight=timedelta(0)).states == 1


def test_a_span_that_is_none_is_refused(scene: Scene) -> None:
    with pytest.raises(InvalidInputError, match="in_flight"):
        scene.repo.gc(in_flight=timedelta(days=-1))


def test_what_only_a_reflog_leads_to_stays_until_that_is_gone(scene: Scene) -> None:
    scene.both(4)
    lost = scene.repo.at().hash
    git(scene.path, "update-ref", "-m", "back", "refs/heads/main", "HEAD~1")
    age(scene.path)
    assert scene.repo.gc().states == 0
    assert scene.seen(lost) == [1, 2, 3, 4]
    forget(scene)
    report = scene.repo.gc()
    assert report.states == 2
    assert report.transactions == 0, "the versions that they landed as name these files as well"
    assert scene.values() == [1, 2, 3, 4]
    assert scene.counts() == (3, 3)
    scene.repo.commit("as it stands")


def test_detached_versions_of_others_stay(scene: Scene) -> None:
    fragment = lance.fragment.LanceFragment.create(scene.uri(), rows(9))
    made = lance.LanceDataset.commit(
        scene.uri(), lance.LanceOperation.Append([fragment]), read_version=1, detached=True
    )
    age(scene.path)
    assert scene.repo.gc(tables=True).states == 0
    assert lance.dataset(scene.uri(), version=made.version).count_rows() == 4


def test_what_has_not_landed_lands_first(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    with cut_off(monkeypatch):
        scene.both(4)
    age(scene.path)
    assert scene.repo.gc(dry_run=True).landed == (
        TableBranch(TWO, "main"),
        TableBranch(ONE, "main"),
    )
    assert scene.values() == [1, 2, 3]
    report = scene.repo.gc()
    assert report.landed == (TableBranch(TWO, "main"), TableBranch(ONE, "main"))
    assert report.states == 0
    assert scene.values() == [1, 2, 3, 4]
    assert scene.repo.gc().landed == ()


def test_a_table_that_diverged_is_told_and_stops_nothing(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave(scene, 7)
    with cut_off(monkeypatch), scene.repo.transaction("main", message="delete") as changes:
        changes.table(ONE).delete("id = 1")
    lance.write_dataset(rows(8), scene.uri(), mode="overwrite")
    age(scene.path)
    report = scene.repo.gc()
    assert [each.table for each in report.diverged] == [ONE]
    assert report.states == 1
    assert scene.seen() == [2, 3]
    scene.repo.commit("as it stands")


@contextmanager
def cut_off(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What is committed meanwhile does not land."""
    with monkeypatch.context() as patch, warnings.catch_warnings():
        patch.setattr("lancewood.repo.commit.transaction.land", _fail)
        warnings.simplefilter("ignore", NotLandedWarning)
        yield


def _fail(*_: Any, **__: Any) -> None:
    raise StorageError("no answer")


# Branches of tables


def on_a_branch(scene: Scene, branch: str = "exp") -> None:
    """A branch with a commit that nothing leads to but the branch."""
    scene.repo.branches.create(branch)
    scene.both(4, branch=branch)


def lance_branches(scene: Scene, name: str = ONE) -> set[str]:
    return {*scene.pylance(name).branches.list()}


def test_branches_of_tables_that_nothing_leads_to_go(scene: Scene) -> None:
    on_a_branch(scene)
    age(scene.path)
    _age_records(scene)
    assert scene.repo.gc().branches == (), "the repository has it"
    scene.repo.branches.delete("exp", force=True)
    assert scene.repo.gc(dry_run=True).branches == (
        TableBranch(TWO, "exp"),
        TableBranch(ONE, "exp"),
    )
    assert lance_branches(scene) == {"exp"}
    assert scene.repo.gc().branches == (TableBranch(TWO, "exp"), TableBranch(ONE, "exp"))
    assert lance_branches(scene) == set()
    assert not (Path(scene.uri()) / "tree" / "exp").exists()
    on_a_branch(scene)
    assert scene.counts("exp") == (4, 4)


def test_a_branch_that_a_reflog_still_leads_to_stays(scene: Scene) -> None:
    scene.repo.switch("exp", create=True)
    scene.both(4, branch="exp")
    scene.repo.switch("main")
    scene.repo.branches.delete("exp", force=True)
    age(scene.path)
    _age_records(scene)
    assert scene.repo.gc().branches == ()
    forget(scene)
    assert len(scene.repo.gc().branches) == 2
    scene.both(5)


def test_a_branch_that_is_young_or_needed_or_not_ours_stays(scene: Scene) -> None:
    on_a_branch(scene)
    scene.table().branches.create("theirs")
    scene.repo.branches.delete("exp", force=True)
    assert scene.repo.gc().branches == ()
    scene.table().tags.create("mine", "exp:2")
    age(scene.path)
    _age_records(scene)
    report = scene.repo.gc()
    assert report.branches == (TableBranch(TWO, "exp"),)
    assert ["mine" in each.why for each in report.stays] == [True]
    assert lance_branches(scene) == {"exp", "theirs"}


def test_a_branch_that_comes_back_while_it_is_to_go_stays(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_a_branch(scene)
    tip = scene.repo.branches.list()["exp"]
    scene.repo.branches.delete("exp", force=True)
    age(scene.path)
    _age_records(scene)

    def declared(*given: Any) -> bool:
        done = declare(*given)
        with suppress(Exception):
            scene.again().branches.create("exp", at=tip)
        return done

    monkeypatch.setattr(deletion, "declare", declared)
    report = scene.repo.gc()
    assert report.branches == ()
    assert {each.why for each in report.stays} == {"the repository has a branch of that name"}
    assert scene.counts("exp") == (4, 4)
    scene.both(5, branch="exp")


def test_who_writes_to_a_branch_that_is_leaving_steps_back(scene: Scene) -> None:
    on_a_branch(scene)
    scene.repo.branches.delete("exp", force=True)
    scene.repo.branches.create("exp")
    root = open_store(Path(scene.uri()) / "tree" / "exp")
    assert declare(root, Intent("delete"), None)
    with pytest.raises(RetryableConflictError, match="being deleted"):
        scene.repo.transaction("exp", message="x").table(ONE)
    root.delete(["_transactions/lancewood-intent.json"])
    scene.both(5, branch="exp")


def _age_records(scene: Scene) -> None:
    """Branches made long ago, as their records say."""
    for each in (scene.path / "tables").glob("*/_refs/branches/*.json"):
        record = json.loads(each.read_text())
        record["createAt"] -= LONG_AGO
        record["create_at"] = record["createAt"]
        each.write_text(json.dumps(record))


# Tables that were never made


def never_made(scene: Scene, name: str = "new") -> Path:
    changes = scene.repo.transaction("main", message="never")
    changes.create_table(name, FIRST)
    changes.tree(scene.repo.branches.list()["main"])
    changes.abandon()
    return scene.path / "tables" / f"{name}.lance"


def test_the_place_of_a_table_that_was_never_made_goes(scene: Scene) -> None:
    location = never_made(scene)
    assert scene.repo.gc().in_flight == 1
    assert location.is_dir()
    age(scene.path)
    assert scene.repo.gc(dry_run=True).tables == ("tables/new.lance",)
    assert location.is_dir()
    report = scene.repo.gc()
    assert report.tables == ("tables/new.lance",)
    assert not location.exists()
    with scene.repo.transaction("main", message="now") as changes:
        changes.create_table("new", FIRST)
    assert scene.values("new") == [1, 2, 3]


def test_a_table_that_was_committed_and_has_not_landed_is_no_leftover(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    with cut_off(monkeypatch), scene.repo.transaction("main", message="new") as changes:
        changes.create_table("new", FIRST)
    age(scene.path)
    with monkeypatch.context() as patch:
        patch.setattr("lancewood.repo.gc.collecting.land_pin", _fail)
        report = scene.repo.gc()
    assert report.tables == ()
    assert [each.what for each in report.stays] == ["table new on branch main"]
    assert scene.repo.gc().landed == (TableBranch("new", "main"),)
    assert scene.values("new") == [1, 2, 3]


def test_files_of_others_at_such_a_place_stay(scene: Scene) -> None:
    location = never_made(scene)
    (location / "notes.txt").write_text("mine")
    age(scene.path)
    assert scene.repo.gc().tables == ("tables/new.lance",)
    assert [each.name for each in location.iterdir()] == ["notes.txt"]


# Files of git, and of tables


def test_locks_of_dead_processes_go(scene: Scene) -> None:
    dead = scene.path / "refs" / "heads" / "main.lock"
    dead.write_bytes(f"{os.getpid()} 1 {lockfile._namespace()} here\n".encode())
    foreign = scene.path / "packed-refs.lock"
    foreign.write_bytes(b"")
    assert scene.repo.gc(dry_run=True).files == (str(dead),)
    assert dead.exists()
    assert scene.repo.gc().files == (str(dead),)
    assert not dead.exists()
    assert foreign.exists()
    foreign.unlink()


def test_data_files_go_only_with_the_cleanup_of_the_tables(scene: Scene) -> None:
    leave(scene, 5, 6)
    data = Path(scene.uri()) / "data"
    assert len([*data.iterdir()]) == 2
    age(scene.path)
    assert scene.repo.gc().cleaned == ()
    assert len([*data.iterdir()]) == 2
    report = scene.repo.gc(tables=True)
    cleaned = {spot: each.data_files for spot, each in report.cleaned}
    assert cleaned == {TableBranch(ONE, "main"): 1, TableBranch(TWO, "main"): 0}
    assert len([*data.iterdir()]) == 1
    assert scene.counts() == (3, 3)


def test_nothing_goes_where_a_commit_cannot_be_read(scene: Scene) -> None:
    scene.both(4)
    leave(scene, 5)
    age(scene.path)
    before, first = states(scene), scene.repo.at("HEAD~1").hash
    file = scene.path / "objects" / first[:2] / first[2:]
    bytes_of_it = file.read_bytes()
    file.unlink()
    with pytest.raises(NotFoundError, match=first[:12]):
        Repository.open(scene.path).gc()
    assert states(scene) == before
    file.write_bytes(bytes_of_it)


# Tables elsewhere


def shared(scene: Scene, tmp_path: Path) -> tuple[Repository, Path]:
    """A table elsewhere that two repositories have."""
    location = tmp_path / "shared.lance"
    lw.create(location, FIRST)
    other = Repository.init(tmp_path / "other")
    other.add("theirs", location)
    scene.repo.add("shared", location)
    return other, location


def stage_in(repo: Repository, name: str) -> None:
    changes = repo.transaction("main", message="never")
    changes.table(name).append(rows(9))
    changes.tree(repo.branches.list()["main"])
    changes.abandon()


def test_states_that_another_repository_needs_stay(scene: Scene, tmp_path: Path) -> None:
    other, location = shared(scene, tmp_path)
    with other.transaction("main", message="theirs") as changes:
        changes.table("theirs").append(rows(4))
    stage_in(other, "theirs")
    stage_in(scene.repo, "shared")
    age(location.parent, location.name)
    report = scene.repo.gc()
    assert report.states == 2, "those that neither leads to"
    assert other.at().table("theirs").count_rows() == 4
    assert other.at().pin("theirs").manifest.removeprefix("_versions/") in {
        each.name for each in (location / "_versions").iterdir()
    }


def test_nothing_of_a_table_goes_where_its_other_repository_is_gone(
    scene: Scene, tmp_path: Path
) -> None:
    other, location = shared(scene, tmp_path)
    stage_in(scene.repo, "shared")
    age(location.parent, location.name)
    shutil.move(other.path, tmp_path / "elsewhere")
    report = scene.repo.gc()
    assert report.states == 0
    assert [each.what for each in report.stays] == ["everything of table shared"]
    assert "tags.delete" in report.stays[0].why


def test_a_repository_that_moved_tells_its_tables(scene: Scene, tmp_path: Path) -> None:
    location = tmp_path / "apart.lance"
    lw.create(location, FIRST)
    scene.repo.add("apart", location)
    moved = tmp_path / "moved"
    shutil.move(scene.path, moved)
    repo = Repository.open(moved)
    assert not repo.fsck().is_ok
    assert repo.gc(dry_run=True).joined == repo.gc().joined == ("apart",)
    assert repo.fsck().is_ok
    lw.open(location).cleanup()
    copy = tmp_path / "copy"
    shutil.copytree(moved, copy)
    assert Repository.open(copy).gc().joined == (), "the first one is still there"


def test_a_table_that_cannot_be_opened_at_all_stops_nothing(
    scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    location = tmp_path / "apart.lance"
    lw.create(location, FIRST)
    scene.repo.add("apart", location)
    leave(scene, 4)
    age(scene.path)

    def refuse(*_: Any, **__: Any) -> None:
        raise UnsupportedError("there is no way to that store from here")

    monkeypatch.setattr("lancewood.repo.gc.needed.main_location_of", refuse)
    report = scene.again().gc()
    assert report.states == 1
    assert [each.what for each in report.stays] == ["everything of table apart"]


def test_states_stay_that_the_log_of_a_lost_branch_leads_to(scene: Scene) -> None:
    on_a_branch(scene)
    scene.both(7, branch="exp")
    age(scene.path)
    _age_records(scene)
    before, ref = states(scene, branch="exp"), scene.path / "refs/heads/exp"
    tip = ref.read_text()
    ref.unlink()
    report = scene.again().gc()
    assert (report.states, report.branches) == (0, ())
    assert states(scene, branch="exp") == before
    ref.write_text(tip)
    assert scene.counts("exp") == (5, 5)


def test_a_collection_that_dies_anywhere_loses_nothing(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.both(4)
    monkeypatch.setattr("tests.repo.faults.OPENING", (*OPENING, "lancewood.repo.context"))
    numbers = count()

    def once(at: int) -> bool:
        """Whether it came to its end before it was to die."""
        branch = f"b{next(numbers)}"
        on_a_branch(scene, branch)
        scene.repo.branches.delete(branch, force=True)
        leave(scene, 5)
        never_made(scene, f"never-{branch}")
        age(scene.path)
        _age_records(scene)
        with at_store_call(at, "kill") as steps:
            end = outcome(lambda: scene.again().gc())
        assert steps.is_over == (end == "done")
        return steps.is_over

    dies(once, scene)
    assert lance_branches(scene) == set()


def dies(once: Callable[[int], bool], scene: Scene) -> None:
    """At every third step, where not every one is asked for: there are many alike."""
    for at in hurting(3):
        is_over = once(at)
        assert scene.counts() == (4, 4)
        assert scene.counts("main~1") == (3, 3)
        age(scene.path)  # what dies is not taken for somebody at work for ever
        report = scene.again().gc()
        assert not report.stays, report.stays
        assert {*scene.pylance().branches.list()} == set()
        assert not [*(scene.path / "tables").glob("never*")]
        assert len(states(scene)) == 2
        if is_over:
            return
    pytest.fail("the work never came to its end")


def test_a_table_with_rows_is_never_a_leftover(scene: Scene) -> None:
    location = scene.path / "tables" / "mine.lance"
    lw.create(location, pa.table({"a": [1]}))
    age(scene.path)
    report = scene.repo.gc()
    assert report.tables == ()
    assert lw.open(location).count_rows() == 1
