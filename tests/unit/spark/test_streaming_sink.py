"""A table as the sink of a stream, called as Spark calls it: made, written, committed, aborted."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import lance
import pyarrow as pa
import pytest

import lancewood as lw
from lancewood.errors import BatchAppliedError, CommitUnknownError, InvalidInputError, StorageError
from lancewood.model.table_config import newest_batch
from lancewood.spark.writing.job import WriteJob

pytest.importorskip("pyspark", reason="pyspark is not installed")

from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.types import LongType, StructField, StructType

from lancewood.spark.source.lance_source import LanceSource

SCHEMA = StructType([StructField("a", LongType())])
APP = "the-query"


def batch(*numbers: int) -> pa.RecordBatch:
    return pa.record_batch({"a": pa.array(numbers, pa.int64())})


class Sink:
    """A query that writes: what Spark does for one micro-batch, process by process."""

    def __init__(self, uri: str, overwrite: bool = False, **options: str) -> None:
        self.options = CaseInsensitiveDict({"path": uri, "app": APP, **options})
        self.overwrite = overwrite

    def made(self) -> Any:
        source = pickle.loads(pickle.dumps(LanceSource(self.options)))
        return source.streamWriter(SCHEMA, self.overwrite)

    def write(self, *partitions: list[int]) -> list[Any]:
        """What the tasks of a batch answer."""
        planned = pickle.dumps(self.made())
        answers = []
        for numbers in partitions:
            writer = pickle.loads(planned)
            rows: Iterator[pa.RecordBatch] = iter([batch(*numbers)] if numbers else [])
            answers.append(pickle.loads(pickle.dumps(writer.write(rows))))
        return answers

    def run(self, number: int, *partitions: list[int]) -> None:
        self.made().commit(self.write(*partitions), number)


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return str(tmp_path / "t.lance")


def numbers(uri: str) -> list[int]:
    found = lance.dataset(uri)
    found.validate()
    return sorted(found.to_table()["a"].to_pylist())


def files(uri: str) -> set[str]:
    return {each.name for each in Path(uri, "data").glob("*")}


def test_the_first_batch_makes_the_table_and_others_add_to_it(uri: str) -> None:
    sink = Sink(uri)
    assert not Path(uri).exists()
    sink.run(0, [1], [2, 3])
    sink.run(1, [4], [])
    assert numbers(uri) == [1, 2, 3, 4]
    table = lw.open(uri)
    assert table.version == 2
    assert newest_batch(table.config, APP) == 1


def test_a_batch_that_is_run_again_is_left_out_and_its_new_files_go(uri: str) -> None:
    sink = Sink(uri)
    sink.run(0, [1])
    sink.run(1, [2, 3], [4])
    before = files(uri)
    sink.run(1, [2, 3], [4])
    assert numbers(uri) == [1, 2, 3, 4]
    assert lw.open(uri).version == 2
    assert files(uri) == before


def test_a_first_batch_that_is_run_again_is_left_out_too(uri: str) -> None:
    Sink(uri).run(0, [1])
    Sink(uri).run(0, [1])
    assert numbers(uri) == [1]


def test_two_queries_count_their_batches_each_for_itself(uri: str) -> None:
    Sink(uri).run(0, [1])
    Sink(uri, app="another").run(0, [2])
    Sink(uri, app="another").run(0, [2])
    assert numbers(uri) == [1, 2]


def test_a_batch_before_the_newest_is_an_error_and_changes_nothing(uri: str) -> None:
    sink = Sink(uri)
    sink.run(4, [1])
    sink.run(7, [2])
    before = files(uri)
    with pytest.raises(BatchAppliedError, match=r"comes after batch 7.*checkpoint"):
        sink.run(4, [3])
    assert (numbers(uri), files(uri)) == ([1, 2], before)


def test_a_batch_without_rows_makes_no_version(uri: str) -> None:
    sink = Sink(uri)
    sink.run(0, [1])
    sink.run(1, [], [])
    sink.run(2)
    assert lw.open(uri).version == 1
    sink.run(3, [2])
    sink.run(3, [2])
    assert numbers(uri) == [1, 2]


def test_a_first_batch_without_rows_makes_an_empty_table(uri: str) -> None:
    Sink(uri).run(0, [])
    assert numbers(uri) == []
    assert lw.open(uri).schema.names == ["a"]


def test_complete_mode_overwrites_with_every_batch(uri: str) -> None:
    sink = Sink(uri, overwrite=True)
    sink.run(0, [1, 2])
    sink.run(1, [3])
    assert numbers(uri) == [3]
    sink.run(1, [3])
    assert (numbers(uri), lw.open(uri).version) == ([3], 2)
    sink.run(2, [])
    assert numbers(uri) == []


def test_abort_after_a_commit_that_landed_and_raised_deletes_nothing(
    uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = Sink(uri)
    sink.run(0, [1])
    answers = sink.write([2], [3])
    landed = WriteJob.commit

    def lands_then_raises(job: WriteJob, messages: Any) -> NoReturn:
        landed(job, messages)
        raise CommitUnknownError("the answer was lost")

    monkeypatch.setattr(WriteJob, "commit", lands_then_raises)
    with pytest.raises(CommitUnknownError):
        sink.made().commit(answers, 1)
    sink.made().abort(answers, 1)
    assert numbers(uri) == [1, 2, 3]
    monkeypatch.undo()
    sink.run(1, [2], [3])
    assert numbers(uri) == [1, 2, 3]


def test_abort_after_a_commit_that_never_began_removes_the_files(
    uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = Sink(uri)
    sink.run(0, [1])
    before = files(uri)
    answers = sink.write([2], [3])
    assert len(files(uri)) == len(before) + 2

    def raises(job: WriteJob, messages: Any) -> NoReturn:
        raise StorageError("the store is away")

    monkeypatch.setattr(WriteJob, "commit", raises)
    with pytest.raises(StorageError):
        sink.made().commit(answers, 1)
    sink.made().abort(answers, 1)
    assert (numbers(uri), files(uri)) == ([1], before)


def test_abort_after_tasks_that_failed_takes_what_it_knows(uri: str) -> None:
    sink = Sink(uri)
    sink.run(0, [1])
    before = files(uri)
    answers = sink.write([2], [3], [4], [5])
    sink.made().abort([None, *answers[1:]], 1)
    assert len(files(uri)) == len(before) + 1, "the file whose answer was lost is for cleanup"
    sink.made().abort([None, None, None, None], 1)
    sink.made().abort([], 1)
    assert numbers(uri) == [1]


def test_few_messages_bring_the_job_along(uri: str) -> None:
    from pyspark import TaskContext

    Sink(uri).run(0, [1])
    planned = Sink(uri).made()
    answers = []
    for number in range(6):
        context = TaskContext._getOrCreate()
        context._partitionId, context._localProperties = number, {"sql.streaming.queryId": "q"}
        try:
            answers.append(planned.write(iter([batch(number)])))
        finally:
            TaskContext._setTaskContext(None)
    assert [each.job is not None for each in answers] == [True] * 3 + [False] * 3
    assert all(each.app == APP for each in answers)
    assert len(pickle.dumps(answers[-1])) < 1_000
    Sink(uri).made().commit(answers, 1)
    assert len(numbers(uri)) == 7


def test_without_a_name_the_query_that_spark_tells_is_the_app(uri: str) -> None:
    from pyspark import TaskContext

    sink = Sink(uri)
    del sink.options["app"]
    context = TaskContext._getOrCreate()
    context._partitionId, context._localProperties = 0, {"sql.streaming.queryId": "q-1"}
    try:
        sink.run(0, [1])
    finally:
        TaskContext._setTaskContext(None)
    assert newest_batch(lw.open(uri).config, "q-1") == 0
    before = files(uri)
    answers = sink.write([2])
    with pytest.raises(InvalidInputError, match="option app"):
        sink.made().commit(answers, 1)
    sink.made().abort(answers, 1)
    assert (numbers(uri), files(uri)) == ([1], before)


def test_what_a_row_gets_wrong_is_told_by_the_commit(uri: str) -> None:
    lw.create(uri, pa.table({"a": pa.array([1], pa.int8())}))
    before = files(uri)
    with pytest.raises(InvalidInputError, match="300"):
        Sink(uri).run(0, [2], [300])
    assert (numbers(uri), files(uri)) == ([1], before)


def test_a_schema_that_does_not_fit_is_refused_before_anything_is_written(uri: str) -> None:
    lw.create(uri, pa.table({"b": pa.array([1], pa.int64())}))
    before = files(uri)
    with pytest.raises(InvalidInputError, match="'a'"):
        LanceSource(Sink(uri).options).streamWriter(SCHEMA, False)
    with pytest.raises(InvalidInputError, match="'a'"):
        Sink(uri).write([1])
    assert files(uri) == before


def test_a_branch_is_written_to_by_option(uri: str) -> None:
    table = lw.create(uri, pa.table({"a": pa.array([1], pa.int64())}))
    table.branches.create("exp")
    Sink(uri, branch="exp").run(0, [2])
    assert numbers(uri) == [1]
    exp = lance.dataset(uri).checkout_version(("exp", None))
    assert sorted(exp.to_table()["a"].to_pylist()) == [1, 2]


def test_options_for_one_batch_are_refused(uri: str) -> None:
    with pytest.raises(InvalidInputError, match="'batch' is not for a stream"):
        Sink(uri, batch="3").made()
