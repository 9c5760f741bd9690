"""The protocol of a manifest store, and the names of manifests and bases in one.

A manifest store knows which versions of a table exist and never accepts one twice. It knows bases
(tables), versions and paths of manifests, but does not read manifests. Paths from a manifest store
are outside input: one that does not fit its base and version is refused here.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import NamedTuple, Protocol, runtime_checkable
from urllib.parse import unquote
from uuid import uuid4

from lancewood.errors import FormatError, InvalidInputError
from lancewood.format.layout import VERSIONS_DIR, parse_manifest_name
from lancewood.model.ids import Version

_STAGED = re.compile(r"(.+\.manifest)-([0-9A-Za-z-]+)")


class ManifestEntry(NamedTuple):
    """One version in a manifest store."""

    version: Version
    path: str
    """The final path of the manifest, or its staged path, which ends in a uuid."""
    size: int | None = None
    """The size of the manifest in bytes, if known."""


@runtime_checkable
class ManifestStore(Protocol):
    """Entries by base and version. The first put of an entry commits its version.

    Reads are consistent: every process sees an entry as soon as it is put. A verb raises
    StorageError if the store fails; a put may have been done then, unless the error's facts contain
    ``landed=False``. A store is picklable, and its repr shows no secret. Implement this protocol
    for another store.
    """

    def get(self, base: str, version: Version) -> ManifestEntry | None:
        """The entry of one version, or None."""

    def latest(self, base: str) -> ManifestEntry | None:
        """The entry of the highest version, or None."""

    def put_if_not_exists(self, base: str, entry: ManifestEntry) -> bool:
        """Whether the entry was put: False, with nothing changed, if the version has an entry."""

    def put_if_exists(self, base: str, entry: ManifestEntry) -> bool:
        """Whether the entry replaced an older one: False if there was none."""


@runtime_checkable
class Forgetting(Protocol):
    """A manifest store that can also forget, so that a dropped table can be created again."""

    def forget(self, base: str, gone: Mapping[Version, str] | None = None) -> None:
        """Remove the entries with these versions and paths; None removes all of the base."""


class ManifestKey(NamedTuple):
    """The key of a manifest in the history of a root or of a branch below it."""

    root: str
    """The root it belongs to: ``""`` or, for example, ``tree/exp``."""
    name: str
    version: Version


def manifest_key_parts(key: str) -> ManifestKey | None:
    """The parts of a manifest's key; None for any other object and for a detached manifest."""
    directory, _, name = key.rpartition("/")
    root, _, last = directory.rpartition("/")
    if last != VERSIONS_DIR:
        return None
    found = parse_manifest_name(name)
    return None if found is None or found.detached else ManifestKey(root, name, found.version)


def versions_root(directory: str) -> str | None:
    """The root whose manifests a directory holds; None for any other directory."""
    root, _, last = directory.rpartition("/")
    return root if last == VERSIONS_DIR else None


def staged_name(name: str) -> str:
    """A unique name for a manifest that does not have its final name yet."""
    return f"{name}-{uuid4()}"


def final_name(name: str) -> str | None:
    """The final name of a staged manifest; None for any other name."""
    found = _STAGED.fullmatch(name)
    return found[1] if found and parse_manifest_name(found[1]) else None


def path_of(base: str, name: str) -> str:
    """The path of a manifest in a manifest store."""
    return f"{base}/{VERSIONS_DIR}/{name}" if base else f"{VERSIONS_DIR}/{name}"


class ManifestName(NamedTuple):
    """The object names of an entry's manifest."""

    name: str
    final: str
    """The final name that the manifest has or will have."""

    @property
    def is_final(self) -> bool:
        return self.name == self.final


def location_of(base: str, entry: ManifestEntry) -> ManifestName:
    """The names behind an entry's path; raises FormatError if the path does not fit the version and
    base."""
    directory, _, name = entry.path.rpartition("/")
    final = name if parse_manifest_name(name) else final_name(name)
    parsed = None if final is None else parse_manifest_name(final)
    if final is None or parsed is None or parsed.version != entry.version:
        wrong = f"expected the manifest of version {entry.version}"
    elif f"{directory}/" != path_of(base, ""):
        wrong = f"expected one below {path_of(base, '')}"
    else:
        return ManifestName(name, final)
    raise FormatError(
        f"the manifest store says that version {entry.version} of {base!r} is at "
        f"{entry.path!r}: {wrong}. Correct that entry in the manifest store, or remove it",
        version=entry.version,
    )


def base_by_uri(uri: str) -> str:
    """A table's base in our own manifest stores: its uri, or its real path on a disk, so that a
    link leads to the same table. Raises InvalidInputError for a path that is not valid text."""
    base = uri if "://" in uri else os.path.realpath(uri)
    try:
        base.encode()
    except UnicodeEncodeError as cause:
        raise InvalidInputError(
            f"a table behind a manifest store has a path in UTF-8, got {base!a}"
        ) from cause
    return base


def base_in_bucket(uri: str) -> str:
    """A table's base in pylance: the path inside the bucket, without the bucket."""
    return unquote(uri.partition("://")[2].partition("/")[2])
