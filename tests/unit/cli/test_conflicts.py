"""How conflicts are decided on the command line, and how they are shown."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer

from lancewood.cli.merge_options import Deciding, Deletes, Detect, MergeOptions, read_decisions
from lancewood.cli.output import Output
from lancewood.cli.showing import ShownConflicts, show_columns
from lancewood.errors import AlreadyExistsError, NotFoundError
from lancewood.files.formats import FileFormat
from lancewood.jobs.uniting.resolving import Resolve

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


class Found:
    """Conflicts as a merge would find them, in batches of one row."""

    def __init__(self, rows: list[dict[str, Any]], schema: pa.Schema = SCHEMA) -> None:
        self._table = pa.Table.from_pylist(rows, schema=schema)

    def to_reader(self) -> pa.RecordBatchReader:
        return self._table.to_reader(max_chunksize=1)

    def decided(self) -> frozenset[str]:
        return frozenset()


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
    found = read_decisions(path)
    assert found.schema.names[:3] == ["_conflict", "take", "_kind"]
    assert found.schema.field("_conflict").type == found.schema.field("take").type == pa.string()
    assert found.column("_conflict").to_pylist() == [each["_conflict"] for each in ROWS]
    assert found.column("take").null_count == 3
    with pytest.raises(AlreadyExistsError, match="--force"):
        ShownConflicts(Found(ROWS), Output(as_json=False), None).file(path, kind)


def test_a_name_of_digits_alone_stays_text(tmp_path: Path) -> None:
    path = tmp_path / "decide.csv"
    path.write_text("_conflict,take,label\n0000000000000012,theirs,\n4000000000000001,,fox\n")
    assert read_decisions(str(path)).to_pylist() == [
        {"_conflict": "0000000000000012", "take": "theirs", "label": None},
        {"_conflict": "4000000000000001", "take": None, "label": "fox"},
    ]


def test_a_file_of_no_conflicts_is_empty(tmp_path: Path) -> None:
    path = str(tmp_path / "x.parquet")
    empty = Found([], pa.schema([]))
    ShownConflicts(empty, Output(as_json=False), None).file(path, FileFormat.PARQUET)
    assert pq.read_table(path).num_rows == 0


def test_options_become_the_arguments_of_resolve(tmp_path: Path) -> None:
    assert Deciding().arguments == {}
    assert Deciding(theirs=True).arguments == {"rows": "theirs"}
    path = tmp_path / "decide.jsonl"
    path.write_text('{"_conflict": "4be1c0ffee0d1234", "take": "base"}\n')
    given = Deciding(
        base=True,
        rule=["views = ours.views + theirs.views - base.views", "*=theirs"],
        winner="theirs.time > ours.time",
        whole_rows=True,
        deletes=Deletes.LOSE,
        decisions=str(path),
        schema=["theirs", "label=keep"],
    ).arguments
    assert given.pop("decisions").to_pylist() == [{"_conflict": "4be1c0ffee0d1234", "take": "base"}]
    assert given == {
        "rows": "base",
        "columns": {"views": "ours.views + theirs.views - base.views", "*": "theirs"},
        "winner": "theirs.time > ours.time",
        "whole_rows": True,
        "deletes": "lose",
        "schema": {"*": "theirs", "label": "keep"},
    }
    assert Deciding(schema=["ours"]).arguments == {"schema": "ours"}
    assert MergeOptions().detect is Detect.CELLS


def test_decisions_that_are_not_there_are_not_found() -> None:
    with pytest.raises(NotFoundError, match=r"nowhere\.csv"):
        _ = Deciding(decisions="nowhere.csv").arguments


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
    found = Resolve(decisions=read_decisions(str(path))).decisions
    assert found.schema.names == ["_conflict", "take", "label"]
    assert found.to_pylist() == [{"_conflict": "9000000000000012", "take": None, "label": "{}"}]
