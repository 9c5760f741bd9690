"""Paths of this machine: what names a place elsewhere is refused, and never made as a folder.

Knows how places are spelled. Looks at no disk.
"""

from __future__ import annotations

import os
import re

from lancewood.errors import UnsupportedError
from lancewood.store.disk import DiskStore
from lancewood.store.locate import open_store

# A path that went through ``Path`` has one slash left of s3://bucket, and Spark writes file:/data.
_scheme_of = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]+):/").match


def path_on_disk(place: str | os.PathLike[str], what: str) -> str:
    """The path from the root on, of a path or a ``file:`` URI.

    Raises UnsupportedError, which says that ``what`` is not there, for any other URI, and
    InvalidInputError for what is no path.
    """
    text = os.fspath(place)
    scheme = _scheme_of(text)
    if scheme is None:
        return DiskStore(text).uri if isinstance(place, os.PathLike) else _opened(text)
    if scheme[1].lower() != "file":
        raise UnsupportedError(
            f"{what} is on a local or mounted disk, such as a network file system; "
            f"{scheme[1]}:// is not one"
        )
    return _opened(text)


def _opened(text: str) -> str:
    return open_store(text).uri
