"""A git repository by its place: on a disk, or in a bucket.

Knows which kind a place is of. Does not know what is there.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from lancewood.git.names import is_uri
from lancewood.git.repository import GitRepository
from lancewood.store.locate import open_store


def init_git(
    location: str | os.PathLike[str],
    *,
    settings: Mapping[str, str] | None = None,
    storage_options: Mapping[str, str] | None = None,
    fsync: bool | None = None,
) -> GitRepository:
    """A new repository at a path or a uri; see ``GitRepository.init``."""

    if is_uri(location):
        from lancewood.git.bucket.repository import BucketRepository

        return BucketRepository.init(
            location, settings=settings, fsync=fsync, storage_options=storage_options
        )
    return GitRepository.init(_path(location), settings=settings, fsync=fsync)


def open_git(
    location: str | os.PathLike[str],
    *,
    storage_options: Mapping[str, str] | None = None,
    fsync: bool | None = None,
) -> GitRepository:
    """The repository at a path or a uri; see ``GitRepository.open``."""

    if is_uri(location):
        from lancewood.git.bucket.repository import BucketRepository

        return BucketRepository.open(location, fsync=fsync, storage_options=storage_options)
    return GitRepository.open(_path(location), fsync=fsync)


def _path(location: str | os.PathLike[str]) -> str | os.PathLike[str]:
    """The path in a ``file:`` uri; any other as it is."""
    if isinstance(location, str) and location.lower().startswith("file:"):
        return open_store(location).uri
    return location
