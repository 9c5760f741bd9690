"""Landing: what commits pin comes onto the branches of the tables.

The writer of a commit does it, and if it did not come that far, whoever writes next. Each state
lands at most once, the oldest first. What a writer from outside made impossible is a divergence:
it is told, and the commit still reads.
"""

from __future__ import annotations

from collections.abc import Iterable

from lancewood.catalog.pin import Pin
from lancewood.catalog.unlanded import unlanded
from lancewood.engine.landing import Landed, land
from lancewood.errors import ConflictError, IncompatibleConflictError, NotFoundError
from lancewood.git.hashes import Hash
from lancewood.repo.grounds import Grounds
from lancewood.repo.outcome import Divergence
from lancewood.repo.writing.joining import check_member

LOST = "lost"
"""The fact of a conflict that says: what the commit pins is gone."""


def land_pin(grounds: Grounds, pin: Pin, name: str) -> Landed | None:
    """Bring one state onto its branch; None for one that was pinned where it stood.

    Raises ConflictError for a divergence, and InvalidInputError as ``check_member``.
    """
    if pin.landing is None:
        return None
    check_member(grounds, pin, name)
    return land(grounds.place(pin), pin.landing)


def land_rest(
    grounds: Grounds, tip: Hash | None, names: Iterable[str] | None = None
) -> tuple[Divergence, ...]:
    """Bring everything onto the branches that the commits up to ``tip`` pin, the oldest first; of
    the tables that are named, or of all. A state that is gone is a divergence, too."""
    if tip is None:
        return ()
    wanted = None if names is None else tuple(names)
    try:
        return _land_all(grounds, tip, wanted)
    except NotFoundError as gone:
        if "hash" in gone.facts:  # of git, not of a table
            raise
    found: list[Divergence] = []
    for name in grounds.tree(tip).names() if wanted is None else wanted:
        try:
            found += _land_all(grounds, tip, (name,))
        except NotFoundError as gone:
            found.append(Divergence(name, _lost(gone)))
    return tuple(found)


def _land_all(grounds: Grounds, tip: Hash, names: tuple[str, ...] | None) -> tuple[Divergence, ...]:
    found: dict[str, Divergence] = {}
    waiting = unlanded(
        grounds.git,
        tip,
        grounds.home,
        names=names,
        storage_options=grounds.storage_options,
        fsync=grounds.fsync,
        stores=grounds.memory.stores,
    )
    for name, pin in waiting:
        if name in found:
            continue
        try:
            land_pin(grounds, pin, name)
        except ConflictError as conflict:
            found[name] = Divergence(name, conflict)
    return tuple(found.values())


def _lost(gone: NotFoundError) -> IncompatibleConflictError:
    return IncompatibleConflictError(
        f"the state that the commit pins has not landed, and is gone: {gone.message}",
        **{**gone.facts, LOST: True},
    )
