"""A root on the disk: which path a key has below it, and how the names on the way become durable.

No symbolic link below the root is followed, so that no name leads out of it. Also translates an
``OSError`` into our errors.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from typing import NoReturn

from lancewood.errors import InvalidInputError, NotFoundError, StorageError
from lancewood.store.base import check_key
from lancewood.store.wholefile import sync_directory


class DiskRoot:
    """The base of ``DiskStore``. Remembers which directories it has checked already."""

    def __init__(self, root: str | os.PathLike[str], fsync: bool | None = None) -> None:
        path = os.fspath(root)
        if not path or "\0" in path:
            raise InvalidInputError(f"path {path!r} is not allowed: it is empty or contains NUL")
        try:
            os.fsencode(path)
        except UnicodeEncodeError as cause:
            raise InvalidInputError(f"path {path!r} is not allowed: {cause.reason}") from cause
        on = fsync_by_default() if fsync is None else fsync
        self.__setstate__((os.path.abspath(path).strip("/"), "", on))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.uri!r}, fsync={self.fsync})"

    def __getstate__(self) -> tuple[str, str, bool]:
        return self._top.strip("/"), self._prefix, self.fsync

    def __setstate__(self, state: tuple[str, str, bool]) -> None:
        root, self._prefix, self.fsync = state
        self._top = f"/{root}" if root else ""
        self._known: dict[str, str] = {}
        """The paths of directories that are no symbolic links, by their keys from the top."""
        self._settled: set[str] = set()
        """Directories whose own names are durable, as paths."""

    @property
    def uri(self) -> str:
        return f"{self._top}/{self._prefix}".rstrip("/") or "/"

    def _path(self, key: str) -> str:
        check_key(key)
        full = self._prefix + key
        directory = full.rpartition("/")[0]
        if directory and directory not in self._known:
            self._check_directories(directory)
        return f"{self._top}/{full}"

    def _directory(self, directory: str) -> str:
        full = (self._prefix + directory).rstrip("/")
        if full and full not in self._known:
            self._check_directories(full)
        return f"{self._top}/{full}".rstrip("/") or "/"

    def _check_directories(self, directory: str) -> None:
        """Raise if a directory on the path is a symbolic link; remember those that are not."""
        refuse_links(self._top, directory, self._known)

    def _make_directory(self, directory: str) -> None:
        """Make a directory and its missing parents, each name durable in the one above."""
        try:
            os.mkdir(directory)
        except FileExistsError:
            return
        except FileNotFoundError:
            self._make_directory(os.path.dirname(directory))
            with suppress(FileExistsError):
                os.mkdir(directory)
        if self.fsync:
            sync_directory(os.path.dirname(directory))
            self._settled.add(directory)

    def _settle(self, directory: str) -> None:
        """Make the names in a directory durable; the first time also its own name, and those of its
        parents up to the root, since their creator may not have done so."""
        sync_directory(directory)
        while directory not in self._settled and directory.startswith(self._top or "/"):
            parent = os.path.dirname(directory)
            # Above the root we may not be allowed to look; what we made there is durable.
            with suppress(PermissionError):
                sync_directory(parent)
            self._settled.add(directory)
            directory = parent

    def _fail_to_read(self, key: str, error: OSError) -> NoReturn:
        facts = {"key": key, "uri": self.uri}
        is_absent = isinstance(error, FileNotFoundError | NotADirectoryError)
        if is_absent or error.errno == errno.ENAMETOOLONG:
            raise NotFoundError(f"{key!r} not found in {self.uri}", **facts) from error
        if isinstance(error, IsADirectoryError):
            text = f"{key!r} not found in {self.uri}: a directory has that name"
            raise NotFoundError(text, **facts) from error
        self._fail("read", key, error)

    def _fail(self, verb: str, key: str, error: OSError, **facts: object) -> NoReturn:
        if error.errno == errno.ELOOP:
            raise link_refused(f"{self.uri}/{key}", self.uri) from error
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            facts["final"] = True
        text = f"cannot {verb} {key!r} in {self.uri}: {error.strerror}"
        raise StorageError(text, key=key, uri=self.uri, **facts) from error


def fsync_by_default() -> bool:
    return os.environ.get("LANCEWOOD_FSYNC", "").strip().lower() not in ("0", "false", "no", "off")


def refuse_links(top: str, directory: str, known: dict[str, str] | None = None) -> None:
    """Raise InvalidInputError if a directory on the way down from ``top``, itself not included, is
    a symbolic link, or if the last one is a file.

    Paths in ``known``, by their keys, are not checked; those found to be directories are added. The
    check ends at the first path that does not exist or is not a directory.
    """
    way = ""
    for segment in directory.split("/"):
        way = f"{way}/{segment}" if way else segment
        if known is not None and way in known:
            continue
        path = f"{top}/{way}"
        try:
            mode = os.lstat(path).st_mode
        except OSError:
            return
        if stat.S_ISLNK(mode):
            raise link_refused(path, top)
        if not stat.S_ISDIR(mode):
            return
        if known is not None:
            known[way] = path


def link_refused(path: str, top: str) -> InvalidInputError:
    """The error for a link below ``top`` that would have been followed."""
    try:
        leads_to = f" to {os.readlink(path)}"
    except OSError:  # it is gone again
        leads_to = ""
    return InvalidInputError(
        f"{path} is a symbolic link{leads_to}, and links below {top or '/'} are not followed: "
        "put the files there, or open what the link points at",
        path=path,
    )
