"""From a table's uri, and how its manifests are committed, to the store of its root.

Knows ``s3+ddb://bucket/path?ddbTableName=table``, pylance's way to name both at once. Opens
nothing.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from lancewood.errors import InvalidInputError
from lancewood.external.base import ManifestStore
from lancewood.external.choice import open_manifest_store
from lancewood.external.dynamodb import DynamoDBManifests
from lancewood.external.lock import CommitLock, LockedStore
from lancewood.external.names import base_by_uri, base_in_bucket
from lancewood.external.rename import RenamingStore
from lancewood.external.store import ExternalStore
from lancewood.store.base import Store
from lancewood.store.locate import open_store, table_of_ddb

RENAME = "rename-if-absent"
"""What ``manifest_store`` is called where there is none, and the store itself can rename."""


def open_table_store(
    uri: str | os.PathLike[str],
    *,
    fsync: bool | None = None,
    storage_options: Mapping[str, str] | None = None,
    unsafe: bool = False,
    manifest_store: str | ManifestStore | None = None,
    commit_lock: CommitLock | None = None,
) -> Store:
    """The store of a table's root, as ``store.locate.open_store`` finds it, committed to as said.

    Raises InvalidInputError for ways that do not go together.
    """
    inner = open_store(uri, fsync=fsync, storage_options=storage_options, unsafe=unsafe)
    table = table_of_ddb(uri) if isinstance(uri, str) else None
    if table is not None:
        if manifest_store is not None:
            raise InvalidInputError(
                "the uri names a manifest store already, with s3+ddb:// and ddbTableName: leave "
                "manifest_store out, or write the uri with s3://"
            )
        manifest_store = f"dynamodb://{table}"
    if commit_lock is not None:
        if manifest_store is not None:
            raise InvalidInputError("give manifest_store or commit_lock, not both")
        return LockedStore(inner, commit_lock)
    if manifest_store is None:
        return inner
    if manifest_store == RENAME:
        return RenamingStore(inner)
    return through(inner, open_manifest_store(manifest_store, storage_options))


def through(inner: Store, manifests: ManifestStore) -> ExternalStore:
    """A store that commits through a manifest store."""
    in_bucket = isinstance(manifests, DynamoDBManifests)
    if in_bucket and not inner.uri.startswith("s3://"):
        raise InvalidInputError(
            "a manifest store in DynamoDB is for tables in S3, as with pylance, not for "
            f"{inner.uri}"
        )
    name = base_in_bucket if in_bucket else base_by_uri
    return ExternalStore(inner, manifests, name(inner.uri))


def opened_like(store: Store, inner: Store) -> Store:
    """Another root, committed to like the one of a store."""
    if isinstance(store, ExternalStore):
        return through(inner, store.manifests)
    if isinstance(store, LockedStore | RenamingStore):
        return store.around(inner, "")
    return inner
