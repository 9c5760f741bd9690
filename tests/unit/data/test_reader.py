"""One fragment, read by field id."""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import lancewood as lw
from lancewood.data.codec import FileReader
from lancewood.data.file_root import FileRoot
from lancewood.data.open_files import OPEN_FILES, OpenFiles
from lancewood.data.plan import plan_columns
from lancewood.data.reader import FragmentReader
from lancewood.data.writer import write_fragments
from lancewood.errors import FormatError, InvalidInputError, NotFoundError, UnsupportedError
from lancewood.format.schema import schema_from_arrow
from lancewood.model.fragment import DataFile, Fragment
from lancewood.model.ids import FieldId
from lancewood.model.schema import Field, Schema
from lancewood.store.disk import DiskStore

TABLE = pa.table(
    {
        "n": pa.array(range(1000)),
        "t": pa.array([f"text {each}" for each in range(1000)]),
        "s": pa.array([{"x": each, "y": [each]} for each in range(1000)]),
    }
)
SCHEMA = schema_from_arrow(TABLE.schema)
EMPTY = Schema(())


class Location:
    """A directory with one fragment in it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (self.fragment,) = write_fragments(
            TABLE.to_reader(), SCHEMA, file_roots=[FileRoot(DiskStore(root))]
        )
        (self.file,) = self.fragment.files
        self.path = root / "data" / self.file.path

    def locate(self, file: DataFile) -> tuple[str, Mapping[str, str] | None]:
        return str(self.root / "data" / file.path), None

    def reader(
        self,
        wanted: Schema = SCHEMA,
        fragment: Fragment | None = None,
        open_files: OpenFiles = OPEN_FILES,
    ) -> FragmentReader:
        return FragmentReader(fragment or self.fragment, wanted, self.locate, open_files=open_files)

    def with_file(self, **changes: object) -> Fragment:
        message = type(self.file.message)()
        message.CopyFrom(self.file.message)
        for name, value in changes.items():
            if isinstance(value, list):
                del getattr(message, name)[:]
                getattr(message, name).extend(value)
            else:
                setattr(message, name, value)
        return self.fragment.with_files([DataFile(message)])


@pytest.fixture
def located(tmp_path: Path) -> Location:
    return Location(tmp_path)


def test_a_range_is_read_in_batches(located: Location) -> None:
    batches = list(located.reader().batches(10, 500, 100))
    assert all(each.num_rows <= 100 for each in batches)
    assert pa.Table.from_batches(batches).equals(TABLE.slice(10, 490))
    assert list(located.reader().batches(7, 7)) == []


@pytest.mark.parametrize(("start", "stop"), [(-1, 5), (5, 4), (0, 1001), (1001, None)])
def test_a_range_outside_the_fragment_is_refused(
    located: Location, start: int, stop: int | None
) -> None:
    with pytest.raises(InvalidInputError, match="which has 1000"):
        list(located.reader().batches(start, stop))


def test_rows_are_taken_by_offset(located: Location) -> None:
    offsets = np.array([0, 3, 500, 999], dtype=np.uint32)
    assert located.reader().take(offsets).equals(TABLE.take(offsets))
    assert located.reader().take(np.array([], dtype=np.int64)).equals(TABLE.slice(0, 0))
    many = np.arange(0, 1000, 2)
    assert located.reader().take(many).combine_chunks().equals(TABLE.take(many).combine_chunks())


@pytest.mark.parametrize("offsets", [[3, 2], [2, 2], [-1], [1000]])
def test_offsets_must_rise_and_be_inside(located: Location, offsets: list[int]) -> None:
    with pytest.raises(InvalidInputError, match="must rise strictly"):
        located.reader().take(np.array(offsets))


def test_without_columns_only_rows_are_counted_and_no_file_is_opened(located: Location) -> None:
    located.path.unlink()
    batches = list(located.reader(EMPTY).batches(0, 900, 400))
    assert [(each.num_columns, each.num_rows) for each in batches] == [(0, 400), (0, 400), (0, 100)]
    assert located.reader(EMPTY).take(np.array([1, 2])).num_rows == 2


def test_an_unknown_number_of_rows_is_looked_up(located: Location) -> None:
    unknown = Fragment.make([located.file], 0)
    assert located.reader(fragment=unknown).physical_rows() == 1000
    assert pa.Table.from_batches(located.reader(fragment=unknown).batches()).equals(TABLE)
    with pytest.raises(FormatError, match="no row count"):
        located.reader(fragment=Fragment.make([], 0)).physical_rows()


def test_a_field_in_no_file_is_null_unless_it_may_not_be(located: Location) -> None:
    new = Field(FieldId(50), "new", "list", children=(Field(FieldId(51), "item", "date32:day"),))
    wanted = Schema((new, SCHEMA.fields[0]))
    found = pa.Table.from_batches(located.reader(wanted).batches())
    assert found.column_names == ["new", "n"]
    assert found["new"].null_count == 1000
    assert located.reader(Schema((new,))).take(np.array([5]))["new"].to_pylist() == [None]
    with pytest.raises(FormatError, match="'new', which may not be null"):
        located.reader(Schema((replace(new, nullable=False), SCHEMA.fields[0])))


def test_a_missing_child_is_null_inside_its_struct(located: Location) -> None:
    struct = SCHEMA.fields[2]
    extra = Field(FieldId(60), "z", "string")
    wanted = Schema((replace(struct, children=(extra, struct.children[0])),))
    found = located.reader(wanted).take(np.array([1, 2]))
    assert found["s"].to_pylist() == [{"z": None, "x": 1}, {"z": None, "x": 2}]
    with pytest.raises(FormatError, match=r"'s\.z'"):
        located.reader(
            Schema((replace(struct, children=(replace(extra, nullable=False), *struct.children)),))
        )


@pytest.mark.parametrize("dead", [-1, -2, -3, 77])
def test_dead_ids_are_passed_over(located: Location, dead: int) -> None:
    fields = [dead, *located.file.fields[1:]]
    found = pa.Table.from_batches(
        located.reader(fragment=located.with_file(fields=fields)).batches()
    )
    assert found["n"].null_count == 1000
    assert found["t"].equals(TABLE["t"])


def test_the_newest_file_wins(located: Location) -> None:
    changed = pa.table({"n": pa.array(range(1000, 2000))})
    (newer,) = write_fragments(
        changed.to_reader(),
        Schema(SCHEMA.fields[:1]),
        file_roots=[FileRoot(DiskStore(located.root))],
    )
    both = located.fragment.with_files([located.file, *newer.files])
    found = pa.Table.from_batches(located.reader(fragment=both).batches(batch_rows=64))
    assert found["n"].equals(changed["n"])
    assert found["s"].equals(TABLE["s"])


def test_files_of_different_lengths_are_refused(located: Location) -> None:
    (other,) = write_fragments(
        pa.table({"n": [1, 2]}).to_reader(),
        Schema(SCHEMA.fields[:1]),
        file_roots=[FileRoot(DiskStore(located.root))],
    )
    both = located.fragment.with_files([located.file, *other.files])
    with pytest.raises(FormatError, match="has 2 rows, fragment 0 has 1000"):
        list(located.reader(fragment=both).batches())


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"column_indices": []}, "lists 4 fields and 0 columns"),
        ({"column_indices": [0, 1, 2]}, "lists 4 fields and 3 columns"),
        ({"column_indices": [-1, 1, 2, 3]}, "without a column"),
        ({"column_indices": [0, 1, 2, 9]}, "asks for number 9"),
        ({"column_indices": [1, 0, 2, 3]}, r"has 'n' \(int64\), the file has 't' \(string\)"),
        ({"column_indices": [2, 1, 0, 3]}, r"has 'n' \(int64\), the file has 's.x'"),
        ({"fields": [0, 0, 3, 5]}, "field 0 twice"),
        ({"file_minor_version": 0}, "version 2.0"),
        ({"file_size_bytes": 5}, "the manifest says 5"),
        ({"path": "../data/x"}, "not found"),
    ],
)
def test_a_manifest_that_lies_about_a_file_is_refused(
    located: Location, changes: dict[str, object], words: str
) -> None:
    with pytest.raises((FormatError, NotFoundError), match=words):
        list(located.reader(fragment=located.with_file(**changes)).batches())


def test_a_legacy_file_is_refused_when_planning(located: Location) -> None:
    legacy = located.with_file(file_major_version=0, file_minor_version=2)
    with pytest.raises(UnsupportedError, match=r"version 0\.2"):
        plan_columns(legacy, SCHEMA)


def test_an_int64_file_under_an_int32_field_is_refused(located: Location) -> None:
    wanted = Schema((replace(SCHEMA.fields[0], logical_type="int32"),))
    with pytest.raises(FormatError, match=r"int32.*int64") as caught:
        located.reader(wanted).take(np.array([1]))
    assert located.file.path in str(caught.value)


def test_strings_are_read_as_large_strings_when_the_table_says_so(located: Location) -> None:
    wanted = Schema((replace(SCHEMA.fields[1], logical_type="large_string"),))
    found = located.reader(wanted).take(np.array([1]))
    assert found.schema.field(0).type == pa.large_string()
    assert found.to_pylist() == [{"t": "text 1"}]


def test_a_missing_file_is_named(located: Location) -> None:
    assert located.reader().take(np.array([1])).num_rows == 1
    located.path.unlink()
    for read in (
        lambda: list(located.reader().batches()),
        lambda: located.reader().take(np.array([1])),
    ):
        with pytest.raises(NotFoundError, match=located.file.path):
            read()


def test_damaged_files_are_format_errors_that_name_the_file(located: Location) -> None:
    whole = located.path.read_bytes()
    sizeless = located.with_file(file_size_bytes=0)
    damaged = [b"", b"abc", whole[:-1], whole[: len(whole) // 2], whole[100:], b"x" * len(whole)]
    damaged += [whole[:-8] + b"\x09\x00\x09\x00LANC", whole[:-16] + b"\xff" * 12 + b"LANC"]
    for each in damaged:
        located.path.write_bytes(each)
        with pytest.raises(FormatError, match=located.file.path):
            list(located.reader(fragment=sizeless).batches())
    located.path.write_bytes(whole[:-8] + b"\x00\x00\x02\x00LANC")
    with pytest.raises(UnsupportedError, match=located.file.path):
        list(located.reader(fragment=sizeless).batches())


def test_flipped_bits_give_rows_or_a_format_error_but_never_a_panic(located: Location) -> None:
    whole = located.path.read_bytes()
    dice = random.Random(3)
    failed: list[str] = []
    for _ in range(60):
        at = dice.randrange(len(whole) - 1200, len(whole))
        bad = bytearray(whole)
        bad[at] ^= 1 << dice.randrange(8)
        located.path.write_bytes(bad)
        try:
            list(located.reader().batches())
        except (FormatError, UnsupportedError) as error:
            failed.append(str(error))
    assert failed
    assert all(located.file.path in each for each in failed)


def test_a_rewritten_file_is_never_read_from_the_pool(located: Location) -> None:
    assert located.reader().take(np.array([1])).num_rows == 1
    other = Location(located.root / "other")
    os.replace(other.path, located.path)
    assert located.reader().take(np.array([1])).num_rows == 1
    located.path.write_bytes(b"")
    with pytest.raises(FormatError, match="has 0 bytes"):
        located.reader().take(np.array([1]))


def test_readers_are_kept_and_lent_to_one_user_at_a_time(located: Location) -> None:
    pool = OpenFiles(idle=3)
    reader = located.reader(open_files=pool)
    first = reader.batches(0, 1000, 10)
    second = reader.batches(0, 1000, 10)
    next(first)
    next(second)
    assert pool.idle_count == 0
    assert sum(each.num_rows for each in second) == 990
    assert pool.idle_count == 1
    first.close()  # type: ignore[attr-defined]
    assert pool.idle_count == 1
    for wanted in SCHEMA.fields:
        located.reader(Schema((wanted,)), open_files=pool).take(np.array([1]))
    assert pool.idle_count == 3
    pool.close()
    assert pool.idle_count == 0


def test_many_threads_read_the_same_fragment(located: Location) -> None:
    reader = located.reader()
    wrong: list[BaseException] = []

    def work(seed: int) -> None:
        dice = np.random.default_rng(seed)
        try:
            for _ in range(10):
                offsets = np.sort(dice.choice(1000, 50, replace=False))
                assert reader.take(offsets).equals(TABLE.take(offsets))
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(each,)) for each in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not wrong


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:lance is not fork-safe:UserWarning")
def test_a_forked_child_starts_with_an_empty_pool(located: Location) -> None:
    located.reader().take(np.array([1]))
    assert OPEN_FILES.idle_count
    child = os.fork()
    if child == 0:
        os._exit(0 if OPEN_FILES.idle_count == 0 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert OPEN_FILES.idle_count


def test_batches_of_wide_rows_are_short(tmp_path: Path) -> None:
    width = 4096
    values = pa.FixedSizeListArray.from_arrays(pa.array(np.zeros(4000 * width, np.float32)), width)
    table = pa.table({"v": values})
    schema = schema_from_arrow(table.schema)
    (fragment,) = write_fragments(
        table.to_reader(), schema, file_roots=[FileRoot(DiskStore(tmp_path))]
    )
    reader = FragmentReader(
        fragment, schema, lambda file: (str(tmp_path / "data" / file.path), None)
    )
    sizes = [each.num_rows for each in reader.batches()]
    assert sum(sizes) == 4000
    assert max(sizes) <= 512


def test_a_long_range_is_asked_for_in_stretches(
    located: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[int, int]] = []
    honest = FileReader.read

    def noted(reader: FileReader, start: int, stop: int, size: int) -> Iterator[pa.RecordBatch]:
        asked.append((start, stop))
        return honest(reader, start, stop, size)

    monkeypatch.setattr(FileReader, "read", noted)
    monkeypatch.setattr("lancewood.data.reader._STRETCH_BYTES", 1)
    found = pa.Table.from_batches(located.reader().batches(5, 900))
    assert found.equals(TABLE.slice(5, 895))
    assert asked == [(5, 261), (261, 517), (517, 773), (773, 900)]


@pytest.mark.parametrize("within", [True, False])
@pytest.mark.parametrize("batch_rows", [None, 1, 7])
def test_rows_are_picked_alone_or_with_those_between(
    located: Location, within: bool, batch_rows: int | None
) -> None:
    offsets = np.array([3, 4, 5, 90, 400, 401, 999])
    batches = list(located.reader().pick(offsets, within=within, batch_rows=batch_rows))
    assert pa.Table.from_batches(batches).combine_chunks().equals(TABLE.take(offsets))
    assert batch_rows is None or all(each.num_rows <= batch_rows for each in batches)


def test_stored_widths_are_exact_for_files_that_were_opened(located: Location) -> None:
    reader = located.reader()
    guessed = reader.stored_widths()
    assert guessed["n"] == guessed["t"] > 0
    reader.look()
    assert 0 < reader.stored_widths()["n"] < reader.stored_widths()["t"]
    assert sum(reader.stored_widths().values()) * 1000 <= located.path.stat().st_size


def test_a_file_of_many_columns_is_not_looked_through_for_each_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = 0
    is_blob_v2 = vars(Field)["is_blob_v2"].fget

    def counted(field: Field) -> bool:
        nonlocal asked
        asked += 1
        return bool(is_blob_v2(field))

    columns = 400
    data = pa.table({f"c{each}": [each] for each in range(columns)})
    made = lw.create(tmp_path / "t.lance", data)
    monkeypatch.setattr(Field, "is_blob_v2", property(counted))
    assert made.to_arrow() == data
    assert asked < 40 * columns
