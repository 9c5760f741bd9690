"""Listing directories of a disk: finished files, without those being written."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from datetime import UTC, datetime

from lancewood.errors import StorageError
from lancewood.store.base import ObjectInfo, is_in_the_making
from lancewood.store.wholefile import etag_of


def walk(path: str, below: str) -> Iterator[ObjectInfo]:
    """The objects below a directory, however deep, in any order; ``below`` is the prefix of their
    keys."""
    pending = [(path, below)]
    while pending:
        path, below = pending.pop()
        with _scanned(path) as entries:
            for each in entries:
                if each.is_dir(follow_symlinks=False):
                    pending.append((each.path, f"{below}{each.name}/"))
                elif _is_object(each):
                    with suppress(FileNotFoundError):
                        yield info_of(below + each.name, each.stat(follow_symlinks=False))


def names_in(path: str) -> Iterator[str]:
    """The names of finished files and of directories in a directory; none if it does not exist."""
    try:
        names = os.listdir(path)
    except (FileNotFoundError, NotADirectoryError):
        names = []
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:  # then nothing can have that name
            raise StorageError(f"cannot list {path}: {error.strerror}", path=path) from error
        names = []
    return iter([each for each in names if each[0] != "." or not is_in_the_making(each)])


def directories_in(path: str) -> Iterator[str]:
    """The names of the directories in a directory; none if it does not exist."""
    try:
        with os.scandir(path) as entries:
            names = [each.name for each in entries if each.is_dir(follow_symlinks=False)]
    except (FileNotFoundError, NotADirectoryError):
        names = []
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:  # then nothing can have that name
            raise StorageError(f"cannot list {path}: {error.strerror}", path=path) from error
        names = []
    return iter(names)


def info_of(key: str, found: os.stat_result) -> ObjectInfo:
    """A file's metadata as a store returns it."""
    modified = datetime.fromtimestamp(found.st_mtime, UTC)
    return ObjectInfo(key, found.st_size, modified, etag_of(found))


@contextmanager
def _scanned(path: str) -> Iterator[Iterable[os.DirEntry[str]]]:
    """The entries of a directory, lazily; none if it does not exist."""
    found: AbstractContextManager[Iterable[os.DirEntry[str]]]
    try:
        try:
            found = os.scandir(path)
        except (FileNotFoundError, NotADirectoryError):
            found = nullcontext(())
        with found as entries:
            yield entries
    except OSError as error:
        raise StorageError(f"cannot list {path}: {error.strerror}", path=path) from error


def _is_object(entry: os.DirEntry[str]) -> bool:
    """Whether an entry is a finished file. The kernel returns the kind with the name, so this costs
    no further call."""
    name = entry.name
    return entry.is_file(follow_symlinks=False) and (name[0] != "." or not is_in_the_making(name))
