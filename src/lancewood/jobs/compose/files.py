"""Files of a branch that its target takes over: under which names, and bringing them there.

A name is decided when somebody plans with it, and never used before, so that what one attempt
brought is never another's. Deletion files are named after fragments, whose numbers are those of one
plan: of these only what the last plan named is brought. Bringing means a hard link or a copy inside
the store: everything lies below the main root. May run twice: the same bytes under the same name.
"""

from __future__ import annotations

import contextlib
import secrets
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from pyroaring import BitMap

from lancewood.data.file_root import new_data_file_name
from lancewood.engine.base import in_order
from lancewood.engine.location import default_file_root, deletion_key
from lancewood.engine.snapshot import Snapshot, main_location
from lancewood.errors import StorageError
from lancewood.format.deletion import BITMAP, encode_deletions
from lancewood.format.layout import INDICES_DIR, blob_directory
from lancewood.jobs.job import shares
from lancewood.jobs.runner import Runner
from lancewood.model.fragment import DataFile, DeletionFile, Fragment
from lancewood.model.ids import FragmentId, Version
from lancewood.model.index import Index
from lancewood.proto import table_pb2
from lancewood.rules.moves import same_elsewhere
from lancewood.store.base import Store
from lancewood.store.transfer import link_or_copy

_MOST_IN_A_TASK = 500


_AT_ONCE = 8
"""Files that a task brings at once: most of the time is spent waiting."""


@dataclass(frozen=True, slots=True)
class Copy:
    """One file that is to be brought."""

    source: str
    target: str
    size: int | None = None
    with_blobs: bool = False
    """Bytes of blobs may lie in a directory beside it."""


@dataclass(frozen=True, slots=True)
class CopyTask:
    """Files to be brought from one store to another."""

    source: Store
    target: Store
    copies: tuple[Copy, ...]


