"""Which versions a table has, and reading one: found by listing names, never by opening manifests.

The hint file is written for other readers and never read here: it may be behind or ahead, and one
list call is right. On stores that list in order the newest V2 name comes first, so one page of the
listing is enough.

A commit lists the versions before every attempt. In a directory of 100,000 names that is most of
its cost, so a ``Sighting`` keeps the directory's modification stamp with the newest version: the
stamp from right after publishing, or from before the listing. While the stamp is unchanged, no name
was created or removed, and a listing would find nothing new. Stamps are some milliseconds coarse,
so the next few numbers are looked up too: only several commits and their cleanup within one tick of
the clock could be missed.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from lancewood.engine.base import check_number
from lancewood.errors import (
    FormatError,
    InvalidInputError,
    LancewoodError,
    NotFoundError,
    StorageError,
)
from lancewood.format.layout import (
    HINT_KEY,
    VERSIONS_DIR,
    NamingScheme,
    manifest_key,
    manifest_name,
    parse_manifest_name,
)
from lancewood.format.manifest import decode_manifest_file
from lancewood.model.ids import MAX_U64, Version, is_detached
from lancewood.model.manifest import Manifest
from lancewood.rules.features import check_readable
from lancewood.store.base import Store

WORTH_IT = 2_000
"""Directories with fewer names are simply listed."""
_LOOKED_UP = 3


@dataclass(frozen=True, slots=True)
class Sighting:
    """The directory's modification stamp when a version was its newest."""

    version: Version
    stamp: object


def take_sighting(store: Store, version: Version) -> Sighting | None:
    """A sighting of the version that was just published; None where stamps are not available."""
    with contextlib.suppress(StorageError):
        stamp = store.stamp(VERSIONS_DIR)
        if stamp is not None:
            return Sighting(version, stamp)
    return None


def is_still_newest(store: Store, sighting: Sighting, scheme: NamingScheme) -> bool:
    """Whether nothing was published or cleaned up since; False also means unknown."""
    if store.stamp(VERSIONS_DIR) != sighting.stamp:
        return False
    for step in range(1, _LOOKED_UP + 1):
        with contextlib.suppress(NotFoundError):
            store.head(manifest_key(Version(sighting.version + step), scheme))
            return False
    return True


def leave_hint(store: Store, version: Version) -> None:
    """Write the hint where it can help, best effort.

    It helps where a listing is costly: pylance reads none on a disk, nor where the first page of an
    ordered listing is enough.
    """
    if "://" not in store.uri or store.lists_in_order:
        return
    with contextlib.suppress(StorageError):
        store.put(HINT_KEY, json.dumps({"version": version}, separators=(",", ":")).encode())


