"""Removing versions that nobody needs, and files that no version needs.

The order is the safety argument:

1. list what may be removed: what is made after that is never touched;
2. read the refs, then the manifests of every root that shares files: so whatever was committed,
   tagged or branched before the listing, and up to here, is seen;
3. announce what goes, read the refs again, remove the manifests of expired versions: so whoever
   clones one of them is seen, or sees it (``engine.upkeep``);
4. list the manifests again and read those that are new: a version that was restored or branched
   from an expired one meanwhile keeps its files;
5. remove files that no manifest names, if a removed one named them, or if they are older than
   any writer may still be at work.

Versions of the last minutes stay: a commit that saw the one before would take a number that became
free, and would have to withdraw (``engine.commit``). Whatever cannot be read stops it before
anything is removed, and a crash leaves at most files that nothing refers to. Touches one root only,
there only names that the format makes, and never follows a base path. Only the pins that a clone
left at its sources go, once no version of it reads from there.

A table of a repository is brought up to the repository's commits first, and what they pin counts
like refs do, in steps 2 and 3 (``commitments``).

Which files a version needs is read from its manifest, in tasks. Files are known by their names
below a root, wherever a base path says that the root is: names are random, so one that a manifest
mentions is that file, and a table that was moved, opened through a link or by a relative path is
not mistaken for another. Neighbouring versions have nearly all fragments in common, byte for byte.
So a task compares bytes first, and decodes only the fragments that its baseline and the version
before do not have.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from importlib import import_module
from typing import TYPE_CHECKING, TypeAlias

from lancewood.catalog.membership import repositories_of
from lancewood.engine.location import deletion_key
from lancewood.engine.snapshot import Family, Snapshot, find_family, manifest_names
from lancewood.engine.upkeep import ClonePin, Unpinned, announced
from lancewood.engine.versions import TableRefs, load_refs
from lancewood.errors import FormatError, NotFoundError, UnsupportedError, found_in
from lancewood.format.layout import (
    DATA_DIR,
    DELETIONS_DIR,
    INDICES_DIR,
    TRANSACTIONS_DIR,
    TREE_DIR,
    VERSIONS_DIR,
    ManifestName,
    blob_directory,
    check_file_name,
    is_data_key,
    parse_manifest_name,
    transaction_key,
)
from lancewood.format.manifest import decode_manifest_file
from lancewood.jobs.clone import release_pins
from lancewood.jobs.job import TASKS_PER_SLOT, chunks
from lancewood.jobs.runner import Runner
from lancewood.jobs.upkeep.retention import Retention, Sorted, sort_versions
from lancewood.model.fragment import ExternalRange, Fragment, Lineage
from lancewood.model.ids import Version
from lancewood.model.index import MEM_WAL
from lancewood.model.lines import Vector, held_by, line_of
from lancewood.model.manifest import Manifest
from lancewood.model.refs import called
from lancewood.proto import table_pb2
from lancewood.rules.features import READABLE, check_readable, known_writer_flags
from lancewood.store.base import Store
from lancewood.store.clock import time_by

if TYPE_CHECKING:
    from lancewood.jobs.upkeep.commitments import Commitments

_LINEAGE: tuple[Lineage, ...] = ("row_ids", "created_at_versions", "last_updated_at_versions")
_UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_DELETION = re.compile(rf"{DELETIONS_DIR}/\d+-\d+-\d+\.(?:arrow|bin)", re.ASCII)
_TRANSACTION = re.compile(rf"{TRANSACTIONS_DIR}/\d+-{_UUID}\.txn", re.ASCII)
_INDEX = re.compile(rf"({INDICES_DIR}/{_UUID})/.+", re.ASCII)


def owner_of(key: str) -> str | None:
    """What a file belongs to, in the words of ``Reading.needed``; None if it is not the format's.

    Bytes of blobs belong to a data file, files of an index to its directory.
    """
    if key.startswith(f"{DATA_DIR}/"):
        if not is_data_key(key):
            return None
        return key.rpartition("/")[0] if key.endswith(".blob") else blob_directory(key)
    if _DELETION.fullmatch(key) or _TRANSACTION.fullmatch(key):
        return key
    index = _INDEX.fullmatch(key)
    return index[1] if index else None


@dataclass(frozen=True, slots=True)
class ReadingTask:
    """Manifests of one root, to be read one after the other."""

    store: Store
    names: tuple[str, ...]
    baseline: str | None = None
    """A manifest that is kept and read by another task: what it needs is left out here."""
    may_go: frozenset[str] = frozenset()
    """The names of manifests that are expired, if they are old enough."""
    cutoff_ns: int | None = None
    """Expired manifests up to this time may go, in nanoseconds since 1970; None: of any age."""


@dataclass(frozen=True, slots=True)
class ManifestReading:
    """What a task found. A manifest that is no longer there is not in it."""

    needed: frozenset[str]
    """Files that versions need which stay."""
    expired: tuple[str, ...] = ()
    """Names of manifests that need not stay."""
    garbage: frozenset[str] = frozenset()
    """Files that expired versions name; some of them may be needed by others."""


def read_manifests(task: ReadingTask) -> ManifestReading:
    """Read every manifest of the task; raises for one that cannot be read or understood."""
    baseline = None if task.baseline is None else _load(task.store, task.baseline)
    common = frozenset(baseline.message.fragments) if baseline is not None else frozenset()
    kept, gone = _Names(common), _Names(common)
    expired = []
    for name in task.names:
        manifest = _load(task.store, name)
        if manifest is None:
            continue
        if name in task.may_go and _is_old(manifest, task.cutoff_ns):
            expired.append(name)
            gone.add(manifest)
        else:
            kept.add(manifest)
    return ManifestReading(frozenset(kept.found), tuple(expired), frozenset(gone.found))


def read_held(newest: tuple[Store, str]) -> tuple[str | None, Vector]:
    """The task: a branch, and what its newest version, by the name of its file, holds."""
    manifest = _load(*newest)
    return (None, {}) if manifest is None else (manifest.branch, held_by(manifest))


def names_in(manifest: Manifest) -> frozenset[str]:
    """Everything that one version needs."""
    names = _Names(frozenset())
    names.add(manifest)
    return frozenset(names.found)


def _is_old(manifest: Manifest, cutoff_ns: int | None) -> bool:
    if cutoff_ns is None:
        return True
    # A writer that left the time out says nothing about the age.
    return 0 < manifest.timestamp_ns <= cutoff_ns


@dataclass
class _Names:
    """Names of files that manifests need, gathered version by version."""

    common: frozenset[bytes]
    found: set[str] = field(default_factory=set)
    _before: frozenset[bytes] = frozenset()
    _index_section: bytes | None = None

    def add(self, manifest: Manifest) -> None:
        fragments = frozenset(manifest.message.fragments)
        fresh = Manifest(
            table_pb2.Manifest(fragments=fragments - self.common - self._before),
            name=manifest.name,
        )
        self._before = fragments
        with found_in(manifest.name):
            for fragment in fresh.fragments:
                self.found.update(_fragment_names(fragment))
            if manifest.transaction_file is not None:
                self.found.add(transaction_key(manifest.transaction_file))
            if manifest.index_section is not None and manifest.index_section != self._index_section:
                self._index_section = manifest.index_section
                self.found.update(_index_names(manifest))


def _fragment_names(fragment: Fragment) -> Iterator[str]:
    message = fragment.message
    for file in (*message.files, *(each.data_file for each in message.overlays)):
        name = check_file_name(file.path, "a data file")
        yield f"{DATA_DIR}/{blob_directory(name)}"
    deletion = fragment.deletion_file
    if deletion is not None:
        yield deletion_key(fragment.id, deletion)
    for what in _LINEAGE:
        location = fragment.lineage(what)
        if isinstance(location, ExternalRange):
            yield owner_of(location.path) or location.path


def _index_names(manifest: Manifest) -> Iterator[str]:
    for each in manifest.indices:
        if each.name == MEM_WAL:
            raise UnsupportedError(
                f"the table has a write-ahead log ({MEM_WAL}), and which files that needs is not "
                "known here; let pylance merge the log first"
            )
        yield f"{INDICES_DIR}/{each.uuid}"


def _load(store: Store, name: str) -> Manifest | None:
    """A manifest by the name of its file; None if it is gone."""
    key = f"{VERSIONS_DIR}/{name}"
    path = f"{store.uri}/{key}"
    try:
        manifest = decode_manifest_file(store.get(key), name=path)
    except NotFoundError:
        return None
    except FormatError as damage:
        raise FormatError(
            f"{damage.message}. Which files this version needs is not known, so nothing may go; "
            "repair() proposes to set it aside",
            file=path,
        ) from damage
    parsed = parse_manifest_name(name)
    if parsed is None or parsed.version != manifest.version:
        raise FormatError(f"{path}: says that it is version {manifest.version}", file=path)
    check_readable(manifest)
    unknown = manifest.writer_flags & ~(READABLE | known_writer_flags(manifest))
    if unknown:
        raise UnsupportedError(
            f"{path}: has writer flags {unknown} that this Lancewood does not know; which files "
            "such a version needs is not known, use the writer that set them",
            file=path,
            flags=unknown,
        )
    return manifest


_CLEANED = (VERSIONS_DIR, TRANSACTIONS_DIR, DELETIONS_DIR, INDICES_DIR, DATA_DIR)
_AT_ONCE = 1_000
"""Keys in one delete, and manifests in one task at most."""

_Manifests: TypeAlias = dict[str, dict[str, ManifestName]]
"""The manifests of each root, by the names of their files."""


@dataclass(frozen=True, slots=True)
class KeptVersion:
    """A version that is too old or too many, and why it stays."""

    version: int
    why: str


@dataclass(frozen=True, slots=True)
class CleanupReport:
    """What was removed, or with ``dry_run`` what would be."""

    dry_run: bool
    versions: tuple[int, ...]
    """Oldest first."""
    manifests: int
    data_files: int
    """Files with bytes of blobs included."""
    deletion_files: int
    transactions: int
    index_files: int
    bytes: int
    kept: tuple[KeptVersion, ...]
    """Versions that would have gone, had nobody needed them."""
    detached: int
    """Detached versions, all of which stay with their files."""
    in_flight: int
    """Files that no version names and that stay, since a writer may still be at work on them."""
    unpinned: tuple[ClonePin, ...] = ()
    """Pins of a clone at its sources that went, since no version reads from there any more."""
    still_pinned: tuple[Unpinned, ...] = ()
    """Sources of a clone that still have its pin, and why."""
    landed: tuple[int, ...] = ()
    """Versions that commits of a repository had waiting, and that landed first."""


def clean_up(
    snapshot: Snapshot,
    retention: Retention,
    runner: Runner,
    *,
    dry_run: bool = False,
    now: datetime | None = None,
) -> CleanupReport:
    """Remove what the retention allows from the root of the snapshot; see the module.

    Raises FormatError or UnsupportedError, before anything is removed, for a ref or a manifest of
    the table or of any of its branches that cannot be read, and NotFoundError for a repository
    that the table belongs to and that cannot be opened any more. Age is measured by the store's
    clock; in a dry run, which writes nothing, by this machine's.
    """
    commitments = _commitments(snapshot)
    landed = () if dry_run or commitments is None else commitments.land()
    if now is None:
        store = snapshot.location.store
        now = datetime.now(UTC) if dry_run else time_by(store, TRANSACTIONS_DIR)
    job = _Cleanup(snapshot, find_family(snapshot), retention, runner, now, commitments)
    report = replace(job.run(dry_run=dry_run), landed=landed)
    if dry_run:
        return report
    released = release_pins(snapshot, runner)
    return replace(report, unpinned=released.removed, still_pinned=released.kept)


def _commitments(snapshot: Snapshot) -> Commitments | None:
    """What repositories need of the table; None for one that belongs to none.

    Git is loaded here and not with the module: few tables need it.
    """
    members = repositories_of(snapshot)
    if not members:
        return None
    found: Commitments = import_module("lancewood.jobs.upkeep.commitments").Commitments(
        snapshot, members
    )
    return found


@dataclass
class _Listing:
    """Files and what a listing tells of them, in as little memory as a million of them need."""

    keys: list[str] = field(default_factory=list)
    sizes: array[int] = field(default_factory=lambda: array("Q"))
    modified: array[float] = field(default_factory=lambda: array("d"))

    def __iter__(self) -> Iterator[tuple[str, int, float]]:
        return zip(self.keys, self.sizes, self.modified, strict=True)

    @property
    def bytes(self) -> int:
        return sum(self.sizes)

    def add(self, key: str, size: int, modified: float) -> None:
        self.keys.append(key)
        self.sizes.append(size)
        self.modified.append(modified)

    def count(self, directory: str) -> int:
        return sum(each.startswith(f"{directory}/") for each in self.keys)


@dataclass
class _Cleanup:
    snapshot: Snapshot
    family: Family
    retention: Retention
    runner: Runner
    now: datetime
    commitments: Commitments | None = None
    needed: set[str] = field(default_factory=set)
    garbage: set[str] = field(default_factory=set)

    def run(self, *, dry_run: bool) -> CleanupReport:
        manifests, files = self._list()
        refs = load_refs(self.family.main)
        seen = self._manifests(refs)
        own = seen.get(self.family.own_root, {})
        fate = self._fate(refs, seen, manifests)
        expired = {name for name, found in own.items() if found.version in fate.gone}
        expired |= self._read(seen, fate, without=expired)
        if not dry_run:
            doomed_versions = {own[name].version for name in expired}
            with announced(self.family.main, self.family.branch, doomed_versions):
                refs = load_refs(self.family.main)
                rescued = self._rescued(refs, own, expired)
                expired -= rescued
                oldest_first = sorted(expired, key=lambda name: own[name].version)
                keys = [f"{VERSIONS_DIR}/{name}" for name in oldest_first]
                self._delete(keys, "removing versions")
            self._read_late(seen, self._manifests(refs), rescued)
        doomed, young = self._sweep(files, [*seen])
        if not dry_run:
            self._delete(doomed.keys, "removing files")
            deep = {"/".join(key.split("/")[:2]) for key in doomed.keys if key.count("/") > 1}
            for directory in sorted(deep):
                self.family.own.prune(directory)
        return CleanupReport(
            dry_run=dry_run,
            versions=tuple(sorted({own[name].version for name in expired})),
            manifests=len(expired),
            data_files=doomed.count(DATA_DIR),
            deletion_files=doomed.count(DELETIONS_DIR),
            transactions=doomed.count(TRANSACTIONS_DIR),
            index_files=doomed.count(INDICES_DIR),
            bytes=doomed.bytes + sum(manifests[name][0] for name in expired),
            kept=tuple(KeptVersion(*each) for each in sorted(fate.held.items())),
            detached=sum(each.detached for each in own.values()),
            in_flight=young,
        )

    def _list(self) -> tuple[dict[str, tuple[int, datetime]], _Listing]:
        """What may be removed: manifests by name, with size and time, and other files."""
        manifests: dict[str, tuple[int, datetime]] = {}
        files = _Listing()
        for directory in _CLEANED:
            for each in self.family.own.list(directory):
                if directory != VERSIONS_DIR:
                    if owner_of(each.key) is not None:
                        files.add(each.key, each.size, each.modified.timestamp())
                    continue
                name = each.key.removeprefix(f"{VERSIONS_DIR}/")
                if parse_manifest_name(name):
                    manifests[name] = each.size, each.modified
        return manifests, files

    def _manifests(self, refs: TableRefs) -> _Manifests:
        return {root: manifest_names(self.family.store(root)) for root in self.family.roots(refs)}

    def _fate(
        self,
        refs: TableRefs,
        seen: _Manifests,
        listed: dict[str, tuple[int, datetime]],
    ) -> Sorted:
        """The versions, sorted into those that stay and those that may go."""
        own = seen.get(self.family.own_root, {})
        attached = {name: each.version for name, each in own.items() if not each.detached}
        if not attached:
            raise NotFoundError(f"no table at {self.family.own.uri} any more; nothing was removed")
        modified: dict[Version, datetime] = {}
        for name, version in attached.items():
            if name in listed:
                modified[version] = max(listed[name][1], modified.get(version, listed[name][1]))
        for name, version in attached.items():
            if name not in listed:
                modified.pop(version, None)
        held: dict[Version, str] = {}
        if self.retention.surplus(attached.values()):
            held.update(self._merged(refs, seen))
            if self.commitments is not None:
                held.update(self.commitments.held().among(attached.values()))
        held.update(
            {Version(each): "it was asked to be protected" for each in self.retention.protect}
        )
        held[self.snapshot.manifest.version] = "this handle is on it"
        held.update(refs.held(self.family.branch))
        return sort_versions(self.retention, modified, held, attached.values(), self.now)

    def _merged(self, refs: TableRefs, seen: _Manifests) -> Iterator[tuple[Version, str]]:
        """The versions of this branch up to which others hold it: what changed since is told by
        them when the two are merged."""
        own, line = self.family.branch, line_of(self.snapshot.manifest).id
        roots = {"", *(f"{TREE_DIR}/{each.name}" for each in refs.branches)}
        tasks = [
            (self.family.store(root), _newest_first(manifests)[0])
            for root, manifests in seen.items()
            if root in roots - {self.family.own_root} and manifests
        ]
        found = self.runner.run(read_held, tasks, what="reading newest versions") if tasks else ()
        for branch, held in found:
            for each, reached in held.items():
                if each == line or reached.branch == own:
                    yield reached.version, f"{called(branch)} has merged it"

    def _read(self, seen: _Manifests, fate: Sorted, without: set[str]) -> set[str]:
        """Read every manifest of the family but those; the names of own ones that are expired."""
        cutoff = self.retention.cutoff(self.now)
        cutoff_ns = None if cutoff is None else int(cutoff.timestamp() * 1e9)
        own = seen[self.family.own_root]
        may_go = frozenset(name for name, each in own.items() if each.version in fate.may_go)
        tasks = []
        for root, manifests in seen.items():
            is_own = root == self.family.own_root
            names = [each for each in _newest_first(manifests) if not is_own or each not in without]
            store = self.family.store(root)
            tasks += [ReadingTask(store, (name,)) for name in names[:1]]
            share = -(-len(names) // max(1, self.runner.slots * TASKS_PER_SLOT))
            for some in chunks(names[1:], min(max(1, share), _AT_ONCE)):
                going = may_go.intersection(some) if is_own else frozenset()
                tasks.append(ReadingTask(store, some, names[0], going, cutoff_ns))
        return self._run(tasks)

    def _read_late(self, before: _Manifests, now: _Manifests, rescued: set[str]) -> None:
        """Read the manifests that came into being since the others were listed."""
        tasks = []
        for root, manifests in now.items():
            names = manifests.keys() - before.get(root, {}).keys()
            if root == self.family.own_root:
                names |= rescued
            if names:
                tasks.append(ReadingTask(self.family.store(root), tuple(sorted(names))))
        self._run(tasks)

    def _run(self, tasks: Sequence[ReadingTask]) -> set[str]:
        expired: set[str] = set()
        for each in self.runner.run(read_manifests, tasks, what="reading manifests"):
            self.needed |= each.needed
            self.garbage |= each.garbage
            expired.update(each.expired)
        return expired

    def _rescued(
        self, refs: TableRefs, own: dict[str, ManifestName], expired: set[str]
    ) -> set[str]:
        """Expired versions that got a ref or a pin while manifests were read."""
        held = refs.held(self.family.branch)
        if self.commitments is not None and expired:
            held |= self.commitments.since().among(own[name].version for name in expired)
        return {name for name in expired if own[name].version in held}

    def _sweep(self, files: _Listing, roots: Iterable[str]) -> tuple[_Listing, int]:
        """The files that may go, and how many more would if they were older."""
        stale = self.retention.stale(self.now).timestamp()
        inside = f"{self.family.own_root}/"
        # Branch p/data lives among the data files of branch p.
        others = tuple(f"{each.removeprefix(inside)}/" for each in roots if each.startswith(inside))
        doomed, young = _Listing(), 0
        for key, size, modified in files:
            owner = owner_of(key)
            if owner is None or owner in self.needed or key.startswith(others):
                continue
            if owner in self.garbage or modified <= stale:
                doomed.add(key, size, modified)
            else:
                young += 1
        return doomed, young

    def _delete(self, keys: Sequence[str], what: str) -> None:
        for _ in self.runner.run(self.family.own.delete, chunks(keys, _AT_ONCE), what=what):
            pass


def _newest_first(manifests: dict[str, ManifestName]) -> list[str]:
    """Attached versions from the newest on, then the detached ones."""
    return sorted(manifests, key=lambda name: (manifests[name].detached, -manifests[name].version))
