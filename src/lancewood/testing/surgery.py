"""Changing manifests by hand: for tests that need a table which no writer would make.

Works on a table's files while nobody else does. Not for anything but tests.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from lancewood.engine.versions import load_manifest, require_newest
from lancewood.format.layout import NamingScheme, manifest_key
from lancewood.format.manifest_file import decode_manifest_file, encode_manifest_file
from lancewood.model.ids import Version
from lancewood.model.manifest import Manifest
from lancewood.proto import table_pb2, transaction_pb2
from lancewood.store.locate import open_store


def newest_manifest(uri: str | os.PathLike[str]) -> Manifest:
    """The newest manifest."""
    store = open_store(uri)
    version, scheme, _ = require_newest(store)
    return load_manifest(store, version, scheme)


def edit_manifest(
    uri: str | os.PathLike[str], change: Callable[[table_pb2.Manifest], None]
) -> None:
    """Rewrite the newest manifest in place after ``change``."""
    store = open_store(uri)
    version, scheme, _ = require_newest(store)
    key = manifest_key(version, scheme)
    old = decode_manifest_file(store.get(key), name=key)
    change(old.message)
    data = encode_manifest_file(
        old.message,
        index_section=old.index_section,
        transaction_section=old.transaction_section,
    )
    store.put(key, data)


def add_version(
    uri: str | os.PathLike[str],
    transaction: transaction_pb2.Transaction | bytes | None,
    change: Callable[[table_pb2.Manifest], None] | None = None,
) -> int:
    """Add a version with a hand-written inline transaction (None: without any) and return it."""
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
