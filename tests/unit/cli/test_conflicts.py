"""How conflicts are decided on the command line, and how they are shown."""

from __future__ import annotations

import csv
import io
from datetime import date, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer

from lancewood.cli.conflicts import (
    Deciding,
    Deletes,
    Detect,
    MergeOptions,
    ShownConflicts,
    read_decisions,
    show_columns,
)
from lancewood.cli.output import Output
from lancewood.errors import AlreadyExistsError, InvalidInputError, NotFoundError
from lancewood.files.formats import FileFormat
from lancewood.jobs.merge.resolve import Resolve
from lancewood.table import Conflicts

PHOTO = pa.struct([("id", pa.int64()), ("label", pa.string()), ("seen", pa.timestamp("us"))])
SCHEMA = pa.schema(
    [
        pa.field("_conflict", pa.string(), nullable=False),
        pa.field("_kind", pa.string(), nullable=False),
        ("_rowid", pa.uint64()),
        ("_columns", pa.list_(pa.string())),
        ("key", pa.struct([("id", pa.int64())])),
        ("base", PHOTO),
        ("ours", PHOTO),
        ("theirs", PHOTO),
    ]
)


def photo(number: int, label: str | None) -> dict[str, Any]:
    return {"id": number, "label": label, "seen": None}


def conflict(
    name: str, number: int, kind: str, columns: list[str], *sides: str | None
) -> dict[str, Any]:
    values = [None if each == "gone" else photo(number, each) for each in sides]
    return {
        "_conflict": name,
        "_kind": kind,
        "_rowid": 10 * number,
        "_columns": columns,
        "key": {"id": number},
        **dict(zip(("base", "ours", "theirs"), values, strict=True)),
    }


ROWS = [
    conflict("4000000000000001", 3, "update/update", ["label"], "cat", "lion", "kitten"),
    conflict("4be1c0ffee0d1235", 7, "delete/update", ["label"], "owl", "gone", "barn owl"),
    conflict("4be1c0ffee0d1236", 9, "insert/insert", ["label"], "gone", "a", None),
]


TEXTS = ["1.10", "1E5", "2020-01-01", "true", "10:00", "NaN", "-0", "007"]
"""Texts that look like values of other types."""


class Found:
    """Conflicts as a merge would find them, in batches of one row."""

    def __init__(self, rows: list[dict[str, Any]], schema: pa.Schema = SCHEMA) -> None:
        self._table = pa.Table.from_pylist(rows, schema=schema)

    def to_reader(self) -> pa.RecordBatchReader:
        return self._table.to_reader(max_chunksize=1)

    def decided(self) -> frozenset[str]:
        return frozenset()

    @property
    def schema(self) -> pa.Schema:
        return self._table.schema

    def names(self) -> list[str]:
        found: list[str] = self._table.column("_conflict").to_pylist()
        return found


def nothing(rules: Resolve | None) -> dict[str, Conflicts]:
    return {}


def found_in(*rows: dict[str, Any], **kinds: pa.DataType) -> Found:
    """Conflicts of a table with these columns."""
    side = pa.struct([*kinds.items()])
    shown = [pa.field(each.name, side) if each.type == PHOTO else each for each in SCHEMA]
    return Found([*rows], pa.schema(shown))


def shown(
    rows: list[dict[str, Any]], *, as_json: bool = False, schema: pa.Schema = SCHEMA, **how: Any
) -> str:
    stream = io.StringIO()
    ShownConflicts(
        Found(rows, schema),
        Output(as_json=as_json, stream=stream),
        how.get("limit"),
        how.get("title"),
    ).rows()
    return stream.getvalue()


def test_a_cell_is_a_line_with_its_three_values_and_the_name_of_the_conflict() -> None:
    assert shown(ROWS).splitlines() == [
        "row   column  base       ours     theirs          conflict",
        "id=3  label   cat        lion     kitten          4000000000000001",
        "id=7  (row)   label=owl  deleted  label=barn owl  4be1c0ffee0d1235",
        "id=9  label              a        null            4be1c0ffee0d1236",
    ]


def test_a_row_without_a_key_is_shown_by_its_id() -> None:
    schema = SCHEMA.remove(SCHEMA.get_field_index("key"))
    row = {name: value for name, value in ROWS[0].items() if name != "key"}
    assert shown([row], schema=schema).splitlines()[1].startswith("_rowid=30  label")


