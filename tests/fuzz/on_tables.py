"""Targets: whole tables with one file bent, tables that claim too much, data files."""

from __future__ import annotations

import datetime
import io
import shutil
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random

import pyarrow as pa
from tests.fuzz.bend import bend
from tests.fuzz.corpus import Corpus, Files
from tests.fuzz.message import bend_message
from tests.fuzz.on_metadata import bent_manifest
from tests.fuzz.on_rows import full_bitmap
from tests.fuzz.target import Context, Target, Trial, expect

import lancewood
from lancewood.format.manifest import decode_manifest_file, encode_manifest_file
from lancewood.model.rowids import RowIdSequence, RowVersions
from lancewood.proto import table_pb2
from lancewood.table.table import Table

_MOST_ROWS = 20_000


def targets(context: Context) -> Iterator[Target]:
    corpus = context.corpus

    def check(data: bytes, trial: Trial, *, full: bool = True) -> None:
        root = context.scratch / "table"
        shutil.rmtree(root, ignore_errors=True)
        try:
            unpack(data, root)
            check_table(root, trial, full=full)
        finally:
            shutil.rmtree(root, ignore_errors=True)

    def check_data(data: bytes, trial: Trial) -> None:
        # Pages carry no checksum, so a bent value is a value, and the codec may scan one and take
        # another (pylance's own scan and take then differ too): only the shape can be judged.
        check(data, trial, full=False)

    yield Target("table", lambda rng: _bent_table(rng, corpus), check)
    yield Target("table-bombs", lambda rng: _bomb(rng, corpus), check)
    yield Target("data-file", lambda rng: _bent_data(rng, corpus), check_data)


def pack(files: Mapping[str, bytes]) -> bytes:
    """A whole table as one case."""
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w") as archive:
        for path, data in files.items():
            archive.writestr(zipfile.ZipInfo(path), data)
    return sink.getvalue()


