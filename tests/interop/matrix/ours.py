"""What we do: operations made from the engine's pieces on the version that a handle shows.

Rows are found by key, so that the same function also says what the operation would be if it had
come after theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
from pyroaring import BitMap
from tests.interop.matrix.tables import RESERVED, RESTORABLE, full_rows, late_index, rows

import lancewood as lw
from lancewood.engine.write.column_file import ColumnFileWriter, mark_deleted
from lancewood.engine.write.write import rows_to_overwrite
from lancewood.format.schema import decode_schema
from lancewood.jobs.merge_into.key_hashes import hash_keys
from lancewood.model.fragment import DataFile, Fragment
from lancewood.model.ids import FieldId, FragmentId, Version
from lancewood.model.rowids import RowIdSequence, RowVersions
from lancewood.model.transaction import (
    Append,
    CreateIndex,
    DataReplacement,
    Delete,
    MapUpdate,
    Merge,
    Operation,
    Overwrite,
    Project,
    Replacement,
    ReserveFragments,
    Restore,
    Rewrite,
    RewriteGroup,
    Update,
    UpdateBases,
    UpdateConfig,
)
from lancewood.proto import schema_pb2, table_pb2
from lancewood.rules.overlaps import make_key_filter

SOME = "k in (2, 3)"
"""Two rows of fragment 0."""
FIELD_C = FieldId(3)
FIRST = "k < 6"
"""All rows of fragment 0."""


def append(table: lw.Table) -> Operation:
    return Append(table.write_fragments(_known_columns(table, full_rows(100, 101))))


def delete(table: lw.Table, where: str = SOME) -> Operation:
    images, gone = _without_rows(table, where)
    return Delete(images, gone, where)


def delete_fragment(table: lw.Table) -> Operation:
    return delete(table, FIRST)


def update(table: lw.Table, where: str = SOME) -> Operation:
    """Move rows into a new fragment, with another value in a column that has no index."""
    found = table.scan(where=where, with_row_id=True, with_row_address=True).to_arrow()
    images, gone = _without_rows(table, where)
    moved = _raised(found.drop(["_rowid", "_rowaddr"]), by=1000)
    (fragment,) = table.write_fragments(moved)
    if table.has_stable_row_ids:
        ids = RowIdSequence.from_values(found["_rowid"].to_numpy())
        fragment = fragment.with_lineage(ids, _created_at(table, found["_rowaddr"]), None)
    changed = (FIELD_C,)
    return Update(gone, images, (fragment,), fields_for_preserving_frag_bitmap=changed)


def update_fragment(table: lw.Table) -> Operation:
    return update(table, FIRST)


def upsert(table: lw.Table) -> Operation:
    """Move one row and insert another; which version made the moved one is the commit's task."""
    found = table.scan(where="k = 2", with_row_id=True).to_arrow()
    images, gone = _without_rows(table, "k = 2")
    moved = _raised(found.drop(["_rowid"]), by=2000)
    inserted = _known_columns(table, full_rows(200)).cast(moved.schema)
    (fragment,) = table.write_fragments(pa.concat_tables([moved, inserted]))
    if table.has_stable_row_ids:
        ids = RowIdSequence.from_values(found["_rowid"].to_numpy())
        fragment = fragment.with_lineage(ids, None, None)
    hashes = hash_keys([pa.array([200], pa.int64())])
    keys = make_key_filter([_field(table, "k")], hashes, is_known_to_pylance=True)
    fields = tuple(each.id for each in table._snapshot.schema.walk())
    return Update(
        gone,
        images,
        (fragment,),
        fields_for_preserving_frag_bitmap=fields,
        inserted_rows=keys,
    )


def update_columns(table: lw.Table) -> Operation:
    """Write an indexed column of fragment 0 anew, and change it in one row."""
    fragment = table._snapshot.manifest.fragment(FragmentId(0))
    values = _physical(table, fragment, "a")
    values[2] = 50
    image = fragment.with_columns(_column_file(table, fragment, "a", values))
    return Update(
        (),
        (image,),
        (),
        fields_modified=(_field(table, "a"),),
        rewrites_columns=True,
        updated_offsets={fragment.id: BitMap([2])},
    )