def test_a_row_in_conflict_as_a_whole_shows_what_the_sides_changed() -> None:
    row = conflict("4be1c0ffee0d1237", 5, "update/delete", [], "dog", "wolf", "gone")
    (line,) = shown([row]).splitlines()[1:]
    told = ["id=5", "(row)", "label=dog", "label=wolf", "deleted", "4be1c0ffee0d1237"]
    assert line.split() == told


def test_programs_get_whole_conflicts_as_json_lines() -> None:
    lines = shown(ROWS[:1], as_json=True).splitlines()
    assert lines == [
        '{"_conflict": "4000000000000001", "_kind": "update/update", "_rowid": 30, "_columns": '
        '["label"], "key": {"id": 3}, "base": {"id": 3, "label": "cat", "seen": null}, "ours": '
        '{"id": 3, "label": "lion", "seen": null}, "theirs": {"id": 3, "label": "kitten", "seen": '
        "null}}"
    ]
    assert shown(ROWS[:1], as_json=True, title="photos").startswith('{"table": "photos", ')


def test_a_limit_counts_conflicts(capsys: pytest.CaptureFixture[str]) -> None:
    assert len(shown(ROWS, limit=2).splitlines()) == 3
    assert capsys.readouterr().err == "… and 1 more; --limit shows more\n"
    assert shown(ROWS, limit=0) == ""
    assert capsys.readouterr().err == ""


def test_no_conflict_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert shown([], title="photos") == ""
    assert capsys.readouterr().err == "photos: no row is in conflict\n"
    assert shown([], schema=pa.schema([])) == ""


def test_tables_stand_below_their_titles() -> None:
    assert shown(ROWS[:1], title="photos").splitlines()[0] == "photos"


def test_columns_in_conflict_are_lines() -> None:
    found = [("label", "column", "dropped", "renamed to title"), ("", "metadata", "a=1", "a=2")]
    stream = io.StringIO()
    show_columns(found, Output(as_json=False, stream=stream))
    assert stream.getvalue().splitlines() == [
        "column   kind      ours     theirs",
        "label    column    dropped  renamed to title",
        "(table)  metadata  a=1      a=2",
    ]
    stream = io.StringIO()
    show_columns(found[:1], Output(as_json=True, stream=stream), "photos")
    assert stream.getvalue() == (
        '{"table": "photos", "column": "label", "kind": "column", "ours": "dropped", '
        '"theirs": "renamed to title"}\n'
    )


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("x.csv", FileFormat.CSV),
        ("x.jsonl", FileFormat.JSONL),
        ("x.parquet", FileFormat.PARQUET),
        ("x.arrow", FileFormat.ARROW),
    ],
)
def test_a_file_of_conflicts_is_read_as_decisions(
    tmp_path: Path, name: str, kind: FileFormat
) -> None:
    path = str(tmp_path / name)
    ShownConflicts(Found(ROWS), Output(as_json=False), None).file(path, kind)
    found = read_decisions(path, {"photos": Found([])})
    assert found.schema.names[:3] == ["_conflict", "take", "_kind"]
    assert found.schema.field("_conflict").type == found.schema.field("take").type == pa.string()
    assert found.column("_conflict").to_pylist() == [each["_conflict"] for each in ROWS]
    assert found.column("take").null_count == 3
    with pytest.raises(AlreadyExistsError, match="--force"):
        ShownConflicts(Found(ROWS), Output(as_json=False), None).file(path, kind)


def test_a_name_of_digits_alone_stays_text(tmp_path: Path) -> None:
    path = tmp_path / "decide.csv"
    path.write_text("_conflict,take,label\n0000000000000012,theirs,\n4000000000000001,,fox\n")
    assert read_decisions(str(path), {}).to_pylist() == [
        {"_conflict": "0000000000000012", "take": "theirs", "label": None},
        {"_conflict": "4000000000000001", "take": None, "label": "fox"},
    ]


def test_a_file_of_no_conflicts_is_empty(tmp_path: Path) -> None:
    path = str(tmp_path / "x.parquet")
    empty = Found([], pa.schema([]))
    ShownConflicts(empty, Output(as_json=False), None).file(path, FileFormat.PARQUET)
    assert pq.read_table(path).num_rows == 0


