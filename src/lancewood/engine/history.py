"""The versions of a table as people read them: newest first, each opened when it is reached."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from lancewood.engine.limits import check_number
from lancewood.engine.transactions import load_transaction
from lancewood.engine.versions import list_versions, load_manifest
from lancewood.errors import FormatError, NotFoundError, UnsupportedError
from lancewood.format.layout import NamingScheme
from lancewood.model.ids import Version
from lancewood.model.manifest import Manifest
from lancewood.model.operations import MissingTransaction, UnknownOperation, operation_name
from lancewood.store.base import Store


@dataclass(frozen=True)
class VersionInfo:
    """What is known of one version without opening a data file."""

    version: Version
    timestamp: datetime | None
    """When it was committed (UTC); None for a damaged version."""
    operation: str | None = None
    """Append, Delete, …; None where the version has no transaction that we can read."""
    rows: int | None = None
    """Live rows; None where a writer did not record them."""
    message: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    damage: str | None = None
    """What is wrong with a version that cannot be read; None for all others."""


def iterate_versions(store: Store, limit: int | None = None) -> Iterator[VersionInfo]:
    """The versions, newest first; one that is cleaned up meanwhile is passed over."""
    return _iterate(store, None if limit is None else check_number("limit", limit))


def _iterate(store: Store, limit: int | None) -> Iterator[VersionInfo]:
    found = list_versions(store)
    yield from iterate_infos(store, found.versions[:limit], found.scheme)


def iterate_infos(
    store: Store, versions: Sequence[Version], scheme: NamingScheme
) -> Iterator[VersionInfo]:
    """What is known of these versions, in their order; one that is gone is passed over."""
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
