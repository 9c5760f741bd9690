"""The files and directories in which refs and their logs are kept.

Knows paths: which exist, which are in each other's way, whose names are durable. Raises plain
``OSError``, and InvalidInputError for a symbolic link: whoever made the repository may have put it
there, and nobody writes or deletes where it leads. Does not know the values of refs, nor who may
change them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress

from lancewood.git.names import is_ref
from lancewood.store.disk_root import link_refused, refuse_links

_KEPT = 2
"""``refs/heads`` and its like stay when they are empty."""


class Places:
    """Where things are below the root of a repository."""

    def __init__(self, root: str) -> None:
        self.root = root
        self._settled: set[str] = {root}
        """Directories whose own names are durable."""
        self._known: dict[str, str] = {}
        """Directories that are no links, as paths by their ways from the root."""

    def look_again(self) -> None:
        """Whoever begins to change something, or to list, does not rest on earlier looks."""
        self._known.clear()

    def ref(self, name: str) -> str:
        return self._checked(name)

    def log(self, name: str) -> str:
        return self._checked(f"logs/{name}")

    def _checked(self, key: str) -> str:
        directory = key.rpartition("/")[0]
        if directory and directory not in self._known:
            refuse_links(self.root, directory, self._known)
        file = f"{self.root}/{key}"
        if os.path.islink(file):
            raise link_refused(file, self.root)
        return file

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
        refuse_links(self.root, directory.removeprefix(f"{self.root}/"))
        for path, _, _ in os.walk(directory, topdown=False):
            with suppress(OSError):
                os.rmdir(path)
                self._settled.discard(path)

    def ref_names(self, directory: str) -> Iterator[str]:
        """The full names of the files below a directory that can be refs, in no order."""
        return (each for each in self._files(directory) if is_ref(each))

    def log_names(self) -> Iterator[str]:
        """The full names of the refs that have logs, in no order."""
        names = (each.removeprefix("logs/") for each in self._files("logs/refs"))
        return (each for each in names if is_ref(each))

    def locks(self) -> Iterator[str]:
        """The paths of all locks on refs."""
        return (f"{self.root}/{each}" for each in self._files("refs") if each.endswith(".lock"))

    def _files(self, directory: str) -> Iterator[str]:
        """What is below a directory and is none itself, by its way from the root."""
        self.look_again()
        refuse_links(self.root, directory, self._known)
        todo = [directory]
        while todo:
            at = todo.pop()
            try:
                with os.scandir(f"{self.root}/{at}") as entries:
                    found = [(each.name, each.is_dir(), each.is_symlink()) for each in entries]
            except (FileNotFoundError, NotADirectoryError):
                continue
            for name, is_directory, is_link in found:
                if not is_directory:
                    yield f"{at}/{name}"
                elif is_link:
                    raise link_refused(f"{self.root}/{at}/{name}", self.root)
                else:
                    todo.append(f"{at}/{name}")
