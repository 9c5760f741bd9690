"""The source without a running Spark: its classes, its version, its shapes, its plans."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lancewood as lw
from lancewood.errors import InvalidInputError, NotFoundError, RetryableConflictError

pytest.importorskip("pyspark", reason="pyspark is not installed")

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    WriterCommitMessage,
)
from pyspark.sql.types import (
    ArrayType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from lancewood.spark.source import lance_source
from lancewood.spark.source.shape import BatchShape, check_names, shape_of, spark_class


@pytest.fixture
def table(tmp_path: Path) -> lw.Table:
    rows = pa.table(
        {
            "i": pa.array(range(10), pa.int64()),
            "s": pa.array([f"row {each}" for each in range(10)]),
            "l": pa.array([[each, None] for each in range(10)], pa.list_(pa.int64())),
        },
        schema=pa.schema(
            [
                pa.field("i", pa.int64(), nullable=False),
                pa.field("s", pa.string()),
                pa.field("l", pa.list_(pa.int64())),
            ]
        ),
    )
    return lw.create(tmp_path / "t.lance", rows, layout=lw.Layout(max_rows_per_file=4))


def source(table: lw.Table, **options: str) -> Any:
    return lance_source.LanceSource({"path": table.uri, **options})


def rows_of(found: Any, schema: Any = None) -> list[dict[str, Any]]:
    """What a source gives, through all the copies that Spark makes of it."""
    travelled = pickle.loads(pickle.dumps(found))
    made = travelled.reader(travelled.schema() if schema is None else schema)
    there = pickle.loads(pickle.dumps(made))
    partitions = pickle.loads(pickle.dumps(made.partitions()))
    return [row for part in partitions for batch in there.read(part) for row in batch.to_pylist()]


def test_spark_sees_classes_of_its_own_and_they_pickle_by_name() -> None:
    expected = {
        lance_source.LanceSource: DataSource,
        lance_source.LanceReader: DataSourceReader,
        lance_source.LanceWriter: DataSourceArrowWriter,
        lance_source.FilesWritten: WriterCommitMessage,
    }
    for made, base in expected.items():
        assert issubclass(made, base)
        assert pickle.loads(pickle.dumps(made)) is made
    assert lance_source.LanceSource.name() == "lance"
    with pytest.raises(AttributeError, match="has no attribute 'Other'"):
        _ = lance_source.Other
    assert spark_class(vars(lance_source), {"LanceReader": (object, "x")}, "LanceReader") is (
        lance_source.LanceReader
    )


def test_filters_are_never_pushed_because_spark_would_mix_those_of_two_queries() -> None:
    assert lance_source.LanceReader.pushFilters is DataSourceReader.pushFilters


def test_finding_the_source_loads_neither_pylance_nor_sqlglot() -> None:
    script = (
        "import sys, pyspark_lance\n"
        "assert pyspark_lance.DefaultSource.name() == 'lance'\n"
        "print(sorted({'lance', 'sqlglot', 'obstore', 'pandas'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr


def test_a_source_that_travels_keeps_the_version_it_had(table: lw.Table) -> None:
    asked = source(table)
    schema = asked.schema()
    kept = pickle.dumps(asked)
    table.append(table.to_arrow()).drop_columns(["s"])
    assert [each["i"] for each in rows_of(pickle.loads(kept), schema)] == list(range(10))
    assert len(rows_of(source(table))) == 20


def test_a_source_without_a_look_at_its_schema_gets_its_version_when_it_travels(
    table: lw.Table,
) -> None:
    kept = pickle.dumps(source(table))
    table.delete("i < 5")
    assert len(rows_of(pickle.loads(kept))) == 10


def test_a_table_that_was_replaced_meanwhile_is_told(table: lw.Table, tmp_path: Path) -> None:
    kept = pickle.dumps(source(table))
    rows = table.to_arrow()
    lw.drop(table.uri)
    with pytest.raises(NotFoundError, match=r"version 1 of .* is gone"):
        pickle.loads(kept).schema()
    lw.create(table.uri, rows)
    with pytest.raises(RetryableConflictError, match="was replaced since"):
        pickle.loads(kept).schema()


def test_rows_are_those_that_options_ask_for(table: lw.Table) -> None:
    assert [each["i"] for each in rows_of(source(table, filter="i >= 8"))] == [8, 9]
    assert rows_of(source(table, columns="s", limit="1")) == [{"s": "row 0"}]
    assert [each["_rowid"] for each in rows_of(source(table, columns="i", withrowid="true"))] == (
        list(range(10))
    )
    assert rows_of(source(table, filter="i > 100")) == []


def test_a_limit_beside_a_filter_is_refused_as_it_could_not_be_kept(table: lw.Table) -> None:
    found = source(table, filter="i > 2", limit="3")
    with pytest.raises(InvalidInputError, match=r"'limit' cannot be kept to .* df.limit"):
        found.reader(found.schema())


def test_options_of_a_stream_are_refused_for_a_read_at_once(table: lw.Table) -> None:
    found = source(table, startingversion="1")
    with pytest.raises(InvalidInputError, match=r"'startingVersion' is for spark.readStream"):
        found.reader(found.schema())


def test_wrong_columns_and_filters_fail_when_the_source_is_asked_for_its_schema(
    table: lw.Table,
) -> None:
    for options in ({"columns": "nowhere"}, {"filter": "nowhere = 1"}, {"metadata": "nowhere"}):
        with pytest.raises(InvalidInputError, match="nowhere"):
            source(table, **options).schema()


def test_a_reader_travels_without_its_partitions(table: lw.Table) -> None:
    made = source(table).reader(source(table).schema())
    assert len(made.partitions()) > 0
    assert pickle.loads(pickle.dumps(made)).partitions() == []


def test_tasks_follow_the_size_of_the_table_unless_somebody_says_how_many(
    table: lw.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = source(table).schema()
    assert len(source(table).reader(schema).partitions()) == 1
    monkeypatch.setattr(lance_source, "MOST_BYTES", 256 << 10)
    assert len(source(table).reader(schema).partitions()) == 3
    assert len(source(table, numpartitions="1").reader(schema).partitions()) == 1


def test_a_partition_without_a_value_has_no_rows(table: lw.Table) -> None:
    from pyspark.sql.datasource import InputPartition

    made = source(table).reader(source(table).schema())
    assert list(made.read(InputPartition(None))) == []


def struct(*fields: StructField) -> StructType:
    return StructType(list(fields))


def test_a_schema_of_the_user_reads_only_its_columns(table: lw.Table) -> None:
    asked = struct(StructField("s", StringType()), StructField("i", LongType()))
    made = source(table, withrowid="true").reader(asked)
    assert made._work.request.columns == ["s", "i"]
    assert not made._work.request.with_row_id
    first = rows_of(source(table), asked)[0]
    assert list(first.items()) == [("s", "row 0"), ("i", 0)]
    named = struct(StructField("_rowid", LongType()), StructField("s", StringType()))
    assert rows_of(source(table, columns="i,_rowid,s"), named)[9] == {"_rowid": 9, "s": "row 9"}
    mapped = source(table, columns='{"a": "i + 1", "b": "i + 2"}')
    assert rows_of(mapped, struct(StructField("b", LongType())))[0] == {"b": 2}


def test_a_schema_of_the_user_may_say_that_more_is_null_but_not_less() -> None:
    inner = ArrayType(LongType(), containsNull=False)
    there = struct(StructField("a", inner, False))
    asked = struct(StructField("a", ArrayType(LongType(), containsNull=True), True))
    shape = shape_of(asked, there)
    assert shape is not None
    batch = pa.RecordBatch.from_arrays(
        [pa.array([[1]], pa.list_(pa.field("element", pa.int64(), False)))],
        schema=pa.schema([pa.field("a", pa.list_(pa.field("element", pa.int64(), False)), False)]),
    )
    assert shape.fit(batch).schema.equals(shape.schema)
    assert shape.fit(batch).to_pylist() == [{"a": [1]}]
    with pytest.raises(InvalidInputError, match="'a' is never null"):
        shape_of(there, asked)
    with pytest.raises(InvalidInputError, match=r"'a.element' is never null"):
        shape_of(struct(StructField("a", inner, True)), asked)


def test_a_schema_of_the_user_cannot_change_a_type_or_invent_a_column() -> None:
    there = struct(StructField("count", LongType()))
    with pytest.raises(InvalidInputError, match="'count' is int, it is bigint"):
        shape_of(struct(StructField("count", IntegerType())), there)
    with pytest.raises(InvalidInputError, match=r"'coutn', which is not there; .*'count'\?"):
        check_names(struct(StructField("coutn", LongType())), ["count"])
    assert shape_of(there, there) is None
    assert BatchShape(pa.schema([])).fit(pa.record_batch({"a": [1, 2]})).num_rows == 2


def test_a_write_with_an_option_of_reads_is_refused(table: lw.Table) -> None:
    for name, text in (("version", "1"), ("filter", "i = 1"), ("metadata", "files")):
        with pytest.raises(InvalidInputError, match=f"option {name!r} is for reading"):
            source(table, **{name: text}).writer(source(table).schema(), False)


def test_what_executors_answer_is_committed_and_what_failed_is_aborted(table: lw.Table) -> None:
    schema = source(table).schema()
    planned = source(table).writer(schema, False)
    data = sorted(Path(table.uri, "data").iterdir())
    there = pickle.loads(pickle.dumps(planned))
    batch = table.to_arrow().to_batches()[0]
    answers = [pickle.loads(pickle.dumps(there.write(iter(each)))) for each in ([batch], [])]
    assert len(list(Path(table.uri, "data").iterdir())) == len(data) + 1
    there.abort([answers[0], None])
    assert sorted(Path(table.uri, "data").iterdir()) == data

    answers = [there.write(iter([batch]))]
    pickle.loads(pickle.dumps(planned)).commit(answers)
    there.abort(answers)
    assert table.latest().count_rows() == 10 + batch.num_rows
    assert table.latest().to_arrow()["i"].to_pylist()[10:] == batch["i"].to_pylist()
