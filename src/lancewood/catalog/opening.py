"""From a version to its pin, and from a pin back to exactly the version that was pinned.

A table below the repository is found where the repository is now, wherever it was when the pin was
written; any other by its full uri. What is found at the location of a pin is checked against it.

The schema in a pin is text for people: readers take the schema from the manifest. The text depends
on the manifest alone, never on which Arrow extensions a process has loaded, so the same version has
the same pin everywhere.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lancewood.catalog.names import TABLES_DIR, own_table, own_table_uri
from lancewood.catalog.pin import Pin, check_uri
from lancewood.errors import IntegrityError, InvalidInputError, LancewoodError, NotFoundError
from lancewood.format.layout import NamingScheme, manifest_key
from lancewood.git.names import RepositoryRoot, below
from lancewood.model.ids import is_detached, version_words
from lancewood.model.lines import Landing
from lancewood.model.manifest import Manifest
from lancewood.model.refs import BranchName, called
from lancewood.model.schema import Field, Schema
from lancewood.store.base import Store
from lancewood.store.locate import open_store

if TYPE_CHECKING:
    from lancewood.engine.location import Location
    from lancewood.engine.snapshot import Snapshot

_EXTENSION = "ARROW:extension:name"
_CONTENT = "content digest"


@dataclass(frozen=True, slots=True)
class TableStores:
    """How the stores of pinned tables are opened."""

    storage_options: Mapping[str, str] | None = None
    """For other locations than a disk."""
    fsync: bool | None = None
    known: dict[str, Store] | None = None
    """Main roots that are open already, by the uri of a pin; new ones are added. None: no store is
    kept."""

    def open(self, uri: str, where: RepositoryRoot) -> Store:
        """The store of the table that pins have at ``uri``, which is there."""
        found = None if self.known is None else self.known.get(uri)
        if found is None:
            found = open_store(where, fsync=self.fsync, storage_options=self.storage_options)
            if self.known is not None:
                found = self.known.setdefault(uri, found)
        return found


_PLAIN_STORES = TableStores()


def pinned_uri(root: str, repository: RepositoryRoot) -> str:
    """The uri that a pin has for a table whose main root is there (``Store.uri``).

    Raises InvalidInputError for a location that no pin may name, such as one inside the repository
    but not among its tables.
    """
    for inside in _inside(root, repository):
        return _checked_own(inside, root)
    check_uri(root)
    return root


def main_location_of(
    pin: Pin, repository: RepositoryRoot, stores: TableStores = _PLAIN_STORES
) -> Location:
    """The main root of the pinned table, where its refs are. Raises InvalidInputError where a link
    leads out of the repository."""
    from lancewood.engine.location import Location

    is_own = own_table(pin.uri) is not None
    where: RepositoryRoot = Path(pin.uri) if "://" not in pin.uri else pin.uri
    if is_own:
        where = below(repository, pin.uri)
    store = stores.open(pin.uri, where)
    is_on_disk = is_own and isinstance(repository, Path)
    return Location(store) if is_on_disk else Location(store, stores.storage_options)


def location_of(
    pin: Pin, repository: RepositoryRoot, stores: TableStores = _PLAIN_STORES
) -> Location:
    """The root of the branch that a pin speaks of."""
    from lancewood.engine.snapshot import branch_location

    return branch_location(main_location_of(pin, repository, stores), pin.branch)


def inside_of(root: str, repository: RepositoryRoot) -> str | None:
    """Where a location is below a repository; None for one that is elsewhere."""
    return next(_inside(root, repository), None)


def _inside(root: str, repository: RepositoryRoot) -> Iterator[str]:
    """Where a root is below the repository, by the paths that are used or without links."""
    if isinstance(repository, str):
        pairs = [(root, repository)]
    elif "://" in root:
        pairs = []
    else:
        used = str(repository)
        pairs = [
            (os.path.abspath(root), os.path.abspath(used)),
            (os.path.realpath(root), os.path.realpath(used)),
        ]
    yield from (inside for each in pairs if (inside := _below(*each)) is not None)


def _checked_own(inside: str, root: str) -> str:
    if own_table(inside) is None:
        raise InvalidInputError(
            f"{root} is inside the repository, but not at {own_table_uri('<name>')}: tables of a "
            f"repository lie in {TABLES_DIR}/, under the name that commits know them by; move it "
            "there, or out of the repository",
            uri=root,
        )
    return inside


def _below(path: str, above: str) -> str | None:
    start = f"{above.rstrip('/')}/"
    return path[len(start) :] if path.startswith(start) else None


def pin_of(snapshot: Snapshot, uri: str, landing: Landing | None = None) -> Pin:
    """The pin of a version; ``uri`` comes from ``pinned_uri``.

    ``landing`` is given for the last state of a transaction only. Raises InvalidInputError for what
    cannot be pinned.
    """
    from lancewood.format.manifest import manifest_digest

    manifest = snapshot.manifest
    return Pin(
        uri=uri,
        branch=None if manifest.branch is None else BranchName.found(manifest.branch),
        version=manifest.version,
        manifest=manifest_key(manifest.version, snapshot.scheme),
        size=manifest.size,
        sha256=manifest_digest(manifest.message),
        content=content_of(snapshot),
        rows=manifest.row_count,
        fragments=manifest.fragment_count,
        schema=column_types(snapshot.schema),
        landing=landing,
    )


def content_of(snapshot: Snapshot) -> str:
    """The ``content_digest`` of a version, computed once."""
    from lancewood.format.manifest import content_digest

    found = snapshot.derived.get(_CONTENT)
    if found is None:
        found = snapshot.derived[_CONTENT] = content_digest(snapshot.manifest.message)
    return str(found)


def open_pin(pin: Pin, repository: RepositoryRoot, stores: TableStores = _PLAIN_STORES) -> Snapshot:
    """The version that is pinned, where the table is now.

    If the manifest of a staged state is gone, the version that it landed as is opened instead,
    provided that it has the same rows. Raises NotFoundError if the version is gone, IntegrityError
    if it is not what was pinned.
    """
    from lancewood.engine.snapshot import Snapshot
    from lancewood.format.manifest import manifest_digest

    location = location_of(pin, repository, stores)
    try:
        manifest, scheme = _load(location, pin)
    except NotFoundError as gone:
        landed = _landed_twin(location, pin)
        if landed is not None:
            return landed
        raise NotFoundError(
            f"{_named(location, pin)}, which the commit pins, is gone: {pin.manifest} is not "
            "there. Another program's cleanup may have removed it, or the table was dropped or "
            "moved. Bring its files back from a copy, or use another commit",
            uri=location.uri,
            branch=pin.branch,
            version=pin.version,
        ) from gone
    found = manifest_digest(manifest.message)
    if found != pin.sha256:
        raise IntegrityError(
            f"{_named(location, pin)} is not what the commit pins: the digest of {pin.manifest} is "
            f"{found[:12]}…, the pin says {pin.sha256[:12]}… ({pin.rows} rows in {pin.fragments} "
            f"fragments; there are {manifest.fragment_count}). The table was dropped and made "
            "again, or its files were changed: bring them back from a copy, or go on with what is "
            "there: write to it, and commit the table as it stands",
            uri=location.uri,
            branch=pin.branch,
            version=pin.version,
            expected=pin.sha256,
            found=found,
        )
    return Snapshot(location, manifest, scheme)


def _load(location: Location, pin: Pin) -> tuple[Manifest, NamingScheme]:
    """The manifest and its naming scheme, which may have been migrated since it was pinned."""
    from lancewood.engine.versions import load_manifest

    v2 = manifest_key(pin.version, NamingScheme.V2)
    first = NamingScheme.V2 if pin.manifest == v2 else NamingScheme.V1
    try:
        return load_manifest(location.store, pin.version, first), first
    except NotFoundError:
        if is_detached(pin.version):
            raise
        other = NamingScheme.V1 if first is NamingScheme.V2 else NamingScheme.V2
        return load_manifest(location.store, pin.version, other), other


def _landed_twin(location: Location, pin: Pin) -> Snapshot | None:
    """The ordinary version that a state landed as; None unless it has exactly the same rows."""
    from lancewood.engine.snapshot import Snapshot
    from lancewood.engine.staging import find_landing
    from lancewood.engine.versions import load_manifest
    from lancewood.format.manifest import content_digest

    if pin.landing is None:
        return None
    try:
        state = find_landing(location, pin.landing)
        if not state.is_landed:
            return None
        version = state.versions[-1]
        for scheme in NamingScheme:
            try:
                manifest = load_manifest(location.store, version, scheme)
            except NotFoundError:
                continue
            is_same = content_digest(manifest.message) == pin.content
            return Snapshot(location, manifest, scheme) if is_same else None
    except LancewoodError:
        return None
    return None


def _named(location: Location, pin: Pin) -> str:
    return f"{version_words(pin.version)} of {called(pin.branch)} of {location.uri}"


def column_types(schema: Schema) -> tuple[tuple[str, str], ...]:
    """Each column and its type, as in ``("id", "int64 not null")``."""
    return tuple((each.name, _type_of(each)) for each in schema.fields)


def _type_of(field: Field) -> str:
    text = _storage(field)
    extension = field.metadata.get(_EXTENSION)
    if extension:
        text = f"{extension.decode(errors='replace')}<{text}>"
    return text if field.nullable else f"{text} not null"


def _storage(field: Field) -> str:
    if not field.children:
        return field.logical_type
    if field.logical_type == "struct":
        inner = ", ".join(f"{each.name}: {_type_of(each)}" for each in field.children)
    else:
        inner = ", ".join(_type_of(each) for each in field.children)
    return f"{field.logical_type.removesuffix('.struct')}<{inner}>"
