"""Planning a read, and what its tasks give; here they run one after the other, without a Spark."""

from __future__ import annotations

import pickle
import random
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.breadth import daily
from tests.indexed import KINDS, make_indexed
from tests.indexed import rows as indexed_rows
from tests.manifests import decode_fragments, edit_manifest, put_fragments

import lancewood as lw
from lancewood.engine.rows.scan import plan_scan
from lancewood.engine.snapshot.snapshot import Snapshot
from lancewood.errors import FormatError, InvalidInputError, NotFoundError, UnsupportedError
from lancewood.model.manifest import Manifest
from lancewood.model.rowids import RowIdSequence
from lancewood.proto import table_pb2
from lancewood.spark.reading import plan
from lancewood.spark.reading import plan as cutting
from lancewood.spark.reading.plan import ReadPlan, plan_read, row_width
from lancewood.spark.reading.task import ReadWork, TablePortion, count_rows

pytest.importorskip("pyspark", reason="pyspark is not installed")


def count_task(work: ReadWork, message: bytes) -> int:
    (batch,) = count_rows(work, message)
    (count,) = batch["rows"].to_pylist()
    return int(count)


def planned(table: lw.Table, slots: int = 2, **asked: Any) -> ReadPlan:
    """As it arrives on an executor: pickled."""
    snapshot = table._snapshot
    made = plan_read(snapshot, plan_scan(snapshot, **asked).request, slots)
    return ReadPlan(pickle.loads(pickle.dumps(made.work)), made.messages, made.limit)


def read_all(made: ReadPlan) -> pa.Table:
    batches = [each for message in made.messages for each in made.work(message)]
    return pa.Table.from_batches(batches, made.work.reading.schema)


def rows(first: int, count: int) -> pa.Table:
    numbers = range(first, first + count)
    return pa.table({"n": numbers, "s": [f"text {each}" for each in numbers]})


@pytest.fixture
def tiny_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few rows are worth a task, as many are elsewhere."""
    monkeypatch.setattr(cutting, "LEAST", 64)
    monkeypatch.setattr(cutting, "OPENING", 16)
    monkeypatch.setattr(plan, "_ALIGNMENT", 1)


@pytest.fixture(scope="module")
def uneven(tmp_path_factory: pytest.TempPathFactory) -> lw.Table:
    """Fragments of 3, 400, 1, 50 and 7 rows, some of them deleted."""
    made = lw.create(
        tmp_path_factory.mktemp("uneven") / "t.lance", rows(0, 3), access=lw.Access(fsync=False)
    )
    for first, count in ((3, 400), (403, 1), (404, 50), (454, 7)):
        made = made.append(rows(first, count))
    return made.delete("n % 10 = 3 OR n > 458 OR n = 0")


def test_tasks_together_give_the_table_in_its_order(uneven: lw.Table, tiny_tasks: None) -> None:
    found = planned(uneven, slots=3)
    assert len(found.messages) == 12
    assert found.limit is None
    assert read_all(found) == uneven.to_arrow()


@pytest.mark.usefixtures("tiny_tasks")
@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=daily(30, of=60)
)
@given(
    slots=st.integers(1, 20),
    where=st.sampled_from(
        [None, "n < 100", "n % 7 = 0", "_rowid > 300", "_rowaddr < 4294967396", "n > 9999", "false"]
    ),
    limit=st.none() | st.integers(0, 500),
    columns=st.sampled_from([None, ["s"], [], {"m": "n + 1", "_rowid": "_rowid"}]),
    with_row_id=st.booleans(),
    batch_rows=st.none() | st.integers(1, 50),
)
def test_every_read_gives_what_a_scan_gives(
    uneven: lw.Table,
    slots: int,
    where: str | None,
    limit: int | None,
    columns: Any,
    with_row_id: bool,
    batch_rows: int | None,
) -> None:
    asked = {"where": where, "columns": columns, "with_row_id": with_row_id}
    made = planned(uneven, slots, limit=limit, batch_rows=batch_rows, **asked)
    scan = uneven.scan(limit=limit, **asked)
    batches = [each for message in made.messages for each in made.work(message)]
    assert batch_rows is None or all(each.num_rows <= batch_rows for each in batches)
    if made.limit is not None:
        assert made.limit == limit
        batches = first_rows(batches, limit)
    if columns == [] and not with_row_id:
        assert sum(each.num_rows for each in batches) == scan.count()
        return
    longs = {each: pa.int64() for each in ("_rowid",) if each in scan.schema.names}
    expected = scan.to_arrow()
    for name, kind in longs.items():
        at = expected.schema.get_field_index(name)
        expected = expected.set_column(at, name, expected[name].cast(kind))
    assert pa.Table.from_batches(batches, made.work.reading.schema) == expected


def first_rows(batches: list[pa.RecordBatch], limit: int) -> list[pa.RecordBatch]:
    """What Spark's own limit does with the rows of several tasks."""
    kept = []
    for each in batches:
        kept.append(each.slice(0, limit))
        limit -= kept[-1].num_rows
    return kept


