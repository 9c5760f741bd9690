"""The history of a branch: the transaction behind each version, and a summary of each version.

A transaction is inside its version's manifest, or else in a separate file. A missing or unreadable
one is a value here (``MissingTransaction``), because the rules decide what follows from it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from lancewood.engine.base import check_number
from lancewood.engine.versions.finding import list_versions, load_manifest
from lancewood.errors import FormatError, NotFoundError, UnsupportedError
from lancewood.format.layout import NamingScheme, manifest_key, transaction_key
from lancewood.format.manifest import SECTION_HEAD, section_length
from lancewood.format.transaction import decode_transaction
from lancewood.model.ids import Version
from lancewood.model.manifest import Manifest, ManifestHead
from lancewood.model.transaction import (
    MissingTransaction,
    Transaction,
    UnknownOperation,
    operation_name,
)
from lancewood.store.base import Store

_FIRST_READ = 16 * 1024
_UUID_LENGTH = 36
_INDEX_SECTION = b"\x0a"
_TRANSACTION = (b"\x08", b"\x12")
"""The first byte of an index section (field 1, a message) and of a transaction (field 1, a number,
or field 2, a string)."""


def load_transaction(store: Store, head: ManifestHead) -> Transaction:
    """The transaction that made this version."""
    try:
        if head.transaction_section is not None:
            return decode_transaction(head.transaction_section, name=head.name)
        if head.transaction_file is not None:
            key = transaction_key(head.transaction_file)
            return decode_transaction(store.get(key), name=f"{store.uri}/{key}")
    except NotFoundError:
        return missing_transaction(head.version, f"{head.transaction_file} does not exist")
    except FormatError as damage:
        return missing_transaction(head.version, str(damage))
    return missing_transaction(head.version, f"{head.name} names none")


def load_transaction_of(store: Store, version: Version, scheme: NamingScheme) -> Transaction:
    """The transaction of a version, read without its manifest where possible.

    Writers put the sections of a manifest file in front of the manifest itself, the transaction
    first or right after the indices. So the head of the file is enough, however many fragments the
    version has; any other layout is read as a whole.
    """
    key = manifest_key(version, scheme)
    try:
        with contextlib.suppress(FormatError):
            section = _section_in_front(store, key)
            if section is not None:
                found = decode_transaction(section, name=f"{store.uri}/{key}")
                if len(found.uuid) == _UUID_LENGTH and found.read_version <= version:
                    return found
        return load_transaction(store, load_manifest(store, version, scheme))
    except NotFoundError:
        return missing_transaction(version, f"version {version} was cleaned up")
    except (FormatError, UnsupportedError) as damage:
        return missing_transaction(version, str(damage))


def is_replaced(store: Store, head: ManifestHead, scheme: NamingScheme) -> bool:
    """Whether another version took the number of one that was read: a table that was dropped and
    created again has the same names with other rows. A version that is gone is not replaced."""
    now = load_transaction_of(store, head.version, scheme)
    then = load_transaction(store, head)
    return bool(now.uuid and then.uuid) and now.uuid != then.uuid


def _section_in_front(store: Store, key: str) -> bytes | None:
    """The bytes of the transaction section; None where it is not among the first two."""
    offset = 0
    for _ in range(2):
        head = store.get_range(key, offset, _FIRST_READ)
        length = section_length(head)
        if length is None:
            return None
        start = offset + SECTION_HEAD
        first = head[SECTION_HEAD : SECTION_HEAD + 1]
        if first in _TRANSACTION:
            whole = head[SECTION_HEAD : SECTION_HEAD + length]
            return whole if len(whole) == length else store.get_range(key, start, length)
        if first != _INDEX_SECTION:
            return None
        offset = start + length
    return None


def missing_transaction(version: Version, why: str) -> Transaction:
    """The placeholder for a transaction that is not available."""
    return Transaction(version, "", (MissingTransaction(why),))


@dataclass(frozen=True)
class VersionInfo:
    """What is known of one version without opening a data file."""

    version: Version
    timestamp: datetime | None
    """The commit time (UTC); None for a damaged version."""
    operation: str | None = None
    """Append, Delete, …; None where the version has no transaction that we can read."""
    rows: int | None = None
    """Live rows; None where a writer did not record them."""
    message: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    damage: str | None = None
    """What is wrong with a version that cannot be read; None for all others."""


def iterate_versions(store: Store, limit: int | None = None) -> Iterator[VersionInfo]:
    """The versions, newest first; skips one that is cleaned up meanwhile."""
    return _iterate(store, None if limit is None else check_number("limit", limit))


def _iterate(store: Store, limit: int | None) -> Iterator[VersionInfo]:
    found = list_versions(store)
    yield from iterate_infos(store, found.versions[:limit], found.scheme)


def iterate_infos(
    store: Store, versions: Sequence[Version], scheme: NamingScheme
) -> Iterator[VersionInfo]:
    """What is known of these versions, in their order; skips one that is gone."""
    for version in versions:
        try:
            manifest = load_manifest(store, version, scheme)
            yield _info(store, manifest)
        except NotFoundError:
            continue
        except (FormatError, UnsupportedError) as damage:
            yield VersionInfo(version, None, damage=str(damage))


def _info(store: Store, manifest: Manifest) -> VersionInfo:
    transaction = load_transaction(store, manifest)
    operation = transaction.operation
    known = not isinstance(operation, MissingTransaction | UnknownOperation)
    return VersionInfo(
        manifest.version,
        manifest.timestamp,
        operation_name(operation) if known else None,
        manifest.row_count,
        transaction.message,
        transaction.user_properties,
    )
