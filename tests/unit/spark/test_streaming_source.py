"""A table as a stream, asked as Spark asks it, in one process: offsets, then rows."""

from __future__ import annotations

import json
import pickle
import random
import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lancewood as lw
from lancewood.errors import InvalidInputError, LancewoodError, NotFoundError, UnsupportedError

pytest.importorskip("pyspark", reason="pyspark is not installed")

from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxFiles, ReadMaxRows
from pyspark.sql.types import LongType, StructField, StructType
from tests.manifests import decode_fragments, edit_manifest, put_fragments

from lancewood.model.rowids import RowIdSequence
from lancewood.proto import table_pb2
from lancewood.spark.source.lance_source import LanceSource
from lancewood.spark.streaming.task import find_between

Rows = list[dict[str, Any]]


def rows(*numbers: int, **columns: list[Any]) -> pa.Table:
    return pa.table({"a": pa.array(numbers, pa.int64()), **columns})


class Stream:
    """What Spark does with a reader, and what it keeps in a checkpoint."""

    schema: StructType | None = None

    def __init__(self, uri: str, **options: str) -> None:
        self.options = {"path": uri, **options}
        self.checkpoint: dict[str, Any] | None = None
        self.start()

    def start(self) -> None:
        """As in a new process: only the checkpoint is left."""
        made = LanceSource(CaseInsensitiveDict(self.options))
        schema = self.schema or made.schema()
        self.reader = pickle.loads(pickle.dumps(made)).streamReader(schema)

    def plan(self, limit: Any = None) -> tuple[dict[str, Any], dict[str, Any]]:
        """The offsets of the next batch."""
        begin = self.reader.initialOffset() if self.checkpoint is None else self.checkpoint
        end = self.reader.latestOffset(begin, limit or self.reader.getDefaultReadLimit())
        return begin, json.loads(json.dumps(end))

    def read(self, begin: dict[str, Any], end: dict[str, Any]) -> Rows:
        executor = pickle.loads(pickle.dumps(self.reader))
        parts = pickle.loads(pickle.dumps(self.reader.partitions(begin, end)))
        return [row for part in parts for each in executor.read(part) for row in each.to_pylist()]

    def batch(self, limit: Any = None) -> Rows | None:
        """The rows of the next batch; None if there is nothing new."""
        begin, end = self.plan(limit)
        if begin == end:
            return None
        found = self.read(begin, end)
        self.checkpoint = end
        return found

    def batches(self) -> list[Rows]:
        found = []
        while (batch := self.batch()) is not None:
            found.append(batch)
        return found

    def numbers(self) -> list[int]:
        return [row["a"] for batch in self.batches() for row in batch]


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return str(tmp_path / "t.lance")


def test_a_stream_begins_with_the_whole_table_and_goes_on_with_what_is_added(uri: str) -> None:
    lw.create(uri, rows(1, 2, 3)).append(rows(4)).delete("a = 2")
    stream = Stream(uri)
    assert stream.numbers() == [1, 3, 4]
    assert stream.batch() is None
    lw.open(uri).append(rows(5)).append(rows(6, 7))
    assert stream.numbers() == [5, 6, 7]
    lance.write_dataset(rows(8), uri, mode="append")
    assert stream.numbers() == [8]


def test_a_stream_goes_on_from_its_checkpoint_in_another_process(uri: str) -> None:
    table = lw.create(uri, rows(1, 2))
    stream = Stream(uri)
    assert stream.numbers() == [1, 2]
    table.append(rows(3))
    stream.start()
    assert stream.numbers() == [3]
    stream.start()
    assert stream.batch() is None


def test_a_first_batch_that_is_run_again_begins_where_it_began(uri: str) -> None:
    table = lw.create(uri, rows(1, 2))
    stream = Stream(uri)
    _, end = stream.plan()
    table.append(rows(3))
    stream.start()
    assert [each["a"] for each in stream.read(stream.reader.initialOffset(), end)] == [1, 2]
    stream.checkpoint = end
    assert stream.numbers() == [3]


def test_a_batch_has_the_same_rows_each_time_it_is_read(uri: str) -> None:
    table = lw.create(uri, rows(1)).append(rows(2)).delete("a = 1").append(rows(3))
    stream = Stream(uri, startingVersion="1", onChange="ignore", maxRowsPerTrigger="2")
    begin, end = stream.plan()
    first = stream.read(begin, end)
    table.compact()
    stream.start()
    assert stream.read(begin, end) == first == [{"a": 1}, {"a": 2}]


