"""The tables of the current branch as they stand, as if they were committed now.

For comparing: nothing is written, and no cut is taken, so writers that are at work may be seen
half way. What has not landed, has diverged or cannot be read is as HEAD pins it; ``status`` tells.
"""

from __future__ import annotations

from lancewood.catalog.opening import pin_of
from lancewood.catalog.pin import Pin
from lancewood.catalog.tables import TableTree
from lancewood.engine.snapshot import load_snapshot
from lancewood.repo.grounds import Grounds
from lancewood.repo.looking.status import State, find_status
from lancewood.repo.writing.working import working_place


def standing_tables(grounds: Grounds) -> TableTree:
    """HEAD's tables, with those pinned anew that were written since."""
    status = find_status(grounds)
    changes: dict[str, Pin | None] = {}
    for each in status.tables:
        if each.state is not State.MODIFIED or status.branch is None:
            continue
        place = working_place(grounds, status.branch, each.pin)
        if place is not None:
            changes[each.name] = pin_of(load_snapshot(place), each.pin.uri)
    return grounds.tree(status.hash).with_pins(changes)
