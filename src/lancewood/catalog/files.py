"""The files of a commit: everything its tree holds besides the pins of tables.

They are read and written here; ``file_merge`` merges them. Links and submodules, which git can also
put into a tree, are not files, and cannot be read.
"""

from __future__ import annotations

import stat
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any, Protocol

from lancewood.catalog.names import TABLES_DIR, checked_paths
from lancewood.errors import FormatError, InvalidInputError, NotFoundError
from lancewood.git.objects import FILE, TREE, Objects, TreeEntry
from lancewood.git.values import Hash

_MOST_FILES = 1_000_000
"""The most files of one commit: trees that share subtrees can name more than fit in memory."""


def checked_files(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """The files, sorted by path; raises InvalidInputError for a bad path or content."""
    if not isinstance(files, Mapping):
        raise InvalidInputError(f"files are a map from paths to bytes, got {type(files).__name__}")
    paths = checked_paths(files)
    for path in paths:
        if not isinstance(files[path], bytes):
            raise InvalidInputError(
                f"file {path!r} is made of bytes, not of {type(files[path]).__name__}; encode it",
                path=path,
            )
    return {path: files[path] for path in paths}


class ObjectSink(Protocol):
    """Where new blobs and trees go: ``Objects``, or a pack that is being built."""

    def put_blob(self, data: bytes) -> Hash: ...

    def put_tree(self, entries: Mapping[str, TreeEntry]) -> Hash: ...


def put_files(objects: ObjectSink, files: Mapping[str, bytes]) -> dict[str, TreeEntry]:
    """Write files, by checked paths, and their directories; returns the entries of the top.

    Not synced: moving a ref does that.
    """
    return put_entries(objects, {path: objects.put_blob(data) for path, data in files.items()})


def put_entries(objects: ObjectSink, blobs: Mapping[str, Hash]) -> dict[str, TreeEntry]:
    """Write directories above blobs that are written already; returns the entries of the top."""
    top: dict[str, Any] = {}
    for path, blob in blobs.items():
        *above, name = path.split("/")
        at = top
        for each in above:
            at = at.setdefault(each, {})
        at[name] = TreeEntry(FILE, blob)
    return _put_below(objects, top)


def put_beside(
    objects: Objects, top: Mapping[str, TreeEntry], files: Mapping[str, bytes]
) -> dict[str, TreeEntry]:
    """Write files, by checked paths, into existing directories; returns the entries of the top.

    Other files stay. Only the directories on the way are read and written. Raises InvalidInputError
    where a file would replace a directory, or the other way round.
    """
    levels = {"": dict(top)}
    for path, data in files.items():
        above, at = "", levels[""]
        *parts, name = path.split("/")
        for part in parts:
            inner = f"{above}{part}/"
            if inner not in levels:
                levels[inner] = _directory(objects, at.get(part), path)
            above, at = inner, levels[inner]
        known = at.get(name)
        if known is not None and stat.S_ISDIR(known.mode):
            raise InvalidInputError(f"{path!r} is a directory in the commit, not a file", path=path)
        at[name] = TreeEntry(FILE, objects.put_blob(data))
    # Each directory is written once, when all its files are in it: those in others come later.
    for inner in reversed(levels):
        if inner:
            above, name = split_directory(inner)
            levels[above][name] = TreeEntry(TREE, objects.put_tree(levels[inner]))
    return levels[""]


def split_directory(path: str) -> tuple[str, str]:
    """The parent of a directory, and its name: ``a/b/`` is ``b`` in ``a/``."""
    above, slash, name = path[:-1].rpartition("/")
    return above + slash, name


def _directory(objects: Objects, entry: TreeEntry | None, path: str) -> dict[str, TreeEntry]:
    if entry is None:
        return {}
    if not stat.S_ISDIR(entry.mode):
        raise InvalidInputError(
            f"{path!r} cannot be in the commit: a part of its path is a file there", path=path
        )
    return objects.tree(entry.hash)


def _put_below(objects: ObjectSink, directory: Mapping[str, Any]) -> dict[str, TreeEntry]:
    """Write the directories below one, without recursion, and return its entries."""
    stack: list[tuple[Mapping[str, Any], dict[str, TreeEntry], list[str]]] = []
    stack.append((directory, {}, [*directory]))
    while True:
        names, entries, todo = stack[-1]
        if todo:
            each = names[todo[-1]]
            if isinstance(each, TreeEntry):
                entries[todo.pop()] = each
            else:
                stack.append((each, {}, [*each]))
            continue
        stack.pop()
        if not stack:
            return entries
        _, above, waiting = stack[-1]
        above[waiting.pop()] = TreeEntry(TREE, objects.put_tree(entries))


def file_entries(root: Mapping[str, TreeEntry]) -> dict[str, TreeEntry]:
    """The top of a tree without the pins of tables."""
    return {name: each for name, each in root.items() if name != TABLES_DIR}


def file_names(objects: Objects, root: Hash) -> tuple[str, ...]:
    """The paths of all files, sorted. Raises FormatError."""
    found = []
    for path, _ in walk_entries(objects, file_entries(objects.tree(root))):
        found.append(path)
        if len(found) > _MOST_FILES:
            raise FormatError(f"tree {root} names more than {_MOST_FILES:,} files")
    return tuple(sorted(found))


def file_blobs(objects: Objects, root: Hash, seen: set[Hash]) -> Iterator[tuple[str, Hash]]:
    """Files by path whose trees and blobs are not in ``seen``; adds them to it."""
    for path, entry in walk_entries(objects, file_entries(objects.tree(root)), seen):
        if entry.hash not in seen:
            seen.add(entry.hash)
            yield path, entry.hash


def read_file(objects: Objects, root: Hash, path: str) -> bytes:
    """The bytes of a file; raises NotFoundError, and InvalidInputError for anything else."""
    if not isinstance(path, str):
        raise InvalidInputError(f"the path of a file is a text, not {type(path).__name__}")
    entry = TreeEntry(TREE, root)
    gone = ""
    for part in path.split("/"):
        entries = objects.tree(entry.hash) if stat.S_ISDIR(entry.mode) else {}
        found = entries.get(part)
        if found is None:
            near = get_close_matches(part, entries, n=3)
            more = "".join(f"; did you mean {gone}{each}?" for each in near[:1])
            raise NotFoundError(f"there is no file {path!r} in this commit{more}", path=path)
        entry, gone = found, f"{gone}{part}/"
    if not stat.S_ISREG(entry.mode):
        kind = "a directory" if stat.S_ISDIR(entry.mode) else "a link"
        raise InvalidInputError(f"{path!r} is {kind} in this commit, not a file", path=path)
    return objects.blob(entry.hash)


def walk_entries(
    objects: Objects, root: Mapping[str, TreeEntry], seen: set[Hash] | None = None
) -> Iterator[tuple[str, TreeEntry]]:
    """Every file below a tree's entries, in no order; skips trees in ``seen`` and adds to it."""
    stack = [("", root)]
    while stack:
        above, entries = stack.pop()
        for name, entry in entries.items():
            if stat.S_ISREG(entry.mode):
                yield above + name, entry
            elif stat.S_ISDIR(entry.mode) and (seen is None or entry.hash not in seen):
                if seen is not None:
                    seen.add(entry.hash)
                stack.append((f"{above}{name}/", objects.tree(entry.hash)))