def test_an_empty_table_is_a_batch_without_rows_then_what_comes(uri: str) -> None:
    table = lw.create(uri, rows().schema)
    stream = Stream(uri)
    assert stream.batches() == [[]]
    table.append(rows(1))
    assert stream.numbers() == [1]


def test_a_stream_from_latest_has_only_what_comes_later(uri: str) -> None:
    table = lw.create(uri, rows(1))
    stream = Stream(uri, startingVersion="latest")
    assert stream.batches() == [[]]
    table = table.append(rows(2))
    stream.start()
    assert stream.numbers() == [2]


def test_a_stream_from_the_earliest_begins_with_the_oldest_version_whole(uri: str) -> None:
    table = lw.create(uri, rows(1)).append(rows(2)).append(rows(3))
    table.tags.create("keep", at=2)
    table.cleanup(keep_versions=1, in_flight=timedelta(0))
    with pytest.raises(NotFoundError, match=r"version 1 .* was cleaned up"):
        Stream(uri, startingVersion="1").batch()
    stream = Stream(uri, startingVersion="earliest", maxVersionsPerTrigger="1")
    assert stream.batches() == [[{"a": 1}, {"a": 2}], [{"a": 3}]]


def test_a_version_a_tag_and_a_moment_name_the_first_version_whose_rows_come(uri: str) -> None:
    table = lw.create(uri, rows(1))
    second = table.append(rows(2))
    second.tags.create("v2")
    third = second.append(rows(3))
    assert Stream(uri, startingVersion="2").numbers() == [2, 3]
    assert Stream(uri, startingTag="v2").numbers() == [2, 3]
    assert Stream(uri, startingTimestamp=second.timestamp.isoformat()).numbers() == [2, 3]
    later = second.timestamp + timedelta(microseconds=1)
    assert Stream(uri, startingTimestamp=later.isoformat()).numbers() == [3]
    assert Stream(uri, startingTimestamp="2020-01-01").numbers() == [1, 2, 3]
    assert Stream(uri, startingVersion="1").numbers() == [1, 2, 3]
    assert Stream(uri, startingVersion=str(third.version + 1)).numbers() == []
    with pytest.raises(InvalidInputError, match="the newest is 3"):
        Stream(uri, startingVersion="5").batch()
    with pytest.raises(NotFoundError, match="v9"):
        Stream(uri, startingTag="v9").batch()


def test_a_moment_from_before_the_oldest_version_is_refused_if_some_are_gone(uri: str) -> None:
    table = lw.create(uri, rows(1)).append(rows(2)).append(rows(3))
    table.cleanup(keep_versions=2, in_flight=timedelta(0))
    with pytest.raises(NotFoundError, match="startingVersion 2"):
        Stream(uri, startingTimestamp="2020-01-01").batch()


def test_rows_and_versions_of_a_batch_are_bounded(uri: str) -> None:
    table = lw.create(uri, rows(*range(10)), layout=lw.Layout(max_rows_per_file=4))
    for each in range(10, 16):
        table = table.append(rows(each, each + 100))
    sizes = [len(each) for each in Stream(uri, maxRowsPerTrigger="3").batches()]
    assert sizes == [3, 3, 3, 3, 3, 3, 3, 1]
    stream = Stream(uri, startingVersion="1", maxRowsPerTrigger="5")
    assert [len(each) for each in stream.batches()] == [5, 5, 5, 5, 2]
    stream = Stream(uri, startingVersion="2", maxVersionsPerTrigger="2")
    assert [len(each) for each in stream.batches()] == [4, 4, 4]
    both = Stream(uri, startingVersion="2", maxVersionsPerTrigger="2", maxRowsPerTrigger="100")
    assert [len(each) for each in both.batches()] == [4, 4, 4]


def test_rows_of_bounded_batches_are_all_rows_in_order(uri: str) -> None:
    table = lw.create(uri, rows(*range(50)), layout=lw.Layout(max_rows_per_file=7)).delete(
        "a % 5 = 1"
    )
    table.append(rows(*range(50, 60)))
    wanted = [each for each in range(60) if each % 5 != 1 or each >= 50]
    for most in (1, 7, 100):
        assert Stream(uri, maxRowsPerTrigger=str(most)).numbers() == wanted
        both = Stream(uri, startingVersion="1", onChange="ignore", maxRowsPerTrigger=str(most))
        assert both.numbers() == [*range(50), *range(50, 60)]


