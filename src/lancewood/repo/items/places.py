"""Where items are on the disk: that a name stays below the folder, and in no other item.

An item in another one would be found by nobody, and a link could lead anywhere. Remembers which
folders were looked at. Makes folders; makes no repository.
"""

from __future__ import annotations

import os
import re
import shutil
import time
from contextlib import suppress
from pathlib import Path

from lancewood.errors import InvalidInputError, NotFoundError, StorageError
from lancewood.git.locks import LEFT_BEHIND
from lancewood.git.syncing import sync_paths
from lancewood.repo.items.finding import is_item
from lancewood.repo.items.names import STAGING
from lancewood.store.base import is_in_the_making

_OF_GIT = frozenset({"HEAD", "config", "objects", "refs", "logs", "tables", "packed-refs"})

_ATTEMPTS = 100
_is_ours = re.compile(r"[0-9a-f]{16}").fullmatch
"""What a task calls the folder that it makes new items in."""


class ItemPlaces:
    """The folder, as one task sees it. Not for threads."""

    def __init__(self, folder: str, *, fsync: bool) -> None:
        self.folder = os.path.realpath(folder)
        self._fsync = fsync
        self._known: set[str] = set()
        """Folders that are below the folder, and no items."""
        self._changed: set[str] = set()
        """Folders whose names have to be made durable."""
        self._staging: str | None = None
        self._count = 0

    def path(self, item: str) -> str:
        return f"{self.folder}/{item}"

    def make_room(self, item: str) -> None:
        """Make the folders above an item; raises InvalidInputError where one of them is an item
        itself, or leads elsewhere, as where the item is a link."""
        self._check_above(os.path.dirname(self.path(item)), item, make=True)
        self._check_no_link(self.path(item), item)

    def check_inside(self, item: str) -> None:
        """The same, and makes nothing; raises NotFoundError where there is no such folder."""
        self._check_above(os.path.dirname(self.path(item)), item, make=False)
        self._check_no_link(self.path(item), item)

    def check_free(self, item: str) -> bool:
        """Whether nothing is where the item goes; if False, it is what an ``init`` that was cut
        off has left. Raises InvalidInputError for anything else, which is left alone."""
        path = self.path(item)
        try:
            names = os.listdir(path)
        except FileNotFoundError:
            return True
        except OSError as cause:
            raise InvalidInputError(
                f"item {item!r} cannot be made: {path} is no folder", item=item
            ) from cause
        other = sorted(each for each in names if each not in _OF_GIT and not is_in_the_making(each))
        if other:
            raise InvalidInputError(
                f"item {item!r} cannot be made: {path} is a folder in which there is "
                f"{other[0]!r}; items are not in each other, and share no folder with other things",
                item=item,
            )
        if _has_refs(path) and not os.path.lexists(f"{path}/HEAD"):
            raise InvalidInputError(
                f"item {item!r} cannot be written: {path} is a repository that lost its HEAD; "
                "write 'ref: refs/heads/' and the name of its branch there",
                item=item,
            )
        return not names

    def check_alone(self, item: str) -> None:
        """Take a new item away again, and raise InvalidInputError, if the folder that it is in
        became an item while it was made. One that is not empty any more cannot become one."""
        path = self.path(item)
        above = os.path.dirname(path)
        if above == self.folder or not is_item(above):
            return
        self._known.discard(above)
        with suppress(OSError):
            os.rename(path, self.staging())
        raise self._in_another(item, above)

    def staging(self) -> str:
        """A path for something new, which is in no listing until it is renamed. Raises
        InvalidInputError where it would be elsewhere."""
        if self._staging is None:
            above = f"{self.folder}/{STAGING}"
            if os.path.islink(above):
                raise InvalidInputError(
                    f"no item can be made in {self.folder}: {above} is a link, and new items are "
                    "made in a folder of that name; remove the link",
                    path=above,
                )
            self._staging = _made_below(above)
            _remove_old(above)
        self._count += 1
        return f"{self._staging}/{self._count}"

    def named(self, item: str) -> None:
        """An item got its name, which is not durable yet."""
        self._changed.add(os.path.dirname(self.path(item)))

    def settle(self) -> None:
        """Make all names durable, and leave nothing behind. Raises StorageError."""
        if self._fsync and self._changed:
            try:
                sync_paths(directories=sorted(self._changed))
            except OSError as cause:
                raise StorageError(f"cannot sync {self.folder}: {cause.strerror}") from cause
        self._changed.clear()
        if self._staging is not None:
            shutil.rmtree(self._staging, ignore_errors=True)
            with suppress(OSError):
                os.rmdir(f"{self.folder}/{STAGING}")
            self._staging = None

    def _check_above(self, path: str, item: str, *, make: bool) -> None:
        if path in self._known:
            return
        if path != self.folder:
            self._check_above(os.path.dirname(path), item, make=make)
        if make:
            self._make(path)
        if path != self.folder:
            self._check_no_link(path, item)
        if not os.path.isdir(path):
            if make:
                raise InvalidInputError(
                    f"item {item!r} cannot be made: {path} is no folder", item=item
                )
            raise NotFoundError(f"there is no item {item!r} in {self.folder}", item=item)
        if is_item(path):
            raise self._in_another(item, path)
        self._known.add(path)

    def _make(self, path: str) -> None:
        try:
            if path == self.folder:
                Path(path).mkdir(parents=True, exist_ok=True)
            else:
                os.mkdir(path)
            self._changed.add(os.path.dirname(path))
        except FileExistsError:
            return
        except OSError as cause:
            raise StorageError(f"cannot make {path}: {cause.strerror}", path=path) from cause

    def _in_another(self, item: str, path: str) -> InvalidInputError:
        return InvalidInputError(
            f"item {item!r} is not allowed: {path} is an item, and items are not in each other",
            item=item,
        )

    def _check_no_link(self, path: str, item: str) -> None:
        if os.path.islink(path):
            raise InvalidInputError(
                f"item {item!r} is not allowed: {path} is a link, and may lead out of "
                f"{self.folder}",
                item=item,
            )


def _has_refs(path: str) -> bool:
    """Whether something was committed: an ``init`` that was cut off has no ref yet."""
    if os.path.lexists(f"{path}/packed-refs"):
        return True
    return any(files for _, _, files in os.walk(f"{path}/refs"))


def _made_below(above: str) -> str:
    """A new folder; who left the last one may have removed what it is in meanwhile."""
    made = f"{above}/{os.urandom(8).hex()}"
    for left in reversed(range(_ATTEMPTS)):
        try:
            os.makedirs(made)
            break
        except OSError as cause:
            if not left or not isinstance(cause, FileNotFoundError | FileExistsError):
                raise StorageError(f"cannot make {made}: {cause.strerror}") from cause
    return made


def _remove_old(above: str) -> None:
    """Remove what tasks that died have left; what is younger than a day may be in use."""
    with suppress(OSError):
        for name in filter(_is_ours, os.listdir(above)):
            path = f"{above}/{name}"
            with suppress(OSError):
                if time.time() - os.lstat(path).st_mtime > LEFT_BEHIND:
                    shutil.rmtree(path, ignore_errors=True)
