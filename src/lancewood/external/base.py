"""What a manifest store is: who has which version of a table, in a place that can say "not twice".

Knows bases (which table), versions, and the paths of manifests. Does not read manifests, and does
not know what is in the object store.

What manifests and bases are called in a manifest store, and what the paths there mean.

Pure. Paths from a manifest store come from outside: one that leads elsewhere is refused here.
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


class Entry(NamedTuple):
    """What a manifest store says of one version."""

    version: Version
    path: str
    """Where the manifest is: its final path, or that of a staged one, which ends in a uuid."""
    size: int | None = None
    """The bytes of it, where that is known."""


@runtime_checkable
class ManifestStore(Protocol):
    """Entries by base and version. Whoever puts one first has committed that version.

    Answers are consistent: what was put is got from then on, in every process. A verb raises
    StorageError where the store fails; after a put that says nothing of whether it was done,
    unless the facts hold ``landed=False``. Picklable, and no text shows a secret. This protocol is
    all that a store of your own needs.
    """

    def get(self, base: str, version: Version) -> Entry | None:
        """The entry of one version; None where there is none."""

    def latest(self, base: str) -> Entry | None:
        """The entry of the highest version; None where the base has none."""

    def put_if_not_exists(self, base: str, entry: Entry) -> bool:
        """Whether the entry was put: False, with nothing changed, where the version has one."""

    def put_if_exists(self, base: str, entry: Entry) -> bool:
        """Whether the entry was put in the place of an older one: False where there was none."""


@runtime_checkable
class Forgetting(Protocol):
    """A manifest store that can also forget. Without it a table that was dropped cannot be made
    again under the same uri."""

    def forget(self, base: str, gone: Mapping[Version, str] | None = None) -> None:
        """Remove the entries of versions that have these paths, or with None all of the base."""


_STAGED = re.compile(r"(.+\.manifest)-([0-9A-Za-z-]+)")


class ManifestKey(NamedTuple):
    """A key below a root that is a manifest of the history, in that root or in one below it."""

    root: str
    """The root that it belongs to: ``""``, or for example ``tree/exp``."""
    name: str
    version: Version


def manifest_key_parts(key: str) -> ManifestKey | None:
    """What a key says; None for any other object, also for a manifest beside the history."""
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
    """A name for a manifest that is not yet where it will be, unlike any other."""
    return f"{name}-{uuid4()}"


def final_name(name: str) -> str | None:
    """What a staged manifest will be called; None for a name that is no staged one's."""
    found = _STAGED.fullmatch(name)
    return found[1] if found and parse_manifest_name(found[1]) else None


def path_of(base: str, name: str) -> str:
    """The path that a manifest has in a manifest store."""
    return f"{base}/{VERSIONS_DIR}/{name}" if base else f"{VERSIONS_DIR}/{name}"


class Place(NamedTuple):
    """Where an entry says that its manifest is."""

    name: str
    """The bare name of the object."""
    final: str
    """The bare name that it has, or will have."""

    @property
    def is_final(self) -> bool:
        return self.name == self.final


def place_of(base: str, entry: Entry) -> Place:
    """What the path of an entry means; raises FormatError for one that is no manifest of that
    version below that base."""
    directory, _, name = entry.path.rpartition("/")
    final = name if parse_manifest_name(name) else final_name(name)
    parsed = None if final is None else parse_manifest_name(final)
    if final is None or parsed is None or parsed.version != entry.version:
        wrong = f"expected the manifest of version {entry.version}"
    elif f"{directory}/" != path_of(base, ""):
        wrong = f"expected one below {path_of(base, '')}"
    else:
        return Place(name, final)
    raise FormatError(
        f"the manifest store says that version {entry.version} of {base!r} is at "
        f"{entry.path!r}: {wrong}. Correct that entry in the manifest store, or remove it",
        version=entry.version,
    )


def base_by_uri(uri: str) -> str:
    """What a table is called in a manifest store of ours: its uri, or the real path on a disk, so
    that a link to it is the same table. Raises InvalidInputError for a path that is no text."""
    base = uri if "://" in uri else os.path.realpath(uri)
    try:
        base.encode()
    except UnicodeEncodeError as cause:
        raise InvalidInputError(
            f"a table behind a manifest store has a path in UTF-8, got {base!a}"
        ) from cause
    return base


def base_in_bucket(uri: str) -> str:
    """What pylance calls it: the path inside the bucket, and nothing of the bucket."""
    return unquote(uri.partition("://")[2].partition("/")[2])
