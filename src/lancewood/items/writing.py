"""Writing snapshots of items, each exactly once for a run. A new repository is made whole under
another name, with its first commit, and then renamed.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
import zlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from struct import pack
from typing import Literal, TypeAlias
from uuid import uuid4

from lancewood.catalog.files import put_beside, put_files, split_directory
from lancewood.catalog.names import ID, SECTION, branch_ref, checked_paths
from lancewood.catalog.tables import TableTree
from lancewood.errors import (
    AlreadyExistsError,
    CommitUnknownError,
    InvalidInputError,
    LancewoodError,
    StorageError,
)
from lancewood.git.loose import MOST_BYTES
from lancewood.git.names import HEAD, checked_ref
from lancewood.git.objects import TREE, Objects, TreeEntry
from lancewood.git.ref_store import SYMBOLIC
from lancewood.git.repository import GitRepository, new_config
from lancewood.git.syncing import sync_paths
from lancewood.git.values import Hash, Signature, checked_hash, encode_commit, encode_tree, is_hash
from lancewood.items.folder import ItemFolder, checked_item
from lancewood.items.outcome import (
    ItemDone,
    ItemOutcome,
    check_claims_none,
    is_utf8,
    made_by,
    with_run,
)
from lancewood.model.refs import MAIN
from lancewood.repo import RepoContext, checked_message, swap
from lancewood.store.disk_root import fsync_by_default

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


Mode: TypeAlias = Literal["replace", "update"]


@dataclass(frozen=True, slots=True)
class FileRow:
    """A path of an item and its content; None removes the path."""

    path: str | None
    content: bytes | None
    message: str | None = None


@dataclass(frozen=True, slots=True)
class ItemFiles:
    """What is to be written to one item."""

    item: str
    files: dict[str, bytes]
    removed: tuple[str, ...]
    message: str


def item_files(item: object, rows: Iterable[FileRow], mode: Mode, message: str) -> ItemFiles:
    """The rows of one item as its files; raises InvalidInputError that names the problem.

    ``message`` is used if the rows have none.
    """
    name = checked_item(item)
    files: dict[str, bytes] = {}
    removed: list[str] = []
    seen: set[str] = set()
    messages: set[str] = set()
    for row in rows:
        if row.path is None:
            raise InvalidInputError(f"a row of item {name!r} has no path: it is null", item=name)
        if row.path in seen:
            raise InvalidInputError(
                f"item {name!r} has more than one row for {row.path!r}", item=name, path=row.path
            )
        seen.add(row.path)
        if row.message is not None:
            messages.add(row.message)
        if row.content is not None:
            size = len(row.content)
            if size > MOST_BYTES:
                raise InvalidInputError(
                    f"{row.path!r} of item {name!r} has {size} bytes, {MOST_BYTES} is the most",
                    item=name,
                )
            files[row.path] = row.content
        elif mode == "update":
            removed.append(row.path)
        else:
            raise InvalidInputError(
                f"{row.path!r} of item {name!r} has no content: it is null. With mode 'replace' "
                "leave the row out, and the file is gone; with mode 'update' null removes it",
                item=name,
                path=row.path,
            )
    if len(messages) > 1:
        raise InvalidInputError(
            f"item {name!r} has {len(messages)} messages, and a snapshot has one", item=name
        )
    checked_paths(files)
    checked_paths(removed)
    text = checked_message(messages.pop() if messages else message)
    check_claims_none(text)
    if not is_utf8(text):
        raise InvalidInputError(f"the message of item {name!r} is not UTF-8", item=name)
    return ItemFiles(name, files, tuple(removed), text)


@dataclass(frozen=True)
class Snapshots:
    """What all snapshots of a run share. Small, and pickles."""

    run: str
    author: Signature
    branch: str | None = None
    """The branch to write on; None: the branch that HEAD of the item names."""
    mode: Mode = "replace"
    fsync: bool | None = None


class ItemWriter:
    """Writes items below a folder, one after the other; call ``settle`` at the end."""

    def __init__(self, folder: str, snapshots: Snapshots) -> None:
        self._snapshots = snapshots
        fsync = snapshots.fsync
        self._fsync = fsync_by_default() if fsync is None else fsync
        self._folder = ItemFolder(folder, fsync=self._fsync)

    def write(self, files: ItemFiles) -> ItemOutcome:
        """Write a snapshot of one item; a refusal is an outcome.

        Raises StorageError and CommitUnknownError, which another attempt may mend.
        """
        try:
            return self._write(files)
        except LancewoodError as error:
            if is_passing(error):
                raise
            return ItemOutcome.refused(files.item, error)

    def settle(self) -> None:
        """Make everything that was written durable."""
        self._folder.settle()

    def _write(self, files: ItemFiles) -> ItemOutcome:
        path = self._folder.path(files.item)
        if files.files:
            self._folder.make_room(files.item)
        elif not os.path.lexists(f"{path}/HEAD"):
            return ItemOutcome(files.item, ItemDone.UNCHANGED)
        else:
            self._folder.check_inside(files.item)
        if not os.path.lexists(f"{path}/HEAD"):
            if self._folder.check_free(files.item):
                tip = self._born(path, files)
                if tip is not None:
                    self._folder.check_alone(files.item)
                    self._folder.named(files.item)
                    return ItemOutcome(files.item, ItemDone.WRITTEN, tip)
            if not os.path.lexists(f"{path}/HEAD"):
                self._folder.check_free(files.item)
                # Completes an unfinished ``init``, or races with another writer.
                branch = self._snapshots.branch or MAIN
                with suppress(AlreadyExistsError):
                    GitRepository.init(
                        path, branch=branch, settings=new_settings(), fsync=self._fsync
                    )
                self._folder.named(files.item)
        return self._moved(path, files)

    def _born(self, path: str, files: ItemFiles) -> Hash | None:
        """Make a new item with this snapshot; None if it exists by now."""
        snapshots, packed = self._snapshots, PackedObjects()
        tree = packed.put_tree(put_files(packed, files.files))
        text = with_run(files.message, snapshots.run)
        tip = packed.put_commit(tree, (), snapshots.author, text)
        ref = branch_ref(snapshots.branch or MAIN)
        is_born = make_whole(
            path,
            staging=self._folder.staging(),
            head=ref,
            refs={ref: tip},
            objects=packed.found,
            settings=new_settings(),
            fsync=self._fsync,
        )
        return tip if is_born else None

    def _moved(self, path: str, files: ItemFiles) -> ItemOutcome:
        """Add a commit to the branch of an existing item."""
        snapshots = self._snapshots
        git = GitRepository.open(path, fsync=self._fsync)
        try:
            context = RepoContext(git, fsync=self._fsync)
            branch = snapshots.branch or context.current()
            head = git.refs.head().hash
            ref = branch_ref(branch)
            proposal = _Proposal(context, files, snapshots)
            if head is not None and git.refs.read(ref) is None:
                # What is refused is refused before the branch is there.
                proposal.tree(head)
                why = "branch: Created from HEAD"
                git.refs.move(ref, None, head, why=why, by=snapshots.author)
            commit = swap(
                context,
                branch,
                proposal,
                message=with_run(files.message, snapshots.run),
                author=snapshots.author,
                verb="snapshot",
            )
            if commit is not None:
                return ItemOutcome(files.item, ItemDone.WRITTEN, commit)
            return ItemOutcome(files.item, proposal.found, proposal.hash)
        finally:
            git.close()


@dataclass
class _Proposal:
    """The files of an item as a commit; asked for again whenever another writer was faster."""

    context: RepoContext
    files: ItemFiles
    snapshots: Snapshots
    found: Literal[ItemDone.ALREADY, ItemDone.UNCHANGED] = ItemDone.UNCHANGED
    hash: Hash | None = None

    def tree(self, tip: Hash | None) -> TableTree | None:
        objects = self.context.git.objects
        if tip is not None:
            made = made_by(objects, tip, self.snapshots.run)
            if made is not None:
                self.found, self.hash = ItemDone.ALREADY, made
                return None
        before = self.context.tree(tip)
        if self.snapshots.mode == "replace":
            wanted = put_files(objects, self.files.files)
        else:
            left = without_paths(objects, before.files, self.files.removed)
            wanted = put_beside(objects, left, self.files.files)
        if tip is not None and wanted == before.files:
            self.found, self.hash = ItemDone.UNCHANGED, tip
            return None
        return before.with_files(wanted)


def without_paths(
    objects: Objects, top: Mapping[str, TreeEntry], paths: Iterable[str]
) -> dict[str, TreeEntry]:
    """The entries of a tree without some files; other paths are ignored.

    New directories are put, but not synced.
    """
    levels = {"": dict(top)}
    changed: set[str] = set()
    for path in paths:
        _take_out(objects, levels, changed, path)
    for inner in reversed(levels):
        if inner and inner in changed:
            above, name = split_directory(inner)
            if levels[inner]:
                levels[above][name] = TreeEntry(TREE, objects.put_tree(levels[inner]))
            else:
                del levels[above][name]
    return levels[""]


def _take_out(
    objects: Objects, levels: dict[str, dict[str, TreeEntry]], changed: set[str], path: str
) -> None:
    """Remove a file from its directory, and note the directories on its path as changed."""
    *parts, name = path.split("/")
    way = [""]
    for part in parts:
        inner = f"{way[-1]}{part}/"
        if inner not in levels:
            entry = levels[way[-1]].get(part)
            if entry is None or not stat.S_ISDIR(entry.mode):
                return
            levels[inner] = objects.tree(entry.hash)
        way.append(inner)
    entry = levels[way[-1]].get(name)
    if entry is not None and not stat.S_ISDIR(entry.mode):
        del levels[way[-1]][name]
        changed.update(way)


def is_passing(error: LancewoodError) -> bool:
    """Whether another attempt may succeed."""
    return isinstance(error, StorageError | CommitUnknownError)


def new_settings() -> dict[str, str]:
    """The git configuration of a new item."""
    return {f"{SECTION}.{ID}": uuid4().hex}
