"""How a manifest becomes visible, the last step of a commit; and how hard a commit tries.

A publisher says which version number comes next and puts the manifest there, or says that another
writer was first; an unclear answer is settled by reading back. A table whose configuration names a
kind of manifest store is only committed to through one of that kind; addresses are not compared.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from lancewood.engine.location import Location
from lancewood.errors import UnsupportedError
from lancewood.external.store import ExternalStore
from lancewood.format.layout import (
    TRANSACTIONS_DIR,
    NamingScheme,
    detached_version,
    manifest_key,
)
from lancewood.model.ids import Version, is_detached
from lancewood.model.manifest import ManifestHead
from lancewood.model.table_config import MANIFEST_STORE_KEY, AppliedBatch, manifest_store_of
from lancewood.store.base import PutOutcome, Store
from lancewood.store.probe import check_put_if_absent
from lancewood.store.readback import put_new_settled
from lancewood.store.retry import COMMITS, Retry


class Publisher(Protocol):
    """Makes manifests visible."""

    @property
    def follows_newest(self) -> bool:
        """Whether what it publishes comes after the newest version, and must be judged against
        it."""
        ...

    def check_trust(self, store: Store) -> None:
        """Raise UnsupportedError if nothing can be published there safely.

        Asked before anything is written for a commit; asking again costs nothing.
        """
        ...

    def next_version(self, newest: Version) -> Version:
        """The number that the next manifest gets."""
        ...

    def publish(
        self, store: Store, version: Version, scheme: NamingScheme, data: bytes
    ) -> PutOutcome:
        """CREATED, or EXISTS if another manifest has that number.

        Raises CommitUnknownError if the store never said which; nothing is deleted then.
        """
        ...


class PutIfAbsent:
    """The ordinary way: the store itself refuses to create the same name twice."""

    follows_newest = True

    def check_trust(self, store: Store) -> None:
        # What a crash leaves behind here looks like an unused transaction, and is cleaned up like
        # one.
        check_put_if_absent(store, TRANSACTIONS_DIR)

    def next_version(self, newest: Version) -> Version:
        if is_detached(Version(newest + 1)):
            raise UnsupportedError(f"no version can follow {newest}: the numbers are used up")
        return Version(newest + 1)

    def publish(
        self, store: Store, version: Version, scheme: NamingScheme, data: bytes
    ) -> PutOutcome:
        return put_new_settled(store, manifest_key(version, scheme), data)


class Detached(PutIfAbsent):
    """A version beside the history, opened by number only; it never becomes the newest."""

    follows_newest = False

    def next_version(self, newest: Version) -> Version:
        return detached_version()


@dataclass(frozen=True, slots=True)
class CommitPolicy:
    """How hard a commit tries, and by which clock."""

    retry: Retry = COMMITS
    serializable: bool = False
    """Refuse if the table changed at all since the transaction's read version."""
    may_be_closed: bool = False
    """Allow writing to a published branch: for publishing and reopening it."""
    applied: AppliedBatch | None = None
    """Refuse if the table holds this batch or a later one, and record it with the rows."""
    publisher: Publisher = field(default_factory=PutIfAbsent)
    clock: Callable[[], int] = time.time_ns


def manifest_store_mark(store: Store) -> dict[str, str]:
    """What the configuration of a new table says about the store that it is committed through."""
    return {MANIFEST_STORE_KEY: store.kind} if isinstance(store, ExternalStore) else {}


def check_manifest_store(location: Location, head: ManifestHead) -> None:
    """Raise UnsupportedError, before any work is done, if a commit would bypass the manifest store
    of a table."""
    wanted = manifest_store_of(head)
    found = manifest_store_mark(location.store).get(MANIFEST_STORE_KEY)
    if wanted is None or wanted == found:
        return
    opened = "without one" if found is None else f"with one of kind {found!r}"
    raise UnsupportedError(
        f"{location.uri} is committed to through a manifest store of kind {wanted!r}, and was "
        f"opened {opened}: a commit from here could be lost, or lose another. Open it with that "
        "manifest_store. If this is a copy that nobody else writes to, "
        f"set_config({{{MANIFEST_STORE_KEY!r}: None}}) frees it",
        manifest_store=wanted,
    )