@pytest.mark.parametrize("limit", [1, 3, 300, 361, 362, 400, 10_000])
def test_limit_without_a_filter_is_exact_before_a_task_runs(
    uneven: lw.Table, tiny_tasks: None, limit: int
) -> None:
    made = planned(uneven, slots=4, limit=limit)
    assert made.limit is None
    assert read_all(made) == uneven.scan(limit=limit).to_arrow()


def test_count_of_tasks_is_that_of_the_table(uneven: lw.Table, tiny_tasks: None) -> None:
    made = planned(uneven, columns=(), where="n % 2 = 0")
    assert len(made.messages) == 8
    found = sum(count_task(made.work, each) for each in made.messages)
    assert found == uneven.count_rows("n % 2 = 0")


def test_empty_table_has_no_tasks(tmp_path: Path) -> None:
    made = lw.create(
        tmp_path / "t.lance", pa.schema({"n": pa.int64()}), access=lw.Access(fsync=False)
    )
    assert planned(made).messages == []
    assert planned(made, where="n > 1", limit=3).messages == []


@pytest.mark.parametrize(
    ("asked", "tasks"),
    [
        ({"where": "1 = 2"}, 0),
        ({"where": "_rowid < 0"}, 0),
        ({"limit": 0}, 0),
        ({"where": "_rowaddr = 17179869184"}, 1),
        ({"limit": 2}, 1),
    ],
)
def test_what_the_manifest_rules_out_is_no_task(
    uneven: lw.Table, asked: dict[str, Any], tasks: int
) -> None:
    made = planned(uneven, **asked)
    assert len(made.messages) == tasks
    assert all(len(TablePortion.decode(each).fragments) == 1 for each in made.messages)


def test_wrong_requests_are_told_while_planning(uneven: lw.Table, tmp_path: Path) -> None:
    for asked in (
        {"columns": ["no"]},
        {"where": "no = 1"},
        {"where": "s + 1"},
        {"limit": -1},
        {"offset": 3},
    ):
        with pytest.raises(InvalidInputError):
            planned(uneven, **asked)
    huge = pa.table({"n": [1], "d": pa.array([None], pa.decimal256(60, 2))})
    made = lw.create(tmp_path / "t.lance", huge, access=lw.Access(fsync=False))
    with pytest.raises(UnsupportedError, match="column 'd'"):
        planned(made)
    assert read_all(planned(made, columns=["n"])).num_rows == 1


def test_executors_need_no_manifest(tmp_path: Path, tiny_tasks: None) -> None:
    made = lw.create(
        tmp_path / "t.lance",
        rows(0, 500),
        layout=lw.Layout(max_rows_per_file=100),
        access=lw.Access(fsync=False),
    )
    made = made.delete("n = 5")
    expected = made.to_arrow()
    found = planned(made)
    shutil.rmtree(tmp_path / "t.lance" / "_versions")
    shutil.rmtree(tmp_path / "t.lance" / "_transactions", ignore_errors=True)
    assert read_all(found) == expected


def test_relative_path_means_the_same_on_an_executor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = planned(lw.create("t.lance", rows(0, 20), access=lw.Access(fsync=False)))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert read_all(found) == rows(0, 20)


def test_table_in_memory_is_refused_while_planning() -> None:
    made = lw.create(f"memory://{uuid4().hex}", rows(0, 3).schema)
    with pytest.raises(UnsupportedError, match="where executors cannot read it"):
        planned(made)


def test_object_store_is_reached_with_the_options_of_the_driver(
    s3_root: str, s3_options: dict[str, str]
) -> None:
    made = lw.create(
        f"{s3_root}/t.lance", rows(0, 500), access=lw.Access(storage_options=s3_options)
    )
    made = made.delete("n = 5")
    found = planned(
        lw.open(made.uri, access=lw.Access(storage_options=s3_options)), where="n < 300"
    )
    assert read_all(found) == made.scan(where="n < 300").to_arrow()
    assert s3_options["aws_secret_access_key"] not in f"{found} {found.work.name}"


