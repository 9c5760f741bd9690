"""Where one table lives: its own root, and the other homes that a manifest may name.

Reads follow the base paths that a manifest declares, unless ``allowed_bases`` restricts them.
Nothing here writes or deletes.
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

    ``storage_options`` are for the clients of all of them; they never show in a text.
    """

    store: Store
    storage_options: Mapping[str, str] | None = field(default=None, repr=False)
    allowed_bases: tuple[str, ...] | None = None
    _homes: dict[str, Store] = field(default_factory=dict, compare=False, repr=False)

    @property
    def uri(self) -> str:
        return self.store.uri

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

    def _base(self, head: ManifestHead, base_id: BaseId | None) -> table_pb2.BasePath | None:
        with found_in(head.name):
            return None if base_id is None else find_base(head.base_paths, base_id)

    def _home(self, base: table_pb2.BasePath | None) -> Store:
        if base is None:
            return self.store
        home = self._homes.get(base.path)
        if home is None:
            home = open_store(base.path, storage_options=self.storage_options)
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
