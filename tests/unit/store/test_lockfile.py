"""Lock files with an owner, and the courtesy queue."""

from __future__ import annotations

import fcntl
import os
import subprocess
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from lancewood.errors import StorageError
from lancewood.store import lockfile
from lancewood.store.lockfile import held, identity, queued, release_dead

SHORT = 0.05


def lock_of_a_dead_process() -> bytes:
    """What a process would have written about itself before it ended."""
    with subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE) as child:
        return identity(child.pid)


def test_a_lock_is_there_while_the_block_runs_and_gone_after(tmp_path: Path) -> None:
    lock = tmp_path / "k.lock"
    with held(str(lock)):
        assert lock.read_text().startswith(f"{os.getpid()} ")
        assert os.listdir(tmp_path) == ["k.lock"]
    assert os.listdir(tmp_path) == []
    with pytest.raises(ZeroDivisionError), held(str(lock)):
        raise ZeroDivisionError
    assert os.listdir(tmp_path) == []


def test_the_lock_of_a_living_process_is_waited_for_then_named(tmp_path: Path) -> None:
    lock = tmp_path / "k.lock"
    with held(str(lock)):
        started = time.monotonic()
        with pytest.raises(StorageError, match=f"process {os.getpid()} on"), held(str(lock), SHORT):
            pytest.fail("two owners at once")
        assert time.monotonic() - started >= SHORT
        assert lock.exists()


def test_the_lock_of_a_dead_process_is_taken_over(tmp_path: Path) -> None:
    lock = tmp_path / "k.lock"
    lock.write_bytes(lock_of_a_dead_process())
    with held(str(lock), SHORT):
        assert lock.read_bytes() == identity(os.getpid())
    assert os.listdir(tmp_path) == []


def test_a_process_number_that_was_used_again_is_not_the_owner(tmp_path: Path) -> None:
    pid, start, rest = identity(os.getpid()).decode().split(" ", 2)
    lock = tmp_path / "k.lock"
    lock.write_text(f"{pid} {int(start) - 1} {rest}")
    with held(str(lock), SHORT):
        assert lock.read_bytes() == identity(os.getpid())


def test_an_ended_child_that_nobody_waited_for_is_dead(tmp_path: Path) -> None:
    lock = tmp_path / "k.lock"
    child = subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE)
    try:
        lock.write_bytes(identity(child.pid))
        with pytest.raises(StorageError), held(str(lock), SHORT):
            pytest.fail("the child lives")
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        with held(str(lock), SHORT):
            assert lock.read_bytes() == identity(os.getpid())
    finally:
        child.communicate()


@pytest.mark.parametrize("owner", [b"", b"someone", b"1 2 3 4 5", b"\xff\xff 1 2 3", b"x y z w"])
def test_a_lock_that_cannot_be_judged_is_left_alone(tmp_path: Path, owner: bytes) -> None:
    lock = tmp_path / "k.lock"
    lock.write_bytes(owner)
    with pytest.raises(StorageError, match="delete the lock file"), held(str(lock), SHORT):
        pytest.fail("it was not ours to take")
    assert lock.read_bytes() == owner


def test_a_lock_from_another_machine_or_boot_is_left_alone(tmp_path: Path) -> None:
    pid, start, _, host = lock_of_a_dead_process().decode().split()
    lock = tmp_path / "k.lock"
    lock.write_text(f"{pid} {start} another-boot/pid:[1] {host}")
    with pytest.raises(StorageError, match=f"process {pid} on"), held(str(lock), SHORT):
        pytest.fail("it was not ours to take")


def test_heirs_of_one_dead_owner_never_own_together(tmp_path: Path) -> None:
    lock = tmp_path / "k.lock"
    dead = lock_of_a_dead_process()
    inside: list[int] = []
    overlaps: list[int] = []

    def inherit() -> None:
        together.wait(10)
        with held(str(lock)):
            inside.append(1)
            overlaps.append(len(inside))
            time.sleep(0.001)
            inside.pop()

    for _ in range(20):
        lock.write_bytes(dead)
        together = threading.Barrier(4)
        heirs = [threading.Thread(target=inherit) for _ in range(4)]
        for heir in heirs:
            heir.start()
        for heir in heirs:
            heir.join()
    assert overlaps == [1] * 80


