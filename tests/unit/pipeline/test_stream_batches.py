"""The batches of a stream without Spark: one that is told again is loaded once."""

from __future__ import annotations

import shutil
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from tests.unit.pipeline.run_scene import SPOT, Died, FakeWork, Points, Scene

import lancewood as lw
from lancewood.errors import InvalidInputError
from lancewood.pipeline import streaming as batches_of
from lancewood.pipeline.definition.model import Stream, UniqueCheck
from lancewood.pipeline.definition.names import checked_pipeline
from lancewood.pipeline.report.facts import CheckFacts, Ending, Listener, RunFacts
from lancewood.pipeline.report.lines import lines
from lancewood.pipeline.running.runs import checked_run_id
from lancewood.pipeline.start import run_pipeline
from lancewood.pipeline.streaming import (
    Batches,
    StoppedError,
    Summary,
    asked_to_stop,
    batch_run_id,
    without_query,
)

STREAM = "576780cf-e444-4c45-b0c1-6a77346d3ccd"


@pytest.fixture(autouse=True)
def _unsynced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANCEWOOD_FSYNC", "0")


def streamed(path: Path, **said: Any) -> Scene:
    stream = Stream("a", "available-now", str(path / "checkpoint"), SPOT.at("stream"))
    scene = Scene.at(path, stream=stream, **said)
    lw.Repository.open_or_init(scene.pipeline.repository)  # as a stream does before its query
    return scene


@dataclass(frozen=True)
class Rows:
    """A micro-batch as Spark hands it over."""

    values: list[int]
    sparkSession: Any = None

    def isEmpty(self) -> bool:
        return not self.values


@dataclass
class Spark:
    """What Spark does with a stream: a batch is told until it is done, and then the next one."""

    scene: Scene
    incoming: list[list[int]]
    done: int = 0
    summaries: list[RunFacts] = field(default_factory=list)

    def start(self, listener: Any = None, stop_in: Callable[[Batches], None] | None = None) -> Any:
        """From where the checkpoint is; what ended it, if something did."""
        pipeline = self.scene.pipeline
        facts = RunFacts(pipeline.name, "zoo-stream", "repo", "main", "", "now", file="zoo.toml")
        summary = Summary(facts)
        self.summaries.append(facts)

        def run_batch(pipeline: Any, **said: Any) -> RunFacts:
            said["spark"] = type("Session", (), {"version": "none"})()
            self.scene.incoming.values.update(a=said["overrides"]["a"].values, b=[])
            if stop_in is not None:
                stop_in(found)
            return run_pipeline(pipeline, work=FakeWork(self.scene), **said)

        found = Batches(pipeline, "a", run_batch, listener or Listener(), summary)
        found.begin(STREAM)
        while self.done < len(self.incoming):
            try:
                found.take(Rows(self.incoming[self.done]), self.done)  # type: ignore[arg-type]
            except StoppedError as stopped:
                assert found.is_idle
                return found.failure or stopped
            self.done += 1
        return None


def test_batches_are_runs_and_a_batch_without_rows_is_none(tmp_path: Path) -> None:
    spark = Spark(streamed(tmp_path), [[1, 2], [], [3, -4]])
    listener = Points()
    assert spark.start(listener) is None
    assert spark.scene.seen("photos") == [1, 2, 3]
    facts = spark.summaries[0]
    assert (facts.ending, facts.batches) == (Ending.PUBLISHED, 2)
    photos, labels = facts.targets
    assert (photos.rows_before, photos.rows_after, photos.inserted) == (0, 3, 3)
    assert (labels.inserted, facts.sources[0].rows) == (0, 3)
    assert facts.quarantine is not None
    assert (facts.quarantine.rows, facts.quarantine.by_reason) == (1, (("source", "negative", 1),))
    assert [each.name for each in facts.stages].count("load photos") == 1
    assert facts.commit == spark.scene.repo.at("main").hash
    assert "over" not in listener.events, "the stream tells that itself"
    assert listener.texts[0].startswith("batch 0: published, 2 rows inserted, commit ")
    assert "2 batches" in "\n".join(lines(facts))
    spark.scene.check_tidy()


