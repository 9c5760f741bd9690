"""The columnar door over Spark Connect: the same rows as without it, and what is pushed."""

from __future__ import annotations

import hashlib
import os
import pickle
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.spark.test_columnar import AWKWARD, CONDITIONS, scanned, shown, texts
from tests.spark.ways import PYTHON, by_way, configured

import lancewood as lw

pytest.importorskip("pyspark", reason="pyspark is not installed")

from lancewood.spark import read
from lancewood.spark.columnar import jar, why_closed
from lancewood.spark.columnar.door import SETTING, VARIABLE, _first_read
from lancewood.spark.columnar.protocol import SOURCE, PythonCommand

pytestmark = [
    pytest.mark.spark,
    pytest.mark.xdist_group("spark-connect"),
    pytest.mark.skipif(os.environ.get(VARIABLE) == "0", reason="the door is switched off"),
]


@pytest.fixture(scope="module")
def awkward(tmp_path_factory: pytest.TempPathFactory) -> lw.Table:
    path = tmp_path_factory.mktemp("columnar") / "awkward.lance"
    return lw.create(
        path, AWKWARD, layout=lw.Layout(max_rows_per_file=4), access=lw.Access(fsync=False)
    )


def through_both_doors(spark: Any, table: lw.Table) -> list[Any]:
    return [read(spark, table.uri), spark.read.format("lance").load(table.uri)]


def test_columns_conditions_limits_and_counts_are_pushed(connected: Any, awkward: lw.Table) -> None:
    assert why_closed(connected) is None
    for frame in through_both_doors(connected, awkward):
        plan = scanned(frame.where("i > 1 AND st.in.n = 4 AND x = X'61'").select("s"))
        assert '("i" > 1) AND ("st"."in"."n" = 4)' in plan
        assert '"x" =' not in plan
        assert plan.split("[")[1].split("]")[0].split(", ")[0].startswith("s#")
        assert "LIMIT 3" in scanned(frame.limit(3))
        assert "LocalTableScan" in shown(frame.groupBy().count())
        assert frame.count() == 6


def test_two_uses_of_a_frame_are_one_read(connected: Any, awkward: lw.Table) -> None:
    counted = read(connected, awkward.uri).groupBy("i").count()
    with configured(connected, {"spark.sql.adaptive.enabled": "false"}):
        assert "ReusedExchange" in shown(counted.unionAll(counted))


def test_rows_are_those_of_the_other_way(connected: Any, awkward: lw.Table) -> None:
    through = through_both_doors(connected, awkward)
    with by_way(connected, PYTHON):
        around = read(connected, awkward.uri)
        assert "MapInArrow" in shown(around)
        familiar = connected.read.format("lance").load(awkward.uri)
        assert "WHERE" not in shown(familiar.where("i > 1"))
        expected = texts(familiar)
    assert texts(around) == expected
    for frame in through:
        assert frame.schema == around.schema
        assert texts(frame) == expected
        every, judge = (
            [where(each, n) for n in range(0, len(CONDITIONS), 7)] for each in (frame, around)
        )
        assert texts(united(every)) == texts(united(judge))


def where(frame: Any, number: int) -> Any:
    return frame.where(CONDITIONS[number]).selectExpr(f"{number} AS condition", "i")


def united(frames: list[Any]) -> Any:
    found, *more = frames
    for each in more:
        found = found.unionAll(each)
    return found


def test_the_version_and_the_plan_stay_with_the_frame(connected: Any, tmp_path: Path) -> None:
    rows = pa.table({"n": range(100)})
    table = lw.create(
        tmp_path / "t.lance",
        rows,
        layout=lw.Layout(max_rows_per_file=10),
        access=lw.Access(fsync=False),
    )
    frame = read(connected, table.uri)
    table.append(rows)
    assert (frame.count(), frame.where("n < 7").count()) == (100, 7)
    joined = frame.alias("a").join(frame.alias("b").where("n > 90"), "n")
    assert joined.count() == 9
    assert frame.selectExpr("sum(n)").collect()[0][0] == 4950


