"""The kinds of Spark are what they say they are."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.spark.clusters.faults import java_of_this_worker
from tests.spark.clusters.kinds import CONNECT, LOCAL, on

from lancewood.errors import InvalidInputError
from lancewood.spark import session, write
from lancewood.spark.tasks import is_connect, slots, spread


def tell_parent(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """On an executor: for each task the Java whose Python this is."""
    for batch in batches:
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


@pytest.mark.xdist_group("spark")
def test_a_session_of_a_builder_is_returned_with_what_it_lacks_said(
    sessions: Any, tmp_path: Path
) -> None:
    from pyspark.sql import SparkSession

    sessions.use(LOCAL)  # so that there is a Java, and the right Python
    sessions.stop()
    made = SparkSession.builder.master("local[2]").appName("mine").getOrCreate()
    try:
        with pytest.warns(UserWarning, match=r"started without .*spark\.redaction\.regex") as told:
            assert session() is made
        assert "spark.ui.enabled" not in str(told[0].message), "that is taste"
        assert (made.conf.get("spark.app.name"), made.sparkContext.appName) == ("mine", "mine")
        assert made.conf.get("spark.sql.session.timeZone") == "UTC"
        assert re.search(str(made.conf.get("spark.sql.redaction.options.regex")), "account_key")
        write(made.range(3), str(tmp_path / "t.lance"))
        assert made.read.format("lance").load(str(tmp_path / "t.lance")).count() == 3
        with pytest.raises(InvalidInputError, match=r"has one on local\[2\] already"):
            session("local[4]")
    finally:
        made.stop()


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
