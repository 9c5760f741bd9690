"""Storage options are in no plan, no event log and no error; and what Spark shows of settings."""

from __future__ import annotations

import contextlib
import io
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.spark.environment import QUICK_START, of_a_shell

import lancewood as lw
from lancewood.spark import read, runner, write

pytest.importorskip("pyspark", reason="pyspark is not installed")

from tests.spark.needs import needs

from lancewood.spark.abilities import SOURCES

pytestmark = [pytest.mark.spark, needs(SOURCES)]

OPTIONS = {
    "aws_secret_access_key": "planted-one",
    "azure_storage_sas_key": "planted-two",
    "account_key": "planted-three",
    "google_service_account_key": '{"private_key": "planted-\\"four"}',
    "aws_access_key_id": "planted-five",
    "headers.x-mine": "planted-six",
    "region": "shown-region",
}
AS_OPTIONS = {
    **{f"storage.{name}": value for name, value in OPTIONS.items()},
    "baseStorageOptions": json.dumps({"cold": {"account_key": "planted-seven"}}),
}
IN_SQL = "`storage.aws_access_key_id` 'planted-eight', account_key = \"planted-nine\""


def logging_to(events: Path) -> dict[str, str]:
    events.mkdir()
    return {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": events.as_uri(),
    }


def told_in(events: Path) -> str:
    """Everything that Spark wrote down."""
    return "".join(each.read_text() for each in events.rglob("events*") if each.is_file())


def shown_on_pages(spark: Any) -> str:
    """What Spark's pages show of all queries: their plans, with every node, and their settings."""
    store = spark._jsparkSession.sharedState().statusStore()
    found = store.executionsList()
    told = []
    for each in (found.apply(number) for number in range(found.size())):
        told += [each.description(), each.details(), each.physicalPlanDescription()]
        told.append(str(each.modifiedConfigs()))
        nodes = store.planGraph(each.executionId()).allNodes()
        told += [nodes.apply(number).desc() for number in range(nodes.size())]
    return "\n".join(map(str, told))


def shown(frame: Any) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        frame.explain(True)
        frame.explain("formatted")
    return out.getvalue()


def use_options_everywhere(spark: Any, uri: str) -> str:
    """Do what makes Spark write options down; what it shows of them and says in errors."""
    write(spark.range(20), uri, access=lw.Access(storage_options=OPTIONS))
    fast = read(spark, uri, access=lw.Access(storage_options=OPTIONS))
    familiar = spark.read.format("lance").options(**AS_OPTIONS).load(uri)
    more = spark.range(20, 22).write.format("lance").mode("append").options(**AS_OPTIONS)
    more.save(uri)
    assert (fast.count(), len(familiar.collect())) in ((20, 20), (20, 22))
    familiar.createOrReplaceTempView("w")
    spark.sql("CACHE TABLE w")
    spark.sql(f"CREATE OR REPLACE TEMP VIEW v USING lance OPTIONS (path '{uri}', {IN_SQL})")
    spark.sql("INSERT INTO v VALUES (22)")
    view = spark.sql("SELECT * FROM v")
    view.collect()
    lw.open(uri, access=lw.Access(storage_options=OPTIONS)).delete("id = 3", runner=runner(spark))
    told = "".join(shown(each) for each in (fast, familiar, view))
    for each in (fast, familiar):
        with pytest.raises(Exception, match="USER_RAISED") as failed:
            each.selectExpr("raise_error('x')").collect()
        told += str(failed.value)
    return told


@pytest.mark.xdist_group("spark")
def test_storage_options_are_in_no_plan_event_or_error(sessions: Any, tmp_path: Path) -> None:
    settings = {
        **logging_to(tmp_path / "events"),
        "spark.executorEnv.MY_PASSWORD": "planted-ten",
        "spark.executorEnv.AZURE_STORAGE_ACCOUNT_KEY": "planted-eleven",
        "spark.executorEnv.MONKEY": "shown-monkey",
    }
    spark, uri = sessions.use("local", settings), str(tmp_path / "t.lance")
    told = use_options_everywhere(spark, uri)
    rows = spark.readStream.format("lance").options(**AS_OPTIONS).load(uri)
    sink = rows.writeStream.format("lance").options(**AS_OPTIONS).trigger(availableNow=True)
    sink.option("checkpointLocation", f"{uri}.checkpoint").start(f"{uri}.copy").awaitTermination()
    assert "t.lance version" in told, "the plans of reads are among what was told"
    assert "planted" not in told
    pages = shown_on_pages(spark)
    assert "BatchScan" in pages, "the plans of reads are on the pages"
    assert "planted" not in pages
    sessions.use("local")
    events = told_in(tmp_path / "events")
    assert "SparkListenerSQLExecutionStart" in events
    for each in ("shown-monkey", "storage.account_key=*********", "shown-region"):
        assert each in events, "what is no secret is to be seen"
    assert "planted" not in events


