"""Names of items: the path of a repository below the folder that holds all of them.

Pure. A name that leads out of the folder, into git, or into what this room keeps there for itself,
is refused with the rule it breaks.

Paths of this machine: what names a place elsewhere is refused, and never made as a folder.

Knows how places are spelled. Looks at no disk.

Finding items: which folders below a folder are repositories.

An item is a folder in which there are ``HEAD``, ``refs`` and ``objects``, or at least two of the
three: then it is a broken one, and whoever opens it says so. What is below an item is not looked
at. Folders may be nested to any depth; links to folders, and ``.git`` of work trees, are no items.
Knows names on a disk; opens no repository.

Where items are on the disk: that a name stays below the folder, and in no other item.

An item in another one would be found by nobody, and a link could lead anywhere. Remembers which
folders were looked at. Makes folders; makes no repository.
"""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from lancewood.catalog.names import broken_rule, shown
from lancewood.errors import InvalidInputError, NotFoundError, StorageError, UnsupportedError
from lancewood.git.places import LEFT_BEHIND
from lancewood.git.syncing import sync_paths
from lancewood.git.values import is_dot_git
from lancewood.store.base import is_in_the_making
from lancewood.store.disk import DiskStore
from lancewood.store.locate import open_store

STAGING = ".lancewood"
"""Where new items are made before they get their names; no item is in it."""
_OF_A_REPOSITORY = ("HEAD", "refs")
"""A folder in which there are two of these and ``objects`` is taken for an item, and what else is
in it is found by nobody."""
_MOST_BYTES = 1024
_MOST_PART_BYTES = 250


def checked_item(item: object) -> str:
    """The name itself; raises InvalidInputError, which says which rule it breaks."""
    if not isinstance(item, str):
        raise InvalidInputError(
            "an item has no name: the column item is null"
            if item is None
            else f"the name of an item is a text, not {type(item).__name__}"
        )
    why = _broken_rule(item)
    if why is not None:
        raise InvalidInputError(f"item {shown(item)} is not allowed: {why}", item=item)
    return item


def _broken_rule(item: str) -> str | None:
    why = broken_rule(item, most_bytes=_MOST_BYTES, most_part_bytes=_MOST_PART_BYTES)
    if why is not None:
        return why
    parts = item.split("/")
    if parts[0].lower() == STAGING:
        return f"{STAGING!r} is where new items are made"
    for part in parts:
        if part in _OF_A_REPOSITORY:
            return f"{part!r} is in a repository, and the folder it is in would be taken for one"
        if is_in_the_making(part):
            return f"{part!r} is what files are called that are not finished"
    return None


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


_PARTS = ("HEAD", "objects", "refs")
_ENOUGH = 2


@dataclass(frozen=True, slots=True)
class Listed:
    """A folder: whether it is an item, and if not, the folders in it."""

    is_item: bool
    folders: list[str]
    """Their bare names, in order."""


def list_folder(path: str) -> Listed:
    """Look at one folder; raises StorageError, and NotFoundError if it is not there."""
    found, folders = 0, []
    try:
        with os.scandir(path) as entries:
            for each in entries:
                found += each.name in _PARTS
                if _is_folder(each):
                    folders.append(each.name)
    except (FileNotFoundError, NotADirectoryError) as cause:
        raise NotFoundError(f"there is no folder {path}", path=path) from cause
    except OSError as cause:
        raise StorageError(f"cannot list {path}: {cause.strerror}", path=path) from cause
    if found >= _ENOUGH:
        return Listed(True, [])
    return Listed(False, sorted(folders))


def is_item(path: str) -> bool:
    """Whether a folder is an item, without listing it: there may be millions in it."""
    return sum(os.path.lexists(f"{path}/{each}") for each in _PARTS) >= _ENOUGH


def top_folders(folder: str) -> Iterator[str]:
    """The folders in the folder that items are below, as they come: there may be millions.

    Raises NotFoundError, and InvalidInputError for a folder that is itself an item.
    """
    if is_item(folder):
        raise InvalidInputError(
            f"{folder} is itself a repository: name the folder that its items are in", path=folder
        )
    try:
        with os.scandir(folder) as entries:
            for each in entries:
                if each.name != STAGING and _is_folder(each):
                    yield each.name
    except (FileNotFoundError, NotADirectoryError) as cause:
        raise NotFoundError(f"there is no folder {folder}", path=folder) from cause
    except OSError as cause:
        raise StorageError(f"cannot list {folder}: {cause.strerror}", path=folder) from cause


def first_folders(folder: str) -> Iterator[str]:
    """The same, or those in the only folder that is there, as long as it is no item: names from
    ``folder`` on."""
    names = top_folders(folder)
    few = [*islice(names, 2)]
    while len(few) == 1:
        found = [*expand(folder, few[0])]
        if len(found) == 1 and found[0][1]:
            break
        few = [name for name, _ in found]
    yield from few
    yield from names


def expand(folder: str, name: str) -> Iterator[tuple[str, bool]]:
    """What a folder below ``folder`` is: itself, if it is an item; else the folders in it. Names
    from ``folder`` on, and whether each is an item. One that went meanwhile is none; one that
    cannot be looked into is taken for an item, so that whoever opens it tells.
    """
    try:
        listed = list_folder(f"{folder}/{name}")
    except NotFoundError:
        return
    except StorageError:
        listed = Listed(True, [])
    if listed.is_item:
        yield name, True
    for each in listed.folders:
        yield f"{name}/{each}", False


def items_below(folder: str, name: str) -> Iterator[str]:
    """Every item at or below a folder, in order."""
    stack = [name]
    while stack:
        found = [*expand(folder, stack.pop())]
        yield from (each for each, is_item in found if is_item)
        stack += [each for each, is_item in reversed(found) if not is_item]


def find_items(folder: str) -> Iterator[str]:
    """Every item below a folder, in order; raises what ``top_folders`` raises."""
    for each in sorted(top_folders(folder)):
        yield from items_below(folder, each)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    """Whether items may be there."""
    name = entry.name
    return (
        entry.is_dir(follow_symlinks=False) and not is_dot_git(name) and not is_in_the_making(name)
    )


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
