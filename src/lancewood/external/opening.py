"""From a text to the manifest store it names.

Knows the schemes, not what is behind them, and connects to nothing: at the most the client of a
database is imported, to check its uri. Never repeats a uri, which may hold a password.

Committing by renaming: for a store that can rename, or copy, only if nothing is there.

An object is put under a name of its own, and renamed; that fails where the new name is taken.
Whether the store means it is found out by the same probe as put-if-absent.

From a table's uri, and how its manifests are committed, to the store of its root.

Knows ``s3+ddb://bucket/path?ddbTableName=table``, pylance's way to name both at once. Opens
nothing.
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


def open_manifest_store(
    choice: str | ManifestStore, storage_options: Mapping[str, str] | None = None
) -> ManifestStore:
    """The manifest store that a text names, or the one that is given. Opens nothing.

    ``storage_options`` are for DynamoDB: credentials, region, and ``dynamodb_endpoint``. Raises
    InvalidInputError for anything else.
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
    told = f"scheme {scheme!r} is not known" if found else "it has no scheme"
    raise InvalidInputError(f"manifest_store takes {_SHAPES}: {told}")


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
        """Give an object another name, unless that is taken: then both stay as they are."""


class RenamingStore(StoreAround):
    """``inner``, where ``put_new`` is a put and a rename-if-absent."""

    def __init__(self, inner: Store) -> None:
        if not isinstance(inner, Renaming):
            raise UnsupportedError(
                f"{inner.uri} cannot rename if absent; it needs no help to commit safely"
            )
        super().__init__(inner)

    @property
    def probed_as(self) -> str | None:
        place = self.inner.probed_as
        return None if place is None else f"renaming in {place}"

    def put_new(self, key: str, data: bytes) -> PutOutcome:
        staged = f"{key}-{uuid4()}"
        inner = self.inner
        assert isinstance(inner, Renaming)
        try:
            inner.put(staged, data)
        except StorageError as error:
            raise StorageError(error.message, **{**error.facts, "landed": False}) from error
        outcome = inner.rename_new(staged, key)  # what is unclear leaves the staged one alone
        if outcome is PutOutcome.EXISTS:
            with suppress(StorageError):
                inner.delete([staged])
        return outcome


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
