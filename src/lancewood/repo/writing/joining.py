"""Telling tables elsewhere that commits of this repository pin them, before the first one does.

``add`` does it when it takes a table in. A copy of a repository, or one that was moved, has tables
that only know the place where it was; a cleanup of them would not look here.
"""

from __future__ import annotations

from collections.abc import Mapping

from lancewood.catalog.membership import join
from lancewood.catalog.pin import Pin
from lancewood.engine.snapshot import load_snapshot
from lancewood.errors import NotFoundError
from lancewood.repo.grounds import Grounds


def join_tables(grounds: Grounds, pins: Mapping[str, Pin | None]) -> None:
    """Leave word at each table that is not below the repository; one look for each process.

    A table that is gone is left alone: what is pinned of it cannot be read anyway.
    """
    joined = grounds.memory.joined
    for name, pin in pins.items():
        if pin is None or pin.is_at_home or (pin.uri, name) in joined:
            continue
        try:
            head = load_snapshot(grounds.place(pin.on(None)))
        except NotFoundError:
            continue
        join(head, grounds.home, grounds.id, name)
        joined.add((pin.uri, name))
