"""What an operation says about the fragments that two branches share.

After a fork both sides assign the same ids to different fragments. So before the changes of one
side are judged against the other's, everything about younger fragments is left out. Pure.
"""

from __future__ import annotations

from dataclasses import replace

from pyroaring import BitMap

from lancewood.model.ids import FragmentId
from lancewood.model.operations import (
    CreateIndex,
    DataOverlay,
    DataReplacement,
    Delete,
    Operation,
    Rewrite,
    RewriteGroup,
    Update,
)


def common_part(operation: Operation, last: FragmentId | None) -> Operation:
    """The same operation without what it says about fragments after ``last``; None is before
    all."""

    def old(number: FragmentId) -> bool:
        return last is not None and number <= last

    match operation:
        case Delete(updated_fragments=updated, deleted_fragment_ids=removed):
            return replace(
                operation,
                updated_fragments=tuple(each for each in updated if old(each.id)),
                deleted_fragment_ids=tuple(filter(old, removed)),
            )
        case Update(updated_fragments=updated, removed_fragment_ids=removed):
            offsets = operation.updated_offsets.items()
            return replace(
                operation,
                updated_fragments=tuple(each for each in updated if old(each.id)),
                removed_fragment_ids=tuple(filter(old, removed)),
                updated_offsets={number: each for number, each in offsets if old(number)},
            )
        case Rewrite(groups=groups):
            left = [
                RewriteGroup(tuple(f for f in each.old_fragments if old(f.id)), each.new_fragments)
                for each in groups
            ]
            return replace(operation, groups=tuple(left))
        case DataReplacement(replacements=replacements):
            kept = tuple(each for each in replacements if old(each.fragment_id))
            return replace(operation, replacements=kept)
        case DataOverlay(fragment_ids=ids):
            return replace(operation, fragment_ids=tuple(filter(old, ids)))
        case CreateIndex(new_indices=new):
            known = BitMap() if last is None else BitMap(range(last + 1))
            narrowed = tuple(each.covering(each.fragments & known) for each in new)
            return replace(operation, new_indices=narrowed)
        case _:
            return operation
