"""States that no commit leads to: what transactions left that did not come to their commit.

A state is a detached manifest whose transaction says that it was staged, and the file of that
transaction. Other detached versions are never touched, nor are data files: once no manifest names
those, the cleanup of the table takes them.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from datetime import datetime

from lancewood.engine.transactions import load_transaction, load_transaction_of
from lancewood.engine.versions import versions_since
from lancewood.errors import FormatError, NotFoundError, UnsupportedError
from lancewood.format.layout import (
    VERSIONS_DIR,
    parse_manifest_name,
    transaction_key,
    transaction_parts,
)
from lancewood.format.manifest_file import decode_manifest_file
from lancewood.model.ids import Version
from lancewood.model.manifest import Manifest
from lancewood.model.transaction import STAGED_PROPERTY
from lancewood.store.base import Store

_MOST_READ = 1000
"""Versions whose transactions are read to see whether an orphan's landed; if there are more, its
transaction file is left to the cleanup of the table."""


@dataclass(frozen=True, slots=True)
class Orphan:
    """A detached manifest that no commit pins."""

    version: Version
    key: str
    size: int
    transaction: str | None
    """The name of the file of its transaction."""


@dataclass(frozen=True, slots=True)
class Orphans:
    """What was found in one root."""

    orphans: tuple[Orphan, ...]
    young: int
    """How many more there would be if they were older."""
    unreadable: tuple[str, ...] = ()
    """Manifests that cannot be read, and stay."""


def find_orphans(store: Store, is_needed: Callable[[Version], bool], stale: datetime) -> Orphans:
    """The states in a root that nobody needs, and that were written before ``stale``."""
    found, young, unreadable = [], 0, []
    for each in [*store.list(VERSIONS_DIR)]:
        name = parse_manifest_name(each.key.removeprefix(f"{VERSIONS_DIR}/"))
        if name is None or not name.detached or is_needed(name.version):
            continue
        if each.modified > stale:
            young += 1
            continue
        try:
            manifest = decode_manifest_file(store.get(each.key), name=f"{store.uri}/{each.key}")
        except NotFoundError:
            continue
        except (FormatError, UnsupportedError) as damage:
            unreadable.append(damage.message)
            continue
        if _is_staged(store, manifest):
            found.append(Orphan(name.version, each.key, each.size, manifest.transaction_file))
    return Orphans(tuple(found), young, tuple(unreadable))


def remove_orphans(store: Store, orphans: Sequence[Orphan], needed: Container[str]) -> int:
    """Remove states, the manifests first; how many transaction files went with them.

    ``needed`` are the identities of steps that commits lead to.
    """
    store.delete([each.key for each in orphans])
    files = unneeded_transactions(store, orphans, needed)
    store.delete([transaction_key(each) for each in files])
    return len(files)


def unneeded_transactions(
    store: Store, orphans: Sequence[Orphan], needed: Container[str]
) -> list[str]:
    """The transaction files of states that no version of the history names as well: a state may
    have landed long ago, under the same identity, and lost its commit since."""
    names = {each.transaction for each in orphans if each.transaction is not None}
    told = {name: found for name in names if (found := transaction_parts(name)) is not None}
    parts = {name: found for name, found in told.items() if found[1] not in needed}
    if not parts:
        return []
    first = min(read for read, _ in parts.values())
    try:
        listed = versions_since(store, first)
    except NotFoundError:
        return []
    if len(listed.versions) > _MOST_READ:
        return []
    landed = {load_transaction_of(store, each, listed.scheme).uuid for each in listed.versions}
    if "" in landed:  # one that cannot be read: it may be any of them
        return []
    return sorted(name for name, (_, uuid) in parts.items() if uuid not in landed)


def is_staged_only(store: Store) -> bool:
    """Whether every manifest in a root is one that a transaction staged."""
    for each in [*store.list(VERSIONS_DIR)]:
        name = parse_manifest_name(each.key.removeprefix(f"{VERSIONS_DIR}/"))
        if name is None:
            continue
        if not name.detached:
            return False
        try:
            manifest = decode_manifest_file(store.get(each.key), name=f"{store.uri}/{each.key}")
        except (FormatError, UnsupportedError, NotFoundError):
            return False
        if not _is_staged(store, manifest):
            return False
    return True


def _is_staged(store: Store, manifest: Manifest) -> bool:
    return STAGED_PROPERTY in load_transaction(store, manifest).properties
