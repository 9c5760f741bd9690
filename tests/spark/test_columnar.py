"""The columnar door on a local Spark: what is pushed, what is handed over, and its workers."""

from __future__ import annotations

import contextlib
import gc
import io
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest
from tests.spark.environment import of_a_quick_shell
from tests.spark.ways import configured

import lancewood as lw

pytest.importorskip("pyspark", reason="pyspark is not installed")

from tests.spark.needs import needs
from tests.spark.ways import with_the_door

from lancewood.engine.rows import plan_scan
from lancewood.spark import read
from lancewood.spark.abilities import SOURCES, release_here, release_of
from lancewood.spark.columnar import door, why_closed
from lancewood.spark.columnar.door import LINE, SETTING, VARIABLE
from lancewood.spark.columnar.protocol import PythonCommand
from lancewood.spark.java import find_java
from lancewood.spark.reading import plan as planning
from lancewood.spark.reading.plan import columnar_read, plan_read

pytestmark = [
    pytest.mark.spark,
    pytest.mark.xdist_group("spark"),
    with_the_door,
]

SLEEP = "java_method('java.lang.Thread', 'sleep'"
TOTALS = ("count(n)", "sum(n)", "max(z)")
MODULE = "lancewood.spark.worker_server"
NOON = datetime(2026, 1, 1, 12, 0, 0, 250, UTC)
NAN = float("nan")
AWKWARD = pa.table(
    {
        "i": pa.array([1, -2, None, 4, 5, 6], pa.int64()),
        "u": pa.array([0, 2**64 - 1, 7, None, 5, 6], pa.uint64()),
        "b": [True, False, None, True, False, True],
        "d": [0.1, -0.0, NAN, float("inf"), None, -1e300],
        "f": pa.array([0.1, -0.0, NAN, float("-inf"), None, 3.5], pa.float32()),
        "s": ["a", "it's", None, "", "ß", '"q" \\'],
        "m": pa.array(
            [Decimal("1.10"), Decimal("-9.99"), None, Decimal(0), Decimal(5), Decimal(6)]
        ),
        "day": [
            date(2026, 1, 1),
            date(1, 1, 1),
            None,
            date(9999, 12, 31),
            date(1969, 12, 31),
            None,
        ],
        "t": pa.array([NOON, datetime(1960, 1, 1, tzinfo=UTC), None, NOON, NOON, None]),
        "w": pa.array([NOON.replace(tzinfo=None), None, None, datetime(1, 1, 1), None, None]),
        "x": [b"a", b"", None, b"\x00\xff", b"b", b"c"],
        "st": [{"in": {"n": 1}, "s": "a"}, None, {"in": None, "s": None}, *[{"in": {"n": 4}}] * 3],
        "l": [[1, None], None, [], [3], [4], [5]],
        'a "b"': [1, 2, 3, 4, 5, 6],
    }
)
CONDITIONS = (
    *("i > 1", "i IN (1, 4, 99)", "NOT (i = 1)", "i <=> 4", "i IS NULL", "1 < i", "i <> 5"),
    *("u > 6", "u = 18446744073709551615", "b", "NOT b", "b IS NULL"),
    *("d > 0", "d >= double('NaN')", "d < 0.1", "d = 0", "d <= 0.1", "NOT (d > 0)", "d <> 0.1"),
    *("f > float(0.1)", "f = float(0.1)", "f <= float(0.1)", "f > 0.1", "f < 1e300"),
    *("s = 'it\\'s'", "s = ''", "s > 'a'", "s IN ('ß', '\"q\" \\\\')", "s LIKE 'i%'"),
    *("m = 1.1", "m < 0", "m >= 5.00", "m IN (1.10, 6)", "m > 5.123"),
    *("day = date'2026-01-01'", "day < date'1970-01-01'", "day > date'9999-01-01'"),
    *("t = timestamp'2026-01-01 12:00:00.00025Z'", "t < timestamp'1970-01-01 00:00:00Z'"),
    *("w = timestamp_ntz'2026-01-01 12:00:00.00025'", "w < timestamp_ntz'0001-01-01 00:00:01'"),
    *("x = X'61'", "x IS NULL", "st.in.n = 4", "st.s = 'a'", "st.in IS NULL", "st IS NULL"),
    *("l IS NULL", "size(l) = 1", '`a "b"` > 4', "i > 1 AND (s = '' OR d = 0)", "i = 1 OR x = X''"),
)


