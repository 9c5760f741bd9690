"""The columns of a version, found again in an earlier one.

Names change and ids stay, but a cast gives a new id, and the id of a dropped column may be given to
another one. So an id with a changed name counts only if ids are never reused, if a data file of
both versions holds it, or if every version in between has it; and a column that was cast and
renamed is followed through those versions. Their transactions tell. Reads no data file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

from lancewood.engine.base import WORKERS, in_order
from lancewood.engine.snapshot import Descent, Snapshot
from lancewood.errors import NotFoundError
from lancewood.format.schema import decode_schema
from lancewood.model.ids import FieldId, Version, is_detached
from lancewood.model.manifest import FLAG_FIELD_IDS_NOT_REUSED, Manifest
from lancewood.model.operations import (
    Merge,
    MissingTransaction,
    Operation,
    Overwrite,
    Project,
    Restore,
    UnknownOperation,
)
from lancewood.model.schema import Field, Schema

_MOST_VERSIONS = 64
"""If the versions are further apart, their transactions are not read."""
_SAY_NOTHING = (MissingTransaction, Overwrite, Restore, UnknownOperation)
"""Operations after which an id may be that of another column."""
_NOWHERE = -1_000
"""Ids from here downwards are in no data file, so that fields with them are read as null."""


def find_earlier(since: Snapshot, until: Snapshot, columns: Schema) -> Mapping[str, Field]:
    """What to read at ``since`` for columns of ``until``, by their names there.

    A column that was cast has its earlier type; a newer one is left out, and a newer field inside
    a struct is read as null.
    """
    search = _Search(since, until)
    found = {each.name: search.matched(each) for each in columns.fields if search.is_same(each)}
    left = {each.name: each for each in since.schema.fields}
    for each in found.values():
        left.pop(since.schema.by_id[each.id].name)
    others = [each for each in columns.fields if each.name not in found]
    is_plain = [each.name for each in others] == [*left] and len(others) == 1
    if left and not is_plain:  # else it was cast, or written anew, under its own name
        for each in others:
            older = search.origin(each)
            if older is not None and left.pop(older.name, None) is not None:
                found[each.name] = older
    for each in others:
        if each.name not in found and each.name in left:
            found[each.name] = left.pop(each.name)
    return found


@dataclass
class _Search:
    since: Snapshot
    until: Snapshot
    _answers: dict[FieldId, bool] = field(default_factory=dict)

    def is_same(self, column: Field) -> bool:
        """Whether a field had this id, and was the same field."""
        older = self.since.schema.by_id.get(column.id)
        if older is None or older.logical_type != column.logical_type:
            return False
        return older.name == column.name or self._is_renamed(older)

    def matched(self, column: Field) -> Field:
        """The field, with ids that no file has for the newer fields below it."""
        children = tuple(
            self.matched(each)
            if self.is_same(each)
            else replace(each, id=FieldId(_NOWHERE - each.id), nullable=True)
            for each in column.children
        )
        return replace(column, children=children)

    def _is_renamed(self, older: Field) -> bool:
        if older.id not in self._answers:
            self._answers[older.id] = self._is_held_by_both(
                frozenset(each.id for each in older.walk())
            )
        return self._answers[older.id]

    def _is_held_by_both(self, ids: frozenset[FieldId]) -> bool:
        manifests = (self.since.manifest, self.until.manifest)
        if all(each.writer_flags & FLAG_FIELD_IDS_NOT_REUSED for each in manifests):
            return True
        return self._is_held_in_files(ids, manifests) or self._is_held_in_between(ids)

    def _is_held_in_files(self, ids: frozenset[FieldId], manifests: Sequence[Manifest]) -> bool:
        paths = {
            file.path
            for fragment in manifests[0].fragments
            for file in fragment.message.files
            if not ids.isdisjoint(file.fields)
        }
        return any(
            file.path in paths and not ids.isdisjoint(file.fields)
            for fragment in manifests[1].fragments
            for file in fragment.message.files
        )

    def _is_held_in_between(self, ids: frozenset[FieldId]) -> bool:
        """Whether every version after ``since`` has the fields; False if that is unknown."""
        schemas = self._schemas
        return schemas is not None and all(ids <= each.by_id.keys() for each in schemas)

    def origin(self, column: Field) -> Field | None:
        """The earlier column that this one was made of by renaming and casting; None if unknown.

        No single version both drops a column and adds another one.
        """
        for older in reversed(self._schemas or ()):
            found = older.by_id.get(column.id) or older.by_name.get(column.name)
            if found is None:
                return None
            column = found
        return column if self._schemas else None

    @cached_property
    def _schemas(self) -> Sequence[Schema] | None:
        """Those of all versions from the earlier one on, with those that a restore goes back
        through; None if not all are known."""
        first = self.since.manifest.version
        known = {first: self.since.schema}
        passed = [self.since.schema]
        for version, operations in self._operations(first, self.until.manifest.version):
            for each in operations:
                if isinstance(each, Restore):
                    way = self._way_back(each.version, known)
                else:
                    way = _after(each, passed[-1])
                if not way:
                    return None
                passed += way
            known[version] = passed[-1]
        return passed

    def _way_back(self, version: Version, known: Mapping[Version, Schema]) -> Sequence[Schema]:
        """The schemas from the earlier version back to one that was restored, the last of them;
        none if not all are known."""
        if version in known:
            return [known[version]]
        chain = None if is_detached(version) else self._chain_from(version)
        if chain is None:
            return ()
        lowest = min(chain)
        down = range(self.since.manifest.version - 1, lowest - 1, -1)
        return [chain[Version(each)] for each in (*down, *range(lowest + 1, version + 1))]

    def _chain_from(self, version: Version) -> Mapping[Version, Schema] | None:
        """The schemas of all versions from one on, or from an older one that was restored since,
        up to the earlier of the two that are compared; None if not all are known."""
        last = self.since.manifest.version
        lowest, steps = version, [*self._operations(version, last)]
        while (below := min(_restored(steps), default=lowest)) < lowest:
            lowest, steps = below, [*self._operations(below, last)]
        try:
            chain = {lowest: Descent(self.until).load(lowest).schema}
        except NotFoundError:
            return None
        for number, operations in steps:
            schema: Schema | None = chain.get(Version(number - 1))
            for each in operations:
                if isinstance(each, Restore):
                    schema = chain.get(each.version)
                elif schema is not None:
                    schema = next(iter(_after(each, schema)), None)
            if schema is None:
                return None
            chain[number] = schema
        return chain

    def _operations(
        self, after: Version, last: Version
    ) -> Iterator[tuple[Version, Sequence[Operation]]]:
        """What the versions behind one did, up to another; what is not known, if they are many."""
        if last - after > _MOST_VERSIONS:
            yield last, (MissingTransaction("too many versions"),)
            return
        descent = Descent(self.until)

        def look(version: Version) -> Iterator[tuple[Version, Sequence[Operation]]]:
            yield version, descent.transaction(version).operations

        numbers = map(Version, range(after + 1, last + 1))
        yield from in_order((partial(look, each) for each in numbers), workers=WORKERS)


def _restored(steps: Sequence[tuple[Version, Sequence[Operation]]]) -> Iterator[Version]:
    """The versions that are restored in some steps."""
    for _, operations in steps:
        yield from (each.version for each in operations if isinstance(each, Restore))


def _after(operation: Operation, schema: Schema) -> Sequence[Schema]:
    """The schema that an operation leaves; none if it says nothing of it."""
    if isinstance(operation, Merge | Project):
        return [decode_schema(operation.fields, {})]
    return () if isinstance(operation, _SAY_NOTHING) else [schema]
