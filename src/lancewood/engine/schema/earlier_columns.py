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
from lancewood.format.schema import decode_schema
from lancewood.model.ids import FieldId, Version
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
_SAY_NOTHING = (MissingTransaction, Overwrite, UnknownOperation)
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
        """Those of all versions from the earlier one on; None if not all are known."""
        first, last = self.since.manifest.version + 1, self.until.manifest.version
        if last - first >= _MOST_VERSIONS:
            return None
        descent = Descent(self.until)

        def look(version: int) -> Iterator[Sequence[Operation]]:
            yield descent.transaction(Version(version)).operations

        found = [self.since.schema]
        tasks = (partial(look, each) for each in range(first, last + 1))
        for operations in in_order(tasks, workers=WORKERS):
            schema: Schema | None = found[-1]
            for each in operations:
                schema = None if schema is None else self._after(each, schema, found)
            if schema is None:
                return None
            found.append(schema)
        return found

    def _after(
        self, operation: Operation, schema: Schema, earlier: Sequence[Schema]
    ) -> Schema | None:
        """The schema that an operation leaves; None if it says nothing of it."""
        match operation:
            case Merge(fields=fields) | Project(fields=fields):
                return decode_schema(fields, {})
            case Restore(version=version):
                at = version - self.since.manifest.version
                return earlier[at] if 0 <= at < len(earlier) else None
        return None if isinstance(operation, _SAY_NOTHING) else schema
