"""Data files that exist only in the memory of this process, made readable for the codec.

The codec opens paths and URIs. Objects of a store without locations are copied into one temporary
directory, which is removed when the process ends. Other stores are not copied.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import shutil
import tempfile
import threading

from lancewood.store.base import Store

_lock = threading.Lock()
_directories: dict[int, str] = {}


def readable_location(store: Store, key: str) -> str:
    """A path or URI where the codec finds the object.

    Raises NotFoundError for a missing object of an in-memory store; elsewhere the object is not
    looked at. A copy is made once for each state of an object.
    """
    location = store.location(key)
    if location is not None:
        return location
    state = "\0".join((store.uri, key, store.head(key).etag))
    path = os.path.join(_directory(), hashlib.sha256(state.encode()).hexdigest() + ".lance")
    if not os.path.exists(path):
        handle, unfinished = tempfile.mkstemp(dir=_directory())
        with os.fdopen(handle, "wb") as file:
            file.write(store.get(key))
        os.replace(unfinished, path)
    return path


def _directory() -> str:
    owner = os.getpid()  # a forked child must not remove its parent's copies
    with _lock:
        if owner not in _directories:
            _directories[owner] = tempfile.mkdtemp(prefix="lancewood-")
            atexit.register(_remove, owner)
        return _directories[owner]


def _remove(owner: int) -> None:
    if os.getpid() == owner:
        shutil.rmtree(_directories[owner], ignore_errors=True)
