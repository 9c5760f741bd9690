"""From a table's uri and the way to commit its manifests to the store of its root.

Manifests are committed by a plain put-if-absent, through a manifest store, under a lock, or by
renaming. ``s3+ddb://bucket/path?ddbTableName=table`` is pylance's way to name a location and a
manifest store at once. Nothing connects here: at most the client of a database is imported, to
check its uri. Errors never repeat a uri, which may hold a password.

To rename, an object is put under a unique name and renamed, which fails if the new name is taken.
The probe for put-if-absent also checks that promise of the store.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Protocol, runtime_checkable
from urllib.parse import unquote
from uuid import uuid4

from lancewood.errors import InvalidInputError, StorageError, UnsupportedError
from lancewood.external.base import ManifestStore, base_by_uri, base_in_bucket
from lancewood.external.dynamodb import DynamoDBManifests
from lancewood.external.lock import CommitLock, LockedStore, StoreAround
from lancewood.external.postgresql import PostgreSQLManifests
from lancewood.external.sqlite import SQLiteManifests
from lancewood.external.store import ExternalStore
from lancewood.store.base import PutOutcome, Store
from lancewood.store.locate import open_store, table_of_ddb
from lancewood.store.options import StorageOptions

_SHAPES = "'sqlite:///path/file.db', 'postgresql://user@host/database' or 'dynamodb://table'"
_TABLE = re.compile(r"[A-Za-z0-9_.-]{3,255}")
RENAME = "rename-if-absent"
"""The value of ``manifest_store`` for a store that commits by renaming."""


def open_table_store(
    uri: str | os.PathLike[str],
    *,
    fsync: bool | None = None,
    storage_options: Mapping[str, str] | None = None,
    unsafe: bool = False,
    manifest_store: str | ManifestStore | None = None,
    commit_lock: CommitLock | None = None,
) -> Store:
    """The store of a table's root, wrapped for the chosen way to commit.

    Raises InvalidInputError for choices that exclude each other.
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
    """Another root that commits in the same way as ``store``."""
    if isinstance(store, ExternalStore):
        return through(inner, store.manifests)
    if isinstance(store, LockedStore | RenamingStore):
        return store.around(inner, "")
    return inner


def open_manifest_store(
    choice: str | ManifestStore, storage_options: Mapping[str, str] | None = None
) -> ManifestStore:
    """The manifest store that a text names, or the one that was passed. Opens nothing.

    ``storage_options`` are for DynamoDB: credentials, region, ``dynamodb_endpoint``. Raises
    InvalidInputError for any other choice.
    """
    if isinstance(choice, ManifestStore):
        return choice
    if not isinstance(choice, str):
        raise InvalidInputError(
            f"manifest_store takes {_SHAPES}, or an object with the verbs of a ManifestStore, got "
            f"a {type(choice).__name__}"
        )
    scheme, found, rest = choice.partition("://")
    scheme = scheme.lower()
    if found and scheme == "sqlite":
        return SQLiteManifests(_path(rest))
    if found and scheme in ("postgresql", "postgres"):
        return PostgreSQLManifests(f"postgresql://{rest}")
    if found and scheme == "dynamodb":
        return DynamoDBManifests(_table(rest), StorageOptions(storage_options))
    problem = f"scheme {scheme!r} is not known" if found else "it has no scheme"
    raise InvalidInputError(f"manifest_store takes {_SHAPES}: {problem}")


def _path(rest: str) -> str:
    path = unquote(rest)
    if not path.startswith("/") or not path.strip("/") or "\0" in path or "?" in rest:
        raise InvalidInputError(
            "a manifest store in SQLite is an absolute path, without settings after a '?': "
            "sqlite:///path/file.db"
        )
    return "/" + path.lstrip("/")


def _table(rest: str) -> str:
    table = rest.removesuffix("/")
    if not _TABLE.fullmatch(table):
        raise InvalidInputError(
            "a manifest store in DynamoDB is the name of a table, and nothing else: "
            "dynamodb://table; region and endpoint go into storage_options"
        )
    return table


@runtime_checkable
class Renaming(Protocol):
    """A store that can rename if absent."""

    def rename_new(self, source: str, target: str) -> PutOutcome:
        """Rename an object unless the new name is taken; then nothing changes."""


class RenamingStore(StoreAround):
    """``inner`` with a put and a rename-if-absent as its ``put_new``."""

    def __init__(self, inner: Store) -> None:
        if not isinstance(inner, Renaming):
            raise UnsupportedError(
                f"{inner.uri} cannot rename if absent; it needs no help to commit safely"
            )
        super().__init__(inner)

    @property
    def probed_as(self) -> str | None:
        location = self.inner.probed_as
        return None if location is None else f"renaming in {location}"

    def put_new(self, key: str, data: bytes) -> PutOutcome:
        staged = f"{key}-{uuid4()}"
        inner = self.inner
        assert isinstance(inner, Renaming)
        try:
            inner.put(staged, data)
        except StorageError as error:
            raise StorageError(error.message, **{**error.facts, "landed": False}) from error
        outcome = inner.rename_new(staged, key)  # on an error the staged object stays
        if outcome is PutOutcome.EXISTS:
            with suppress(StorageError):
                inner.delete([staged])
        return outcome
