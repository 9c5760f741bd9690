"""Detaching a clone or a branch: files that lie elsewhere are copied in, then one commit switches.

Rows, their ids and versions, deleted rows and indices stay as they are, and other writers are not
blocked: see ``rules.moves``. Data files get new names. Deletion files and indices keep theirs, so
copies of a failed attempt are not removed: another writer may use them by now.

Older versions still read from the sources. A pin at a source is removed when no version on any
branch of the clone reads from it. Manifests are read to find out, the oldest first, because it is
the most likely to settle the question.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeAlias

from lancewood.data.file_root import FileRoot
from lancewood.engine.base import in_order
from lancewood.engine.commit import PutIfAbsent
from lancewood.engine.location import (
    Location,
    NewFile,
    deletion_key,
    find_trace,
    is_table_root,
    own_file_root,
)
from lancewood.engine.snapshot import Family, Snapshot, find_family, manifest_names
from lancewood.engine.upkeep import (
    ClonePin,
    PinRecord,
    Unpinned,
    find_pins,
    read_record,
    remove_pins,
)
from lancewood.engine.versions import load_refs
from lancewood.engine.write import CopiedFragment, Residents, copy_fragments
from lancewood.errors import LancewoodError, NotFoundError
from lancewood.format.layout import INDICES_DIR, TREE_DIR, VERSIONS_DIR
from lancewood.format.manifest import decode_manifest_file
from lancewood.jobs.clone.clone import copy_directory
from lancewood.jobs.counts import DetachCounts
from lancewood.jobs.job import (
    AT_ONCE,
    Change,
    CommitOptions,
    PreparedJob,
    gather,
    pack_fragments,
    shares,
)
from lancewood.jobs.runner import Runner
from lancewood.model.fragment import Fragment
from lancewood.model.ids import BaseId
from lancewood.model.index import Index
from lancewood.rules.moves import moved_files
from lancewood.store.transfer import copy_object

_MOST_MANIFESTS = 1_000
"""Number of manifests in one task."""
_ROUNDS = 3
"""Repeated while others put new files elsewhere."""
_DetachTask: TypeAlias = tuple[Fragment, ...] | Index


@dataclass(frozen=True, slots=True)
class _BroughtIn:
    """The result of one task."""

    images: tuple[Fragment, ...] = ()
    files: tuple[NewFile, ...] = ()
    """Copies under new names."""
    counts: DetachCounts = field(default_factory=DetachCounts)


@dataclass(frozen=True)
class Detach(PreparedJob[DetachCounts]):
    """A clone or a branch that is to have all its files in its own root."""

    runner: Runner = field(repr=False)

    def plan(self, snapshot: Snapshot) -> DetachCounts:
        """What would be copied, without files of blobs; pins are not looked at."""
        snapshot.location.settle(snapshot.manifest)
        elsewhere = _Elsewhere(snapshot)
        sizes = [(each, [*elsewhere.sizes(each)]) for each in elsewhere.fragments()]
        indices = [size for each in elsewhere.indices() for size in elsewhere.index_sizes(each)]
        files = [size for _, some in sizes for size in some] + indices
        return DetachCounts(len(sizes), len(files), sum(files))

    def run(
        self, snapshot: Snapshot, commit_options: CommitOptions
    ) -> tuple[Snapshot, DetachCounts]:
        snapshot.check_writable()
        total = DetachCounts()
        for _ in range(_ROUNDS):
            snapshot, counts = super().run(snapshot, commit_options)
            total += counts
            if not counts.files:
                break
        released = release_pins(snapshot, self.runner)
        return snapshot, replace(total, unpinned=released.removed, still_pinned=released.kept)

    def prepare(self, snapshot: Snapshot) -> Change[DetachCounts]:
        manifest = snapshot.manifest
        snapshot.location.settle(manifest)
        elsewhere = _Elsewhere(snapshot)
        tasks: list[_DetachTask] = [*pack_fragments(elsewhere.fragments(), self.runner.slots)]
        indices = elsewhere.indices()
        tasks += indices
        left = elsewhere.bases()
        if not tasks and not left:
            return Change(None, DetachCounts())
        PutIfAbsent().check_trust(snapshot.location.store)
        work = partial(_bring_in, snapshot.bare(), elsewhere.file_root)
        done = gather(self.runner, work, tasks, what="copying files", snapshot=snapshot)
        operation = replace(
            moved_files(image for part in done for image in part.images),
            indices_in_own_root=frozenset(each.message.uuid.uuid for each in indices),
            bases_left=left,
        )
        counts = sum((part.counts for part in done), DetachCounts())
        return Change(operation, counts, tuple(file for part in done for file in part.files))


class _Elsewhere:
    """The parts of a version that lie outside the table's own root."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self.file_root = own_file_root(snapshot.location)
        self._residents = Residents(snapshot, self.file_root)

    def fragments(self) -> Iterator[Fragment]:
        """Fragments that have a file elsewhere."""
        if not self._snapshot.manifest.base_paths:
            return
        for each in self._snapshot.manifest.fragments:
            if self._residents.outside(each) or _has_foreign_deletions(self._snapshot, each):
                yield each

    def sizes(self, fragment: Fragment) -> Iterator[int]:
        """The bytes of each of its files that lie elsewhere, as far as they are recorded."""
        yield from (each.size or 0 for each in self._residents.outside(fragment))
        if _has_foreign_deletions(self._snapshot, fragment):
            found = self._snapshot.location.deletion_file(self._snapshot.manifest, fragment)
            assert found is not None
            store, key = found
            yield store.head(key).size

    def index_sizes(self, index: Index) -> Iterator[int]:
        """The bytes of each file of an index."""
        manifest = self._snapshot.manifest
        store, directory = self._snapshot.location.index_directory(manifest, index)
        return (each.size for each in store.list(directory))

    def indices(self) -> list[Index]:
        location, manifest = self._snapshot.location, self._snapshot.manifest
        return [
            each
            for each in manifest.indices
            if each.base_id is not None
            and location.index_directory(manifest, each)[0].uri != location.uri
        ]

    def bases(self) -> frozenset[BaseId]:
        """Base paths to drop: those of other tables, and a branch's main root.

        A root that holds no table stays, since others may be writing there. If blobs may refer to
        base paths, all of them stay.
        """
        location, manifest = self._snapshot.location, self._snapshot.manifest
        if any(each.is_blob_v2 for each in self._snapshot.schema.walk()):
            return frozenset()
        return frozenset(
            BaseId(each.id)
            for each in manifest.base_paths
            if each.is_dataset_root
            and (root := location.base_store(each)).uri != location.uri
            and is_table_root(root)
        )


