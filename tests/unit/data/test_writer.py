"""Rows into files, and nothing left behind when that fails."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from lancewood.data.file_root import FileRoot, new_data_file_name
from lancewood.data.local_copy import readable_location
from lancewood.data.reader import FragmentReader
from lancewood.data.writer import write_fragments
from lancewood.errors import InvalidInputError, StorageError, UnsupportedError
from lancewood.format.schema import schema_from_arrow
from lancewood.model.fragment import Fragment
from lancewood.model.schema import Schema
from lancewood.store.base import Store
from lancewood.store.disk import DiskStore
from lancewood.store.memory import MemoryStore

NUMBERS = pa.schema([("n", pa.int64())])
SCHEMA = schema_from_arrow(NUMBERS)


def numbers(*sizes: int) -> pa.RecordBatchReader:
    batches, at = [], 0
    for size in sizes:
        batches.append(pa.record_batch({"n": pa.array(range(at, at + size), pa.int64())}))
        at += size
    return pa.RecordBatchReader.from_batches(NUMBERS, batches)


def read(store: Store, fragments: Sequence[Fragment], schema: Schema) -> pa.Table:
    def one(fragment: Fragment) -> pa.Table:
        reader = FragmentReader(
            fragment, schema, lambda file: (readable_location(store, f"data/{file.path}"), None)
        )
        return pa.Table.from_batches(reader.batches(), reader.schema)

    return pa.concat_tables([one(each) for each in fragments])


class SpyStore(DiskStore):
    """A disk that counts its syncs and can refuse the next one."""

    refuses = False

    def sync(self, keys: Sequence[str]) -> None:
        self.synced = [*getattr(self, "synced", []), list(keys)]
        if self.refuses:
            raise StorageError("the disk is on fire")
        super().sync(keys)


def test_a_name_is_24_binary_and_26_hexadecimal_digits() -> None:
    found = {new_data_file_name() for _ in range(50)}
    assert len(found) == 50
    assert all(re.fullmatch(r"[01]{24}[0-9a-f]{26}\.lance", each) for each in found)


@pytest.mark.parametrize("sizes", [(10,), (1,) * 10, (3, 0, 7), (4, 4, 2)])
def test_rows_are_split_exactly(tmp_path: Path, sizes: tuple[int, ...]) -> None:
    store = SpyStore(tmp_path)
    fragments = write_fragments(numbers(*sizes), SCHEMA, file_roots=[FileRoot(store)], max_rows=4)
    assert [each.physical_rows for each in fragments] == [4, 4, 2]
    assert read(store, fragments, SCHEMA)["n"].to_pylist() == list(range(10))
    assert store.synced == [[f"data/{each.files[0].path}" for each in fragments]]
    for each in fragments:
        (file,) = each.files
        assert (file.fields, file.column_indices, file.version) == ((0,), (0,), (2, 2))
        assert file.size == (tmp_path / "data" / file.path).stat().st_size


def test_bytes_bound_a_file_and_a_row_is_never_cut(tmp_path: Path) -> None:
    store = DiskStore(tmp_path)
    fragments = write_fragments(numbers(100), SCHEMA, file_roots=[FileRoot(store)], max_bytes=80)
    assert [each.physical_rows for each in fragments] == [10] * 10
    assert read(store, fragments, SCHEMA)["n"].to_pylist() == list(range(100))
    wide = write_fragments(numbers(3), SCHEMA, file_roots=[FileRoot(store)], max_bytes=1)
    assert [each.physical_rows for each in wide] == [1, 1, 1]


def test_rows_of_uneven_width_stay_below_the_bytes(tmp_path: Path) -> None:
    table = pa.table({"s": ["x" * (1000 if n % 10 == 0 else 1) for n in range(100)]})
    schema = schema_from_arrow(table.schema)
    store = DiskStore(tmp_path)
    fragments = write_fragments(
        table.to_reader(), schema, file_roots=[FileRoot(store)], max_bytes=2500
    )
    assert read(store, fragments, schema).equals(table)
    at = 0
    for each in fragments:
        assert table.slice(at, each.physical_rows).nbytes <= 2500
        at += each.physical_rows


@pytest.mark.parametrize("sizes", [(), (0,), (0, 0)])
def test_no_rows_make_no_file_and_no_fragment(tmp_path: Path, sizes: tuple[int, ...]) -> None:
    assert (
        write_fragments(numbers(*sizes), SCHEMA, file_roots=[FileRoot(DiskStore(tmp_path))]) == []
    )
    assert not list(tmp_path.rglob("*.lance"))


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_ids_are_listed_as_the_version_asks(tmp_path: Path, version: str) -> None:
    kind = pa.struct([("c", pa.list_(pa.int32())), ("d", pa.int32())])
    table = pa.table({"a": [1], "b": pa.array([{"c": [1], "d": 2}], kind)})
    schema = schema_from_arrow(table.schema, first_id=1)
    store = DiskStore(tmp_path)
    (fragment,) = write_fragments(
        table.to_reader(), schema, file_roots=[FileRoot(store)], file_version=version
    )
    (file,) = fragment.files
    ids = (1, 2, 3, 4, 5) if version == "2.0" else (1, 4, 5)
    assert (file.fields, file.column_indices) == (ids, tuple(range(len(ids))))
    assert read(store, [fragment], schema).equals(table)


@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_slices_of_nested_columns_are_written_whole(tmp_path: Path, version: str) -> None:
    inner = pa.struct([("x", pa.int32()), ("t", pa.list_(pa.string()))])
    values = [None if n % 7 == 3 else {"x": n, "t": [str(n)] * (n % 3)} for n in range(5000)]
    table = pa.table(
        {
            "s": pa.array(values, inner),
            "l": pa.array([[each] * (n % 3) for n, each in enumerate(values)], pa.list_(inner)),
            "n": pa.array(range(5000)),
        }
    ).slice(1234, 3000)
    schema = schema_from_arrow(table.schema)
    store = DiskStore(tmp_path)
    fragments = write_fragments(
        table.to_reader(max_chunksize=700),
        schema,
        file_roots=[FileRoot(store)],
        file_version=version,
        max_rows=999,
    )
    assert read(store, fragments, schema).equals(table)


def test_a_store_in_memory_holds_the_files_too() -> None:
    store = MemoryStore()
    fragments = write_fragments(numbers(10), SCHEMA, file_roots=[FileRoot(store)], max_rows=4)
    assert len(list(store.list("data"))) == 3
    assert read(store, fragments, SCHEMA)["n"].to_pylist() == list(range(10))


class Interrupted(BaseException):
    """Something that no handler of errors expects."""


@pytest.mark.parametrize("problem", [ValueError, Interrupted])
@pytest.mark.parametrize("in_memory", [True, False])
def test_an_error_in_the_stream_leaves_no_file(
    tmp_path: Path, problem: type[BaseException], in_memory: bool
) -> None:
    store: Store = MemoryStore() if in_memory else DiskStore(tmp_path)

    def batches() -> Iterator[pa.RecordBatch]:
        yield from numbers(10)
        raise problem("the source broke")

    class Source:
        """A stream that breaks while it is read, outside of Arrow's own error handling."""

        schema = NUMBERS

        def __iter__(self) -> Iterator[pa.RecordBatch]:
            return batches()

    with pytest.raises(problem, match="the source broke"):
        write_fragments(Source(), SCHEMA, file_roots=[FileRoot(store)], max_rows=4)
    assert not list(store.list())
    assert not [each for each in tmp_path.rglob("*") if each.is_file()]


