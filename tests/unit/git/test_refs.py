"""Refs: compare-and-swap, logs, HEAD, names that are in each other's way, locks."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Iterable
from pathlib import Path

import pytest

from lancewood.errors import (
    CommitUnknownError,
    InvalidInputError,
    RetryableConflictError,
    StorageError,
)
from lancewood.git import refs as refs_module
from lancewood.git.ref_files import LEFT_BEHIND, locked
from lancewood.git.refs import Refs
from lancewood.git.repository import GitRepository
from lancewood.git.syncing import Unsettled
from lancewood.git.values import ZERO, Hash, Signature
from lancewood.store.lockfile import identity

MAIN = "refs/heads/main"
ADA = Signature("Ada", "ada@example.org", 1_700_000_000, 0)
A, B, C = (Hash(each * 64) for each in "abc")
SHORT = 0.05


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return GitRepository.init(tmp_path / "repo").path


@pytest.fixture
def refs(root: Path) -> Refs:
    return Refs(root, patience=SHORT)


def move(refs: Refs, name: str, old: Hash | None, new: Hash | None) -> bool:
    return refs.move(name, old, new, why="test", by=ADA)


def left_over(root: Path) -> list[str]:
    """Locks and files that never got a name, without the badge that a process wears."""
    odd = [each for each in root.rglob("*") if each.name.startswith(".") or "lock" in each.name]
    mine = identity(os.getpid())
    return [each.name for each in odd if "lock" in each.name or each.read_bytes() != mine]


def test_the_value_is_looked_at_again_under_the_lock(refs: Refs, root: Path) -> None:
    assert move(refs, MAIN, None, A)

    def overtaken(old: Hash, new: Hash) -> Refs:
        """One whom another overtakes after the first look and before the lock."""

        def overtake() -> Unsettled:
            assert move(Refs(root), MAIN, old, new)
            return Unsettled()

        return Refs(root, write_objects=overtake)

    assert not move(overtaken(A, C), MAIN, A, B)
    assert refs.read(MAIN) == C
    assert not move(overtaken(C, A), MAIN, C, None)
    assert [each.new for each in refs.log(MAIN)] == [A, C, A]
    assert left_over(root) == []


def test_objects_are_synced_before_a_ref_names_them(root: Path) -> None:
    seen: list[str] = []

    def write() -> Unsettled:
        seen.append(f"written at {Refs(root).read(MAIN)}")
        return Unsettled(
            (f"{root}/objects",), lambda: seen.append(f"settled at {Refs(root).read(MAIN)}")
        )

    refs = Refs(root, write_objects=write)
    assert move(refs, MAIN, None, A)
    refs.detach_head(A, why="", by=ADA)
    assert seen == ["written at None", "settled at None", f"written at {A}", f"settled at {A}"]
    assert not move(refs, MAIN, B, C)
    assert len(seen) == 4, "who has lost already need not wait for the disk"
    assert move(refs, MAIN, A, None)
    assert seen[4:] == [f"written at {A}", f"settled at {A}"]


def test_a_deleted_ref_takes_its_log_and_its_directories_along(refs: Refs, root: Path) -> None:
    assert move(refs, "refs/heads/a/b/c", None, A)
    assert move(refs, "refs/heads/a/x", None, A)
    assert move(refs, "refs/heads/a/b/c", A, None)
    assert not (root / "refs/heads/a/b").exists()
    assert not (root / "logs/refs/heads/a/b").exists()
    assert list(refs.names("refs/heads/")) == ["refs/heads/a/x"]
    assert move(refs, "refs/heads/a/x", A, None)
    assert (root / "refs/heads").is_dir()
    assert move(refs, MAIN, None, A)
    assert move(refs, MAIN, A, None)
    assert [each.new for each in refs.log("HEAD")] == [ZERO, A]


def test_empty_directories_are_not_in_the_way(refs: Refs, root: Path) -> None:
    (root / "refs/heads/a/b/c").mkdir(parents=True)
    (root / "logs/refs/heads/a/b").mkdir(parents=True)
    assert move(refs, "refs/heads/a", None, A)
    assert refs.read("refs/heads/a") == A


def test_a_ref_that_is_in_the_making_below_is_waited_for(refs: Refs, root: Path) -> None:
    (root / "refs/heads/a").mkdir()
    with (
        locked(str(root / "refs/heads/a/b"), str(root)),
        pytest.raises(RetryableConflictError, match="making a ref below"),
    ):
        move(refs, "refs/heads/a", None, A)


def test_a_ref_that_cannot_be_read_is_not_taken_for_absent(refs: Refs, root: Path) -> None:
    (root / MAIN).symlink_to("/etc/hostname")
    with pytest.raises(InvalidInputError, match="symbolic link"):
        move(refs, MAIN, None, A)


def test_a_failure_before_the_ref_has_its_value_leaves_the_log_as_it_was(
    refs: Refs, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert move(refs, MAIN, None, A)

    def fail(*_: object, **__: object) -> None:
        raise OSError(5, "Input/output error")

    for module, verb in ((refs_module, "sync_paths"), (os, "rename")):
        with monkeypatch.context() as patched:
            patched.setattr(module, verb, fail)
            with pytest.raises(StorageError, match="Input/output error"):
                move(refs, MAIN, A, B)
            with pytest.raises(StorageError, match="Input/output error"):
                move(refs, "refs/heads/new", None, B)
        assert refs.names("refs/") == {MAIN: A}
        assert len(list(refs.log(MAIN))) == len(list(refs.log("HEAD"))) == 1
        assert not (root / "logs/refs/heads/new").exists()
        assert left_over(root) == []


def test_a_move_that_the_disk_does_not_confirm_is_unknown(
    refs: Refs, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail_for_directories(files: object = (), directories: object = ()) -> None:
        if not files:
            raise OSError(5, "Input/output error")

    monkeypatch.setattr(refs_module, "sync_paths", fail_for_directories)
    with pytest.raises(CommitUnknownError, match="has its new value"):
        move(refs, MAIN, None, A)
    assert refs.read(MAIN) == A


def test_a_lock_that_cannot_be_let_go_of_after_the_move_does_not_make_it_a_failure(
    refs: Refs, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unlink = os.unlink

    def fail_for_locks(path: str) -> None:
        if path.endswith(".lock"):
            raise OSError(5, "Input/output error")
        unlink(path)

    with monkeypatch.context() as patched:
        patched.setattr(os, "unlink", fail_for_locks)
        with pytest.raises(CommitUnknownError, match="has its new value"):
            move(refs, MAIN, None, A)
    assert refs.read(MAIN) == A
    assert [each.new for each in refs.log(MAIN)] == [A]


def test_a_deletion_that_cannot_have_the_packed_refs_changes_nothing(
    refs: Refs, root: Path
) -> None:
    assert move(refs, MAIN, None, A)
    (root / "packed-refs.lock").write_text("git's")
    with pytest.raises(RetryableConflictError, match=r"packed-refs\.lock"):
        move(refs, MAIN, A, None)
    assert refs.read(MAIN) == A
    assert len(list(refs.log(MAIN))) == 1


def test_the_disk_is_asked_in_the_right_order(
    refs: Refs, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert move(refs, MAIN, None, A)
    told: list[str] = []
    rename = os.rename

    def sync(files: Iterable[str] = (), directories: Iterable[str] = ()) -> None:
        ends = [Path(each).read_text().split()[-1] for each in files]
        told.append(f"sync {' '.join([*ends, *directories])} at {refs.read(MAIN)}")

    def renamed(source: str, target: str) -> None:
        told.append(f"rename {Path(target).relative_to(root)}")
        rename(source, target)

    monkeypatch.setattr(refs_module, "sync_paths", sync)
    monkeypatch.setattr(os, "rename", renamed)
    assert move(refs, MAIN, A, B)
    assert told == [
        f"sync {B} test at {A}",
        f"rename {MAIN}",
        f"sync {root}/refs/heads at {B}",
    ]


def test_nothing_is_synced_without_fsync(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: pytest.fail("synced"))
    refs = Refs(root, fsync=False)
    assert move(refs, MAIN, None, A)
    assert move(refs, MAIN, A, B)
    refs.switch_head("x", why="", by=ADA)
    assert move(refs, MAIN, B, None)


def dead_identity() -> bytes:
    with subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE) as child:
        return identity(child.pid)


def test_the_lock_of_a_dead_process_is_taken_over(refs: Refs, root: Path) -> None:
    dead = dead_identity()
    for name in (f"{MAIN}.lock", "HEAD.lock"):
        (root / name).write_bytes(dead)
    assert move(refs, MAIN, None, A)
    assert left_over(root) == []


def test_the_lock_of_a_living_process_is_respected_and_named(refs: Refs, root: Path) -> None:
    with (
        locked(str(root / MAIN), str(root)),
        pytest.raises(RetryableConflictError, match=f"main.lock is still held.*{os.getpid()}"),
    ):
        move(refs, MAIN, None, A)
    with locked(str(root / "HEAD"), str(root)), pytest.raises(RetryableConflictError):
        move(refs, MAIN, None, A)
    assert refs.read(MAIN) is None
    assert not (root / "logs" / MAIN).exists()
    assert move(refs, MAIN, None, A)


@pytest.mark.parametrize("content", ["", f"{A}\n", f"ref: {MAIN}\n"])
def test_a_lock_without_an_owner_is_left_alone_for_a_day(
    refs: Refs, root: Path, content: str
) -> None:
    lock = root / f"{MAIN}.lock"
    lock.write_text(content)
    with pytest.raises(RetryableConflictError, match=r"delete the lock file.*after 24 hours"):
        move(refs, MAIN, None, A)
    young = lock.stat().st_mtime - LEFT_BEHIND + 600
    os.utime(lock, (young, young))
    with pytest.raises(RetryableConflictError):
        move(refs, MAIN, None, A)
    os.utime(lock, (young - 1200, young - 1200))
    assert move(refs, MAIN, None, A)


def test_locks_of_the_dead_are_released_and_others_stay(refs: Refs, root: Path) -> None:
    dead = dead_identity()
    for name in ("refs/heads/a.lock", "refs/tags/b.lock", "packed-refs.lock", "config.lock"):
        (root / name).write_bytes(dead)
    (root / "refs/heads/theirs.lock").write_text(f"{A}\n")
    with locked(str(root / MAIN), str(root)):
        released = refs.release_dead_locks()
    assert sorted(Path(each).name for each in released) == [
        "a.lock",
        "b.lock",
        "config.lock",
        "packed-refs.lock",
    ]
    assert left_over(root) == ["theirs.lock"]


def test_two_who_take_over_one_lock_do_not_both_hold_it(root: Path) -> None:
    dead = dead_identity()
    inside = threading.Semaphore(1)
    crowds: list[int] = []

    def enter() -> None:
        with locked(str(root / MAIN), str(root)):
            if not inside.acquire(blocking=False):
                crowds.append(1)
                return
            for _ in range(20):
                os.sched_yield()
            inside.release()

    for _ in range(10):
        (root / f"{MAIN}.lock").write_bytes(dead)
        threads = [threading.Thread(target=enter) for _ in range(6)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
    assert crowds == []
    assert left_over(root) == []


def test_a_directory_that_another_removes_while_we_lock_is_made_again(
    refs: Refs, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link, left = os.link, [3]

    def remove_then_link(source: str, target: str) -> None:
        if left[0] and target.endswith("a/b.lock"):
            left[0] -= 1
            (root / "refs/heads/a").rmdir()
        link(source, target)

    monkeypatch.setattr(os, "link", remove_then_link)
    assert move(refs, "refs/heads/a/b", None, A)
    assert left == [0]