def test_spark_may_ask_for_everything_at_once(uri: str) -> None:
    table = lw.create(uri, rows(*range(10)))
    table.append(rows(10)).append(rows(11))
    stream = Stream(uri, maxRowsPerTrigger="2", maxVersionsPerTrigger="1")
    assert stream.reader.getDefaultReadLimit() == ReadMaxRows(2)
    assert Stream(uri, maxVersionsPerTrigger="3").reader.getDefaultReadLimit() == ReadMaxFiles(3)
    assert len(stream.batch(ReadAllAvailable()) or []) == 12


def test_a_trigger_that_takes_what_is_there_stops_where_it_began(uri: str) -> None:
    table = lw.create(uri, rows(1)).append(rows(2))
    stream = Stream(uri, startingVersion="1", maxVersionsPerTrigger="1")
    stream.reader.prepareForTriggerAvailableNow()
    assert stream.batch() == [{"a": 1}]
    table.append(rows(3))
    assert stream.numbers() == [2]
    stream.start()
    stream.reader.prepareForTriggerAvailableNow()
    assert stream.numbers() == [3]


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (lambda table: table.delete("a = 2"), "Delete"),
        (lambda table: table.update({"a": "a + 10"}, "a = 2"), "Update"),
        (lambda table: table.merge(rows(2, 9), on="a"), "Update"),
        (lambda table: table.overwrite(rows(7)), "Overwrite"),
        (lambda table: table.restore(1), "Restore"),
    ],
    ids=["delete", "update", "merge", "overwrite", "restore"],
)
def test_a_version_that_changed_rows_stops_the_stream_after_what_was_before(
    uri: str, change: Any, name: str
) -> None:
    table = lw.create(uri, rows(1, 2, 3)).append(rows(4))
    stream = Stream(uri, startingVersion="1")
    change(table)
    lw.open(uri).append(rows(5))
    assert stream.batch() == [{"a": 1}, {"a": 2}, {"a": 3}, {"a": 4}]
    with pytest.raises(UnsupportedError, match=rf"version 3 \({name}\).*onChange") as failed:
        stream.batch()
    assert failed.value.facts["version"] == 3
    stream.options["onChange"] = "ignore"
    stream.start()
    assert stream.numbers()[-1] == 5, "another option, the same checkpoint"


def test_ignoring_changes_emits_each_new_row_once(uri: str) -> None:
    table = lw.create(uri, rows(1, 2, 3))
    lw.open(uri).update({"a": "a + 10"}, "a = 2")
    lw.open(uri).merge(rows(3, 4), on="a")
    lw.open(uri).delete("a = 1")
    lw.open(uri).restore(1)
    lw.open(uri).compact()
    lw.open(uri).append(rows(5))
    lw.open(uri).overwrite(rows(6))
    assert table.version == 1
    stream = Stream(uri, startingVersion="1", onChange="ignore", maxVersionsPerTrigger="1")
    assert stream.numbers() == [1, 2, 3, 4, 5, 6]


def test_new_rows_are_new_whatever_ids_they_have(uri: str) -> None:
    """Ids jump where branches have spaces of their own; a merge may bring some from below."""
    lw.create(uri, rows(1, 2, 3))

    def jump(message: table_pb2.Manifest) -> None:
        message.next_row_id = 1 << 40

    def from_below(message: table_pb2.Manifest) -> None:
        fragments = decode_fragments(message)
        ids = RowIdSequence.decode(fragments[-1].inline_row_ids).to_numpy()
        assert sorted(ids.tolist()) == [2, 1 << 40]
        ids[ids == 1 << 40] = 50
        fragments[-1].inline_row_ids = RowIdSequence.from_values(ids).encode()
        put_fragments(message, fragments)

    edit_manifest(uri, jump)
    lw.open(uri).merge(rows(3, 4), on="a")
    edit_manifest(uri, from_below)
    lw.open(uri).delete("a = 4")
    lw.open(uri).restore(2)
    lw.open(uri).append(rows(5))
    found = Stream(uri, startingVersion="1", onChange="ignore", maxVersionsPerTrigger="1")
    assert found.numbers() == [1, 2, 3, 4, 5], "row 4 is new once, and back once"


