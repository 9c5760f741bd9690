"""Assigning ids: to fragments, and on tables with stable row ids to rows.

Done again on every attempt and never before, from the high-water marks of the newest version. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from lancewood.errors import (
    FormatError,
    InvalidInputError,
    RetryableConflictError,
    UnsupportedError,
)
from lancewood.model.fragment import Fragment
from lancewood.model.ids import FragmentId
from lancewood.model.lines import first_id, space_of
from lancewood.model.manifest import FLAG_FIELD_IDS_NOT_REUSED, Manifest, ManifestHead
from lancewood.model.rowids import IdRanges, RowIdSequence, RowVersions, union
from lancewood.model.transaction import FieldMessages, HeadChanges

MAX_FRAGMENT_ID = (1 << 32) - 1

CreatedAt = Callable[[RowIdSequence], RowVersions]
"""Looks up the versions that created moved rows, by their ids."""


def hand_out_ids(
    head: ManifestHead, fragments: Iterable[Fragment], created_at: CreatedAt | None = None
) -> tuple[tuple[Fragment, ...], HeadChanges]:
    """New fragments with ids (and row ids, on a table that has them), and the new marks.

    Without ``created_at`` all rows are new, and ids that the fragments carry are another table's or
    another attempt's, and are ignored. With it, the row ids that a fragment carries are those of
    rows that have moved into it, which come first; only the others get new ones. Rows are stamped
    with the version after ``head``, also where a detached manifest gets another number.
    """
    next_id, next_row_id = next_fragment_id(head), head.next_row_id
    version = head.version + 1
    births: dict[int, RowVersions] = {}
    done = []
    for fragment in fragments:
        if fragment.deletion_file is not None:
            raise InvalidInputError(
                "a new fragment has a deletion file, whose name belongs to another fragment"
            )
        number = FragmentId(check_fragment_id(next_id))
        next_id += 1
        if not head.has_stable_row_ids:
            done.append(fragment.born(number, None, None))
            continue
        rows = fragment.physical_rows
        if rows == 0:
            raise FormatError(f"fragment {fragment.id} does not say how many rows it has")
        if rows not in births:
            births[rows] = RowVersions.uniform(version, rows)
        moved = RowIdSequence.from_range(0, 0)
        if created_at is not None:
            moved = _moved_ids(fragment, head)
        fresh = RowIdSequence.from_range(next_row_id, rows - len(moved))
        next_row_id += len(fresh)
        if not len(moved):
            done.append(fragment.born(number, fresh, births[rows]))
            continue
        assert created_at is not None
        created = _created_at(fragment, moved, created_at)
        if len(fresh):
            moved = RowIdSequence.concat([moved, fresh])
            created = RowVersions.concat([created, RowVersions.uniform(version, len(fresh))])
        done.append(fragment.with_lineage(moved, created, births[rows]).numbered(number))
    check_space(head.next_row_id, next_row_id)
    if created_at is not None and head.has_stable_row_ids:
        check_unique_rows(done)
    return tuple(done), HeadChanges(
        max_fragment_id=next_id - 1 if next_id else None,
        next_row_id=next_row_id if head.has_stable_row_ids else None,
    )


def check_space(mark: int, next_row_id: int) -> None:
    """Raise UnsupportedError if new rows would get ids of the next space, which may be another
    line's. A table that has never been merged goes on from its first space as it likes."""
    if space_of(mark) and space_of(next_row_id) > space_of(mark):
        left = first_id(space_of(mark) + 1) - 1 - mark
        raise UnsupportedError(
            f"{next_row_id - mark:,} new rows need row ids, and {left:,} are left of those that "
            "this branch has claimed; make a branch of it, which claims others",
            next_row_id=mark,
        )


def check_row_mark(manifest: Manifest) -> None:
    """Raise FormatError if the last fragment has a row id that a new row would get again.

    Looks at no other fragment.
    """
    if not manifest.has_stable_row_ids or not manifest.fragment_count:
        return
    last = manifest.last_fragment
    given = last.lineage("row_ids")
    most = RowIdSequence.decode(given).max_value() if isinstance(given, bytes) else None
    if most is not None and most >= manifest.next_row_id:
        raise FormatError(
            f"{manifest.name}: fragment {last.id} has the row id {most}, which new rows would get "
            f"once more: the next one is {manifest.next_row_id}; restore a version that verifies: "
            "repair() looks for one",
            fragment=last.id,
            row_id=most,
        )


def check_unique_rows(fragments: Iterable[Fragment]) -> None:
    """Raise FormatError if two of the rows that moved into new fragments have the same id."""
    known = [(each, each.row_ids) for each in fragments]
    parts = [IdRanges.of(ids) for _, ids in known if ids is not None]
    _, twice = union([ranges for ranges, _ in parts])
    twice = next((found for _, found in parts if found is not None), twice)
    if twice is not None:
        raise FormatError(
            f"two rows have the row id {twice}, and are not written again like that; "
            "restore a version that verifies: repair() looks for one",
            row_id=twice,
        )


def _moved_ids(fragment: Fragment, head: ManifestHead) -> RowIdSequence:
    """The ids of the rows that moved into a new fragment; they come first in it."""
    given = fragment.lineage("row_ids")
    if given is None:
        return RowIdSequence.from_range(0, 0)
    if not isinstance(given, bytes):
        raise UnsupportedError("a new fragment keeps its row ids outside the transaction")
    moved = RowIdSequence.decode(given)
    if len(moved) > fragment.physical_rows:
        raise InvalidInputError(
            f"a new fragment of {fragment.physical_rows} rows lists {len(moved)} row ids"
        )
    most = moved.max_value()
    if most is not None and most >= head.next_row_id:
        raise InvalidInputError(
            f"a new fragment lists the row id {most}, which was never handed out: the next one "
            f"is {head.next_row_id}"
        )
    return moved


def _created_at(fragment: Fragment, moved: RowIdSequence, look_up: CreatedAt) -> RowVersions:
    given = fragment.lineage("created_at_versions")
    if isinstance(given, bytes):
        created = RowVersions.decode(given)
        if len(created) >= len(moved):
            return created.slice(0, len(moved))
    return look_up(moved)


def next_fragment_id(head: ManifestHead) -> int:
    """The lowest fragment id that was never assigned."""
    return 0 if head.max_fragment_id is None else head.max_fragment_id + 1


def check_fragment_id(number: int) -> int:
    """The number itself; raises UnsupportedError if it does not fit into a row address."""
    if number > MAX_FRAGMENT_ID:
        raise UnsupportedError(
            f"the table has used all of its {MAX_FRAGMENT_ID + 1:,} fragment ids; "
            "copy it to a new one"
        )
    return number


def check_field_ids(head: ManifestHead, new: Iterable[int]) -> None:
    """Raise if new field ids are taken already, on a table that never reuses one."""
    if not head.writer_flags & FLAG_FIELD_IDS_NOT_REUSED:
        return
    taken, lowest = head.message.max_allocated_field_id, min(new, default=None)
    if lowest is not None and lowest <= taken:
        raise RetryableConflictError(
            f"field ids up to {taken} were handed out since; run it again",
            max_allocated_field_id=taken,
        )


def field_mark(head: ManifestHead, fields: FieldMessages) -> int | None:
    """The new mark of allocated field ids, where the table keeps one."""
    if not head.writer_flags & FLAG_FIELD_IDS_NOT_REUSED:
        return None
    return max((head.message.max_allocated_field_id, *(each.id for each in fields)))
