"""What manifests and bases are called in a manifest store, and what the paths there mean.

Pure. Paths from a manifest store come from outside: one that leads elsewhere is refused here.
"""

from __future__ import annotations

import os
import re
from typing import NamedTuple
from urllib.parse import unquote
from uuid import uuid4

from lancewood.errors import FormatError, InvalidInputError
from lancewood.external.base import Entry
from lancewood.format.layout import VERSIONS_DIR, parse_manifest_name
from lancewood.model.ids import Version

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
