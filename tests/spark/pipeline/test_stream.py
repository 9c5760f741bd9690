"""A pipeline as a stream: every micro-batch is a run, and its rows are there once, whatever comes.

pylance is the judge of what is there.
"""

from __future__ import annotations

import json
import os
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.unit.pipeline.run_scene import Died, Points

import lancewood as lw
from lancewood.errors import InvalidInputError, LancewoodError, UnsupportedError
from lancewood.pipeline import Ending, RunFacts, run
from lancewood.pipeline.report.facts import Listener

pytest.importorskip("pyspark", reason="pyspark is not installed")

pytestmark = pytest.mark.spark

HEAD = """
[pipeline]
name = "zoo"
[sources.animals]
format = "json"
path = "animals"
schema = "id LONG, name STRING"
[[targets]]
table = "animals"
from = "animals"
mode = "append"
"""
STREAM = """
[stream]
source = "animals"
trigger = "available-now"
options = { maxFilesPerTrigger = 1 }
"""
UNIQUE = '[[checks]]\nname = "ids"\ntable = "animals"\nunique = ["id"]\n'


@dataclass
class Zoo:
    """A pipeline file beside a folder of JSON files, which come one by one."""

    spark: Any
    folder: Path
    text: str = HEAD + STREAM
    arrived: int = 0

    def arrive(self, *ids: object) -> Path:
        """One more file, younger than those before."""
        self.arrived += 1
        file = self.folder / "animals" / f"{self.arrived}.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        lines = (json.dumps({"id": each, "name": f"n{each}"}) for each in ids)
        file.write_text("".join(f"{each}\n" for each in lines), encoding="utf-8")
        os.utime(file, (1_700_000_000 + self.arrived,) * 2)
        return file

    def run(self, listener: Any = None, **said: Any) -> RunFacts:
        file = self.folder / "zoo.toml"
        file.write_text(self.text, encoding="utf-8")
        return run(file, spark=self.spark, listener=listener, environment={}, **said)

    @property
    def repo(self) -> lw.Repository:
        return lw.Repository.open(self.folder / ".lancewood" / "zoo")

    def ids(self, table: str = "animals") -> list[int]:
        """What pylance sees, sorted; it is content with the table."""
        # Not at the top: a process that has loaded pylance must not fork, and Spark's start does.
        import lance

        found: Any = lance.dataset(str(self.repo.path / "tables" / f"{table}.lance"))
        found.validate()
        return sorted(found.to_table()["id"].to_pylist())

    def runs(self) -> list[str]:
        """The runs that commits tell of, the newest first, each without the name of its stream."""
        found = []
        for commit in self.repo.log("main"):
            entry = json.loads(self.repo.at(commit.hash).read("pipelines/zoo.json"))
            found.append(entry["run"].rpartition("-")[2])
        return found