@pytest.fixture(scope="module")
def awkward(tmp_path_factory: pytest.TempPathFactory) -> lw.Table:
    """Every value that conditions stumble over, in two fragments with a deletion."""
    path = tmp_path_factory.mktemp("columnar") / "awkward.lance"
    made = lw.create(
        path, AWKWARD, layout=lw.Layout(max_rows_per_file=4), access=lw.Access(fsync=False)
    )
    more = AWKWARD.slice(0, 1).set_column(0, "i", pa.array([100], pa.int64()))
    return made.append(more).delete("i = 100")


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> lw.Table:
    """A million rows in four fragments, with texts."""
    path = tmp_path_factory.mktemp("columnar") / "many.lance"
    rows = pa.table({"n": range(1_000_000), "s": [f"text {n}" for n in range(1_000_000)]})
    return lw.create(
        path, rows, layout=lw.Layout(max_rows_per_file=250_000), access=lw.Access(fsync=False)
    )


def shown(frame: Any) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        frame.explain(True)
    return out.getvalue()


def scanned(frame: Any) -> str:
    """What the physical plan says of the scan."""
    (line,) = [each for each in shown(frame).splitlines() if "+- BatchScan" in each]
    return line


def bytes_of(frame: Any) -> int:
    """How large Spark takes it to be."""
    return int(str(frame._jdf.queryExecution().optimizedPlan().stats().sizeInBytes()))


def texts(frame: Any) -> list[str]:
    return sorted(str(each) for each in frame.collect())


def pythons(mark: str = "") -> set[int]:
    """Servers and workers of this user; only those with a mark in their environment."""
    found = set()
    for each in Path("/proc").iterdir():
        if each.name.isdigit():
            with contextlib.suppress(OSError):
                is_one = MODULE.encode() in (each / "cmdline").read_bytes().split(b"\0")
                if is_one and mark.encode() in (each / "environ").read_bytes():
                    found.add(int(each.name))
    return found


def workers_below(spark: Any) -> set[int]:
    """The workers of a session, without their server."""
    return pythons_below(spark)[1]


def pythons_below(spark: Any) -> tuple[set[int], set[int]]:
    """The servers of a session, and their workers."""
    java = int(spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid())
    parents = {}
    for each in pythons():
        with contextlib.suppress(OSError):
            stat = Path(f"/proc/{each}/stat").read_text()
            parents[each] = int(stat.rpartition(")")[2].split()[1])
    servers = {each for each, parent in parents.items() if parent == java}
    return servers, {each for each, parent in parents.items() if parent in servers}


def test_a_session_of_this_machine_has_the_door(spark: Any) -> None:
    assert why_closed(spark) is None


