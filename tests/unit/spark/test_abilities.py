"""What a Spark can, told from its version alone; and streams as an older one asks for them."""

from __future__ import annotations

import json
import pickle
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lancewood as lw
from lancewood.errors import InvalidInputError, NotFoundError, UnsupportedError
from lancewood.pipeline.running import run as loads
from lancewood.pipeline.running.run import SparkWork
from lancewood.spark import abilities
from lancewood.spark.abilities import (
    LIMITED_STREAMS,
    MISSED,
    NEWEST,
    OLDEST,
    SOURCES,
    TIMES,
    parse_release,
    release_of,
    require,
)
from lancewood.spark.running import failures
from lancewood.spark.source import lance_source
from lancewood.spark.types import Reading

pytest.importorskip("pyspark", reason="pyspark is not installed")

from pyspark.sql.datasource import CaseInsensitiveDict


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("4.3.0", (4, 3, 0)),
        ("4.1.0.dev1", (4, 1, 0)),
        ("5.0.0rc2", (5, 0, 0)),
        ("3.5.0-amzn-1", (3, 5, 0)),
        ("", ()),
    ],
)
def test_a_release_is_the_leading_numbers(text: str, found: tuple[int, ...]) -> None:
    assert parse_release(text) == found


class Session:
    def __init__(self, version: str) -> None:
        self.version = version


