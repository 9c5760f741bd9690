"""Where one table lives: its own root, and the other roots that a manifest may name.

Reads follow the base paths that a manifest declares, unless ``allowed_bases`` restricts them, or
the table was moved and took the files along (``moved_roots``). A branch lives below the main root,
where the refs are. Nothing here writes or deletes.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from urllib.parse import unquote

from lancewood.engine.location.moved_roots import (
    BaseFinding,
    BaseFindings,
    RootTrace,
    is_relative,
    locate_base,
    real_path,
)
from lancewood.errors import (
    FormatError,
    InvalidInputError,
    LancewoodError,
    found_in,
)
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
from lancewood.store.locate import in_bucket, open_store
from lancewood.store.options import StorageOptions


@dataclass(frozen=True)
class Location:
    """A table's root store, and how to reach its other roots.

    ``storage_options`` are for the bucket of the table's root. A manifest can name any location, so
    other buckets get only the options that are not credentials, unless the caller lists the
    location in ``allowed_bases``. ``base_storage_options`` are for roots by path or name. The repr
    shows no option.
    """

    store: Store
    storage_options: Mapping[str, str] | None = field(default=None, repr=False)
    allowed_bases: tuple[str, ...] | None = None
    base_storage_options: Mapping[str, Mapping[str, str]] = field(default_factory=dict, repr=False)
    repository: str | None = None
    """The repository that writes the table; see ``model.table_config``."""
    _file_roots: dict[tuple[int, str], Store] = field(
        default_factory=dict, compare=False, repr=False
    )
    _findings: BaseFindings = field(default_factory=BaseFindings, compare=False, repr=False)
    _above: Store | None = field(default=None, compare=False, repr=False)
    """The root that this one was reached from; it may be the main root."""

    @property
    def uri(self) -> str:
        return self.store.uri

    def at(self, store: Store) -> Location:
        """The location of another root of the same table: main, or a branch."""
        is_deeper = store.uri.startswith(self.uri.rstrip("/") + "/")
        return Location(
            store,
            self.storage_options,
            self.allowed_bases,
            self.base_storage_options,
            self.repository,
            _above=self.store if is_deeper else self._above,
        )

    def written_by(self, repository: str | None) -> Location:
        """The location, written on behalf of a repository; None for no repository."""
        return self if repository == self.repository else replace(self, repository=repository)

    def main(self, head: ManifestHead) -> Store | None:
        """The main root of the table whose branch this is; None if this is not a branch, and for a
        branch that was moved to somewhere other than below ``tree/``."""
        from lancewood.external.opening import opened_like

        if head.branch is None:
            return None
        segments = self.uri.split("/")
        below = f"{TREE_DIR}/{head.branch}".split("/")
        tail = segments[-len(below) :]
        if (tail if "://" not in self.uri else [*map(unquote, tail)]) != below:
            return None
        above = "/".join(segments[: -len(below)]) or "/"
        if self._above is not None and self._above.uri == above:
            return self._above
        return opened_like(self.store, open_store(above, storage_options=self.storage_options))

    def data_file(self, head: ManifestHead, file: DataFile) -> tuple[Store, str]:
        """The store and key of a data file."""
        name = check_file_name(file.path, f"{head.name}: a data file")
        base = self._base(head, file.base_id)
        if base is None:
            return self.store, key_in_base(None, DATA_DIR, name)
        file_root = self._file_root(head, base, RootTrace.of_data_file(name, file.size))
        return file_root, key_in_base(base, DATA_DIR, name)

    def deletion_file(self, head: ManifestHead, fragment: Fragment) -> tuple[Store, str] | None:
        """The store and key of a fragment's deletion file; None where nothing is deleted."""
        deletion = fragment.deletion_file
        if deletion is None:
            return None
        name = deletion_file_name(
            fragment.id, deletion.read_version, deletion.id, deletion.is_bitmap
        )
        base = self._base(head, deletion.base_id)
        if base is None:
            return self.store, key_in_base(None, DELETIONS_DIR, name)
        file_root = self._file_root(head, base, RootTrace.of_deletion_file(name))
        return file_root, key_in_base(base, DELETIONS_DIR, name)

    def index_directory(self, head: ManifestHead, index: Index) -> tuple[Store, str]:
        """The store and the directory that hold the files of an index."""
        with found_in(head.name):
            name = str(index.uuid)
            trace = RootTrace.of_index(index)
        base = self._base(head, index.base_id)
        file_root = self.store if base is None else self._file_root(head, base, trace)
        return file_root, key_in_base(base, INDICES_DIR, name)

    def foreign_file(self, head: ManifestHead, uri: str, base_id: BaseId) -> tuple[Store, str]:
        """The store and key of a file that the table does not own: a blob that was left where it
        was.

        ``uri`` is a path below a base, or if the id is 0 absolute, and then followed like a base
        path.
        """
        if base_id:
            with found_in(head.name):
                base = find_base(head.base_paths, base_id)
            return self._file_root(head, base), _checked_key(head, uri)
        parent, _, name = uri.rpartition("/")
        if "://" not in uri:
            raise FormatError(
                f"{head.name}: a blob lies at {uri!r}, below no base path and not an absolute uri",
                key=uri,
            )
        file_root = open_store(parent + "/", storage_options=self._options_near(uri))
        self._check_allowed(file_root.uri, uri)
        return file_root, _checked_key(head, unquote(name))

    def elsewhere(
        self, head: ManifestHead, base_id: BaseId | None
    ) -> Iterator[tuple[Store, Mapping[str, str] | None]]:
        """Where else a missing file of a base path may be, and the storage options to read it with.

        A file of a table that was moved may have stayed at the old location. Raises what opening
        that location raises.
        """
        base = self._base(head, base_id)
        found = None if base is None else self._findings.known(base)
        if base is None or found is None:
            return
        if found.is_moved:
            yield self._written(base), self._written_options(base)
        for root in found.others:
            yield root, self.storage_options

    def settle(self, head: ManifestHead) -> None:
        """Find out now which base paths of a version lead elsewhere since the table was moved.

        The location keeps the answer, also when it is pickled together with a bare manifest.
        """
        for base in head.base_paths:
            found = self._findings.known(base) or self._find(head, base)
            if found is not None and found.root is None and is_relative(base.path):
                self._written(base)  # relative to this process's working directory, not a task's

    def finding(self, base: table_pb2.BasePath) -> BaseFinding | None:
        """What is known so far about where a base path leads."""
        return self._findings.known(base)

    def base_store(self, base: table_pb2.BasePath) -> Store:
        """The store at a base path: the recorded one, unless ``settle`` found it moved."""
        found = self._findings.known(base)
        return self._written(base) if found is None or found.root is None else found.root

    def store_at(self, uri: str) -> Store:
        """The store at a uri that the table names."""
        found = open_store(uri, storage_options=self._shared_with(uri))
        self._check_allowed(found.uri, uri)
        return found

    def options_of(self, base: table_pb2.BasePath) -> Mapping[str, str] | None:
        """The storage options for a base path: its own, by path or name, or those of the table's
        that apply to it."""
        found = self._findings.known(base)
        is_own_root = found is not None and found.root is not None
        return self.storage_options if is_own_root else self._written_options(base)

    def _written_options(self, base: table_pb2.BasePath) -> Mapping[str, str] | None:
        own = self._own_options_of(base)
        return self._shared_with(base.path) if own is None else own

    def _shared_with(self, uri: str) -> Mapping[str, str] | None:
        """The table's storage options that apply to a location that the table names."""
        there, own = in_bucket(uri), in_bucket(self.uri)
        if not self.storage_options or there is None or self._is_listed(there.uri):
            return self.storage_options
        if own is not None and own.scheme != there.scheme:
            return None  # another kind of store has other names for all its options
        if own is not None and own.bucket == there.bucket:
            return self.storage_options
        return StorageOptions(self.storage_options).without_credentials()

    def _own_options_of(self, base: table_pb2.BasePath) -> Mapping[str, str] | None:
        """The storage options given for this base path alone; None where there are none."""
        if self.base_storage_options:
            for each in (base.name, base.path):
                if each and each in self.base_storage_options:
                    return self.base_storage_options[each]
            found = self.base_storage_options.get(open_store(base.path).uri)
            if found is not None:
                return found
        if not self.storage_options:
            return None
        return StorageOptions(self.storage_options).scoped(base.id, self._shared_with(base.path))

    def _options_near(self, uri: str) -> Mapping[str, str] | None:
        """The storage options for a file that may lie below a base path: the nearest one's."""
        above = [each for each in self.base_storage_options if uri.startswith(f"{each}/")]
        return self.base_storage_options[max(above, key=len)] if above else self._shared_with(uri)

    def options_at(self, head: ManifestHead, base_id: BaseId | None) -> Mapping[str, str] | None:
        """The storage options for the files of a base id; None is the own root."""
        base = self._base(head, base_id)
        return self.storage_options if base is None else self.options_of(base)

    def is_at(self, base: table_pb2.BasePath, root: Store) -> bool:
        """Whether a base path, normalised, is that root."""
        return self._uri_of(base) == root.uri

    def leads_to(self, base: table_pb2.BasePath, root: Store) -> bool:
        """Whether a base path is that root, as recorded or as ``settle`` found."""
        found = self._findings.known(base)
        if found is not None and found.root is not None and found.root.uri == root.uri:
            return True
        return self.is_at(base, root)

    def _base(self, head: ManifestHead, base_id: BaseId | None) -> table_pb2.BasePath | None:
        if base_id is None:
            return None
        with found_in(head.name):
            return find_base(head.base_paths, base_id)

    def _file_root(
        self, head: ManifestHead, base: table_pb2.BasePath, trace: RootTrace | None = None
    ) -> Store:
        """Where the files of a base path are; ``trace`` is one of them."""
        found = self._findings.known(base) or self._find(head, base, trace)
        return self._written(base) if found is None or found.root is None else found.root

    def _find(
        self, head: ManifestHead, base: table_pb2.BasePath, trace: RootTrace | None = None
    ) -> BaseFinding | None:
        """What can be found out about a base path; None where no file of it is available."""

        def find() -> BaseFinding | None:
            main = self.store if head.branch is None else self.main(head)
            if main is None:
                return None
            if not base.is_dataset_root:
                return BaseFinding(None)
            return locate_base(self.store, main, head, base, self._uri_of(base), trace)

        return self._findings.settled(base, find)

    def _uri_of(self, base: table_pb2.BasePath) -> str | None:
        """A base path, normalised; None if it cannot be opened here."""
        try:
            return open_store(base.path, storage_options=self._written_options(base)).uri
        except LancewoodError:
            return None

    def _written(self, base: table_pb2.BasePath) -> Store:
        """The store at the recorded path."""
        file_root = self._file_roots.get((base.id, base.path))  # options may be given by base id
        if file_root is None:
            file_root = open_store(base.path, storage_options=self._written_options(base))
            self._check_allowed(file_root.uri, f"{base.path} (base path {base.id})")
            if is_relative(base.path):
                warnings.warn(
                    f"base path {base.id} of {self.uri} is the relative path {base.path!r}, and is "
                    f"read from the working directory, as {file_root.uri}; give it an absolute one",
                    stacklevel=2,
                )
            self._file_roots[base.id, base.path] = file_root
        return file_root

    def _check_allowed(self, uri: str, what: str) -> None:
        if self.allowed_bases is None or real_path(uri) == real_path(self.uri):
            return
        if self._is_listed(uri):
            return
        raise InvalidInputError(
            f"the table keeps files at {what}, which is not among the allowed bases: "
            f"{', '.join(self.allowed_bases) or 'none'}",
            base=uri,
        )

    def _is_listed(self, uri: str) -> bool:
        """Whether a location is one of the allowed bases, or below one."""
        for each in self.allowed_bases or ():
            allowed = real_path(open_store(each, storage_options=self.storage_options).uri)
            if real_path(uri) == allowed or real_path(uri).startswith(allowed.rstrip("/") + "/"):
                return True
        return False


def _checked_key(head: ManifestHead, key: str) -> str:
    try:
        check_key(key)
    except InvalidInputError as cause:
        raise FormatError(f"{head.name}: a blob lies at {key!r}: {cause}", key=key) from cause
    return key
