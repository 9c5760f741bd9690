"""The files of a commit: everything its tree holds besides the pins of tables, and their merges.

Links and submodules, which git can also put into a tree, are not files, and cannot be read; a merge
carries them along. Two commits are put together as git does it: file by file, and texts by lines. A
file that one side changed is taken from there; one that both changed is merged by lines if it is a
text on all sides. Names are not followed: a file that was renamed is one that went and one that
came.

After criss-cross merges two commits have several bases. As git does, those are merged first, and
their bases before them; the result is a base that no commit has. What conflicts there stands in it
with markers, if it is text, and else as in the base of the bases: such a place of the base is like
neither side, so the sides conflict there as well unless they agree.
"""

from __future__ import annotations

import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, Protocol

from lancewood.catalog.names import TABLES_DIR, checked_paths
from lancewood.errors import FormatError, InvalidInputError, NotFoundError
from lancewood.git.history import merge_bases
from lancewood.git.objects import FILE, TREE, Commit, Objects, TreeEntry
from lancewood.git.text_merge import Favor, is_text, merge_texts
from lancewood.git.values import Hash, encode_tree, object_hash

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


_DEEPEST = 200
"""The most nested directories that both sides changed; anything deeper is a conflict."""
_MOST_BASES = 50
"""The most bases of bases that are merged; beyond that the oldest base counts as it is."""


class FileObjects(ObjectSink, Protocol):
    """Where blobs and trees are: ``Objects``, or what is merged in memory only."""

    def blob(self, hash: Hash) -> bytes: ...

    def tree(self, hash: Hash) -> dict[str, TreeEntry]: ...


@dataclass(frozen=True, slots=True)
class FileConflict:
    """A file that was changed on both sides, and why the two do not go together."""

    path: str
    why: str

    def __str__(self) -> str:
        return f"{self.path!r} ({self.why})"


def merge_files(
    objects: Objects,
    bases: Sequence[Hash],
    ours: Mapping[str, TreeEntry],
    theirs: Mapping[str, TreeEntry],
    *,
    favor: Favor | None = None,
) -> tuple[dict[str, TreeEntry], list[FileConflict]]:
    """The entries ``ours`` with the changes from what the commits ``bases`` have in common to
    ``theirs``, and the files in conflict.

    ``favor`` decides lines that both changed, and files that are no text; files that one side
    deleted it does not, as with git. Only directories that both sides changed are read. New blobs
    and directories are written, but not synced.
    """
    known: FileObjects = objects
    base: Mapping[str, TreeEntry] = {}
    if len(bases) == 1:
        base = file_entries(objects.tree(objects.commit(bases[0]).tree))
    elif bases:
        drafts = _Drafts(objects)
        known, base = drafts, drafts.base(bases)
    merging = _Merging(known, objects, favor)
    return merging.entries(base, ours, theirs, "", 0), merging.conflicts