def test_driver_opens_no_data_file(tmp_path: Path) -> None:
    made = lw.create(
        tmp_path / "t.lance",
        rows(0, 500),
        layout=lw.Layout(max_rows_per_file=100),
        access=lw.Access(fsync=False),
    )
    made = made.delete("n = 5")
    shutil.rmtree(tmp_path / "t.lance" / "data")
    shutil.rmtree(tmp_path / "t.lance" / "_deletions")
    for asked in ({}, {"where": "n > 3"}, {"where": "n > 3", "limit": 5}, {"columns": ["s"]}):
        assert len(planned(made, **asked).messages) == 1


def test_files_that_are_gone_are_told_with_the_version_and_a_way_out(tmp_path: Path) -> None:
    made = lw.create(tmp_path / "t.lance", rows(0, 500), access=lw.Access(fsync=False)).append(
        rows(500, 5)
    )
    found = planned(made)
    shutil.rmtree(tmp_path / "t.lance" / "data")
    with pytest.raises(
        NotFoundError, match=r"version 2 of .*t\.lance cannot be read any more"
    ) as e:
        read_all(found)
    assert "a tag keeps a version" in str(e.value)
    assert e.value.facts["version"] == 2
    with pytest.raises(NotFoundError, match="cannot be read any more"):
        count_task(planned(made, where="n > 1").work, found.messages[0])


def test_branch_and_clone_are_read_without_looking_for_their_bases(
    tmp_path: Path, tiny_tasks: None
) -> None:
    made = lw.create(
        tmp_path / "t.lance",
        rows(0, 300),
        layout=lw.Layout(max_rows_per_file=100),
        access=lw.Access(fsync=False),
    )
    made.branches.create("exp")
    branch = lw.open(made.uri, branch="exp").append(rows(300, 50)).delete("n = 7")
    clone = made.clone(tmp_path / "c.lance")
    for each in (branch, clone):
        assert read_all(planned(each)) == each.to_arrow()


def test_row_ids_travel_only_where_they_are_asked_for(tmp_path: Path) -> None:
    made = lw.create(tmp_path / "t.lance", rows(0, 4000), access=lw.Access(fsync=False))

    def scatter(message: table_pb2.Manifest) -> None:
        fragments = decode_fragments(message)
        scattered = RowIdSequence.from_values([each * 977 % 100_003 for each in range(4000)])
        fragments[0].inline_row_ids = scattered.encode()
        put_fragments(message, fragments)
        message.next_row_id = 100_003

    edit_manifest(made.uri, scatter)
    made = lw.open(made.uri)
    bare, full = planned(made), planned(made, with_row_id=True)
    assert len(bare.messages[0]) < 300 < 4000 < len(full.messages[0])
    assert read_all(bare) == made.to_arrow()
    found = read_all(full)["_rowid"].to_pylist()
    assert found == made.scan([], with_row_id=True).to_arrow()["_rowid"].to_pylist()
    assert len(planned(made, where="_rowid = 977").messages[0]) > 4000


def test_rows_that_a_writer_did_not_count_are_read(tmp_path: Path, tiny_tasks: None) -> None:
    made = lw.create(
        tmp_path / "t.lance",
        rows(0, 300),
        layout=lw.Layout(max_rows_per_file=100, stable_row_ids=False),
        access=lw.Access(fsync=False),
    )

    def forget(message: table_pb2.Manifest) -> None:
        fragments = decode_fragments(message)
        for each in fragments:
            each.physical_rows = 0
        put_fragments(message, fragments)

    expected = made.to_arrow()
    edit_manifest(made.uri, forget)
    made = lw.open(made.uri)
    assert read_all(planned(made)) == expected
    limited = planned(made, limit=7)
    assert limited.limit == 7
    assert [count_task(limited.work, each) for each in limited.messages] == [7, 7, 7]


@pytest.mark.parametrize("claimed", [1 << 33, (1 << 64) - 1])
def test_a_fragment_of_more_rows_than_can_be_is_damage_with_a_filter_too(
    tmp_path: Path, claimed: int
) -> None:
    made = lw.create(tmp_path / "t.lance", rows(0, 3), access=lw.Access(fsync=False))

    def exaggerate(message: table_pb2.Manifest) -> None:
        fragments = decode_fragments(message)
        fragments[0].physical_rows = claimed
        put_fragments(message, fragments)

    edit_manifest(made.uri, exaggerate)
    for where in (None, "n < 2"):
        with pytest.raises(FormatError, match=f"a fragment has {claimed} rows"):
            planned(lw.open(made.uri), where=where)


