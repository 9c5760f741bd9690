"""Helpers for tests: manifest stores, tables in Markdown pages, manifests edited by hand.

``MemoryManifests`` is the reference manifest store, for tests that try every order of calls and as
a model for other stores. ``WatchedManifests`` makes its calls steps of a watched store, so that one
script covers both. Manifests may be edited only while nobody else uses the table.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

from lancewood.engine.versions import load_manifest, require_newest
from lancewood.external.base import Forgetting, ManifestEntry, ManifestStore
from lancewood.format.layout import NamingScheme, manifest_key
from lancewood.format.manifest import decode_manifest_file, encode_manifest_file
from lancewood.model.ids import Version
from lancewood.model.manifest import Manifest
from lancewood.proto import table_pb2, transaction_pb2
from lancewood.store.locate import open_store
from lancewood.testing.faults import WatchedStore


class MemoryManifests:
    """A manifest store in memory: the four verbs and nothing else."""

    kind = "memory"

    def __init__(self) -> None:
        self.entries: dict[tuple[str, Version], ManifestEntry] = {}
        self._lock = threading.Lock()

    def get(self, base: str, version: Version) -> ManifestEntry | None:
        return self.entries.get((base, version))

    def latest(self, base: str) -> ManifestEntry | None:
        with self._lock:
            return max((e for (b, _), e in self.entries.items() if b == base), default=None)

    def put_if_not_exists(self, base: str, entry: ManifestEntry) -> bool:
        with self._lock:
            return self.entries.setdefault((base, entry.version), entry) is entry

    def put_if_exists(self, base: str, entry: ManifestEntry) -> bool:
        with self._lock:
            is_there = (base, entry.version) in self.entries
            if is_there:
                self.entries[base, entry.version] = entry
            return is_there


class WatchedManifests:
    """A manifest store whose calls are steps of the watched store beside it."""

    def __init__(self, inner: ManifestStore, beside: WatchedStore) -> None:
        self._inner, self._beside = inner, beside
        self.kind = str(getattr(inner, "kind", "external"))

    def get(self, base: str, version: Version) -> ManifestEntry | None:
        return self._beside._call("entry", str(version), lambda: self._inner.get(base, version))

    def latest(self, base: str) -> ManifestEntry | None:
        return self._beside._call("latest", base, lambda: self._inner.latest(base))

    def put_if_not_exists(self, base: str, entry: ManifestEntry) -> bool:
        return self._beside._call(
            "put_if_not_exists", entry.path, lambda: self._inner.put_if_not_exists(base, entry)
        )

    def put_if_exists(self, base: str, entry: ManifestEntry) -> bool:
        return self._beside._call(
            "put_if_exists", entry.path, lambda: self._inner.put_if_exists(base, entry)
        )

    def forget(self, base: str, gone: Mapping[Version, str] | None = None) -> None:
        inner = self._inner
        assert isinstance(inner, Forgetting)
        self._beside._call("forget", base, lambda: inner.forget(base, gone))


def page_tables(page: Path) -> dict[str, list[tuple[str, ...]]]:
    """The rows of the table below each heading, without header and backticks."""
    found: dict[str, list[tuple[str, ...]]] = {}
    heading = ""
    for line in page.read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            heading = line.lstrip("# ")
        elif line.startswith("|"):
            cells = tuple(each.strip().strip("`") for each in line.strip("|").split("|"))
            found.setdefault(heading, []).append(cells)
    return {heading: rows[2:] for heading, rows in found.items()}


def newest_manifest(uri: str | os.PathLike[str]) -> Manifest:
    store = open_store(uri)
    version, scheme, _ = require_newest(store)
    return load_manifest(store, version, scheme)


def edit_manifest(
    uri: str | os.PathLike[str], change: Callable[[table_pb2.Manifest], None]
) -> None:
    """Change the newest manifest in place."""
    store = open_store(uri)
    version, scheme, _ = require_newest(store)
    key = manifest_key(version, scheme)
    old = decode_manifest_file(store.get(key), name=key)
    change(old.message)
    data = encode_manifest_file(
        old.message, index_section=old.index_section, transaction_section=old.transaction_section
    )
    store.put(key, data)


def add_version(
    uri: str | os.PathLike[str],
    transaction: transaction_pb2.Transaction | bytes | None,
    change: Callable[[table_pb2.Manifest], None] | None = None,
) -> int:
    """Add a version with a hand-written inline transaction, or with none, and return its number."""
    store = open_store(uri)
    version, scheme, _ = require_newest(store)
    old = load_manifest(store, version, scheme)
    message = table_pb2.Manifest()
    message.CopyFrom(old.message)
    message.version = version + 1
    message.transaction_file = ""
    if change is not None:
        change(message)
    raw = transaction
    if isinstance(transaction, transaction_pb2.Transaction):
        raw = transaction.SerializeToString()
    assert raw is None or isinstance(raw, bytes)
    data = encode_manifest_file(message, index_section=old.index_section, transaction_section=raw)
    store.put_new(manifest_key(Version(version + 1), scheme), data)
    return version + 1


def manifest_path(uri: str | os.PathLike[str], version: int) -> Path:
    """The file of a version of a table with V2 names."""
    return Path(uri) / manifest_key(Version(version), NamingScheme.V2)


def decode_fragments(message: table_pb2.Manifest) -> list[table_pb2.DataFragment]:
    """The fragments of a manifest message, to be edited and put back."""
    return [table_pb2.DataFragment.FromString(each) for each in message.fragments]


def put_fragments(message: table_pb2.Manifest, fragments: list[table_pb2.DataFragment]) -> None:
    """Replace the fragments of a manifest message."""
    message.fragments[:] = [each.SerializeToString() for each in fragments]
