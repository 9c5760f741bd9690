"""Writing snapshots of items, each exactly once for a run.

A new item is made whole and renamed; one that is there moves by compare-and-swap. Either way the
commit says which run it is of, so that whoever does the same work again, at the same moment or
years later, finds it done. Knows the disk; knows nothing of Spark.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal
from uuid import uuid4

from lancewood.catalog.files import put_beside, put_files
from lancewood.catalog.tables import TableTree
from lancewood.errors import AlreadyExistsError, CommitUnknownError, LancewoodError, StorageError
from lancewood.git.birth import make_whole
from lancewood.git.hashes import Hash
from lancewood.git.newpack import PackedObjects
from lancewood.git.repository import GitRepository
from lancewood.git.signature import Signature
from lancewood.model.refs import MAIN
from lancewood.repo.committing.swapping import swap
from lancewood.repo.grounds import ID, SECTION, Grounds
from lancewood.repo.items.file_rows import ItemFiles, Mode
from lancewood.repo.items.outcome import Done, Outcome
from lancewood.repo.items.places import ItemPlaces
from lancewood.repo.items.removing import without_paths
from lancewood.repo.items.runs import made_by, with_run
from lancewood.repo.ref_names import branch_ref
from lancewood.store.disk import DiskStore


@dataclass(frozen=True)
class Snapshots:
    """What all snapshots of a run have in common. Small, and it pickles."""

    run: str
    author: Signature
    branch: str | None = None
    """None: the one that HEAD of the item names."""
    mode: Mode = "replace"
    fsync: bool | None = None


class ItemWriter:
    """Writes items below a folder, one after the other; ``settle`` when all are done."""

    def __init__(self, folder: str, snapshots: Snapshots) -> None:
        self._snapshots = snapshots
        self._fsync = DiskStore(folder, snapshots.fsync).fsync
        self._places = ItemPlaces(folder, fsync=self._fsync)

    def write(self, files: ItemFiles) -> Outcome:
        """Record a snapshot of one item. What refuses it is an outcome.

        Raises StorageError and CommitUnknownError: what another attempt may mend.
        """
        try:
            return self._write(files)
        except LancewoodError as error:
            if is_passing(error):
                raise
            return Outcome.refused(files.item, error)

    def settle(self) -> None:
        """Make all that was written durable."""
        self._places.settle()

    def _write(self, files: ItemFiles) -> Outcome:
        path = self._places.path(files.item)
        if files.files:
            self._places.make_room(files.item)
        elif not os.path.lexists(f"{path}/HEAD"):
            return Outcome(files.item, Done.UNCHANGED)
        else:
            self._places.check_inside(files.item)
        if not os.path.lexists(f"{path}/HEAD"):
            if self._places.check_free(files.item):
                tip = self._born(path, files)
                if tip is not None:
                    self._places.check_alone(files.item)
                    self._places.named(files.item)
                    return Outcome(files.item, Done.WRITTEN, tip)
            if not os.path.lexists(f"{path}/HEAD"):
                self._places.check_free(files.item)
                self._begun(path)
                self._places.named(files.item)
        return self._moved(path, files)

    def _born(self, path: str, files: ItemFiles) -> Hash | None:
        """A new item with this snapshot; None if it is there by now."""
        snapshots, packed = self._snapshots, PackedObjects()
        tree = packed.put_tree(put_files(packed, files.files))
        text = with_run(files.message, snapshots.run)
        tip = packed.put_commit(tree, (), snapshots.author, text)
        ref = branch_ref(snapshots.branch or MAIN)
        is_born = make_whole(
            path,
            staging=self._places.staging(),
            head=ref,
            refs={ref: tip},
            objects=packed.found,
            settings=new_settings(),
            fsync=self._fsync,
        )
        return tip if is_born else None

    def _begun(self, path: str) -> None:
        """An empty repository, from what was cut off, or beside another who makes it."""
        branch = self._snapshots.branch or MAIN
        with suppress(AlreadyExistsError):
            GitRepository.init(path, branch=branch, settings=new_settings(), fsync=self._fsync)

    def _moved(self, path: str, files: ItemFiles) -> Outcome:
        """Another commit on the branch of an item that is there."""
        snapshots = self._snapshots
        git = GitRepository.open(path, fsync=self._fsync)
        try:
            grounds = Grounds(git, fsync=self._fsync)
            branch = snapshots.branch or grounds.current()
            head = git.refs.head().hash
            ref = branch_ref(branch)
            proposal = _Proposal(grounds, files, snapshots)
            if head is not None and git.refs.read(ref) is None:
                # What is refused is refused before the branch is there.
                proposal.tree(head)
                why = "branch: Created from HEAD"
                git.refs.move(ref, None, head, why=why, by=snapshots.author)
            commit = swap(
                grounds,
                branch,
                proposal,
                message=with_run(files.message, snapshots.run),
                author=snapshots.author,
                verb="snapshot",
            )
            if commit is not None:
                return Outcome(files.item, Done.WRITTEN, commit)
            return Outcome(files.item, proposal.found, proposal.hash)
        finally:
            git.close()


@dataclass
class _Proposal:
    """The files of an item as a commit; asked again whenever somebody else was faster."""

    grounds: Grounds
    files: ItemFiles
    snapshots: Snapshots
    found: Literal[Done.ALREADY, Done.UNCHANGED] = Done.UNCHANGED
    hash: Hash | None = None

    def tree(self, tip: Hash | None) -> TableTree | None:
        objects = self.grounds.git.objects
        if tip is not None:
            made = made_by(objects, tip, self.snapshots.run)
            if made is not None:
                self.found, self.hash = Done.ALREADY, made
                return None
        before = self.grounds.tree(tip)
        if self.snapshots.mode == "replace":
            wanted = put_files(objects, self.files.files)
        else:
            left = without_paths(objects, before.files, self.files.removed)
            wanted = put_beside(objects, left, self.files.files)
        if tip is not None and wanted == before.files:
            self.found, self.hash = Done.UNCHANGED, tip
            return None
        return before.with_files(wanted)


def is_passing(error: LancewoodError) -> bool:
    """Whether the same may go well another time."""
    return isinstance(error, StorageError | CommitUnknownError)


def new_settings() -> dict[str, str]:
    """What a new item says of itself."""
    return {f"{SECTION}.{ID}": uuid4().hex}
