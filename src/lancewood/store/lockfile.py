"""Locks among the processes of one machine, for the disk store.

``held`` is mutual exclusion by a lock file that names its owner; a compare-and-swap depends on it.
``queued`` is a courtesy on a directory, and may not be obtained.
"""

from __future__ import annotations

import fcntl
import os
import random
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from lancewood.errors import StorageError
from lancewood.store.wholefile import move_if_absent, stage

PATIENCE = 10.0
"""Seconds to wait for the owner of a lock file; its work takes a millisecond."""
COURTESY = 2.0
"""Seconds to wait in a queue before going on without it."""


@contextmanager
def held(
    lock: str,
    patience: float = PATIENCE,
    *,
    staging: str | None = None,
    like: str | None = None,
    unowned_after: float | None = None,
) -> Iterator[None]:
    """Own the lock file while the block runs; see ``acquire``."""
    acquire(lock, patience, staging=staging, like=like, unowned_after=unowned_after)
    try:
        yield
    finally:
        release(lock)


def acquire(
    lock: str,
    patience: float = PATIENCE,
    *,
    staging: str | None = None,
    like: str | None = None,
    unowned_after: float | None = None,
) -> None:
    """Own the lock file until ``release``.

    A lock whose owner is proven dead on this machine is taken over; any other is waited for, and
    after ``patience`` seconds ``StorageError`` is raised. A lock that cannot be judged is not
    removed; where other programs make locks of that name without naming an owner, one older than
    ``unowned_after`` seconds counts as abandoned. ``staging`` is the directory where the file is
    made, if not beside the lock; ``like`` is a lock that the caller holds, or a badge of its
    thread, to which this one can be a hard link.
    """
    me = identity(os.getpid())
    deadline = time.monotonic() + patience
    pause = 0.0005
    place = staging or os.path.dirname(lock)
    while os.path.lexists(lock) or not _claim(lock, me, place, like):
        if _take_over(lock, unowned_after):
            continue
        if time.monotonic() > deadline:
            raise StorageError(
                f"lock {lock} is still held after {patience:g} s by {_owner(lock)}; "
                "if that process is gone for good, delete the lock file",
                lock=lock,
            )
        time.sleep(pause * random.uniform(0.5, 1.5))
        pause = min(pause * 2, 0.02)


def release(lock: str) -> None:
    """Release a lock file that was acquired."""
    with suppress(FileNotFoundError):
        os.unlink(lock)


def _claim(lock: str, me: bytes, place: str, like: str | None) -> bool:
    """Make the lock. It appears with its owner inside, so that nobody sees one without."""
    if like is not None:
        try:
            os.link(like, lock)
            return True
        except FileExistsError:
            # A network file system may send a request twice and return the second answer.
            return os.path.lexists(lock) and os.path.samefile(like, lock)
        except OSError:
            pass  # no hard links, or the badge is gone; a new file shows what is wrong
    return move_if_absent(stage(place, me, sync=False), lock)


def is_dead(lock: str, unowned_after: float | None = None) -> bool:
    """Whether an existing lock is no longer held, by the rules of ``held``."""
    try:
        descriptor = os.open(lock, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        owner = os.read(descriptor, 1024)
        return _is_dead(owner) or _is_left_behind(owner, descriptor, unowned_after)
    except OSError:
        return False
    finally:
        os.close(descriptor)


def release_dead(lock: str, unowned_after: float | None = None) -> bool:
    """Remove a lock that is no longer held, by the rules of ``held``; False if it stays."""
    return os.path.lexists(lock) and _take_over(lock, unowned_after)


@cache
def identity(pid: int) -> bytes:
    """Identify a process: its pid and start, pid namespace and boot, so that a pid reused later, in
    another container or after a reboot is not mistaken for it."""
    return f"{pid} {_start_of(pid)} {_namespace()} {socket.gethostname()}\n".encode()


def _namespace() -> str:
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot}/{os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return "unknown"


def _start_of(pid: int) -> str | None:
    """When a process of this namespace started, in ticks; None if it does not exist or is dead."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
        fields = stat[stat.rindex(b")") + 2 :].split()
        if fields[0] in (b"Z", b"X") and len(os.listdir(f"/proc/{pid}/task")) <= 1:
            return None
        return fields[19].decode()
    except (FileNotFoundError, ProcessLookupError):
        return None


def _is_dead(owner: bytes) -> bool:
    """Whether the owner that a lock names is proven gone; False in doubt."""
    try:
        pid, start, namespace, _ = owner.decode().split()
        here = _namespace()
        return here != "unknown" and namespace == here and _start_of(int(pid)) != start
    except (OSError, ValueError):
        return False


def _is_left_behind(owner: bytes, descriptor: int, unowned_after: float | None) -> bool:
    """Whether a lock that names no owner is too old to be still held."""
    fields = owner.split()
    if unowned_after is None or (len(fields) == 4 and fields[0].isdigit()):
        return False
    return time.time() - os.fstat(descriptor).st_mtime > unowned_after


def _take_over(lock: str, unowned_after: float | None = None) -> bool:
    """Remove the lock of a dead owner. Only a process that takes over from a dead owner removes
    another's lock, and the flock on that very file admits one at a time, so that a fresh lock is
    never hit."""
    try:
        descriptor = os.open(lock, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    try:
        owner = os.read(descriptor, 1024)
        if not _is_dead(owner) and not _is_left_behind(owner, descriptor, unowned_after):
            return False
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(descriptor), os.stat(lock, follow_symlinks=False)):
            os.unlink(lock)
        return True
    except OSError:
        return False
    finally:
        os.close(descriptor)


def _owner(lock: str) -> str:
    try:
        pid, _, _, host = Path(lock).read_text(encoding="utf-8").split()
        return f"process {pid} on {host}"
    except (OSError, ValueError):
        return "an unknown owner"


@contextmanager
def queued(directory: str, courtesy: float = COURTESY) -> Iterator[None]:
    """Wait in the queue of a directory, then run the block: an flock on the directory itself.

    Raises nothing itself: without a directory, without flock, or when the wait times out, the block
    runs all the same. Not reentrant: a second turn inside the first waits in vain.
    """
    try:
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        yield
        return
    if not _lock_within(descriptor, courtesy):
        yield
        return
    try:
        yield
    finally:
        _let_go(descriptor)


def _lock_within(descriptor: int, courtesy: float) -> bool:
    """Lock, or return False after ``courtesy`` seconds and leave the descriptor to close itself."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except BlockingIOError:
        pass
    except OSError:
        os.close(descriptor)
        return False
    # A wait inside the kernel is in order of arrival but has no timeout. A separate thread gives it
    # one: it hands the lock over, or drops it when nobody waits any more.
    settled = threading.Lock()
    answered = threading.Event()
    state = {"got": False, "left": False}

    def wait() -> None:
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        with settled:
            state["got"] = True
            if state["left"]:
                _let_go(descriptor)
        answered.set()

    threading.Thread(target=wait, name="lancewood-turn", daemon=True).start()
    try:
        answered.wait(courtesy)
    finally:
        with settled:
            state["left"] = not state["got"]
    return state["got"]


def _let_go(descriptor: int) -> None:
    # Unlocked explicitly, because a child that was forked meanwhile shares the lock.
    with suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_UN)
    os.close(descriptor)
