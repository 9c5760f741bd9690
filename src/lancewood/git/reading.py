"""What refs say: the values in their files and in packed refs, and which names exclude each other.

Reads; changes nothing but empty directories that are in the way. Knows nothing of locks or logs.
dulwich's way to read a ref is not used: there, a ref that cannot be read looks like none.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

from lancewood.errors import (
    AlreadyExistsError,
    FormatError,
    InvalidInputError,
    RetryableConflictError,
    StorageError,
)
from lancewood.git.hashes import ZERO, Hash, is_hash
from lancewood.git.names import HEAD, is_ref
from lancewood.git.packed import PackedRefs
from lancewood.git.places import Places
from lancewood.store.wholefile import read_file

SYMBOLIC = "ref: "
WORK_TREES = "worktrees"
_MOST_STEPS = 5
MARKER = b"lancewood: "
"""How an object begins that is at the place of a ref in a bucket and says that there is none; see
``bucket.ref_objects``. A download may have brought one along."""


class RefReader:
    """Files first, then what is packed: who packs a ref removes its file last."""

    def __init__(self, places: Places, packed: PackedRefs) -> None:
        self._places = places
        self._packed = packed

    def names(self, prefix: str) -> dict[str, Hash]:
        """The refs whose full names start so, in order, and their values."""
        found: dict[str, Hash] = {}
        hidden = set[str]()
        for name in self.loose_names(prefix.rpartition("/")[0]):
            if name.startswith(prefix):
                value = self.follow(name)
                if value is not None:
                    found[name] = value
                elif self.is_marked(name):
                    hidden.add(name)
        for name, value in self._packed.starting_with(prefix):
            if name not in hidden:
                found.setdefault(name, value)
        return dict(sorted(found.items()))

    def is_marked(self, name: str) -> bool:
        """Whether a marker from a bucket is at the place of a ref; it hides what is packed."""
        data = self._data(name)
        return data is not None and is_marker(data)

    def loose_names(self, directory: str) -> Iterator[str]:
        """The refs that are files below a directory, in no order; raises StorageError."""
        try:
            yield from self._places.ref_names(directory)
        except OSError as cause:
            raise StorageError(
                f"cannot list {self._places.ref(directory)}: {cause.strerror} ({cause.filename})"
            ) from cause

    def work_trees(self) -> list[str]:
        """Where git keeps what it knows of its work trees, in order; raises StorageError."""
        try:
            return sorted(
                f"{WORK_TREES}/{each}" for each in os.listdir(self._places.ref(WORK_TREES))
            )
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as cause:
            raise StorageError(
                f"cannot list {self._places.ref(WORK_TREES)}: {cause.strerror}"
            ) from cause

    def standing(self, name: str) -> Hash | None:
        """The value of a ref that is no name for another; raises InvalidInputError if it is."""
        text = self.text(name)
        return None if text is None else standing_value(name, text)

    def follow(self, name: str) -> Hash | None:
        return followed(name, self.text, self._places.ref(name))

    def text(self, name: str) -> str | None:
        data = self._data(name)
        if data is None:
            return None if name == HEAD else self._packed.get(name)
        return self._decoded(name, data)

    def loose(self, name: str) -> str | None:
        """What the file of a ref says: a hash, or ``ref: `` and another name."""
        data = self._data(name)
        return None if data is None else self._decoded(name, data)

    def _decoded(self, name: str, data: bytes) -> str | None:
        if name != HEAD and is_marker(data):
            return None
        return decode_ref(data, name, self._places.ref(name))

    def _data(self, name: str) -> bytes | None:
        file = self._places.ref(name)
        try:
            return read_file(file, 0, 4096)
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return None
        except OSError as cause:
            raise StorageError(f"cannot read {file}: {cause.strerror}", file=file) from cause

    def check_room(self, name: str) -> None:
        """Raises AlreadyExistsError if a ref is where this one needs a directory, or below it."""
        parts = name.split("/")
        for count in range(2, len(parts)):
            above = "/".join(parts[:count])
            if self.text(above) is not None:
                raise in_the_way(name, above)
        file = self._places.ref(name)
        if os.path.isdir(file):
            for below in self.loose_names(name):
                raise in_the_way(name, below)
            self._places.clear_empty_below(file)
        for below, _ in self._packed.starting_with(f"{name}/"):
            raise in_the_way(name, below)
        if os.path.isdir(file):
            raise RetryableConflictError(
                f"cannot make {name}: somebody is making a ref below it, in {file}; try again"
            )


def is_marker(data: bytes) -> bool:
    """Whether what is at the place of a ref says that there is none."""
    return data.startswith(MARKER)


def decode_ref(data: bytes, name: str, file: str) -> str:
    """What a ref says: a hash, or ``ref: `` and another name. Raises FormatError."""
    text = data.decode("utf-8", "replace").rstrip()
    if is_hash(text) and text != ZERO:
        return text
    if text.startswith("ref:"):
        target = text[4:].strip()
        if is_ref(target):
            return SYMBOLIC + target
    raise FormatError(
        f"{file} holds {text[:100]!r}, which is neither a hash of 64 digits nor the name of "
        f"another ref; write there what the last line of logs/{name} says, or bring it back "
        "from a copy",
        file=file,
    )


def standing_value(name: str, text: str) -> Hash:
    """The hash that a ref says; raises InvalidInputError for one that is a name for another."""
    if text.startswith(SYMBOLIC):
        target = text.removeprefix(SYMBOLIC)
        raise InvalidInputError(f"{name} stands for {target}: move that one")
    return Hash(text)


def followed(name: str, read: Callable[[str], str | None], file: str) -> Hash | None:
    """The hash that a ref leads to, from name to name; None where one of them is not there.

    Raises FormatError for names that lead in a circle; ``file`` is where the first one is.
    """
    at = name
    for _ in range(_MOST_STEPS):
        text = read(at)
        if text is None or not text.startswith(SYMBOLIC):
            return None if text is None else Hash(text)
        at = text.removeprefix(SYMBOLIC)
    raise FormatError(f"{file} leads from ref to ref, {_MOST_STEPS} deep", file=file)


def in_the_way(name: str, other: str) -> AlreadyExistsError:
    """What is said where one name would have to be a directory of another."""
    return AlreadyExistsError(
        f"cannot make {name}: {other} exists, and git keeps refs as files, so that one name cannot "
        "be a directory of another; delete or rename one of them",
        ref=name,
        other=other,
    )
