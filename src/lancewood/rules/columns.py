"""Whether rows written under one schema still mean the same under a newer one.

New fragments name their columns by field id. Between the version they were written for and the
one they land on, a column may have been cast (its name lives on under a new id), or dropped and
its id handed out again. The conflict matrix looks at one pair of operations at a time and cannot
see either. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable

from lancewood.model.ids import FieldId
from lancewood.model.operations import Append, Merge, Operation, Project
from lancewood.proto import schema_pb2
from lancewood.rules.conflicts import COMPATIBLE, Outcome, Verdict


class ColumnWatch:
    """Follows the columns of new fragments through the versions that landed meanwhile."""

    def __init__(self, fields: Iterable[schema_pb2.Field], mine: Iterable[Operation]) -> None:
        written = {
            number
            for operation in mine
            if isinstance(operation, Append)
            for fragment in operation.fragments
            for file in fragment.files
            for number in file.fields
        }
        self._written = {FieldId(each.id): each for each in fields if each.id in written}
        self._dropped: set[FieldId] = set()

    def see(self, theirs: Operation) -> Verdict:
        """What the next operation, oldest first, means for the columns written."""
        if not isinstance(theirs, Merge | Project) or not self._written:
            return COMPATIBLE
        now = {FieldId(each.id): each for each in theirs.fields}
        names = {(each.name, each.parent_id) for each in theirs.fields}
        for number, old in self._written.items():
            new = now.get(number)
            if new is None:
                if (old.name, old.parent_id) in names:
                    return _retry(f"column {old.name!r} was replaced by another of that name")
                self._dropped.add(number)
            elif number in self._dropped:
                return _retry(
                    f"the id of the dropped column {old.name!r} was given to {new.name!r}"
                )
            elif new.logical_type != old.logical_type:
                return _retry(f"column {old.name!r} became {new.logical_type}")
        return COMPATIBLE


def _retry(reason: str) -> Verdict:
    return Verdict(Outcome.RETRY, reason)
