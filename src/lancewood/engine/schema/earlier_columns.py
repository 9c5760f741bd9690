"""The columns of a version, found again in an earlier one.

Names change and ids stay, but the id of a dropped column may be given to another one. So an id with
a changed name counts only if ids are never reused, if a data file of both versions holds it, or if
every version in between has it, which their transactions tell. Reads no data file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from lancewood.engine.base import WORKERS, in_order
from lancewood.engine.snapshot import Descent, Snapshot
from lancewood.model.ids import FieldId, Version
from lancewood.model.manifest import FLAG_FIELD_IDS_NOT_REUSED, Manifest
from lancewood.model.operations import (
    Merge,
    MissingTransaction,
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

    A column that was cast is found by its name and has its earlier type; a newer one is left out,
    and a newer field inside a struct is read as null.
    """
    search = _Search(since, until)
    found, claimed = {}, set()
    for each in columns.fields:
        if search.is_same(each):
            found[each.name] = search.matched(each)
            claimed.add(each.id)
    for each in columns.fields:
        older = since.schema.by_name.get(each.name)
        if each.name not in found and older is not None and older.id not in claimed:
            found[each.name] = older
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
        first, last = self.since.manifest.version + 1, self.until.manifest.version
        if last - first >= _MOST_VERSIONS:
            return False
        descent = Descent(self.until)

        def look(version: int) -> Iterator[bool]:
            for operation in descent.transaction(Version(version)).operations:
                yield not isinstance(operation, _SAY_NOTHING) and (
                    not isinstance(operation, Merge | Project)
                    or ids <= {each.id for each in operation.fields}
                )

        tasks = (partial(look, each) for each in range(first, last + 1))
        return all(in_order(tasks, workers=WORKERS))
