"""The columns of a version, found again in an earlier one.

Names change and ids stay, but a cast gives a new id, and the id of a dropped column may be given to
another one. So an id with a changed name counts only if ids are never reused, if a data file of
both versions holds it, or if every version on the way from one to the other has it; and a column
that was cast and renamed is followed on that way. Their transactions tell. Reads no data file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
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
    found = search.matched(columns.fields, since.schema.fields)
    kept = {each.id for each in found.values()}
    left = {each.name: each for each in since.schema.fields if each.id not in kept}
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

    def matched(self, fields: Sequence[Field], earlier: Sequence[Field]) -> dict[str, Field]:
        """Those fields that are among earlier ones, by name, with ids that no file has for the
        newer fields below them."""
        known = {each.id: each for each in earlier}
        return {
            each.name: replace(each, children=self._children(each, known[each.id]))
            for each in fields
            if each.id in known and self._is_same(each, known[each.id])
        }

    def _children(self, newer: Field, older: Field) -> tuple[Field, ...]:
        found = self.matched(newer.children, older.children)
        return tuple(
            found.get(each.name) or replace(each, id=FieldId(_NOWHERE - each.id), nullable=True)
            for each in newer.children
        )

    def _is_same(self, newer: Field, older: Field) -> bool:
        """Whether a field is what had its id before."""
        if older.logical_type != newer.logical_type:
            return False
        return older.name == newer.name or self._is_renamed(older)

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
        """Whether every version on the way has the fields; False if that is unknown."""
        schemas = self._schemas
        return schemas is not None and all(ids <= each.by_id.keys() for each in schemas)

    def origin(self, column: Field) -> Field | None:
        """The earlier column that this one was made of by renaming and casting; None if unknown.

        No single version both drops a column and adds another one.
        """
        for older in reversed(self._schemas or ()):
            found = _column(older, column.id) or older.by_name.get(column.name)
            if found is None:
                return None
            column = found
        return column if self._schemas else None

    @cached_property
    def _schemas(self) -> Sequence[Schema] | None:
        """Those of the versions on the way from the earlier one to the later; None if not all are
        known.

        A version comes from the one before it, or from the one that it restores. The way leads back
        to what both come from, and from there on.
        """
        here, there = self.until.manifest.version, self.since.manifest.version
        if here - there > _MOST_VERSIONS:
            return None
        done = dict(self._operations(range(there + 1, here + 1)))
        onwards: list[Sequence[Operation]] = []
        back: list[Sequence[Operation]] = []
        while here != there:
            newer = max(here, there)
            if is_detached(newer) or len(onwards) + len(back) > _MOST_VERSIONS:
                return None
            if newer not in done:
                done |= self._operations([newer])
            parent = _parent(newer, done[newer])
            if newer == here:
                onwards.append(done[newer])
                here = parent
            else:
                back.append(done[newer])
                there = parent
        try:
            common = self._schema_at(there)
        except NotFoundError:
            return None
        earlier, later = (_schemas_after(common, each[::-1]) for each in (back, onwards))
        if earlier is None or later is None:
            return None
        return [self.since.schema, *earlier[-2::-1], *later[1:]]

    def _schema_at(self, version: Version) -> Schema:
        if version == self.since.manifest.version:
            return self.since.schema
        return Descent(self.until).load(version).schema

    def _operations(self, versions: Iterable[int]) -> Iterator[tuple[Version, Sequence[Operation]]]:
        """What versions did."""
        descent = Descent(self.until)

        def look(version: Version) -> Iterator[tuple[Version, Sequence[Operation]]]:
            yield version, descent.transaction(version).operations

        tasks = (partial(look, Version(each)) for each in versions)
        return in_order(tasks, workers=WORKERS)


def _column(schema: Schema, number: FieldId) -> Field | None:
    """The column with an id; a field inside of another one is none."""
    found = schema.by_id.get(number)
    return found if found is not None and schema.by_name.get(found.name) is found else None


def _parent(version: Version, operations: Sequence[Operation]) -> Version:
    """The version that one continues."""
    restored = [each.version for each in operations if isinstance(each, Restore)]
    return restored[-1] if restored else Version(version - 1)


def _schemas_after(schema: Schema, steps: Sequence[Sequence[Operation]]) -> Sequence[Schema] | None:
    """A schema and what steps make of it, one after the other; None if one does not say."""
    found = [schema]
    for operations in steps:
        for each in operations:
            if isinstance(each, _SAY_NOTHING):
                return None
            if isinstance(each, Merge | Project):
                schema = decode_schema(each.fields, {})
        found.append(schema)
    return found
