"""The folder that items are below: a path that driver and executors share."""

from __future__ import annotations

import os

from lancewood.errors import InvalidInputError
from lancewood.repo.items.on_disk import path_on_disk


def checked_folder(folder: object) -> str:
    """The path from the root on; raises InvalidInputError for what is none, and UnsupportedError
    for a place that is no local or mounted disk."""
    if not isinstance(folder, str | os.PathLike) or not os.fspath(folder):
        raise InvalidInputError(f"the folder of items is a path, got {folder!r}")
    path = os.fspath(folder)
    if not isinstance(path, str) or "\0" in path:
        raise InvalidInputError("the folder of items is a path of text, without NUL")
    return path_on_disk(folder, "a folder of items, which all executors see,")
