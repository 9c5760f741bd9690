"""What a commit means for the indices of a table, which are not opened for it.

An index covers the fragments in its bitmap. Where that would no longer be true the fragment is
removed from the bitmap: readers then scan it, which is slower and always right. An index whose
bitmap changes keeps its files; its content is never touched. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pyroaring import BitMap

from lancewood.errors import UnsupportedError
from lancewood.model.fragment import Fragment
from lancewood.model.ids import FieldId, FragmentId
from lancewood.model.index import FRAGMENT_REUSE, Index
from lancewood.proto import schema_pb2

Indices = tuple[Index, ...]


def with_relatives(
    fields: Iterable[schema_pb2.Field], chosen: Iterable[FieldId]
) -> frozenset[FieldId]:
    """The chosen fields, their ancestors and their descendants.

    Data files of version 2.1 list leaves only, an index on a list names the list.
    """
    parents = {each.id: each.parent_id for each in fields}
    found = set(chosen)
    for each in tuple(found):
        above = parents.get(each, -1)
        while above >= 0 and above not in found:
            found.add(FieldId(above))
            above = parents.get(above, -1)
    below = set(chosen)
    for number, parent in parents.items():  # parents come before children
        if parent in below:
            below.add(FieldId(number))
    return frozenset(found | below)


def changed_fields(fragment: Fragment, other: Fragment) -> frozenset[FieldId]:
    """The columns that two states of one fragment read from different files, including those that
    only one of them stores."""
    before, after = _files_by_field(fragment), _files_by_field(other)
    return frozenset(
        each for each in before.keys() | after.keys() if before.get(each) != after.get(each)
    )


def _files_by_field(fragment: Fragment) -> dict[FieldId, str]:
    return {number: file.path for file in fragment.files for number in file.fields if number >= 0}


def on_live_fields(indices: Indices, live: frozenset[FieldId]) -> Indices:
    """The indices all of whose columns are still in the schema."""
    return tuple(each for each in indices if live.issuperset(each.fields))


def uncovered(
    indices: Indices, fragments: Iterable[FragmentId], fields: frozenset[FieldId]
) -> Indices:
    """The indices, with these fragments removed from those on one of the fields.

    Where pylance deferred their remapping they cover nothing: only the reader of such an index
    finds out which fragments in their bitmaps have become these.
    """
    gone = BitMap(fragments)
    is_deferred = bool(gone) and is_remapping_deferred(indices)
    changed = []
    for each in indices:
        if each.touches(fields):
            left = BitMap() if is_deferred else each.fragments - gone
            changed.append(each if left == each.fragments else each.covering(left))
        else:
            changed.append(each)
    return tuple(changed)


def without_rewritten(
    indices: Indices,
    fragments: Iterable[tuple[Fragment, Fragment]],
    fields: Sequence[schema_pb2.Field],
) -> Indices:
    """The indices, without fragments that read one of their columns from another file now;
    ``fragments`` are given before and after, ``fields`` are those of the schema."""
    rewritten: dict[frozenset[FieldId], list[FragmentId]] = {}
    for before, after in fragments if indices else ():
        written = changed_fields(before, after)
        if written:
            rewritten.setdefault(written, []).append(after.id)
    for written, numbers in rewritten.items():
        indices = uncovered(indices, numbers, with_relatives(fields, written))
    return indices


def with_moved_rows(
    indices: Indices,
    touched: Iterable[FragmentId],
    new: Iterable[FragmentId],
    changed_fields: frozenset[FieldId],
) -> Indices:
    """The indices after an update that moved rows, with their ids, into new fragments.

    An index gains the new fragments only if it holds row ids, none of its columns changed and it
    covered every fragment that the rows came from.
    """
    came_from, gained = BitMap(touched), BitMap(new)
    return tuple(
        each.covering(each.fragments | gained)
        if each.holds_row_ids
        and not each.touches(changed_fields)
        and came_from.issubset(each.fragments)
        else each
        for each in indices
    )


def with_rewritten_fragments(
    indices: Indices, groups: Sequence[tuple[BitMap, BitMap]], *, ids_are_stable: bool
) -> Indices:
    """The indices after a compaction of (old, new) fragments.

    An index that holds stable row ids follows a group that it covers as a whole; any other loses
    the old fragments and gains nothing.
    """
    changed = []
    for index in indices:
        covered = before = index.fragments
        for old, new in groups:
            whole = old.issubset(covered)
            covered = covered - old
            if whole and ids_are_stable and index.holds_row_ids:
                covered = covered | new
        changed.append(index if covered == before else index.covering(covered))
    return tuple(changed)


def check_no_fragment_reuse(indices: Indices, doing: str) -> None:
    """Raise UnsupportedError where pylance deferred the remapping of its indices.

    Their bitmaps then name fragments that no longer exist and are translated when they are read;
    moving rows once more would break the translation.
    """
    if is_remapping_deferred(indices):
        raise UnsupportedError(
            f"{doing} is not possible while the table has the index {FRAGMENT_REUSE} of a "
            "compaction with deferred remapping; let pylance optimise the indices first"
        )


def is_remapping_deferred(indices: Iterable[Index]) -> bool:
    """Whether bitmaps name fragments that are gone, which only the reader of that index follows."""
    return any(each.name == FRAGMENT_REUSE for each in indices)