def test_versions_that_keep_rows_are_never_a_problem(uri: str) -> None:
    table = lw.create(uri, rows(*range(20)), layout=lw.Layout(max_rows_per_file=5))
    stream = Stream(uri)
    assert len(stream.numbers()) == 20
    table.compact()
    table = lw.open(uri).set_config({"owner": "me"}).add_columns({"b": "a * 2"})
    table = table.append(rows(20, b=[40])).rename_column("b", "c").drop_columns(["c"])
    lance.dataset(uri).create_scalar_index("a", "BTREE")
    lw.open(uri).append(rows(21))
    assert stream.numbers() == [20, 21]


def test_changes_are_those_of_the_table(uri: str) -> None:
    table = lw.create(uri, rows(1, 2, 3)).append(rows(4))
    lw.open(uri).update({"a": "a + 10"}, "a = 2")
    lw.open(uri).delete("a = 1")
    lw.open(uri).merge(rows(3, 5), on="a")
    lw.open(uri).compact()
    newest = lw.open(uri)
    for most in (1, 2, 100):
        stream = Stream(uri, startingVersion="1", onChange="changes", maxRowsPerTrigger=str(most))
        found = [row for batch in stream.batches() for row in batch]
        assert [row["a"] for row in found if row["_version"] == 1] == [1, 2, 3]
        for version in range(2, newest.version + 1):
            wanted = newest.changes(version - 1, version).to_arrow().to_pylist()
            mine = [row for row in found if row["_version"] == version]
            key = str
            assert sorted(
                ({k: v for k, v in row.items() if k != "_version"} for row in mine), key=key
            ) == sorted(
                ({k: row[k] for k in ("a", "_change", "_rowid")} for row in wanted), key=key
            )
    assert table.version == 2


def test_columns_that_pylance_wrote_in_place_without_marks_are_changes(uri: str) -> None:
    table = lw.create(uri, rows(1, 2, 3, s=["x", "y", "z"]), access=lw.Access(fsync=False))
    stream = Stream(uri, onChange="changes")
    assert len(stream.batches()) == 1
    dataset: Any = lance.dataset(uri)
    part = rows(2, s=["new"])
    image, fields = dataset.get_fragment(0).update_columns(part, left_on="a", right_on="a")
    operation = lance.LanceOperation.Update(updated_fragments=[image], fields_modified=fields)
    lance.LanceDataset.commit(uri, operation, read_version=1)
    [batch] = stream.batches()
    assert [(each["_change"], each["a"], each["s"]) for each in batch] == [("updated", 2, "new")]
    between = find_between(table._snapshot, lw.open(uri)._snapshot)
    assert between.row_count == 1, "what is new to an incremental source of a pipeline"


def test_changes_can_be_applied_to_get_the_table_again(uri: str) -> None:
    table = lw.create(uri, rows(*range(30)), layout=lw.Layout(max_rows_per_file=7))
    stream = Stream(uri, onChange="changes", maxRowsPerTrigger="4")
    held: dict[int, int] = {}

    def follow() -> None:
        for row in (row for batch in stream.batches() for row in batch):
            if row["_change"] == "deleted":
                assert held.pop(row["_rowid"]) == row["a"]
            else:
                assert (row["_rowid"] in held) == (row["_change"] == "updated")
                held[row["_rowid"]] = row["a"]
        assert sorted(held.values()) == sorted(lw.open(uri).to_arrow()["a"].to_pylist())

    follow()
    table.delete("a % 3 = 0")
    lw.open(uri).update({"a": "a + 1000"}, "a % 4 = 1")
    follow()
    lw.open(uri).compact()
    lw.open(uri).merge(rows(2, 77), on="a")
    lw.open(uri).restore(2)
    follow()
    lw.open(uri).overwrite(rows(5))
    follow()