def test_a_session_can_what_both_its_spark_and_pyspark_can(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(abilities, "release_here", lambda: (4, 1, 4))
    older: Any = Session("4.0.5")
    newer: Any = Session("4.3.0")
    assert (release_of(older), release_of(newer)) == ((4, 0, 5), (4, 1, 4))
    older.version = "9.9"
    assert release_of(older) == (4, 0, 5)


def test_what_is_lacking_is_told_with_the_release_that_has_it() -> None:
    require("column 't'", TIMES, (4, 3, 0))
    with pytest.raises(UnsupportedError) as refused:
        require("column 't'", TIMES, (4, 0, 5), column="t")
    assert str(refused.value) == (
        "column 't' needs times to the nanosecond, which Spark has from 4.3 on, and this is 4.0.5: "
        "leave the column out with columns="
    )
    assert refused.value.facts["column"] == "t"


def test_the_newest_lacks_nothing_and_the_oldest_has_no_source() -> None:
    assert all(each.is_in(NEWEST) for each in MISSED)
    assert not SOURCES.is_in(OLDEST)


def test_a_column_of_times_is_refused_where_spark_has_no_such_type(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("lancewood.spark.types.reading.release_here", lambda: (4, 2, 1))
    with pytest.raises(UnsupportedError, match=r"column 's\.t' needs times to"):
        Reading(pa.schema({"s": pa.struct({"t": pa.time64("us")})}))


@pytest.fixture
def older(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Spark whose streams know no limits."""
    monkeypatch.setattr(lance_source, "release_here", lambda: (4, 1, 4))


@pytest.fixture
def table(tmp_path: Path) -> lw.Table:
    return lw.create(tmp_path / "t.lance", rows(1, 2), access=lw.Access(fsync=False))


def rows(*numbers: int) -> pa.Table:
    return pa.table({"a": pa.array(numbers, pa.int64())})


class OlderStream:
    """What Spark 4.0 and 4.1 do with a reader, and what they keep in a checkpoint."""

    def __init__(self, uri: str, **options: str) -> None:
        self.options = {"path": uri, **options}
        self.checkpoint: dict[str, Any] | None = None
        self.start()

    def start(self, *, is_told: bool = True) -> None:
        """As in a new process; with the trigger ``availableNow`` the reader is told nothing."""
        made = lance_source.LanceSource(CaseInsensitiveDict(self.options))
        self.reader = pickle.loads(pickle.dumps(made)).streamReader(made.schema())
        if self.checkpoint is not None and is_told:
            assert self.reader.partitions(self.checkpoint, self.checkpoint) == []

    def batch(self) -> list[int]:
        """The rows of the next batch; none if there is nothing new."""
        end = json.loads(json.dumps(self.reader.latestOffset()))
        if end == self.checkpoint:
            return []
        begin = self.reader.initialOffset() if self.checkpoint is None else self.checkpoint
        executor = pickle.loads(pickle.dumps(self.reader))
        parts = pickle.loads(pickle.dumps(self.reader.partitions(begin, end)))
        self.checkpoint = end
        return [
            row["a"] for part in parts for each in executor.read(part) for row in each.to_pylist()
        ]


@pytest.mark.parametrize("is_told", [True, False])
def test_an_older_spark_reads_each_row_once_and_goes_on_from_its_checkpoint(
    older: None, table: lw.Table, is_told: bool
) -> None:
    stream = OlderStream(table.uri)
    assert (stream.batch(), stream.batch()) == ([1, 2], [])
    table = table.append(rows(3)).append(rows(4))
    assert (stream.batch(), stream.batch()) == ([3, 4], [])
    table = table.append(rows(5))
    stream.start(is_told=is_told)
    assert (stream.batch(), stream.batch()) == ([5], [])
    stream.start(is_told=is_told)
    assert stream.batch() == []
    table.append(rows(6))
    assert stream.batch() == [6]


def test_an_older_spark_runs_its_first_batch_again_with_the_same_rows(
    older: None, table: lw.Table
) -> None:
    stream = OlderStream(table.uri)
    end = stream.reader.latestOffset()
    table.append(rows(3))
    stream.checkpoint = end
    stream.start()
    begin = stream.reader.initialOffset()
    parts = stream.reader.partitions(begin, end)
    assert [each["a"] for part in parts for each in read(stream, part)] == [1, 2]
    assert stream.batch() == [3]


def read(stream: OlderStream, part: Any) -> list[dict[str, Any]]:
    return [row for each in stream.reader.read(part) for row in each.to_pylist()]


def test_an_older_spark_begins_where_it_is_told_to(older: None, table: lw.Table) -> None:
    table.append(rows(3)).append(rows(4))
    assert OlderStream(table.uri, startingVersion="2").batch() == [3, 4]
    latest = OlderStream(table.uri, startingVersion="latest")
    assert latest.batch() == []
    table.latest().append(rows(5))
    assert latest.batch() == [5]
    with pytest.raises(InvalidInputError, match="the newest is 4"):
        OlderStream(table.uri, startingVersion="9").batch()
    with pytest.raises(NotFoundError):
        OlderStream(table.uri, startingTag="no").batch()


def test_a_changed_row_ends_an_older_stream_with_the_reason(older: None, table: lw.Table) -> None:
    stream = OlderStream(table.uri)
    assert stream.batch() == [1, 2]
    table.append(rows(3)).delete("a = 1")
    assert stream.batch() == [3]
    with pytest.raises(UnsupportedError, match="onChange"):
        stream.batch()


@pytest.mark.parametrize("option", ["maxRowsPerTrigger", "maxVersionsPerTrigger"])
def test_a_limit_is_refused_where_spark_knows_none(
    older: None, table: lw.Table, option: str
) -> None:
    with pytest.raises(UnsupportedError, match=rf"'{option}' needs .* from 4\.2 on"):
        OlderStream(table.uri, **{option: "1"})
    assert not LIMITED_STREAMS.is_in((4, 1, 4))


def test_queries_are_refused_quietly_by_a_spark_that_has_no_log_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(failures, "release_here", lambda: (3, 5, 9))
    monkeypatch.setitem(sys.modules, "pyspark.logger", None)
    with failures.quiet():
        pass


def test_a_pipeline_is_refused_before_anything_where_spark_cannot_run_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    unused: Any = None
    monkeypatch.setattr(loads, "release_here", lambda: (3, 5, 9))
    with pytest.raises(UnsupportedError, match=r"a pipeline needs .* from 4.0 on, .* write\(\)"):
        SparkWork().check_file(unused)
