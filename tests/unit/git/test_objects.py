"""Objects: what is put is read back, damage is told, and sync writes as little as it must."""

from __future__ import annotations

import gc
import itertools
import os
import threading
import zlib
from hashlib import sha256
from pathlib import Path

import pytest

from lancewood.errors import (
    FormatError,
    IntegrityError,
    InvalidInputError,
    NotFoundError,
    StorageError,
)
from lancewood.git import loose, objects
from lancewood.git.objects import FILE, Objects, Signature, TreeEntry
from lancewood.git.values import ZERO, Hash

ADA = Signature("Ada", "ada@example.org", 1_700_000_000, 0)
H = Hash("ab" * 32)


@pytest.fixture
def location(tmp_path: Path) -> Path:
    (tmp_path / "objects" / "pack").mkdir(parents=True)
    return tmp_path / "objects"


@pytest.fixture
def store(location: Path) -> Objects:
    return Objects(location)


def files(location: Path) -> list[str]:
    return sorted(f"{each.parent.name}{each.name}" for each in location.glob("??/*"))


def test_what_was_put_is_read_before_and_after_it_is_synced(store: Objects, location: Path) -> None:
    blob = store.put_blob(b"data" * 10_000)
    tree = store.put_tree({"a": TreeEntry(FILE, blob)})
    commit = store.put_commit(tree, [], ADA, "one")
    for _ in range(2):
        assert store.blob(blob) == b"data" * 10_000
        assert store.tree(tree) == {"a": TreeEntry(FILE, blob)}
        assert store.commit(commit).message == "one"
        assert store.peel(commit) == commit
        assert blob in store
        store.sync()
    assert files(location) == sorted([blob, tree, commit])
    assert Objects(location).commit(commit) == store.commit(commit)


@pytest.mark.parametrize("size", [0, 1, 700, 4074, 4075, 4076, 70_000])
def test_an_object_is_a_stream_of_zlib_and_a_small_one_takes_one_block(size: int) -> None:
    whole = b"blob %d\0" % size + os.urandom(size)
    packed = loose.pack_loose(whole)
    assert zlib.decompress(packed) == loose.unpack_loose(packed) == whole
    assert (len(packed) <= 4096) == (len(whole) <= 4085)


def test_a_commit_that_is_there_already_is_written_once_more(location: Path) -> None:
    def put() -> Hash:
        store = Objects(location)
        found = store.put_commit(H, [], ADA, "one")
        store.sync()
        return found

    first = put()
    (file,) = location.glob("??/*")
    file.chmod(0o644)
    file.write_bytes(b"")
    assert put() == first
    assert files(location) == [first]
    assert Objects(location).commit(first).message == "one"


def test_what_is_never_synced_leaves_nothing(store: Objects, location: Path) -> None:
    store.put_blob(b"data")
    assert files(location) == []


