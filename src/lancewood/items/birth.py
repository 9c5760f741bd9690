"""A new repository with its first commit, made whole under another name and then renamed.

It appears with everything in it or not at all. It also takes a third of the files and directories
that ``init`` and a commit take, which matters where there are millions of items: all objects are in
one pack (git's format, version 2, without deltas), and there is no reflog yet, since no ref has
moved.
"""

from __future__ import annotations

import errno
import os
import shutil
import zlib
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from struct import pack

from lancewood.errors import StorageError
from lancewood.git.hashes import Hash, checked_hash, is_hash
from lancewood.git.names import HEAD, checked_ref
from lancewood.git.reading import SYMBOLIC
from lancewood.git.repository import new_config
from lancewood.git.signature import Signature
from lancewood.git.syncing import sync_paths
from lancewood.git.values import TreeEntry, encode_commit, encode_tree

_KINDS = {b"commit": 1, b"tree": 2, b"blob": 3, b"tag": 4}
_LARGE = 1 << 31
"""Offsets from here on are kept in a table of their own."""
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
_TAKEN = (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR, errno.EISDIR, errno.EXDEV)


def make_whole(
    path: str,
    *,
    staging: str,
    head: str,
    refs: Mapping[str, Hash],
    objects: Mapping[Hash, tuple[bytes, bytes]],
    settings: Mapping[str, str],
    fsync: bool,
) -> bool:
    """Make a bare repository at ``path`` with these refs, given by their full names.

    ``head`` is the full name of a branch, or a hash for a detached HEAD. ``staging`` is a free path
    on the same file system. Returns False, and changes nothing, if something is at ``path`` already
    or it is on another file system. The caller syncs the directory of ``path``, which makes the new
    name durable. Raises StorageError.
    """
    texts = {"config": new_config(settings)}
    for ref, hash in refs.items():
        texts[checked_ref(ref)] = checked_hash(hash).encode() + b"\n"
    named = checked_hash(head) if is_hash(head) else SYMBOLIC + checked_ref(head)
    texts[HEAD] = named.encode() + b"\n"
    try:
        directories = _make_directories(staging, texts)
        files = [*write_pack(f"{staging}/objects/pack", objects)]
        for name, text in texts.items():
            files.append(f"{staging}/{name}")
            descriptor = os.open(files[-1], _CREATE, 0o666)
            try:
                os.write(descriptor, text)
            finally:
                os.close(descriptor)
        if fsync:
            sync_paths(files, directories)
        os.rename(staging, path)
    except OSError as cause:
        shutil.rmtree(staging, ignore_errors=True)
        if cause.errno in _TAKEN:
            return False
        raise StorageError(
            f"cannot make a repository at {path}: {cause.strerror}", path=path
        ) from cause
    except BaseException:
        shutil.rmtree(staging, ignore_errors=True)
        raise
    return True


def _make_directories(root: str, files: Iterable[str]) -> list[str]:
    """Make the directories of a repository and of its files, all of them new."""
    wanted = {"": None, "objects": None, "objects/pack": None, "refs": None, "refs/heads": None}
    for each in files:
        parts = each.split("/")[:-1]
        wanted |= {"/".join(parts[:count]): None for count in range(1, len(parts) + 1)}
    made = [f"{root}/{each}".rstrip("/") for each in wanted]
    for each in made:
        os.mkdir(each)
    return made


class PackedObjects:
    """Collects new objects for one pack; has the ``put`` methods of ``Objects``."""

    def __init__(self) -> None:
        self.found: dict[Hash, tuple[bytes, bytes]] = {}
        """Kind and content by hash."""

    def put_blob(self, data: bytes) -> Hash:
        return self._put(b"blob", data)

    def put_tree(self, entries: Mapping[str, TreeEntry]) -> Hash:
        return self._put(b"tree", encode_tree(entries))

    def put_commit(
        self,
        tree: Hash,
        parents: Sequence[Hash],
        author: Signature,
        message: str,
        committer: Signature | None = None,
    ) -> Hash:
        data = encode_commit(tree, parents, author, committer or author, message)
        return self._put(b"commit", data)

    def _put(self, kind: bytes, data: bytes) -> Hash:
        whole = sha256(b"%b %d\0" % (kind, len(data)))
        whole.update(data)
        hash = Hash(whole.hexdigest())
        self.found[hash] = kind, data
        return hash


def write_pack(directory: str, objects: Mapping[Hash, tuple[bytes, bytes]]) -> tuple[str, str]:
    """Write a pack and its index; return their paths.

    Nothing is synced. Raises OSError.
    """
    entries: list[tuple[bytes, int, int]] = []
    digest, at = sha256(), 0
    staged = f"{directory}/tmp_pack_{os.urandom(8).hex()}"
    with os.fdopen(os.open(staged, _CREATE, 0o444), "wb") as file:

        def put(data: bytes) -> None:
            nonlocal at
            file.write(data)
            digest.update(data)
            at += len(data)

        put(b"PACK" + pack(">II", 2, len(objects)))
        for hash, (kind, data) in objects.items():
            start, head, body = at, _entry_head(_KINDS[kind], len(data)), zlib.compress(data, 1)
            put(head)
            put(body)
            entries.append((bytes.fromhex(hash), zlib.crc32(body, zlib.crc32(head)), start))
        file.write(digest.digest())
    stem = f"{directory}/pack-{digest.hexdigest()}"
    os.rename(staged, f"{stem}.pack")
    with os.fdopen(os.open(f"{stem}.idx", _CREATE, 0o444), "wb") as file:
        file.write(_index(sorted(entries), digest.digest()))
    return f"{stem}.pack", f"{stem}.idx"


def _entry_head(kind: int, size: int) -> bytes:
    """Kind and size: four bits of the size in the first byte, seven in each further one."""
    found, rest = kind << 4 | size & 15, size >> 4
    out = bytearray()
    while rest:
        out.append(found | 128)
        found, rest = rest & 127, rest >> 7
    out.append(found)
    return bytes(out)


def _index(entries: list[tuple[bytes, int, int]], of_pack: bytes) -> bytes:
    """The index: counts by first byte, names, checksums, offsets. ``entries`` is sorted."""
    counts = [0] * 256
    for name, _, _ in entries:
        counts[name[0]] += 1
    total = 0
    for first, each in enumerate(counts):
        total += each
        counts[first] = total
    near, far = [], list[int]()
    for _, _, offset in entries:
        if offset < _LARGE:
            near.append(offset)
        else:
            near.append(_LARGE | len(far))
            far.append(offset)
    parts = [
        b"\xfftOc",
        pack(">I256I", 2, *counts),
        *(name for name, _, _ in entries),
        *(pack(">I", check) for _, check, _ in entries),
        *(pack(">I", each) for each in near),
        *(pack(">Q", each) for each in far),
        of_pack,
    ]
    whole = b"".join(parts)
    return whole + sha256(whole).digest()