class FilesToCopy:
    """What ``ours`` takes over of ``theirs``, planned and brought."""

    def __init__(self, theirs: Snapshot, ours: Snapshot) -> None:
        self._main = main_location(ours).store
        self._head = theirs
        self._target = ours.location.store
        self._file_root = default_file_root(ours.location, ours.manifest)
        self._has_blobs = any(column.is_blob_v2 for column in theirs.schema.walk())
        self._files: dict[str, DataFile] = {}
        self._deletions: dict[tuple[FragmentId, bytes, FragmentId], DeletionFile] = {}
        self._unions: dict[tuple[FragmentId, bytes], DeletionFile] = {}
        self._hiding: dict[str, bytes | tuple[Store, str]] = {}
        """The deletion files of the plan: their bytes, or where they are."""
        self._indices: dict[bytes, Index | None] = {}
        self._waiting: dict[str, list[Copy]] = {}
        self._stores: dict[str, Store] = {}
        self._written: dict[str, None] = {}

    def begin(self) -> None:
        """Begin a new plan: forget deletion files that only the plan before named."""
        self._hiding.clear()

    def data_file(self, file: DataFile) -> DataFile:
        """Plan a copy of a data file in the root of the target's data files, and return it."""
        found = self._files.get(file.path)
        if found is None:
            name = new_data_file_name()
            found = self._files[file.path] = same_elsewhere(file, name, self._file_root.base_id)
            store, key = self._head.location.data_file(self._head.manifest, file)
            into = self._below(self._file_root.store, self._file_root.key(name))
            self._plan(store, key, into, file.size, self._has_blobs)
        return same_elsewhere(file, found.path, found.base_id)

    def deletion_file(self, fragment: Fragment, number: FragmentId) -> DeletionFile | None:
        """The deletion file of a fragment in the target's root, named for the fragment's id there;
        None where nothing is deleted."""
        deletion = fragment.deletion_file
        found = self._head.location.deletion_file(self._head.manifest, fragment)
        if deletion is None or found is None:
            return None
        known = fragment.id, deletion.message.SerializeToString(), number
        if known not in self._deletions:
            made = self._deletions[known] = deletion.under(None)
            made.message.id = secrets.randbits(64)
        return self._named(number, self._deletions[known], found)

    def new_deletion_file(
        self, fragment: Fragment, deleted: BitMap, version: Version
    ) -> DeletionFile:
        """A deletion file of the target's fragment that lists exactly these rows."""
        data = encode_deletions(deleted, BITMAP)[1]
        known = fragment.id, data
        if known not in self._unions:
            message = table_pb2.DeletionFile(
                file_type=BITMAP,
                read_version=version,
                id=secrets.randbits(64),
                num_deleted_rows=len(deleted),
            )
            self._unions[known] = DeletionFile(message)
        return self._named(fragment.id, self._unions[known], data)

    def _named(
        self, number: FragmentId, file: DeletionFile, made_of: bytes | tuple[Store, str]
    ) -> DeletionFile:
        """A deletion file that the plan needs, unless it is there."""
        into = self._below(self._target, deletion_key(number, file))
        if into not in self._written:
            self._hiding[into] = made_of
        return file

    def index(self, index: Index) -> Index | None:
        """Plan a copy of an index in the target's root, under an identity of its own; returns None
        if its files are not to be found."""
        known = index.message.uuid.uuid
        if known not in self._indices:
            store, directory = self._head.location.index_directory(self._head.manifest, index)
            files = [(each.key, each.size) for each in store.list(directory)]
            if not files:
                # pylance 14 compacts an inherited index into the own root, and says otherwise.
                store, directory = self._head.location.store, f"{INDICES_DIR}/{index.uuid}"
                files = [(each.key, each.size) for each in store.list(directory)]
            new = uuid.uuid4()
            for key, size in files:
                into = f"{INDICES_DIR}/{new}{key.removeprefix(directory)}"
                self._plan(store, key, self._below(self._target, into), size)
            made = index.under(None)
            made.message.uuid.uuid = new.bytes
            self._indices[known] = made if files else None
        return self._indices[known]

    @property
    def planned(self) -> int:
        """How many files are to be brought."""
        return sum(map(len, self._waiting.values())) + len(self._hiding)

    def bring(self, runner: Runner) -> int:
        """Bring what was planned and is not there yet; how many files those were."""
        count, new = self.planned, dict[str, bytes]()
        for into, made_of in self._hiding.items():
            if isinstance(made_of, bytes):
                new[into] = made_of
            else:
                self._plan(*made_of, into)
        tasks = [
            CopyTask(self._stores[uri], self._main, some)
            for uri, copies in self._waiting.items()
            for some in shares(copies, runner.slots, _MOST_IN_A_TASK)
        ]
        self._written.update(dict.fromkeys(copy.target for task in tasks for copy in task.copies))
        self._waiting.clear()
        for blobs in runner.run(bring_files, tasks, what="adopting files"):
            self._written.update(dict.fromkeys(blobs))
        self._written.update(dict.fromkeys(new))
        for _ in in_order((partial(self._put, *each) for each in new.items()), workers=_AT_ONCE):
            pass
        self._hiding.clear()
        return count

    def _put(self, key: str, data: bytes) -> Iterator[str]:
        self._main.put(key, data)
        yield key

    def discard(self) -> None:
        """Remove what was brought, for an attempt that did not land. Best effort: cleanup finds the
        rest by age."""
        with contextlib.suppress(StorageError):
            self._main.delete([*self._written])
        self._written.clear()

    def _plan(
        self, store: Store, key: str, into: str, size: int | None = None, blobs: bool = False
    ) -> None:
        below = _below(self._main, store, key)
        source, key = (store, key) if below is None else (self._main, below)
        self._stores[source.uri] = source
        self._waiting.setdefault(source.uri, []).append(Copy(key, into, size, blobs))

    def _below(self, store: Store, key: str) -> str:
        found = _below(self._main, store, key)
        assert found is not None, "the roots of a table lie below its main root"
        return found


def bring_files(task: CopyTask) -> Sequence[str]:
    """Bring the files of a task; the keys of bytes of blobs that came with them."""
    work = (partial(_bring, task, each) for each in task.copies)
    return list(in_order(work, workers=_AT_ONCE))


def _bring(task: CopyTask, copy: Copy) -> Iterator[str]:
    link_or_copy(task.source, copy.source, task.target, copy.target, size=copy.size)
    if not copy.with_blobs:
        return
    beside, into = blob_directory(copy.source), blob_directory(copy.target)
    for each in task.source.list(beside):
        blob = f"{into}{each.key.removeprefix(beside)}"
        link_or_copy(task.source, each.key, task.target, blob, size=each.size)
        yield blob


def _below(main: Store, store: Store, key: str) -> str | None:
    """A key of another store as one of the main root; None for what does not lie below that."""
    if store.uri == main.uri:
        return key
    root = main.uri.rstrip("/") + "/"
    return f"{store.uri.removeprefix(root)}/{key}" if store.uri.startswith(root) else None
