"""The files and directories in which refs and their logs are kept.

Knows paths: which exist, which are in each other's way, whose names are durable. Raises plain
``OSError``. Does not know the values of refs, nor who may change them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress

from lancewood.git.names import is_ref

_KEPT = 2
"""``refs/heads`` and its like stay when they are empty."""


class Places:
    """Where things are below the root of a repository."""

    def __init__(self, root: str) -> None:
        self.root = root
        self._settled: set[str] = {root}
        """Directories whose own names are durable."""

    def ref(self, name: str) -> str:
        return f"{self.root}/{name}"

    def log(self, name: str) -> str:
        return f"{self.root}/logs/{name}"

    def make_directory_of(self, file: str) -> None:
        """Make the directories above a file; raises ``FileExistsError`` or ``NotADirectoryError``
        where a file is in the way."""
        directory = os.path.dirname(file)
        if os.path.isdir(directory):
            return
        self.make_directory_of(directory)
        self._settled.discard(directory)
        try:
            os.mkdir(directory)
        except FileExistsError:
            if not os.path.isdir(directory):
                raise

    def unsettled(self, directory: str) -> list[str]:
        """What is to be synced when the names in a directory changed: itself, and what is above
        it as long as nobody did so before."""
        found = [directory]
        while directory not in self._settled:
            directory = os.path.dirname(directory)
            found.append(directory)
        return found

    def settle(self, directories: Iterable[str]) -> None:
        """They were synced, each with what is above it."""
        self._settled.update(directories)

    def remove_empty_above(self, base: str, name: str) -> None:
        """Remove directories that the name of a ref no longer needs; stops at one that is used."""
        parts = name.split("/")[:-1]
        while len(parts) > _KEPT:
            directory = "/".join([base, *parts])
            try:
                os.rmdir(directory)
            except OSError:
                return
            self._settled.discard(directory)
            parts.pop()

    def clear_empty_below(self, directory: str) -> None:
        """Remove a directory that holds nothing but empty directories; otherwise as many as go."""
        for path, _, _ in os.walk(directory, topdown=False):
            with suppress(OSError):
                os.rmdir(path)
                self._settled.discard(path)

    def ref_names(self, directory: str) -> Iterator[str]:
        """The full names of the files below a directory that can be refs, in no order."""
        todo, linked, seen = [directory], list[str](), set[tuple[int, int]]()
        while todo or linked:
            at = todo.pop() if todo else linked.pop()
            try:
                here = os.stat(f"{self.root}/{at}")
                if (here.st_dev, here.st_ino) in seen:  # a link to where we were, or in a circle
                    continue
                seen.add((here.st_dev, here.st_ino))
                with os.scandir(f"{self.root}/{at}") as entries:
                    found = [(each.name, each.is_dir(), each.is_symlink()) for each in entries]
            except (FileNotFoundError, NotADirectoryError):
                continue
            for name, is_directory, is_link in found:
                full = f"{at}/{name}"
                if is_ref(full):
                    if is_directory:
                        (linked if is_link else todo).append(full)
                    else:
                        yield full

    def log_names(self) -> Iterator[str]:
        """The full names of the refs that have logs, in no order."""
        top = f"{self.root}/logs/"
        for path, _, files in os.walk(f"{top}refs", onerror=_unless_gone):
            names = (f"{path}/{each}".removeprefix(top) for each in files)
            yield from (each for each in names if is_ref(each))

    def locks(self) -> Iterator[str]:
        """The paths of all locks on refs."""
        for path, _, files in os.walk(f"{self.root}/refs"):
            yield from (f"{path}/{each}" for each in files if each.endswith(".lock"))


def _unless_gone(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError | NotADirectoryError):
        raise error
