"""A bare git repository in SHA-256 object format: made, opened, and checked to be one.

``init_git`` and ``open_git`` take a path or a uri. ``GitRepository`` is one on a disk; one in a
bucket has the same settings, and is made by ``bucket.repository``.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Self, TypeVar

from lancewood.errors import (
    AlreadyExistsError,
    FormatError,
    InvalidInputError,
    NotFoundError,
    StorageError,
    UnsupportedError,
)
from lancewood.git.config import Config, GitSettings
from lancewood.git.names import HEAD, HEADS, RepositoryRoot, checked_branch, is_uri
from lancewood.git.objects import Objects
from lancewood.git.ref_files import LEFT_BEHIND, PATIENCE
from lancewood.git.ref_store import RefStore
from lancewood.git.refs import Refs
from lancewood.git.syncing import sync_paths
from lancewood.store.base import Store, is_in_the_making
from lancewood.store.disk import DiskStore
from lancewood.store.disk_root import refuse_links
from lancewood.store.locate import open_store
from lancewood.store.lockfile import queued
from lancewood.store.wholefile import move_if_absent, stage, sync_directory

_CONFIG = b"""\
[core]
\trepositoryformatversion = 1
\tfilemode = true
\tbare = true
\tlogallrefupdates = always
[extensions]
\tobjectformat = sha256
[gc]
\tpackrefs = false
"""
_is_setting = re.compile(r"[A-Za-z0-9-]+\.[A-Za-z][A-Za-z0-9-]*").fullmatch
_is_word = re.compile(r"[A-Za-z0-9._-]+").fullmatch
_EXTENSIONS = frozenset({"objectformat", "noop", "noop-v1", "preciousobjects"})
T = TypeVar("T")
_DIRECTORIES = ("objects", "objects/info", "objects/pack", "refs", "refs/heads", "refs/tags")
_UNLINKED = (*_DIRECTORIES, "logs/refs/heads", "logs/refs/tags", "lancewood", HEAD, "packed-refs")
"""What must not be a link when a repository is opened; the rest is checked when it is written."""


def new_config(settings: Mapping[str, str] | None) -> bytes:
    """The config file of a new repository; ``settings`` are plain words, by ``section.key``.

    Raises InvalidInputError for a value that would need quoting.
    """
    return _CONFIG + b"".join(_setting(*each) for each in (settings or {}).items())


def check_kind(root: str, config: GitSettings) -> None:
    """Raise UnsupportedError for a repository of another kind, FormatError for a broken config."""
    version = config.own("core", "repositoryformatversion") or "0"
    if version not in ("0", "1"):
        raise UnsupportedError(f"{root} has repository format {version!r}: 0 and 1 are known")
    extensions = config.sections("extensions") if version == "1" else {}
    kind = extensions.get("objectformat", "sha1").lower()
    if kind != "sha256":
        raise UnsupportedError(
            f"{root} is a git repository in {kind} format; Lancewood's is in sha256: "
            "make one elsewhere"
        )
    unknown = sorted(extensions.keys() - _EXTENSIONS)
    if unknown:
        raise UnsupportedError(
            f"{root} uses extensions of git that Lancewood does not know: {', '.join(unknown)}"
        )
    bare = (config.own("core", "bare") or "false").lower()
    if bare in ("false", "no", "off", "0"):
        raise UnsupportedError(
            f"{root} is a git repository with a work tree (core.bare is {bare}); Lancewood's is "
            "bare: make one elsewhere"
        )
    if bare not in ("true", "yes", "on", "1"):
        raise FormatError(f"{root}/config: core.bare is {bare!r}")


def already_there(root: str) -> AlreadyExistsError:
    """The error for making a repository where there is one."""
    return AlreadyExistsError(f"there is a repository at {root} already: open it", path=root)


def _setting(name: str, value: str) -> bytes:
    """A setting as git writes it; raises InvalidInputError for a value that would need quoting."""
    if not _is_setting(name) or not _is_word(value):
        raise InvalidInputError(f"{name!r} = {value!r} is not a setting in plain words")
    section, _, key = name.partition(".")
    return f"[{section}]\n\t{key} = {value}\n".encode()


class GitRepository:
    """A repository on a disk, made by ``init`` and ``open``; see also ``BucketRepository``."""

    root: RepositoryRoot
    objects: Objects
    refs: RefStore
    config: GitSettings

    def __init__(self, path: str, *, fsync: bool, patience: float = PATIENCE) -> None:
        self.root = Path(path)
        self.objects = Objects(f"{path}/objects", fsync=fsync)
        self._refs = Refs(path, fsync=fsync, write_objects=self.objects.write, patience=patience)
        self.refs = self._refs
        self.config = Config(path, fsync=fsync, patience=patience)

    @property
    def path(self) -> Path:
        """The directory; raises InvalidInputError for a repository in a bucket."""
        if isinstance(self.root, Path):
            return self.root
        raise InvalidInputError(f"{self.root} is in a bucket and has no path: use its uri")

    @classmethod
    def init(
        cls,
        path: str | os.PathLike[str],
        *,
        branch: str = "main",
        settings: Mapping[str, str] | None = None,
        fsync: bool | None = None,
    ) -> Self:
        """A new repository without a commit, whose HEAD names ``branch``.

        ``settings`` are plain words, by ``section.key``; a config that an interrupted ``init`` left
        stays. Raises AlreadyExistsError if there is a repository. HEAD is written last: without it
        there is no repository for git or for us, and ``init`` can be run again.
        """
        target = HEADS + checked_branch(branch)
        config = new_config(settings)
        store = DiskStore(path, fsync)
        root, sync = store.uri, store.fsync
        try:
            if os.path.lexists(f"{root}/{HEAD}"):
                raise already_there(root)
            _refuse_links(root)
            made = _make_directories(root)
            staged = stage(root, config, sync=sync)
            if not move_if_absent(staged, f"{root}/config"):
                check_kind(root, Config(root, fsync=sync, patience=PATIENCE))
            if sync:
                sync_paths(directories=[*made, root, f"{root}/objects", f"{root}/refs"])
            staged = stage(root, f"ref: {target}\n".encode(), sync=sync)
            if not move_if_absent(staged, f"{root}/{HEAD}"):
                raise already_there(root)
            if sync:
                sync_directory(root)
        except OSError as cause:
            raise StorageError(
                f"cannot make a repository at {root}: {cause.strerror}", path=root
            ) from cause
        return cls(root, fsync=sync)

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, fsync: bool | None = None) -> Self:
        """The repository at a path.

        Raises NotFoundError if there is none, UnsupportedError if it has a work tree or is in SHA-1
        format, and InvalidInputError if its files or directories are symbolic links, since writing
        there would write elsewhere.
        """
        store = DiskStore(path, fsync)
        root = store.uri
        missing = [
            name for name in (HEAD, "objects", "refs") if not os.path.lexists(f"{root}/{name}")
        ]
        if missing:
            if os.path.lexists(f"{root}/.git"):
                raise UnsupportedError(
                    f"{root} is a git repository with a work tree; Lancewood's is bare, and its "
                    "tables are the work tree: make one elsewhere"
                )
            raise NotFoundError(
                f"there is no repository at {root}: {', '.join(missing)} not found; init makes one",
                path=root,
            )
        _refuse_links(root)
        found = cls(root, fsync=store.fsync)
        check_kind(root, found.config)
        return found

    def get(self, section: str, key: str) -> str | None:
        """A setting of git: the repository's, or else the user's; None if it is not set."""
        return self.config.get(section, key)

    def set(self, section: str, key: str, value: str) -> None:
        """Write a setting of the repository, durably."""
        self.config.set(section, key, value)

    def tidy(self, *, dry_run: bool = False) -> list[str]:
        """Remove what dead processes left behind, and return the paths: locks, unfinished files,
        and markers in place of refs, which a download from a bucket brings along.

        We step over the lock of a dead process anyway; git does not. Locks of other programs and
        files younger than a day stay. ``dry_run`` removes nothing.
        """
        locks = self._refs.release_dead_locks(dry_run=dry_run)
        markers = self._refs.remove_markers(dry_run=dry_run)
        return locks + markers + _remove_unnamed(str(self.path), dry_run=dry_run)

    def directories(self, key: str) -> list[str]:
        """The names of the directories below a key, sorted."""
        return sorted(self._store().directories(key))

    def all_of(self, works: Sequence[Callable[[], T]]) -> list[T]:
        """The results of some calls, in order: one by one here, concurrently in a bucket."""
        return [work() for work in works]

    def turn(self) -> AbstractContextManager[None]:
        """A queue for those who lost a race for a ref; a courtesy, not a lock."""
        return queued(f"{self.path}/refs")

    def _store(self) -> Store:
        return DiskStore(self.path)

    def close(self) -> None:
        """Close open files; the repository can still be used."""
        self.objects.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.root}>"


def _refuse_links(root: str) -> None:
    known: dict[str, str] = {}
    for each in _UNLINKED:
        refuse_links(root, each, known)


def _make_directories(root: str) -> list[str]:
    """Make the missing directories; returns those above the root whose entries changed."""
    changed = []
    above = root
    while not os.path.isdir(above):
        above = os.path.dirname(above)
        changed.append(above)
    os.makedirs(root, exist_ok=True)
    for each in _DIRECTORIES:
        with suppress(FileExistsError):
            os.mkdir(f"{root}/{each}")
    return changed


def _remove_unnamed(root: str, *, dry_run: bool) -> list[str]:
    removed = []
    with os.scandir(root) as entries:
        names = [each.name for each in entries if is_in_the_making(each.name)]
    for name in names:
        file = f"{root}/{name}"
        with suppress(OSError):
            if time.time() - os.lstat(file).st_mtime > LEFT_BEHIND:
                if not dry_run:
                    os.unlink(file)
                removed.append(file)
    return removed


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
    return GitRepository.init(_plain_path(location), settings=settings, fsync=fsync)


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
    return GitRepository.open(_plain_path(location), fsync=fsync)


def _plain_path(location: str | os.PathLike[str]) -> str | os.PathLike[str]:
    """The path in a ``file:`` uri; any other as it is."""
    if isinstance(location, str) and location.lower().startswith("file:"):
        return open_store(location).uri
    return location
