"""Cloning a table, shallow or deep, and detaching a clone or a branch from its sources.

The target and the name of its base path are checked before anything is written.

A shallow clone reads the files of its source, and places its pins first. After a crash in between,
the pin names a clone that does not exist. The cloned version is checked before and after the clone
is written, since a cleanup that began before the pin may have removed it.

A deep clone copies files in tasks, under the same names, and writes the manifest last: until then
there is no table. A failure leaves its copies in place, since another clone to the same target
writes the same names; the next attempt overwrites them.

Detaching copies in files that lie elsewhere, then one commit switches. Rows, their ids and
versions, deleted rows and indices stay as they are, and other writers are not blocked: see
``rules.moves``. Data files get new names. Deletion files and indices keep theirs, so copies of a
failed attempt are not removed: another writer may use them by now. Older versions still read from
the sources. A pin at a source is removed when no version on any branch of the clone reads from it.
Manifests are read to find out, the oldest first, because it is the most likely to settle the
question.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeAlias

from lancewood.data.file_root import FileRoot, new_data_file_name
from lancewood.engine.base import in_order
from lancewood.engine.commit import PutIfAbsent, manifest_store_mark
from lancewood.engine.location import (
    Location,
    NewFile,
    deletion_key,
    find_trace,
    is_table_root,
    own_file_root,
)
from lancewood.engine.snapshot import (
    TAG,
    Access,
    Address,
    Family,
    Snapshot,
    find_family,
    manifest_names,
)
from lancewood.engine.upkeep import (
    PINS_CONFIG,
    ClonePin,
    PinRecord,
    Unpinned,
    find_pins,
    place_pins,
    read_record,
    remove_pins,
    without_record,
)
from lancewood.engine.versions import is_replaced, load_refs, load_tag
from lancewood.engine.write import (
    CopiedFragment,
    Residents,
    check_clonable,
    copy_fragments,
    write_clone,
    write_deep_clone,
)
from lancewood.errors import (
    CommitUnknownError,
    InvalidInputError,
    LancewoodError,
    NotFoundError,
    StorageError,
)
from lancewood.format.layout import (
    INDICES_DIR,
    OWNED_DIRS,
    TREE_DIR,
    VERSIONS_DIR,
    blob_directory,
    data_key,
    manifest_key,
)
from lancewood.format.manifest import decode_manifest_file
from lancewood.format.moved import copied_name
from lancewood.jobs.counts import DeepClone, DetachCounts, ShallowClone
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
from lancewood.model.refs import TagName
from lancewood.rules.moves import moved_files
from lancewood.store.base import Store, is_there
from lancewood.store.transfer import copy_object


def target_location(source: Snapshot, target: Address) -> Location:
    """The place of a clone; it reaches the files of the source with the source's options.

    Its storage options default to those of the source. Raises InvalidInputError if one of the two
    tables would lie inside the other.
    """
    location = source.location
    how = target.access or Access()
    if how.storage_options is None:
        how = replace(how, storage_options=location.storage_options)
        target = replace(target, access=how)
    store = target.store()
    main = location.main(source.manifest) or location.store
    if store.uri.startswith(f"{main.uri}/"):
        raise InvalidInputError(
            f"{store.uri} lies inside the table at {main.uri}; clone it to a place outside",
            uri=store.uri,
        )
    if any(f"{main.uri}/".startswith(f"{store.uri}/{each}/") for each in OWNED_DIRS):
        raise InvalidInputError(
            f"the table at {main.uri} would lie among the directories of its clone at {store.uri}, "
            "and go with it; clone it elsewhere",
            uri=store.uri,
        )
    known = {each.path: location.options_of(each) or {} for each in source.manifest.base_paths}
    known[location.uri] = location.storage_options or {}
    known.update(location.base_storage_options)
    known.update(how.base_storage_options or {})
    return Location(store, how.storage_options, base_storage_options=known)


def base_name(source: Snapshot, tag: str | None) -> str | None:
    """The name of a clone's base path: the tag or branch that is cloned.

    Raises NotFoundError for an unknown tag, InvalidInputError for a tag of another version.
    """
    head = source.manifest
    if tag is None:
        remembered = source.derived.get(TAG)
        return str(remembered) if remembered is not None else head.branch
    name = TagName(tag)
    main = source.location.main(head) or source.location.store
    found = load_tag(main, name)
    if found is None:
        raise NotFoundError(f"tag {tag!r} of {main.uri} not found; nothing was cloned", tag=tag)
    if (found.branch, found.version) != (head.branch, head.version):
        raise InvalidInputError(
            f"tag {tag!r} names version {found.version} of {found.branch or 'main'}, this is "
            f"version {head.version} of {head.branch or 'main'}; clone checkout(tag={tag!r})",
            tag=tag,
        )
    return str(name)


def clone_shallow(
    source: Snapshot,
    target: Location,
    *,
    base_name: str | None = None,
    dry_run: bool = False,
    properties: Mapping[str, str] | None = None,
) -> tuple[Snapshot, ShallowClone]:
    """The first version of a clone at the target, and the pins at its sources; in a dry run the
    source, and no pins.

    Raises AlreadyExistsError if the target holds a table, NotFoundError if the version was removed
    meanwhile; then there is no clone. After CommitUnknownError there may be one, or files of it may
    be missing.
    """
    check_clonable(source, target)
    if dry_run:
        return source, ShallowClone()
    record, unpinned = place_pins(source, target.uri)
    try:
        _check_there(source)
        config = without_record(source.manifest.config) | manifest_store_mark(target.store)
        if record.pins:
            config[PINS_CONFIG] = record.encode()
        made = write_clone(
            source, target, base_name=base_name, config=config, properties=properties
        )
    except CommitUnknownError:
        raise
    except (Exception, KeyboardInterrupt):
        remove_pins(source.location, record, target.uri)
        raise
    _check_still_there(source, target)
    return made, ShallowClone(record.pins, unpinned)


def _check_there(source: Snapshot) -> None:
    """Raise NotFoundError if the cloned version is gone."""
    version, store = source.manifest.version, source.location.store
    is_gone = not is_there(store, manifest_key(version, source.scheme))
    if is_gone or is_replaced(store, source.manifest, source.scheme):
        raise NotFoundError(
            f"version {version} of {source.location.uri} was removed meanwhile, by a cleanup or "
            "with its table; clone a newer one",
            version=version,
        )


def _check_still_there(source: Snapshot, target: Location) -> None:
    try:
        _check_there(source)
    except NotFoundError as cause:
        raise CommitUnknownError(
            f"{target.uri} was made of version {source.manifest.version} of {source.location.uri} "
            "while a cleanup removed that, and files of it may be gone; verify() tells, and drop() "
            "removes the clone",
            uri=target.uri,
        ) from cause
    except StorageError:
        return  # the clone exists, and there is no sign that the version is gone


@dataclass(frozen=True, slots=True)
class _CopyTask:
    """Fragments or indices whose files are to be copied."""

    source: Snapshot
    """The version to be cloned, without its fragments."""
    target: Store | None
    """The store to copy into; None: files are counted, and not copied."""
    fragments: tuple[Fragment, ...] = ()
    indices: tuple[Index, ...] = ()
    renamed: Mapping[str, str] | None = None


def clone_deep(
    source: Snapshot,
    target: Location,
    runner: Runner,
    *,
    dry_run: bool = False,
    properties: Mapping[str, str] | None = None,
) -> tuple[Snapshot, DeepClone]:
    """The first version of a deep clone at the target, and what was copied for it; in a dry run the
    source, and what would be.

    External blobs stay where they are. Raises AlreadyExistsError if the target holds a table,
    NotFoundError or FormatError for a file that is missing or has the wrong size.
    """
    check_clonable(source, target)
    source.location.settle(source.manifest)
    renamed = _renamed(source)
    tasks = [*_copy_tasks(source, None if dry_run else target.store, runner, renamed)]
    files = size = 0
    what = "counting files" if dry_run else "copying files"
    for each in runner.run(_copy, tasks, what=what):
        files, size = files + each.files, size + each.bytes
    if dry_run:
        return source, DeepClone(files, size)
    made = write_deep_clone(
        source,
        target,
        renamed=renamed,
        config=without_record(source.manifest.config) | manifest_store_mark(target.store),
        properties=properties,
    )
    return made, DeepClone(files, size)


def _renamed(source: Snapshot) -> dict[str, str]:
    """New names for data files whose name also occurs in another root."""
    location, manifest = source.location, source.manifest
    if not manifest.base_paths:
        return {}
    roots = {BaseId(each.id): location.base_store(each).uri for each in manifest.base_paths}
    seen: dict[str, str] = {}
    renamed: dict[str, str] = {}
    for fragment in manifest.fragments:
        for file in fragment.message.files:
            root = roots.get(BaseId(file.base_id)) if file.HasField("base_id") else location.uri
            if root is not None and seen.setdefault(file.path, root) != root:
                renamed[copied_name(file)] = new_data_file_name()
    return renamed


def _copy_tasks(
    source: Snapshot, target: Store | None, runner: Runner, renamed: Mapping[str, str]
) -> Iterator[_CopyTask]:
    bare = source.bare()
    for some in pack_fragments(source.manifest.fragments, runner.slots):
        mine = {
            key: renamed[key]
            for each in some
            for file in each.message.files
            if renamed and (key := copied_name(file)) in renamed
        }
        yield _CopyTask(bare, target, fragments=some, renamed=mine)
    for index in source.manifest.indices:
        yield _CopyTask(bare, target, indices=(index,))


def _copy(task: _CopyTask) -> DeepClone:
    work: list[Callable[[], Iterator[int]]] = [
        partial(_copy_fragment, task, each) for each in task.fragments
    ]
    work += [partial(_copy_index, task, each) for each in task.indices]
    sizes = [*in_order(work, workers=AT_ONCE)]
    return DeepClone(len(sizes), sum(sizes))


def _copy_fragment(task: _CopyTask, fragment: Fragment) -> Iterator[int]:
    location, head = task.source.location, task.source.manifest
    has_blobs = any(each.is_blob_v2 for each in task.source.schema.walk())
    for file in fragment.files:
        store, key = location.data_file(head, file)
        goal = data_key((task.renamed or {}).get(copied_name(file.message), file.path))
        yield _copied(store, key, task.target, goal, file.size)
        if has_blobs:
            yield from copy_directory(store, blob_directory(key), task.target, blob_directory(goal))
    deletion, found = fragment.deletion_file, location.deletion_file(head, fragment)
    if deletion is not None and found is not None:
        yield _copied(*found, task.target, deletion_key(fragment.id, deletion))


def _copy_index(task: _CopyTask, index: Index) -> Iterator[int]:
    store, directory = task.source.location.index_directory(task.source.manifest, index)
    yield from copy_directory(store, directory, task.target, f"{INDICES_DIR}/{index.uuid}")


def copy_directory(source: Store, directory: str, target: Store | None, goal: str) -> Iterator[int]:
    """Copy everything below a directory, or only count it; yields the sizes of the files."""
    for each in source.list(directory):
        name = each.key.removeprefix(directory)
        yield _copied(source, each.key, target, f"{goal}{name}", each.size)


def _copied(
    source: Store, key: str, target: Store | None, goal: str, size: int | None = None
) -> int:
    if target is not None:
        return copy_object(source, key, target, goal, size=size)
    return source.head(key).size if size is None else size


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
