"""The tables of a commit: its tree, with one pin for each in ``tables/``.

Knows trees and pins, not the tables themselves. Files of the tree that pin no table are kept as
they are. A tree is read when it is asked for, a pin only when it is asked for, and pins are
kept by the hash of their text, so that two commits share what they have in common.
"""

from __future__ import annotations

import stat
from collections.abc import Mapping
from threading import Lock

from lancewood.catalog.files import file_entries, put_beside
from lancewood.catalog.names import (
    TABLES_DIR,
    checked_table,
    own_table_uri,
    pin_entry,
    pin_file,
    pinned_table,
)
from lancewood.catalog.pin import Pin, decode_pin, encode_pin
from lancewood.errors import FormatError, InvalidInputError, NotFoundError
from lancewood.git.objects import Objects, TreeEntry
from lancewood.git.values import FILE, TREE, Hash, object_hash

_MOST_CACHED = 32 << 20


class TableTree:
    """The tree of one commit. Immutable; ``with_pins`` gives another one."""

    def __init__(
        self,
        objects: Objects,
        root: Mapping[str, TreeEntry],
        below: Mapping[str, TreeEntry],
        fresh: Mapping[str, bytes],
        stored: Hash | None,
    ) -> None:
        self._objects = objects
        self._root = root
        self._below = below
        self._fresh = fresh
        """The texts of pins that are not among the objects yet, by their entries."""
        self._stored = stored
        """The hash of the tree; None if it has not been written."""
        self._names: tuple[str, ...] | None = None

    @classmethod
    def of(cls, objects: Objects, tree_hash: Hash | None) -> TableTree:
        """The tree of a commit; None is that of a repository without one.

        Raises NotFoundError or FormatError for a tree that cannot be read.
        """
        if tree_hash is None:
            return cls(objects, {}, {}, {}, None)
        root = objects.tree(tree_hash)
        inner = tables_entry(root)
        return cls(objects, root, {} if inner is None else objects.tree(inner), {}, tree_hash)

    def names(self) -> tuple[str, ...]:
        """The tables, sorted."""
        if self._names is None:
            self._names = tuple(sorted(filter(None, map(pinned_table, self._below))))
        return self._names

    def entries(self) -> dict[str, TreeEntry]:
        """The entries of the pins, by the names of the tables, in no order."""
        return {
            name: each
            for entry, each in self._below.items()
            if (name := pinned_table(entry)) is not None
        }

    def blob_hash(self, name: str) -> Hash | None:
        """The hash of a table's pin; None where the tree pins no such table."""
        entry = self._below.get(pin_entry(name))
        return None if entry is None or pinned_table(pin_entry(name)) is None else entry.hash

    def pin(self, name: str) -> Pin:
        """What the commit says about a table.

        Raises NotFoundError where it says nothing, FormatError or UnsupportedError for a pin that
        cannot be read.
        """
        blob = self.blob_hash(name)
        if blob is None:
            raise NotFoundError(
                f"there is no table {name!r} in this tree; it pins {_some(self.names())}",
                table=name,
            )
        entry = pin_entry(name)
        if not stat.S_ISREG(self._below[entry].mode):
            raise FormatError(f"{pin_file(name)}: is no file", file=pin_file(name))
        fresh = self._fresh.get(entry)
        return load_pin(self._objects, name, blob, fresh)

    def find(self, name: str) -> Pin | None:
        """What the commit says about a table; None where it has no such table."""
        return None if self.blob_hash(name) is None else self.pin(name)

    def with_pins(self, changes: Mapping[str, Pin | None]) -> TableTree:
        """The tree after tables were pinned anew, or with None left out; nothing is written.

        Raises InvalidInputError for a name that no table may have, and for a table below the
        repository that lives under another name.
        """
        below, fresh = dict(self._below), dict(self._fresh)
        if changes and _is_taken(self._root):
            raise InvalidInputError(
                f"the commit holds a file {TABLES_DIR!r}, where the pins of its tables go; tables "
                "and such files cannot be in one repository"
            )
        for name, pin in changes.items():
            entry = pin_entry(checked_table(name))
            if pin is None:
                below.pop(entry, None)
                fresh.pop(entry, None)
                continue
            if pin.is_own and pin.uri != own_table_uri(name):
                raise InvalidInputError(
                    f"table {name!r} cannot be pinned at {pin.uri!r}: below the repository it "
                    f"lives at {own_table_uri(name)!r}",
                    table=name,
                )
            data = encode_pin(pin)
            known, now = below.get(entry), TreeEntry(FILE, object_hash(b"blob", data))
            if known is None or known.hash != now.hash:
                fresh[entry] = data
                _CACHE.keep(now.hash, pin, len(data))
            if known != now:
                below[entry] = now
        is_same = below == self._below
        return TableTree(self._objects, self._root, below, fresh, self._stored if is_same else None)

    @property
    def files(self) -> dict[str, TreeEntry]:
        """What the top of the tree holds besides the pins."""
        return file_entries(self._root)

    def with_files(self, files: Mapping[str, TreeEntry]) -> TableTree:
        """The tree with the same tables, and exactly these files beside them; nothing is written.

        The entries are those that ``files.put_files`` gave.
        """
        if files == self.files:
            return self
        pins = {name: each for name, each in self._root.items() if name == TABLES_DIR}
        return TableTree(self._objects, {**files, **pins}, self._below, self._fresh, None)

    def with_files_beside(self, files: Mapping[str, bytes]) -> TableTree:
        """The tree with these files, by checked paths, beside all that it has; the files are
        written, the tree is not. Raises InvalidInputError where they do not fit in."""
        return self.with_files(put_beside(self._objects, self.files, files))

    def put(self) -> Hash:
        """Write what is new, and give the hash of the tree. Not synced: who moves a ref does that.

        One table changed costs one blob and two trees, however many there are.
        """
        if self._stored is None:
            for data in self._fresh.values():
                self._objects.put_blob(data)
            root = {name: each for name, each in self._root.items() if name != TABLES_DIR}
            if self._below:
                root[TABLES_DIR] = TreeEntry(TREE, self._objects.put_tree(self._below))
            elif _is_taken(self._root):
                root = dict(self._root)
            self._stored = self._objects.put_tree(root)
        return self._stored


