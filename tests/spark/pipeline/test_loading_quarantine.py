"""Bad rows: where they go, what is told of them, and when there are too many."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.spark.pipeline.loading_scene import FakeFrames, LoadingContext, new_context, rows_of

from lancewood.pipeline.loading.quarantine import check_quarantine, load_quarantine
from lancewood.pipeline.report.facts import QuarantineFacts, SourceFacts

pytestmark = pytest.mark.spark

BAD = "origin string, reason string, file string, line long, record string"
OLDER = pa.schema({name: pa.string() for name in ("run", "origin", "reason", "record")})


def bad(spark: Any, *counts: tuple[str, str, int]) -> Any:
    rows = [
        (origin, reason, f"/in/{origin}.csv", number + 1, f'{{"n":{number}}}')
        for origin, reason, count in counts
        for number in range(count)
    ]
    return spark.createDataFrame(rows, BAD).coalesce(1)


def quarantined(spark: Any, context: LoadingContext, frames: FakeFrames) -> QuarantineFacts:
    return load_quarantine(spark, context, context.pipeline, frames)


def test_bad_rows_are_kept_with_their_run_and_counted_by_reason(spark: Any, tmp_path: Path) -> None:
    context = new_context(tmp_path, most_rows=5)
    rows = bad(spark, ("photos", "no image", 3), ("labels", "no id", 1), ("photos", "too big", 1))
    facts = quarantined(spark, context, FakeFrames(bad=rows))
    assert facts.by_reason == (
        ("photos", "no image", 3),
        ("labels", "no id", 1),
        ("photos", "too big", 1),
    )
    assert (facts.table, facts.rows, facts.is_beyond) == ("quarantine", 5, False)
    assert facts.limit == "at most 5 rows"
    kept = rows_of(context.on_branch("quarantine"))
    (moment,) = {each.pop("moment") for each in kept}
    assert abs(datetime.now(UTC) - moment) < timedelta(minutes=5)
    assert {
        "run": "r1",
        "origin": "labels",
        "reason": "no id",
        "file": "/in/labels.csv",
        "line": 1,
        "record": '{"n":0}',
    } in kept
    assert len(kept) == 5
    assert facts.sample == (
        ("labels", "no id", "/in/labels.csv", "1", '{"n": 0}'),
        ("photos", "no image", "/in/photos.csv", "1", '{"n": 0}'),
        ("photos", "no image", "/in/photos.csv", "2", '{"n": 1}'),
        ("photos", "no image", "/in/photos.csv", "3", '{"n": 2}'),
        ("photos", "too big", "/in/photos.csv", "1", '{"n": 0}'),
    )
    assert not context.has("quarantine")
    context.publish()
    context.begin("r2")
    more = quarantined(spark, context, FakeFrames(bad=bad(spark, ("photos", "no image", 6))))
    assert (more.rows, more.is_beyond) == (6, True)
    assert more.by_reason == (("photos", "no image", 6),)
    assert len(rows_of(context.on_branch("quarantine"))) == 11


def test_bad_rows_of_another_pipeline_with_the_same_run_id_are_its_own(
    spark: Any, tmp_path: Path
) -> None:
    context = new_context(tmp_path, most_rows=None, most_share=0.5)
    theirs = bad(spark, ("their source", "no id", 3), ("photos", "no image", 2))
    quarantined(spark, context, Counting({"their source": spark.range(9)}, theirs))
    context.publish()
    context.repository.branches.delete(context.branch, force=True, tables=True)
    context.begin("r1")
    ours = bad(spark, ("photos", "no image", 4), ("photos", "too big", 1))
    facts = quarantined(spark, context, Counting(bad=ours))
    assert facts.by_reason == (("photos", "no image", 4), ("photos", "too big", 1))
    assert (facts.rows, facts.is_beyond) == (5, False)
    assert len(facts.sample) == 4, "three of one reason, one of the other, none of theirs"


def test_a_quarantine_of_an_earlier_release_gets_the_columns_that_it_has_not(
    spark: Any, tmp_path: Path
) -> None:
    context = new_context(tmp_path, most_rows=None)
    old = pa.table({each: ["old"] for each in OLDER.names}, schema=OLDER)
    with context.repository.transaction("main", message="bad rows") as changes:
        changes.create_table("quarantine", old)
    context.begin("r2")
    check_quarantine(context)
    assert quarantined(spark, context, FakeFrames(bad=bad(spark))).rows == 0
    assert context.on_branch("quarantine").schema.names == OLDER.names
    quarantined(spark, context, FakeFrames(bad=bad(spark, ("photos", "no image", 1))))
    kept = {each["run"]: each for each in rows_of(context.on_branch("quarantine"))}
    assert (kept["old"]["record"], kept["old"]["line"]) == ("old", None)
    assert (kept["r2"]["file"], kept["r2"]["line"]) == ("/in/photos.csv", 1)


def test_the_sample_has_short_values_and_names_every_column(spark: Any, tmp_path: Path) -> None:
    context = new_context(tmp_path, most_rows=None)
    record = json.dumps({"long": "x" * 500, "last": [1, 2], "none": None})
    rows = spark.createDataFrame([("photos", "too long", None, None, record)], BAD)
    ((_, _, file, line, shown),) = quarantined(spark, context, FakeFrames(bad=rows)).sample
    assert (file, line) == ("", "")
    assert json.loads(shown) == {
        "long": "x" * 80 + "… (500 characters)",
        "last": "[1, 2]",
        "none": None,
    }


def test_without_bad_rows_there_is_no_quarantine_and_no_new_version_of_one(
    spark: Any, tmp_path: Path
) -> None:
    context = new_context(tmp_path, most_rows=None)
    none = bad(spark)
    for frames in (FakeFrames(), FakeFrames(bad=none)):
        facts = quarantined(spark, context, frames)
        assert (facts.rows, facts.is_beyond, facts.limit) == (0, False, "no limit")
        assert not context.has("quarantine", revision=context.branch)
    assert quarantined(spark, context, FakeFrames(bad=bad(spark, ("a", "b", 1)))).rows == 1
    context.repository.commit("kept", branch=context.branch)
    before = context.on_branch("quarantine").version
    assert quarantined(spark, context, FakeFrames(bad=none)).rows == 0
    assert context.on_branch("quarantine").version == before


class Counting(FakeFrames):
    """Frames that know how many rows of ``photos`` came in."""

    def counted(self) -> list[SourceFacts]:
        return [SourceFacts("photos", "csv", "photos.csv", rows=10), SourceFacts("a", "csv", "")]


def test_a_share_is_of_the_rows_of_the_same_source_or_step(spark: Any, tmp_path: Path) -> None:
    context = new_context(tmp_path, most_rows=None, most_share=0.1)
    step = spark.range(19)
    facts = quarantined(
        spark, context, Counting({"step": step}, bad(spark, ("photos", "x", 1), ("step", "y", 2)))
    )
    assert not facts.is_beyond
    facts = quarantined(spark, context, Counting({"step": step}, bad(spark, ("photos", "x", 1))))
    assert facts.is_beyond, "two of ten by now"
    assert facts.limit == "at most 10 % of the rows of a source or step"