def unpack(data: bytes, root: Path) -> None:
    """The table of a case as files; a name that is in the way of another is left out."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        for each in archive.infolist():
            path = root / each.filename
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(archive.read(each))
            except OSError:
                continue


def _bent_table(rng: Random, corpus: Corpus) -> bytes:
    files = dict(corpus.tables[rng.choice(sorted(corpus.tables))])
    kinds: dict[str, list[str]] = {}
    for path in files:
        kinds.setdefault(path.partition("/")[0], []).append(path)
    kinds.pop("data", None)
    weights = {"_versions": 8, "_deletions": 4, "_transactions": 2}
    kind = rng.choices(list(kinds), [weights.get(each, 1) for each in kinds])[0]
    path = max(kinds[kind]) if rng.random() < 0.2 else rng.choice(sorted(kinds[kind])[:4])
    what = rng.random()
    if what < 0.85:
        files[path] = _bent_content(rng, path, files, corpus)
    elif what < 0.9:
        del files[path]
    elif what < 0.95:
        other = rng.choice(sorted(files))
        files[path], files[other] = files[other], files[path]
    else:
        odd = (
            "_versions/x",
            "_versions/1.manifest/x",
            f"{path}.tmp",
            "_refs/branches/%.json",
            "data/x",
        )
        files[rng.choice(odd)] = rng.randbytes(20)
    return pack(files)


def _bent_content(rng: Random, path: str, files: Files, corpus: Corpus) -> bytes:
    data = files[path]
    if path.endswith(".manifest"):
        return bent_manifest(rng, data, corpus)
    if path.endswith(".txn"):
        return bend_message(rng, data, corpus.transactions)
    return bend(rng, data)


def _bomb(rng: Random, corpus: Corpus) -> bytes:
    """A table that claims more rows than there are bytes, deleted or not, with ids or without."""
    files = dict(corpus.tables[rng.choice(sorted(corpus.tables))])
    path = rng.choice([each for each in files if each.endswith(".manifest")])
    old = decode_manifest_file(files[path], name=path)
    containers = rng.choice((1, 16, 1 << 10, 1 << 10, 1 << 12, 1 << 12, 1 << 16))
    rows = containers << 16
    ids = RowIdSequence.from_range(rng.choice((0, 1 << 40)), rows).encode()
    versions = RowVersions.uniform(1, rows).encode()
    for at, each in enumerate(old.fragments):
        if rng.random() < 0.3:
            continue
        fragment = table_pb2.DataFragment()
        fragment.CopyFrom(each.message)
        fragment.physical_rows = rows
        if rng.random() < 0.5:
            fragment.deletion_file.file_type = table_pb2.DeletionFile.BITMAP
            fragment.deletion_file.num_deleted_rows = rng.choice((rows, 0))
            deletion = fragment.deletion_file
            name = f"{fragment.id}-{deletion.read_version}-{deletion.id}.bin"
            files[f"_deletions/{name}"] = full_bitmap(containers)
        if rng.random() < 0.3:
            del fragment.files[:]
        if fragment.inline_row_ids:
            fragment.inline_row_ids = ids
            fragment.inline_created_at_versions = versions
            fragment.inline_last_updated_at_versions = versions
        old.message.fragments[at] = fragment.SerializeToString()
    files[path] = encode_manifest_file(
        old.message,
        index_section=old.index_section,
        transaction_section=old.transaction_section,
    )
    return pack(files)


def _bent_data(rng: Random, corpus: Corpus) -> bytes:
    files = dict(corpus.tables[rng.choice(sorted(corpus.tables))])
    paths = [each for each in files if each.startswith("data/")]
    if not paths:
        return pack(files)
    path = rng.choice(paths)
    bent = bend(rng, files[path], [files[each] for each in paths])
    if rng.random() < 0.8:  # of the size that the manifest says, so that the codec gets to see it
        size = len(files[path])
        bent = bent[:size] + files[path][len(bent) :]
    files[path] = bent
    return pack(files)


def check_table(root: Path, trial: Trial, *, full: bool) -> None:
    uri = str(root)
    table = trial(lambda: lancewood.open(uri, access=lancewood.Access(fsync=False)))
    if table is not None:
        _check_reads(table, trial, full)
        _check_writes(uri, table, trial)
    trial(lambda: lancewood.open(uri, version=1, access=lancewood.Access(fsync=False)).count_rows())
    trial(
        lambda: lancewood.open(
            uri, as_of=datetime.datetime.now(), access=lancewood.Access(fsync=False)
        )
    )
    before = trial(lambda: lancewood.exists(uri))
    dropped = trial(lambda: _drop(uri))
    if dropped:
        expect(before is not False, "a table was dropped that did not exist")
        expect(not lancewood.exists(uri), "a dropped table is still there")


def _drop(uri: str) -> bool:
    lancewood.drop(uri, force=True)
    return True


def _check_reads(table: Table, trial: Trial, full: bool) -> None:
    _ = (table.config, table.metadata, table.base_paths, table.file_version, repr(table))
    trial(lambda: table.timestamp)
    trial(lambda: table.indices)
    trial(table.stats)
    schema = trial(lambda: table.schema)
    for _info in trial(lambda: list(table.versions(20))) or ():
        pass
    rows = trial(table.count_rows)
    expect(rows is None or rows >= 0, f"{rows} rows")
    if schema is None or rows is None:
        return
    found = trial(lambda: _read(table, full))
    if rows > _MOST_ROWS:
        trial(lambda: table.take([0, rows - 1]))
        return
    if found is not None:
        expect(found == rows, f"{found} rows were read, {rows} counted")
    with_ids = trial(lambda: table.scan(schema.names[:1], with_row_id=True).to_arrow())
    if with_ids is not None and rows:
        expect(with_ids.num_rows == rows, f"{with_ids.num_rows} rows with ids, {rows} counted")
        places = [0, rows // 2, rows - 1]
        taken = trial(lambda: table.take(places, schema.names[:1]))
        expect(taken is None or taken.num_rows == 3, "another number of rows was taken")
        if taken is not None and full:
            _expect_same(taken, with_ids.take(places), "take and scan differ")
        ids = [with_ids.column("_rowid")[each].as_py() for each in places]
        by_id = trial(lambda: table.take(row_ids=ids, columns=schema.names[:1]))
        is_unique = len(set(with_ids.column("_rowid").to_pylist())) == rows
        if by_id is not None and is_unique and full:
            _expect_same(by_id, with_ids.take(places), "take by id and scan differ")
    if "b" in schema.names and rows:
        trial(lambda: [blob and blob.read(10) for blob in table.take_blobs("b", [0, rows - 1])])
    if schema.names:
        name = schema.names[0].replace('"', '""')
        kept = trial(lambda: table.count_rows(f'"{name}" IS NULL'))
        rest = trial(lambda: table.count_rows(f'"{name}" IS NOT NULL'))
        if kept is not None and rest is not None:
            expect(kept + rest == rows, f"{kept} rows with and {rest} without, of {rows}")


def _expect_same(one: pa.Table, other: pa.Table, otherwise: str) -> None:
    for name in one.column_names:
        expect(str(one.column(name).to_pylist()) == str(other.column(name).to_pylist()), otherwise)


def _read(table: Table, full: bool) -> int:
    rows = 0
    for batch in table.scan(limit=_MOST_ROWS).to_batches():
        batch.validate(full=full)
        rows += batch.num_rows
    return rows


def _check_writes(uri: str, table: Table, trial: Trial) -> None:
    rows = trial(table.count_rows)
    written = trial(lambda: table.append(table.head(3)))
    if written is None:
        trial(lambda: _expect_unchanged(uri, table))
    elif rows is not None:
        added = trial(lambda: written.count_rows() - rows)
        expect(added in (None, min(rows, 3)), f"{added} rows were added")
    trial(lambda: table.latest().set_config({"lancewood.fuzz": "1"}))
    trial(lambda: table.latest().restore(1))
    trial(lambda: table.latest().overwrite(pa.table({"new": [1, 2]})))


def _expect_unchanged(uri: str, table: Table) -> None:
    again = lancewood.open(uri, access=lancewood.Access(fsync=False))
    expect(again.version == table.version, "a refused append left a version behind")
