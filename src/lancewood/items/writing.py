"""Writing snapshots of items, each exactly once for a run.

A new item is made whole and renamed; an existing one moves by compare-and-swap. Either way the
commit names its run, so that repeating the work, at the same moment or years later, finds it done.
The rows of an item are checked before anything of it is written.

Removing files reads and writes only the directories on their paths. A directory that becomes empty
goes as well, as git has no empty ones.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal, TypeAlias
from uuid import uuid4

from lancewood.catalog.files import put_beside, put_files, split_directory
from lancewood.catalog.names import checked_paths
from lancewood.catalog.tables import TableTree
from lancewood.errors import (
    AlreadyExistsError,
    CommitUnknownError,
    InvalidInputError,
    LancewoodError,
    StorageError,
)
from lancewood.git.hashes import Hash
from lancewood.git.loose import MOST_BYTES
from lancewood.git.objects import TREE, Objects, TreeEntry
from lancewood.git.repository import GitRepository
from lancewood.git.signature import Signature
from lancewood.items.birth import PackedObjects, make_whole
from lancewood.items.folder import ItemFolder, checked_item
from lancewood.items.outcome import ItemDone, ItemOutcome, check_claims_none, made_by, with_run
from lancewood.model.refs import MAIN
from lancewood.repo import ID, SECTION, RepoContext, branch_ref, checked_message, swap
from lancewood.store.disk_root import fsync_by_default

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
            _check_size(name, row.path, len(row.content))
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
    _check_utf8(name, text)
    return ItemFiles(name, files, tuple(removed), text)


def _check_size(item: str, path: str, size: int) -> None:
    if size > MOST_BYTES:
        raise InvalidInputError(
            f"{path!r} of item {item!r} has {size} bytes, {MOST_BYTES} is the most", item=item
        )


def _check_utf8(item: str, text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as cause:
        raise InvalidInputError(f"the message of item {item!r} is not UTF-8", item=item) from cause


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
                self._begun(path)
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

    def _begun(self, path: str) -> None:
        """Make an empty repository, completing an unfinished ``init`` or racing with another
        writer."""
        branch = self._snapshots.branch or MAIN
        with suppress(AlreadyExistsError):
            GitRepository.init(path, branch=branch, settings=new_settings(), fsync=self._fsync)

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
