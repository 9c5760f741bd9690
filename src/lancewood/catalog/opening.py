"""From a version to its pin, and from a pin back to exactly the version that was pinned.

What is found at the place of a pin is checked against it. The schema in a pin is text for people:
readers take the schema from the manifest. The text depends on the manifest alone, never on which
Arrow extensions a process has loaded, so the same version has the same pin everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping

from lancewood.catalog.locations import location_of, main_location_of
from lancewood.catalog.pin import Pin
from lancewood.engine.location import Location
from lancewood.engine.snapshot import Snapshot
from lancewood.engine.staging import find_landing
from lancewood.engine.upkeep import check_not_being_removed
from lancewood.engine.versions import load_manifest
from lancewood.errors import IntegrityError, LancewoodError, NotFoundError
from lancewood.format.layout import NamingScheme, manifest_key
from lancewood.format.manifest_digest import content_digest, manifest_digest
from lancewood.git.names import RepositoryRoot
from lancewood.model.ids import Version, is_detached
from lancewood.model.landing import Landing
from lancewood.model.manifest import Manifest
from lancewood.model.refs import BranchName, called
from lancewood.model.schema import Field, Schema
from lancewood.store.base import Store

_EXTENSION = "ARROW:extension:name"
_CONTENT = "content digest"


def pin_of(snapshot: Snapshot, uri: str, landing: Landing | None = None) -> Pin:
    """The pin of a version; ``uri`` comes from ``places.pinned_uri``.

    ``landing`` is given for the last state of a transaction only. Raises InvalidInputError for what
    cannot be pinned.
    """
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
    found = snapshot.derived.get(_CONTENT)
    if found is None:
        found = snapshot.derived[_CONTENT] = content_digest(snapshot.manifest.message)
    return str(found)


def open_pin(
    pin: Pin,
    repository: RepositoryRoot,
    *,
    storage_options: Mapping[str, str] | None = None,
    fsync: bool | None = None,
    stores: dict[str, Store] | None = None,
) -> Snapshot:
    """The version that is pinned, at the place where the table is now.

    If the manifest of a staged state is gone, the version that it landed as is opened instead,
    provided that it has the same rows. Raises NotFoundError if the version is gone, IntegrityError
    if it is not what was pinned.
    """
    location = location_of(
        pin, repository, storage_options=storage_options, fsync=fsync, stores=stores
    )
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


def check_kept(
    pin: Pin,
    repository: RepositoryRoot,
    *,
    storage_options: Mapping[str, str] | None = None,
    fsync: bool | None = None,
) -> None:
    """Raise RetryableConflictError if a cleanup is removing the version, NotFoundError if one did.

    Call this after a ref has moved to a commit that pins an ordinary version other than the newest:
    a cleanup that began earlier may not have seen the commit, a later one does.
    """
    if is_detached(pin.version):
        return
    main = main_location_of(pin, repository, storage_options=storage_options, fsync=fsync)
    check_not_being_removed(main.store, pin.branch, pin.version)
    open_pin(pin, repository, storage_options=storage_options, fsync=fsync)


def _load(location: Location, pin: Pin) -> tuple[Manifest, NamingScheme]:
    """The manifest and its naming scheme, which may have been migrated since it was pinned."""
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
    kind = "detached version" if is_detached(pin.version) else "version"
    return f"{kind} {Version(pin.version)} of {called(pin.branch)} of {location.uri}"


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
