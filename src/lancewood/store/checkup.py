"""Whether a store keeps its promises, found out by trying each of them in a scratch directory.

Tries the verbs of a store, and on a local disk what commits depend on: links, syncing, space.
Everything it writes lies below one directory with a random name and is removed again, whatever
happens.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import TypeAlias
from uuid import uuid4

from lancewood.errors import LancewoodError, NotFoundError, StorageError
from lancewood.store.base import ReplaceOutcome, Store
from lancewood.store.disk import DiskStore
from lancewood.store.mounts import LOCAL_KINDS, mount_kind
from lancewood.store.probe import probe_put_if_absent

CORNER = "_lancewood_doctor"
_SKEW = 5.0
_SLOW_SYNC = 0.05
_LITTLE_SPACE = 1 << 30
_TRIES = 5
_RIGHTS = "this is not permitted here: ask for the right to read, write and delete"


class CheckStatus(StrEnum):
    """The result of a check. ``SKIP`` says that there was nothing to check."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"
    SKIP = "skip"


@dataclass(frozen=True, slots=True)
class StoreCheck:
    """One promise: whether it held, what was seen, and what to do about it."""

    name: str
    status: CheckStatus
    figure: str
    advice: str | None = None


Answer: TypeAlias = tuple[CheckStatus, str, str | None]


def run_check(name: str, ask: Callable[[], Answer], advice: str) -> StoreCheck:
    """Run a check; an error is a failed check with that advice."""
    try:
        return StoreCheck(name, *ask())
    except (LancewoodError, OSError) as error:
        return StoreCheck(name, CheckStatus.FAIL, str(error), advice)


def check_store(store: Store, *, read_only: bool = False) -> Iterator[StoreCheck]:
    """Run every check of a store and yield its result. Nothing is left behind when the iterator
    ends."""
    reachable = run_check(
        "reachable", lambda: _reach(store), "check the address, the network and the credentials"
    )
    yield reachable
    if reachable.status is CheckStatus.FAIL:
        return
    root = store.location("x") if isinstance(store, DiskStore) else None
    if root is not None:
        yield from _check_disk(os.path.dirname(root))
    if read_only:
        return
    name = f"{CORNER}/{uuid4().hex}"
    made = _missing_directories(store)
    try:
        yield from _check_writes(store.at(name))
    finally:
        failure = _clean(store, name, made)
    if failure is not None:
        advice = f"delete {store.uri}/{name} by hand"
        yield StoreCheck("clean up", CheckStatus.FAIL, str(failure), advice)


def _check_writes(corner: Store) -> Iterator[StoreCheck]:
    written = run_check("write", lambda: _write(corner), _RIGHTS)
    yield written
    if written.status is CheckStatus.FAIL:
        return
    yield from _check_verbs(corner)
    if isinstance(corner, DiskStore):
        yield from _check_local_writes(corner)


def _check_verbs(corner: Store) -> Iterator[StoreCheck]:
    yield run_check("read", lambda: _read(corner), _RIGHTS)
    yield run_check(
        "put-if-absent",
        lambda: _put_if_absent(corner),
        "commits would be lost here: use another store, or Access(unsafe=True) with one writer",
    )
    yield run_check(
        "compare-and-swap",
        lambda: _compare_and_swap(corner),
        "branches and tags could be lost here: use another store",
    )
    yield run_check(
        "listing after write",
        lambda: _listing(corner),
        "new versions would be seen late here: use a store with consistent listings",
    )
    yield run_check(
        "listing order",
        lambda: _listing_order(corner),
        "the newest version would be missed here: use a store that lists in order",
    )
    yield run_check("clock", lambda: _clock(corner), "the time of an object cannot be read")
    yield run_check("delete", lambda: _delete(corner), _RIGHTS)


def _reach(store: Store) -> Answer:
    started = time.perf_counter()
    next(store.names(""), None)
    return CheckStatus.OK, _ms(time.perf_counter() - started), None


def _write(corner: Store) -> Answer:
    started = time.perf_counter()
    corner.put("first", b"first")
    return CheckStatus.OK, _ms(time.perf_counter() - started), None


def _read(corner: Store) -> Answer:
    started = time.perf_counter()
    if corner.get("first") != b"first" or corner.get_range("first", 1, 3) != b"irs":
        raise StorageError("what was written is not what is read")
    return CheckStatus.OK, _ms((time.perf_counter() - started) / 2), None


def _put_if_absent(corner: Store) -> Answer:
    probe_put_if_absent(corner, "probe")
    return CheckStatus.OK, "a key is created once", None


def _compare_and_swap(corner: Store) -> Answer:
    corner.put("swap", b"old")
    seen = corner.head("swap").etag
    if corner.replace("swap", b"new", seen) is not ReplaceOutcome.REPLACED:
        raise StorageError("an object that nobody had changed was not replaced")
    if corner.replace("swap", b"stale", seen) is not ReplaceOutcome.CHANGED:
        raise StorageError("an object was replaced although it had changed")
    if corner.get("swap") != b"new":
        raise StorageError("a refused replacement changed the object")
    return CheckStatus.OK, "only the version that was seen is replaced", None


def _listing(corner: Store) -> Answer:
    corner.put("list/one", b"1")
    if set(corner.names("list")) != {"one"}:
        raise StorageError("an object that was just written is not listed")
    corner.delete(["list/one"])
    if set(corner.names("list")):
        raise StorageError("an object that was just deleted is still listed")
    return CheckStatus.OK, "seen at once", None


