"""The objects of a git repository: blobs, trees and commits, by their hash.

New ones wait in memory until ``sync`` makes all of them durable at once; so what is never
committed leaves nothing behind. Knows nothing of refs, of history, or of what blobs hold.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Protocol

from lancewood.errors import (
    FormatError,
    IntegrityError,
    InvalidInputError,
    NotFoundError,
    StorageError,
    found_in,
)
from lancewood.git.loose import MOST_BYTES, LooseObjects, pack_loose, unpack_loose
from lancewood.git.packs import Packs
from lancewood.git.syncing import Unsettled
from lancewood.git.values import (
    FILE,
    LINK,
    PROGRAM,
    TREE,
    Commit,
    Hash,
    Signature,
    TreeEntry,
    checked_hash,
    decode_commit,
    decode_tag,
    decode_tree,
    encode_commit,
    encode_tag,
    encode_tree,
)

__all__ = [
    "FILE",
    "LINK",
    "PROGRAM",
    "TREE",
    "Commit",
    "Objects",
    "Signature",
    "TreeEntry",
]

_MOST_WAITING = 32 << 20
_MOST_TAGS = 32
_MOST_COMMITS = 8192
_MOST_TREES = 64
_MOST_ENTRIES = 10_000


class Loose(Protocol):
    """Objects that are kept one by one."""

    def read(self, hash: Hash) -> bytes | None:
        """The object with its header, or None. Raises FormatError that names the file."""

    def has(self, hash: Hash) -> bool: ...

    def freshen(self, hash: Hash) -> bool:
        """Whether an object is known to be there, and will stay; in doubt it is not."""

    def write(self, batch: Mapping[Hash, bytes], met: Iterable[Hash] = ()) -> None:
        """Write objects, as ``pack_loose`` gave them. Raises StorageError."""

    def unsettled(self, hashes: Iterable[Hash]) -> Unsettled:
        """What is left to do until what was written outlasts a power cut."""


class Packed(Protocol):
    """Objects in packs."""

    def read(self, hash: Hash) -> tuple[bytes, bytes] | None:
        """Kind and content, or None after a look for new packs. Raises FormatError."""

    def peek(self, hash: Hash) -> tuple[bytes, bytes] | None:
        """Kind and content of an object that is found quickly; None says nothing."""

    def freshen(self, hash: Hash) -> bool:
        """Whether a pack has it, and keeps it; in doubt it has not."""

    def starting_with(self, prefix: str) -> Iterator[Hash]:
        """The objects whose hashes start so, loose ones included."""

    def close(self) -> None: ...


class Objects:
    """What ``objects`` of a repository holds. Safe to use from threads."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        fsync: bool = True,
        loose: Loose | None = None,
        packs: Packed | None = None,
    ) -> None:
        """``loose`` and ``packs`` are those of a bucket; ``path`` is what errors call it then."""
        self._path = os.fspath(path)
        self._fsync = fsync
        self._loose = loose or LooseObjects(self._path, fsync=fsync)
        self._packs = packs or Packs(self._path)
        self._lock = threading.Lock()
        self._syncing = threading.Lock()
        self._waiting: dict[Hash, bytes] = {}
        self._met: set[Hash] = set()
        """Waiting objects that were on the disk already."""
        self._named: set[Hash] = set()
        """Waiting objects that are written, in directories that are not synced yet."""
        self._bytes_waiting = 0
        self._is_packed = False
        self._commits: OrderedDict[Hash, Commit] = OrderedDict()
        self._trees: OrderedDict[Hash, dict[str, TreeEntry]] = OrderedDict()

    # Writing

    def put_blob(self, data: bytes) -> Hash:
        return self._put(b"blob", data)

    def put_tree(self, entries: Mapping[str, TreeEntry]) -> Hash:
        """A directory: one part of a path each; raises InvalidInputError for other names.

        What the entries name need not be there yet.
        """
        hash = self._put(b"tree", encode_tree(entries))
        self._keep_tree(hash, dict(entries))
        return hash

    def put_commit(
        self,
        tree: Hash,
        parents: Sequence[Hash],
        author: Signature,
        message: str,
        committer: Signature | None = None,
    ) -> Hash:
        """A commit; raises InvalidInputError for an author or a message that git refuses."""
        by = committer or author
        data = encode_commit(tree, parents, author, by, message)
        hash = self._put(b"commit", data, is_new=True)
        text = message.rstrip("\n")
        self._keep_commit(Commit(hash, tree, tuple(parents), author, by, text))
        return hash

    def put_tag(self, name: str, commit: Hash, by: Signature, message: str) -> Hash:
        """An annotated tag; raises InvalidInputError for a name or a message that git refuses."""
        return self._put(b"tag", encode_tag(name, commit, by, message), is_new=True)

    def sync(self) -> None:
        """Make everything durable that was put since the last time, by whichever thread.

        To be called before anything names it that is not an object; a ref of this repository does
        so by itself. Raises StorageError; what could not be written then waits for the next call.
        """
        unsettled = self.write()
        try:
            unsettled.sync()
        except OSError as cause:
            raise StorageError(
                f"cannot sync objects below {self._path}: {cause.strerror}", path=self._path
            ) from cause

    def write(self) -> Unsettled:
        """The first half of ``sync``: everything has its name, but the names are not durable."""
        with self._syncing:
            with self._lock:
                batch = dict(self._waiting)
                named = set(self._named)
                met = set(self._met)
            # What no ref names yet, since a move did not come about, a prune may have taken again.
            kept = {each for each in named if self._loose.has(each)}
            new = {each: data for each, data in batch.items() if each not in kept}
            if not batch:
                return Unsettled()
            self._loose.write(new, met)
            with self._lock:
                self._named.update(new)
        rest = self._loose.unsettled(batch)

        def settled() -> None:
            rest.settled()
            with self._lock:
                for each in batch:
                    self._bytes_waiting -= len(self._waiting.pop(each, b""))
                self._named.difference_update(batch)
                self._met.difference_update(batch)

        return Unsettled(rest.directories, settled)

    # Reading

    def blob(self, hash: Hash) -> bytes:
        return self._read(hash, b"blob")

    def tree(self, hash: Hash) -> dict[str, TreeEntry]:
        """The last few are kept: a commit shares most of its trees with the one before."""
        with self._lock:
            found = self._trees.get(hash)
            if found is not None:
                self._trees.move_to_end(hash)
                return dict(found)
        with found_in(f"tree {hash} of {self._path}"):
            found = decode_tree(self._read(hash, b"tree"))
        self._keep_tree(hash, found)
        return dict(found)

    def commit(self, hash: Hash) -> Commit:
        """The last few thousand are kept as they were read: walks often go the same way."""
        kept = self._commits
        with self._lock:
            found = kept.get(hash)
            if found is not None:
                kept.move_to_end(hash)
                return found
        with found_in(f"commit {hash} of {self._path}"):
            found = decode_commit(hash, self._read(hash, b"commit"))
        self._keep_commit(found)
        return found

    def peel(self, hash: Hash) -> Hash:
        """The commit that an annotated tag stands for; a commit is its own.

        Raises NotFoundError where it stands for something else.
        """
        at = hash
        for _ in range(_MOST_TAGS):
            kind, data = self._find(at)
            if kind == b"commit":
                return at
            if kind != b"tag":
                raise NotFoundError(f"{hash} leads to a {kind.decode()}, not to a commit")
            with found_in(f"tag {at} of {self._path}"):
                at = decode_tag(data)
        raise FormatError(f"{hash} is a tag of a tag, more than {_MOST_TAGS} deep")

    def __contains__(self, hash: Hash) -> bool:
        checked_hash(hash)
        return hash in self._waiting or self._loose.has(hash) or self._packs.read(hash) is not None

    def starting_with(self, prefix: str) -> Iterator[Hash]:
        """The objects of any kind whose hashes start so, in order; for short hashes.

        Raises InvalidInputError for fewer than four digits: those would be too many.
        """
        if not 4 <= len(prefix) <= 64 or set(prefix) - set("0123456789abcdef"):
            raise InvalidInputError(
                f"{prefix!r} is not the start of a hash: that is 4 to 64 lower-case "
                "hexadecimal digits"
            )
        with self._lock:
            waiting = {each for each in self._waiting if each.startswith(prefix)}
        return iter(sorted(waiting | set(self._packs.starting_with(prefix))))

    def close(self) -> None:
        """Let go of open packs. What was put and not synced is dropped."""
        with self._lock:
            self._waiting.clear()
            self._met.clear()
            self._named.clear()
            self._commits.clear()
            self._trees.clear()
            self._bytes_waiting = 0
        self._packs.close()

    # Both

    def _keep_commit(self, commit: Commit) -> None:
        with self._lock:
            self._commits[commit.hash] = commit
            if len(self._commits) > _MOST_COMMITS:
                self._commits.popitem(last=False)

    def _keep_tree(self, hash: Hash, entries: dict[str, TreeEntry]) -> None:
        if len(entries) > _MOST_ENTRIES:
            return
        with self._lock:
            self._trees[hash] = entries
            if len(self._trees) > _MOST_TREES:
                self._trees.popitem(last=False)

    def _put(self, kind: bytes, data: bytes, *, is_new: bool = False) -> Hash:
        """``is_new``: it is hardly ever there already, and then written once more."""
        if not isinstance(data, bytes):
            raise InvalidInputError(f"an object is made of bytes, not of {type(data).__name__}")
        if len(data) > MOST_BYTES:
            raise InvalidInputError(
                f"an object of {len(data)} bytes is too large: {MOST_BYTES} is the most"
            )
        whole = b"%b %d\0%b" % (kind, len(data), data)
        hash = Hash(sha256(whole).hexdigest())
        if hash in self._waiting:
            return hash
        met = False
        if not is_new:
            met = self._loose.freshen(hash)
            # What another wrote may not be on the disk yet: sync sees to it.
            if (met and not self._fsync) or (not met and self._packs.freshen(hash)):
                return hash
        packed = pack_loose(whole)
        with self._lock:
            if hash not in self._waiting:
                self._waiting[hash] = packed
                self._bytes_waiting += len(packed)
                if met:
                    self._met.add(hash)
            is_much = self._bytes_waiting > _MOST_WAITING
        if is_much:
            self.sync()
        return hash

    def _read(self, hash: Hash, wanted: bytes) -> bytes:
        kind, data = self._find(hash)
        if kind != wanted:
            raise FormatError(
                f"object {hash} of {self._path} is a {kind.decode()}, not a {wanted.decode()}",
                hash=hash,
            )
        return data

    def _find(self, hash: Hash) -> tuple[bytes, bytes]:
        """Kind and content, whose hash is checked. Raises NotFoundError."""
        checked_hash(hash)
        waiting = self._waiting.get(hash)
        if waiting is not None:
            whole: bytes | None = unpack_loose(waiting)
        else:
            # What is asked for next is mostly where the last one was.
            found = self._packs.peek(hash) if self._is_packed else None
            whole = self._loose.read(hash) if found is None else None
            if whole is None and found is None:
                found = self._packs.read(hash)
            self._is_packed = found is not None
            if found is not None:
                whole = b"%b %d\0%b" % (found[0], len(found[1]), found[1])
        if whole is None:
            raise NotFoundError(f"there is no object {hash} in {self._path}", hash=hash)
        if sha256(whole).hexdigest() != hash:
            raise IntegrityError(
                f"object {hash} in {self._path} holds other bytes than its name says; "
                "git fsck says more",
                hash=hash,
            )
        header, _, data = whole.partition(b"\0")
        kind, _, size = header.partition(b" ")
        if kind not in (b"blob", b"tree", b"commit", b"tag") or size != b"%d" % len(data):
            raise FormatError(f"object {hash} in {self._path} has the header {header[:50]!r}")
        return kind, data