def test_a_stream_that_died_at_any_event_of_a_batch_has_every_row_once(tmp_path: Path) -> None:
    points = Points()
    clean = Spark(streamed(tmp_path / "clean", tag="v-{run}"), [[1], [2, -3]])
    clean.start()
    clean.incoming.append([4])
    clean.start(points)
    wanted = clean.scene.all_seen()
    begun = Spark(streamed(tmp_path / "begun", tag="v-{run}"), [[1], [2, -3]])
    begun.start()
    assert len(points.events) > 15
    for at, event in enumerate(points.events, 1):
        path = tmp_path / f"at{at}"
        shutil.copytree(tmp_path / "begun", path)
        pipeline = replace(begun.scene.pipeline, repository=str(path / "repo"))
        scene = replace(begun.scene, path=path, pipeline=pipeline)
        spark = Spark(scene, [[1], [2, -3], [4]], done=2)
        assert isinstance(spark.start(Points(at)), Died), event
        assert spark.done == 2
        assert spark.start() is None
        assert scene.all_seen() == wanted, event
        assert len([*scene.repo.log("main")]) == 3, event
        again = spark.summaries[-1]
        is_there = points.events.index("ended publish") < at
        assert again.ending is (Ending.ALREADY_PUBLISHED if is_there else Ending.PUBLISHED), event
        scene.check_tidy()
        shutil.rmtree(path)


def test_a_batch_that_fails_a_check_is_told_again_after_the_fix(tmp_path: Path) -> None:
    check = UniqueCheck("ids", SPOT, False, "photos", ("id",))
    scene = replace(
        streamed(tmp_path, checks=(check,), parameters={"day": "monday"}),
        checks=lambda context: [CheckFacts("ids", "unique", "photos", is_passed=False)],
    )
    spark = Spark(scene, [[1], [2]])
    stopped = spark.start()
    run = batch_run_id("zoo", STREAM, 0)
    page = f"{scene.repo.path}/lancewood/runs/zoo/{run}/report.html"
    assert isinstance(stopped, StoppedError)
    for each in ("checks failed in batch 0", f"branch run/{run}", page):
        assert each in str(stopped)
    facts = spark.summaries[0]
    assert (facts.ending, facts.error, facts.targets) == (Ending.CHECKS_FAILED, str(stopped), [])
    assert "main" not in scene.repo.branches.list()
    assert facts.what_next == [
        f"cd {scene.repo.path}",
        f"lw tables run/{run}",
        f"lw run {tmp_path}/zoo.toml --param=day=monday",
    ]
    spark.scene = replace(scene, checks=lambda context: [])
    assert spark.start() is None
    assert spark.scene.seen("photos") == [1, 2]
    spark.scene.check_tidy()


def test_a_batch_that_was_reset_away_is_loaded_when_it_is_told_again(tmp_path: Path) -> None:
    spark = Spark(streamed(tmp_path), [[1], [2], [3]])
    spark.start()
    spark.scene.repo.reset("main~2")
    spark.done, listener = 1, Points()
    assert spark.start(listener) is None
    assert spark.scene.landed("photos") == [1, 2, 3]
    names = [batch_run_id("zoo", STREAM, batch) for batch in (1, 2)]
    assert listener.texts[0] == (
        f"branch main was reset and has lost {names[0]} to {names[1]}: what the checkpoint counts "
        "as done is not read again; a new checkpoint reads everything"
    )
    listener = Points()
    spark.start(listener)
    assert listener.texts == [], "the branch has them again"


