"""Whether rows written under one schema still mean the same under a newer one.

New fragments and new indices name their columns by field id. Between the version they were written
for and the one they land on, a column may have been cast (its name now has a new id), or dropped
and its id reused. The conflict matrix looks at one pair of operations at a time and cannot see
either. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

from lancewood.model.fragment import DataFile, Fragment
from lancewood.model.ids import FieldId
from lancewood.model.transaction import (
    Append,
    CreateIndex,
    DataOverlay,
    DataReplacement,
    Delete,
    FieldMessages,
    Merge,
    Operation,
    Project,
    ReserveFragments,
    Rewrite,
    Update,
    UpdateBases,
    UpdateConfig,
)
from lancewood.proto import schema_pb2
from lancewood.rules.indices import with_relatives
from lancewood.rules.moves import moves_files
from lancewood.rules.overlaps import COMPATIBLE, Outcome, Verdict

_Fields: TypeAlias = Mapping[FieldId, schema_pb2.Field]


class ColumnWatch:
    """Follows the columns of new fragments and new indices through the versions that landed
    meanwhile."""

    def __init__(self, fields: Iterable[schema_pb2.Field], mine: Iterable[Operation]) -> None:
        mine = tuple(mine)
        self._fragments = {frozenset(_columns(each.files)) for each in new_fragments(mine)}
        self._indexed = frozenset(_indexed_fields(mine))
        self._set = frozenset(_set_fields(mine))
        used = self._indexed.union(*self._fragments, _columns(_new_files(mine)), self._set)
        self._schema = {FieldId(each.id): each for each in fields}
        """The schema of the version that was seen last."""
        self._used = {each: self._schema[each] for each in used if each in self._schema}
        self._dropped: dict[FieldId, tuple[str, ...]] = {}
        """What columns were called that are gone, with the names of those around them."""

    def see(self, theirs: Operation) -> Verdict:
        """Judge the next operation, oldest first, by the columns written or indexed."""
        if not isinstance(theirs, Merge | Project) or not self._used:
            return COMPATIBLE
        before, now = self._schema, {FieldId(each.id): each for each in theirs.fields}
        self._schema = now
        gone = {each: _path(before[each], before) for each in before.keys() - now.keys()}
        reasons = [*self._reasons(before, now, self._dropped | gone)]
        self._dropped |= gone
        return _retry(reasons[0]) if reasons else COMPATIBLE

    def _reasons(
        self, before: _Fields, now: _Fields, dropped: Mapping[FieldId, tuple[str, ...]]
    ) -> Iterator[str]:
        """Why what was written does not fit the next schema."""
        paths = {_path(each, now) for each in now.values()}
        grown = {FieldId(now[each].parent_id) for each in now.keys() - before.keys()}
        for number, old in self._used.items():
            new = now.get(number)
            if new is None and number in dropped:
                path = dropped[number]
                if path in paths:
                    yield f"column {old.name!r} was replaced by another of that name"
                elif number in before and _above(before[number], before, now) in grown:
                    yield f"column {old.name!r} was dropped, or renamed and replaced"
                elif number in self._indexed:
                    yield f"the indexed column {old.name!r} was dropped"
                elif number in self._set:
                    yield f"column {old.name!r}, which gets new values, was dropped"
            elif new is not None and number in self._dropped:
                yield f"the id of the dropped column {old.name!r} was given to {new.name!r}"
            elif new is not None and new.logical_type != old.logical_type:
                yield f"column {old.name!r} became {new.logical_type}"
        if any(each.isdisjoint(now) for each in self._fragments):
            yield "no column is left of a fragment that was written"


def _path(field: schema_pb2.Field, schema: _Fields) -> tuple[str, ...]:
    """The names of a field and of those around it, the outermost first."""
    names = [field.name]
    while (above := schema.get(FieldId(field.parent_id))) is not None and above is not field:
        names.append(above.name)
        field = above
    return tuple(reversed(names))


def _above(field: schema_pb2.Field, before: _Fields, now: _Fields) -> FieldId:
    """The id of the nearest field around one that is still there; that of no field for a column."""
    above = FieldId(field.parent_id)
    while above in before and above not in now:
        above = FieldId(before[above].parent_id)
    return above


class IdReuse:
    """Reuse of dropped columns' ids in a list of operations: a reused id means another column in
    everything that others wrote meanwhile."""

    def __init__(self, fields: Iterable[schema_pb2.Field], mine: Iterable[Operation]) -> None:
        old = {each.id: each.name for each in fields}
        dropped: set[int] = set()
        self._given: tuple[str, str] | None = None
        for operation in mine:
            if isinstance(operation, Merge | Project):
                now = {each.id: each.name for each in operation.fields}
                again = dropped & now.keys()
                if again and self._given is None:
                    self._given = old[min(again)], now[min(again)]
                dropped |= old.keys() - now.keys()

    @property
    def is_any(self) -> bool:
        """Whether any id now means another column."""
        return self._given is not None

    def see(self, theirs: Operation) -> Verdict:
        """Judge an operation that was built without knowing of the reuse."""
        if self._given is None or isinstance(theirs, _NAME_NO_COLUMNS):
            return COMPATIBLE
        old, new = self._given
        return _retry(f"the id of the dropped column {old!r} was given to {new!r}")


class DroppedColumns:
    """Dropped columns: values that others give to existing rows in them meanwhile would be lost.
    New rows are not considered: they lose the column like all others."""

    def __init__(self, before: FieldMessages, after: FieldMessages) -> None:
        kept = {each.id for each in after}
        self._names = {FieldId(each.id): each.name for each in before if each.id not in kept}
        self._related = with_relatives(before, self._names)

    @property
    def names(self) -> str:
        """The names of the columns, for people; empty if there are none."""
        return ", ".join(sorted(map(repr, self._names.values())))

    def is_by(self, mine: Operation) -> bool:
        """Whether an operation drops one of the columns."""
        if not isinstance(mine, Merge | Project):
            return False
        return not self._names.keys() <= {each.id for each in mine.fields}

    def see(self, theirs: Operation) -> Verdict:
        """Judge values that an operation gave to rows in the dropped columns."""
        given = given_fields(theirs) if self._names else frozenset()
        if given is None:
            return _retry(
                "it changed rows without saying in which columns, perhaps in "
                f"{self._describe(self._names)}"
            )
        lost = given & self._related
        return _retry(f"it gave new values to {self._describe(lost)}") if lost else COMPATIBLE

    def _describe(self, fields: Iterable[FieldId]) -> str:
        names = sorted(repr(self._names[each]) for each in fields if each in self._names)
        which = f"column {names[0]}" if names else "a column"
        return f"{which}, which the branch drops"


class RowsBornAgain:
    """Whether rows may have been deleted and inserted again under their primary key, perhaps with
    other values. Only their keys tell, which operations do not hold."""

    def __init__(self, operations: Iterable[Operation] = ()) -> None:
        self._deletes = self._inserts = False
        for each in operations:
            self.see(each)

    def see(self, operation: Operation) -> None:
        """Consider one more operation."""
        self._deletes |= isinstance(operation, Delete)
        self._inserts |= any(True for _ in new_fragments((operation,)))

    def judge(self, drops: DroppedColumns) -> Verdict:
        """Judge columns that the other side drops."""
        if not (drops.names and self._deletes and self._inserts):
            return COMPATIBLE
        return _retry(
            "rows that were deleted and rows that were inserted may be the same by their primary "
            f"key, with other values in {drops.names}, which the other side drops; "
            "branches.merge() compares them"
        )


def given_fields(operation: Operation) -> frozenset[FieldId] | None:
    """The columns in which an operation gave other values to existing rows; None where it does not
    say. Not for operations that replace the schema or the table."""
    if moves_files(operation):
        return frozenset()
    if isinstance(operation, DataOverlay):
        return None
    if isinstance(operation, DataReplacement):
        return frozenset(_columns(_new_files((operation,))))
    if isinstance(operation, Update) and (
        operation.updated_fragments or operation.removed_fragment_ids
    ):
        return frozenset(_set_fields((operation,))) or None
    return frozenset()


_NAME_NO_COLUMNS = (ReserveFragments, UpdateBases, UpdateConfig)


def _indexed_fields(mine: Iterable[Operation]) -> Iterator[FieldId]:
    for operation in mine:
        if isinstance(operation, CreateIndex):
            for index in operation.new_indices:
                yield from index.fields
                yield from map(FieldId, index.message.covering_fields)


def _set_fields(mine: Iterable[Operation]) -> Iterator[FieldId]:
    """The columns in which rows get other values: without them there is nothing to update."""
    for operation in mine:
        if isinstance(operation, Update):
            yield from operation.fields_modified
            yield from operation.fields_for_preserving_frag_bitmap


def _new_files(mine: Iterable[Operation]) -> Iterator[DataFile]:
    """Files with columns for existing rows."""
    for operation in mine:
        if isinstance(operation, DataReplacement):
            yield from (each.new_file for each in operation.replacements)


def new_fragments(mine: Iterable[Operation]) -> Iterator[Fragment]:
    """Fragments that operations add to the existing ones."""
    for operation in mine:
        if isinstance(operation, Append):
            yield from operation.fragments
        elif isinstance(operation, Update):
            yield from operation.new_fragments
        elif isinstance(operation, Rewrite):
            yield from (each for group in operation.groups for each in group.new_fragments)


def _columns(files: Iterable[DataFile]) -> Iterator[FieldId]:
    for file in files:
        yield from file.fields


def _retry(reason: str) -> Verdict:
    return Verdict(Outcome.RETRY, reason)
