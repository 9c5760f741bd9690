"""The rows of a metadata table as plain values: what runs in the tasks.

Each function makes dictionaries that fit the schema in ``metadata_tables``. Opens manifests,
transactions and refs where a row needs them; no data file, no deletion file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, TypeAlias

from lancewood.engine.history import VersionInfo, iterate_infos
from lancewood.engine.refs import read_refs
from lancewood.engine.revisions import main_place
from lancewood.engine.snapshot import Snapshot
from lancewood.engine.transactions import load_transaction_of
from lancewood.errors import FormatError
from lancewood.format.deletion import deletion_file_name
from lancewood.format.refs import BRANCHES_DIR, TAGS_DIR, ref_name
from lancewood.model.fragment import DataFile, Fragment
from lancewood.model.ids import FieldId, Version
from lancewood.model.index import Index
from lancewood.model.operations import MissingTransaction, UnknownOperation, operation_name
from lancewood.model.refs import MAIN, Branch, Tag
from lancewood.model.schema import Field

Row: TypeAlias = dict[str, Any]

_MOST_LONG = (1 << 63) - 1


def version_rows(snapshot: Snapshot, versions: Sequence[Version]) -> Iterator[Row]:
    """What is known of each version; one that was cleaned up meanwhile is passed over."""
    return map(_version, iterate_infos(snapshot.place.store, versions, snapshot.scheme))


def _version(info: VersionInfo) -> Row:
    return {
        "version": info.version,
        "timestamp": info.timestamp,
        "operation": info.operation,
        "rows": info.rows,
        "message": info.message,
        "properties": sorted(info.properties.items()),
        "damage": info.damage,
    }


def transaction_rows(snapshot: Snapshot, versions: Sequence[Version]) -> Iterator[Row]:
    """The transaction of each version, read without the version where that is possible."""
    for version in versions:
        found = load_transaction_of(snapshot.place.store, version, snapshot.scheme)
        operation = found.operation
        missing = operation.why if isinstance(operation, MissingTransaction) else None
        is_known = missing is None and not isinstance(operation, UnknownOperation)
        yield {
            "version": version,
            "uuid": found.uuid or None,
            "read_version": found.read_version if missing is None else None,
            "operation": operation_name(operation) if is_known else None,
            "message": found.message,
            "properties": sorted(found.user_properties.items()),
            "missing": missing,
        }


def fragment_rows(snapshot: Snapshot, fragments: Iterable[Fragment]) -> Iterator[Row]:
    """Each fragment with what its files add up to."""
    for each in fragments:
        sizes = [file.size for file in each.files]
        yield {
            "fragment": each.id,
            "rows": each.num_rows,
            "physical_rows": each.physical_rows or None,
            "deleted_rows": _deleted_rows(each),
            "data_files": len(sizes),
            "bytes": None if None in sizes else sum(size or 0 for size in sizes),
            "deletion_file": _deletion_name(each),
        }


def file_rows(snapshot: Snapshot, fragments: Iterable[Fragment]) -> Iterator[Row]:
    """Each data file, and after those of a fragment its deletion file."""
    for each in fragments:
        for file in each.files:
            yield _data_file(snapshot, each, file)
        deletion = each.deletion_file
        found = snapshot.place.deletion_file(snapshot.manifest, each)
        if deletion is not None and found is not None:
            home, key = found
            yield {
                "fragment": each.id,
                "kind": "deletion",
                "uri": f"{home.uri}/{key}",
                "path": _deletion_name(each),
                "base": deletion.base_id,
                "rows": deletion.num_deleted_rows or None,
            }


def _data_file(snapshot: Snapshot, fragment: Fragment, file: DataFile) -> Row:
    home, key = snapshot.place.data_file(snapshot.manifest, file)
    return {
        "fragment": fragment.id,
        "kind": "data",
        "uri": f"{home.uri}/{key}",
        "path": file.path,
        "base": file.base_id,
        "rows": fragment.physical_rows or None,
        "bytes": file.size,
        "file_version": "{}.{}".format(*file.version),
        "fields": list(file.fields),
    }


def _deleted_rows(fragment: Fragment) -> int | None:
    if fragment.deletion_file is None:
        return 0
    return fragment.num_deleted_rows or None


def _deletion_name(fragment: Fragment) -> str | None:
    found = fragment.deletion_file
    if found is None:
        return None
    return deletion_file_name(fragment.id, found.read_version, found.id, found.is_bitmap)


def ref_rows(snapshot: Snapshot) -> Iterator[Row]:
    """Tags, then branches; one that cannot be read, or told in Spark's numbers, says why."""
    main = main_place(snapshot).store
    for kind, directory in (("tag", TAGS_DIR), ("branch", BRANCHES_DIR)):
        for file, found in read_refs(main, directory):
            if isinstance(found, FormatError):
                yield {"kind": kind, "name": _name(file), "damage": str(found)}
                continue
            row: Row = {"kind": kind, **_ref(found)}
            if row["version"] > _MOST_LONG:  # detached versions are
                damage = f"version {row['version']} is beyond a bigint"
                row |= {"version": None, "damage": damage}
            yield row


def _ref(ref: Tag | Branch) -> Row:
    updated: datetime | None
    if isinstance(ref, Tag):
        branch, version, updated = ref.branch, ref.version, ref.updated_at
    else:
        branch, version, updated = ref.parent_branch, ref.parent_version, None
    return {
        "name": str(ref.name),
        "branch": MAIN if branch is None else str(branch),
        "version": version,
        "created_at": ref.created_at,
        "updated_at": updated,
        "metadata": sorted(ref.metadata.items()),
    }


def _name(file: str) -> str:
    """The name of a damaged ref, or of its file where that tells none."""
    try:
        return ref_name(file) or file
    except FormatError:
        return file


def index_rows(snapshot: Snapshot, indices: Iterable[Index]) -> Iterator[Row]:
    """Each segment, with the columns by their dotted names."""
    names = dict(_dotted(snapshot.schema.fields))
    for each in indices:
        yield {
            "name": each.name,
            "kind": each.kind or None,
            "columns": [names.get(field) for field in each.fields],
            "uuid": str(each.uuid),
            "version": each.dataset_version,
            "fragments": len(each.fragments),
            "base": each.base_id,
        }


def _dotted(fields: Iterable[Field], above: str = "") -> Iterator[tuple[FieldId, str]]:
    for each in fields:
        name = f"{above}{each.name}"
        yield each.id, name
        yield from _dotted(each.children, f"{name}.")