def tables_entry(root: Mapping[str, TreeEntry]) -> Hash | None:
    """The hash of the tree that holds the pins; None where there is none."""
    found = root.get(TABLES_DIR)
    return found.hash if found is not None and stat.S_ISDIR(found.mode) else None


def _is_taken(root: Mapping[str, TreeEntry]) -> bool:
    return TABLES_DIR in root and tables_entry(root) is None


def load_pin(objects: Objects, name: str, blob: Hash, data: bytes | None = None) -> Pin:
    """A pin by the hash of its text, from the cache if it was read before."""
    pin = _CACHE.get(blob)
    if pin is None:
        data = objects.blob(blob) if data is None else data
        pin = decode_pin(data, pin_file(name))
        _CACHE.keep(blob, pin, len(data))
    if pin.is_own and pin.uri != own_table_uri(name):
        raise FormatError(
            f"{pin_file(name)}: pins {pin.uri!r}, which is the place of another table",
            file=pin_file(name),
        )
    return pin


class _Cache:
    """Pins by the hash of their text, as many as fit; the oldest go first.

    One for the process: the same hash is the same pin in every repository.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._found: dict[Hash, tuple[Pin, int]] = {}
        self._bytes = 0

    def get(self, blob: Hash) -> Pin | None:
        found = self._found.get(blob)
        return None if found is None else found[0]

    def keep(self, blob: Hash, pin: Pin, size: int) -> None:
        with self._lock:
            if blob in self._found:
                return
            self._found[blob] = pin, size
            self._bytes += size
            while self._bytes > _MOST_CACHED:
                oldest = next(iter(self._found))
                self._bytes -= self._found.pop(oldest)[1]


_CACHE = _Cache()


def _some(names: tuple[str, ...]) -> str:
    if not names:
        return "none"
    more = f" and {len(names) - 10} more" if len(names) > 10 else ""
    return ", ".join(names[:10]) + more