def replace_column(table: lw.Table) -> Operation:
    """An indexed column of fragment 0, from another file."""
    fragment = table._snapshot.manifest.fragment(FragmentId(0))
    file = _column_file(table, fragment, "a", list(range(50, 50 + fragment.physical_rows)))
    return DataReplacement((Replacement(fragment.id, file),))


def overwrite(table: lw.Table, **config: str) -> Operation:
    made = rows_to_overwrite(table._snapshot, rows(7, 8)).write()
    assert isinstance(made, Overwrite)
    return Overwrite(made.fragments, made.fields, made.schema_metadata, config)


def overwrite_with_config(table: lw.Table) -> Operation:
    return overwrite(table, ours="1")


def create_index(table: lw.Table) -> Operation:
    return CreateIndex((late_index(table),), ())


def drop_index(table: lw.Table) -> Operation:
    return CreateIndex((), tuple(each for each in table.indices if each.name == "b_idx"))


def rewrite(table: lw.Table) -> Operation:
    """Fragments 0 and 1 become one, whose id was reserved."""
    snapshot = table._snapshot
    old = [snapshot.manifest.fragment(FragmentId(each)) for each in (0, 1)]
    (new,) = table.write_fragments(table.scan(fragment_ids=[0, 1]).to_arrow())
    if table.has_stable_row_ids:
        ids, created, updated = [], [], []
        for each in old:
            gone = snapshot.deletions(each) or BitMap()
            assert each.row_ids is not None
            assert each.created_at is not None
            assert each.last_updated_at is not None
            ids.append(each.row_ids.without(gone))
            created.append(each.created_at.without(gone))
            updated.append(each.last_updated_at.without(gone))
        new = new.with_lineage(
            RowIdSequence.concat(ids), RowVersions.concat(created), RowVersions.concat(updated)
        )
    return Rewrite((RewriteGroup(tuple(old), (new.numbered(FragmentId(RESERVED)),)),))


def merge(table: lw.Table) -> Operation:
    """A new column, in a file of its own for every fragment."""
    manifest = table._snapshot.manifest
    used = [number for each in manifest.fragments for file in each.files for number in file.fields]
    number = max(*used, *(each.id for each in manifest.fields)) + 1
    field = schema_pb2.Field(id=number, name="m", parent_id=-1, logical_type="int64", nullable=True)
    fragments = []
    for each in manifest.fragments:
        values = [key * 2 for key in _physical(table, each, "k")]
        file = _column_file(table, each, "m", values, field)
        fragments.append(each.with_columns(file))
    return Merge(
        tuple(fragments),
        (*manifest.fields, field),
        manifest.schema_metadata,
        preserves_nullability=True,
    )


def project(table: lw.Table) -> Operation:
    kept = tuple(each for each in table._snapshot.manifest.fields if each.name != "d")
    return Project(kept, preserves_nullability=True)


def tighten(table: lw.Table) -> Operation:
    """A column that may not hold nulls from now on."""
    fields = []
    for each in table._snapshot.manifest.fields:
        field = schema_pb2.Field()
        field.CopyFrom(each)
        field.nullable = each.name != "c" and each.nullable
        fields.append(field)
    return Project(tuple(fields))


def restore(table: lw.Table) -> Operation:
    return Restore(Version(RESTORABLE))


def reserve(table: lw.Table) -> Operation:
    return ReserveFragments(2)


def config(table: lw.Table) -> Operation:
    return UpdateConfig(config=MapUpdate({"ours": "1"}))


def metadata(table: lw.Table) -> Operation:
    return UpdateConfig(table_metadata=MapUpdate({"ours": "1"}))


def field_metadata(table: lw.Table) -> Operation:
    return UpdateConfig(field_metadata={_field(table, "c"): MapUpdate({"ours": "1"})})