def _has_foreign_deletions(snapshot: Snapshot, fragment: Fragment) -> bool:
    deletion = fragment.deletion_file
    if deletion is None or deletion.base_id is None:
        return False
    found = snapshot.location.deletion_file(snapshot.manifest, fragment)
    return found is not None and found[0].uri != snapshot.location.uri


def _bring_in(snapshot: Snapshot, file_root: FileRoot, task: _DetachTask) -> _BroughtIn:
    """The task: copy the files of some fragments or of an index into the table's own root."""
    if isinstance(task, Index):
        store, directory = snapshot.location.index_directory(snapshot.manifest, task)
        goal = f"{INDICES_DIR}/{task.uuid}"
        sizes = [*copy_directory(store, directory, snapshot.location.store, goal)]
        return _BroughtIn(counts=DetachCounts(0, len(sizes), sum(sizes)))
    copied = copy_fragments(snapshot, task, file_root)
    files = tuple(file for each in copied for file in each.files)
    try:
        work = (partial(_with_deletions, snapshot, each) for each in copied)
        done = [*in_order(work, workers=AT_ONCE)]
    except BaseException:
        snapshot.discard(files)
        raise
    counts = sum((counts for _, counts in done), DetachCounts())
    return _BroughtIn(tuple(image for image, _ in done), files, counts)


