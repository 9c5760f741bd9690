"""Whether operations can stand in one transaction, as consecutive versions.

All of them were built on one version. What a later one knows of a fragment is therefore its state
before the earlier ones, and would undo what they did to it. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence

from lancewood.errors import InvalidInputError
from lancewood.model.ids import FragmentId
from lancewood.model.operations import Merge, Operation, operation_name
from lancewood.rules.meetings import touched_fragments


def check_list(operations: Sequence[Operation]) -> None:
    """Raises InvalidInputError if two of the operations change the same fragment."""
    if len(operations) < 2:
        return
    changed: dict[FragmentId, int] = {}
    for at, each in enumerate(operations):
        touched = touched_fragments(each)
        if isinstance(each, Merge):
            touched = frozenset(fragment.id for fragment in each.fragments)
        for number in touched:
            first = changed.setdefault(number, at)
            if first != at:
                raise InvalidInputError(
                    f"{operation_name(operations[first])} and {operation_name(each)} of one "
                    f"transaction both change fragment {number}, as it was before either; commit "
                    "the first, and build the second on the version after it",
                    fragment=number,
                )
