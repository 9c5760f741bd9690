"""Finding items: which folders below a folder are repositories.

An item is a folder in which there are ``HEAD``, ``refs`` and ``objects``, or at least two of the
three: then it is a broken one, and whoever opens it says so. What is below an item is not looked
at. Folders may be nested to any depth; links to folders, and ``.git`` of work trees, are no items.
Knows names on a disk; opens no repository.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from lancewood.errors import InvalidInputError, NotFoundError, StorageError
from lancewood.git.values import is_dot_git
from lancewood.repo.items.names import STAGING
from lancewood.store.base import is_in_the_making

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