def test_a_server_with_another_lancewood_has_no_door(
    connected: Any, awkward: lw.Table, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Another source is compiled, with a Java of its own; the Python of the server refuses it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(jar, "mark", lambda: "another")
    other = another_session(connected)
    try:
        told = str(why_closed(other))
        assert told.endswith("another one where the read was planned")
        assert other.conf.get(SETTING) == "false"
        for frame in through_both_doors(other, awkward):
            assert "WHERE" not in shown(frame.where("i > 1"))
            assert frame.where("i > 1").count() == 3
    finally:
        other.stop()


def test_a_request_has_nothing_of_a_read_but_the_digest_of_its_plan(
    connected: Any, awkward: lw.Table
) -> None:
    frame: Any = read(
        connected, awkward.uri, access=lw.Access(storage_options={"account_key": "planted-key"})
    )
    plan = frame._plan.to_proto(connected.client)
    (key,) = plan.root.read.data_source.options
    assert re.fullmatch("[0-9a-f]{64}", plan.root.read.data_source.options[key])
    assert key == "digest"
    assert b"planted" not in plan.SerializeToString()
    assert "planted" not in shown(frame)
    assert frame.count() == 6


@dataclass(frozen=True)
class Touches:
    """Makes a file where it is unpickled."""

    path: str

    def __reduce__(self) -> Any:
        return eval, (f"open({self.path!r}, 'w').close()",)


def planned_by(digest: str, spark: Any) -> Any:
    return spark.read.format(SOURCE).option("digest", digest).load()


def left_as(digest: str, content: bytes, spark: Any) -> None:
    """Leave bytes with a session under a digest that need not be theirs."""
    from pyspark.sql.connect.client.artifact import InMemory, new_cache_artifact

    manager = spark.client._artifact_manager
    requests = manager._add_artifacts([new_cache_artifact(digest, InMemory(content))])
    manager._retrieve_responses(requests)


def test_a_plan_that_was_changed_is_refused_and_nothing_of_it_is_unpickled(
    connected: Any, tmp_path: Path
) -> None:
    assert why_closed(connected) is None
    touched = tmp_path / "touched"
    forged = replace(_first_read(), work=pickle.dumps(Touches(str(touched))))
    content = forged.encode(PythonCommand())
    digest = hashlib.sha256(b"another plan").hexdigest()
    left_as(digest, content, connected)
    with pytest.raises(Exception, match=f"the plan {digest} of a read was changed on its way"):
        planned_by(digest, connected).collect()
    assert not touched.exists()
    own = hashlib.sha256(content).hexdigest()
    left_as(own, content, connected)
    with pytest.raises(Exception, match="AssertionError"):
        planned_by(own, connected).collect()
    assert touched.exists(), "this is what would have been unpickled"


def test_a_digest_is_of_use_in_its_own_session_alone(connected: Any, awkward: lw.Table) -> None:
    frame: Any = read(connected, awkward.uri)
    assert frame.count() == 6
    digest = frame._plan.to_proto(connected.client).root.read.data_source.options["digest"]
    other = another_session(connected)
    try:
        assert why_closed(other) is None
        with pytest.raises(Exception, match=f"this session of Spark Connect has no plan {digest}"):
            planned_by(digest, other).collect()
    finally:
        other.stop()


def another_session(spark: Any) -> Any:
    """Of the same server."""
    return type(spark).builder.remote(f"sc://{spark.client._builder.endpoint}").create()


def test_an_error_of_ours_says_what_it_says_before_its_stack(
    connected: Any, tmp_path: Path
) -> None:
    made = lw.create(
        tmp_path / "t.lance", pa.table({"n": range(10)}), access=lw.Access(fsync=False)
    )
    frames = through_both_doors(connected, made)
    with by_way(connected, PYTHON):
        frames.append(read(connected, made.uri))
    for each in (tmp_path / "t.lance" / "data").iterdir():
        each.unlink()
    for frame in frames:
        with pytest.raises(Exception, match=made.uri) as failed:
            frame.collect()
        before, _, stack = str(failed.value).partition(f"version 1 of {made.uri} cannot be read")
        assert "Traceback" not in before
        assert "Traceback" in stack
