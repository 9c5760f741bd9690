"""Which versions a table has, and reading one: found by listing names, never by opening manifests.

The hint file is not consulted: it may be behind or ahead, and one list call is right. On stores
that list in order the newest V2 name comes first, so one page of the listing is enough.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from lancewood.engine.limits import check_number
from lancewood.errors import FormatError, InvalidInputError, LancewoodError, NotFoundError
from lancewood.format.layout import (
    VERSIONS_DIR,
    NamingScheme,
    manifest_key,
    manifest_name,
    parse_manifest_name,
)
from lancewood.format.manifest_file import decode_manifest_file
from lancewood.model.ids import MAX_U64, Version, is_detached
from lancewood.model.manifest import Manifest
from lancewood.rules.features import check_readable
from lancewood.store.base import Store

_SUFFIX = ".manifest"
_SUFFIX_LENGTH = len(_SUFFIX)
_V2_LENGTH = 29


@dataclass(frozen=True, slots=True)
class VersionList:
    """The versions that a listing found, newest first."""

    scheme: NamingScheme
    versions: tuple[Version, ...]
    listed: int
    """How many names the listing went through."""

    @property
    def newest(self) -> Version | None:
        return self.versions[0] if self.versions else None


def list_versions(store: Store) -> VersionList:
    """All versions; an empty list where there is no table.

    Raises FormatError for a mixture of naming schemes.
    """
    return _parsed(store, _manifest_names(store, None))


def versions_since(store: Store, version: Version, scheme: NamingScheme) -> VersionList:
    """The versions after the one that a commit builds on, newest first.

    Raises NotFoundError if neither it nor a newer one is there: the table was dropped meanwhile.
    """
    names = _manifest_names(store, version)
    own = manifest_name(version, scheme)
    if scheme is NamingScheme.V2 and set(map(len, names)) <= {_V2_LENGTH}:
        newer = _parsed(store, [each for each in names if each < own])
    else:
        newer = _parsed(store, names)
    found = tuple(each for each in newer.versions if each > version)
    if version and not found and own not in names:
        raise NotFoundError(
            f"version {version} of {store.uri} is gone, and no newer one is there: the table was "
            "dropped or replaced; open it anew",
            version=version,
        )
    return VersionList(scheme, found, len(names))


def _parsed(store: Store, names: list[str]) -> VersionList:
    parsed = [each for each in map(parse_manifest_name, names) if each and not each.detached]
    schemes = {each.scheme for each in parsed}
    if len(schemes) > 1:
        raise FormatError(
            f"{store.uri}/{VERSIONS_DIR} mixes V1 and V2 manifest names "
            f"(for example {min(names, key=len)} and {max(names, key=len)}); "
            "one of the schemes must go"
        )
    scheme = schemes.pop() if schemes else NamingScheme.V2
    versions = tuple(sorted({each.version for each in parsed}, reverse=True))
    return VersionList(scheme, versions, len(names))


def newest_version(store: Store) -> tuple[Version, NamingScheme] | None:
    """The newest version and the naming scheme; None where there is no table."""
    first_name = _first_v2_name(store) if store.lists_in_order else None
    names = [first_name] if first_name else _manifest_names(store, None)
    if names and set(map(len, names)) == {_V2_LENGTH}:
        first = parse_manifest_name(min(names))
        if first is not None and not first.detached:
            return first.version, first.scheme
    found = list_versions(store)
    return None if found.newest is None else (found.newest, found.scheme)


def _manifest_names(store: Store, after: Version | None) -> list[str]:
    """The names in the directory that may be manifests: one pass, nothing parsed.

    Written for directories of 100,000 names. An ordered listing is left at the first V2 name
    that is not wanted any more.
    """
    names = store.names(VERSIONS_DIR)
    if store.lists_in_order and after is not None:
        names = _until(names, manifest_name(after, NamingScheme.V2))
    return [each for each in names if each.endswith(_SUFFIX)]


def _first_v2_name(store: Store) -> str | None:
    """The first V2 name of an ordered listing, if no V1 name comes before it."""
    for name in store.names(VERSIONS_DIR):
        parsed = parse_manifest_name(name)
        if parsed is not None:
            is_v2 = parsed.scheme is NamingScheme.V2 and not parsed.detached
            return name if is_v2 else None
    return None


def _until(names: Iterator[str], bound: str) -> Iterator[str]:
    for name in names:
        yield name
        if name >= bound and len(name) == _V2_LENGTH and name[:-_SUFFIX_LENGTH].isdigit():
            return


def load_manifest(store: Store, version: Version, scheme: NamingScheme) -> Manifest:
    """One version; raises NotFoundError, FormatError or UnsupportedError."""
    key = manifest_key(version, scheme)
    name = f"{store.uri}/{key}"
    manifest = decode_manifest_file(store.get(key), name=name)
    if manifest.version != version:
        raise FormatError(
            f"{name}: the file is named for version {version}, but says it is {manifest.version}",
            file=name,
        )
    check_readable(manifest)
    return manifest


def load_version(store: Store, version: int | None = None) -> tuple[Manifest, NamingScheme]:
    """The given version, or the newest; raises NotFoundError saying what there is instead."""
    if version is None:
        wanted, scheme = require_newest(store)
        return _load_or_point_down(store, wanted, scheme), scheme
    number = Version(check_number("version", version, least=1))
    if number > MAX_U64:
        raise InvalidInputError(f"version {number} cannot exist: it has more than 64 bits")
    try:
        return load_manifest(store, number, NamingScheme.V2), NamingScheme.V2
    except NotFoundError:
        return _load_by_listing(store, number)


def require_newest(store: Store) -> tuple[Version, NamingScheme]:
    """The newest version and the naming scheme; raises NotFoundError where there is no table."""
    newest = newest_version(store)
    if newest is None:
        raise _no_table(store)
    return newest


def _no_table(store: Store) -> NotFoundError:
    return NotFoundError(f"no table at {store.uri}: it has no {VERSIONS_DIR} with a manifest")


def _load_by_listing(store: Store, version: Version) -> tuple[Manifest, NamingScheme]:
    newest, scheme = require_newest(store)
    try:
        return load_manifest(store, version, scheme), scheme
    except NotFoundError:
        kind = "detached version" if is_detached(version) else "version"
        raise NotFoundError(
            f"{kind} {version} of {store.uri} not found: the newest is {newest}",
            version=version,
            newest=newest,
        ) from None


def _load_or_point_down(store: Store, version: Version, scheme: NamingScheme) -> Manifest:
    """A version; if it is damaged, the error names the newest readable one below it."""
    try:
        return load_manifest(store, version, scheme)
    except FormatError as damage:
        readable = _newest_readable(store, version)
        if readable is None:
            raise
        raise type(damage)(
            f"version {version} of {store.uri} is damaged: {damage}. "
            f"The newest readable version is {readable}: open it with version={readable}",
            version=version,
            newest_readable=readable,
        ) from damage


def _newest_readable(store: Store, below: Version) -> Version | None:
    found = list_versions(store)
    for version in found.versions:
        if version >= below:
            continue
        try:
            load_manifest(store, version, found.scheme)
        except LancewoodError:
            continue
        return version
    return None


def load_as_of(store: Store, moment: datetime) -> tuple[Manifest, NamingScheme]:
    """The highest version whose timestamp is not later than ``moment``.

    Timestamps need not rise with version numbers, so the search goes down from the newest.
    """
    if not isinstance(moment, datetime):
        raise InvalidInputError(f"as_of takes a datetime, {moment!r} was given")
    if moment.tzinfo is None:
        moment = moment.astimezone(UTC)
    limit = int(moment.timestamp()) * 1_000_000_000 + moment.microsecond * 1_000
    found = list_versions(store)
    if not found.versions:
        raise _no_table(store)
    oldest = None
    for version in found.versions:
        try:
            manifest = _load_or_point_down(store, version, found.scheme)
        except NotFoundError:
            continue  # cleaned up since the listing
        if manifest.timestamp_ns // 1_000 * 1_000 <= limit:
            return manifest, found.scheme
        oldest = manifest
    first = oldest.timestamp.isoformat() if oldest else "?"
    raise NotFoundError(
        f"no version of {store.uri} is as old as {moment.isoformat()}: the oldest is of {first}",
        as_of=moment.isoformat(),
    )
