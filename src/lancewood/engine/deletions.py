"""Marking rows of a fragment as deleted: a new deletion file beside the fragment's data.

The file lists all deleted rows, those of the file before it included, and lies under the table's
own root wherever the data is. Nothing refers to it until a commit does.
"""

from __future__ import annotations

from pyroaring import BitMap

from lancewood.engine.snapshot import Snapshot
from lancewood.engine.vectors import write_deletions
from lancewood.model.fragment import Fragment


def mark_deleted(
    snapshot: Snapshot, fragment: Fragment, offsets: BitMap, before: BitMap | None = None
) -> Fragment | None:
    """The fragment with these rows deleted as well; None if none is left, and nothing is written.

    ``offsets`` are physical; ``before`` are those that are deleted already, from a caller who has
    read them. Raises FormatError where the manifest does not say how many rows
    there are, or an offset lies beyond them.
    """
    if before is None:
        before = snapshot.deletions(fragment)
    deleted = offsets if not before else offsets | before
    return write_deletions(snapshot.place.store, snapshot.manifest.version, fragment, deleted)
