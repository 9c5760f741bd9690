"""What a manifest store is: who has which version of a table, in a place that can say "not twice".

Knows bases (which table), versions, and the paths of manifests. Does not read manifests, and does
not know what is in the object store.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol, runtime_checkable

from lancewood.model.ids import Version


class Entry(NamedTuple):
    """What a manifest store says of one version."""

    version: Version
    path: str
    """Where the manifest is: its final path, or that of a staged one, which ends in a uuid."""
    size: int | None = None
    """The bytes of it, where that is known."""


@runtime_checkable
class ManifestStore(Protocol):
    """Entries by base and version. Whoever puts one first has committed that version.

    Answers are consistent: what was put is got from then on, in every process. A verb raises
    StorageError where the store fails; after a put that says nothing of whether it was done,
    unless the facts hold ``landed=False``. Picklable, and no text shows a secret. This protocol is
    all that a store of your own needs.
    """

    def get(self, base: str, version: Version) -> Entry | None:
        """The entry of one version; None where there is none."""

    def latest(self, base: str) -> Entry | None:
        """The entry of the highest version; None where the base has none."""

    def put_if_not_exists(self, base: str, entry: Entry) -> bool:
        """Whether the entry was put: False, with nothing changed, where the version has one."""

    def put_if_exists(self, base: str, entry: Entry) -> bool:
        """Whether the entry was put in the place of an older one: False where there was none."""


@runtime_checkable
class Forgetting(Protocol):
    """A manifest store that can also forget. Without it a table that was dropped cannot be made
    again under the same uri."""

    def forget(self, base: str, gone: Mapping[Version, str] | None = None) -> None:
        """Remove the entries of versions that have these paths, or with None all of the base."""