@dataclass
class _Merging:
    known: FileObjects
    sink: ObjectSink
    favor: Favor | None = None
    depth: int = 0
    """Number of merges for which this one only makes the base; it has no conflicts then."""
    conflicts: list[FileConflict] = field(default_factory=list)

    def entries(
        self,
        base: Mapping[str, TreeEntry],
        ours: Mapping[str, TreeEntry],
        theirs: Mapping[str, TreeEntry],
        above: str,
        level: int,
    ) -> dict[str, TreeEntry]:
        """What a directory holds after the merge."""
        found = dict(ours)
        for name in sorted({*base, *theirs}):
            then, here, there = base.get(name), ours.get(name), theirs.get(name)
            if there in (then, here):
                continue
            merged = there
            if here != then:
                merged = self._merged(f"{above}{name}", then, here, there, level)
            if merged is None:
                found.pop(name, None)
            else:
                found[name] = merged
        return found

    def _merged(
        self,
        path: str,
        then: TreeEntry | None,
        here: TreeEntry | None,
        there: TreeEntry | None,
        level: int,
    ) -> TreeEntry | None:
        """A name that both sides changed. A file and a directory of one name are judged apart."""
        sides = (then, here, there)
        files = [None if _is_directory(each) else each for each in sides]
        file = self._file(path, *files)
        if not any(map(_is_directory, sides)):
            return file
        if level == _DEEPEST:
            return self._refused(path, "its directories are nested too deep", then)
        base, ours, theirs = map(self._below, sides)
        inner = self.entries(base, ours, theirs, f"{path}/", level + 1)
        if not inner:
            return file
        if file is not None:
            return self._refused(path, "a file on one side, a directory on the other", then)
        return TreeEntry(TREE, self.sink.put_tree(inner))

    def _below(self, entry: TreeEntry | None) -> Mapping[str, TreeEntry]:
        if entry is None or not _is_directory(entry):
            return {}
        return self.known.tree(entry.hash)

    def _file(
        self, path: str, then: TreeEntry | None, here: TreeEntry | None, there: TreeEntry | None
    ) -> TreeEntry | None:
        if there in (then, here):
            return here
        if here == then:
            return there
        if here is None:
            return self._refused(path, "deleted here, changed there", then)
        if there is None:
            return self._refused(path, "changed here, deleted there", then)
        if not (stat.S_ISREG(here.mode) and stat.S_ISREG(there.mode)):
            return self._refused(path, "not a file on both sides", then)
        before = then if then is not None and stat.S_ISREG(then.mode) else None
        hash = self._content(path, before, here.hash, there.hash)
        if hash is None:
            return then
        mode = None if then is None else then.mode
        if here.mode not in (there.mode, mode) and there.mode != mode:
            return self._refused(path, "two modes", TreeEntry(here.mode, hash))
        return TreeEntry(there.mode if here.mode in (there.mode, mode) else here.mode, hash)

    def _content(self, path: str, then: TreeEntry | None, here: Hash, there: Hash) -> Hash | None:
        """The merged content; None for a conflict."""
        if here == there or (then is not None and there == then.hash):
            return here
        if then is not None and here == then.hash:
            return there
        base = b"" if then is None else self.known.blob(then.hash)
        ours, theirs = self.known.blob(here), self.known.blob(there)
        if not (is_text(base) and is_text(ours) and is_text(theirs)):
            if self.favor is not None:
                return here if self.favor == "ours" else there
            self._refused(path, "changed on both sides, and no text", None)
            return None
        merged = merge_texts(base, ours, theirs, favor=self.favor, depth=self.depth)
        if not merged.is_clean and not self.depth:
            self._refused(path, "the same lines were changed", None)
            return None
        return self.sink.put_blob(merged.text)

    def _refused(self, path: str, why: str, instead: TreeEntry | None) -> TreeEntry | None:
        """A conflict, and what a base has in its place."""
        if not self.depth:
            self.conflicts.append(FileConflict(path, why))
        return instead


def _is_directory(entry: TreeEntry | None) -> bool:
    return entry is not None and stat.S_ISDIR(entry.mode)


class _Drafts:
    """Files that are merged to be a base, and are never written; with the objects beside them."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._blobs: dict[Hash, bytes] = {}
        self._trees: dict[Hash, dict[str, TreeEntry]] = {}
        self._commits: dict[Hash, Commit] = {}
        self._files: dict[Hash, Mapping[str, TreeEntry]] = {}

    def blob(self, hash: Hash) -> bytes:
        return self._blobs[hash] if hash in self._blobs else self._objects.blob(hash)

    def tree(self, hash: Hash) -> dict[str, TreeEntry]:
        return self._trees[hash] if hash in self._trees else self._objects.tree(hash)

    def commit(self, hash: Hash) -> Commit:
        return self._commits[hash] if hash in self._commits else self._objects.commit(hash)

    def put_blob(self, data: bytes) -> Hash:
        hash = object_hash(b"blob", data)
        self._blobs[hash] = data
        return hash

    def put_tree(self, entries: Mapping[str, TreeEntry]) -> Hash:
        hash = object_hash(b"tree", encode_tree(entries))
        self._trees[hash] = dict(entries)
        return hash

    def base(self, bases: Sequence[Hash]) -> Mapping[str, TreeEntry]:
        """What several bases, the newest first, make together."""
        return self._of(self._united(bases, 1))

    def _united(self, bases: Sequence[Hash], depth: int) -> Hash:
        """One commit for several: they are merged, the oldest first."""
        oldest, *newer = reversed(bases)
        if depth > _MOST_BASES or all(self._of(each) == self._of(oldest) for each in newer):
            return oldest
        for each in newer:
            oldest = self._merged(oldest, each, depth)
        return oldest

    def _merged(self, one: Hash, other: Hash, depth: int) -> Hash:
        hash = object_hash(b"merge", f"{one} {other}".encode())
        if hash in self._commits:  # many ways lead to it after many merges
            return hash
        bases = merge_bases(self, one, other)
        base = self._of(self._united(bases, depth + 1)) if bases else {}
        files = _Merging(self, self, depth=depth).entries(
            base, self._of(one), self._of(other), "", 0
        )
        newer = self.commit(other)
        self._commits[hash] = Commit(
            hash, newer.tree, (one, other), newer.author, newer.committer, ""
        )
        self._files[hash] = files
        return hash

    def _of(self, commit: Hash) -> Mapping[str, TreeEntry]:
        if commit not in self._files:
            self._files[commit] = file_entries(self.tree(self.commit(commit).tree))
        return self._files[commit]
