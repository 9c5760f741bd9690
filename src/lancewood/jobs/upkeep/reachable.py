"""Which files a version needs, and which those of many versions are together.

Files are known by their names below a root, wherever a base path says that the root is: names are
random, so one that a manifest mentions is that file, and a table that was moved, opened through a
link or by a relative path is not mistaken for another. Reads manifests, and nothing else.

Neighbouring versions have nearly all fragments in common, byte for byte. So a task compares bytes
first, and decodes only the fragments that its baseline and the version before do not have.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from lancewood.engine.location import deletion_key
from lancewood.errors import FormatError, NotFoundError, UnsupportedError, found_in
from lancewood.format.layout import (
    DATA_DIR,
    DELETIONS_DIR,
    INDICES_DIR,
    TRANSACTIONS_DIR,
    VERSIONS_DIR,
    blob_directory,
    check_file_name,
    is_data_key,
    parse_manifest_name,
    transaction_key,
)
from lancewood.format.manifest import decode_manifest_file
from lancewood.model.fragment import ExternalRange, Fragment, Lineage
from lancewood.model.index import MEM_WAL
from lancewood.model.lines import Vector, held_by
from lancewood.model.manifest import Manifest
from lancewood.proto import table_pb2
from lancewood.rules.features import READABLE, check_readable, known_writer_flags
from lancewood.store.base import Store

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