_V2_LENGTH = 29
_DETACHED = "d"
"""The prefix of the names of detached versions, and of no others."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


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
    return _parsed(store, list(store.names(VERSIONS_DIR)))


def versions_since(
    store: Store, version: Version, scheme: NamingScheme | None = None
) -> VersionList:
    """The versions after the one that a commit builds on, newest first.

    Without a ``scheme`` it is detected. Raises NotFoundError if neither that version nor a newer
    one is there: the table was dropped meanwhile. An ordered listing stops where the older versions
    begin.
    """
    own = manifest_name(version, scheme or NamingScheme.V2)
    names = store.names(VERSIONS_DIR)
    is_v1 = scheme is NamingScheme.V1
    if store.lists_in_order and not is_v1:
        names = _until(names, own)
    listed = list(names)
    found = _parsed(store, listed if is_v1 else _suspects(listed, before=own))
    if scheme is None:
        scheme = found.scheme
        own = manifest_name(version, scheme)
    newer = tuple(each for each in found.versions if each > version)
    if version and not newer and own not in listed:
        raise NotFoundError(
            f"version {version} of {store.uri} is gone, and no newer one is there: the table was "
            "dropped or replaced; open it anew",
            version=version,
        )
    return VersionList(scheme, newer, len(listed))


class Newest(NamedTuple):
    """The newest version of a table, and how many names the listing that found it had."""

    version: Version
    scheme: NamingScheme
    listed: int


def newest_version(store: Store) -> Newest | None:
    """The newest version and the naming scheme; None where there is no table."""
    return newest_of(store, names_to_newest(store))


def names_to_newest(store: Store) -> list[str]:
    """The names of manifests, as far as a listing has to go to reach the newest version."""
    names = store.names(VERSIONS_DIR)
    return list(_until(names, "") if store.lists_in_order else names)


def newest_of(store: Store, listed: list[str]) -> Newest | None:
    """The newest version in a listing from ``names_to_newest``."""
    if not _odd(listed):
        first = parse_manifest_name(min(listed, default=""))
        if first is not None and not first.detached:
            return Newest(first.version, first.scheme, len(listed))
    found = _parsed(store, _suspects(listed, before=None))
    if found.newest is None:
        found = _parsed(store, listed)
    return None if found.newest is None else Newest(found.newest, found.scheme, len(listed))


def _suspects(names: list[str], before: str | None) -> list[str]:
    """The names that decide which version is the newest; nothing else of 100,000 is parsed.

    These are the first of the names that look like V2 (or all before a given one), and all that
    look like anything else. Detached versions, of which there may be as many, are left out.
    """
    odd = _odd(names)
    alike = [each for each in names if len(each) == _V2_LENGTH] if odd else names
    if before is None:
        first = min(alike, default="")
        if first and not _is_v2(first):  # another name of that length must not hide the newest
            first = min(filter(_is_v2, alike), default="")
        return [*odd, first] if first else odd
    return [*odd, *(each for each in alike if each < before)]


def _odd(names: list[str]) -> list[str]:
    """The names that look neither like V2 nor like detached versions."""
    return [each for each in names if len(each) != _V2_LENGTH and each[0] != _DETACHED]


def _until(names: Iterator[str], bound: str) -> Iterator[str]:
    """An ordered listing up to the first V2 name that is not before the bound."""
    for name in names:
        yield name
        if name >= bound and _is_v2(name):
            return


def _is_v2(name: str) -> bool:
    found = parse_manifest_name(name) if len(name) == _V2_LENGTH else None
    return found is not None and not found.detached


def _parsed(store: Store, names: list[str]) -> VersionList:
    parsed = {name: found for name in names if (found := parse_manifest_name(name))}
    attached = {name: found for name, found in parsed.items() if not found.detached}
    schemes = {each.scheme for each in attached.values()}
    if len(schemes) > 1:
        raise FormatError(
            f"{store.uri}/{VERSIONS_DIR} mixes V1 and V2 manifest names "
            f"(for example {min(attached, key=len)} and {max(attached, key=len)}); "
            "`lw table migrate-names` renames the V1 ones, also after a migration that was cut off"
        )
    scheme = schemes.pop() if schemes else NamingScheme.V2
    versions = sorted({each.version for each in attached.values()}, reverse=True)
    return VersionList(scheme, tuple(versions), len(names))


def load_manifest(store: Store, version: Version, scheme: NamingScheme) -> Manifest:
    """Load one version; raises NotFoundError, FormatError or UnsupportedError."""
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
    """Load the given version, or the newest; raises NotFoundError naming what there is instead."""
    if version is None:
        stamp = store.stamp(VERSIONS_DIR)
        newest = require_newest(store)
        manifest = _load_or_point_down(store, newest.version, newest.scheme)
        if stamp is not None and newest.listed >= WORTH_IT:
            manifest.sighting = Sighting(newest.version, stamp)
        return manifest, newest.scheme
    number = Version(check_number("version", version, least=1))
    if number > MAX_U64:
        raise InvalidInputError(f"version {number} cannot exist: it has more than 64 bits")
    try:
        return load_manifest(store, number, NamingScheme.V2), NamingScheme.V2
    except NotFoundError:
        return _load_by_listing(store, number)


def require_newest(store: Store) -> Newest:
    """The newest version and the naming scheme; raises NotFoundError where there is no table."""
    newest = newest_version(store)
    if newest is None:
        raise no_table(store)
    return newest


def no_table(store: Store) -> NotFoundError:
    """The error for a root without a version."""
    return NotFoundError(
        f"no table at {store.uri}: it has no {VERSIONS_DIR} with a manifest", table=store.uri
    )


def _load_by_listing(store: Store, version: Version) -> tuple[Manifest, NamingScheme]:
    newest, scheme, _ = require_newest(store)
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
    """Load a version; if it is damaged, the error names the newest readable one below it."""
    try:
        return load_manifest(store, version, scheme)
    except FormatError as damage:
        readable = _newest_readable(store, version)
        if readable is None:
            raise
        raise type(damage)(
            f"version {version} of {store.uri} is damaged: {damage}. "
            f"The newest readable version is {readable}: open it with version={readable}, or let "
            "repair set the damaged one aside",
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


def _moment(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text.strip())
    except ValueError:
        raise InvalidInputError(
            f"as_of {text!r} is not a time: write it as '2026-05-04' or '2026-05-04T12:30:00Z'"
        ) from None


def load_as_of(store: Store, moment: datetime | str) -> tuple[Manifest, NamingScheme]:
    """Load the highest version whose timestamp is not later than ``moment``, which may be a text in
    ISO 8601; a date alone means its first moment, and without a zone it is local time.

    Timestamps need not rise with version numbers, so the search goes down from the newest.
    """
    if isinstance(moment, str):
        moment = _moment(moment)
    if not isinstance(moment, datetime):
        raise InvalidInputError(
            f"as_of takes a datetime, or a text such as '2026-05-04', {moment!r} was given"
        )
    try:
        limit = int((moment.astimezone(UTC) - _EPOCH) / timedelta(microseconds=1)) * 1_000
    except (OverflowError, ValueError) as cause:
        raise InvalidInputError(f"as_of {moment!r} is out of range: {cause}") from cause
    found = list_versions(store)
    if not found.versions:
        raise no_table(store)
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
