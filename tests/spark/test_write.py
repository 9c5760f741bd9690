"""Frames written through the fast door, by a running Spark; pylance is the judge."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from tests.spark.environment import of_a_quick_shell

import lancewood as lw
from lancewood.jobs.counts import RowCounts
from lancewood.spark import Written, count, read, write

pytest.importorskip("pyspark", reason="pyspark is not installed")

pytestmark = [
    pytest.mark.spark,
    pytest.mark.xdist_group("spark"),
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
]


def numbers(spark: Any, start: int, stop: int, partitions: int = 2) -> Any:
    return spark.range(start, stop, 1, partitions).selectExpr("id", "cast(id as string) as s")


def ids(uri: Path | str, branch: str | None = None) -> list[int]:
    """The ids that are there, as pylance and we both see them, in the order of the table."""
    dataset: Any = lance.dataset(str(uri))
    if branch is not None:
        dataset = dataset.checkout_version((branch, None))
    dataset.validate()
    found: list[int] = dataset.to_table()["id"].to_pylist()
    assert lw.open(uri, branch=branch).to_arrow()["id"].to_pylist() == found
    return found


def data_files(uri: Path | str) -> list[Path]:
    return sorted(each for each in Path(uri).rglob("*.lance") if each.is_file())


@pytest.fixture
def uri(tmp_path: Path) -> Path:
    return tmp_path / "t.lance"


def test_all_modes(spark: Any, uri: Path) -> None:
    first = write(
        numbers(spark, 0, 5), uri, message="first", commit=lw.CommitOptions(properties={"k": "v"})
    )
    assert first == Written(
        str(uri), None, 1, RowCounts(inserted=5), 2, sum(f.stat().st_size for f in data_files(uri))
    )
    with pytest.raises(lw.AlreadyExistsError):
        write(numbers(spark, 5, 9), uri)
    assert write(numbers(spark, 5, 9), uri, "ignore").skipped
    assert write(numbers(spark, 5, 9), uri, "append").version == 2
    assert sorted(ids(uri)) == list(range(9))
    new = spark.range(3).selectExpr("id", "id * 0.5d as half")
    with pytest.raises(lw.InvalidInputError, match="overwrite_schema"):
        write(new, uri, "overwrite")
    assert write(new, uri, "overwrite", overwrite_schema=True).counts == RowCounts(inserted=3)
    assert sorted(ids(uri)) == [0, 1, 2]
    assert lw.open(uri).schema.names == ["id", "half"]
    assert sorted(lw.open(uri, version=2).to_arrow()["id"].to_pylist()) == list(range(9))
    told = {int(each.version): each for each in lw.open(uri).versions()}
    assert told[1].message == "first"
    assert told[1].properties["k"] == "v"


def test_columns_come_with_rows_and_rows_replace_those_that_meet_a_condition(
    spark: Any, uri: Path
) -> None:
    write(numbers(spark, 0, 6), uri, partitions=2)
    vector = pa.schema([("v", pa.list_(pa.float32(), 2))])
    frame = spark.range(6, 8).selectExpr(
        "id", "array(0.5f, 1.5f) AS v", "named_struct('a', id) AS t"
    )
    added = write(frame, uri, "append", merge_schema=True, schema=vector)
    assert (added.version, added.counts) == (2, RowCounts(inserted=2))
    deeper = spark.range(8, 9).selectExpr("id", "named_struct('b', 'x', 'a', id) AS t")
    write(deeper, uri, "append", merge_schema=True)
    schema = lw.open(uri).schema
    assert schema.names == ["id", "s", "v", "t"]
    assert schema.field("v").type == pa.list_(pa.float32(), 2)
    assert sorted(ids(uri)) == list(range(9))
    found = {each["id"]: each for each in lance.dataset(str(uri)).to_table().to_pylist()}
    assert found[0] == {"id": 0, "s": "0", "v": None, "t": None}
    assert found[7] == {"id": 7, "s": None, "v": [0.5, 1.5], "t": {"a": 7, "b": None}}
    assert found[8]["t"] == {"a": 8, "b": "x"}
    with pytest.raises(lw.InvalidInputError, match="'id': 4"):
        write(numbers(spark, 4, 7), uri, "overwrite", replace_where="id > 4")
    done = write(numbers(spark, 5, 6), uri, "overwrite", replace_where="id > 4")
    assert (done.version, done.counts) == (4, RowCounts(inserted=1, deleted=4))
    assert sorted(ids(uri)) == list(range(6))
    none = write(numbers(spark, 0, 0), uri, "overwrite", replace_where="id > 50")
    assert none.skipped
    assert none.version == 4


def test_a_frame_goes_to_a_handle_on_a_branch_and_is_read_from_one(spark: Any, uri: Path) -> None:
    write(numbers(spark, 0, 3), uri)
    exp = lw.open(uri).branches.create("exp")
    done = write(numbers(spark, 3, 5), exp, "append")
    assert (done.branch, done.version) == ("exp", exp.version + 1)
    assert sorted(ids(uri, "exp")) == list(range(5))
    assert sorted(ids(uri)) == [0, 1, 2]
    assert count(spark, exp.latest()) == 5
    assert read(spark, exp).count() == 3
    with pytest.raises(lw.InvalidInputError, match="branch="):
        write(numbers(spark, 3, 5), exp, "append", branch="exp")
    with pytest.raises(lw.InvalidInputError, match="version="):
        read(spark, exp, version=1)
    with pytest.raises(lw.AlreadyExistsError):
        write(numbers(spark, 3, 5), exp)


def test_frames_are_part_of_a_transaction_of_a_repository(spark: Any, tmp_path: Path) -> None:
    repo = lw.Repository.init(tmp_path / "r")
    with repo.transaction(message="first") as tx:
        tx.create_table("photos", pa.schema([("id", pa.int64()), ("s", pa.string())]))
        tx.create_table("labels", pa.table({"id": [1]}))
    with repo.transaction(message="load") as tx:
        done = write(numbers(spark, 0, 4), tx.table("photos"), "append")
        assert done.counts == RowCounts(inserted=4)
        merged = numbers(spark, 3, 6).selectExpr("id", "'new' AS s")
        write(merged, tx.table("photos"), "merge", on="id")
        write(numbers(spark, 9, 10), tx.table("photos"), "overwrite", replace_where="id > 4")
        wider = spark.range(2, 3).selectExpr("id", "1.5d AS n")
        write(wider, tx.table("labels"), "append", merge_schema=True)
        staged = read(spark, tx.table("photos"))
        assert sorted(each.id for each in staged.collect()) == [0, 1, 2, 3, 4, 9]
        assert repo.at().table("photos").count_rows() == 0
    assert sorted(repo.at().table("photos").to_arrow()["id"].to_pylist()) == [0, 1, 2, 3, 4, 9]
    assert repo.at().table("labels").to_arrow().to_pylist() == [
        {"id": 1, "n": None},
        {"id": 2, "n": 1.5},
    ]
    assert sorted(ids(tmp_path / "r/tables/photos.lance")) == [0, 1, 2, 3, 4, 9]
    tip = repo.at().commit
    tx = repo.transaction(message="no")
    write(numbers(spark, 20, 22), tx.table("photos"), "append")
    tx.abandon()
    assert repo.at().commit == tip
    assert repo.at().table("photos").count_rows() == 6
    assert lw.open(tmp_path / "r/tables/photos.lance").count_rows() == 6
    with pytest.raises(lw.InvalidInputError, match="over"):
        write(numbers(spark, 20, 22), tx.table("photos"), "append")


def test_merge_is_a_mode_too(spark: Any, uri: Path) -> None:
    source = numbers(spark, 3, 8).selectExpr("id", "'new' as s")
    with pytest.raises(lw.NotFoundError, match="no table"):
        write(source, uri, "merge", on="id")
    write(numbers(spark, 0, 5), uri)
    written = write(source, uri, "merge", on="id", commit=lw.CommitOptions(app="loader", batch=1))
    assert written.version == 2
    assert written.counts == RowCounts(inserted=3, updated=2)
    assert sorted(ids(uri)) == list(range(8))
    assert lw.open(uri).count_rows("s = 'new'") == 5
    again = write(source, uri, "merge", on="id", commit=lw.CommitOptions(app="loader", batch=1))
    assert (again.version, again.skipped) == (2, True)


def test_a_branch_and_a_clone(spark: Any, uri: Path, tmp_path: Path) -> None:
    write(numbers(spark, 0, 4), uri)
    lw.open(uri).branches.create("exp")
    assert write(numbers(spark, 4, 6), uri, "append", branch="exp").branch == "exp"
    assert {each.parent for each in data_files(uri)} == {uri / "data"}
    clone = tmp_path / "clone.lance"
    lw.open(uri).clone(clone)
    write(numbers(spark, 6, 9), clone, "append")
    assert sorted(ids(uri)) == [0, 1, 2, 3]
    assert sorted(ids(uri, branch="exp")) == [0, 1, 2, 3, 4, 5]
    assert sorted(ids(clone)) == [0, 1, 2, 3, 6, 7, 8]
    assert len(data_files(clone)) == 2


def test_empty_frames_and_empty_partitions(spark: Any, uri: Path) -> None:
    nothing = numbers(spark, 0, 0)
    assert write(nothing, uri).files == 0
    assert ids(uri) == []
    assert lw.open(uri).schema.field("id").type == pa.int64()
    assert write(numbers(spark, 0, 3).repartition(8), uri, "append").counts == RowCounts(inserted=3)
    assert len(data_files(uri)) <= 3
    assert write(numbers(spark, 0, 9).where("id = 5"), uri, "append").files == 1
    assert sorted(ids(uri)) == [0, 1, 2, 5]


def test_rows_are_spread_sorted_and_cut(spark: Any, uri: Path) -> None:
    frame = numbers(spark, 0, 100).withColumnRenamed("s", "a b")
    written = write(
        frame,
        uri,
        partitions=1,
        sort_by=[frame["id"].desc()],
        layout=lw.Layout(max_rows_per_file=40),
    )
    assert written.files == 3
    assert ids(uri) == list(range(99, -1, -1))
    assert [each.physical_rows for each in lw.open(uri).fragments] == [40, 40, 20]
    assert write(frame, uri, "append", partitions=4, sort_by="a b").files == 4
    for each in lw.open(uri).fragments[3:]:
        texts = lw.open(uri).scan(fragment_ids=[each.id]).to_arrow()["a b"].to_pylist()
        assert texts == sorted(texts)
    assert (
        write(
            numbers(spark, 0, 4, 1),
            uri,
            "overwrite",
            overwrite_schema=True,
            layout=lw.Layout(max_bytes_per_file=1),
        ).files
        == 4
    )


def test_lists_and_maps_without_any_value_are_written(spark: Any, uri: Path) -> None:
    """Before 4.2 Spark hands over something else than offsets for what is in them."""
    columns = [
        "id",
        "cast(array() as array<string>) as a",
        "named_struct('x', cast(array() as array<array<binary>>)) as b",
        "array(named_struct('y', cast(map() as map<string, array<string>>))) as c",
    ]
    frame = spark.range(0, 400, 1, 4).selectExpr(*columns)
    write(frame, uri)
    write(frame.repartition(2), uri, "append")
    rows = lance.dataset(str(uri)).to_table(columns=["a", "b", "c"]).to_pylist()
    assert rows == [{"a": [], "b": {"x": []}, "c": [{"y": []}]}] * 800


def test_types_are_restored_by_the_table(spark: Any, uri: Path) -> None:
    schema = pa.schema(
        [
            pa.field("id", pa.int64()),
            pa.field("v", pa.list_(pa.float32(), 2)),
            pa.field("small", pa.uint8()),
            pa.field("at", pa.timestamp("us", "UTC")),
        ]
    )
    lw.create(uri, schema)
    rows = "select 1L id, array(1.5f, null) v, 200 small, timestamp'2020-01-01 00:00:00' at"
    nulls = "select 2L, cast(null as array<float>), cast(null as int), cast(null as timestamp)"
    write(spark.sql(f"{rows} union all {nulls}").select("at", "v", "small", "id"), uri, "append")
    found = lance.dataset(str(uri)).to_table().sort_by("id")
    assert found.schema.equals(schema)
    assert found["v"].to_pylist() == [[1.5, None], None]
    assert found["small"].to_pylist() == [200, None]
    assert found["at"].to_pylist()[0].isoformat() == "2020-01-01T00:00:00+00:00"
    assert sorted(ids(uri)) == [1, 2]


@pytest.mark.parametrize(
    ("columns", "wishes", "told"),
    [
        ("cast(id as string) as id, s", {}, "'id'"),
        ("id, s, id as unknown", {}, "unknown"),
        ("id, s", {"sort_by": "nothing"}, "nothing"),
        ("id, s", {"sort_by": 5}, "sort_by"),
        ("id, s", {"partitions": 0}, "partitions"),
        ("id, s", {"partitions": 1 << 31}, "partitions"),
        ("id, s", {"on": "id"}, "on"),
        ("id, s", {"commit": {"app": "loader"}}, "CommitOptions"),
    ],
)
def test_what_does_not_fit_is_refused_before_spark_runs(
    spark: Any, uri: Path, columns: str, wishes: dict[str, Any], told: str
) -> None:
    lw.create(uri, pa.schema([("id", pa.int64()), ("s", pa.string())]))
    flag = uri.parent / "ran"
    frame = numbers(spark, 0, 4).mapInArrow(partial(raise_flag, str(flag)), "id long, s string")
    with pytest.raises(lw.InvalidInputError) as caught:
        write(frame.selectExpr(*columns.split(", ")), uri, "append", **wishes)
    assert told in str(caught.value)
    assert not flag.exists()
    assert not (uri / "data").exists()


def raise_flag(path: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    Path(path).touch()
    yield from batches


def test_write_takes_a_frame_that_ends(spark: Any, uri: Path) -> None:
    other: Any = pa.table({"id": [1]})
    with pytest.raises(lw.InvalidInputError, match="DataFrame"):
        write(other, uri)
    with pytest.raises(lw.InvalidInputError, match="stream"):
        write(spark.readStream.format("rate").load(), uri)
    assert not uri.exists()


def test_a_value_that_does_not_fit_arrives_as_itself_and_no_file_stays(
    spark: Any, uri: Path
) -> None:
    lw.create(uri, pa.schema([pa.field("id", pa.int8())]))
    with pytest.raises(lw.InvalidInputError, match="'id'") as caught:
        write(spark.range(0, 200, 1, 2), uri, "append")
    assert type(caught.value) is lw.InvalidInputError
    assert data_files(uri) == []
    assert lw.open(uri).version == 1


def test_a_frame_that_fails_is_sparks_own_error_and_nothing_changes(spark: Any, uri: Path) -> None:
    from pyspark.errors import PySparkException

    write(numbers(spark, 0, 4), uri)
    broken = numbers(spark, 0, 10).selectExpr("id + raise_error('broken') as id", "s")
    with pytest.raises((PySparkException, Exception), match="broken") as caught:
        write(broken, uri, "append")
    assert not isinstance(caught.value, lw.LancewoodError)
    assert lw.open(uri).version == 1
    with pytest.raises(type(caught.value)):
        write(broken, uri.with_name("new.lance"))
    assert not lw.exists(uri.with_name("new.lance"))


def test_a_store_that_fails_in_a_task_is_our_error(spark: Any, uri: Path) -> None:
    write(numbers(spark, 0, 4), uri)
    frame = numbers(spark, 0, 4, 1).mapInArrow(partial(make_a_file, str(uri)), "id long, s string")
    write_there = uri / "data"
    kept = uri / "kept"
    write_there.rename(kept)
    with pytest.raises(lw.StorageError) as caught:
        write(frame, uri, "append")
    assert "Traceback" not in str(caught.value)
    write_there.unlink()
    kept.rename(write_there)
    assert sorted(ids(uri)) == [0, 1, 2, 3]


def make_a_file(uri: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """A file in the place of the directory that data files go to."""
    Path(uri, "data").touch()
    yield from batches


def fail_twice(flag: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The second partition fails in its first two attempts, after it gave half of its rows."""
    for batch in batches:
        half = batch.num_rows // 2
        yield batch.slice(0, half)
        if batch["id"][0].as_py() >= 500:
            attempt = len(list(Path(flag).parent.glob("attempt*")))
            Path(flag).with_name(f"attempt{attempt}").touch()
            if attempt < 2:
                raise RuntimeError("this attempt fails")
        yield batch.slice(half)