def test_a_batch_that_was_reverted_is_passed_over_when_it_is_told_again(tmp_path: Path) -> None:
    spark = Spark(streamed(tmp_path), [[1], [2]])
    spark.start()
    spark.scene.repo.revert("main")
    spark.done, listener = 1, Points()
    spark.incoming.append([3])
    assert spark.start(listener) is None
    assert spark.scene.landed("photos") == [1, 3]
    assert listener.texts[0] == "batch 1: reverted"
    assert spark.summaries[-1].ending is Ending.PUBLISHED


def test_a_stream_that_is_stopped_ends_the_batch_under_way_and_begins_no_other(
    tmp_path: Path,
) -> None:
    spark = Spark(streamed(tmp_path), [[1], [2]])

    def stop(found: Batches) -> None:
        assert not found.is_idle
        found.stop()

    stopped = spark.start(stop_in=stop)
    assert str(stopped) == "the stream is stopped"
    assert (spark.done, spark.scene.seen("photos")) == (1, [1])
    assert spark.summaries[0].ending is Ending.PUBLISHED


def test_reports_are_kept_of_the_newest_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches_of, "KEPT_REPORTS", 2)
    spark = Spark(streamed(tmp_path), [[each] for each in range(5)])
    spark.start()
    folder = spark.scene.repo.path / "lancewood" / "runs" / "zoo"
    assert sorted(each.name for each in folder.iterdir()) == [
        batch_run_id("zoo", STREAM, each) for each in (3, 4)
    ]
    assert len(spark.scene.repo.marks.list("runs/zoo/")) == 5
    spark.incoming += [[], [], [9]]
    spark.start()
    assert [each.name for each in folder.iterdir()] == [batch_run_id("zoo", STREAM, 7)]


def test_an_error_of_a_batch_is_kept_and_told_to_spark_in_a_line(tmp_path: Path) -> None:
    spark = Spark(streamed(tmp_path, branch="gone"), [[1]])
    failed = spark.start()
    assert isinstance(failed, InvalidInputError)
    assert "has no branch 'gone'" in failed.message
    facts, run = spark.summaries[0], batch_run_id("zoo", STREAM, 0)
    assert (spark.done, facts.batches, facts.run_branch) == (0, 0, f"run/{run}")
    assert facts.folder.endswith(run)
    assert facts.what_next == [f"lw run {tmp_path}/zoo.toml"], "a stream takes no run id"


def test_of_a_query_that_failed_only_the_reason_is_told() -> None:
    text = (
        "the stream of 'a' failed on Spark: [STREAM_FAILED] Query [id = 5b, runId = 9c] "
        "terminated with exception: no worker came. SQLSTATE: XXKST\n=== Streaming Query ===\n"
        "Identifier: lancewood zoo [id = 5b, runId = 9c]\nCurrent Committed Offsets: {}"
    )
    assert without_query(text) == "the stream of 'a' failed on Spark: no worker came."
    assert without_query("version 3 (Delete) deleted 1") == "version 3 (Delete) deleted 1"


def test_the_id_of_a_batch_is_a_good_run_id_for_every_pipeline() -> None:
    name = checked_pipeline("x" * 60)
    assert checked_run_id(batch_run_id(name, STREAM, 10**12)).endswith("-1000000000000")
    other = STREAM.replace("5", "6", 1)
    assert batch_run_id("zoo", other, 1) != batch_run_id("zoo", STREAM, 1)


def test_the_first_ctrl_c_asks_and_the_second_interrupts() -> None:
    asked: list[int] = []
    shell = signal.signal(signal.SIGINT, signal.default_int_handler)  # it may ignore Ctrl-C
    before = signal.getsignal(signal.SIGINT)
    with asked_to_stop(lambda: asked.append(1)):
        signal.raise_signal(signal.SIGINT)
        assert asked == [1]
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert (asked, signal.getsignal(signal.SIGINT)) == ([1], before)
    signal.signal(signal.SIGINT, shell)


def test_signals_are_left_alone_elsewhere_than_in_the_main_thread() -> None:
    before, seen = signal.getsignal(signal.SIGINT), []

    def work() -> None:
        with asked_to_stop(lambda: None):
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [before]
