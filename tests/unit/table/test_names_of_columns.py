"""A column's name with a NUL is refused wherever it comes in: Arrow's C interface ends it there, so
that rows of another column would be taken."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import lancewood as lw
from lancewood.cli.main import app
from lancewood.errors import InvalidInputError

ROWS = pa.table({"id": [1], "label": ["true label"]})
NAME = "label\0draft"
CUT = pa.table({"id": [2], NAME: ["of another column"]})
INSIDE = pa.table({"s": pa.array([[{"a\0b": 1}]])})
REFUSED = r"column name '\w+\\x00\w+' is not allowed: it contains a NUL"

FORMS: dict[str, Callable[[pa.Table], Any]] = {
    "table": lambda rows: rows,
    "batches": lambda rows: rows.to_batches(),
    "reader": lambda rows: rows.to_reader(),
    "dataset": ds.dataset,
    "pandas": lambda rows: rows.to_pandas(),
    "polars": lambda rows: pl.DataFrame(rows.to_pylist()),
}


@pytest.fixture
def table(tmp_path: Path) -> lw.Table:
    return lw.create(tmp_path / "t.lance", ROWS)


@pytest.mark.parametrize("form", FORMS)
def test_data_with_a_nul_in_a_name_is_neither_appended_nor_created(
    table: lw.Table, form: str, tmp_path: Path
) -> None:
    made = FORMS[form]
    asked: list[Callable[[], Any]] = [
        lambda: table.append(made(CUT)),
        lambda: table.append(made(CUT), merge_schema=True),
        lambda: table.overwrite(made(CUT)),
        lambda: table.merge(made(CUT), on="id"),
        lambda: lw.create(tmp_path / "new.lance", made(CUT)),
    ]
    for ask in asked:
        with pytest.raises(InvalidInputError, match=REFUSED):
            ask()
    assert table.latest().to_arrow().equals(ROWS)
    assert not lw.exists(tmp_path / "new.lance")


@pytest.mark.parametrize("form", ["table", "batches", "reader", "polars"])
def test_a_nul_in_the_name_of_a_field_is_refused(form: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=REFUSED):
        lw.create(tmp_path / "new.lance", FORMS[form](INSIDE))


@pytest.mark.parametrize(
    "ask",
    [
        lambda table: table.add_columns({NAME: "id"}),
        lambda table: table.add_columns(pa.field(NAME, pa.int64())),
        lambda table: table.add_columns(CUT.select([NAME])),
        lambda table: table.add_columns(lambda batch: pa.record_batch({NAME: batch.column(0)})),
        lambda table: table.rename_column("label", NAME),
        lambda table: table.write_fragments(CUT),
        lambda table: lw.sql(f'ALTER TABLE t ADD COLUMN "{NAME}" INT', tables={"t": table.uri}),
        lambda table: lw.sql(
            f'ALTER TABLE t RENAME COLUMN label TO "{NAME}"', tables={"t": table.uri}
        ),
    ],
)
def test_no_column_gets_a_name_with_a_nul(table: lw.Table, ask: Callable[[lw.Table], Any]) -> None:
    with pytest.raises(InvalidInputError, match=f"{REFUSED}|draft.* holds a NUL"):
        ask(table)
    assert table.latest().version == 1


@pytest.mark.parametrize("form", ["jsonl", "parquet", "arrow", "csv"])
def test_a_file_with_a_nul_in_a_name_is_not_imported(
    table: lw.Table, form: str, tmp_path: Path
) -> None:
    path = tmp_path / f"new.{form}"
    if form == "parquet":
        pq.write_table(CUT, path)
    elif form == "arrow":
        with pa.ipc.new_file(path, CUT.schema) as file:
            file.write_table(CUT)
    else:
        row = json.dumps(CUT.to_pylist()[0])
        path.write_text(row if form == "jsonl" else f"id,{NAME}\n2,y\n")
    for target in (["--mode", "append", table.uri], [str(tmp_path / "new.lance")]):
        done = CliRunner().invoke(app, ["table", "import", *target, str(path)])
        assert done.exit_code == 5
        assert "contains a NUL" in done.stderr
    assert table.latest().to_arrow().equals(ROWS)


def test_a_frame_of_spark_with_a_nul_in_a_name_is_not_written() -> None:
    types = pytest.importorskip("pyspark.sql.types", reason="pyspark is not installed")
    from lancewood.spark.types.writing import Writing

    frame = types.StructType([types.StructField(NAME, types.StringType())])
    with pytest.raises(InvalidInputError, match=REFUSED):
        Writing(frame)
    with pytest.raises(InvalidInputError, match=r"column 'label\\x00draft' is not in the table"):
        Writing(frame, ROWS.schema)
