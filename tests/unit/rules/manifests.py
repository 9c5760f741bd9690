"""Manifests made of plain values, for tests of the rules: no files, no store."""

from __future__ import annotations

from collections.abc import Sequence

from pyroaring import BitMap
from tests.metadata import data_file

from lancewood.format.manifest import VersionStamp, decode_manifest_file, empty_manifest, splice
from lancewood.model.fragment import DeletionFile, Fragment
from lancewood.model.ids import FragmentId, Version
from lancewood.model.index import Index
from lancewood.model.manifest import FLAG_STABLE_ROW_IDS, Manifest
from lancewood.model.transaction import CreateIndex, Operation, Overwrite, Transaction
from lancewood.proto import schema_pb2, table_pb2
from lancewood.rules.apply import apply


def field(number: int, name: str, parent: int = -1, kind: str = "int64") -> schema_pb2.Field:
    return schema_pb2.Field(
        id=number, name=name, parent_id=parent, logical_type=kind, nullable=True
    )


FIELDS = (field(0, "a"), field(1, "b"))


def fragment(path: str, rows: int, *fields: int) -> Fragment:
    """A fragment of one file, which holds fields 0 and 1 unless told otherwise."""
    return Fragment.make([data_file(path, *(fields or (0, 1)))], rows)


def with_deleted(fragment: Fragment, count: int) -> Fragment:
    message = table_pb2.DeletionFile(read_version=1, id=7, num_deleted_rows=count)
    return fragment.with_deletion_file(DeletionFile(message))


def index(
    name: str, fields: Sequence[int], fragments: Sequence[int], kind: str, version: int | None = 0
) -> Index:
    """An index; BTree holds addresses, Bitmap of version 0 row ids."""
    message = table_pb2.IndexMetadata(name=name, fields=fields, index_version=version)
    message.uuid.uuid = name.encode().rjust(16, b"0")[:16]
    message.fragment_bitmap = BitMap(fragments).serialize()
    message.index_details.type_url = f"/lance.table.{kind}IndexDetails"
    return Index(message)


def start(*fragments: Fragment, stable: bool = True) -> Manifest:
    """Version 1: these fragments."""
    flags = FLAG_STABLE_ROW_IDS if stable else 0
    return after(empty_manifest("2.2", flags=flags), Overwrite(fragments, FIELDS))


def after(source: Manifest, operation: Operation, restored: Manifest | None = None) -> Manifest:
    """The manifest after an operation, through bytes and back."""
    patch = apply(source, Transaction.new(source.version, operation), restored)
    stamp = VersionStamp(
        Version(source.version + 1), 1_700_000_000_000_000_001, "t.txn", b"", "x", "1.2.3"
    )
    _, data = splice(restored or source, patch, stamp)
    return decode_manifest_file(data, name="m")


def with_indices(source: Manifest, *indices: Index) -> Manifest:
    return after(source, CreateIndex(indices, ()))


def coverage(manifest: Manifest) -> dict[str, set[int]]:
    return {each.name: set(each.fragments) for each in manifest.indices}


def get(manifest: Manifest, number: int) -> Fragment:
    return manifest.fragment(FragmentId(number))


def row_ids(fragment: Fragment) -> list[int]:
    return list(fragment.row_ids or ())


def created_at(fragment: Fragment) -> list[int]:
    return list(fragment.created_at or ())


def last_updated_at(fragment: Fragment) -> list[int]:
    return list(fragment.last_updated_at or ())