def test_columns_and_a_filter_hold_for_every_kind_of_row(uri: str) -> None:
    lw.create(uri, rows(1, 2, 3, s=["x", "y", "z"]))
    lw.open(uri).delete("a = 1")
    lw.open(uri).update({"s": "'new'"}, "a = 3")
    stream = Stream(uri, startingVersion="1", onChange="changes", columns="s", filter="a <> 2")
    found = [row for batch in stream.batches() for row in batch]
    assert [(row["s"], row["_change"]) for row in found] == [
        ("x", "inserted"),
        ("z", "inserted"),
        ("x", "deleted"),
        ("new", "updated"),
    ]
    assert list(found[0]) == ["s", "_change", "_rowid", "_version"]
    plain = Stream(uri, columns="s", filter="a > 2", withRowId="true")
    assert plain.batches() == [[{"s": "new", "_rowid": 2}]]


def test_a_schema_of_the_user_names_the_columns(uri: str) -> None:
    lw.create(uri, rows(1, s=["x"]))
    stream = Stream(uri)
    stream.schema = StructType([StructField("a", LongType())])
    stream.start()
    assert stream.batches() == [[{"a": 1}]]
    stream.schema = StructType([StructField("b", LongType())])
    with pytest.raises(InvalidInputError, match="'b'"):
        stream.start()
    stream.schema = StructType([StructField("s", LongType())])
    with pytest.raises(InvalidInputError, match="bigint"):
        stream.start()


def test_a_column_that_is_newer_than_a_version_is_null_there(uri: str) -> None:
    table = lw.create(uri, rows(1)).append(rows(2)).add_columns({"b": "a * 10"})
    table.append(rows(3, b=[30]))
    stream = Stream(uri, startingVersion="1")
    found = [row for batch in stream.batches() for row in batch]
    assert found == [{"a": 1, "b": None}, {"a": 2, "b": None}, {"a": 3, "b": 30}]


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda table: table.drop_columns(["s"]), "column 's' is not there any more"),
        (lambda table: table.rename_column("s", "t"), "column 's' is not there any more"),
        (lambda table: table.cast_column("a", pa.int32()), "column 'a' is int, not bigint"),
    ],
    ids=["drop", "rename", "cast"],
)
def test_a_version_that_does_not_fit_the_schema_is_named(uri: str, change: Any, what: str) -> None:
    table = lw.create(uri, rows(1, s=["x"]))
    stream = Stream(uri)
    table = table.append(rows(2, s=["y"]))
    changed = change(table)
    assert stream.batch() == [{"a": 1, "s": "x"}, {"a": 2, "s": "y"}]
    with pytest.raises(UnsupportedError, match=rf"version {changed.version} .*{what}"):
        stream.batch()
    stream.start()
    assert stream.batches() == [[]]


def test_a_column_that_was_renamed_since_is_not_taken_for_a_new_one(uri: str) -> None:
    lw.create(uri, rows(1)).append(rows(2)).rename_column("a", "b")
    with pytest.raises(UnsupportedError, match="column 'b' is called 'a' there"):
        Stream(uri, startingVersion="1").batch()


def test_versions_that_were_cleaned_up_are_missed_aloud(uri: str) -> None:
    table = lw.create(uri, rows(1))
    stream = Stream(uri)
    stream.batches()
    for each in (2, 3, 4):
        table = table.append(rows(each))
    table.cleanup(keep_versions=1, in_flight=timedelta(0))
    with pytest.raises(NotFoundError, match=r"version 2 .* was cleaned up .*checkpointLocation"):
        stream.batch()


def test_a_table_that_was_made_again_is_not_the_one_that_was_read(uri: str) -> None:
    lw.create(uri, rows(1)).append(rows(2))
    stream = Stream(uri)
    stream.batches()
    shutil.rmtree(uri)
    table = lw.create(uri, rows(1))
    stream.start()
    with pytest.raises(InvalidInputError, match="the newest is 1"):
        stream.batch()
    table.append(rows(2)).append(rows(3))
    stream.start()
    with pytest.raises(InvalidInputError, match="another one now"):
        stream.batch()


def test_a_table_that_is_made_again_beside_a_running_stream_is_found_out(uri: str) -> None:
    lw.create(uri, rows(1)).append(rows(2))
    stream = Stream(uri)
    assert stream.numbers() == [1, 2]
    shutil.rmtree(uri)
    lw.create(uri, rows(10)).append(rows(20)).append(rows(30))
    with pytest.raises(InvalidInputError, match=r"up to version 2, but .* another one now"):
        stream.batch()


