"""Where one table lives: its own root, and the other homes that a manifest may name.

Reads follow the base paths that a manifest declares, unless ``allowed_bases`` restricts them. A
branch lives below the main root, where the refs are. Nothing here writes or deletes.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote

from lancewood.errors import FormatError, InvalidInputError, found_in
from lancewood.format.deletion import deletion_file_name
from lancewood.format.layout import (
    DATA_DIR,
    DELETIONS_DIR,
    INDICES_DIR,
    TREE_DIR,
    check_file_name,
    find_base,
    key_in_base,
)
from lancewood.model.fragment import DataFile, Fragment
from lancewood.model.ids import BaseId
from lancewood.model.index import Index
from lancewood.model.manifest import ManifestHead
from lancewood.proto import table_pb2
from lancewood.store.base import Store, check_key
from lancewood.store.locate import open_store


@dataclass(frozen=True)
class Place:
    """A table's root store, and how to reach its other homes.

    ``storage_options`` are for the clients of all of them, but for those that
    ``base_storage_options`` lists by path or name; they never show in a text.
    """

    store: Store
    storage_options: Mapping[str, str] | None = field(default=None, repr=False)
    allowed_bases: tuple[str, ...] | None = None
    base_storage_options: Mapping[str, Mapping[str, str]] = field(default_factory=dict, repr=False)
    _homes: dict[str, Store] = field(default_factory=dict, compare=False, repr=False)

    @property
    def uri(self) -> str:
        return self.store.uri

    def at(self, store: Store) -> Place:
        """The same for another root of the same table: main, or a branch."""
        return Place(store, self.storage_options, self.allowed_bases, self.base_storage_options)

    def main(self, head: ManifestHead) -> Store | None:
        """The main root of the table whose branch this is; None for what is no branch, and for a
        branch that was brought elsewhere than below ``tree/``."""
        below = f"/{TREE_DIR}/{head.branch}"
        if head.branch is None or not self.uri.endswith(below):
            return None
        above = self.uri.removesuffix(below) or "/"
        return open_store(above, storage_options=self.storage_options)

    def data_file(self, head: ManifestHead, file: DataFile) -> tuple[Store, str]:
        """The store and key of a data file."""
        name = check_file_name(file.path, f"{head.name}: a data file")
        base = self._base(head, file.base_id)
        return self._home(base), key_in_base(base, DATA_DIR, name)

    def deletion_file(self, head: ManifestHead, fragment: Fragment) -> tuple[Store, str] | None:
        """The store and key of a fragment's deletion file; None where nothing is deleted."""
        deletion = fragment.deletion_file
        if deletion is None:
            return None
        name = deletion_file_name(
            fragment.id, deletion.read_version, deletion.id, deletion.is_bitmap
        )
        base = self._base(head, deletion.base_id)
        return self._home(base), key_in_base(base, DELETIONS_DIR, name)

    def index_directory(self, head: ManifestHead, index: Index) -> tuple[Store, str]:
        """The store and the directory that hold the files of an index."""
        with found_in(head.name):
            name = str(index.uuid)
        base = self._base(head, index.base_id)
        return self._home(base), key_in_base(base, INDICES_DIR, name)

    def foreign_file(self, head: ManifestHead, uri: str, base_id: BaseId) -> tuple[Store, str]:
        """The store and key of a file that is not the table's: a blob that was left where it was.

        ``uri`` is a path below a base, or absolute, and then followed like a base path is.
        """
        if "://" not in uri:
            with found_in(head.name):
                base = find_base(head.base_paths, base_id)
            return self._home(base), _checked_key(head, uri)
        parent, _, name = uri.rpartition("/")
        home = open_store(parent + "/", storage_options=self.storage_options)
        self._check_allowed(home.uri, uri)
        return home, _checked_key(head, unquote(name))

    def base_store(self, base: table_pb2.BasePath) -> Store:
        """The store at a base path."""
        return self._home(base)

    def options_of(self, base: table_pb2.BasePath) -> Mapping[str, str] | None:
        """The storage options for a base path: its own, by path or name, or everybody's."""
        for each in (base.path, base.name):
            if each and each in self.base_storage_options:
                return self.base_storage_options[each]
        return self.storage_options

    def is_at(self, base: table_pb2.BasePath, root: Store) -> bool:
        """Whether a base path, normalised, is that root."""
        return open_store(base.path, storage_options=self.options_of(base)).uri == root.uri

    def _base(self, head: ManifestHead, base_id: BaseId | None) -> table_pb2.BasePath | None:
        with found_in(head.name):
            return None if base_id is None else find_base(head.base_paths, base_id)

    def _home(self, base: table_pb2.BasePath | None) -> Store:
        if base is None:
            return self.store
        home = self._homes.get(base.path)
        if home is None:
            home = open_store(base.path, storage_options=self.options_of(base))
            self._check_allowed(home.uri, f"{base.path} (base path {base.id})")
            self._homes[base.path] = home
        return home

    def _check_allowed(self, uri: str, what: str) -> None:
        if self.allowed_bases is None or _real(uri) == _real(self.uri):
            return
        for each in self.allowed_bases:
            allowed = _real(open_store(each, storage_options=self.storage_options).uri)
            if _real(uri) == allowed or _real(uri).startswith(allowed.rstrip("/") + "/"):
                return
        raise InvalidInputError(
            f"the table keeps files at {what}, which is not among the allowed bases: "
            f"{', '.join(self.allowed_bases) or 'none'}",
            base=uri,
        )


def _checked_key(head: ManifestHead, key: str) -> str:
    try:
        check_key(key)
    except InvalidInputError as cause:
        raise FormatError(f"{head.name}: a blob lies at {key!r}: {cause}", key=key) from cause
    return key


def _real(uri: str) -> str:
    """A local path without symbolic links, which could lead out of what is allowed."""
    return os.path.realpath(uri) if uri.startswith("/") else uri