@pytest.fixture
def zoo(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Zoo:
    monkeypatch.setenv("LANCEWOOD_FSYNC", "0")
    return Zoo(spark, tmp_path)


def test_files_that_arrive_are_there_once_and_a_batch_is_a_commit(zoo: Zoo) -> None:
    for ids in ((1, 2), (), (3,)):
        zoo.arrive(*ids)
    listener = Points()
    facts = zoo.run(listener)
    assert zoo.ids() == [1, 2, 3]
    assert zoo.runs() == ["2", "0"], "an empty batch is no commit"
    assert (facts.ending, facts.batches, facts.commit) == (
        Ending.PUBLISHED,
        2,
        zoo.repo.at("main").hash,
    )
    assert [(each.rows_before, each.rows_after, each.inserted) for each in facts.targets] == [
        (None, 3, 3)
    ]
    assert [each.rows for each in facts.sources] == [3]
    assert listener.events.count("over") == 1
    assert listener.events.count("begun publish") == 2
    assert [each for each in listener.texts if each.startswith("batch 2: published, 1 row")]
    assert [each for each in zoo.repo.branches if each.startswith("run")] == []
    assert (Path(facts.folder) / "report.html").exists()

    zoo.arrive(4)
    again = zoo.run()
    assert (zoo.ids(), zoo.runs()[0], again.run) == ([1, 2, 3, 4], "3", facts.run)
    nothing = zoo.run()
    assert (nothing.ending, nothing.batches, nothing.run) == (Ending.NOTHING_NEW, 0, facts.run)
    zoo.text = zoo.text.replace("options", 'checkpoint = "another"\noptions')
    anew = zoo.run()
    assert anew.run != facts.run, "another checkpoint is another stream"
    assert zoo.ids() == [1, 1, 2, 2, 3, 3, 4, 4]


class Dying(Listener):
    """Dies when a stage ends, the first time; keeps the names of all that did."""

    def __init__(self, stage: str | None = None) -> None:
        self.stage = stage
        self.ended_stages: list[str] = []

    def ended(self, stage: str, seconds: float, **amounts: int | None) -> None:
        self.ended_stages.append(stage)
        if stage == self.stage:
            raise Died(stage)


@pytest.mark.campaign
def test_a_stream_that_died_after_any_stage_has_every_row_once(zoo: Zoo) -> None:
    """Every event of a batch is died at in tests/unit/pipeline/test_stream_batches.py."""
    zoo.text = HEAD + UNIQUE + STREAM
    zoo.arrive(0)
    clean = Dying()
    zoo.run(clean)
    assert {"analyse", "load animals", "check ids", "publish"} <= {*clean.ended_stages}
    for number, stage in enumerate(clean.ended_stages, 1):
        zoo.arrive(number)
        with pytest.raises(Died, match=stage):
            zoo.run(Dying(stage))
        assert zoo.ids() == [*range(len(zoo.ids()))], stage
    zoo.run()
    assert zoo.ids() == [*range(len(clean.ended_stages) + 1)]
    assert zoo.runs() == [str(each) for each in reversed(zoo.ids())]
    assert [each for each in zoo.repo.branches if each.startswith("run")] == []


def test_a_batch_that_fails_a_check_stops_the_stream_which_goes_on_after_the_fix(zoo: Zoo) -> None:
    zoo.text = HEAD + UNIQUE + STREAM
    for ids in ((1, 2), (2, 3), (4,)):
        zoo.arrive(*ids)
    facts = zoo.run()
    assert (facts.ending, facts.batches) == (Ending.CHECKS_FAILED, 2)
    assert (zoo.ids(), zoo.runs()) == ([1, 2], ["0"])
    assert [each.rows_after for each in facts.targets] == [2], "those that are published"
    assert facts.run_branch == f"run/{facts.run}-1"
    assert facts.run_branch in zoo.repo.branches
    assert facts.error is not None
    assert f"branch {facts.run_branch} and at {facts.folder}/report.html" in facts.error
    assert (Path(facts.folder) / "report.html").exists()
    assert zoo.run().ending is Ending.CHECKS_FAILED, "it does not pass the batch over"
    assert zoo.runs() == ["0"]

    zoo.text = zoo.text.replace('mode = "append"', 'mode = "merge"\non = ["id"]')
    fixed = zoo.run()
    assert (fixed.ending, fixed.batches) == (Ending.PUBLISHED, 2)
    assert (zoo.ids(), zoo.runs()) == ([1, 2, 3, 4], ["2", "1", "0"])
    assert facts.run_branch not in zoo.repo.branches


@pytest.mark.campaign
def test_too_many_bad_rows_stop_the_stream(zoo: Zoo) -> None:
    zoo.text = HEAD + "[quarantine]\nmost_rows = 1\n" + STREAM
    zoo.arrive(1, "x")
    zoo.arrive(2, "y", "z")
    facts = zoo.run()
    assert (facts.ending, facts.batches) == (Ending.TOO_MANY_BAD_ROWS, 2)
    assert (zoo.ids(), zoo.runs()) == ([1], ["0"])
    zoo.text = zoo.text.replace("most_rows = 1", "most_rows = 2")
    assert zoo.run().ending is Ending.PUBLISHED
    assert zoo.ids() == [1, 2]
    kept = zoo.repo.at("main").table("quarantine").to_arrow().to_pylist()
    assert len(kept) == 3
    assert all(Path(each["file"]).is_file() and each["line"] for each in kept)


@pytest.mark.campaign
def test_a_lance_table_is_followed_version_by_version(zoo: Zoo) -> None:
    def rows(*ids: int) -> pa.Table:
        names = [f"n{each}" for each in ids]
        return pa.table({"id": pa.array(ids, pa.int64()), "name": names, "more": names})

    source = zoo.folder / "source.lance"
    lw.create(source, rows(1, 2)).append(rows(3))
    kind = 'uri = "source.lance"\ncolumns = ["id", "name"]\n'
    start, end = HEAD.index("format"), HEAD.index("[[targets]]")
    zoo.text = (
        HEAD[:start]
        + kind
        + HEAD[end:]
        + STREAM.replace("maxFilesPerTrigger = 1", "maxRowsPerTrigger = 2")
    )
    assert (zoo.run().batches, zoo.ids(), zoo.runs()) == (2, [1, 2, 3], ["1", "0"])
    lw.open(source).append(rows(4))
    assert (zoo.run().batches, zoo.ids()) == (1, [1, 2, 3, 4])
    assert zoo.repo.at("main").table("animals").schema.names == ["id", "name"]

    # What was written is followed by the next pipeline.
    zoo.text = HEAD[:start] + 'table = "animals"\n' + HEAD[end:] + STREAM.partition("options")[0]
    with pytest.raises(InvalidInputError, match=r"targets\[0\].table: 'animals' is the table that"):
        zoo.run()
    zoo.text = zoo.text.replace('"animals"\nfrom', '"copies"\nfrom').replace('"zoo"', '"copy"')
    zoo.text = zoo.text.replace("[sources", 'repository = ".lancewood/zoo"\n[sources')
    assert (zoo.run().ending, zoo.ids("copies")) == (Ending.PUBLISHED, [1, 2, 3, 4])
    with zoo.repo.transaction("main", "by hand") as changes:
        changes.table("animals").append(rows(5).drop_columns("more"))
    assert (zoo.run().ending, zoo.ids("copies")) == (Ending.PUBLISHED, [1, 2, 3, 4, 5])


def test_ctrl_c_ends_a_stream_after_the_batch_under_way(zoo: Zoo) -> None:
    zoo.text = zoo.text.replace("available-now", "1 second")
    zoo.arrive(1)
    zoo.arrive(2)

    class Interrupting(Points):
        def begun(self, stage: str) -> None:
            super().begun(stage)
            if stage == "load animals":
                os.kill(os.getpid(), signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    listener = Interrupting()
    facts = zoo.run(listener)
    assert (facts.ending, facts.batches, zoo.ids()) == (Ending.PUBLISHED, 1, [1])
    assert listener.texts[0] == "the stream ends after the batch under way"
    assert listener.events[-1] == "over"
    assert signal.getsignal(signal.SIGINT) is before
    zoo.text = zoo.text.replace("1 second", "available-now")
    zoo.run()
    assert (zoo.ids(), zoo.runs()) == ([1, 2], ["1", "0"])


def test_what_is_wrong_is_said_before_the_stream_begins(zoo: Zoo) -> None:
    checkpoint = zoo.folder / ".lancewood" / "zoo" / "lancewood" / "streams" / "zoo"
    zoo.arrive(1)
    good = zoo.text
    assert zoo.run(dry_run=True).ending is Ending.DRY_RUN
    assert not (zoo.folder / ".lancewood").exists()
    for wrong, told in (
        (good.replace("name STRING", "name STRIN"), r"sources\.animals"),
        (good.replace('from = "animals"', 'from = "cats"') + CATS, r"steps\.cats\.sql: .*nam"),
        (good + UNIQUE.replace('["id"]', '["no"]'), r"checks\[0\]\.unique.*'no'"),
        (good.replace('"json"', '"jdbc"'), r"sources\.animals"),
    ):
        zoo.text = wrong
        with pytest.raises(InvalidInputError, match=rf"zoo\.toml line \d+: {told}"):
            zoo.run()
        assert not checkpoint.exists()
    zoo.text = good
    with pytest.raises(InvalidInputError, match="ids of their own, and run id 'r1'"):
        zoo.run(run_id="r1")


CATS = '[steps.cats]\nsql = "SELECT nam FROM animals"\n'


def test_an_error_ends_the_stream_with_its_facts_and_without_secrets(zoo: Zoo) -> None:
    zoo.text = zoo.text.replace("schema =", 'options = { x = "${env:PASSWORD}" }\nschema =')
    zoo.text = zoo.text.replace('from = "animals"', 'from = "broken"')
    zoo.text += '[steps.broken]\npython = "broken_steps:broken"\ninputs = ["animals"]\n'
    (zoo.folder / "broken_steps.py").write_text(BROKEN, encoding="utf-8")
    zoo.arrive(1)
    zoo.arrive(2)
    file = zoo.folder / "zoo.toml"
    file.write_text(zoo.text, encoding="utf-8")
    with pytest.raises(LancewoodError, match=r"\$\{env:PASSWORD\} is wrong") as caught:
        run(file, spark=zoo.spark, environment={"PASSWORD": "planted"})
    assert "planted" not in "".join(map(repr, [caught.value, caught.value.__cause__]))
    facts = caught.value.facts["run_facts"]
    assert (facts.ending, facts.batches, zoo.ids()) == (Ending.FAILED, 1, [1])
    assert "planted" not in facts.error
    assert facts.folder.endswith(f"{facts.run}-1")


BROKEN = """
def broken(animals):
    return animals.selectExpr("if(id = 2, raise_error('planted is wrong'), id) AS id", "name")
"""


def test_a_stream_without_a_schema_takes_that_of_what_is_there(zoo: Zoo) -> None:
    zoo.text = zoo.text.replace('schema = "id LONG, name STRING"\n', "")
    zoo.arrive(1)
    zoo.run()
    zoo.arrive(2)
    zoo.run()
    assert zoo.ids() == [1, 2]


def test_spark_connect_is_refused(zoo: Zoo) -> None:
    zoo.arrive(1)
    zoo.spark = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})()
    with pytest.raises(UnsupportedError, match=r"zoo.toml line \d+: stream: over Spark Connect"):
        zoo.run(Listener())
