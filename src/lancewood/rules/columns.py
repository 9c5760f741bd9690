"""Whether rows written under one schema still mean the same under a newer one.

New fragments name their columns by field id. Between the version they were written for and the
one they land on, a column may have been cast (its name lives on under a new id), or dropped and
its id handed out again. The conflict matrix looks at one pair of operations at a time and cannot
see either. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from lancewood.model.fragment import DataFile
from lancewood.model.ids import FieldId
from lancewood.model.operations import (
    Append,
    DataReplacement,
    Merge,
    Operation,
    Project,
    Update,
)
from lancewood.proto import schema_pb2
from lancewood.rules.conflicts import COMPATIBLE, Outcome, Verdict


class ColumnWatch:
    """Follows the columns of new fragments through the versions that landed meanwhile."""

    def __init__(self, fields: Iterable[schema_pb2.Field], mine: Iterable[Operation]) -> None:
        written = {number for each in mine for file in _new_files(each) for number in file.fields}
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


def _new_files(operation: Operation) -> Iterator[DataFile]:
    """The data files that an operation brings along."""
    match operation:
        case Append(fragments=fragments) | Update(new_fragments=fragments):
            for each in fragments:
                yield from each.files
        case DataReplacement(replacements=replacements):
            yield from (each.new_file for each in replacements)


def _retry(reason: str) -> Verdict:
    return Verdict(Outcome.RETRY, reason)
