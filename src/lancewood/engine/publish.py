"""How a manifest becomes visible: the last step of a commit.

One door with several handles. Each says which version number comes next and puts the manifest
there, or says that somebody else was first; an unclear answer is settled by reading back.
"""

from __future__ import annotations

from typing import Protocol

from lancewood.errors import UnsupportedError
from lancewood.format.layout import (
    TRANSACTIONS_DIR,
    NamingScheme,
    detached_version,
    manifest_key,
)
from lancewood.model.ids import Version, is_detached
from lancewood.store.base import PutOutcome, Store
from lancewood.store.probe import check_put_if_absent
from lancewood.store.readback import put_new_settled


class Publisher(Protocol):
    """Makes manifests visible."""

    @property
    def follows_newest(self) -> bool:
        """Whether what it publishes comes after the newest version, and must be judged by it."""
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
        # What is left behind if we die here looks like a transaction that nobody names, and is
        # cleaned up like one.
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