def schema_metadata(table: lw.Table) -> Operation:
    return UpdateConfig(schema_metadata=MapUpdate({"ours": "1"}))


def bases(table: lw.Table) -> Operation:
    return UpdateBases((table_pb2.BasePath(name="ours", path="/tmp/lancewood-matrix/ours"),))


OURS: Mapping[str, Callable[[lw.Table], Operation]] = {
    "Append": append,
    "Delete": delete,
    "Delete.fragment": delete_fragment,
    "Update": update,
    "Update.fragment": update_fragment,
    "Update.upsert": upsert,
    "Update.columns": update_columns,
    "Overwrite": overwrite,
    "Overwrite.config": overwrite_with_config,
    "CreateIndex": create_index,
    "CreateIndex.drop": drop_index,
    "Rewrite": rewrite,
    "Merge": merge,
    "Project": project,
    "Project.tighten": tighten,
    "Restore": restore,
    "ReserveFragments": reserve,
    "UpdateConfig": config,
    "UpdateConfig.table": metadata,
    "UpdateConfig.field": field_metadata,
    "UpdateConfig.schema": schema_metadata,
    "DataReplacement": replace_column,
    "UpdateBases": bases,
}


def _field(table: lw.Table, name: str) -> FieldId:
    return table._snapshot.schema.by_name[name].id


def _known_columns(table: lw.Table, data: pa.Table) -> pa.Table:
    if "z" in table.schema.names:
        data = data.rename_columns({"d": "z"})
    return data.select([each for each in data.column_names if each in table.schema.names])


def _raised(data: pa.Table, by: int) -> pa.Table:
    """The rows with other values in the column that has no index, while it is there."""
    if "c" not in data.column_names:
        return data
    at = data.column_names.index("c")
    values = [each + by for each in data["c"].to_pylist()]
    return data.set_column(at, data.field(at), pa.array(values, data.field(at).type))


def _without_rows(
    table: lw.Table, where: str
) -> tuple[tuple[Fragment, ...], tuple[FragmentId, ...]]:
    """The fragments without these rows, and those of which none would be left."""
    found = table.scan(columns=[], where=where, with_row_address=True).to_arrow()
    offsets: dict[FragmentId, BitMap] = {}
    for address in found["_rowaddr"].to_pylist():
        offsets.setdefault(FragmentId(address >> 32), BitMap()).add(address & 0xFFFFFFFF)
    images, gone = [], []
    for number, chosen in offsets.items():
        image = mark_deleted(table._snapshot, table._snapshot.manifest.fragment(number), chosen)
        if image is None:
            gone.append(number)
        else:
            images.append(image)
    return tuple(images), tuple(gone)


def _created_at(table: lw.Table, addresses: pa.ChunkedArray) -> RowVersions:
    found = []
    for address in addresses.to_pylist():
        versions = table._snapshot.manifest.fragment(FragmentId(address >> 32)).created_at
        assert versions is not None
        found.append(versions.value_at(address & 0xFFFFFFFF))
    return RowVersions.from_values(found)


def _physical(table: lw.Table, fragment: Fragment, column: str) -> list[int]:
    """A column of a fragment, with 0 where the row is deleted."""
    found = table.scan([column], with_row_address=True, fragment_ids=[fragment.id]).to_arrow()
    values = [0] * fragment.physical_rows
    for address, value in zip(
        found["_rowaddr"].to_pylist(), found[column].to_pylist(), strict=True
    ):
        values[address & 0xFFFFFFFF] = value
    return values


def _column_file(
    table: lw.Table,
    fragment: Fragment,
    column: str,
    values: list[int],
    field: schema_pb2.Field | None = None,
) -> DataFile:
    if field is None:
        (field,) = (each for each in table._snapshot.manifest.fields if each.name == column)
    batch: Any = pa.record_batch({column: pa.array(values, pa.int64())})
    return ColumnFileWriter(table._snapshot, decode_schema([field], {})).write(fragment, [batch])
