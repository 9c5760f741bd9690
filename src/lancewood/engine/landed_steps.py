"""Which steps of a landing are part of the history already: found by their identities.

Reads names and transactions of the versions above the base, and changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from lancewood.engine.transactions import load_transaction_of
from lancewood.engine.versions import versions_since
from lancewood.format.layout import NamingScheme
from lancewood.model.ids import Version
from lancewood.model.landing import Landing
from lancewood.model.manifest import ManifestHead
from lancewood.store.base import Store


@dataclass(frozen=True, slots=True)
class Landed:
    """The versions that the steps became, oldest first."""

    versions: tuple[Version, ...]
    is_exact: bool
    """Nobody else wrote in between: they are the staged states, row ids and all."""


@dataclass(frozen=True, slots=True)
class Sight:
    """What the versions above the base say of a landing."""

    landing: Landing
    scheme: NamingScheme
    newest: Version
    found: tuple[Version, ...]
    """The versions of the steps that were found, oldest first."""
    count: int
    """How many steps have landed; some of their versions may have been cleaned up since."""
    is_cut: bool = False
    """Whether versions above the base were cleaned up: steps that are not found may have landed."""

    @property
    def is_landed(self) -> bool:
        return self.count == len(self.landing.steps)

    @property
    def landed(self) -> Landed:
        is_exact = self.found == exact_versions(self.landing)
        return Landed(self.found, is_exact)

    @property
    def exact(self) -> int:
        """How many steps have landed right after the base, before anything else did."""
        exact = exact_versions(self.landing)
        alike = (one == other for one, other in zip(self.found, exact, strict=False))
        return next((at for at, same in enumerate(alike) if not same), len(self.found))

    @property
    def is_disturbed(self) -> bool:
        """Whether somebody else wrote after the base, before all steps had landed."""
        return self.newest != self.landing.base + self.exact


def look_for(store: Store, landing: Landing) -> Sight:
    """Look for the steps in the versions above the base.

    If the last step is where it is without anybody in between, so are the others: a step is only
    put right after the newest version, and after the step before it.
    """
    listed = versions_since(store, landing.base)
    newer, scheme = listed.versions, listed.scheme
    newest = newer[0] if newer else landing.base
    last = landing.last_exact_version
    if newest >= last and _uuid_of(store, last, scheme) == landing.uuids[-1]:
        return Sight(landing, scheme, newest, exact_versions(landing), len(landing.steps))
    found: list[Version] = []
    count = 0
    at = {uuid: number for number, uuid in enumerate(landing.uuids)}
    for version in reversed(newer):
        number = at.get(_uuid_of(store, version, scheme))
        if number is not None:
            found.append(version)
            count = number + 1
            if count == len(landing.steps):
                break
    is_cut = len(newer) < newest - landing.base
    return Sight(landing, scheme, newest, tuple(found), count, is_cut)


def _uuid_of(store: Store, version: Version, scheme: NamingScheme) -> str:
    return load_transaction_of(store, version, scheme).uuid


def is_last_step(head: ManifestHead, landing: Landing) -> bool:
    """Whether a version is what the last step became; then all of them have landed."""
    made_by = head.transaction_file
    return made_by is not None and made_by.endswith(f"-{landing.uuids[-1]}.txn")


def exact_versions(landing: Landing) -> tuple[Version, ...]:
    """The versions that the steps become if nobody else writes in between."""
    return tuple(landing.exact_version(number) for number in range(len(landing.steps)))
