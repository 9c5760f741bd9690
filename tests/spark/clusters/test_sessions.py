"""The kinds of Spark are what they say they are."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.spark.clusters.faults import java_of_this_worker
from tests.spark.clusters.kinds import CONNECT, LOCAL, on
from tests.spark.environment import of_a_shell

from lancewood.errors import InvalidInputError
from lancewood.spark import session
from lancewood.spark.java import find_java
from lancewood.spark.tasks import is_connect, slots, spread


def tell_parent(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """On an executor: for each task the Java whose Python this is. No executor is so quick that
    nothing is left for one that is there a moment later."""
    for batch in batches:
        time.sleep(0.5)
        javas = [java_of_this_worker()] * batch.num_rows
        yield pa.record_batch({"java": pa.array(javas, pa.int64())})


def test_each_kind_has_two_slots_and_the_executors_that_it_promises(
    any_spark: Any, mode: str
) -> None:
    assert is_connect(any_spark) == (mode == "connect")
    assert slots(any_spark) == 2
    tasks = spread(any_spark, [b"task"] * 8)
    javas = {row.java for row in tasks.mapInArrow(tell_parent, "java long").collect()}
    assert len(javas) == {"local": 1, "local-cluster": 2, "standalone": 2, "connect": 1}[mode]


def test_a_running_session_is_returned_for_its_master_and_refused_for_another(
    any_spark: Any, sessions: Any, mode: str
) -> None:
    assert session(sessions.master(mode)) is any_spark
    assert session() is any_spark, "whatever its master is"
    with pytest.raises(InvalidInputError, match=r"use that one .* or stop\(\) it"):
        session("local[1]")
    with pytest.raises(InvalidInputError, match="this process has one on"):
        session("sc://127.0.0.1:1/;token=planted-token")


def test_settings_of_every_session_are_set(any_spark: Any) -> None:
    assert any_spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert any_spark.conf.get("spark.sql.shuffle.partitions") == "2"


OF_A_BUILDER = """
import re, sys, warnings
from pyspark.sql import SparkSession
from lancewood.errors import InvalidInputError
from lancewood.spark import session, write

uri = sys.argv[1]
made = SparkSession.builder.master("local[2]").appName("mine").getOrCreate()
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    assert session() is made
(said,) = [str(each.message) for each in told if "started without" in str(each.message)]
assert "spark.redaction.regex" in said and "spark.ui.enabled" not in said, said
assert made.conf.get("spark.app.name") == made.sparkContext.appName == "mine"
assert made.conf.get("spark.sql.session.timeZone") == "UTC"
assert re.search(made.conf.get("spark.sql.redaction.string.regex"), "account_key 'x'")
write(made.range(3), uri)
assert made.read.format("lance").load(uri).count() == 3
try:
    session("local[4]")
except InvalidInputError as refused:
    assert "has one on local[2] already" in str(refused)
else:
    raise AssertionError("another master was promised")
made.stop()
"""


@pytest.mark.campaign
def test_a_session_of_a_builder_is_returned_with_what_it_lacks_said(tmp_path: Path) -> None:
    """In a process of its own: settings of the first session stay with the Java of a process."""
    pytest.importorskip("pyspark", reason="pyspark is not installed")
    done = subprocess.run(
        [sys.executable, "-c", OF_A_BUILDER, str(tmp_path / "t.lance")],
        env=of_a_shell(PYSPARK_PYTHON=sys.executable, JAVA_HOME=str(find_java(os.environ).home)),
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("mode", [on(LOCAL)], indirect=True)
def test_what_a_running_session_cannot_change_is_refused_and_not_shown(
    any_spark: Any, sessions: Any, mode: str
) -> None:
    master = sessions.master(mode)
    for name in ("spark.executor.cores", "spark.sql.warehouse.dir", "spark.executorEnv.NEW"):
        before = any_spark.conf.get(name, None)
        with pytest.raises(InvalidInputError, match=rf"{name} cannot be changed"):
            session(master, conf={name: "7"})
        assert any_spark.conf.get(name, None) == before
    again: Any = {"spark.executor.memory": "1g", "spark.sql.shuffle.partitions": 3}
    assert session(master, conf=again) is any_spark
    assert any_spark.conf.get("spark.sql.shuffle.partitions") == "3"
    any_spark.conf.set("spark.sql.shuffle.partitions", "2")


@pytest.mark.parametrize("mode", [on(CONNECT)], indirect=True)
def test_what_a_client_of_connect_cannot_set_is_refused_and_not_dropped(
    any_spark: Any, sessions: Any, mode: str
) -> None:
    asked: Any = {"spark.sql.shuffle.partitions": 3, "spark.executor.memory": "4g"}
    with pytest.raises(InvalidInputError, match="set it where that server is started"):
        session(sessions.master(mode), conf=asked)
    assert any_spark.conf.get("spark.sql.shuffle.partitions") == "3"
    any_spark.conf.set("spark.sql.shuffle.partitions", "2")
