"""Sources of every kind as frames, SQL over them, and what is refused before any write."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.spark.pipeline.frames_scene import Scene, target, values

import lancewood as lw
from lancewood.errors import InvalidInputError

CSV = '[sources.animals]\nformat = "csv"\npath = "in"\nschema = "id LONG, name STRING"\n'


@pytest.fixture
def scene(spark: Any, tmp_path: Path) -> Scene:
    return Scene(spark, tmp_path / "zoo")


def temporary_views(spark: Any) -> set[str]:
    return {each.viewName for each in spark.sql("SHOW VIEWS").collect() if each.isTemporary}


def test_sources_of_every_kind_are_read_and_counted(scene: Scene) -> None:
    scene.write("in/a.csv", "1,ant\n2,bee\n")
    scene.write("in/b.csv", "3,cat\n")
    pq.write_table(pa.table({"id": [1, 2], "legs": [6, 6]}), scene.folder / "legs.parquet")
    (scene.folder / "pictures").mkdir()
    (scene.folder / "pictures" / "1.jpg").write_bytes(b"jpeg")
    lw.create(scene.folder / "homes.lance", pa.table({"id": [1, 3], "home": ["hill", "house"]}))
    with scene.repository.transaction("main", "tables") as changes:
        changes.create_table("colours", pa.table({"id": [2], "colour": ["black"]}))
    frames = scene.frames(
        CSV
        + '[sources.legs]\nformat = "parquet"\npath = "legs.parquet"\n'
        + '[sources.pictures]\nformat = "binaryFile"\npath = "pictures"\n'
        + '[sources.homes]\nuri = "homes.lance"\ncolumns = ["home", "id"]\n'
        + '[sources.colours]\ntable = "colours"\n'
        + '[sources.joined]\nsql = "SELECT a.id, legs.legs FROM Animals a JOIN legs USING (id);"\n'
        + '[steps.whole]\nsql = """WITH legs AS (SELECT * FROM joined) -- hides the source\n'
        + "SELECT id, legs, home, colour FROM legs LEFT JOIN homes USING (id) "
        + 'LEFT JOIN colours USING (id)"""\n'
        + target("whole")
        + target("animals", "names")
        + target("pictures", "pictures")
    )
    views = temporary_views(scene.spark)
    with frames:
        assert frames.is_empty() is None
        frames.check()
        assert frames.schema("homes").names == ["home", "id"]
        assert sorted(map(tuple, frames.frame("whole").collect())) == [
            (1, 6, "hill", None),
            (2, 6, None, "black"),
        ]
        assert values(frames.frame("animals")) == [1, 2, 3]
        assert values(frames.frame("pictures"), "content") == [b"jpeg"]
        bad = frames.bad_rows()
        assert bad is not None, "a source that is parsed may have some"
        assert bad.isEmpty()
        counted = {each.name: each for each in frames.counted()}
        assert {name: each.rows for name, each in counted.items()} == {
            "animals": 3,
            "legs": 2,
            "pictures": 1,
            "homes": 2,
            "colours": 1,
            "joined": None,
        }
        assert [name for name, each in counted.items() if each.is_derived] == ["joined"]
        assert (counted["animals"].files, counted["animals"].bytes) == (2, 18)
        assert counted["animals"].kind == "csv"
        assert counted["homes"].kind == "lance table"
        assert frames.file_tables() == []
        states = frames.states()
        assert {name: each["version"] for name, each in states.items()} == {
            "homes": 1,
            "colours": 1,
        }
        assert states["homes"]["branch"] == "main"
    assert temporary_views(scene.spark) == views


