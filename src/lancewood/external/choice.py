"""From a text to the manifest store it names.

Knows the schemes, not what is behind them, and connects to nothing: at the most the client of a
database is imported, to check its uri. Never repeats a uri, which may hold a password.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import unquote

from lancewood.errors import InvalidInputError
from lancewood.external.base import ManifestStore
from lancewood.external.dynamodb import DynamoDBManifests
from lancewood.external.postgresql import PostgreSQLManifests
from lancewood.external.sqlite import SQLiteManifests
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
