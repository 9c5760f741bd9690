"""Real files to start from: small tables by pylance and by us, made anew in a directory.

Many schemas, file versions, naming schemes, deletions, indices, branches, tags, stable row ids.
Nothing here is checked in: what the writers of today write is what readers must stand.
"""

from __future__ import annotations

import decimal
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
from lance.file import LanceFileReader
from lance.indices import IndexConfig

import lancewood
from lancewood.format.manifest import decode_manifest_file
from lancewood.model.manifest import Manifest

Files = Mapping[str, bytes]
"""The files of one table by their path below its root."""


_INDEXED = "indexed"


def make_corpus(root: Path) -> None:
    """Write the tables below ``root``, which does not exist yet."""
    root.mkdir(parents=True)
    _ours(root / "ours")
    _ours_nested(root / "ours-nested")
    _nested(root / "nested")
    _lively(root / "lively")
    _many_deleted(root / "many-deleted")
    _old_names(root / "old-names")
    _json(root / "json")
    _blobs(root / "blobs", "2.1")
    _blobs(root / "blobs-apart", "2.2")
    _indexed(root / _INDEXED)


@dataclass(frozen=True)
class Corpus:
    """What fuzz targets start from, read from a directory that ``make_corpus`` wrote."""

    root: Path

    @cached_property
    def tables(self) -> dict[str, Files]:
        """Every table, and every branch of one as a table of its own."""
        found = {}
        for each in sorted(self.root.iterdir()):
            if each.name == _INDEXED:
                continue
            found[each.name] = _files(each)
            for branch in sorted((each / "tree").glob("*")):
                found[f"{each.name}@{branch.name}"] = _files(branch)
        return found

    @cached_property
    def indexed(self) -> Files:
        """A table with scalar indices, for targets of its own."""
        return _files(self.root / _INDEXED)

    @cached_property
    def bitmap_trees(self) -> list[bytes]:
        """Numbers of 64 bits as a bitmap index holds them."""
        (file,) = (self.root / _INDEXED).glob("_indices/*/bitmap_page_lookup.lance")
        rows = LanceFileReader(str(file)).read_all(batch_size=1024).to_table()
        found: list[bytes] = rows.column("bitmaps").to_pylist()
        return found

    @cached_property
    def manifests(self) -> list[bytes]:
        return self._all(".manifest")

    @cached_property
    def transactions(self) -> list[bytes]:
        """The bytes of ``.txn`` files and of sections inside manifests."""
        inline = [each.transaction_section for each in self.decoded if each.transaction_section]
        return [*self._all(".txn"), *inline]

    @cached_property
    def arrow_deletions(self) -> list[bytes]:
        return self._all(".arrow")

    @cached_property
    def bitmap_deletions(self) -> list[bytes]:
        bitmaps = [each.message.fragment_bitmap for m in self.decoded for each in m.indices]
        return [*self._all(".bin"), *bitmaps]

    @cached_property
    def refs(self) -> list[bytes]:
        return self._all(".json", below="_refs/")

    @cached_property
    def row_ids(self) -> list[bytes]:
        found = [f.message.inline_row_ids for m in self.decoded for f in m.fragments]
        return sorted({each for each in found if each})

    @cached_property
    def row_versions(self) -> list[bytes]:
        found = [
            raw
            for m in self.decoded
            for f in m.fragments
            for raw in (
                f.message.inline_created_at_versions,
                f.message.inline_last_updated_at_versions,
            )
        ]
        return sorted({each for each in found if each})

    @cached_property
    def data_files(self) -> list[bytes]:
        return self._all(".lance")

    @cached_property
    def jsonb(self) -> list[bytes]:
        """Values of a JSON column as the codec stores them."""
        file = next((self.root / "json" / "data").glob("*.lance"))
        column = LanceFileReader(str(file)).read_all(batch_size=1024).to_table().column("j")
        storage = column.combine_chunks()
        if isinstance(storage, pa.ExtensionArray):
            storage = storage.storage
        return [each for each in storage.to_pylist() if each is not None]

    @cached_property
    def decoded(self) -> list[Manifest]:
        return [decode_manifest_file(each, name="corpus") for each in self.manifests]

    def _all(self, suffix: str, below: str = "") -> list[bytes]:
        return [
            data
            for files in self.tables.values()
            for path, data in files.items()
            if path.endswith(suffix) and path.startswith(below)
        ]


def sections(manifest: bytes) -> Iterator[tuple[str, bytes]]:
    """The parts of a manifest file: ``manifest``, ``index_section``, ``transaction_section``."""
    decoded = decode_manifest_file(manifest, name="corpus")
    (at,) = struct.unpack_from("<q", manifest, len(manifest) - 16)
    yield "manifest", manifest[at + 4 : len(manifest) - 16]
    if decoded.index_section is not None:
        yield "index_section", decoded.index_section
    if decoded.transaction_section is not None:
        yield "transaction_section", decoded.transaction_section


def _files(root: Path) -> Files:
    return {
        str(each.relative_to(root)): each.read_bytes()
        for each in sorted(root.rglob("*"))
        if each.is_file() and "tree" not in each.relative_to(root).parts
    }


def _simple(first: int, rows: int) -> pa.Table:
    numbers = range(first, first + rows)
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "s": pa.array([None if n % 7 == 3 else f"text {n}" for n in numbers]),
            "f": pa.array([n / 3 for n in numbers], pa.float32()),
        }
    )


