"""From a URI to the store it names. Opens nothing and creates nothing: a root need not exist.

Supports local paths, ``file:``, ``memory:`` and the schemes of object stores, as pylance spells
them. Of ``s3+ddb:`` it takes the S3 part; ``external`` handles the manifest store beside it. Does
not read the environment (``disk`` does, and the clients of object stores).
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote

from lancewood.errors import InvalidInputError, UnsupportedError
from lancewood.store.base import Store
from lancewood.store.clients import KINDS
from lancewood.store.disk import DiskStore
from lancewood.store.options import StorageOptions

if TYPE_CHECKING:
    from lancewood.store.objects import ObjectStore

_ALSO_CALLED = {"s3a": "s3", "abfs": "abfss"}
_WITH_MANIFEST_STORE = "s3+ddb"
_QUERY = re.compile(r"ddbTableName=([A-Za-z0-9_.-]{3,255})")
_SCHEME = re.compile(r"(file):|([a-zA-Z][a-zA-Z0-9+.-]*)://", re.IGNORECASE)


def open_store(
    uri: str | os.PathLike[str],
    *,
    fsync: bool | None = None,
    storage_options: Mapping[str, str] | None = None,
    unsafe: bool = False,
) -> Store:
    """The store at a local path, a ``file:`` URI (percent-decoded), ``memory://name/deeper``, or in
    a bucket: ``s3://``, ``gs://``, ``az://`` and ``abfss://``, percent-decoded as by pylance.

    A relative path is taken from the current directory, ``~`` at the start is the home directory. A
    ``PathLike`` is always a path. ``storage_options`` are credentials and settings for buckets,
    with pylance's names; a disk ignores them. ``unsafe`` trusts a bucket's put-if-absent without a
    proof. Raises ``UnsupportedError`` for any other scheme.
    """
    from lancewood.store.memory import MemoryStore

    if not isinstance(uri, str | os.PathLike):
        raise InvalidInputError(f"a uri is a text or a path, got {uri!r}")
    text = os.fspath(uri)
    if not isinstance(text, str):
        raise InvalidInputError(f"a uri is a text or a path of text, got {uri!r}")
    scheme = _SCHEME.match(text) if isinstance(uri, str) else None
    if scheme is None and text.startswith("~"):
        text = os.path.expanduser(text)
    if scheme is None:
        return DiskStore(text, fsync)
    name, rest = (scheme[1] or scheme[2]).lower(), text[scheme.end() :]
    if name == "file":
        return DiskStore(_path_of(text, rest), fsync)
    if name == "memory":
        bucket, _, prefix = rest.partition("/")
        return MemoryStore(bucket, prefix)
    if name == _WITH_MANIFEST_STORE:
        name, rest = "s3", rest.partition("?")[0]
        table_of_ddb(text)
    name = _ALSO_CALLED.get(name, name)
    if name in KINDS:
        return _in_bucket(name, rest, StorageOptions(storage_options), unsafe)
    raise UnsupportedError(
        f"no store for scheme {name!r}; use a local path, file://, memory://, "
        f"{', '.join(f'{each}://' for each in KINDS)}",
        scheme=name,
    )


class InBucket(NamedTuple):
    """The parts of a uri in an object store."""

    scheme: str
    bucket: str
    """On Azure with the account, where the uri names it."""
    path: str

    @property
    def uri(self) -> str:
        return f"{self.scheme}://{self.bucket}/{self.path}".rstrip("/")


def in_bucket(uri: str) -> InBucket | None:
    """The parts of a uri; None for one outside of object stores. Opens nothing."""
    scheme = _SCHEME.match(uri)
    name = ((scheme and scheme[2]) or "").lower()
    name = "s3" if name == _WITH_MANIFEST_STORE else _ALSO_CALLED.get(name, name)
    if scheme is None or name not in KINDS:
        return None
    bucket, _, path = uri[scheme.end() :].partition("/")
    return InBucket(name, bucket.lower() if name == "abfss" else bucket, path)


def table_of_ddb(uri: str) -> str | None:
    """The table of DynamoDB that a ``s3+ddb://`` URI names; None for any other URI.

    The bytes are in S3: ``open_store`` uses only the rest of the URI. Raises InvalidInputError.
    """
    if not uri.lower().startswith(f"{_WITH_MANIFEST_STORE}://"):
        return None
    found = _QUERY.fullmatch(uri.partition("?")[2])
    if found is None:
        raise InvalidInputError(
            "a s3+ddb:// URI names one table, as in s3+ddb://bucket/path?ddbTableName=table; "
            "give a branch, version or tag separately"
        )
    return found[1]


def _in_bucket(scheme: str, rest: str, options: StorageOptions, unsafe: bool) -> ObjectStore:
    from lancewood.store.objects import ObjectStore

    bucket, _, path = rest.partition("/")
    if ("@" in bucket) != (scheme == "abfss") or ":" in bucket:
        shape = "container@account.dfs.core.windows.net" if scheme == "abfss" else "bucket"
        raise InvalidInputError(
            f"a {scheme}:// URI begins with {shape}, and never holds a name or a password; "
            "those go into storage_options"
        )
    if not bucket:
        raise InvalidInputError(f"'{scheme}://{rest}' names no bucket")
    if "?" in rest or "#" in rest:
        raise InvalidInputError(
            f"a {scheme}:// URI must not hold '?' or '#'; in a path write %3F and %23"
        )
    try:
        prefix = unquote(path, errors="strict")
    except UnicodeDecodeError as cause:
        raise InvalidInputError(
            f"'{scheme}://{rest}' is not allowed: what is percent-encoded there is no UTF-8; write "
            "%25 for a percent sign"
        ) from cause
    return ObjectStore(scheme, bucket, prefix, options, unsafe=unsafe)


def _path_of(text: str, rest: str) -> str:
    """The path of a ``file:`` URI: ``/x``, ``///x`` and ``//localhost/x`` are all ``/x``."""
    if rest.startswith("//"):
        host, slash, path = rest[2:].partition("/")
        rest = slash + path if host.lower() in ("", "localhost") else ""
    if not rest.startswith("/"):
        raise InvalidInputError(
            f"{text!r} is not allowed: a file URI holds an absolute path of this machine, "
            "as in file:///data/t",
            uri=text,
        )
    return unquote(rest)
