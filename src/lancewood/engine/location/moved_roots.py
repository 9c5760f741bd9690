"""Where the files of a base path are today, after its table may have been moved.

Base paths are absolute. After a table's directory was copied or moved, those that mean its own
roots still lead to the old location, which may be gone, altered, or another table by now. So one
file of such a base path is looked for below the table's present roots. File names are random: a
file of that name and of the recorded size is that file. Other base paths, such as a cold tier or
the source of a clone, are not found there, since copies never keep the name of the original.

Looks at one file for each base path, and changes nothing.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias
from urllib.parse import unquote

from lancewood.errors import InvalidInputError, NotFoundError
from lancewood.format.container import encode_varint
from lancewood.format.deletion import deletion_file_name
from lancewood.format.layout import (
    DATA_DIR,
    DELETIONS_DIR,
    INDICES_DIR,
    TREE_DIR,
    check_file_name,
)
from lancewood.model.fragment import Fragment
from lancewood.model.ids import BaseId
from lancewood.model.index import Index
from lancewood.model.manifest import Manifest, ManifestHead, decode_fragment
from lancewood.proto import table_pb2
from lancewood.store.base import Store

_BELOW_TREE = f"/{TREE_DIR}/"
_MOST_SUFFIXES = 4
"""At most this many roots below ``tree/`` are tried for one path, to bound the cost of a hostile
one."""
_BASE_ID = b"\x38"
"""The tag of a base id, the same in data files and in deletion files."""


@dataclass(frozen=True, slots=True)
class RootTrace:
    """A file by which a root is recognised."""

    key: str
    """A key below the root; for an index without recorded files, its directory."""
    size: int | None = None
    is_directory: bool = False

    @classmethod
    def of_data_file(cls, name: str, size: int | None) -> RootTrace:
        return cls(f"{DATA_DIR}/{name}", size)

    @classmethod
    def of_deletion_file(cls, name: str) -> RootTrace:
        return cls(f"{DELETIONS_DIR}/{name}")

    @classmethod
    def of_index(cls, index: Index) -> RootTrace:
        directory = f"{INDICES_DIR}/{index.uuid}"
        for each in index.message.files:
            name = check_file_name(each.path.rpartition("/")[2], f"a file of index {index.name!r}")
            if name == each.path:
                return cls(f"{directory}/{name}", each.size_bytes or None)
        return cls(directory, is_directory=True)

    def is_below(self, root: Store) -> bool:
        """Whether the root holds this file; one of another size is another file."""
        if self.is_directory:
            return next(iter(root.list(self.key)), None) is not None
        try:
            found = root.head(self.key)
        except NotFoundError:
            return False
        return self.size is None or found.size == self.size


def find_trace(manifest: Manifest, base_id: BaseId) -> RootTrace | None:
    """One file of a base path; None if the version has none there.

    Decodes only fragments whose bytes may mention the base path, up to the first that does.
    """
    needle = _BASE_ID + encode_varint(base_id)
    for raw in manifest.message.fragments:
        if needle in raw:
            found = _trace_in(Fragment(decode_fragment(raw, manifest.name)), base_id, manifest.name)
            if found is not None:
                return found
    for index in manifest.indices:
        if index.base_id == base_id:
            return RootTrace.of_index(index)
    return None


def _trace_in(fragment: Fragment, base_id: BaseId, name: str) -> RootTrace | None:
    for file in fragment.files:
        if file.base_id == base_id:
            checked = check_file_name(file.path, f"{name}: a data file")
            return RootTrace.of_data_file(checked, file.size)
    deletion = fragment.deletion_file
    if deletion is None or deletion.base_id != base_id:
        return None
    return RootTrace.of_deletion_file(
        deletion_file_name(fragment.id, deletion.read_version, deletion.id, deletion.is_bitmap)
    )


def _family_root(main: Store, uri: str) -> Store | None:
    """The root of a table's family at this normalised location; None if there is none."""
    if uri == main.uri:
        return main
    above = main.uri.rstrip("/") + _BELOW_TREE
    return _below(main, uri, len(above)) if uri.startswith(above) else None