# The size of a plan


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    """100,000 fragments of 1,000 rows, of which only the manifest exists."""
    made = lw.create(
        tmp_path_factory.mktemp("many") / "t.lance", rows(0, 1000), access=lw.Access(fsync=False)
    )
    (fragment,) = decode_fragments(made._snapshot.manifest.message)
    message = table_pb2.Manifest()
    message.CopyFrom(made._snapshot.manifest.message)
    del message.fragments[:]
    for number in range(100_000):
        fragment.id = number
        fragment.files[0].path = f"{uuid4().hex}.lance"
        fragment.inline_row_ids = RowIdSequence.from_range(number * 1000, 1000).encode()
        message.fragments.append(fragment.SerializeToString())
    message.max_fragment_id = 99_999
    return Snapshot(made._snapshot.location, Manifest(message), made._snapshot.scheme)


def test_plan_of_100_000_fragments_is_a_few_megabytes_in_few_tasks(many: Snapshot) -> None:
    made = plan_read(many, plan_scan(many).request, slots=16)
    assert 64 <= len(made.messages) <= 128
    assert sum(map(len, made.messages)) < 4_000_000
    assert max(map(len, made.messages)) < cutting.MOST_MESSAGE
    assert len(pickle.dumps(made.work)) < 10_000
    assert sum(len(TablePortion.decode(each).fragments) for each in made.messages) == 100_000
    assert "fragments" not in many.manifest.__dict__, "they were decoded"


@pytest.mark.parametrize(
    ("where", "fragments"),
    [("n = 5", 100_000), ("_rowaddr IN (5, 4294967296)", 2), ("_rowid >= 99999000", 1)],
)
def test_fragments_are_left_out_by_the_driver_or_by_the_tasks(
    many: Snapshot, where: str, fragments: int
) -> None:
    made = plan_read(many, plan_scan(many, where=where).request, slots=16)
    assert sum(len(TablePortion.decode(each).fragments) for each in made.messages) == fragments


def test_first_rows_of_100_000_fragments_are_one_message(many: Snapshot) -> None:
    made = plan_read(many, plan_scan(many, limit=2_500).request, slots=16)
    (message,) = made.messages
    assert [
        len(TablePortion.decode(message).fragments),
        *TablePortion.decode(message).spans.values(),
    ] == [
        3,
        (0, 500),
    ]


# The width of a row


def wide(count: int) -> pa.Table:
    made = random.Random(count)
    return pa.table(
        {
            "n": range(count),
            "v": pa.array([[0.5] * 96] * count, pa.list_(pa.float32(), 96)),
            "b": [made.randbytes(3000) for _ in range(count)],
            "s": ["abcdefgh"] * count,
        }
    )


@pytest.mark.sliced(2)
@pytest.mark.parametrize(
    ("columns", "where", "low", "high"),
    [
        (["n"], None, 8, 8),
        (["n", "v"], None, 392, 392),
        ([], None, 1, 1),
        (["b"], None, 3000, 3100),
        (["s"], None, 16, 26),
        (["s"], "n < 5", 24, 34),
        (None, None, 3400, 3500),
    ],
)
def test_width_of_a_row_is_that_of_the_columns_that_are_read(
    tmp_path: Path, columns: list[str] | None, where: str | None, low: int, high: int
) -> None:
    made = lw.create(tmp_path / "t.lance", wide(10_000), access=lw.Access(fsync=False))
    scan = plan_scan(made._snapshot, columns=columns, where=where)
    assert low <= row_width(scan, made.fragments, 10_000) <= high


def test_no_data_file_is_opened_where_types_tell_or_one_task_is_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = lw.create(tmp_path / "t.lance", wide(10_000), access=lw.Access(fsync=False))
    few = lw.create(tmp_path / "few.lance", wide(20), access=lw.Access(fsync=False))

    def opened(_: Snapshot) -> Mapping[str, float]:
        raise AssertionError("a data file was opened")

    monkeypatch.setattr(cutting, "column_widths", opened)
    assert len(planned(made, columns=["n", "v"]).messages) == 1
    assert len(planned(few).messages) == 1
    with pytest.raises(AssertionError):
        planned(made, columns=["s"])