def test_options_become_the_arguments_of_resolve(tmp_path: Path) -> None:
    assert Deciding().rules == {}
    assert not Deciding().is_any
    assert Deciding().resolve(nothing) is None
    assert Deciding(theirs=True).rules == {"rows": "theirs"}
    path = tmp_path / "decide.jsonl"
    path.write_text('{"_conflict": "4be1c0ffee0d1234", "take": "base"}\n')
    deciding = Deciding(
        base=True,
        rule=["views = ours.views + theirs.views - base.views", "*=theirs"],
        winner="theirs.time > ours.time",
        whole_rows=True,
        deletes=Deletes.LOSE,
        decisions=str(path),
        schema=["theirs", "label=keep"],
    )
    asked: list[Resolve | None] = []

    def find(rules: Resolve | None) -> dict[str, Conflicts]:
        asked.append(rules)
        return {}

    resolve = deciding.resolve(find)
    assert asked[0] is not None
    assert asked[0].schema == {"*": "theirs", "label": "keep"}
    assert resolve is not None
    assert resolve.decisions.to_pylist() == [{"_conflict": "4be1c0ffee0d1234", "take": "base"}]
    assert deciding.is_any
    assert deciding.rules == {
        "rows": "base",
        "columns": {"views": "ours.views + theirs.views - base.views", "*": "theirs"},
        "winner": "theirs.time > ours.time",
        "whole_rows": True,
        "deletes": "lose",
        "schema": {"*": "theirs", "label": "keep"},
    }
    assert Deciding(schema=["ours"]).rules == {"schema": "ours"}
    assert MergeOptions().detect is Detect.CELLS


def test_decisions_that_are_not_there_are_not_found() -> None:
    with pytest.raises(NotFoundError, match=r"nowhere\.csv"):
        Deciding(decisions="nowhere.csv").resolve(nothing)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"ours": True, "theirs": True}, "--ours and --theirs do not go together"),
        ({"rule": ["label"]}, "--rule takes NAME=SQL"),
        ({"rule": ["a=ours", "a=theirs"]}, "--rule names column 'a' twice"),
        ({"schema": ["both"]}, "--schema takes ours or theirs"),
        ({"schema": ["keep"]}, "--schema takes ours or theirs"),
        ({"schema": ["label=both"]}, "not 'label=both'"),
        ({"schema": ["=keep"]}, "not '=keep'"),
    ],
)
def test_options_that_cannot_be_are_refused(given: dict[str, Any], told: str) -> None:
    with pytest.raises(typer.BadParameter, match=told.replace("(", r"\(")):
        Deciding(**given)


def test_a_csv_of_conflicts_has_a_column_for_each_column_and_no_json(tmp_path: Path) -> None:
    path = tmp_path / "decide.csv"
    ShownConflicts(Found(ROWS), Output(as_json=False), None).file(str(path), FileFormat.CSV)
    assert not {"{", "["} & set(path.read_text())
    with path.open(newline="") as file:
        head, first, second, _ = csv.reader(file)
    sides = [f"{side}.{name}" for side in ("base", "ours", "theirs") for name in PHOTO.names]
    assert head == ["_conflict", "take", "_kind", "_rowid", "_columns", "key.id", *sides]
    told = dict(zip(head, first, strict=True))
    assert [told[each] for each in ("key.id", "base.label", "ours.label", "theirs.label")] == [
        *("3", "cat", "lion", "kitten")
    ]
    assert told["_columns"] == "label"
    assert dict(zip(head, second, strict=True))["ours.label"] == ""


def test_columns_of_sides_in_a_file_give_no_value_and_are_not_guessed_at(tmp_path: Path) -> None:
    path = tmp_path / "decide.csv"
    many = "".join(f"{each:016},,{each},,{each}\n" for each in range(5000))
    path.write_text(f"_conflict,take,ours.label,label,key.id\n{many}9000000000000012,,a b,{{}},7\n")
    found = Resolve(decisions=read_decisions(str(path), {"photos": Found([])})).decisions
    assert found.schema.names == ["_conflict", "take", "label"]
    assert found.to_pylist() == [{"_conflict": "9000000000000012", "take": None, "label": "{}"}]


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
@pytest.mark.parametrize(
    ("kind", "text", "as_json", "value"),
    [
        (pa.decimal128(38, 2), "123456789012345678.91", "123456789012345678.91", None),
        (pa.decimal128(38, 2), "123456789012345678.91", '"123456789012345678.91"', None),
        (pa.uint64(), "18446744073709551615", "18446744073709551615", 2**64 - 1),
        *((pa.string(), text, f'"{text}"', text) for text in TEXTS),
        (pa.date32(), "2021-01-02", '"2021-01-02"', date(2021, 1, 2)),
        (pa.time64("us"), "10:00:00", '"10:00:00"', time(10)),
        (pa.duration("us"), "5", "5", timedelta(microseconds=5)),
        (pa.binary(), "AA==", '"AA=="', b"\0"),
        (pa.list_(pa.int64()), '"[7, 8]"', "[7, 8]", [7, 8]),
        (pa.struct([("x", pa.int8())]), '"{""x"": 7}"', '{"x": 7}', {"x": 7}),
    ],
)
def test_a_value_in_a_file_is_read_as_its_column_has_it(
    tmp_path: Path, suffix: str, kind: pa.DataType, text: str, as_json: str, value: Any
) -> None:
    path = tmp_path / f"decide.{suffix}"
    for name in ("label", "merged.label"):
        if suffix == "csv":
            path.write_text(f"_conflict,take,{name}\na,,{text}\n")
        else:
            path.write_text(f'{{"_conflict": "a", "take": null, "{name}": {as_json}}}\n')
        found = read_decisions(str(path), {"photos": found_in(label=kind)})
        assert found.schema.field(name).type == kind
        assert found.column(name).to_pylist() == [Decimal(text) if value is None else value]


