"""Small fragments, read whole: the same rows and the same errors as in the ordinary way."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from lancewood.data import codec
from lancewood.data.file_root import FileRoot
from lancewood.data.open_files import OpenFiles
from lancewood.data.reader import FragmentReader
from lancewood.data.small_fragments import SmallFragments
from lancewood.data.wanted import WantedColumns
from lancewood.data.writer import write_fragments
from lancewood.errors import FormatError, LancewoodError, NotFoundError
from lancewood.format.schema import schema_from_arrow
from lancewood.model.fragment import DataFile, Fragment
from lancewood.model.ids import FieldId
from lancewood.model.schema import Schema
from lancewood.store.disk import DiskStore

TABLE = pa.table(
    {
        "a": pa.array(range(30)),
        "b": pa.array(range(100, 130)),
        "t": pa.array([f"text {each}" for each in range(30)]),
        "s": pa.array([{"x": each, "y": [each]} for each in range(30)]),
    }
)
SCHEMA = schema_from_arrow(TABLE.schema)


class Location:
    """A directory with fragments of ten rows."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.fragments = write_fragments(
            TABLE.to_reader(), SCHEMA, file_roots=[FileRoot(DiskStore(root))], max_rows=10
        )
        self.open_files = OpenFiles()

    def locate(self, file: DataFile) -> tuple[str, Mapping[str, str] | None]:
        return str(self.root / "data" / file.path), None

    def ordinary(self, fragment: Fragment, wanted: WantedColumns) -> FragmentReader:
        return FragmentReader(fragment, wanted, self.locate, open_files=OpenFiles())

    def small(self, wanted: Schema = SCHEMA) -> SmallFragments:
        return SmallFragments(
            WantedColumns(wanted), self.locate, self.ordinary, open_files=self.open_files
        )

    def path(self, number: int) -> Path:
        return self.root / "data" / self.fragments[number].files[0].path


@pytest.fixture
def located(tmp_path: Path) -> Location:
    return Location(tmp_path)


def part(*names: str) -> Schema:
    return Schema(tuple(SCHEMA.by_name[each] for each in names))


@pytest.mark.parametrize("wanted", [SCHEMA, part("b"), part("s", "a"), Schema(())])
def test_rows_are_those_of_the_ordinary_reader(located: Location, wanted: Schema) -> None:
    reader = located.small(wanted)
    for fragment in located.fragments:
        assert reader.size(fragment) is not None
        found = reader.read(fragment)
        (expected,) = located.ordinary(fragment, WantedColumns(wanted)).batches()
        assert found.equals(expected)
        assert found.schema.equals(expected.schema, check_metadata=True)
        assert found.num_rows == 10


def test_ids_decide_where_names_were_exchanged(located: Location) -> None:
    a, b = SCHEMA.by_name["a"], SCHEMA.by_name["b"]
    exchanged = Schema((replace(a, name="b"), replace(b, name="a")))
    found = located.small(exchanged).read(located.fragments[0])
    assert found.to_pydict() == {"b": list(range(10)), "a": list(range(100, 110))}


def test_a_column_that_no_file_holds_is_null(located: Location) -> None:
    free = FieldId(max(each.id for each in SCHEMA.walk()) + 1)
    late = replace(SCHEMA.by_name["a"], name="late", id=free)
    for wanted in (Schema((late,)), Schema((*part("b").fields, late))):
        found = located.small(wanted).read(located.fragments[1])
        assert found.column("late").null_count == 10
        assert found.num_rows == 10


def test_errors_are_those_of_the_ordinary_reader(located: Location) -> None:
    located.path(0).unlink()
    located.path(1).write_bytes(located.path(1).read_bytes()[:-7])
    wrong = located.fragments[2]
    message = type(wrong.message)()
    message.CopyFrom(wrong.message)
    message.physical_rows = 11
    for fragment, kind in (
        (located.fragments[0], NotFoundError),
        (located.fragments[1], FormatError),
        (Fragment(message), FormatError),
    ):
        with pytest.raises(LancewoodError) as ordinary:
            list(located.ordinary(fragment, WantedColumns(SCHEMA)).batches())
        with pytest.raises(kind) as found:
            located.small().read(fragment)
        assert str(found.value) == str(ordinary.value)


def test_bytes_that_are_no_data_file_are_refused(located: Location) -> None:
    path = located.path(0)
    path.write_bytes(bytes(path.stat().st_size))
    with pytest.raises(FormatError, match=path.name):
        located.small().read(located.fragments[0])


def test_readers_of_few_files_are_kept_for_the_next_scan(
    located: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lancewood.data.small_fragments._KEPT_OPEN", 2)
    reader = located.small()
    for fragment in located.fragments:
        reader.read(fragment)
    assert located.open_files.idle_count == 2


def test_a_fragment_without_recorded_sizes_is_not_small(located: Location) -> None:
    fragment = located.fragments[0]
    assert located.small().size(fragment) is not None
    for change in ("rows", "size"):
        message = type(fragment.message)()
        message.CopyFrom(fragment.message)
        if change == "rows":
            message.physical_rows = 0
        else:
            message.files[0].file_size_bytes = 0
        assert located.small().size(Fragment(message)) is None


def test_values_that_expand_in_memory_are_not_taken_for_small_again(tmp_path: Path) -> None:
    same = pa.table({"t": pa.array(["x" * 500_000] * 20)})
    schema = schema_from_arrow(same.schema)
    located = Location(tmp_path)
    fragments = write_fragments(
        same.to_reader(), schema, file_roots=[FileRoot(DiskStore(tmp_path))], max_rows=10
    )
    reader = located.small(schema)
    assert reader.size(fragments[1]) is not None
    assert reader.read(fragments[0]).num_rows == 10
    assert reader.size(fragments[1]) is None


def test_narrow_columns_of_a_large_file_are_small(tmp_path: Path) -> None:
    noise = np.random.default_rng(1)
    rows = pa.table(
        {"n": range(600), "wide": pa.array([noise.bytes(3_000) for _ in range(600)], pa.binary())}
    )
    schema = schema_from_arrow(rows.schema)
    located = Location(tmp_path)
    (fragment,) = write_fragments(
        rows.to_reader(), schema, file_roots=[FileRoot(DiskStore(tmp_path))]
    )
    assert located.small(schema).size(fragment) is None
    narrow = located.small(Schema(schema.fields[:1]))
    assert narrow.size(fragment) == 600 * 8
    assert narrow.read(fragment)["n"].to_pylist() == [*range(600)]


def test_only_so_many_clients_of_directories_are_kept(
    located: Location, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sessions = codec._Sessions(most=3)
    monkeypatch.setattr(codec, "_SESSIONS", sessions)
    for number in range(10):
        directory = tmp_path / f"copy {number}"
        directory.mkdir()
        copy = directory / "x.lance"
        os.link(located.path(0), copy)
        assert codec.open_reader(str(copy), ["a"], None).facts.num_rows == 10
    assert len(sessions._kept) == 3
    before = list(sessions._kept.values())
    sessions.after_fork()
    assert not sessions._kept
    assert sessions._orphans == before
    assert codec.open_reader(str(copy), ["a"], None).facts.num_rows == 10