def test_width_is_found_where_a_writer_recorded_no_sizes(tmp_path: Path) -> None:
    made = lw.create(tmp_path / "t.lance", wide(10_000), access=lw.Access(fsync=False))

    def forget(message: table_pb2.Manifest) -> None:
        fragments = decode_fragments(message)
        fragments[0].files[0].file_size_bytes = 0
        put_fragments(message, fragments)

    edit_manifest(made.uri, forget)
    made = lw.open(made.uri)
    scan = plan_scan(made._snapshot, columns=["s"])
    assert 16 <= row_width(scan, made.fragments, 10_000) <= 26


def test_secrets_are_in_no_text_of_a_plan(tmp_path: Path) -> None:
    lw.create(tmp_path / "t.lance", rows(0, 10), access=lw.Access(fsync=False))
    secret = {"aws_secret_access_key": "planted-secret"}
    opened = lw.open(
        tmp_path / "t.lance",
        access=lw.Access(storage_options=secret, base_storage_options={"cold": secret}),
    )
    made = planned(opened, where="s <> $text", parameters={"text": "planted-secret"})
    assert "planted-secret" not in f"{made} {made.work} {made.work.name} {made.work.request}"


# Indices


@pytest.mark.parametrize("kind", KINDS)
def test_tasks_are_few_and_small_where_an_index_tells_the_rows(uri: str, kind: str) -> None:
    make_indexed(uri, kind, ["k"], count=800, per_file=100)
    table = lw.open(uri).append(indexed_rows(2_000, 30)).delete("k % 11 = 4")
    where = "k IN (123, 124, 560)"
    for asked in ({"where": where}, {"where": where, "columns": ["k"], "with_row_id": True}):
        made = planned(table, **asked)
        plain = planned(table, use_indices=False, **asked)
        assert str(read_all(made).to_pylist()) == str(read_all(plain).to_pylist())
        assert read_all(made).num_rows == 3
        assert sum(count_task(made.work, each) for each in made.messages) == table.count_rows(where)
    portions = [TablePortion.decode(each) for each in made.messages]
    read = sum(len(each.fragments) for each in portions)
    told = {key: span for each in portions for key, span in each.spans.items()}
    assert read == len(told) + 1, "one fragment is not covered"
    assert all(0 <= start < stop <= 100 for start, stop in told.values())
    assert len(made.messages) == 1
    assert made.work.snapshot.manifest.indices == ()


def test_an_index_is_asked_however_many_fragments_there_are(
    uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_indexed(uri, "BTREE", ["k"], count=100, per_file=10)
    monkeypatch.setattr(plan, "_FEW_FRAGMENTS", 3)
    made = planned(lw.open(uri), where="k IN (15, 18, 77)", columns=["k"])
    assert read_all(made)["k"].to_pylist() == [15, 18, 77]
    (only,) = [TablePortion.decode(each) for each in made.messages]
    assert only.spans == {1: (5, 9), 7: (7, 8)}


@pytest.mark.sliced(2)
@pytest.mark.usefixtures("tiny_tasks")
@pytest.mark.parametrize("stable", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_tasks_ask_indices_for_conditions_that_spark_adds(
    uri: str, kind: str, stable: bool
) -> None:
    make_indexed(uri, kind, ["k"], stable=stable, count=800, per_file=400)
    table = lw.open(uri).append(indexed_rows(2_000, 30)).delete("k % 11 = 4")
    made = planned(table, slots=3, where="k <> 560")
    portions = [TablePortion.decode(each) for each in made.messages]
    assert any(each.spans for each in portions), "fragments are cut"
    for added in ("k IN (123, 124, 560, 2007)", "k BETWEEN 395 AND 404", "k > 5000", "k IS NULL"):
        work = made.work.narrowed(["s", "k"], f"({added})", None)
        found = [each for message in made.messages for each in work(message)]
        got = pa.Table.from_batches(found, work.reading.schema)
        where = f"k <> 560 AND ({added})"
        assert got == table.scan(["s", "k"], where, use_indices=False).to_arrow()
        assert sum(count_task(work, each) for each in made.messages) == got.num_rows
        assert any(work.plan(each).is_narrowed for each in portions) is (kind != "BITMAP")
    plain = planned(table, slots=3, use_indices=False).work
    assert plain.narrowed(["k"], "k = 123", None).index_section is None