def _rich(rows: int, *, null_structs: bool = True) -> pa.Table:
    numbers = range(rows)
    structs = [{"x": n, "y": [n, n + 1], "z": {"w": f"w{n}"}} for n in numbers]
    columns: dict[str, Any] = {
        "id": pa.array(numbers, pa.int32()),
        "st": pa.array([None if null_structs and n % 5 == 4 else structs[n] for n in numbers]),
        "v": pa.array([[float(n), 0.5] for n in numbers], pa.list_(pa.float32(), 2)),
        "d": pa.array([f"k{n % 3}" for n in numbers]).dictionary_encode(),
        "t": pa.array([n * 10**9 for n in numbers], pa.timestamp("us", "Europe/Berlin")),
        "n": pa.array([decimal.Decimal(n) / 4 for n in numbers], pa.decimal128(20, 2)),
        "b": pa.array([bytes([n % 256]) * n for n in numbers], pa.large_binary()),
        "o": pa.array([n % 2 == 0 for n in numbers]),
    }
    return pa.table(columns)


def _ours(root: Path) -> None:
    table = lancewood.create(
        root,
        _simple(0, 12),
        access=lancewood.Access(fsync=False),
        layout=lancewood.Layout(max_rows_per_file=5),
    )
    table = table.append(_simple(12, 6), message="more")
    table = table.set_config({"lancewood.x": "1"})
    table.set_metadata({"a": "b"})


def _ours_nested(root: Path) -> None:
    rows = _rich(7, null_structs=False)
    table = lancewood.create(
        root,
        rows,
        access=lancewood.Access(fsync=False),
        layout=lancewood.Layout(stable_row_ids=False, file_version="2.0"),
    )
    table.append(rows.slice(2, 3))


def _nested(root: Path) -> None:
    uri = str(root)
    table = lance.write_dataset(_rich(30), uri, max_rows_per_file=12)
    table.delete("id % 4 = 1")
    table.add_columns({"twice": "id * 2"})
    table.tags.create("v1", 1)


def _lively(root: Path) -> None:
    uri = str(root)
    table = lance.write_dataset(
        _simple(0, 40), uri, max_rows_per_file=9, enable_stable_row_ids=True
    )
    table.create_scalar_index("id", "BTREE")
    table.delete("id % 5 = 2")
    table.update({"s": "'new'"}, where="id > 20 AND id < 30")
    table.optimize.compact_files(target_rows_per_fragment=20)
    table = lance.write_dataset(_simple(40, 5), uri, mode="append")
    table.tags.create("before", 2)
    on_branch = table.create_branch("work", None)
    lance.write_dataset(_simple(50, 4), on_branch.uri, mode="append")
    table.tags.create("there", ("work", on_branch.version))
    table.update_config({"k": "v"})


def _many_deleted(root: Path) -> None:
    uri = str(root)
    table = lance.write_dataset(pa.table({"id": pa.array(range(11_000), pa.int32())}), uri)
    table.delete("id % 2 = 0 OR id < 900")


def _old_names(root: Path) -> None:
    uri = str(root)
    lance.write_dataset(
        _simple(0, 8), uri, enable_v2_manifest_paths=False, data_storage_version="2.0"
    )
    lance.write_dataset(_simple(8, 8), uri, mode="append").delete("id = 3")


def _json(root: Path) -> None:
    texts = [
        '{"a": 1, "b": [true, null, "x", {"c": -2.5}], "": ""}',
        "[]",
        "{}",
        '"text"',
        "null",
        "12345678901234",
        "[[[[1]]], -1, 1e300, 0]",
        None,
        '{"u": "\u00fc\u20ac", "n": {"m": {"l": [1, 2, 3]}}}',
    ]
    column = pa.array(texts, pa.json_())
    lance.write_dataset(pa.table({"j": column}), str(root), data_storage_version="2.2")


def _blobs(root: Path, version: str) -> None:
    """Bytes in both layouts, beside an ordinary column; the second keeps some in other files."""
    values = [b"", b"short", None, b"x" * 100_000, b"last"]
    field = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    schema = pa.schema([("n", pa.int32()), field])
    columns = [pa.array(range(5), pa.int32()), pa.array(values, pa.large_binary())]
    lance.write_dataset(pa.table(columns, schema=schema), str(root), data_storage_version=version)


def _indexed(root: Path) -> None:
    """A BTREE with nulls, a BITMAP and a ZONEMAP, over three fragments of which one is changed."""
    numbers = range(300)
    data = pa.table(
        {
            "i": pa.array([None if n % 50 == 7 else n % 100 for n in numbers], pa.int64()),
            "s": [f"text {n % 10}" for n in numbers],
            "z": pa.array(numbers, pa.int32()),
        }
    )
    dataset: Any = lance.write_dataset(data, str(root), max_rows_per_file=100)
    for name, kind, sizes in (
        ("i", "btree", {"zone_size": 32}),
        ("s", "bitmap", {}),
        ("z", "zonemap", {"rows_per_zone": 32}),
    ):
        dataset.create_scalar_index(name, IndexConfig(kind, sizes), name=f"{name}_idx")
    lancewood.open(root, access=lancewood.Access(fsync=False)).delete("z % 9 = 4")
