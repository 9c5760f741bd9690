"""Tables as sources and sinks of Spark's streams, with pylance as the judge."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lancewood as lw
from lancewood.model.table_config import newest_batch
from lancewood.spark import write

pytest.importorskip("pyspark", reason="pyspark is not installed")

from tests.spark.needs import needs

from lancewood.spark.abilities import LIMITED_STREAMS, SOURCES, release_here

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark"), needs(SOURCES)]

HAS_LIMITS = LIMITED_STREAMS.is_in(release_here())


def rows(*numbers: int) -> pa.Table:
    return pa.table(
        {
            "k": pa.array(numbers, pa.int64()),
            "v": pa.array([[each, 0.5] for each in numbers], pa.list_(pa.float32(), 2)),
        }
    )


def stream(spark: Any, uri: object, **options: object) -> Any:
    return spark.readStream.format("lance").options(**options).load(str(uri))


def run(frame: Any, checkpoint: Path, target: object, mode: str = "append", **options: str) -> str:
    """All that is there, into a table; the query's id. Raises what the query raises."""
    writer = frame.writeStream.format("lance").outputMode(mode).options(**options)
    writer = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
    query = writer.start(str(target))
    query.awaitTermination()
    return str(query.id)


def by_pylance(uri: object, **where: Any) -> Any:
    # Not at the top: a process that has loaded pylance must not fork, and Spark's start does.
    import lance

    found = lance.dataset(str(uri), **where)
    found.validate()
    return found


def keys(uri: object, **where: Any) -> list[int]:
    return sorted(by_pylance(uri, **where).to_table()["k"].to_pylist())


@pytest.mark.campaign
def test_a_table_flows_into_another_exactly_once_over_restarts(spark: Any, tmp_path: Path) -> None:
    source, target, checkpoint = (tmp_path / each for each in ("a.lance", "b.lance", "c"))
    lw.create(source, rows(*range(50)), layout=lw.Layout(max_rows_per_file=20)).delete("k = 7")
    frame = stream(spark, source, maxRowsPerTrigger=30)
    query = run(frame, checkpoint, target)
    assert keys(target) == [each for each in range(50) if each != 7]
    made = lw.open(target)
    assert made.version == 2, "fifty rows, one of them deleted, make two batches"
    assert newest_batch(made.config, query) == 1
    assert by_pylance(target).schema.field("v").type == pa.list_(pa.float32())
    lw.open(source).append(rows(50, 51)).append(rows(52))
    assert run(stream(spark, source), checkpoint, target) == query
    assert keys(target)[-4:] == [49, 50, 51, 52]
    assert (len(keys(target)), lw.open(target).version) == (52, 3)


def test_a_commit_that_spark_did_not_learn_of_is_not_made_twice(spark: Any, tmp_path: Path) -> None:
    source, target, checkpoint = (tmp_path / each for each in ("a.lance", "b.lance", "c"))
    crash = tmp_path / "crash"
    lw.create(source, rows(1, 2))
    spark.dataSource.register(crashing_source(str(crash)))

    def run_crashing() -> None:
        writer = stream(spark, source).writeStream.format("crashing").trigger(availableNow=True)
        query = writer.option("checkpointLocation", str(checkpoint)).start(str(target))
        query.awaitTermination()

    crash.touch()
    with pytest.raises(Exception, match="the lights went out"):
        run_crashing()
    assert keys(target) == [1, 2], "it landed, and abort took none of its files"
    crash.unlink()
    lw.open(source).append(rows(3))
    run_crashing()
    if not HAS_LIMITS:  # then the trigger is for one batch, and that was the one of before
        run_crashing()
    assert keys(target) == [1, 2, 3]
    assert lw.open(target).version == 2
    kept = {each.path for f in lw.open(target).fragments for each in f.files}
    assert {each.name for each in Path(target, "data").iterdir()} == kept, "the replay's files go"


def crashing_source(flag: str) -> Any:
    """``format("lance")`` whose commits raise after they landed, as long as a file is there."""
    from lancewood.spark.source.lance_source import LanceSource
    from lancewood.spark.source.streams import LanceStreamWriter

    class CrashingWriter(LanceStreamWriter):  # type: ignore[misc]
        def commit(self, messages: Any, batchId: int) -> None:
            import os

            LanceStreamWriter.commit(self, messages, batchId)
            if os.path.exists(flag):
                raise RuntimeError("the lights went out")

    class CrashingSource(LanceSource):  # type: ignore[misc]
        @classmethod
        def name(cls) -> str:
            return "crashing"

        def streamWriter(self, schema: Any, overwrite: bool) -> Any:
            made = LanceSource.streamWriter(self, schema, overwrite)
            return CrashingWriter(made._plan, made._app)

    return CrashingSource


