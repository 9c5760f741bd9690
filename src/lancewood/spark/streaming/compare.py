"""What a version did to rows, found by comparing it with the one before.

With stable row ids that is exact. Without them fragments tell as much as they can: an overwrite
and new fragments beside untouched ones are clear, an update is not. Reads manifests, deletion
files and sequences; a column only where ``engine.changes`` does.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from lancewood.engine.changes import RowChanges, find_changes
from lancewood.engine.live_rows import LiveRows, cut_at
from lancewood.engine.snapshot import Snapshot
from lancewood.errors import UnsupportedError
from lancewood.model.fragment import Fragment
from lancewood.model.manifest import decode_fragment, peek_fragment_id
from lancewood.model.operations import Delete, Merge, Overwrite, Restore
from lancewood.spark.streaming.history import History, Step
from lancewood.spark.streaming.options import OnChange
from lancewood.spark.streaming.portions import Change, FragmentRows, PickedRows, StreamRows


@dataclass(frozen=True)
class Compared:
    """What a version did, in rows of either kind."""

    inserted: tuple[StreamRows, ...] = ()
    """Rows that no version had before."""
    returned: tuple[StreamRows, ...] = ()
    """Rows that an earlier version had."""
    updated: tuple[StreamRows, ...] = ()
    deleted: tuple[StreamRows, ...] = ()
    is_mixed: bool = False
    """Whether rows changed in a way that cannot be told apart from rows that are new."""
    has_changed: bool = False
    """Whether something besides new rows happened."""


def rows_for(step: Step, found: Compared, on_change: OnChange, uri: str) -> tuple[StreamRows, ...]:
    """The rows that a stream emits for a version.

    Raises UnsupportedError for one that it has no rows for.
    """
    if on_change is OnChange.CHANGES:
        return (*found.deleted, *found.inserted, *found.returned, *found.updated)
    if found.has_changed and on_change is OnChange.FAIL:
        counted = {
            "updated": _count(found.updated),
            "deleted": _count(found.deleted),
            "brought back": _count(found.returned),
        }
        told = ", ".join(f"{name} {count}" for name, count in counted.items() if count)
        raise UnsupportedError(
            f"{step.describe()} of {uri} changed rows that are there"
            + (f" ({told})" if told else "")
            + ", and this stream emits only rows that are new. Set option onChange to 'ignore' to "
            "pass over such changes; with stable row ids 'changes' makes a stream of all of them",
            version=step.version,
            operation=step.operation,
        )
    if found.is_mixed:
        raise UnsupportedError(
            f"{step.describe()} of {uri} changed rows and perhaps added some: without stable row "
            "ids nobody can tell which are new. Start the query with a new checkpointLocation, "
            "which begins with the whole table; a table made with stable row ids has no such limit",
            version=step.version,
            operation=step.operation,
        )
    return found.inserted


def compare(history: History, step: Step) -> Compared:
    """What a version did to rows; raises NotFoundError if the one before it was cleaned up."""
    since, until = history.before(step.version), history.load(step.version)
    if since.manifest.has_stable_row_ids and until.manifest.has_stable_row_ids:
        return _by_id(find_changes(since, until), since, until)
    return _by_fragment(step, since, until)


def _by_id(found: RowChanges, since: Snapshot, until: Snapshot) -> Compared:
    version = until.manifest.version
    fresh, returned = _parted(found.inserted, since.manifest.next_row_id, version)

    def rows(
        side: Snapshot, fragments: tuple[Fragment, ...], part: LiveRows, change: Change
    ) -> tuple[StreamRows, ...]:
        if not part.row_count:
            return ()
        return (PickedRows.of(side, version, fragments, part, change),)

    new, old = found.until.fragments, found.since.fragments
    compared = Compared(
        inserted=rows(until, new, fresh, Change.INSERTED),
        returned=rows(until, new, returned, Change.INSERTED),
        updated=rows(until, new, found.updated, Change.UPDATED),
        deleted=rows(since, old, found.deleted, Change.DELETED),
    )
    has_changed = bool(compared.returned or compared.updated or compared.deleted)
    return replace(compared, has_changed=has_changed)


def _parted(rows: LiveRows, mark: int, version: int) -> tuple[LiveRows, LiveRows]:
    """The rows that are new in this version, and those that are back.

    New is what the version made. Where a writer did not record who made a row, its id tells: those
    from ``mark`` on had not been handed out before. Ids below it may be new, too, from a branch.
    """
    edge = np.array([mark], np.uint64)
    firsts, counts = cut_at(edge, rows.firsts, rows.counts)
    is_fresh = (firsts >= edge[0]) | (rows.part(firsts, counts).created == version)
    return (
        rows.part(firsts[is_fresh], counts[is_fresh]),
        rows.part(firsts[~is_fresh], counts[~is_fresh]),
    )


def _by_fragment(step: Step, since: Snapshot, until: Snapshot) -> Compared:
    old, new = _fragments(since), _fragments(until)
    version = until.manifest.version
    if step.operation == Overwrite.__name__:
        return Compared(
            inserted=_whole(until, list(new.values())), has_changed=bool(old), is_mixed=False
        )
    if step.operation in (Delete.__name__, Restore.__name__):
        return Compared(has_changed=old != new)
    added = [raw for number, raw in new.items() if number not in old]
    keeps_rows = _same_rows if step.operation == Merge.__name__ else _same_values
    kept = all(
        number in new and (raw == new[number] or keeps_rows(raw, new[number], version))
        for number, raw in old.items()
    )
    if kept:
        return Compared(inserted=_whole(until, added))
    return Compared(has_changed=True, is_mixed=bool(added))


def _fragments(snapshot: Snapshot) -> dict[int, bytes]:
    name = snapshot.manifest.name
    return {peek_fragment_id(raw, name): raw for raw in snapshot.manifest.message.fragments}


def _same_rows(raw: bytes, other: bytes, version: int) -> bool:
    """Whether a fragment has the same rows, whatever columns they have."""
    name = f"version {version}"
    then, now = decode_fragment(raw, name), decode_fragment(other, name)
    return then.physical_rows == now.physical_rows and then.deletion_file == now.deletion_file


def _same_values(raw: bytes, other: bytes, version: int) -> bool:
    """Whether they also have the same values in the columns that were there."""
    name = f"version {version}"
    then, now = decode_fragment(raw, name), decode_fragment(other, name)
    files = {each.SerializeToString() for each in now.files}
    are_kept = all(each.SerializeToString() in files for each in then.files)
    return are_kept and _same_rows(raw, other, version)


def _whole(snapshot: Snapshot, raws: list[bytes]) -> tuple[StreamRows, ...]:
    if not raws:
        return ()
    name, counts = snapshot.manifest.name, []
    for raw in raws:
        fragment = Fragment(decode_fragment(raw, name))
        fragment.check_counted()
        counts.append(fragment.physical_rows)
    version = snapshot.manifest.version
    return (FragmentRows.of(snapshot, version, raws, np.array(counts, np.int64)),)


def _count(parts: tuple[StreamRows, ...]) -> int:
    return sum(each.row_count for each in parts)