def test_a_table_that_was_made_again_while_its_first_version_was_read_is_found_out(
    uri: str,
) -> None:
    lw.create(uri, rows(1, 2, 3))
    stream = Stream(uri, maxRowsPerTrigger="2")
    begin, end = stream.plan()
    assert stream.batch() == [{"a": 1}, {"a": 2}]
    shutil.rmtree(uri)
    lw.create(uri, rows(10, 20, 30))
    for again in (stream.batch, lambda: stream.read(begin, end)):
        stream.start()
        with pytest.raises(InvalidInputError, match=r"up to version 1, but .* another one now"):
            again()


def test_a_batch_that_is_full_at_the_end_of_a_version_goes_on_after_it(uri: str) -> None:
    lw.create(uri, rows(1, 2)).append(rows(3))
    stream = Stream(uri, startingVersion="1", maxRowsPerTrigger="2")
    found = []
    while (batch := stream.batch()) is not None:
        found.append([each["a"] for each in batch])
        stream.start()
    assert found == [[1, 2], [3]]


def test_offsets_that_do_not_belong_together_are_refused(uri: str) -> None:
    lw.create(uri, rows(1, 2)).append(rows(3))
    stream = Stream(uri)
    begin, end = stream.plan()
    for odd in (
        {**end, "origin": 1},
        {**end, "version": 2, "index": 99},
        {**end, "version": 9},
    ):
        with pytest.raises(LancewoodError, match=r"checkpoint|cleaned up"):
            stream.read(begin if odd["origin"] == 2 else end, odd)
    with pytest.raises(InvalidInputError, match="does not follow"):
        stream.read(end, {**end, "version": 2})
    with pytest.raises(InvalidInputError, match="no offset"):
        stream.reader.latestOffset({"version": "x"}, ReadAllAvailable())
    with pytest.raises(InvalidInputError, match="beginning"):
        stream.read(begin, begin)


def test_a_branch_is_a_stream_of_its_own(uri: str) -> None:
    table = lw.create(uri, rows(1)).append(rows(2))
    table.branches.create("exp")
    exp = lw.open(uri, branch="exp").append(rows(3))
    table.append(rows(100))
    assert Stream(uri, branch="exp").numbers() == [1, 2, 3]
    assert Stream(f"{uri}@exp", startingVersion="latest").numbers() == []
    assert Stream(uri, branch="exp", startingVersion="2").numbers() == [2, 3]
    assert Stream(uri, branch="exp", startingVersion=str(exp.version)).numbers() == [3]
    exp.tags.create("there")
    with pytest.raises(InvalidInputError, match="option branch"):
        Stream(uri, startingTag="there").batch()


def test_a_branch_that_was_reset_is_another_one(uri: str) -> None:
    table = lw.create(uri, rows(1)).append(rows(2))
    table.branches.create("exp")
    lw.open(uri, branch="exp").append(rows(3))
    stream = Stream(uri, branch="exp", onChange="ignore")
    assert stream.numbers() == [1, 2, 3]
    table.append(rows(4))
    lw.open(uri).branches.reset("exp", force=True)
    with pytest.raises(InvalidInputError, match=r"began anew|reset"):
        stream.batch()


def test_a_shallow_clone_is_read_where_its_files_are(uri: str, tmp_path: Path) -> None:
    lw.create(uri, rows(1, 2))
    target = str(tmp_path / "clone.lance")
    lw.open(uri).clone(target).append(rows(3))
    assert Stream(target).numbers() == [1, 2, 3]


def test_a_table_without_stable_row_ids_says_what_it_cannot_tell(uri: str) -> None:
    lance.write_dataset(rows(1, 2), uri, enable_stable_row_ids=False)
    lance.write_dataset(rows(3), uri, mode="append")
    lance.dataset(uri).delete("a = 1")
    lance.dataset(uri).merge_insert("a").when_not_matched_insert_all().execute(rows(4))
    lance.dataset(uri).optimize.compact_files()
    lance.dataset(uri).add_columns({"b": "a + 1"})
    assert Stream(uri, startingVersion="1", onChange="ignore").numbers() == [1, 2, 3, 4]
    lance.dataset(uri).update({"b": "7"}, where="a = 2")
    with pytest.raises(UnsupportedError, match="without stable row ids"):
        Stream(uri, startingVersion="1", onChange="ignore", maxVersionsPerTrigger="1").batches()
    with pytest.raises(UnsupportedError, match="no stable row ids"):
        Stream(uri, onChange="changes")
    lance.write_dataset(rows(9, b=[1]), uri, mode="overwrite")
    later = Stream(uri, startingVersion=str(lance.dataset(uri).version), onChange="ignore")
    assert later.numbers() == [9]