@pytest.mark.campaign
def test_changes_are_followed_by_a_merge_of_each_batch(spark: Any, tmp_path: Path) -> None:
    source, target, checkpoint = (str(tmp_path / each) for each in ("a.lance", "b.lance", "c"))
    lw.create(source, rows(1, 2, 3))
    lw.open(source).merge(rows(3, 5), on="k")
    lw.open(source).delete("k = 1")
    lw.create(target, rows().schema)
    seen: list[tuple[int, bool]] = []

    def apply(batch: Any, number: int) -> None:
        kept = batch.where("_change <> 'deleted'").select("k", "v")
        gone = batch.where("_change = 'deleted'").select("k", "v")
        done = write(
            kept, target, mode="merge", on="k", commit=lw.CommitOptions(app="copy", batch=number)
        )
        seen.append((number, done.skipped))
        if not gone.isEmpty():
            fate: Any = {"matched": "delete", "not_matched": "ignore"}
            write(
                gone,
                target,
                "merge",
                on="k",
                commit=lw.CommitOptions(app="copy, gone", batch=number),
                **fate,
            )

    def follow(path: str) -> None:
        options = {"startingVersion": 1, "onChange": "changes", "maxVersionsPerTrigger": 1}
        writer = stream(spark, source, **options).writeStream.foreachBatch(apply)
        writer = writer.option("checkpointLocation", path).trigger(availableNow=True)
        writer.start().awaitTermination()

    follow(checkpoint)
    wanted = sorted(by_pylance(source).to_table().to_pylist(), key=str)
    assert sorted(by_pylance(target).to_table().to_pylist(), key=str) == wanted
    assert seen == [(each, False) for each in range(3)]
    version = lw.open(target).version
    follow(checkpoint + "-lost")
    assert seen[3:5] == [(0, True), (1, True)]
    assert lw.open(target).version == version, (
        "the last has nothing to merge, and its deletion is there"
    )


def test_a_stream_says_which_version_it_cannot_emit(spark: Any, tmp_path: Path) -> None:
    source, target = tmp_path / "a.lance", tmp_path / "b.lance"
    lw.create(source, rows(1, 2)).append(rows(3)).delete("k = 1")
    lw.open(source).append(rows(4))
    secret = {"storage.aws_secret_access_key": "planted"}
    frame = stream(spark, source, startingVersion=1, **secret)
    told = io.StringIO()
    with contextlib.redirect_stdout(told):
        frame.explain(True)
    if not HAS_LIMITS:  # then the trigger is for one batch, which ends before the deletion
        run(frame, tmp_path / "c", target, **secret)
    with pytest.raises(Exception, match=r"version 3 \(Delete\).*deleted 1.*onChange") as failed:
        run(frame, tmp_path / "c", target, **secret)
    assert keys(target) == [1, 2, 3], "what came before is there"
    assert "planted" not in told.getvalue() + str(failed.value)
    written = [each.read_bytes() for each in (tmp_path / "c").rglob("*") if each.is_file()]
    assert not any(b"planted" in each for each in written)


def test_complete_mode_and_branches(spark: Any, tmp_path: Path) -> None:
    source, target = tmp_path / "a.lance", tmp_path / "b.lance"
    lw.create(source, rows(1)).branches.create("exp")
    lw.open(source, branch="exp").append(rows(2, 3))
    schema = pa.schema([pa.field("odd", pa.int64()), pa.field("count", pa.int64())])
    lw.create(target, schema).branches.create("sums")
    limit = {"maxRowsPerTrigger": 1} if HAS_LIMITS else {}
    counted = stream(spark, source, branch="exp", columns="k", **limit)
    counted = counted.groupBy((counted.k % 2).alias("odd")).count()
    run(counted, tmp_path / "c", target, "complete", branch="sums")
    found = by_pylance(target).checkout_version(("sums", None)).to_table().to_pylist()
    assert sorted((each["odd"], each["count"]) for each in found) == [(0, 1), (1, 2)]
    assert by_pylance(target).count_rows() == 0
    batches = 3 if HAS_LIMITS else 1
    assert len(list(lw.open(target, branch="sums").versions())) == 1 + batches