def test_a_failing_sync_leaves_no_file(tmp_path: Path) -> None:
    store = SpyStore(tmp_path)
    store.refuses = True
    with pytest.raises(StorageError, match="on fire"):
        write_fragments(numbers(10), SCHEMA, file_roots=[FileRoot(store)], max_rows=4)
    assert not list(tmp_path.rglob("*.lance"))


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (pa.table({"n": pa.array([1], pa.int32())}), "int32"),
        (pa.table({"m": [1]}), "'m' is not in the table"),
        (pa.table({"n": [1], "m": [1]}), "'m' is not in the table"),
    ],
)
def test_rows_that_do_not_fit_never_reach_the_codec(
    tmp_path: Path, table: pa.Table, words: str
) -> None:
    with pytest.raises(InvalidInputError, match=words):
        write_fragments(table.to_reader(), SCHEMA, file_roots=[FileRoot(DiskStore(tmp_path))])
    assert not list(tmp_path.rglob("*.lance"))


def test_malformed_json_is_refused_and_leaves_no_file(tmp_path: Path) -> None:
    table = pa.table({"j": pa.array(["{oops"], pa.json_())})
    with pytest.raises(InvalidInputError, match="JSON"):
        write_fragments(
            table.to_reader(),
            schema_from_arrow(table.schema),
            file_roots=[FileRoot(DiskStore(tmp_path))],
        )
    assert not list(tmp_path.rglob("*.lance"))


@pytest.mark.parametrize(
    ("field", "version", "words"),
    [
        (pa.field("c", pa.map_(pa.string(), pa.int8())), "2.1", "a map"),
        (pa.field("c", pa.list_(pa.struct([("x", pa.int8())]), 2)), "2.0", "list of structs"),
        (
            pa.field("c", pa.large_binary(), metadata={"lance-encoding:blob": "true"}),
            "2.2",
            "a blob",
        ),
    ],
)
def test_what_a_version_cannot_hold_is_named(
    tmp_path: Path, field: pa.Field, version: str, words: str
) -> None:
    table = pa.schema([field]).empty_table()
    schema = schema_from_arrow(table.schema)
    with pytest.raises(UnsupportedError, match=f"'c' is {words}|'c' is a fixed-size {words}"):
        write_fragments(
            table.to_reader(),
            schema,
            file_roots=[FileRoot(DiskStore(tmp_path))],
            file_version=version,
        )


@pytest.mark.parametrize("version", ["2.3", "0.1", "stable", "2"])
def test_other_versions_are_not_written(tmp_path: Path, version: str) -> None:
    with pytest.raises(UnsupportedError, match=re.escape(repr(version))):
        write_fragments(
            numbers(1), SCHEMA, file_roots=[FileRoot(DiskStore(tmp_path))], file_version=version
        )


def test_limits_must_be_positive(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="positive"):
        write_fragments(numbers(1), SCHEMA, file_roots=[FileRoot(DiskStore(tmp_path))], max_rows=0)