def test_sessions_are_let_go_and_do_not_bring_the_door_again(
    spark: Any, awkward: lw.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyspark.sql import SparkSession

    attached: list[Any] = []
    monkeypatch.setattr(door, "_attach", lambda *given: attached.append(given))

    def of_a_batch() -> weakref.ref[Any]:
        """As ``foreachBatch`` makes one each time."""
        session = SparkSession(spark.sparkContext, spark._jsparkSession)
        assert "BatchScan" in shown(read(session, awkward.uri))
        return weakref.ref(session)

    first, second, _ = (of_a_batch() for _ in range(3))  # PySpark keeps the one that was last
    gc.collect()
    assert (first(), second()) == (None, None)
    assert not attached


@pytest.fixture(scope="module")
def judged(spark: Any, awkward: lw.Table) -> Any:
    """The same rows as Spark itself keeps them."""
    rows = read(spark, awkward.uri)
    return spark.createDataFrame(rows.collect(), rows.schema)


@pytest.mark.sliced(2)
@pytest.mark.parametrize("condition", CONDITIONS)
def test_conditions_mean_what_they_mean_to_spark(
    spark: Any, awkward: lw.Table, judged: Any, condition: str
) -> None:
    frame = read(spark, awkward.uri).where(condition)
    assert texts(frame) == texts(judged.where(condition))


def test_rows_are_those_of_the_other_way(
    spark: Any, awkward: lw.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    through = read(spark, awkward.uri)
    monkeypatch.setenv(VARIABLE, "0")
    around = read(spark, awkward.uri)
    assert "BatchScan" in shown(through)
    assert "MapInArrow" in shown(around)
    assert through.schema == around.schema
    assert [str(each) for each in through.collect()] == [str(each) for each in around.collect()]


def test_columns_conditions_and_limits_are_pushed(spark: Any, awkward: lw.Table) -> None:
    frame = read(spark, awkward.uri)
    plan = scanned(frame.where("i > 1 AND st.in.n = 4 AND x = X'61'").select("s"))
    assert '("i" > 1) AND ("st"."in"."n" = 4)' in plan
    assert '"x" =' not in plan
    assert plan.split("[")[1].split("]")[0].split(", ")[0].startswith("s#")
    assert "LIMIT 3" in scanned(frame.limit(3))
    assert len(frame.where("i > 0").limit(2).collect()) == 2
    named = read(spark, awkward.uri, columns={"twice": "i * 2", "i": "i"})
    plan = scanned(named.where("twice = 8 AND i = 4").select("twice"))
    assert ('"i" = 4' in plan, '"twice"' in plan) == (True, False)
    assert [each.twice for each in named.where("twice = 8").collect()] == [8]


def test_conditions_of_the_reader_and_of_spark_hold_together(spark: Any, awkward: lw.Table) -> None:
    frame = read(spark, awkward.uri, where="i > ? -- not the first", parameters=[1])
    assert [each.i for each in frame.where("i < 6").select("i").collect()] == [4, 5]
    frame = read(spark, awkward.uri, columns=["st.s", "i"], with_row_id=True)
    assert [each.i for each in frame.where("_rowid = 3").select("i").collect()] == [4]
    assert frame.select("st").collect()[0].st.asDict() == {"s": "a"}


def test_rows_are_counted_by_the_manifest(spark: Any, awkward: lw.Table) -> None:
    frame = read(spark, awkward.uri)
    counting = frame.groupBy().count()
    assert "LocalTableScan" in shown(counting)
    assert (counting.collect()[0][0], frame.count()) == (6, 6)
    assert frame.where("i > 1").count() == 3
    assert read(spark, awkward.uri, where="i > 1").count() == 3
    assert read(spark, awkward.uri, limit=4).count() == 4
    assert read(spark, awkward.uri, where="i > 1", limit=2).count() == 2
    assert spark.sql("SELECT count(*), count(1), count(i) FROM {t}", t=frame).first()[:] == (
        6,
        6,
        5,
    )


def test_a_large_table_is_not_broadcast_and_a_small_one_is(
    spark: Any, many: lw.Table, awkward: lw.Table
) -> None:
    large, small = read(spark, many.uri), read(spark, awkward.uri, columns=["i"])
    assert "SortMergeJoin" in shown(large.alias("a").join(large.alias("b"), "n"))
    assert "BroadcastHashJoin" in shown(large.join(small, large.n == small.i))
    assert 15_000_000 < bytes_of(large) < 50_000_000
    assert bytes_of(large.select("n")) == 8_000_000


def test_a_query_has_as_many_tasks_as_what_it_reads_is_worth(
    spark: Any, many: lw.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    def tasks(frame: Any) -> int:
        return int(frame._jdf.queryExecution().toRdd().getNumPartitions())

    monkeypatch.setattr(planning, "LEAST", 4 << 20)
    assert tasks(read(spark, many.uri)) == 8
    assert tasks(read(spark, many.uri).select("n")) == 2
    assert tasks(read(spark, many.uri).where("s <> ''").select("n")) == 8
    assert tasks(read(spark, many.uri, where="s <> ''").select("n")) == 8
    assert tasks(read(spark, many.uri, where="n <> 0").select("n")) == 2
    computed = {"n": "n", "s": "s", "long": "length(s)"}
    assert tasks(read(spark, many.uri, columns=computed).select("n", "long")) == 8


def test_a_limit_ends_no_worker(spark: Any, many: lw.Table) -> None:
    frame = read(spark, many.uri)
    assert len(frame.limit(5).collect()) == 5
    before = workers_below(spark)
    for _ in range(3):
        assert frame.head(1)[0].n == 0
        assert len(frame.limit(5).collect()) == 5
    assert before
    assert workers_below(spark) == before


def test_rows_bytes_and_fragments_are_among_the_metrics(spark: Any, many: lw.Table) -> None:
    wanted = read(spark, many.uri).where("n >= 600000").select("s")
    wanted.write.format("noop").mode("overwrite").save()
    found = last_metrics(spark)
    assert found["number of output rows"] == "400,000"
    assert found["fragments read"] == "4"
    assert found["fragments left out by the condition of read()"] == "0"
    assert 400_000 * len("text 600000") < int(found["bytes handed over by Python"]) < 20_000_000


def test_fragments_that_the_driver_leaves_out_are_among_the_metrics(
    spark: Any, tmp_path: Path
) -> None:
    rows = pa.table({"n": range(1_000)})
    table = lw.create(tmp_path / "t", rows, layout=lw.Layout(max_rows_per_file=100)).indices.create(
        "n", "ZONEMAP"
    )
    few = read(spark, table.uri, where="n BETWEEN 250 AND 349")
    few.write.format("noop").mode("overwrite").save()
    found = last_metrics(spark)
    assert found["number of output rows"] == "100"
    assert found["fragments left out by the condition of read()"] == "8"
    assert found["fragments read"] == "2"


@pytest.mark.parametrize("kind", ["BTREE", "ZONEMAP"])
def test_indices_are_asked_for_what_spark_pushes(spark: Any, tmp_path: Path, kind: str) -> None:
    data = pa.table({"n": [each * 7 % 1_000 for each in range(1_000)], "s": ["text"] * 1_000})
    table = lw.create(tmp_path / "t", data, layout=lw.Layout(max_rows_per_file=300)).indices.create(
        "n", kind
    )
    table = table.append(data.slice(0, 50)).delete("n = 21")
    (segment,) = table.indices
    few = read(spark, table.uri).where("n IN (14, 21, 28, 900)").select("n")
    assert sorted(each.n for each in few.collect()) == [14, 14, 28, 28, 900]
    assert few.count() == 5
    for each in (tmp_path / "t" / "_indices" / str(segment.uuid)).glob("*.lance"):
        each.write_bytes(each.read_bytes()[: each.stat().st_size // 2])
    with pytest.raises(Exception, match="_indices"):
        few.collect()
    without = read(spark, table.uri, use_indices=False).where("n IN (14, 21, 28, 900)")
    assert without.count() == 5


def last_metrics(spark: Any) -> dict[str, str]:
    """What Spark's pages show of the query that ended last, by name."""
    store = spark._jsparkSession.sharedState().statusStore()
    until = time.monotonic() + 60
    while time.monotonic() < until:
        last = store.executionsList().last()
        if last.completionTime().isDefined() and last.metricValues() is not None:
            known = (last.metrics().apply(each) for each in range(last.metrics().size()))
            values = (
                (each.name(), last.metricValues().get(each.accumulatorId())) for each in known
            )
            return {name: str(value.get()) for name, value in values if value.isDefined()}
        time.sleep(0.1)
    raise AssertionError("the query did not end")


def test_an_idle_worker_that_died_is_passed_over(spark: Any, many: lw.Table) -> None:
    frame = read(spark, many.uri)
    for _ in range(3):
        frame.first()
        for each in workers_below(spark):
            os.kill(each, signal.SIGKILL)
        assert frame.where("n > 999990").select("n").collect()[0].n == 999_991


def test_a_worker_that_dies_in_the_middle_fails_its_task_which_is_run_again(
    spark: Any, many: lw.Table
) -> None:
    frame = read(spark, many.uri).selectExpr("n", f"{SLEEP}, if(n % 20000 = 0, 100L, 0L)) AS z")
    spark.sparkContext.setJobGroup("dying", "workers are killed")
    found: list[Any] = []
    waiting = in_this_group(lambda: found.append(frame.selectExpr(*TOTALS).first()))
    waiting.start()
    until = time.monotonic() + 60
    while time.monotonic() < until and not failed_tasks(spark, "dying"):
        for each in workers_below(spark):
            os.kill(each, signal.SIGKILL)
        time.sleep(1.0)
    waiting.join(120)
    assert found[0][:2] == (1_000_000, 499_999_500_000)
    assert failed_tasks(spark, "dying")


def failed_tasks(spark: Any, group: str) -> int:
    """How many tasks of a job group failed."""
    tracker = spark.sparkContext.statusTracker()
    jobs = [tracker.getJobInfo(each) for each in tracker.getJobIdsForGroup(group)]
    stages = [tracker.getStageInfo(stage) for job in jobs if job for stage in job.stageIds]
    return sum(each.numFailedTasks for each in stages if each)


def in_this_group(target: Any) -> Any:
    """A thread whose jobs are of the same group as this one's."""
    from pyspark import InheritableThread

    return InheritableThread(target=target)


def test_a_task_that_is_cancelled_gives_its_worker_up(spark: Any, many: lw.Table) -> None:
    frame, failed = read(spark, many.uri), []
    slow = frame.selectExpr(f"{SLEEP}, 100L)", "n")
    context = spark.sparkContext

    def run() -> None:
        context.setJobGroup("slow", "is cancelled", interruptOnCancel=True)  # as Spark 4 does
        try:
            slow.write.format("noop").mode("overwrite").save()
        except Exception as error:
            failed.append(str(error))

    waiting = threading.Thread(target=run)
    waiting.start()
    until = time.monotonic() + 60
    while time.monotonic() < until and not context.statusTracker().getActiveStageIds():
        time.sleep(0.1)
    time.sleep(2)
    context.cancelAllJobs()
    waiting.join(60)
    assert "cancelled" in failed[0]
    assert len(frame.where("n < 5").collect()) == 5


def test_a_task_that_is_cancelled_does_not_begin_again(
    spark: Any, many: lw.Table, tmp_path: Path
) -> None:
    begun = tmp_path / "begun"
    text = f"(open({str(begun)!r}, 'a').write('once '), __import__('time').sleep(60))"
    read(spark, many.uri).select("n").where("n % 100000 = 0").collect()  # workers that are used
    frame, failed = planned(spark, many, work=pickle.dumps(Runs(text))), []

    def run() -> None:
        try:
            with configured(spark, {"spark.sql.execution.interruptOnCancel": "false"}):
                frame.limit(1).collect()
        except Exception as error:
            failed.append(str(error))

    waiting = threading.Thread(target=run)
    waiting.start()
    until = time.monotonic() + 100
    while time.monotonic() < until and not begun.exists():
        time.sleep(0.1)
    spark.sparkContext.cancelAllJobs()
    waiting.join(60)
    assert "cancelled" in failed[0]
    while time.monotonic() < until and is_reading(spark):
        time.sleep(0.1)
    assert (is_reading(spark), begun.read_text()) == (False, "once ")


def is_reading(spark: Any) -> bool:
    """Whether a task waits for a worker, cancelled or not."""
    threads = spark.sparkContext._jvm.java.lang.Thread.getAllStackTraces().entrySet()
    tasks = [each for each in threads if "task launch" in each.getKey().getName()]
    calls = [str(call) for each in tasks for call in each.getValue()]
    return any("BatchReader" in each for each in calls)


def test_errors_of_python_are_told(spark: Any, many: lw.Table, tmp_path: Path) -> None:
    from pyspark.errors import PythonException

    made = lw.create(
        tmp_path / "t.lance", pa.table({"n": range(10)}), access=lw.Access(fsync=False)
    )
    frame = read(spark, made.uri)
    for each in (tmp_path / "t.lance" / "data").iterdir():
        each.unlink()
    with pytest.raises(
        PythonException, match=r"lancewood\.errors\.NotFoundError: version 1 of"
    ) as no:
        frame.collect()
    before, sentence, stack = str(no.value).partition(f"version 1 of {made.uri} cannot be read any")
    assert sentence
    assert "Traceback" not in before
    assert "Traceback" in stack
    is_told_by_java = release_here() >= (4, 1)
    assert (before == "") == is_told_by_java, "older PySparks put words of their own before it"
    assert read(spark, many.uri).where("n = 7").count() == 1


def test_errors_of_the_other_way_begin_with_what_they_say_after_words_of_spark(
    spark: Any, tmp_path: Path
) -> None:
    made = lw.create(
        tmp_path / "t.lance", pa.table({"n": range(10)}), access=lw.Access(fsync=False)
    )
    with configured(spark, {SETTING: "false"}):
        frames = [read(spark, made.uri)]
        if SOURCES.is_in(release_of(spark)):
            frames.append(spark.read.format("lance").load(made.uri))
            with pytest.raises(Exception, match="colums") as refused:
                spark.read.format("lance").option("colums", "n").load(made.uri)
            assert "InvalidInputError: option 'colums'" in str(refused.value).splitlines()[0]
        for each in (tmp_path / "t.lance" / "data").iterdir():
            each.unlink()
        for frame in frames:
            with pytest.raises(Exception, match=made.uri) as failed:
                frame.collect()
            text = str(failed.value)
            sentence = f"lancewood.errors.NotFoundError: version 1 of {made.uri} cannot be read"
            assert 0 < text.index(sentence) < text.index("Traceback")


@dataclass(frozen=True)
class Runs:
    """Pickled work that is what a text of Python gives, where it is loaded."""

    text: str

    def __reduce__(self) -> Any:
        return eval, (self.text,)


def planned(spark: Any, table: lw.Table, **other: Any) -> Any:
    """A frame of a table that is planned otherwise."""
    scan = plan_scan(table._snapshot)
    plan = plan_read(scan.snapshot, scan.request, 2)
    return door.planned_frame(spark, replace(columnar_read(plan, scan, 2), **other))


def test_work_that_fails_once_is_done_in_the_next_attempt(
    spark: Any, many: lw.Table, tmp_path: Path
) -> None:
    made = lw.create(
        tmp_path / "t.lance", pa.table({"n": range(10)}), access=lw.Access(fsync=False)
    )
    kept, tried = tmp_path / "work", tmp_path / "tried"
    tried.touch()
    scan = plan_scan(made._snapshot)
    kept.write_bytes(pickle.dumps(plan_read(scan.snapshot, scan.request, 2).work))
    work = f"__import__('pickle').loads(open({str(kept)!r}, 'rb').read())"
    once = f"(os.remove({str(tried)!r}), 1 / 0) if os.path.exists({str(tried)!r}) else {work}"
    once = once.replace("os.", "__import__('os').")
    frame = planned(spark, made, work=pickle.dumps(Runs(once)))
    for _ in range(2):  # every worker has work of another table
        read(spark, many.uri).select("n").where("n % 100000 = 0").collect()
    assert [each.n for each in frame.collect()] == list(range(10))
    assert not tried.exists()


@pytest.fixture
def another_python(spark: Any) -> Iterator[Any]:
    """Has sessions without a Python of their own read with another one, for a while."""
    context = spark.sparkContext
    source = getattr(context._jvm, "io.lancewood.spark.PlannedSource")
    yield lambda python: source.introduce(python.encode(), True)
    source.introduce(door.python_of(context).encode(), False)


def test_a_python_that_does_not_start_keeps_no_other_from_reading(
    spark: Any, many: lw.Table, tmp_path: Path, another_python: Any
) -> None:
    slow = tmp_path / "python"
    slow.write_text("#!/bin/sh\nexec sleep 60\n")
    slow.chmod(0o700)
    another_python(PythonCommand(str(slow)))
    time.sleep(2)  # until the pools are looked after
    found: list[int] = []
    frame = read(spark, many.uri).where("n % 1000 = 0")
    reading = threading.Thread(target=lambda: found.append(frame.count()), daemon=True)
    reading.start()
    reading.join(40)
    assert found == [1000]


def test_a_plan_that_java_does_not_understand_keeps_no_worker(
    spark: Any, awkward: lw.Table, tmp_path: Path, another_python: Any
) -> None:
    (tmp_path / "sitecustomize.py").write_text(UNREADABLE)
    usual, mark = door.python_of(spark.sparkContext), uuid4().hex
    paths = [str(tmp_path), usual.environment.get("PYTHONPATH", ""), *sys.path]
    environ = {"PYTHONPATH": os.pathsep.join(paths), "LANCEWOOD_TEST_MARK": mark}
    another_python(replace(usual, environment={**usual.environment, **environ}))
    with pytest.raises(Exception, match=r"[Jj]son|JSON|Unrecognized"):
        spark.read.format("lance").load(awkward.uri)
    until = time.monotonic() + 20
    while time.monotonic() < until and len(pythons(mark)) > 1:
        time.sleep(0.1)
    assert len(pythons(mark)) == 1  # the server


UNREADABLE = """
from lancewood.spark.columnar import protocol

encode = protocol.PlannedRead.encode
protocol.PlannedRead.encode = lambda read, python: encode(
    protocol.PlannedRead(**{**read.__dict__, "schema": "no JSON"}), python
)
"""


def test_the_door_can_be_switched_off(
    spark: Any, awkward: lw.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    spark.conf.set(SETTING, "false")
    try:
        assert why_closed(spark) == f"{SETTING} is false"
        assert "MapInArrow" in shown(read(spark, awkward.uri))
    finally:
        spark.conf.unset(SETTING)
    monkeypatch.setenv(VARIABLE, "0")
    assert why_closed(spark) == f"{VARIABLE} is 0"
    monkeypatch.delenv(VARIABLE)
    assert "BatchScan" in shown(read(spark, awkward.uri))


@needs(SOURCES)
def test_the_familiar_door_goes_the_same_way(spark: Any, awkward: lw.Table) -> None:
    frame = spark.read.format("lance").option("columns", "i,s").load(awkward.uri)
    assert '("i" > 4)' in scanned(frame.where("i > 4").select("s"))
    assert "LocalTableScan" in shown(frame.groupBy().count())
    assert [each.s for each in frame.where("i > 4").collect()] == ["ß", '"q" \\']
    for off in ("false", "0", "No", "OFF"):
        with configured(spark, {SETTING: off}):
            around = spark.read.format("lance").option("columns", "i,s").load(awkward.uri)
            assert "WHERE" not in shown(around.where("i > 4"))
            assert why_closed(spark) == f"{SETTING} is {off}"
    assert around.where("i > 4").collect() == frame.where("i > 4").collect()


def test_idle_workers_end_and_so_does_a_server_that_nobody_uses(spark: Any, many: lw.Table) -> None:
    system, idle = spark.sparkContext._jvm.java.lang.System, "lancewood.columnar.idle"
    frame = read(spark, many.uri)
    assert len(frame.limit(5).collect()) == 5
    assert all(pythons_below(spark))
    system.setProperty(idle, "1")
    try:
        until = time.monotonic() + 60
        while time.monotonic() < until and any(pythons_below(spark)):
            time.sleep(0.2)
        assert pythons_below(spark) == (set(), set())
    finally:
        system.clearProperty(idle)
    assert frame.where("n = 7").count() == 1
    assert all(pythons_below(spark))


PLAIN = """
import sys
from pyspark.sql import SparkSession
builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
spark = builder.getOrCreate()
for _ in range(2):
    frame = spark.read.format("lance").load(sys.argv[1])
    print(frame.where("i > 4").count(), frame.schema == frame.schema)
from lancewood.spark import session
from lancewood.spark.columnar import why_closed
assert session() is spark
assert why_closed(spark) is None
frame = spark.read.format("lance").load(sys.argv[1])
frame.where("i > 4").explain()
print(frame.where("i > 4").count())
spark.stop()
"""


@needs(SOURCES)
@pytest.mark.parametrize("is_off", [False, pytest.param(True, marks=pytest.mark.campaign)])
def test_a_plain_session_is_told_once_how_its_reads_go_by_columns(
    awkward: lw.Table, is_off: bool
) -> None:
    environ = of_a_quick_shell(
        PYSPARK_PYTHON=sys.executable, JAVA_HOME=str(find_java(os.environ).home)
    )
    program = PLAIN
    if is_off:
        environ[VARIABLE] = "0"
        program = PLAIN.partition("from lancewood")[0]
    done = subprocess.run(
        [sys.executable, "-c", program, awkward.uri],
        env=environ,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    lines = [each for each in done.stderr.splitlines() if "lancewood:" in each]
    assert lines == ([] if is_off else [LINE])
    assert done.stdout.startswith("2 True\n2 True\n")
    if not is_off:
        assert 'WHERE ("i" > 4)' in done.stdout, "it was told how, and so it is"


LEFT_BEHIND = """
import os, sys
from lancewood.spark import read, session
spark = session("local[2]")
print(read(spark, sys.argv[1]).where("n < 9").count(), *os.listdir(os.environ["TMPDIR"]))
os.kill(spark.sparkContext._gateway.proc.pid, 9) if sys.argv[2] == "killed" else spark.stop()
"""


@pytest.mark.parametrize("how", [pytest.param("stopped", marks=pytest.mark.campaign), "killed"])
def test_nothing_is_left_behind(many: lw.Table, how: str) -> None:
    mark = uuid4().hex
    with TemporaryDirectory(dir="/tmp") as folder:  # its path is short enough for sockets
        done = subprocess.run(
            [sys.executable, "-c", LEFT_BEHIND, many.uri, how],
            env=of_a_quick_shell(TMPDIR=folder, LANCEWOOD_TEST_MARK=mark),
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.stdout.startswith("9 "), done.stderr
        assert "lancewood-" in done.stdout
        until = time.monotonic() + 20
        while time.monotonic() < until and pythons(mark):
            time.sleep(0.1)
        assert not pythons(mark)
        assert not [each for each in os.listdir(folder) if each.startswith("lancewood-")]


@pytest.mark.sliced(2, at=1)
@pytest.mark.parametrize("is_streamed", [False, True])
def test_batches_larger_than_their_area_are_handed_over(
    sessions: Any, tmp_path: Path, is_streamed: bool
) -> None:
    conf = {"spark.executorEnv.LANCEWOOD_SPARK_NO_MAPPING": "1"} if is_streamed else {}
    spark = sessions.use("local", conf)
    values = [bytes([n]) * (n * 3_000_000) for n in (1, 9, 2, 0, 5)]
    made = lw.create(tmp_path / "t.lance", pa.table({"x": values}), access=lw.Access(fsync=False))
    frame = read(spark, made.uri)
    for _ in range(2):
        assert [each.x for each in frame.collect()] == values
    sessions.use("local")
