"""What is new since the last published run: files, and rows of Lance tables."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.spark.pipeline.frames_scene import Scene, target, values

import lancewood as lw
from lancewood.errors import InvalidInputError, RetryableConflictError
from lancewood.pipeline.frames.frames import Frames
from lancewood.pipeline.frames.unread import has_no_news

DROPS = (
    '[sources.drops]\nformat = "csv"\npath = "in"\nschema = "id LONG"\nincremental = true\n'
    + target("drops")
)
TABLE = '[sources.rows]\nuri = "t.lance"\nincremental = true\n' + target("rows")


@pytest.fixture
def scene(spark: Any, tmp_path: Path) -> Scene:
    return Scene(spark, tmp_path / "zoo")


def test_only_new_and_rewritten_files_are_read_whatever_they_are_called(scene: Scene) -> None:
    scene.write("in/a.csv", "1\n")
    odd = scene.write("in/b [1] {x}*? %41.csv", "2\n")
    (scene.folder / "in" / "below").mkdir()
    scene.write("in/below/c.csv", "99\n")
    with scene.frames(DROPS) as frames:
        assert frames.is_empty() is False
        frames.check()
        scene.write("in/late.csv", "3\n")
        assert values(frames.frame("drops")) == [1, 2], "what came later is for the next run"
        (facts,) = frames.counted()
        assert (facts.rows, facts.files, facts.bytes) == (2, 2, 4)
        ((name, files),) = frames.file_tables()
        assert name == "zoo_drops_files"
        assert files.columns == ["path", "size", "modified", "run"]
        assert {row.run for row in files.collect()} == {"r1"}
        scene.publish(frames)

    odd.write_text("20\n")
    with scene.frames(DROPS) as frames:
        assert values(frames.frame("drops")) == [3, 20]
        scene.publish(frames)
    os.utime(odd, (1_600_000_000, 1_600_000_000))
    with scene.frames(DROPS) as frames:
        assert values(frames.frame("drops")) == [20], "another time of change counts as well"
        scene.publish(frames)
    with scene.frames(DROPS) as frames:
        assert frames.is_empty() is True
        frames.check()
        assert frames.frame("drops").count() == 0
        assert frames.file_tables() == []
        assert frames.counted()[0].files == 0
    seen = scene.repository.at("main").table("zoo_drops_files").to_arrow()
    assert seen.num_rows == 5
    assert seen["run"].to_pylist().count("r2") == 2


def test_listing_opens_no_file_and_obeys_wild_cards_and_options(scene: Scene) -> None:
    for name in ("x/1.csv", "x/2.txt", "y/deep/3.csv", "z/4.csv"):
        scene.write(f"in/{name}", f"{name[-5]}\n")
    most = "spark.sql.sources.binaryFile.maxLength"
    scene.spark.conf.set(most, "0")  # Spark refuses to read more of any file
    try:
        wild = DROPS.replace('path = "in"', 'path = "in/{x,y}/*.*"')
        with scene.frames(wild) as frames:
            assert [Path(row.path).name for row in frames.file_tables()[0][1].collect()] == [
                "1.csv",
                "2.txt",
            ]
        deep = DROPS.replace(
            "schema", 'options = { RecursiveFileLookup = "true", pathGlobFilter = "*.csv" }\nschema'
        )
        with scene.frames(deep) as frames:
            assert values(frames.frame("drops")) == [1, 3, 4]
        several = DROPS.replace('path = "in"', 'paths = ["in/x", "in/z", "in/x/1.csv"]')
        with scene.frames(several) as frames:
            assert values(frames.frame("drops")) == [1, 2, 4]
            assert frames.counted()[0].files == 3
    finally:
        scene.spark.conf.unset(most)


@pytest.mark.sliced(2)
@pytest.mark.parametrize(
    "source",
    [
        'path = "in"',
        'path = "in/*"',
        'path = "in/?/*.csv"',
        'paths = ["in/x", "in/y/*"]',
        'path = "in"\noptions = { recursiveFileLookup = true }',
        'path = "in"\noptions = { recursiveFileLookup = true, pathGlobFilter = "*.csv" }',
        'path = "in/x"\noptions = { basePath = "FOLDER/in" }',
        'path = "p"',
        'path = "p/*"',
    ],
)
def test_what_spark_has_listed_is_known_without_it_and_no_other_file_is_missed(
    scene: Scene, source: str
) -> None:
    text = DROPS.replace('path = "in"', source.replace("FOLDER", str(scene.folder)))
    for name in (
        *("a.csv", "b [1] {x}*? %41.txt", ".hidden.csv", "_under.csv", "_c=1.csv", "é ü.csv"),
        *("x/1.csv", "x/_2.csv", "x/deep/3.csv", "y/4.csv", "_z/5.csv", ".w/6.csv"),
        *("../p/day=1/7.csv", "../p/day=2/8.csv", "../p/_tmp/9.csv"),
    ):
        scene.write(f"in/{name}", "1\n")
    scene.write("in/empty.csv", "")
    os.symlink(scene.folder / "in" / "a.csv", scene.folder / "in" / "link.csv")
    with scene.frames(text) as frames:
        assert not _no_news(scene, frames), "the first run"
        found = [row.path.removeprefix("file:") for row in frames.file_tables()[0][1].collect()]
        scene.publish(frames)
    assert found
    with scene.frames(text) as frames:
        assert frames.is_empty()
        assert _no_news(scene, frames)
        for each in found:
            was = os.stat(each)
            os.utime(each, (1_600_000_000, 1_600_000_000))
            assert not _no_news(scene, frames), each
            os.utime(each, ns=(was.st_atime_ns, was.st_mtime_ns))
        assert _no_news(scene, frames)


def _no_news(scene: Scene, frames: Frames) -> bool:
    return has_no_news(frames._pipeline, frames._context, scene.states)


@pytest.mark.parametrize("folder", ["zoo", "zoo {1} [a]*?"])
def test_directories_that_are_partitions_stay_columns(
    spark: Any, tmp_path: Path, folder: str
) -> None:
    scene = Scene(spark, tmp_path / folder)
    for day in (1, 2):
        partition = scene.folder / "in" / f"day={day}"
        partition.mkdir(parents=True)
        pq.write_table(pa.table({"id": [day * 10]}), partition / "part.parquet")
    text = DROPS.replace("csv", "parquet").replace('schema = "id LONG"\n', "")
    with scene.frames(text) as frames:
        assert sorted(map(tuple, frames.frame("drops").collect())) == [(10, 1), (20, 2)]


def test_file_that_goes_between_listing_and_reading_is_a_clear_error(scene: Scene) -> None:
    gone = scene.write("in/a.csv", "1\n")
    scene.write("in/b.csv", "2\n")
    with scene.frames(DROPS) as frames:
        assert frames.is_empty() is False
        gone.unlink()
        with pytest.raises(
            InvalidInputError, match=r"line 3: sources\.drops: a file was removed.*a\.csv.*again"
        ):
            frames.check()


def test_file_that_is_written_anew_while_it_is_read_is_not_remembered_as_read(scene: Scene) -> None:
    scene.write("in/a.csv", "1\n")
    moved_away = scene.write("in/b.csv", "2\n")
    with scene.frames(DROPS) as frames:
        assert values(frames.frame("drops")) == [1, 2]
        moved_away.unlink()
        assert len(frames.file_tables()) == 1
        scene.write("in/a.csv", "1\n3\n")
        with pytest.raises(RetryableConflictError, match=r"in/a\.csv was written anew while"):
            frames.file_tables()


def test_files_that_are_all_gone_when_they_were_read_are_remembered(scene: Scene) -> None:
    wild = DROPS.replace('path = "in"', 'paths = ["in/*.csv", "more/*.csv"]')
    moved_away = scene.write("in/a.csv", "1\n")
    kept = scene.write("more/b.csv", "2\n")
    with scene.frames(wild) as frames:
        assert values(frames.frame("drops")) == [1, 2]
        moved_away.unlink()
        ((_, files),) = frames.file_tables()
        assert files.count() == 2
        kept.write_text("2\n3\n")
        with pytest.raises(RetryableConflictError, match=r"more/b\.csv was written anew while"):
            frames.file_tables()


def test_lance_table_gives_rows_that_were_inserted_or_updated_since(scene: Scene) -> None:
    uri = scene.folder / "t.lance"
    rows = pa.table({"id": list(range(6)), "name": [f"n{n}" for n in range(6)]})
    table = lw.create(uri, rows, layout=lw.Layout(max_rows_per_file=2))
    with scene.frames(TABLE) as frames:
        assert values(frames.frame("rows")) == [0, 1, 2, 3, 4, 5]
        scene.publish(frames)
    with scene.frames(TABLE) as frames:
        assert frames.is_empty() is True
        frames.check()
        assert frames.frame("rows").count() == 0

    table = table.append(pa.table({"id": [6], "name": ["n6"]}))
    table = table.update({"name": "'new'"}, "id = 2").delete("id = 0").compact()
    table = table.add_columns({"length": "length(name)"})
    narrow = TABLE.replace("incremental", 'columns = ["name"]\nincremental')
    with scene.frames(narrow) as frames:
        assert frames.is_empty() is False
        assert sorted(frames.frame("rows").collect()) == [("n6",), ("new",)]
        (facts,) = frames.counted()
        assert (facts.rows, facts.since) == (2, "version 1")
        scene.publish(frames)
    assert scene.states["rows"]["version"] == table.version
    table.delete("id = 1")
    with scene.frames(TABLE) as frames:
        assert frames.is_empty() is True, "rows that are gone are not told of"


def test_table_of_the_repository_is_followed_through_its_commits(scene: Scene) -> None:
    text = '[sources.rows]\ntable = "photos"\nincremental = true\n' + target("rows")
    with scene.repository.transaction("main", "one") as changes:
        changes.create_table("photos", pa.table({"id": [1, 2]}))
    with scene.frames(text) as frames:
        assert values(frames.frame("rows")) == [1, 2]
        scene.publish(frames)
    with scene.repository.transaction("main", "two") as changes:
        changes.table("photos").append(pa.table({"id": [3]}))
    with scene.repository.transaction("main", "three") as changes:
        changes.table("photos").append(pa.table({"id": [4]}))
    with scene.frames(text.replace("incremental", 'revision = "main~1"\nincremental')) as frames:
        assert values(frames.frame("rows")) == [3]
    with scene.frames(text) as frames:
        assert values(frames.frame("rows")) == [3, 4]


def test_state_that_leads_nowhere_is_refused_with_the_way_out(scene: Scene) -> None:
    uri = scene.folder / "t.lance"
    data = pa.table({"id": [1]})

    def refused(why: str) -> None:
        with (
            scene.frames(TABLE) as frames,
            pytest.raises(
                InvalidInputError, match=rf"line 5: sources\.rows\.incremental: .*{why}.*"
            ) as error,
        ):
            frames.is_empty()
        assert "incremental = false" in error.value.message

    table = lw.create(uri, data).append(data)
    with scene.frames(TABLE) as frames:
        scene.publish(frames)
    table.append(data).cleanup(keep_versions=1, in_flight=timedelta())
    refused("version 2 of .* was cleaned up")

    with scene.frames(TABLE.replace("true", "false")) as frames:
        assert values(frames.frame("rows")) == [1, 1, 1]
        scene.publish(frames)
    lw.open(uri).append(data)
    with scene.frames(TABLE) as frames:
        assert values(frames.frame("rows")) == [1]

    lw.drop(uri, force=True)
    lw.create(uri, data)
    refused("version 3, and now version 1 .* older")
    lw.open(uri).append(data).append(data)
    refused("is another one")


def test_table_without_stable_row_ids_is_no_incremental_source(scene: Scene) -> None:
    lw.create(
        scene.folder / "t.lance", pa.table({"id": [1]}), layout=lw.Layout(stable_row_ids=False)
    )
    with (
        scene.frames(TABLE) as frames,
        pytest.raises(InvalidInputError, match=r"sources\.rows\.incremental: .*stable row ids"),
    ):
        frames.check()
