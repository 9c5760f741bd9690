"""Telling tables elsewhere that commits of this repository pin them, before the first one does.

``add`` does it when it takes a table in. A copy of a repository, or one that was moved, has tables
that only know the place where it was; a cleanup of them would not look here.

A repository that somebody else made may pin any place of this machine, or any uri. So nothing is
written to a table elsewhere that does not say itself that it belongs to the repository.
"""

from __future__ import annotations

from collections.abc import Container, Mapping

from lancewood.catalog.membership import is_member, join
from lancewood.catalog.pin import Pin
from lancewood.engine.snapshot import load_snapshot
from lancewood.errors import InvalidInputError, NotFoundError
from lancewood.repo.grounds import Grounds


def join_tables(
    grounds: Grounds, pins: Mapping[str, Pin | None], *, new: Container[str] = ()
) -> None:
    """Leave word at each table that is not below the repository; one look for each process.

    A table that is gone is left alone: what is pinned of it cannot be read anyway. Raises as
    ``check_member`` does for all but the ``new`` ones, which were named just now.
    """
    joined = grounds.memory.joined
    for name, pin in pins.items():
        if pin is None or pin.is_at_home or (pin.uri, name) in joined:
            continue
        try:
            head = load_snapshot(grounds.place(pin.on(None)))
        except NotFoundError:
            continue
        if name not in new:
            check_member(grounds, pin, name)
        join(head, grounds.home, grounds.id, name)
        joined.add((pin.uri, name))


def check_member(grounds: Grounds, pin: Pin, name: str) -> None:
    """Raise InvalidInputError for a table elsewhere that nobody has added to this repository.

    One read for each such table and process.
    """
    known = grounds.memory.members
    if pin.is_at_home or pin.uri in known:
        return
    if not is_member(grounds.place(pin.on(None)).store, grounds.id):
        raise InvalidInputError(
            f"table {name!r} is at {pin.uri}, which is not below the repository, and it does not "
            "say that it belongs to it: commits of others may name any place, so nothing is "
            f"written there. If the table is yours, repo.add({name!r}, {pin.uri!r}) takes it in",
            table=name,
            uri=pin.uri,
        )
    known.add(pin.uri)
