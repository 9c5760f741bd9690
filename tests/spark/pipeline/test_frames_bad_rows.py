"""Good rows and bad ones, from one evaluation, and when a bad row is an error instead."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.spark.pipeline.frames_scene import Scene, target, values

from lancewood.errors import InvalidInputError, LancewoodError
from lancewood.pipeline.frames.frames import Frames
from lancewood.pipeline.frames.refusals import failed

CSV = '[sources.animals]\nformat = "csv"\npath = "in"\nschema = "id LONG, name STRING"\n'
SOME = "[quarantine]\nmost_rows = 10\n"


@pytest.fixture
def scene(spark: Any, tmp_path: Path) -> Scene:
    return Scene(spark, tmp_path / "zoo")


def bad(frames: Frames) -> list[tuple[str, str, Any]]:
    rows = frames.bad_rows()
    assert rows is not None
    assert rows.columns == ["origin", "reason", "file", "line", "record"]
    found = [(row.origin, row.reason, json.loads(row.record)) for row in rows.collect()]
    return sorted(found, key=repr)


@pytest.mark.sliced(2)
@pytest.mark.parametrize(
    ("kind", "lines", "broken"),
    [
        ("csv", "1,ant\nx,bee\n3,cat\n", "x,bee"),
        ("json", '{"id": 1, "name": "ant"}\n{"id": \n{"id": 3}\n', '{"id":'),
    ],
)
@pytest.mark.parametrize("limit", [SOME, ""])
def test_rows_that_do_not_parse_are_bad_whatever_the_limit(
    scene: Scene, kind: str, lines: str, broken: str, limit: str
) -> None:
    scene.write("in/a", lines)
    text = CSV.replace("csv", kind)
    with scene.frames(text + target("animals") + limit) as frames:
        frames.check()
        assert frames.frame("animals").columns == ["id", "name"]
        assert values(frames.frame("animals").select("id")) == [1, 3]
        ((origin, reason, record),) = bad(frames)
        assert (origin, reason) == ("animals", f"does not parse as {kind} with this schema")
        assert record["text"].strip() == broken
        assert frames.counted()[0].rows == 3


def test_where_the_file_says_so_a_row_that_does_not_parse_ends_the_run(scene: Scene) -> None:
    scene.write("in/a", '{"id": 1}\n{"id": \n')
    text = CSV.replace("csv", "json") + 'options = { mode = "FAILFAST" }\n'
    with scene.frames(text + target("animals") + SOME) as frames:
        frames.check()
        with pytest.raises(Exception, match="Malformed") as raised:
            frames.frame("animals").collect()
    told = failed(frames._pipeline, raised.value, "loading animals")
    assert isinstance(told, LancewoodError)
    assert "\tat " not in told.message
    assert "does not parse: mend it, or have such rows put into quarantine: that" in told.message


@pytest.mark.sliced(2)
@pytest.mark.parametrize("block", ["64mb", "16"])
@pytest.mark.parametrize("incremental", ["true", "false"])
def test_bad_rows_tell_their_file_and_their_line(
    scene: Scene, block: str, incremental: str
) -> None:
    """Also where a file is read in blocks of a few bytes, and a text is there more than once."""
    before = scene.spark.conf.get("spark.sql.files.maxPartitionBytes")
    scene.spark.conf.set("spark.sql.files.maxPartitionBytes", block)
    one = scene.write("in/a b+c.csv", "id,line\n1,ant\n\nx,bee\n3,cat\nid,line\nx,bee\n8,elk\n")
    two = scene.write("in/b.csv", "id,line\nx,bee\n")
    scene.write("in/good.csv", "id,line\n9,gnu\n")
    text = (
        CSV.replace("name", "line")
        + f"options = {{ header = true }}\nincremental = {incremental}\n"
        + 'columns = ["line", "id"]\nreject = [{ where = "id = 8", reason = "eight" }]\n'
    )
    try:
        with scene.frames(text + target("animals") + SOME) as frames:
            frames.check()
            assert values(frames.frame("animals")) == [1, 3, 9]
            assert frames.frame("animals").columns == ["line", "id"]
            rows = frames.bad_rows()
            assert rows is not None
            found = [(row.file, row.line, json.loads(row.record)) for row in rows.collect()]
            counted = frames.counted()[0]
    finally:
        scene.spark.conf.set("spark.sql.files.maxPartitionBytes", before)
    assert sorted(found, key=repr) == [
        (str(one), 4, {"text": "x,bee"}),
        (str(one), 6, {"text": "id,line"}),
        (str(one), 7, {"text": "x,bee"}),
        (str(one), 8, {"line": "elk", "id": 8}),
        (str(two), 2, {"text": "x,bee"}),
    ]
    assert (counted.rows, counted.files) == (8, 3)


def test_column_and_predicates_say_what_is_bad_and_records_show_the_row(scene: Scene) -> None:
    rows = pa.table(
        {
            "id": [1, 2, 3, 4, 5],
            "legs": [6, None, -1, 4, -2],
            "a.b`c": ["x", "y", "z", "v", "w"],
            "picture": [b"p" * 1000, b"p", None, b"", b"q"],
            "parts": [[{"wing": b"w" * 100}], [], None, [None], []],
            "why": [None, None, None, "torn", "torn"],
        }
    )
    pq.write_table(rows, scene.folder / "animals.parquet")
    source = (
        '[sources.animals]\nformat = "parquet"\npath = "animals.parquet"\nbad = "WHY"\n'
        'reject = [{ where = "legs < 0", reason = "too few legs" }, '
        '{ where = "legs > 5 AND id < 2", reason = "an insect" }]\n'
    )
    step = (
        "[steps.tall]\nsql = \"SELECT id, IF(id = 2, 'too small', NULL) AS flaw FROM animals\"\n"
        'bad = "flaw"\n'
    )
    with scene.frames(source + step + target("tall") + SOME) as frames:
        frames.check()
        assert frames.schema("animals").names == ["id", "legs", "a.b`c", "picture", "parts"]
        assert frames.schema("tall").names == ["id"]
        assert values(frames.frame("tall")) == []
        found = bad(frames)
        assert [(origin, reason, row["id"]) for origin, reason, row in found] == [
            ("animals", "an insect", 1),
            ("animals", "too few legs", 3),
            ("animals", "torn", 4),
            ("animals", "torn", 5),
            ("tall", "too small", 2),
        ]
        insect = found[0][2]
        assert insect["picture"] == "1,000 bytes"
        assert insect["parts"][0]["wing"] == "100 bytes"
        assert "why" not in insect
        assert found[1][2] == {
            "id": 3,
            "legs": -1,
            "a.b`c": "z",
            "picture": None,
            "parts": None,
        }


def test_good_and_bad_rows_are_of_one_evaluation(scene: Scene) -> None:
    text = (
        '[sources.numbers]\nsql = "SELECT id, rand() AS drawn FROM range(200)"\n'
        'reject = [{ where = "drawn < 0.5", reason = "small" }]\n'
    )
    with scene.frames(text + target("numbers") + SOME) as frames:
        good, rejected = values(frames.frame("numbers")), [row["id"] for _, _, row in bad(frames)]
        assert sorted(good + rejected) == list(range(200))
        assert frames.counted()[0].rows == 200


@pytest.mark.parametrize(
    ("said", "key", "why"),
    [
        ('bad = "wyh"', "sources.animals.bad", "did you mean 'why'"),
        ('bad = "id"', "sources.animals.bad", "column 'id' is bigint"),
        (
            'reject = [{ where = "legs > 3", reason = "r" }]',
            r"sources.animals.reject\[0\].where",
            "`legs` cannot be resolved",
        ),
        (
            'reject = [{ where = "id + 1", reason = "r" }]',
            r"sources.animals.reject\[0\].where",
            "'id \\+ 1' is of type bigint",
        ),
    ],
)
def test_what_cannot_say_what_is_bad_is_refused(
    scene: Scene, said: str, key: str, why: str
) -> None:
    text = "[sources.animals]\nsql = \"SELECT id, 'x' AS why FROM range(3)\"\n" + said + "\n"
    with (
        scene.frames(text + target("animals")) as frames,
        pytest.raises(InvalidInputError, match=rf"^zoo\.toml line \d+: {key}: .*{why}"),
    ):
        frames.check()


def test_micro_batch_stands_in_for_its_source(scene: Scene) -> None:
    scene.write("in/a.csv", "1,ant\n")
    text = CSV + "incremental = true\n" + 'reject = [{ where = "id = 8", reason = "eight" }]\n'
    batch = scene.spark.createDataFrame([(7, "owl"), (8, "elk")], "id long, name string")
    with scene.frames(text + target("animals") + SOME, overrides={"animals": batch}) as frames:
        assert frames.is_empty() is None
        frames.check()
        assert values(frames.frame("animals")) == [7]
        assert [row["id"] for _, _, row in bad(frames)] == [8]
        assert frames.counted()[0].rows == 2
        assert (frames.states(), frames.file_tables()) == ({}, [])
