"""A whole pipeline on a cluster of a master and two executors, of which one is killed in the middle
of a write: the run publishes, every row is there once, and what is left behind is found by cleanup.

pylance is the judge of what is there.
"""

from __future__ import annotations

import json
import os
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.spark.clusters.conftest import SMALL_BATCHES, Faulty
from tests.spark.clusters.faults import DIRECTORY, Fault, Faults
from tests.spark.clusters.kinds import STANDALONE

import lancewood as lw
from lancewood.pipeline import Ending, run

pytest.importorskip("pyspark", reason="pyspark is not installed")

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark-standalone")]

ROWS, FILES, BAD_EVERY = 4000, 4, 100
AGE = timedelta(days=30)
PATIENCE = 120.0
PIPELINE = """
[pipeline]
name = "zoo"
tag = "{run}"

[sources.animals]
format = "json"
path = "drop/*.json"
schema = "id LONG, name STRING"
reject = [{ where = "name IS NULL", reason = "no name" }]

[steps.named]
python = "zoo_steps:named"
inputs = ["animals"]

[functions.letters]
python = "zoo_steps:letters"
returns = "long"

[[targets]]
table = "animals"
from = "named"
mode = "merge"
on = ["id"]

[[targets]]
table = "animals"
mode = "add-columns"
columns = { length = "letters(name)" }

[quarantine]
most_share = "2 %"

[[checks]]
table = "animals"
unique = ["id"]

[[checks]]
table = "animals"
not_null = ["name", "length"]
"""
STEPS = """
import pyarrow as pa
import pyarrow.compute as pc

def named(animals):
    def upper(batches):
        for batch in batches:
            names = pc.utf8_upper(batch["name"])
            yield pa.record_batch({"id": batch["id"], "name": names})
    return animals.mapInArrow(upper, "id long, name string")

def letters(name):
    return len(name)
"""


@pytest.fixture
def dying(sessions: Any, tmp_path: Path) -> Faulty:
    """Two executors on two workers of a standalone cluster, which may be killed."""
    directory = tmp_path / "faults"
    directory.mkdir()
    settings = {
        "spark.python.daemon.module": "tests.spark.clusters.faulty_daemon",
        f"spark.executorEnv.{DIRECTORY}": str(directory),
        "spark.executorEnv.LANCEWOOD_FSYNC": "0",
        **SMALL_BATCHES,
    }
    return Faulty(sessions.use(STANDALONE, settings), Faults(directory))


def drop(folder: Path) -> None:
    """Files of JSON, a few of whose rows are bad."""
    folder.mkdir()
    each = ROWS // FILES
    for number in range(FILES):
        lines = [
            json.dumps({"id": row, "name": None if row % BAD_EVERY == 0 else f"n{row}"})
            for row in range(number * each, (number + 1) * each)
        ]
        (folder / f"{number}.json").write_text("\n".join(lines), encoding="utf-8")


EXPECTED = [
    {"id": row, "name": f"N{row}", "length": len(f"N{row}")}
    for row in range(ROWS)
    if row % BAD_EVERY
]


def judged(uri: Path) -> list[dict[str, Any]]:
    """What pylance reads, in the order of the ids; it is content with the table."""
    # Not at the top: a process that has loaded pylance must not fork, and Spark's start does.
    import lance

    dataset: Any = lance.dataset(str(uri))
    dataset.validate()
    return sorted(dataset.to_table().to_pylist(), key=lambda row: row["id"])


def orphans(uri: Path) -> set[Path]:
    """Files below data/ that no version names."""
    table = lw.open(uri)
    named = {
        file.path
        for version in table.versions()
        for fragment in table.checkout(version=version.version).fragments
        for file in fragment.files
    }
    return {each for each in (uri / "data").iterdir() if each.name not in named}


def wait_for_executors(spark: Any, number: int) -> None:
    """Until so many have come; the driver is told of as one, too."""
    tracker = spark.sparkContext._jsc.sc().statusTracker()
    until = time.monotonic() + PATIENCE
    while len(tracker.getExecutorInfos()) - 1 < number:
        assert time.monotonic() < until, "the executors did not come"
        time.sleep(0.05)


@pytest.mark.campaign
def test_an_executor_that_is_killed_in_the_middle_of_a_write_changes_nothing(
    dying: Faulty, tmp_path: Path
) -> None:
    file = tmp_path / "zoo.toml"
    file.write_text(PIPELINE, encoding="utf-8")
    (tmp_path / "zoo_steps.py").write_text(STEPS, encoding="utf-8")
    drop(tmp_path / "drop")
    repository = tmp_path / ".lancewood" / "zoo"
    uri = repository / "tables" / "animals.lance"

    wait_for_executors(dying.spark, 2)
    dying.faults.arm(Fault("write", "kill", under=str(uri / "data")))
    facts = run(file, run_id="first", spark=dying.spark, environment={})
    assert dying.faults.left() == 0, "an executor was killed"
    assert facts.ending is Ending.PUBLISHED
    assert judged(uri) == EXPECTED
    bad = ROWS // BAD_EVERY
    assert facts.quarantine is not None
    assert (facts.quarantine.rows, facts.sources[0].rows) == (bad, ROWS)
    assert facts.targets[0].inserted == ROWS - bad

    repo = lw.Repository.open(repository)
    quarantine = repo.at("main").table("quarantine").to_arrow()
    assert quarantine.num_rows == bad
    assert len(set(quarantine["record"].to_pylist())) == bad
    assert [each for each in repo.branches if each.startswith("run")] == []
    assert list(repo.tags.list()) == ["first"]
    assert len([*repo.log("main")]) == 1
    assert not repo.fsck().problems

    left = orphans(uri)
    assert left, "the executor was killed in the middle of a file"
    for each in left:
        os.utime(each, times=(time.time() - AGE.total_seconds(),) * 2)
    lw.open(uri).cleanup()
    assert not orphans(uri)
    assert judged(uri) == EXPECTED
    assert not repo.fsck().problems