def present_roots(main: Store, base: table_pb2.BasePath) -> tuple[Store, ...]:
    """The roots of the present family that a base path may have meant at an earlier location."""
    path = base.path.rstrip("/")
    suffixes: list[int] = []
    at = path.rfind(_BELOW_TREE)
    while at >= 0 and len(suffixes) < _MOST_SUFFIXES:
        suffixes.append(at + len(_BELOW_TREE))
        at = path.rfind(_BELOW_TREE, 0, at)
    named = len(path) - len(base.name)
    if base.name and named in suffixes:
        suffixes.remove(named)
        suffixes.insert(0, named)
    found = (_below(main, path, each) for each in suffixes)
    return (*(each for each in found if each is not None), main)


def _below(main: Store, path: str, start: int) -> Store | None:
    """The branch root that the rest of a path names."""
    rest = path[start:]
    if "://" in path or path.startswith("file:"):
        rest = unquote(rest)
    try:
        return main.at(f"{TREE_DIR}/{rest}") if rest else None
    except InvalidInputError:
        return None


@dataclass(frozen=True, slots=True)
class BaseFinding:
    """What is known about the root of a base path."""

    root: Store | None
    """The root of the table's own family that it is; None for the recorded path."""
    is_moved: bool = False
    """Whether the recorded path now leads elsewhere."""
    others: tuple[Store, ...] = ()
    """Roots of the family that may hold a file that is missing where it should be."""


def locate_base(
    own: Store,
    main: Store,
    head: ManifestHead,
    base: table_pb2.BasePath,
    uri: str | None,
    trace: RootTrace | None = None,
) -> BaseFinding | None:
    """Where a base path leads that is a dataset root; None where no file of it is available.

    ``own`` is the root of the version, ``main`` that of its table, ``uri`` the normalised path.
    ``trace`` is a file of the base path; by default one is searched for in the version.
    """
    family = own if uri == own.uri else uri and _family_root(main, uri)
    if family:
        return BaseFinding(family)
    if trace is None and isinstance(head, Manifest):
        trace = find_trace(head, BaseId(base.id))
    if trace is None:
        return None
    roots = present_roots(main, base)
    for root in roots:
        if trace.is_below(root):
            return BaseFinding(root, is_moved=uri is None or real_path(uri) != real_path(root.uri))
    return BaseFinding(None, others=roots)


_Key: TypeAlias = tuple[str, str, bool]


class BaseFindings:
    """The findings, made once for each base path; pickled to tasks, which then look at nothing."""

    def __init__(self) -> None:
        self._known: dict[_Key, BaseFinding] = {}
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[_Key, BaseFinding]:
        return dict(self._known)

    def __setstate__(self, state: dict[_Key, BaseFinding]) -> None:
        self.__init__()  # type: ignore[misc]
        self._known = dict(state)

    def known(self, base: table_pb2.BasePath) -> BaseFinding | None:
        return self._known.get(_key(base))

    def settled(
        self, base: table_pb2.BasePath, find: Callable[[], BaseFinding | None]
    ) -> BaseFinding | None:
        """The known finding, or else what ``find`` finds; None if it cannot decide."""
        with self._lock:
            found = self.known(base)
            if found is None:
                found = find()
                if found is not None:
                    self._known[_key(base)] = found
            return found


def real_path(uri: str) -> str:
    """A local path without symbolic links; any other location unchanged."""
    return os.path.realpath(uri) if uri.startswith("/") else uri


def is_relative(path: str) -> bool:
    """Whether a base path depends on a process's working directory."""
    return not path.startswith(("/", "~", "file:")) and "://" not in path


def _key(base: table_pb2.BasePath) -> _Key:
    return base.path, base.name, base.is_dataset_root