def _with_deletions(
    snapshot: Snapshot, copied: CopiedFragment
) -> Iterator[tuple[Fragment, DetachCounts]]:
    """The fragment with its deletion file copied in as well, and the counts for it."""
    image, sizes = copied.image, [each.bytes for each in copied.copies]
    files = len(copied.files)
    if _has_foreign_deletions(snapshot, image):
        deletion = image.deletion_file
        found = snapshot.location.deletion_file(snapshot.manifest, image)
        assert deletion is not None
        assert found is not None
        key = deletion_key(image.id, deletion)
        sizes.append(copy_object(*found, snapshot.location.store, key))
        files += 1
        image = image.with_deletion_file(deletion.under(None))
    yield image, DetachCounts(1, files, sum(sizes))


@dataclass(frozen=True, slots=True)
class Released:
    """The outcome for a clone's pins."""

    removed: tuple[ClonePin, ...] = ()
    kept: tuple[Unpinned, ...] = ()
    """Tables that still have a pin, and why."""


@dataclass(frozen=True, slots=True)
class _ReleaseTask:
    """Manifests of one root that may read from other tables."""

    location: Location
    names: tuple[str, ...]
    roots: frozenset[str]


def release_pins(snapshot: Snapshot, runner: Runner) -> Released:
    """Remove the pins that no version of the table needs. Best effort: a source that cannot be
    reached keeps its pin."""
    record = read_record(snapshot.manifest.config)
    if record is None:
        return Released()
    location = snapshot.location
    try:
        family = find_family(snapshot)
        found, doubtful = find_pins(location, record, family.main.uri)
        there = [pin for _, pin in found]
        needed = _needed(location, family, frozenset(each.root for each in there), runner)
    except LancewoodError as error:
        return Released(kept=tuple(Unpinned(each.root, error.message) for each in record.pins))
    free = tuple(each for each in there if each.root not in needed)
    kept = [*doubtful, *(Unpinned(root, why) for root, why in needed.items())]
    kept += remove_pins(location, PinRecord(record.clone, free), family.main.uri)
    stay = {each.root for each in kept}
    return Released(tuple(each for each in free if each.root not in stay), tuple(kept))


def _needed(
    location: Location, family: Family, roots: frozenset[str], runner: Runner
) -> dict[str, str]:
    """The roots that some version reads from, each with an explanation."""
    if not roots:
        return {}
    needed: dict[str, str] = {}
    tasks = []
    for root in family.roots(load_refs(family.main)):
        store = family.store(root)
        manifests = manifest_names(store)
        oldest_first = sorted(manifests, key=lambda name: manifests[name].version)
        here = location if store.uri == location.uri else location.at(store)
        needed |= _reading(_ReleaseTask(here, tuple(oldest_first[:1]), roots))
        tasks += [
            _ReleaseTask(here, some, roots)
            for some in shares(oldest_first[1:], runner.slots, _MOST_MANIFESTS)
        ]
    if needed.keys() != roots:
        for each in runner.run(_reading, tasks, what="reading manifests"):
            needed |= each
    return needed


def _reading(task: _ReleaseTask) -> dict[str, str]:
    """The roots that the versions of a task read from; stops when all are known to be needed."""
    found: dict[str, str] = {}
    for name in task.names:
        for root, why in _reads_from(task, name):
            found.setdefault(root, why)
        if found.keys() == task.roots:
            break
    return found


def _reads_from(task: _ReleaseTask, name: str) -> Iterator[tuple[str, str]]:
    key = f"{VERSIONS_DIR}/{name}"
    try:
        manifest = decode_manifest_file(task.location.store.get(key), name=key)
    except NotFoundError:
        return
    for base in manifest.base_paths:
        uri = task.location.base_store(base).uri
        for root in task.roots:
            if uri != root and not uri.startswith(f"{root}/{TREE_DIR}/"):
                continue
            if find_trace(manifest, BaseId(base.id)) is not None:
                why = f"version {manifest.version} of {task.location.uri} reads from it"
                yield root, f"{why}; the pin goes after a cleanup of that version"