@pytest.mark.parametrize(
    ("option", "value"),
    [("version", "1"), ("tag", "v"), ("asOf", "2030-01-01"), ("limit", "3")],
)
def test_options_that_mean_one_version_are_refused(uri: str, option: str, value: str) -> None:
    lw.create(uri, rows(1)).tags.create("v")
    with pytest.raises(InvalidInputError, match=f"{option!r} is not for a stream"):
        Stream(uri, **{option: value})


def test_a_path_that_means_one_version_is_refused(uri: str) -> None:
    lw.create(uri, rows(1)).tags.create("v")
    for revision in ("v", "tag:v", "main:1"):
        with pytest.raises(InvalidInputError, match="one version"):
            Stream(f"{uri}@{revision}")
    assert Stream(f"{uri}@main").numbers() == [1]


def test_columns_of_changes_that_the_table_has_itself_are_refused(uri: str) -> None:
    lw.create(uri, rows(1, _version=[7]))
    with pytest.raises(InvalidInputError, match="'_version' of its own"):
        Stream(uri, onChange="changes")


def test_columns_of_changes_that_the_table_has_itself_can_be_left_out(uri: str) -> None:
    lw.create(uri, rows(1, _version=[7]))
    assert Stream(uri, onChange="changes", columns="a").batches() == [
        [{"a": 1, "_change": "inserted", "_rowid": 0, "_version": 1}]
    ]


def test_a_column_called_as_those_of_changes_is_null_where_it_was_not_there(uri: str) -> None:
    lw.create(uri, rows(1)).add_columns({"_change": "'x'", "_version": "1.5"})
    stream = Stream(uri, startingVersion="1", onChange="ignore")
    assert stream.batches() == [[{"a": 1, "_change": None, "_version": None}]]


def test_many_appends_need_one_manifest_and_few_small_tasks(uri: str) -> None:
    table = lw.create(uri, rows(0))
    for each in range(1, 30):
        table = table.append(rows(each))
    stream = Stream(uri, startingVersion="2")
    begin, end = stream.plan()
    parts = stream.reader.partitions(begin, end)
    assert len(parts) == 1
    assert len(parts[0].value) < 8_000
    assert [row["a"] for row in stream.read(begin, end)] == list(range(1, 30))
    assert set(stream.reader._history._snapshots) <= {30}


def test_a_batch_cut_into_tasks_has_the_same_rows(
    uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = lw.create(uri, rows(*range(40)), layout=lw.Layout(max_rows_per_file=9)).delete(
        "a % 7 = 3"
    )
    table.append(rows(*range(40, 45))).append(rows(*range(45, 60)))
    lw.open(uri).update({"a": "a + 1000"}, "a % 5 = 0")
    for options in ({}, {"startingVersion": "1", "onChange": "changes"}, {"filter": "a % 2 = 0"}):
        stream = Stream(uri, **options)
        begin, end = stream.plan()
        wanted = stream.read(begin, end)
        for tasks in (3, 1_000):
            with monkeypatch.context() as patch:
                patch.setattr(
                    "lancewood.spark.streaming.task.count_tasks",
                    lambda cost, slots, most, tasks=tasks: tasks,
                )
                parts = len(stream.reader.partitions(begin, end))
                assert 1 < parts <= tasks
                assert stream.read(begin, end) == wanted


def test_a_task_does_not_carry_row_ids_that_nobody_asks_for(uri: str) -> None:
    many = lw.create(uri, rows(*range(20_000)), layout=lw.Layout(max_rows_per_file=10_000))
    chosen = random.Random(5).sample(range(20_000), 4_000)
    many.update({"a": "a + 1"}, f"a IN ({', '.join(map(str, chosen))})", rewrite="rows")
    lw.open(uri).compact()

    def size(**options: str) -> int:
        stream = Stream(uri, **options)
        (part,) = stream.reader.partitions(*stream.plan())
        assert repr(part) == f"<StreamPartition of {len(part.value)} bytes>"
        return len(part.value)

    assert size() + 1_000 < size(withRowId="true")