def test_a_task_that_fails_twice_writes_its_rows_once(
    spark: Any, uri: Path, tmp_path: Path
) -> None:
    frame = numbers(spark, 0, 1000).mapInArrow(
        partial(fail_twice, str(tmp_path / "flag")), "id long, s string"
    )
    written = write(frame, uri, layout=lw.Layout(max_rows_per_file=100))
    assert len(list(tmp_path.glob("attempt*"))) == 3
    assert written.counts == RowCounts(inserted=1000)
    assert sorted(ids(uri)) == list(range(1000))
    assert len(data_files(uri)) == written.files == 10, "a failed attempt removes its files"


def test_a_frame_that_differs_with_every_run_is_run_once(spark: Any, uri: Path) -> None:
    seen = spark.sparkContext.accumulator(0)

    def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            seen.add(batch.num_rows)
            yield batch

    frame = (
        spark.range(0, 50, 1, 2)
        .selectExpr("id", "rand() as r")
        .mapInArrow(count, "id long, r double")
    )
    assert write(frame, uri).counts == RowCounts(inserted=50)
    assert seen.value == 50


def test_a_batch_is_loaded_once(spark: Any, uri: Path, tmp_path: Path) -> None:
    flag = tmp_path / "ran"
    frame = numbers(spark, 0, 4).mapInArrow(partial(raise_flag, str(flag)), "id long, s string")
    assert not write(frame, uri, "append", commit=lw.CommitOptions(app="loader", batch=3)).skipped
    flag.unlink()
    assert write(frame, uri, "append", commit=lw.CommitOptions(app="loader", batch=3)).skipped
    assert write(frame, uri, "append", commit=lw.CommitOptions(app="loader", batch=2)).skipped
    assert not flag.exists(), "what is there already is not even computed"
    assert sorted(ids(uri)) == [0, 1, 2, 3]