@pytest.fixture
def connect(tmp_path: Path) -> Iterator[Callable[[], Any]]:
    """Starts a server that writes its events down, and a client of it."""
    pytest.importorskip("grpc", reason="what Spark Connect needs is not installed")
    from tests.spark.clusters.processes import Server, start_connect

    from lancewood.spark import session

    started: list[Server] = []
    running: list[Any] = []

    def start() -> Any:
        address = start_connect(tmp_path, started, logging_to(tmp_path / "events"))
        running.append(session(address))
        return running[0]

    yield start
    for each in (*running, *started):
        each.stop() if each in running else each.end()


@pytest.mark.campaign
@pytest.mark.xdist_group("spark-connect")
def test_a_server_of_connect_hides_options_and_knows_sets_by_name(
    sessions: Any,
    connect: Callable[[], Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    s3_root: str,
    s3_options: dict[str, str],
) -> None:
    sessions.stop()
    monkeypatch.setenv("LANCEWOOD_CREDENTIALS", str(credentials(tmp_path, s3_options)))
    lw.create(s3_root, pa.table({"id": range(9)}), access=lw.Access(storage_options=s3_options))
    spark = connect()
    told = use_options_everywhere(spark, str(tmp_path / "t.lance"))
    found = spark.read.format("lance").option("credentials", "lake").load(s3_root)
    assert found.count() == 9
    spark.stop()
    events = told_in(tmp_path / "events")
    assert "SparkListenerConnectOperationStarted" in events
    assert "shown-region" in events, "what is no secret is to be seen"
    assert "planted" not in told + events


def credentials(folder: Path, options: dict[str, str]) -> Path:
    """A file with a set for the S3 of the tests."""
    path = folder / "credentials.toml"
    lines = (f"{name} = {json.dumps(value)}" for name, value in options.items())
    path.write_text("\n".join(["[lake]", *lines]))
    return path


BY_NAME = """
import sys
from lancewood.spark import read, session, write
root, settings = sys.argv[1], dict(each.split("=", 1) for each in sys.argv[2:])
spark = session("local-cluster[2,1,1024]", conf=settings)
spark.range(9).write.format("lance").mode("append").option("credentials", "lake").save(root)
frame = spark.read.format("lance").option("credentials", "lake").load(root)
frame.createOrReplaceTempView("w")
spark.sql(f"CREATE TEMP VIEW v USING lance OPTIONS (path '{root}', credentials 'lake')")
spark.sql("INSERT INTO v VALUES (9)")
print(frame.count(), spark.table("w").count(), spark.sql("SELECT * FROM v").count())
frame.explain(True)
try:
    spark.read.format("lance").option("credentials", "sea").load(root)
except Exception as failed:
    print(*(each for each in str(failed).splitlines() if each.startswith("lancewood.errors.")))
spark.stop()
"""


@pytest.mark.campaign
def test_a_set_of_options_reaches_executors_by_name_and_is_in_no_plan_or_event(
    tmp_path: Path, s3_root: str, s3_options: dict[str, str]
) -> None:
    """In a process of its own: the Java of this one has the environment that it began with."""
    settings = {
        **logging_to(tmp_path / "events"),
        "spark.executor.memory": "1g",
        "spark.driver.extraJavaOptions": QUICK_START,
    }
    done = subprocess.run(
        [sys.executable, "-c", BY_NAME, s3_root, *map("=".join, settings.items())],
        env=of_a_shell(LANCEWOOD_CREDENTIALS=str(credentials(tmp_path, s3_options))),
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("9 9 9\n")
    assert "there are no credentials 'sea' in" in done.stdout
    assert lw.open(s3_root, access=lw.Access(storage_options=s3_options)).count_rows() == 10
    events = told_in(tmp_path / "events")
    assert "credentials" in events
    for each in (s3_options["aws_secret_access_key"], s3_options["aws_access_key_id"]):
        assert each not in done.stdout + events