def _listing_order(corner: Store) -> Answer:
    if not corner.lists_in_order:
        return CheckStatus.SKIP, "not promised here, and not needed", None
    names = [f"{number:03d}" for number in (7, 70, 1, 100, 33, 10)]
    for name in names:
        corner.put(f"order/{name}", b"")
    if list(corner.names("order")) != sorted(names):
        raise StorageError("names are listed out of order")
    return CheckStatus.OK, f"{len(names)} names in order", None


def _clock(corner: Store) -> Answer:
    before = datetime.now(UTC)
    if isinstance(corner, DiskStore):
        # The store sets times itself, so the file system's own clock is read from a plain file.
        path = corner.location("clock")
        with open(path, "xb") as file:
            file.write(b"t")
        modified = datetime.fromtimestamp(os.stat(path).st_mtime, UTC)
    else:
        corner.put("clock", b"t")
        modified = corner.head("clock").modified
    after = datetime.now(UTC)
    early = (before - modified).total_seconds()
    late = (modified - after).total_seconds()
    # Stamps are whole seconds in many stores, and ticks on a disk.
    skew = max(early - 1, late, 0.0)
    if skew > _SKEW:
        figure = f"the store's clock is {skew:.0f} s {'behind' if early > late else 'ahead'}"
        return CheckStatus.WARN, figure, "set the clocks: as-of reads and cleanup go by time"
    return CheckStatus.OK, f"within {skew + 1:.0f} s", None


def _delete(corner: Store) -> Answer:
    corner.delete(["first"])
    with suppress(NotFoundError):
        corner.get("first")
        raise StorageError("a deleted object can still be read")
    return CheckStatus.OK, "gone at once", None


def _check_disk(root: str) -> Iterator[StoreCheck]:
    there = _existing(root)
    yield run_check("free space", lambda: _space(there), "the disk does not say")
    kind = mount_kind(os.path.realpath(there))
    if kind in LOCAL_KINDS:
        yield StoreCheck("file system", CheckStatus.OK, kind)
    else:
        yield StoreCheck(
            "file system",
            CheckStatus.WARN,
            kind or "unknown",
            "commits are safe if links below are ok; listings are not remembered, so large "
            "tables commit more slowly",
        )


def _space(path: str) -> Answer:
    usage = shutil.disk_usage(path)
    figure = f"{usage.free / 1e9:.1f} GB of {usage.total / 1e9:.1f} GB free"
    if usage.free < _LITTLE_SPACE:
        return CheckStatus.WARN, figure, "make room before large writes"
    return CheckStatus.OK, figure, None


def _check_local_writes(corner: DiskStore) -> Iterator[StoreCheck]:
    yield run_check(
        "hard links",
        lambda: _links(corner),
        "without links or a rename that keeps what is there nothing can be committed here",
    )
    yield run_check("flock", lambda: _flock(corner), "writers of this machine cannot queue")
    yield run_check("fsync", lambda: _fsync(corner), "the disk does not sync: a power cut may lose")


def _links(corner: DiskStore) -> Answer:
    path = corner.location("linked")
    with open(path, "xb"):
        pass
    try:
        os.link(path, f"{path}.too")
    except OSError as error:
        figure = f"not here ({error.strerror})"
        return (
            CheckStatus.WARN,
            figure,
            "a rename is used instead; put-if-absent above shows whether that works",
        )
    return CheckStatus.OK, "work", None


def _flock(corner: DiskStore) -> Answer:
    descriptor = os.open(os.path.dirname(corner.location("x")), os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return (
            CheckStatus.WARN,
            f"not here ({error.strerror})",
            "writers get in each other's way more",
        )
    finally:
        os.close(descriptor)
    return CheckStatus.OK, "works", None


def _fsync(corner: DiskStore) -> Answer:
    root = os.path.dirname(corner.location("x"))
    synced = _seconds_per_put(DiskStore(root, fsync=True), "synced")
    bare = _seconds_per_put(DiskStore(root, fsync=False), "bare")
    figure = f"{_ms(synced)} a synced write, {_ms(bare)} without"
    if not corner.fsync:
        return CheckStatus.WARN, figure, "LANCEWOOD_FSYNC is off: a power cut may lose commits"
    if synced > _SLOW_SYNC:
        return (
            CheckStatus.WARN,
            figure,
            "every commit waits for this disk a few times; use a faster one",
        )
    return CheckStatus.OK, figure, None


def _seconds_per_put(store: DiskStore, name: str) -> float:
    store.put(f"{name}-warm", b"x")
    started = time.perf_counter()
    for number in range(_TRIES):
        store.put(f"{name}-{number}", b"x" * 1024)
    return (time.perf_counter() - started) / _TRIES


def _clean(store: Store, name: str, made: list[str]) -> LancewoodError | None:
    """Remove the scratch directory, with every directory that was made for it; returns what
    failed."""
    failure: LancewoodError | None = None
    for _ in range(_TRIES):
        try:
            store.delete([each.key for each in store.list(name)])
            store.prune(name)
            store.prune(CORNER)
            failure = None
            break
        except LancewoodError as error:
            failure = error
    for directory in made:
        with suppress(OSError):
            os.rmdir(directory)
    return failure


def _missing_directories(store: Store) -> list[str]:
    """The directories above the scratch directory that do not exist yet, the deepest first."""
    if not isinstance(store, DiskStore):
        return []
    root = os.path.dirname(store.location("x"))
    there = _existing(root)
    missing = []
    while root != there:
        missing.append(root)
        root = os.path.dirname(root)
    return missing


def _existing(path: str) -> str:
    """The path, or its deepest ancestor that exists."""
    while not os.path.isdir(path) and path != os.path.dirname(path):
        path = os.path.dirname(path)
    return path


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.2f} ms"
