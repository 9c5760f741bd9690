"""``lw table files``: fragments, and the files that they are made of."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Annotated, Any

import typer

from lancewood.cli import options
from lancewood.cli.output import Output, count, size
from lancewood.cli.revision_options import NEWEST, Revision, with_revision
from lancewood.cli.snapshots import opened_to_read
from lancewood.engine.snapshot import Snapshot
from lancewood.errors import NotFoundError
from lancewood.format.deletion import deletion_file_name
from lancewood.model.fragment import DataFile, Fragment
from lancewood.model.manifest import decode_fragment

_COLUMNS = ("fragment", "kind", "rows", "bytes", "base", "path")
_KEYS = ("fragment", "kind", "rows", "bytes", "base", "path", "version", "fields")


@with_revision
def command(
    uri: options.UriOrName,
    limit: Annotated[
        int, typer.Option("--limit", "-n", metavar="N", min=0, help="At most N fragments.")
    ] = 20,
    all_fragments: Annotated[bool, typer.Option("--all", help="All fragments.")] = False,
    revision: Revision = NEWEST,
    storage_option: options.StorageOptions = None,
    json: options.Json = False,
) -> None:
    """List fragments with their files.

    A data file's rows are those that it holds; a deletion file's are those that are deleted.

    JSON lines with keys: fragment, kind, rows, bytes, base, path, version, fields.
    """
    snapshot = opened_to_read(uri, storage_option, revision)
    shown = _files(snapshot, None if all_fragments else limit)
    output = Output(as_json=json)
    if json:
        output.rows(_KEYS, shown)
    else:
        output.rows(_COLUMNS, (row[: len(_COLUMNS)] for row in shown))


def _files(snapshot: Snapshot, limit: int | None) -> Iterator[tuple[Any, ...]]:
    manifest = snapshot.manifest
    # One by one, so that a short list of a long table stays quick.
    for raw in manifest.message.fragments[:limit]:
        fragment = Fragment(decode_fragment(raw, manifest.name))
        for file in fragment.files:
            yield _data_file(fragment, file)
        if fragment.deletion_file is not None:
            yield _deletion_file(snapshot, fragment)


def _data_file(fragment: Fragment, file: DataFile) -> tuple[Any, ...]:
    return (
        fragment.id,
        "data",
        count(fragment.physical_rows or None),
        size(file.size),
        file.base_id,
        file.path,
        "{}.{}".format(*file.version),
        list(file.fields),
    )


def _deletion_file(snapshot: Snapshot, fragment: Fragment) -> tuple[Any, ...]:
    deletion = fragment.deletion_file
    assert deletion is not None
    name = deletion_file_name(fragment.id, deletion.read_version, deletion.id, deletion.is_bitmap)
    found = snapshot.place.deletion_file(snapshot.manifest, fragment)
    assert found is not None
    home, key = found
    length = None
    with suppress(NotFoundError):
        length = home.head(key).size
    rows = count(deletion.num_deleted_rows or None)
    return fragment.id, "deletion", rows, size(length), deletion.base_id, name, None, None