@pytest.mark.parametrize("kind", [FileFormat.CSV, FileFormat.JSONL, FileFormat.PARQUET])
def test_all_that_a_file_shows_is_read_again(tmp_path: Path, kind: FileFormat) -> None:
    path = str(tmp_path / f"decide.{kind}")
    columns = {"base": pa.uint64(), "_kind": pa.string(), "price": pa.decimal128(38, 2)}
    side = {"base": 2**64 - 1, "_kind": "1.10", "price": Decimal("123456789012345678.91")}
    row = {"_conflict": "a", "_kind": "update/update", "_columns": ["base", "price"]}
    found = found_in(row | dict.fromkeys(("base", "ours", "theirs"), side), **columns)
    ShownConflicts(found, Output(as_json=False), None).file(path, kind)
    read = read_decisions(path, {"photos": found})
    assert Resolve(decisions=read).decisions.num_rows == 0
    assert read.column("_conflict").to_pylist() == ["a"]


def test_a_value_for_a_column_that_is_called_as_what_is_shown_gets_its_type(tmp_path: Path) -> None:
    path = tmp_path / "decide.csv"
    path.write_text("_conflict,_kind,base\na,7,10:00\n")
    found = read_decisions(str(path), {"x": found_in(_kind=pa.int8(), base=pa.string())})
    assert found.to_pylist() == [{"_conflict": "a", "_kind": 7, "base": "10:00"}]
    path = tmp_path / "decide.jsonl"
    path.write_text('{"_conflict": "a", "base": 123456789012345678.91, "_kind": "7"}\n')
    kinds = {"base": pa.decimal128(38, 2), "_kind": pa.int8()}
    found = read_decisions(str(path), {"x": found_in(**kinds)})
    assert found.to_pylist() == [
        {"_conflict": "a", "base": Decimal("123456789012345678.91"), "_kind": 7}
    ]


def test_of_tables_with_other_types_that_counts_whose_conflicts_are_decided(tmp_path: Path) -> None:
    path = tmp_path / "decide.csv"
    path.write_text("_conflict,take,label\na,,1.10\n")
    row = {"_conflict": "a", "_kind": "update/update"}
    tables = {
        "words": found_in(row, label=pa.string()),
        "prices": found_in(row | {"_conflict": "b"}, label=pa.decimal128(9, 2)),
    }
    assert read_decisions(str(path), tables).column("label").to_pylist() == ["1.10"]
    path.write_text("_conflict,take,label\na,,1.10\nb,,1.20\n")
    with pytest.raises(
        InvalidInputError, match=r"'label', which has different types .* lw resolve"
    ):
        read_decisions(str(path), tables)
    path.write_text("_conflict,take,label\na,ours,\nb,theirs,\n")
    assert read_decisions(str(path), tables).column("take").to_pylist() == ["ours", "theirs"]


@pytest.mark.parametrize(("kind", "text"), [(pa.int8(), "300"), (pa.float32(), "1e39")])
def test_a_value_that_its_column_cannot_hold_is_refused_without_advice_on_imports(
    tmp_path: Path, kind: pa.DataType, text: str
) -> None:
    for suffix, written in (
        ("csv", f"_conflict,label\na,{text}\n"),
        ("jsonl", f'{{"_conflict": "a", "label": {text}}}\n'),
    ):
        path = tmp_path / f"decide.{suffix}"
        path.write_text(written)
        with pytest.raises(InvalidInputError, match=f"decide.{suffix}.*{text[:2]}") as refused:
            read_decisions(str(path), {"photos": found_in(label=kind)})
        assert not [each for each in ("--cast", "guessed") if each in refused.value.message]