def test_a_write_is_collected_once_and_its_plan_holds_no_secret(
    spark: Any, uri: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = numbers(spark, 0, 4)
    plans = []
    collect = type(frame).collect

    def watched(self: Any) -> Any:
        self.explain("extended")
        plans.append(capsys.readouterr().out)
        return collect(self)

    monkeypatch.setattr(type(frame), "collect", watched)
    write(frame, uri, access=lw.Access(storage_options={"aws_secret_access_key": "geheim"}))
    assert len(plans) == 1
    assert "MapInArrow" in plans[0]
    assert "geheim" not in plans[0]


DIES_AFTER_ITS_COMMIT = """
import os, sys
from lancewood import CommitOptions
from lancewood.spark import session, write
from lancewood.spark.writing.job import WriteJob
commit = WriteJob.commit
def last(self, messages):
    commit(self, messages)
    os._exit(9)
WriteJob.commit = last
spark = session("local[1]", conf={"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"})
rows = spark.range(10).selectExpr("id", "'x' as s")
write(rows, sys.argv[1], "append", commit=CommitOptions(app="loader", batch=1))
"""


@pytest.mark.campaign
def test_a_driver_that_died_after_its_commit_runs_again_and_skips(spark: Any, uri: Path) -> None:
    script = [sys.executable, "-c", DIES_AFTER_ITS_COMMIT, str(uri)]
    died = subprocess.run(
        script, env=of_a_quick_shell(), capture_output=True, text=True, timeout=600
    )
    assert died.returncode == 9, died.stderr
    assert write(
        numbers(spark, 0, 10), uri, "append", commit=lw.CommitOptions(app="loader", batch=1)
    ).skipped
    assert sorted(ids(uri)) == list(range(10))
    assert lw.open(uri).version == 1