def test_large_amounts_are_written_before_they_fill_the_memory(
    store: Objects, location: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(objects, "_MOST_WAITING", 1000)
    for _ in range(3):
        store.put_blob(os.urandom(600))
    assert len(files(location)) == 2


def test_the_same_bytes_are_one_object_and_one_file(store: Objects, location: Path) -> None:
    first = store.put_blob(b"data")
    store.sync()
    file = location / first[:2] / first[2:]
    inode = file.stat().st_ino
    os.utime(file, (1, 1))
    assert store.put_blob(b"data") == first
    assert file.stat().st_mtime > 1, "a prune by age leaves it"
    store.sync()
    assert file.stat().st_ino == inode


def test_what_another_wrote_is_synced_before_we_rest_on_it(
    store: Objects, location: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    careless = Objects(location, fsync=False)
    blob = careless.put_blob(b"data")
    careless.sync()
    synced: list[str] = []
    monkeypatch.setattr(loose, "sync_file", synced.append)
    store.put_blob(b"data")
    store.sync()
    assert synced == [f"{location}/{blob[:2]}/{blob[2:]}"]


def test_what_another_wrote_and_removed_is_written_after_all(
    store: Objects, location: Path
) -> None:
    other = Objects(location)
    blob = other.put_blob(b"data")
    other.sync()
    store.put_blob(b"data")
    (location / blob[:2] / blob[2:]).unlink()
    store.sync()
    assert Objects(location).blob(blob) == b"data"


def test_each_directory_is_synced_once_and_nothing_without_fsync(
    location: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda fd: calls.append(os.readlink(f"/proc/self/fd/{fd}")))
    quick = Objects(location, fsync=False)
    quick.put_blob(b"quick")
    quick.sync()
    assert calls == []
    sure = Objects(location)
    hashes = [sure.put_blob(b"%d" % number) for number in range(600)]
    fans = {each[:2] for each in hashes}
    sure.sync()
    directories = [each for each in calls if Path(each).is_dir()]
    assert sorted(directories) == sorted([*(f"{location}/{each}" for each in fans), str(location)])
    assert len(calls) - len(directories) == len(hashes)
    calls.clear()
    sure.sync()
    assert calls == []
    seen = (b"%d" % number for number in itertools.count(1000))
    known = next(each for each in seen if sha256(b"blob 4\0" + each).hexdigest()[:2] in fans)
    sure.put_blob(known)
    sure.sync()
    assert len(calls) == 2, "a file and its directory, whose own name is durable already"


def test_a_failed_sync_is_made_up_for_by_the_next(
    store: Objects, location: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blob = store.put_blob(b"data")
    with monkeypatch.context() as patched:

        def full(descriptor: int) -> None:
            raise OSError(28, "No space left on device")

        patched.setattr(os, "fsync", full)
        with pytest.raises(StorageError, match="No space left"):
            store.sync()
        assert files(location) == []
    assert store.blob(blob) == b"data"
    store.sync()
    assert files(location) == [blob]


def test_a_file_that_is_swept_away_before_it_has_its_name_is_written_again(
    store: Objects, location: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hashes = [store.put_blob(b"%d" % number) for number in range(3)]
    swept: list[str] = []
    rename = os.rename

    def prune_then_rename(source: str, target: str) -> None:
        if not swept:
            swept.append(source)
            os.unlink(source)
        rename(source, target)

    monkeypatch.setattr(os, "rename", prune_then_rename)
    store.sync()
    assert swept
    assert files(location) == sorted(hashes)


def test_a_directory_that_vanishes_is_made_again(store: Objects, location: Path) -> None:
    blob = store.put_blob(b"data")
    store.sync()
    (location / blob[:2] / blob[2:]).unlink()
    (location / blob[:2]).rmdir()
    store.put_blob(b"data")
    store.sync()
    assert files(location) == [blob]


def test_what_is_not_there_is_not_found(store: Objects) -> None:
    assert H not in store
    for read in (store.blob, store.tree, store.commit, store.peel):
        with pytest.raises(NotFoundError, match=H):
            read(H)


@pytest.mark.parametrize("text", ["", "short", ZERO, "../" * 21 + "a", "AB" * 32])
def test_a_text_that_is_no_hash_is_refused(store: Objects, text: str) -> None:
    with pytest.raises(InvalidInputError):
        store.blob(Hash(text))
    with pytest.raises(InvalidInputError):
        Hash(text) in store  # noqa: B015


def test_an_object_of_another_kind_is_told(store: Objects) -> None:
    blob = store.put_blob(b"data")
    with pytest.raises(FormatError, match="is a blob, not a tree"):
        store.tree(blob)
    with pytest.raises(FormatError, match="is a blob, not a commit"):
        store.commit(blob)
    with pytest.raises(NotFoundError, match="leads to a blob"):
        store.peel(blob)


def write(location: Path, hash: Hash, data: bytes) -> None:
    (location / hash[:2]).mkdir(exist_ok=True)
    (location / hash[:2] / hash[2:]).write_bytes(data)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"no zlib",
        zlib.compress(b"blob 4\0data")[:-3],
        zlib.compress(b"blob 4\0data") + b"more",
        zlib.compress(b"blob 9999999999999\0" + b"x" * 10_000),
        zlib.compress(b"blob 10\0" + b"\0" * 50_000_000),
        zlib.compress(b"x" * 20_000),
    ],
)
def test_a_damaged_file_is_a_format_error_that_names_it(
    store: Objects, location: Path, data: bytes
) -> None:
    write(location, H, data)
    with pytest.raises(FormatError, match=f"{location}/{H[:2]}/{H[2:]}"):
        store.blob(H)


def test_whole_bytes_under_another_name_are_an_integrity_error(
    store: Objects, location: Path
) -> None:
    write(location, H, zlib.compress(b"blob 4\0data"))
    with pytest.raises(IntegrityError, match="other bytes"):
        store.blob(H)


def test_a_wrong_header_is_a_format_error(store: Objects, location: Path) -> None:
    for header in (b"blob 5\0data", b"thing 4\0data", b"blob\0data", b"data"):
        name = Hash(sha256(header).hexdigest())
        write(location, name, zlib.compress(header))
        with pytest.raises(FormatError, match="header"):
            store.blob(name)


def test_a_damaged_pack_is_a_format_error(store: Objects, location: Path) -> None:
    (location / "pack" / "pack-1.idx").write_bytes(b"\xfftOc\0\0\0\2" + b"\0" * 2000)
    (location / "pack" / "pack-1.pack").write_bytes(b"PACK\0\0\0\2\0\0\0\1" + b"x" * 200)
    try:
        store.blob(H)
    except (FormatError, NotFoundError):
        pass
    else:
        pytest.fail("read from a damaged pack")
    (location / "pack" / "pack-1.idx").write_bytes(b"cut")
    with pytest.raises(FormatError, match="git fsck"):
        Objects(location).blob(H)


def test_what_is_too_large_or_no_bytes_is_refused(
    store: Objects, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InvalidInputError, match="bytes, not of str"):
        store.put_blob("text")  # type: ignore[arg-type]
    monkeypatch.setattr(objects, "MOST_BYTES", 3)
    with pytest.raises(InvalidInputError, match="too large"):
        store.put_blob(b"data")


def test_objects_are_found_by_the_start_of_their_hash(store: Objects) -> None:
    hashes = [store.put_blob(b"%d" % number) for number in range(40)]
    for _ in range(2):
        for each in hashes:
            assert list(store.starting_with(each[:12])) == [each]
        store.sync()
    for bad in ("", "abc", "ABCD", "xyzw", "../.."):
        with pytest.raises(InvalidInputError, match="start of a hash"):
            store.starting_with(bad)


def test_threads_that_put_and_sync_at_once_lose_nothing(store: Objects, location: Path) -> None:
    made: list[Hash] = []
    missing: list[Hash] = []

    def work(number: int) -> None:
        for turn in range(10):
            blob = store.put_blob(b"%d %d" % (number, turn))
            shared = store.put_blob(b"shared %d" % turn)
            store.sync()
            made.extend([blob, shared])
            missing.extend(each for each in (blob, shared) if not store._loose.has(each))

    threads = [threading.Thread(target=work, args=[number]) for number in range(6)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert missing == [], "sync returned before it was there"
    assert files(location) == sorted(set(made))


def test_it_can_be_dropped_without_being_closed(location: Path) -> None:
    Objects(location).put_blob(b"data")
    gc.collect()
