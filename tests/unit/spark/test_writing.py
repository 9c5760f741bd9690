"""One write in its steps, without a Spark: plan, run, commit. Batches are made by hand."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from tests.unit.spark.local_join import Frame, planned_write

import lancewood as lw
from lancewood.engine.snapshot import Address
from lancewood.jobs.counts import RowCounts
from lancewood.spark.write_frame import write
from lancewood.spark.writing.job import WriteJob
from lancewood.spark.writing.work import Written, decode_answers, encode_error

pytest.importorskip("pyspark", reason="pyspark is not installed")

ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "s": ["x", "y", None]})
MORE = pa.table({"id": pa.array([4, 5], pa.int64()), "s": ["v", "w"]})
VECTORS = pa.schema([pa.field("id", pa.int64()), pa.field("v", pa.list_(pa.float32(), 2))])


def frame(text: str) -> Any:
    """The schema of a frame: names and types, as Spark calls them."""
    from pyspark.sql import types as kinds

    known = {
        "bigint": kinds.LongType(),
        "int": kinds.IntegerType(),
        "double": kinds.DoubleType(),
        "string": kinds.StringType(),
        "array<float>": kinds.ArrayType(kinds.FloatType()),
    }
    columns = [each.split() for each in text.split(", ")]
    return kinds.StructType([kinds.StructField(name, known[kind]) for name, kind in columns])


TWO = "id bigint, s string"
ANEW: dict[str, Any] = {"overwrite_schema": True}


def ran(job: WriteJob, *partitions: pa.Table) -> list[bytes]:
    """The answers of executors, each with a job that travelled."""
    sent = pickle.dumps(job)
    return [pickle.loads(sent).run(iter(each.to_batches())) for each in partitions]


def plan_write(uri: Path | str, columns: Any, **wishes: Any) -> WriteJob:
    options = wishes.pop("storage_options", None)
    return planned_write(Address(uri, lw.Access(storage_options=options)), columns, **wishes)


def done(uri: Path | str, *partitions: pa.Table, text: str = TWO, **wishes: Any) -> Any:
    job = plan_write(uri, frame(text), **wishes)
    return pickle.loads(pickle.dumps(job)).commit(ran(job, *partitions))


def rows(uri: Path | str, **at: Any) -> list[dict[str, Any]]:
    """What is there, as pylance and we both see it."""
    table = lw.open(uri, **at)
    dataset: Any = lance.dataset(str(uri))
    if at.get("branch"):
        dataset = dataset.checkout_version((at["branch"], None))
    dataset.validate()
    found: list[dict[str, Any]] = dataset.to_table().to_pylist()
    assert table.to_arrow().to_pylist() == found
    return found


def data_files(uri: Path | str) -> list[str]:
    return sorted(each.name for each in Path(uri).rglob("*.lance") if each.is_file())


def files_of(uri: Path) -> int:
    return sum(len(each.files) for each in lw.open(uri).fragments)


@pytest.fixture
def uri(tmp_path: Path) -> Path:
    return tmp_path / "t.lance"


@pytest.mark.parametrize("mode", ["append", "overwrite", "error", "ignore"])
def test_every_mode_makes_a_table_that_is_not_there(uri: Path, mode: str) -> None:
    written = done(uri, ROWS, MORE, mode=mode, message="first")
    assert written.version == 1
    assert written.branch is None
    assert not written.skipped
    assert written.counts == RowCounts(inserted=5)
    assert written.files == len(data_files(uri)) == 2
    assert written.bytes == sum((uri / "data" / each).stat().st_size for each in data_files(uri))
    assert rows(uri) == [*ROWS.to_pylist(), *MORE.to_pylist()]
    table = lw.open(uri)
    assert table.has_stable_row_ids
    assert next(iter(table.versions())).message == "first"


def test_nothing_is_there_until_the_commit(uri: Path) -> None:
    job = plan_write(uri, frame(TWO))
    assert not uri.exists()
    messages = ran(job, ROWS)
    assert not lw.exists(uri)
    job.commit(messages)
    assert lw.exists(uri)


def test_append_adds_rows_and_overwrite_replaces_rows_and_columns_where_told(uri: Path) -> None:
    done(uri, ROWS)
    assert done(uri, MORE).version == 2
    assert rows(uri) == [*ROWS.to_pylist(), *MORE.to_pylist()]
    new = pa.table({"x": [1.5]})
    with pytest.raises(lw.InvalidInputError, match="overwriteSchema") as refused:
        done(uri, new, text="x double", mode="overwrite")
    assert "mergeSchema" in str(refused.value)
    anew = done(uri, new, text="x double", mode="overwrite", overwrite_schema=True)
    assert anew.version == 3
    assert rows(uri) == new.to_pylist()
    assert lw.open(uri, version=2).count_rows() == 5


def test_a_table_that_is_there_is_an_error_or_ignored(uri: Path) -> None:
    done(uri, ROWS)
    with pytest.raises(lw.AlreadyExistsError, match="mode 'append' or 'overwrite'"):
        plan_write(uri, frame(TWO), mode="error")
    job = plan_write(uri, frame("other string"), mode="ignore")
    assert job.work is None
    assert job.run(iter(MORE.to_batches())) == job.run(iter(()))
    written = job.commit(())
    assert written.skipped
    assert written.version == 1
    assert written.counts == RowCounts()
    assert rows(uri) == ROWS.to_pylist()


def test_an_empty_partition_writes_nothing(uri: Path) -> None:
    job = plan_write(uri, frame(TWO))
    messages = ran(job, ROWS.slice(0, 0), ROWS, ROWS.schema.empty_table())
    assert [len(decode_answers([each]).fragments) for each in messages] == [0, 1, 0]
    assert job.commit([*messages, None]).files == 1
    assert rows(uri) == ROWS.to_pylist()


def test_no_rows_at_all_make_an_empty_table_with_columns(uri: Path) -> None:
    written = done(uri)
    assert (written.version, written.files, written.bytes) == (1, 0, 0)
    assert rows(uri) == []
    assert lw.open(uri).schema.names == ["id", "s"]
    assert not (uri / "data").exists()


def test_a_file_is_closed_at_its_limits(uri: Path) -> None:
    assert done(uri, ROWS, MORE, max_rows_per_file=2).files == 3
    assert [each.physical_rows for each in lw.open(uri).fragments] == [2, 1, 2]
    assert done(uri, MORE, max_bytes_per_file=1).files == 2


def test_rows_on_a_branch_lie_in_the_main_root(uri: Path) -> None:
    done(uri, ROWS)
    lw.open(uri).branches.create("exp")
    assert done(uri, MORE, branch="exp").branch == "exp"
    assert done(f"{uri}@exp", MORE).version == 3
    assert len(list((uri / "data").iterdir())) == 3
    assert not (uri / "tree" / "exp" / "data").exists()
    assert rows(uri) == ROWS.to_pylist()
    assert rows(uri, branch="exp") == [*ROWS.to_pylist(), *MORE.to_pylist() * 2]


def test_rows_of_a_clone_lie_in_its_own_root(uri: Path, tmp_path: Path) -> None:
    done(uri, ROWS)
    clone = tmp_path / "clone.lance"
    lw.open(uri).clone(clone)
    done(clone, MORE)
    assert len(data_files(clone)) == len(data_files(uri)) == 1
    assert rows(clone) == [*ROWS.to_pylist(), *MORE.to_pylist()]
    assert rows(uri) == ROWS.to_pylist()


def test_a_new_table_declares_base_paths_and_its_rows_go_there(uri: Path, tmp_path: Path) -> None:
    bases = [lw.BasePath(tmp_path / "cold", name="cold")]
    done(uri, ROWS, bases=bases, into="cold")
    assert len(list((tmp_path / "cold").iterdir())) == 1
    assert data_files(uri) == []
    assert done(uri, MORE, bases=bases, into=[None, "cold"]).version == 2
    assert rows(uri) == [*ROWS.to_pylist(), *MORE.to_pylist()]
    with pytest.raises(lw.InvalidInputError, match="add_base"):
        plan_write(uri, frame(TWO), bases=[tmp_path / "other"])


def test_abort_finds_files_in_other_homes(uri: Path, tmp_path: Path) -> None:
    job = plan_write(uri, frame(TWO), bases=[tmp_path / "cold"], into="all", max_rows_per_file=1)
    messages = ran(job, ROWS)
    assert len(data_files(tmp_path)) == 3
    pickle.loads(pickle.dumps(job)).abort(messages)
    assert data_files(tmp_path) == []


def test_vectors_are_restored_by_the_tables_schema(uri: Path) -> None:
    lw.create(uri, VECTORS)
    arrays = pa.table({"v": pa.array([[1, 2], None], pa.list_(pa.float32())), "id": [1, 2]})
    done(uri, arrays, text="v array<float>, id bigint")
    assert lw.open(uri).schema.field("v").type == pa.list_(pa.float32(), 2)
    assert rows(uri) == [{"id": 1, "v": [1, 2]}, {"id": 2, "v": None}]


def test_columns_that_a_frame_does_not_have_are_null_and_not_in_its_files(uri: Path) -> None:
    done(uri, ROWS)
    done(uri, MORE.select(["id"]), text="id bigint")
    assert rows(uri) == [*ROWS.to_pylist(), {"id": 4, "s": None}, {"id": 5, "s": None}]
    assert [len(each.files[0].fields) for each in lw.open(uri).fragments] == [2, 1]
    wider = pa.schema([("id", pa.int64()), ("more", pa.string())])
    done(uri, MORE.select(["id"]), text="id bigint", mode="overwrite", schema=wider, **ANEW)
    assert rows(uri) == [{"id": 4, "more": None}, {"id": 5, "more": None}]


def test_a_new_table_has_vectors_where_its_schema_says_so(uri: Path) -> None:
    arrays = pa.table({"id": [1], "v": pa.array([[1, 2]], pa.list_(pa.float32()))})
    done(uri, arrays, text="id bigint, v array<float>", schema=VECTORS)
    assert lw.open(uri).schema.equals(VECTORS)
    assert rows(uri) == [{"id": 1, "v": [1, 2]}]


def test_overwriting_keeps_the_type_of_a_column_that_spark_sees_unchanged(uri: Path) -> None:
    lw.create(uri, VECTORS)
    arrays = pa.table(
        {"v": pa.array([[3, 4]], pa.list_(pa.float32())), "id": pa.array(["a"]), "n": [1]}
    )
    done(uri, arrays, text="v array<float>, id string, n bigint", mode="overwrite", **ANEW)
    schema = lw.open(uri).schema
    assert [str(each.type) for each in schema] == [
        "fixed_size_list<item: float>[2]",
        "string",
        "int64",
    ]
    assert rows(uri) == [{"v": [3, 4], "id": "a", "n": 1}]


def test_overwriting_with_a_frame_that_says_it_has_no_nulls_changes_no_column(uri: Path) -> None:
    from pyspark.sql import types as kinds

    schema = pa.schema(
        [
            *VECTORS,
            pa.field("never", pa.int64(), False),
            pa.field("s", pa.struct([pa.field("v", pa.list_(pa.float32(), 2))])),
            pa.field("m", pa.map_(pa.string(), pa.int32())),
        ]
    )
    lw.create(uri, schema)
    vector = kinds.ArrayType(kinds.FloatType(), False)
    columns = {
        "id": kinds.LongType(),
        "v": vector,
        "never": kinds.LongType(),
        "s": kinds.StructType([kinds.StructField("v", vector, False)]),
        "m": kinds.MapType(kinds.StringType(), kinds.IntegerType(), False),
    }
    fields = [kinds.StructField(name, kind, False) for name, kind in columns.items()]
    for how in ({}, ANEW):
        plan_write(uri, kinds.StructType(fields), mode="overwrite", **how).commit([])
        assert lw.open(uri).schema.equals(schema)
    looser = [kinds.StructField("never", kinds.LongType(), True)]
    plan_write(uri, kinds.StructType(looser), mode="overwrite", **ANEW).commit([])
    assert lw.open(uri).schema.field("never").nullable


@pytest.mark.parametrize(
    ("text", "wishes", "told"),
    [
        ("id string, s string", {}, "id"),
        ("id bigint, s string, more int", {}, "more"),
        ("id bigint", {"schema": VECTORS}, "schema="),
        (TWO, {"file_version": "2.0"}, "file_version"),
        (TWO, {"file_version": "9"}, "file_version"),
        (TWO, {"stable_row_ids": False}, "stable_row_ids"),
        (TWO, {"stable_row_ids": "yes"}, "stable_row_ids"),
        (TWO, {"max_rows_per_file": 0}, "max_rows_per_file"),
        (TWO, {"into": "nowhere"}, "nowhere"),
        (TWO, {"schema": "id int"}, "schema"),
        (TWO, {"mode": "upsert"}, "mode"),
        (TWO, {"app": "loader"}, "batch"),
        (TWO, {"properties": {"lancewood.x": "1"}}, "lancewood.x"),
        (TWO, {"bases": "cold"}, "bases"),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_is_written(
    uri: Path, text: str, wishes: dict[str, Any], told: str
) -> None:
    done(uri, ROWS)
    before = sorted(uri.rglob("*"))
    with pytest.raises(lw.InvalidInputError) as caught:
        plan_write(uri, frame(text), **wishes)
    assert told in str(caught.value)
    assert sorted(uri.rglob("*")) == before


@pytest.mark.parametrize("revision", ["v1", "tag:v1", ":1", "exp:1"])
def test_a_uri_of_one_version_cannot_be_written_to(uri: Path, revision: str) -> None:
    done(uri, ROWS)
    lw.open(uri).tags.create("v1")
    lw.open(uri).branches.create("exp")
    with pytest.raises((lw.InvalidInputError, lw.NotFoundError), match=r"branch|not found"):
        plan_write(f"{uri}@{revision}", frame(TWO))


def test_a_branch_needs_a_table_and_must_be_there(uri: Path) -> None:
    with pytest.raises(lw.NotFoundError, match="no table"):
        plan_write(uri, frame(TWO), branch="exp")
    done(uri, ROWS, branch="main")
    with pytest.raises(lw.NotFoundError, match="exp"):
        plan_write(uri, frame(TWO), branch="exp")


def test_a_published_branch_is_refused_early(uri: Path) -> None:
    done(uri, ROWS)
    lw.open(uri).branches.create("exp")
    done(uri, MORE, branch="exp")
    lw.open(uri).branches.publish("exp")
    with pytest.raises(lw.IncompatibleConflictError):
        plan_write(uri, frame(TWO), branch="exp")


def test_a_value_that_does_not_fit_is_raised_by_the_commit_and_nothing_stays(uri: Path) -> None:
    lw.create(uri, pa.schema([pa.field("id", pa.int8())]))
    job = plan_write(uri, frame("id bigint"))
    messages = ran(job, pa.table({"id": [1, 2]}), pa.table({"id": [3, 300]}))
    assert len(data_files(uri)) == 1, "a task that fails removes its own"
    with pytest.raises(lw.InvalidInputError, match="300"):
        job.commit(messages)
    assert data_files(uri) == []
    assert lw.open(uri).version == 1


def test_a_failure_of_the_store_is_left_to_sparks_retries(
    uri: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise lw.StorageError("the disk is full")

    job = plan_write(uri, frame(TWO))
    monkeypatch.setattr("lancewood.store.disk.DiskStore.sync", fail)
    with pytest.raises(lw.StorageError, match="full"):
        job.run(iter(ROWS.to_batches()))
    assert data_files(uri) == []


def test_batches_of_an_iterator_that_breaks_leave_no_file(uri: Path) -> None:
    def broken() -> Iterator[pa.RecordBatch]:
        yield from ROWS.to_batches()
        raise RuntimeError("the plan fails")

    job = plan_write(uri, frame(TWO), max_rows_per_file=1)
    with pytest.raises(RuntimeError, match="the plan fails"):
        job.run(broken())
    assert data_files(uri) == []


def test_appends_go_together_and_a_serializable_one_does_not(uri: Path) -> None:
    done(uri, ROWS)
    one, strict = plan_write(uri, frame(TWO)), plan_write(uri, frame(TWO), serializable=True)
    messages, others = ran(one, MORE), ran(strict, MORE)
    lw.open(uri).append(MORE)
    assert pickle.loads(pickle.dumps(one)).commit(messages).version == 3
    before = data_files(uri)
    with pytest.raises(lw.RetryableConflictError):
        strict.commit(others)
    assert len(data_files(uri)) == len(before) - 1
    assert rows(uri) == [*ROWS.to_pylist(), *MORE.to_pylist() * 2]


def test_overwriting_is_judged_by_what_landed_meanwhile(uri: Path) -> None:
    done(uri, ROWS)
    job = plan_write(uri, frame("x double"), mode="overwrite", **ANEW)
    messages = ran(job, pa.table({"x": [1.5]}))
    lw.open(uri).overwrite(MORE)
    with pytest.raises(lw.RetryableConflictError):
        job.commit(messages)
    assert rows(uri) == MORE.to_pylist()
    assert len(data_files(uri)) == 2
    job = plan_write(uri, frame("x double"), mode="overwrite", **ANEW)
    messages = ran(job, pa.table({"x": [1.5]}))
    lw.open(uri).append(MORE)
    job.commit(messages)
    assert rows(uri) == [{"x": 1.5}]


def test_a_table_that_was_dropped_and_made_again_is_another_one(uri: Path) -> None:
    done(uri, ROWS)
    job = pickle.loads(pickle.dumps(plan_write(uri, frame(TWO))))
    messages = ran(job, MORE)
    lw.drop(uri)
    done(uri, MORE)
    with pytest.raises(lw.NotFoundError, match="made again"):
        job.commit(messages)
    assert rows(uri) == MORE.to_pylist()


@pytest.mark.parametrize("is_sent", [True, False])
def test_a_branch_that_is_gone_when_its_rows_come_is_told(uri: Path, is_sent: bool) -> None:
    done(uri, ROWS)
    lw.open(uri).branches.create("exp")
    job = plan_write(uri, frame(TWO), branch="exp")
    messages = ran(job, MORE)
    lw.open(uri).branches.rename("exp", "kept")
    with pytest.raises(lw.NotFoundError, match="is gone"):
        (pickle.loads(pickle.dumps(job)) if is_sent else job).commit(messages)
    assert rows(uri, branch="kept") == rows(uri) == ROWS.to_pylist()


@pytest.mark.parametrize(
    ("mode", "error"),
    [
        ("error", lw.AlreadyExistsError),
        ("append", lw.RetryableConflictError),
        ("overwrite", lw.RetryableConflictError),
    ],
)
def test_who_loses_the_race_to_make_a_table_is_told_and_touches_nothing(
    uri: Path, mode: Any, error: type[Exception]
) -> None:
    job = plan_write(uri, frame(TWO), mode=mode)
    messages = ran(job, MORE)
    done(uri, ROWS)
    with pytest.raises(error):
        job.commit(messages)
    assert len(data_files(uri)) == 1
    assert rows(uri) == ROWS.to_pylist()


def test_who_ignores_tables_skips_one_that_appears(uri: Path) -> None:
    job = plan_write(uri, frame(TWO), mode="ignore")
    messages = ran(job, MORE)
    done(uri, ROWS)
    written = job.commit(messages)
    assert written.skipped
    assert written.version == 1
    assert len(data_files(uri)) == 1


def test_a_batch_is_loaded_once(uri: Path) -> None:
    assert not done(uri, ROWS, app="loader", batch=1).skipped
    assert not done(uri, MORE, app="loader", batch=2).skipped
    for batch in (1, 2):
        job = plan_write(uri, frame("other int"), app="loader", batch=batch)
        assert job.work is None
        assert job.commit(()).skipped
    assert not done(uri, MORE, app="another", batch=1).skipped
    assert lw.open(uri).version == 3


@pytest.mark.parametrize("is_new", [True, False])
def test_a_batch_that_another_driver_loads_meanwhile_is_skipped_by_the_commit(
    uri: Path, is_new: bool
) -> None:
    if not is_new:
        done(uri, ROWS)
    job = plan_write(uri, frame(TWO), app="loader", batch=1)
    messages = ran(job, MORE)
    done(uri, MORE, app="loader", batch=1)
    before = lw.open(uri).version
    written = job.commit(messages)
    assert written.skipped
    assert written.version == before
    assert len(data_files(uri)) == files_of(uri)


def test_a_job_is_small_and_its_text_holds_no_secret(uri: Path) -> None:
    lw.create(uri, ROWS)
    for _ in range(50):
        lw.open(uri).append(MORE)
    job = plan_write(uri, frame(TWO), storage_options={"aws_secret_access_key": "geheim"})
    assert len(pickle.dumps(job)) < 8_000
    assert "geheim" not in repr(job)


def test_an_answer_that_is_none_is_refused() -> None:
    with pytest.raises(lw.FormatError):
        decode_answers([b"?"])
    with pytest.raises(lw.FormatError):
        decode_answers([b"F\xff\xff"])
    error = decode_answers([encode_error(lw.InvalidInputError("no", column="a"))]).errors[0]
    assert isinstance(error, lw.InvalidInputError)
    assert error.facts == {"column": "a"}


def as_frame(rows: pa.Table) -> Any:
    """Rows as what ``write`` takes for a DataFrame."""
    return Frame(rows)


@pytest.mark.parametrize("mode", ["append", "overwrite", "error", "ignore"])
def test_a_dry_run_says_what_is_known_and_writes_nothing(uri: Path, mode: Any) -> None:
    new = write(as_frame(ROWS), uri, mode, dry_run=True)
    assert new == Written(str(uri), None, 0, None, None, None, dry_run=True)
    assert not uri.exists()
    if mode == "error":
        return
    done(uri, ROWS)
    before = sorted(uri.rglob("*"))
    frame = as_frame(MORE)
    planned = write(frame, uri, mode, dry_run=True)
    if mode == "ignore":
        assert planned == Written(str(uri), None, 1, skipped=True, dry_run=True)
    else:
        assert planned == Written(str(uri), None, 1, None, None, None, dry_run=True)
    assert sorted(uri.rglob("*")) == before
    assert not frame.computed


def test_a_dry_run_of_a_merge_computes_nothing_and_refuses_what_a_merge_refuses(uri: Path) -> None:
    with pytest.raises(lw.NotFoundError, match="to merge into"):
        write(as_frame(MORE), uri, "merge", on="id", dry_run=True)
    done(uri, ROWS)
    frame = as_frame(MORE)
    planned = write(frame, uri, "merge", on="id", dry_run=True)
    assert planned == Written(str(uri), None, 1, None, None, None, dry_run=True)
    assert not frame.computed
    with pytest.raises(lw.InvalidInputError, match="nope"):
        write(frame, uri, "merge", on="nope", dry_run=True)
    assert lw.open(uri).version == 1


@pytest.mark.parametrize(
    ("mode", "wishes", "name"),
    [
        ("append", {"on": "id"}, "on"),
        ("overwrite", {"matched": "delete"}, "matched"),
        ("append", {"deleted": "gone"}, "deleted"),
        ("merge", {"sort_by": "id"}, "sort_by"),
        ("merge", {"schema": VECTORS}, "schema"),
        ("merge", {"layout": lw.Layout(bases=["cold"])}, "bases"),
        ("merge", {"layout": lw.Layout(max_rows_per_file=3)}, "max_rows_per_file"),
        ("merge", {"layout": lw.Layout(max_bytes_per_file=3)}, "max_bytes_per_file"),
    ],
)
def test_an_argument_of_another_mode_is_refused_by_its_name(
    uri: Path, mode: Any, wishes: dict[str, Any], name: str
) -> None:
    with pytest.raises(lw.InvalidInputError, match=f"^{name} is not for mode '{mode}'; leave it"):
        write(as_frame(ROWS), uri, mode, **wishes)


def test_the_driver_commits_under_the_commit_lock(uri: Path) -> None:
    held: list[int] = []

    @contextmanager
    def lock(version: int) -> Iterator[None]:
        held.append(version)
        yield

    write(as_frame(ROWS), uri, "append", access=lw.Access(commit_lock=lock))
    write(as_frame(MORE), uri, "append", access=lw.Access(commit_lock=lock))
    assert held == [1, 2]
