"""Dropping and renaming columns: another schema over the same files.

Data files are written only for fragments that would be left without any, or with structs of which
nobody could tell any more where they are null.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa

from lancewood.engine.base import as_list
from lancewood.engine.rows import RowFacts
from lancewood.engine.schema import Drop, drop_columns, rename_column, stored_fields
from lancewood.engine.snapshot import Snapshot
from lancewood.format.schema import encode_schema, to_arrow_field
from lancewood.jobs.columns.files import (
    Batches,
    ColumnFiles,
    ColumnJob,
    ColumnWriter,
    named_fields,
)
from lancewood.jobs.counts import ColumnCounts
from lancewood.jobs.job import Change, LightJob
from lancewood.jobs.runner import Runner
from lancewood.model.fragment import Fragment
from lancewood.model.ids import FieldId
from lancewood.model.schema import Schema
from lancewood.model.transaction import Merge, Project

_PORTION = 65_536
_Anchored: TypeAlias = dict[frozenset[FieldId], list[Fragment]]


@dataclass(frozen=True)
class RenameColumn(LightJob[ColumnCounts]):
    """Another name for one column."""

    old: str
    new: str

    def prepare(self, snapshot: Snapshot) -> Change[ColumnCounts]:
        """The Project that renames it; nothing to do if it is called so already."""
        schema = rename_column(snapshot.schema, self.old, self.new)
        if schema == snapshot.schema:
            return Change(None, ColumnCounts())
        above, dot, _ = self.old.rpartition(".")
        return Change(
            Project(tuple(encode_schema(schema)), preserves_nullability=True),
            ColumnCounts(named_fields(schema, [f"{above}{dot}{self.new}"])),
        )


@dataclass(frozen=True)
class NullValues:
    """Nulls for all live rows."""

    columns: Schema

    def of(self, snapshot: Snapshot, fragments: Sequence[Fragment]) -> Iterator[Batches]:
        return (self._nulls(RowFacts(snapshot, each)) for each in fragments)

    def _nulls(self, facts: RowFacts) -> Batches:
        fields = [to_arrow_field(each) for each in self.columns.fields]
        rows = facts.fragment.physical_rows - len(facts.deleted)
        for start in range(0, rows, _PORTION):
            count = min(_PORTION, rows - start)
            arrays = [pa.nulls(count, each.type) for each in fields]
            yield pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


class DropColumns(ColumnJob):
    """Columns that are to go."""

    def __init__(self, snapshot: Snapshot, names: Sequence[str], runner: Runner) -> None:
        super().__init__(ColumnFiles(snapshot, runner, "keeping rows without columns"))
        self._names = as_list("drop_columns", names)
        drop_columns(snapshot.schema, self._names)

    def plan(self, snapshot: Snapshot) -> ColumnCounts:
        return self._counted(snapshot, _anchored(snapshot, self._drop(snapshot)))

    def prepare(self, snapshot: Snapshot) -> Change[ColumnCounts]:
        """The Project that drops them; a Merge where files have to be written."""
        manifest, drop = snapshot.manifest, self._drop(snapshot)
        fields = tuple(encode_schema(drop.after))
        groups = _anchored(snapshot, drop)
        counts = self._counted(snapshot, groups)
        self._files.discard()
        if not groups:
            return Change(Project(fields, preserves_nullability=True), counts)
        written: dict[int, Schema] = {}
        for anchors, fragments in groups.items():
            new = drop.columns(anchors)
            writer = ColumnWriter(snapshot, new.written, NullValues(new.flat), new)
            self._files.write(writer, fragments, frozenset())
            written.update({each.id: new.written for each in fragments})
        images = []
        for each in manifest.fragments:
            image = each.without_dead_files(drop.live)
            if each.id in written:
                image = image.with_columns(self._files.file_of(each, written[each.id]))
            images.append(image)
        merge = Merge(tuple(images), fields, manifest.schema_metadata, preserves_nullability=True)
        return Change(merge, counts)

    def _drop(self, snapshot: Snapshot) -> Drop:
        return Drop(snapshot.schema, drop_columns(snapshot.schema, self._names))

    def _counted(self, snapshot: Snapshot, groups: _Anchored) -> ColumnCounts:
        columns = named_fields(snapshot.schema, self._names)
        return ColumnCounts(columns, sum(map(len, groups.values())))


def _anchored(snapshot: Snapshot, drop: Drop) -> _Anchored:
    """The fragments for which files of nulls have to be written, by what these hold."""
    groups: _Anchored = {}
    known: dict[frozenset[int], frozenset[FieldId]] = {}
    for each in snapshot.manifest.fragments:
        stored = stored_fields(each)
        if stored not in known:
            known[stored] = drop.anchors(stored)
        if known[stored]:
            groups.setdefault(known[stored], []).append(each)
    return groups