def test_sources_that_only_steps_read_are_counted_and_read_as_before(
    scene: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    scene.write("in/a.csv", "1,ant\n2,bee\n")
    (scene.folder / "pictures").mkdir()
    for name in ("1.jpg", "2.jpg", "3.jpg"):
        (scene.folder / "pictures" / name).write_bytes(b"jpeg")
    pq.write_table(pa.table({"id": range(9)}), scene.folder / "n.parquet")
    for day in (1, 2):
        scene.write(f"days/day={day}/a.csv", "1\n2\n")
    source = '[sources.{0}]\nformat = "{1}"\npath = "{2}"\n'
    frames = scene.frames(
        CSV
        + source.format("pictures", "binaryFile", "pictures")
        + source.format("numbers", "parquet", "n.parquet")
        + "incremental = true\n"
        + source.format("days", "csv", "days")
        + '[steps.whole]\nsql = """SELECT animals.id FROM animals, numbers, days, pictures '
        + 'WHERE animals.id = 2 AND numbers.id = 3 AND day = 2 AND length > 0"""\n'
        + target("whole")
    )
    with frames:
        frames.frame("whole").explain()
        plan = capsys.readouterr().out
        assert values(frames.frame("whole")) == [2] * 6
        counted = {each.name: each.rows for each in frames.counted()}
    assert counted == {"animals": 2, "pictures": 3, "numbers": 9, "days": None}
    assert "EqualTo(id,3)" in plan


def test_frames_of_two_runs_in_one_session_do_not_meet(spark: Any, tmp_path: Path) -> None:
    scenes = [Scene(spark, tmp_path / name) for name in ("one", "two")]
    text = CSV + '[steps.whole]\nsql = "SELECT * FROM animals"\n' + target("whole")
    for number, each in enumerate(scenes):
        each.write("in/a.csv", f"{number},x\n")
    one, two = (each.frames(text) for each in scenes)
    views = temporary_views(spark)
    with two:
        with one:
            assert (values(one.frame("whole")), values(two.frame("whole"))) == ([0], [1])
        assert len(temporary_views(spark) - views) == 1
        assert values(two.frame("whole")) == [1]
    assert temporary_views(spark) == views


def test_frame_that_is_used_twice_is_computed_once(scene: Scene) -> None:
    scene.write("in/a.csv", "1,ant\n2,bee\n")
    frames = scene.frames(
        CSV
        + '[steps.drawn]\nsql = "SELECT id, rand() AS drawn FROM animals"\n'
        + target("drawn")
        + target("drawn", "again")
    )
    with frames:
        first, second = (sorted(frames.frame("drawn").collect()) for _ in range(2))
        assert first == second
        kept = frames.frame("drawn")
        assert kept.storageLevel.useDisk
    assert not kept.storageLevel.useDisk


def test_files_of_columns_are_read_again_and_only_what_is_asked_for(
    scene: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    pq.write_table(pa.table({"id": [1, 2], "n": [3, 4]}), scene.folder / "n.parquet")
    source = '[sources.numbers]\nformat = "parquet"\npath = "n.parquet"\n'
    step = '[steps.some_rows]\nsql = "SELECT a.id FROM numbers a, numbers b WHERE a.id = 2"\n'
    with scene.frames(source + step + target("some_rows")) as frames:
        frames.frame("some_rows").explain()
        assert values(frames.frame("some_rows")) == [2, 2]
    plan = capsys.readouterr().out
    assert "EqualTo(id,2)" in plan
    assert "ReadSchema: struct<>" in plan
    assert "InMemory" not in plan.replace("InMemoryFileIndex", "")


@pytest.mark.parametrize(
    ("text", "key", "why"),
    [
        (
            CSV.replace("in", "nowhere", 1),
            "sources.animals.path",
            "Path does not exist: file:.*nowhere",
        ),
        (
            CSV.replace("csv", "cvs"),
            "sources.animals.format",
            "Failed to find .*: cvs.*has parquet",
        ),
        (CSV.replace("LONG", "LOONG"), "sources.animals.schema", 'data type "LOONG"'),
        (CSV + 'columns = ["nmae"]\n', r"sources.animals.columns\[0\]", "did you mean 'name'"),
        (
            CSV + '[steps.s]\nsql = """SELECT id,\n  nmae FROM animals"""\n',
            "steps.s.sql",
            "`nmae` cannot be resolved.*line 2 pos 2$",
        ),
        (CSV + '[steps.s]\nsql = "SELECT shout(name) FROM animals"\n', "steps.s.sql", "`shout`"),
        ('[sources.animals]\nuri = "gone.lance"\n', "sources.animals", "gone.lance"),
        ('[sources.animals]\ntable = "gone"\n', "sources.animals.table", "no table 'gone'"),
        ('[sources.animals]\nuri = "t.lance"\nrevision = "v9"\n', "sources.animals", "'v9'"),
        ('[sources.animals]\nuri = "t.lance"\ncolumns = ["x"]\n', "sources.animals", "'x'"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_place_in_the_file(
    scene: Scene, text: str, key: str, why: str
) -> None:
    scene.write("in/a.csv", "1,ant\n")
    lw.create(scene.folder / "t.lance", pa.table({"id": [1]}))
    with (
        scene.frames(text + target("animals")) as frames,
        pytest.raises(InvalidInputError, match=rf"^zoo\.toml line \d+: {key}: .*{why}") as refused,
    ):
        frames.check()
    message = refused.value.message
    assert "\n" not in message
    assert "SQLSTATE" not in message
    assert "lancewood_" not in message
    assert refused.value.__cause__ is None or "py4j" not in repr(refused.value.__cause__)


def test_secrets_reach_spark_and_no_error(scene: Scene, capfd: pytest.CaptureFixture[str]) -> None:
    frames = scene.frames(
        '[sources.animals]\nformat = "jdbc"\n'
        'options = { url = "jdbc:nobody://${env:WORD}@host/db", dbtable = "animals" }\n'
        '[sources.others]\nformat = "csv"\npath = "in"\nschema = "id LONG, n LONG"\n'
        'options = { sep = "${env:WORD}" }\n' + target("animals") + target("others", "others"),
        environment={"WORD": "open-sesame"},
    )
    scene.write("in/a.csv", "1open-sesame2\n")
    with frames:
        with pytest.raises(InvalidInputError, match="No suitable driver") as refused:
            frames.check()
        assert values(frames.frame("others")) == [1]
        assert next(each.where for each in frames.counted()) == "animals"
    assert "open-sesame" not in str(refused.value) + repr(frames.__dict__["_pipeline"])
    shown = capfd.readouterr()
    assert "open-sesame" not in shown.out + shown.err