def test_a_turn_keeps_others_out_and_lets_them_in_after(tmp_path: Path) -> None:
    order: list[str] = []

    def second() -> None:
        with queued(str(tmp_path)):
            order.append("second")

    with queued(str(tmp_path)):
        other = threading.Thread(target=second)
        other.start()
        other.join(0.1)
        order.append("first")
    other.join(10)
    assert order == ["first", "second"]
    assert os.listdir(tmp_path) == []


def test_a_wait_that_runs_out_goes_on_and_holds_nothing_later(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    with queued(str(tmp_path)):
        started = time.monotonic()
        with queued(str(tmp_path), SHORT):
            assert time.monotonic() - started >= SHORT
    for _ in range(200):
        if len(os.listdir("/proc/self/fd")) == before:
            break
        time.sleep(0.01)
    assert len(os.listdir("/proc/self/fd")) == before
    with queued(str(tmp_path), 0.0):
        assert _is_locked(tmp_path)
    assert not _is_locked(tmp_path)


def test_without_a_directory_there_is_no_queue_and_no_error(tmp_path: Path) -> None:
    with queued(str(tmp_path / "missing")):
        assert not (tmp_path / "missing").exists()


def test_without_flock_there_is_no_queue_and_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(descriptor: int, operation: int) -> None:
        raise OSError(38, "Function not implemented")

    before = len(os.listdir("/proc/self/fd"))
    monkeypatch.setattr(fcntl, "flock", refuse)
    with queued(str(tmp_path)):
        assert len(os.listdir("/proc/self/fd")) == before


def _is_locked(directory: Path) -> bool:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def test_an_heir_who_is_too_late_leaves_the_new_owner_s_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two judge the same dead owner; the first has taken over before the second goes on."""
    lock = tmp_path / "k.lock"
    lock.write_bytes(lock_of_a_dead_process())
    is_dead = lockfile._is_dead
    with ExitStack() as first:

        def judge(owner: bytes) -> bool:
            verdict = is_dead(owner)
            if verdict:
                monkeypatch.setattr(lockfile, "_is_dead", is_dead)
                first.enter_context(held(str(lock)))
            return verdict

        monkeypatch.setattr(lockfile, "_is_dead", judge)
        with pytest.raises(StorageError, match="still held"), held(str(lock), SHORT):
            pytest.fail("two owners at once")
        assert lock.read_bytes() == identity(os.getpid())


def test_an_old_lock_without_an_owner_is_taken_over_where_the_caller_says_so(
    tmp_path: Path,
) -> None:
    lock = tmp_path / "k.lock"
    lock.write_text("made by another program")
    then = lock.stat().st_mtime - 100
    os.utime(lock, (then, then))
    with pytest.raises(StorageError), held(str(lock), SHORT, unowned_after=1000):
        pytest.fail("too young")
    assert not release_dead(str(lock), 1000)
    with held(str(lock), SHORT, unowned_after=50):
        assert lock.read_bytes() == identity(os.getpid())
        assert not release_dead(str(lock), -1), "old as it may be, it has an owner"
    assert not release_dead(str(lock))


def test_the_lock_is_made_elsewhere_if_that_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "refs").mkdir()
    with held(str(tmp_path / "refs" / "k.lock"), staging=str(tmp_path)):
        assert os.listdir(tmp_path / "refs") == ["k.lock"]
        assert os.listdir(tmp_path) == ["refs"]
    with pytest.raises(FileNotFoundError), held(str(tmp_path / "no/k.lock"), staging=str(tmp_path)):
        pytest.fail("there is no such directory")
    assert os.listdir(tmp_path) == ["refs"]
