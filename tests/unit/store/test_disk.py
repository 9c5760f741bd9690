"""What only the disk store has: an order of system calls, and files that get in the way."""

from __future__ import annotations

import errno
import os
import pickle
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lancewood.errors import InvalidInputError, NotFoundError, StorageError
from lancewood.store.base import PutOutcome, ReplaceOutcome
from lancewood.store.disk import DiskStore


class Spy:
    """The system calls of a store, in order, told with names relative to the root."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = root
        self.seen: list[str] = []
        for name in ("write", "fsync", "link", "replace", "unlink", "mkdir"):
            monkeypatch.setattr(os, name, self._spied(name, getattr(os, name)))

    def _spied(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(first: Any, *others: Any, **named: Any) -> Any:
            target = others[0] if name in ("link", "replace") else first
            self.seen.append(f"{name} {self._tell(target)}")
            return real(first, *others, **named)

        return call

    def _tell(self, target: Any) -> str:
        path = os.readlink(f"/proc/self/fd/{target}") if isinstance(target, int) else str(target)
        told = os.path.relpath(path, self.root)
        return "temp" if os.path.basename(told).startswith(".tmp") else told


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "root"


def fail_with(number: int) -> Callable[..., Any]:
    def fail(*_: Any, **__: Any) -> Any:
        raise OSError(number, os.strerror(number))

    return fail


def test_put_new_is_durable_before_it_is_visible(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = DiskStore(root, fsync=True)
    store.put("v/first", b"1")
    spy = Spy(root, monkeypatch)
    assert store.put_new("v/k", b"2") is PutOutcome.CREATED
    assert spy.seen == ["write temp", "fsync temp", "link v/k", "unlink temp", "fsync v"]


def test_put_is_durable_before_it_is_visible(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = DiskStore(root, fsync=True)
    store.put("v/k", b"1")
    spy = Spy(root, monkeypatch)
    store.put("v/k", b"2")
    assert spy.seen == ["write temp", "fsync temp", "replace v/k", "fsync v"]


def test_replace_works_under_its_lock(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = DiskStore(root, fsync=True)
    store.put("v/k", b"1")
    etag = store.head("v/k").etag
    spy = Spy(root, monkeypatch)
    assert store.replace("v/k", b"2", etag) is ReplaceOutcome.REPLACED
    lock = ["write temp", "link v/k.lock", "unlink temp"]
    work = ["write temp", "fsync temp", "replace v/k", "fsync v"]
    assert spy.seen == [*lock, *work, "unlink v/k.lock"]


def test_new_directories_are_durable_in_their_parents_before_the_file(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spy = Spy(root, monkeypatch)
    store = DiskStore(root, fsync=True)
    store.put_new("a/b/k", b"1")
    made = spy.seen[: spy.seen.index("link a/b/k")]
    synced = ["fsync ..", "fsync .", "fsync a"]
    assert [each for each in made if each in synced] == synced
    assert spy.seen[-1] == "fsync a/b"
    spy.seen.clear()
    store.put_new("a/b/l", b"1")
    assert [each for each in spy.seen if each.startswith(("fsync", "mkdir"))] == [
        "fsync temp",
        "fsync a/b",
    ]


def test_directories_that_others_made_are_made_durable_once(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "a/b").mkdir(parents=True)
    store = DiskStore(root, fsync=True)
    spy = Spy(root, monkeypatch)
    store.put("a/b/k", b"1")
    assert spy.seen[-4:] == ["fsync a/b", "fsync a", "fsync .", "fsync .."]
    store.at("a").put("b/k", b"1")
    assert spy.seen[-2:] == ["replace a/b/k", "fsync a/b"]


def test_sync_makes_files_durable_first_and_each_directory_once(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = ["data/1", "data/2", "data/3", "deep/er/4"]
    for key in keys:
        (root / key).parent.mkdir(parents=True, exist_ok=True)
        (root / key).write_bytes(b"x")
    spy = Spy(root, monkeypatch)
    DiskStore(root, fsync=True).sync(keys)
    assert sorted(spy.seen[:4]) == sorted(f"fsync {key}" for key in keys)
    directories = ["fsync data", "fsync .", "fsync ..", "fsync deep/er", "fsync deep", "fsync ."]
    assert spy.seen[4:] == directories


def test_sync_of_a_missing_file_is_not_found(root: Path) -> None:
    with pytest.raises(NotFoundError, match="data/1"):
        DiskStore(root, fsync=True).sync(["data/1"])


def test_delete_is_durable_once_per_directory(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = DiskStore(root, fsync=True)
    for key in ("a/1", "a/2", "b/3"):
        store.put(key, b"x")
    spy = Spy(root, monkeypatch)
    store.delete(["a/1", "a/2", "b/3", "c/missing"])
    assert [each for each in spy.seen if each.startswith("fsync")] == ["fsync a", "fsync b"]


def test_without_fsync_nothing_is_synced(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spy = Spy(root, monkeypatch)
    store = DiskStore(root, fsync=False)
    store.put("a/b/k", b"1")
    store.put_new("a/b/l", b"1")
    store.replace("a/b/k", b"2", store.head("a/b/k").etag)
    store.copy("a/b/k", "c/k")
    store.sync(["a/b/k", "a/b/l"])
    store.delete(["a/b/k"])
    assert "link a/b/l" in spy.seen
    assert [each for each in spy.seen if each.startswith("fsync")] == []


def test_whoever_has_lost_already_writes_nothing_when_synced(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = DiskStore(root, fsync=True)
    store.put_new("k", b"1")
    spy = Spy(root, monkeypatch)
    assert store.put_new("k", b"2") is PutOutcome.EXISTS
    assert spy.seen == []


@pytest.mark.parametrize(
    ("value", "on"),
    [
        ("0", False),
        ("false", False),
        ("No", False),
        (" off ", False),
        ("1", True),
        ("", True),
        ("yes", True),
        (None, True),
    ],
)
def test_the_environment_says_whether_to_sync(
    value: str | None, on: bool, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LANCEWOOD_FSYNC", raising=False)
    if value is not None:
        monkeypatch.setenv("LANCEWOOD_FSYNC", value)
    assert DiskStore(root).fsync is on
    assert DiskStore(root, fsync=not on).fsync is not on


def test_a_pickled_store_keeps_fsync_whatever_the_environment_says_there(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pickled = pickle.dumps(DiskStore(root, fsync=False).at("a"))
    monkeypatch.setenv("LANCEWOOD_FSYNC", "1")
    again = pickle.loads(pickled)
    assert (again.uri, again.fsync) == (f"{root}/a", False)


@pytest.mark.parametrize("call", ["write", "fsync", "utime"])
def test_a_failed_write_leaves_nothing_and_says_that_nothing_landed(
    call: str, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = DiskStore(root, fsync=True)
    store.put("v/old", b"1")
    etag = store.head("v/old").etag
    monkeypatch.setattr(os, call, fail_with(errno.ENOSPC))
    monkeypatch.setattr(os, "copy_file_range", fail_with(errno.ENOSPC))
    with pytest.raises(StorageError, match=r"cannot create 'v/k' in .*No space left") as caught:
        store.put_new("v/k", b"2")
    assert caught.value.facts["landed"] is False
    with pytest.raises(StorageError, match="cannot write 'v/old'"):
        store.put("v/old", b"2")
    with pytest.raises(StorageError, match="cannot replace 'v/old'"):
        store.replace("v/old", b"2", etag)
    with pytest.raises(StorageError, match="copy 'v/old' to 'v/new'"):
        store.copy("v/old", "v/new")
    monkeypatch.undo()
    assert os.listdir(root / "v") == ["old"]
    assert store.get("v/old") == b"1"


def test_a_failed_link_does_not_say_that_nothing_landed(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "link", fail_with(errno.EIO))
    with pytest.raises(StorageError, match="cannot create 'v/k'") as caught:
        DiskStore(root, fsync=False).put_new("v/k", b"1")
    assert "landed" not in caught.value.facts
    assert os.listdir(root / "v") == []


def test_a_link_that_landed_though_its_answer_says_otherwise_is_ours(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.link

    def asked_twice(source: str, target: str) -> None:
        real(source, target)
        real(source, target)

    monkeypatch.setattr(os, "link", asked_twice)
    store = DiskStore(root, fsync=False)
    assert store.put_new("k", b"1") is PutOutcome.CREATED
    assert store.put_new("k", b"1") is PutOutcome.EXISTS


@pytest.mark.parametrize("number", [errno.EPERM, errno.EOPNOTSUPP])
def test_without_hard_links_a_rename_that_keeps_what_is_there_creates(
    number: int, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "link", fail_with(number))
    store = DiskStore(root, fsync=False)
    assert store.put_new("v/k", b"1") is PutOutcome.CREATED
    assert store.put_new("v/k", b"2") is PutOutcome.EXISTS
    assert store.get("v/k") == b"1"
    assert os.listdir(root / "v") == ["k"]


def test_without_any_safe_way_to_create_nothing_is_created(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import ctypes

    class NoLibrary:
        def __init__(self, *_: object, **__: object) -> None: ...

    monkeypatch.setattr(os, "link", fail_with(errno.EPERM))
    monkeypatch.setattr(ctypes, "CDLL", NoLibrary)
    with pytest.raises(StorageError, match="neither hard links nor"):
        DiskStore(root, fsync=False).put_new("v/k", b"1")
    assert os.listdir(root / "v") == []


def test_short_writes_and_reads_are_continued(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write, pread = os.write, os.pread
    monkeypatch.setattr(os, "write", lambda fd, data: write(fd, bytes(data)[:7]))
    monkeypatch.setattr(os, "pread", lambda fd, size, start: pread(fd, min(size, 5), start))
    store = DiskStore(root, fsync=False)
    data = bytes(range(100))
    store.put("k", data)
    assert store.get("k") == data
    assert store.get_range("k", 10, 33) == data[10:43]


def test_copy_reads_and_writes_where_the_file_system_cannot(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.copy_file_range
    monkeypatch.setattr(os, "copy_file_range", lambda a, b, n, *at: real(a, b, min(n, 1000), *at))
    store = DiskStore(root, fsync=False)
    data = os.urandom(5000)
    store.put("k", data)
    store.copy("k", "in steps")
    monkeypatch.setattr(os, "copy_file_range", fail_with(errno.EXDEV))
    store.copy("k", "by hand")
    assert store.get("in steps") == store.get("by hand") == data


def test_links_are_not_followed_out_of_the_root_nor_inside(root: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_bytes(b"secret")
    store = DiskStore(root, fsync=False)
    store.put("a/k", b"1")
    (root / "file").symlink_to(outside / "secret")
    (root / "dir").symlink_to(outside)
    (root / "a/alias").symlink_to(root / "a/k")
    refused: list[Callable[[], object]] = [
        lambda: store.get("file"),
        lambda: store.get_range("file", 0, 1),
        lambda: store.head("file"),
        lambda: store.copy("file", "copied"),
        lambda: store.replace("file", b"2", "0"),
        lambda: store.get("dir/secret"),
        lambda: store.put("dir/new", b"2"),
        lambda: store.put_new("dir/new", b"2"),
        lambda: store.delete(["dir/secret"]),
        lambda: store.names("dir"),
        lambda: store.list("dir"),
        lambda: store.location("dir/secret"),
        lambda: store.at("dir").get("secret"),
        lambda: store.get("a/alias"),
    ]
    for verb in refused:
        with pytest.raises(InvalidInputError, match="symbolic link"):
            verb()
    assert [info.key for info in store.list()] == ["a/k"]
    assert os.listdir(outside) == ["secret"]


def test_a_write_to_a_link_changes_the_name_and_not_its_target(root: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_bytes(b"kept")
    root.mkdir()
    (root / "k").symlink_to(target)
    store = DiskStore(root, fsync=False)
    assert store.put_new("k", b"1") is PutOutcome.EXISTS
    store.put("k", b"1")
    assert store.get("k") == b"1"
    (root / "l").symlink_to(target)
    store.delete(["l"])
    assert target.read_bytes() == b"kept"


def test_the_root_itself_may_be_a_link(root: Path, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    root.symlink_to(tmp_path / "real")
    store = DiskStore(root, fsync=True)
    store.put_new("a/k", b"1")
    assert (tmp_path / "real/a/k").read_bytes() == b"1"
    assert [info.key for info in store.list()] == ["a/k"]


def test_a_directory_in_the_way_is_named(root: Path) -> None:
    for fsync in (True, False):
        store = DiskStore(root, fsync=fsync)
        store.put("a/b/k", b"1")
        with pytest.raises(NotFoundError, match=r"'a/b' not found .* a directory has that name"):
            store.get("a/b")
        with pytest.raises(StorageError, match=r"cannot create 'a/b' .* a directory has that name"):
            store.put_new("a/b", b"2")
        with pytest.raises(StorageError, match=r"cannot write 'a/b' .* directory"):
            store.put("a/b", b"2")
        with pytest.raises(StorageError, match="cannot delete 'a/b'"):
            store.delete(["a/b"])
        assert os.listdir(root / "a") == ["b"]


def test_a_file_in_the_way_is_named(root: Path) -> None:
    for fsync in (True, False):
        store = DiskStore(root, fsync=fsync)
        store.put("a", b"1")
        with pytest.raises(NotFoundError, match="'a/k' not found"):
            store.get("a/k")
        with pytest.raises(StorageError, match=r"cannot create 'a/k' .* Not a directory"):
            store.put_new("a/k", b"2")
        with pytest.raises(StorageError, match=r"cannot write 'a/k/l' .* Not a directory"):
            store.put("a/k/l", b"2")


@pytest.mark.parametrize("number", [errno.EACCES, errno.EIO])
def test_what_may_not_be_read_is_a_storage_error(
    number: int, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = DiskStore(root, fsync=False)
    store.put("a/k", b"1")
    monkeypatch.setattr(os, "open", fail_with(number))
    monkeypatch.setattr(os, "scandir", fail_with(number))
    monkeypatch.setattr(os, "listdir", fail_with(number))
    with pytest.raises(StorageError, match=f"cannot read 'a/k' .*{os.strerror(number)}"):
        store.get("a/k")
    with pytest.raises(StorageError, match=f"cannot list .*{os.strerror(number)}"):
        next(store.names("a"))
    with pytest.raises(StorageError, match=f"cannot list .*{os.strerror(number)}"):
        next(store.list())
    monkeypatch.undo()


def test_a_pipe_is_no_object_and_does_not_hang(root: Path) -> None:
    store = DiskStore(root, fsync=False)
    store.put("k", b"1")
    os.mkfifo(root / "pipe")
    with pytest.raises(StorageError, match="not a regular file"):
        store.get("pipe")
    with pytest.raises(StorageError, match="not a regular file"):
        store.head("pipe")
    assert [info.key for info in store.list()] == ["k"]


def test_files_in_the_making_are_not_listed(root: Path) -> None:
    store = DiskStore(root, fsync=False)
    store.put("a/k", b"1")
    (root / "a/.tmp0123456789abcdef").write_bytes(b"half")
    assert [*store.names("a")] == ["k"]
    assert [info.key for info in store.list()] == ["a/k"]


def test_names_asks_for_no_more_than_names(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = DiskStore(root, fsync=False)
    for number in range(1000):
        store.put(f"v/{number}", b"")
    with monkeypatch.context() as patch:
        for name in ("stat", "lstat", "open", "fstat"):
            patch.setattr(os, name, fail_with(errno.EIO))
        found = [*store.names("v")]
    assert len(found) == 1000


def test_a_directory_that_was_removed_is_made_again(root: Path) -> None:
    store = DiskStore(root, fsync=True)
    store.put("a/b/k", b"1")
    store.delete(["a/b/k"])
    (root / "a/b").rmdir()
    (root / "a").rmdir()
    assert store.put_new("a/b/k", b"2") is PutOutcome.CREATED
    assert store.get("a/b/k") == b"2"


@pytest.mark.filterwarnings("ignore:.*fork")
def test_replace_takes_over_from_a_dead_process(root: Path) -> None:
    store = DiskStore(root, fsync=False)
    store.put("k", b"1")
    child = os.fork()
    if child == 0:
        try:
            os.replace = lambda *_: os._exit(0)  # dies with the lock in its hand
            store.replace("k", b"2", store.head("k").etag)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    assert "k.lock" in os.listdir(root)
    assert store.replace("k", b"3", store.head("k").etag) is ReplaceOutcome.REPLACED
    assert store.get("k") == b"3"
    assert "k.lock" not in os.listdir(root)


@pytest.mark.filterwarnings("ignore:.*fork")
def test_a_store_works_on_in_a_forked_child(root: Path) -> None:
    store = DiskStore(root, fsync=True)
    store.put("k", b"1")
    with store.turn(""):
        child = os.fork()
        if child == 0:
            done = store.get("k") == b"1" and store.put_new("c", b"2") is PutOutcome.CREATED
            os._exit(0 if done else 1)
        assert os.waitpid(child, 0)[1] == 0
    assert store.get("c") == b"2"


def test_a_repr_tells_where_and_how(root: Path) -> None:
    assert repr(DiskStore(root, fsync=True).at("a")) == f"DiskStore('{root}/a', fsync=True)"


def test_an_old_etag_never_fits_a_new_object_of_the_same_bytes(root: Path) -> None:
    store = DiskStore(root, fsync=False)
    seen = set()
    for _ in range(300):
        store.put_new("k", b"same")
        seen.add(store.head("k").etag)
        store.delete(["k"])
    assert len(seen) == 300


def test_the_time_of_a_file_is_told_by_the_file_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer whose clock is a day ahead, as may be on a disk that machines share."""
    store = DiskStore(tmp_path)
    now = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: now() + 86_400_000_000_000)
    etags = set()
    for _ in range(200):
        store.put("k", b"same")
        found = store.head("k")
        assert abs(found.modified.timestamp() - now() / 1e9) < 3600
        etags.add(found.etag)
    assert len(etags) == 200
