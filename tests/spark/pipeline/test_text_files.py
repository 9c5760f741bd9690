"""CSV and JSON in a pipeline: what is in a file is in the table, or is told.

The judge of what is in a file is ``lw table import``, which reads it with Arrow.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.spark.pipeline.frames_scene import Scene, target
from tests.text_cases import AWKWARD, BROKEN, CASES, KEPT, LOST, ONE_COLUMN, TYPES
from typer.testing import CliRunner

import lancewood as lw
from lancewood.cli.main import app
from lancewood.errors import InvalidInputError

TABLES = [(AWKWARD, "a STRING, b LONG"), (ONE_COLUMN, "a STRING")]
SOME = "[quarantine]\nmost_rows = 10\n"


@pytest.fixture
def scene(spark: Any, tmp_path: Path) -> Scene:
    return Scene(spark, tmp_path / "zoo")


def source(kind: str, path: str, options: str = "", schema: str = "a STRING, b LONG") -> str:
    header = ["header = true"] if kind == "csv" else []
    said = ", ".join([*header, *([options] if options else [])])
    return (
        f'[sources.drops]\nformat = "{kind}"\npath = "{path}"\nschema = "{schema}"\n'
        f"options = {{ {said} }}\n{target('drops')}{SOME}"
    )


def read(scene: Scene, text: str) -> tuple[list[dict[str, Any]], list[tuple[str, Any, str]]]:
    """The good rows, and of the bad ones reason, line and text."""
    with scene.frames(text) as frames:
        frames.check()
        good = [row.asDict() for row in frames.frame("drops").collect()]
        found = frames.bad_rows()
        assert found is not None
        bad = [(r.reason, r.line, json.loads(r.record).get("text")) for r in found.collect()]
    return good, sorted(bad, key=repr)


def lw_ok(*args: object) -> None:
    """Run ``lw``, which has to succeed."""
    words = [str(each) for each in args]
    assert CliRunner().invoke(app, words, catch_exceptions=False).exit_code == 0


def imported(folder: Path, name: str, *options: str) -> list[dict[str, Any]]:
    """What ``lw table import`` makes of a file; fails where that refuses it."""
    table = str(folder / f"{name}.lance")
    lw_ok("table", "import", table, folder / name, *options)
    found: list[dict[str, Any]] = lw.open(table).to_arrow().to_pylist()
    return found


@pytest.mark.sliced(2)
@pytest.mark.parametrize("case", CASES)
def test_file_has_the_rows_that_import_finds(scene: Scene, case: str) -> None:
    kind, data, rows = CASES[case]
    (scene.folder / f"f.{kind}").write_bytes(data)
    casts = ("--cast", "a:string", "--cast", "b:int64")
    by_import = imported(scene.folder, f"f.{kind}", *casts)
    assert [{name: row[name] for name in ("a", "b")} for row in by_import] == rows
    assert read(scene, source(kind, f"f.{kind}")) == (rows, [])


@pytest.mark.sliced(2, at=1)
@pytest.mark.parametrize("case", BROKEN)
def test_what_cannot_be_read_is_told_and_nothing_of_it_is_a_good_row(
    scene: Scene, case: str
) -> None:
    kind, data, why = BROKEN[case]
    (scene.folder / f"f.{kind}").write_bytes(data)
    good, bad = read(scene, source(kind, f"f.{kind}"))
    assert not [row for row in good if row["a"] != "x"]
    assert any(why in reason for reason, _, _ in bad), bad


@pytest.mark.sliced(2, at=1)
@pytest.mark.parametrize("kind", ["csv", "json"])
def test_value_that_its_column_would_not_keep_is_told_as_import_tells_it(
    scene: Scene, kind: str
) -> None:
    def written(row: Mapping[str, object]) -> str:
        if kind == "csv":
            return ",".join("" if each is None else str(each) for each in row.values())
        numbers = {"price", "ratio", "size"}
        texts = (f'"{n}": {v if n in numbers else json.dumps(v)}' for n, v in row.items())
        return "{" + ", ".join(texts).replace("None", "null") + "}"

    lost = [written({**KEPT[0], column: text}) for text, (column, _) in LOST.items()]
    head = [",".join(TYPES)] if kind == "csv" else []
    scene.write(f"f.{kind}", "\n".join([*head, *map(written, KEPT), *lost]) + "\n")
    schema = ", ".join(f"{name} {sql}" for name, (sql, _) in TYPES.items())
    good, bad = read(scene, source(kind, f"f.{kind}", schema=schema))
    assert [reason for reason, _, _ in bad] == sorted(reason for _, reason in LOST.values())
    casts = [word for name, (_, kind) in TYPES.items() for word in ("--cast", f"{name}:{kind}")]
    scene.write(f"kept.{kind}", "\n".join([*head, *map(written, KEPT)]) + "\n")
    assert imported(scene.folder, f"kept.{kind}", *casts) == good
    for at, line in enumerate(lost):
        scene.write(f"{at}.{kind}", "\n".join([*head, line]) + "\n")
        words = [
            "table",
            "import",
            str(scene.folder / "lost.lance"),
            str(scene.folder / f"{at}.{kind}"),
        ]
        assert CliRunner().invoke(app, [*words, *casts]).exit_code != 0, line


@pytest.mark.sliced(2)
@pytest.mark.parametrize(("rows", "schema"), TABLES)
@pytest.mark.parametrize("kind", ["csv", "jsonl", "tsv"])
def test_exported_table_comes_back_as_it_was(
    scene: Scene, rows: pa.Table, schema: str, kind: str
) -> None:
    lw.create(scene.folder / "t.lance", rows)
    name = f"t.{kind}"
    lw_ok("table", "export", scene.folder / "t.lance", scene.folder / name)
    casts = ("--cast", "b:int64") if "b" in rows.column_names else ()
    assert imported(scene.folder, name, *casts) == rows.to_pylist()
    format = "json" if kind == "jsonl" else "csv"
    options = 'sep = "\\t"' if kind == "tsv" else ""
    assert read(scene, source(format, name, options, schema)) == (rows.to_pylist(), [])


def test_large_files_that_spark_cuts_are_read_whole_and_in_order(scene: Scene) -> None:
    """Quoted line ends at every place where a file may be cut; small files beside the large."""
    confs = {"spark.sql.files.maxPartitionBytes": "1000", "spark.sql.files.openCostInBytes": "100"}
    before = {name: scene.spark.conf.get(name) for name in confs}
    large = "".join(f'{n},"x\n""{n}""\n\n"\n' for n in range(400))
    scene.write("in/large.csv", "b,a\n" + large)
    scene.write("in/other.csv", "a,b\n" + "".join(f"y,{n}\n" for n in range(1000, 1300)))
    scene.write("in/small.csv", "a,b\nz,9999\n")
    for name, value in confs.items():
        scene.spark.conf.set(name, value)
    try:
        good, bad = read(scene, source("csv", "in"))
    finally:
        for name, value in before.items():
            scene.spark.conf.set(name, value)
    wanted = [(n, f'x\n"{n}"\n\n') for n in range(400)]
    wanted += [(n, "y") for n in range(1000, 1300)] + [(9999, "z")]
    assert sorted((row["b"], row["a"]) for row in good) == wanted
    assert bad == []


def test_without_line_ends_in_quotes_files_are_cut_and_columns_go_by_name_all_the_same(
    scene: Scene,
) -> None:
    name = "spark.sql.files.maxPartitionBytes"
    before = scene.spark.conf.get(name)
    scene.write("in/a.csv", "b,a\n" + "".join(f'{n},"x{n}"\n' for n in range(300)) + 'q,"\n')
    scene.write("in/b.csv", "p,q\n1,2\n")
    scene.spark.conf.set(name, "1000")
    try:
        text = source("csv", "in", "multiLine = false")
        good, bad = read(scene, text)
        with scene.frames(text) as frames:
            assert frames.frame("drops").rdd.getNumPartitions() > 2
    finally:
        scene.spark.conf.set(name, before)
    assert sorted((row["b"], row["a"]) for row in good) == [(n, f"x{n}") for n in range(300)]
    misfit = "the header of the file has p, q, and the schema has a, b"
    open_quote = "a quote is never closed in its line, and the source says multiLine = false"
    assert bad == [(open_quote, 302, 'q,"'), (misfit, 1, "p,q"), (misfit, 2, "1,2")]


@pytest.mark.parametrize(
    ("data", "options", "row"),
    [
        ('b,a\n1,"x, y"\n "2",z\n', "ignoreLeadingWhiteSpace = true", {"a": "z", "b": 2}),
        ('b,a\n1, "x, y"\n2,z\n', "ignoreLeadingWhiteSpace = true", {"a": "x, y", "b": 1}),
        ("b,a\n#note\n1,#x\n2,y\n", 'comment = "#"', {"a": "#x", "b": 1}),
    ],
)
def test_values_stay_in_their_columns_where_these_come_in_another_order(
    scene: Scene, data: str, options: str, row: dict[str, Any]
) -> None:
    scene.write("f.csv", data)
    good, bad = read(scene, source("csv", "f.csv", options))
    assert row in good
    assert (len(good), bad) == (2, [])


@pytest.mark.sliced(2)
@pytest.mark.parametrize("kind", ["csv", "json"])
@pytest.mark.parametrize("encoding", ["UTF-16", "utf-16-le"])
def test_wide_file_that_spark_cuts_is_read_whole(scene: Scene, kind: str, encoding: str) -> None:
    name = "spark.sql.files.maxPartitionBytes"
    before = scene.spark.conf.get(name)
    lines = [
        f"{n},\u0a0a{n}" if kind == "csv" else f'{{"b": {n}, "a": "\u0a0a{n}"}}' for n in range(300)
    ]
    text = "\n".join([*(["b,a"] if kind == "csv" else []), *lines])
    (scene.folder / f"f.{kind}").write_bytes(text.encode(encoding))
    scene.spark.conf.set(name, "1000")
    try:
        good, bad = read(
            scene, source(kind, f"f.{kind}", f'encoding = "{encoding}", multiLine = false')
        )
    finally:
        scene.spark.conf.set(name, before)
    assert bad == []
    assert [(row["b"], row["a"]) for row in good] == [(n, f"\u0a0a{n}") for n in range(300)]


def test_what_is_no_encoding_of_texts_is_refused_with_names_of_some(scene: Scene) -> None:
    scene.write("f.csv", "a,b\nx,1\n")
    for encoding in ("rot13", "hex", "utf-99"):
        with (
            scene.frames(source("csv", "f.csv", f'encoding = "{encoding}"')) as frames,
            pytest.raises(InvalidInputError, match=f"encoding '{encoding}' is not known"),
        ):
            frames.check()


def test_quote_that_takes_in_the_rest_of_a_file_is_more_bad_rows_than_ten(scene: Scene) -> None:
    scene.write("f.csv", 'a,b\nx,1\n"open,2\n' + "".join(f"y,{n}\n" for n in range(3, 50)))
    good, bad = read(scene, source("csv", "f.csv"))
    assert good == [{"a": "x", "b": 1}]
    assert sorted(line for _, line, _ in bad) == list(range(3, 51))


def test_file_with_another_header_is_bad_as_a_whole_and_the_others_are_not(scene: Scene) -> None:
    scene.write("in/1.csv", "A,b\nAda,1\n")
    scene.write("in/2.csv", "b,a\n2,Grace\n")
    scene.write("in/3.csv", "price,colour\n17,red\n18,blue\n")
    good, bad = read(scene, source("csv", "in"))
    assert sorted(good, key=repr) == [{"a": "Ada", "b": 1}, {"a": "Grace", "b": 2}]
    why = "the header of the file has price, colour, and the schema has a, b"
    assert bad == [(why, 1, "price,colour"), (why, 2, "17,red"), (why, 3, "18,blue")]


def test_two_json_values_on_a_line_are_a_bad_row(scene: Scene) -> None:
    lines = ('{"a": "1"}', '{"a": "2"} {"a": "3"}', '[{"a": "4"}, {"a": "5"}]', "{'a': \"6\"}")
    scene.write("f.json", "\n".join(lines))
    good, bad = read(scene, source("json", "f.json"))
    assert [row["a"] for row in good] == ["1", "4", "5"]
    assert bad == [
        ("does not parse as json with this schema", 4, "{'a': \"6\"}"),
        ("has more than one JSON value in a line", 2, '{"a": "2"} {"a": "3"}'),
    ]


def test_sparks_own_options_are_there_by_their_names(scene: Scene) -> None:
    """Other quotes and separators, comments, nulls, formats, encodings, and what JSON may be."""
    scene.write("1.csv", "#note\na;b\n'x\\'y';1,5\nNA;\n")
    text = source(
        "csv",
        "1.csv",
        'sep = ";", quote = "\'", escape = "\\\\", comment = "#", nullValue = "NA", '
        'locale = "de-DE"',
        "a STRING, b DECIMAL(3,1)",
    )
    good, bad = read(scene, text)
    assert [(row["a"], str(row["b"])) for row in good] == [("x'y", "1.5"), (None, "None")]
    assert bad == []
    for encoding in ("ISO-8859-1", "UTF-16"):
        (scene.folder / "2.csv").write_bytes("a,b\ncafé,1\n".encode(encoding))
        said = source("csv", "2.csv", f'encoding = "{encoding}"')
        assert read(scene, said) == ([{"a": "café", "b": 1}], [])
    scene.write("3.json", '[\n{"a": "x",\n"b": 1}\n,{"a": "y"}]\n')
    good, bad = read(scene, source("json", "3.json", "multiLine = true"))
    assert ([(row["a"], row["b"]) for row in good], bad) == ([("x", 1), ("y", None)], [])
    scene.write("4.json", "{'a': 'x', 'b': 1} // one\n")
    lenient = source("json", "4.json", "allowSingleQuotes = true, allowComments = true")
    assert read(scene, lenient) == ([{"a": "x", "b": 1}], [])
    scene.write("5.csv", "a,b\nx,31/12/2025\n")
    dated = source("csv", "5.csv", 'dateFormat = "dd/MM/yyyy"', "a STRING, b DATE")
    assert str(read(scene, dated)[0][0]["b"]) == "2025-12-31"
    scene.write("6.csv", "a,b\nx,1\ny,two\n")
    dropped = source("csv", "6.csv", 'mode = "DROPMALFORMED"')
    with scene.frames(dropped) as frames:
        assert [tuple(row) for row in frames.frame("drops").collect()] == [("x", 1)]


def test_without_a_schema_names_are_those_of_one_header_and_others_end_the_run(
    scene: Scene,
) -> None:
    scene.write("in/1.csv", 'a,b\n"x ""y""",1\n')
    scene.write("in/2.csv", "b,a\n2,z\n")
    text = (
        '[sources.drops]\nformat = "csv"\npath = "in"\n'
        f"options = {{ header = true }}\n{target('drops')}"
    )
    with scene.frames(text) as frames:
        rows = sorted((row.a, row.b) for row in frames.frame("drops").collect())
    assert rows == [('x "y"', "1"), ("z", "2")]
    scene.write("in/3.csv", "p,q\n3,z\n")
    with (
        scene.frames(text) as frames,
        pytest.raises(Exception, match="header of the file has p, q"),
    ):
        frames.frame("drops").collect()


def test_compressed_files_are_read_by_their_names(scene: Scene) -> None:
    (scene.folder / "in").mkdir()
    (scene.folder / "in" / "1.csv.gz").write_bytes(gzip.compress(b'a,b\n"x\ny",1\n'))
    (scene.folder / "in" / "2.csv").write_bytes(gzip.compress(b"a,b\nz,2\n"))
    good, bad = read(scene, source("csv", "in"))
    assert good == [{"a": "x\ny", "b": 1}]
    assert [reason for reason, _, _ in bad] == [
        "the file is compressed with gzip, and its name does not end in .gz"
    ]
