"""One version of one table, found once and kept: it travels to the processes of Spark by pickle.

Spark makes a source in one process and plans its reads in another, perhaps much later. Whatever
was committed meanwhile, the version is the one that was found first. Holds no fragments.
"""

from __future__ import annotations

from dataclasses import dataclass

from lancewood.engine.place import Place
from lancewood.engine.snapshot import Snapshot
from lancewood.engine.versions import load_manifest
from lancewood.errors import NotFoundError, RetryableConflictError
from lancewood.format.layout import NamingScheme
from lancewood.model.ids import Version
from lancewood.model.manifest import ManifestHead


@dataclass(frozen=True)
class Pin:
    """Which version is meant, whoever asks."""

    place: Place
    version: Version
    scheme: NamingScheme
    mark: tuple[int, str | None]
    """When and by which transaction it was committed: a table that was dropped and made anew has
    others."""

    @classmethod
    def of(cls, snapshot: Snapshot) -> Pin:
        head = snapshot.manifest
        return cls(snapshot.place, head.version, snapshot.scheme, _mark(head))

    def load(self) -> Snapshot:
        """The version with all that it says.

        Raises NotFoundError if it was cleaned up, RetryableConflictError if the table is another.
        """
        store = self.place.store
        try:
            manifest = load_manifest(store, self.version, self.scheme)
        except NotFoundError as cause:
            raise NotFoundError(
                f"version {self.version} of {store.uri}, which this DataFrame reads, is gone: it "
                "was cleaned up, or the table was dropped; load the DataFrame anew, or tag a "
                "version that is to stay",
                version=self.version,
            ) from cause
        if _mark(manifest) != self.mark:
            raise RetryableConflictError(
                f"{store.uri} was replaced since this DataFrame was loaded: its version "
                f"{self.version} is of another moment; load the DataFrame anew",
                version=self.version,
            )
        return Snapshot(self.place, manifest, self.scheme)


def _mark(head: ManifestHead) -> tuple[int, str | None]:
    return head.timestamp_ns, head.transaction_file
