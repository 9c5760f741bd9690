"""From a URI to the store it names. Opens nothing and makes nothing: a root need not exist.

Knows local paths, ``file:`` and ``memory:``. Does not read the environment (``disk`` does).
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from urllib.parse import unquote

from lancewood.errors import InvalidInputError, UnsupportedError
from lancewood.store.base import Store
from lancewood.store.disk import DiskStore
from lancewood.store.memory import MemoryStore

_SCHEME = re.compile(r"(file):|([a-zA-Z][a-zA-Z0-9+.-]*)://", re.IGNORECASE)


def open_store(
    uri: str | os.PathLike[str],
    *,
    fsync: bool | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> Store:
    """The store at a local path, a ``file:`` URI (percent-decoded) or ``memory://name/deeper``.

    A relative path is taken from the current directory, ``~`` at the start is the home directory. A
    ``PathLike`` is always a path. ``storage_options`` are credentials and endpoints of object
    stores: nothing here reads them. Raises ``UnsupportedError`` for any other scheme.
    """
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
    raise UnsupportedError(
        f"{text!r} is not supported: no store for scheme {name!r}; "
        "use a local path, file:// or memory://",
        uri=text,
        scheme=name,
    )


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
