"""Claiming a space of row ids, from which a line hands out ids that no other line does.

A file in the main root says that a space is taken. Whoever creates it has it; a space that nobody
uses in the end does no harm.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from random import SystemRandom
from typing import NamedTuple
from uuid import uuid4

from lancewood.engine.location import Location
from lancewood.engine.snapshot import Snapshot
from lancewood.errors import NotFoundError, RetryableConflictError
from lancewood.format.refs import (
    SPACES_DIR,
    claimed_space,
    claiming_line,
    encode_claim,
    space_key,
)
from lancewood.model.ids import Version
from lancewood.model.lines import Line, first_id, has_own_ids, line_of, next_space, space_of
from lancewood.model.manifest import ManifestHead
from lancewood.model.refs import BranchName
from lancewood.store.base import PutOutcome, Store
from lancewood.store.readback import put_new_settled
from lancewood.store.retry import LOST_RACES

_RANDOM = SystemRandom()


class OwnIds(NamedTuple):
    """A line, and the first row id of the space that it has claimed."""

    line: Line
    first_id: int


def claim_space(main: Location, above: int, line: Line) -> int:
    """The first row id of a space that is the line's from now on; it is above ``above``.

    Raises RetryableConflictError if others were faster again and again, and UnsupportedError if no
    space is left.
    """
    for _ in LOST_RACES:
        space = next_space(_highest(main.store), above, _RANDOM)
        claim = encode_claim(line, time.time_ns(), uuid4().hex)
        if put_new_settled(main.store, space_key(space), claim) is PutOutcome.CREATED:
            return first_id(space)
    raise RetryableConflictError(
        f"no row ids could be claimed in {main.uri}: others were faster {LOST_RACES.attempts} "
        "times; do it again"
    )


def claim_ids(
    main: Location, source: Snapshot, branch: BranchName, version: Version
) -> OwnIds | None:
    """Row ids for a line that begins on a branch in a version, as a clone of the source; None for a
    table whose rows have none, and where the source hands out the same as others: its rows would be
    taken for theirs."""
    if not source.manifest.has_stable_row_ids or not has_own_ids(source.manifest):
        return None
    line = Line(uuid4().hex, version, branch)
    return OwnIds(line, claim_space(main, source.manifest.next_row_id, line))


def owns_its_space(main: Location, head: ManifestHead) -> bool:
    """Whether the space in which a line hands out ids is claimed by that line, and not by another:
    two copies of a table choose their spaces without knowing of each other."""
    try:
        claim = main.store.get(space_key(space_of(head.next_row_id)))
    except NotFoundError:
        return True
    return claiming_line(claim) in (None, line_of(head).id)


def _highest(main: Store) -> int:
    """The highest space that is claimed; the first in a listing that is in order."""
    found = _claimed(main)
    return next(found, 0) if main.lists_in_order else max(found, default=0)


def _claimed(main: Store) -> Iterator[int]:
    return (space for name in main.names(SPACES_DIR) if (space := claimed_space(name)) is not None)
