"""Remembering that a version was the newest, where looking again would cost too much.

A commit lists the versions before every attempt. In a directory of 100,000 names that is most of
its cost, so whoever has just published or opened the newest version keeps the directory's stamp
with it: the one from right after the publishing, or from before the listing. As long as the stamp
is the same, no name was created or removed since, and a listing would find nothing new. Stamps
are some milliseconds coarse, so the next few numbers are looked up too: what would have to be
missed is several commits and their cleanup within one tick of the clock.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

from lancewood.errors import NotFoundError, StorageError
from lancewood.format.layout import VERSIONS_DIR, NamingScheme, manifest_key
from lancewood.model.ids import Version
from lancewood.store.base import Store

WORTH_IT = 2_000
"""Directories with fewer names are simply listed."""
_LOOKED_UP = 3


@dataclass(frozen=True, slots=True)
class Sighting:
    """The directory's stamp when a version was its newest."""

    version: Version
    stamp: object


def take_sighting(store: Store, version: Version) -> Sighting | None:
    """A sighting of the version that was just published; None where stamps cannot be had."""
    with contextlib.suppress(StorageError):
        stamp = store.stamp(VERSIONS_DIR)
        if stamp is not None:
            return Sighting(version, stamp)
    return None


def is_still_newest(store: Store, sighting: Sighting, scheme: NamingScheme) -> bool:
    """Whether nothing has been published or cleaned up since. False also means: do not know."""
    if store.stamp(VERSIONS_DIR) != sighting.stamp:
        return False
    for step in range(1, _LOOKED_UP + 1):
        with contextlib.suppress(NotFoundError):
            store.head(manifest_key(Version(sighting.version + step), scheme))
            return False
    return True
