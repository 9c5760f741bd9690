"""``format("lance")`` over Spark Connect: the same, but for when the version is found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lancewood as lw
from lancewood.spark import metadata

pytest.importorskip("pyspark", reason="pyspark is not installed")

pytestmark = [
    pytest.mark.spark,
    pytest.mark.xdist_group("spark-connect"),
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
]


@pytest.fixture
def table(tmp_path: Path) -> lw.Table:
    rows = pa.table({"i": pa.array(range(20), pa.int64())})
    return lw.create(tmp_path / "t.lance", rows, layout=lw.Layout(max_rows_per_file=8))


def load(spark: Any, table: lw.Table, **options: object) -> Any:
    return spark.read.format("lance").options(**options).load(table.uri)


@pytest.mark.campaign
def test_a_dataframe_gets_its_version_when_it_is_first_used_and_keeps_it(
    connected: Any, table: lw.Table
) -> None:
    used, named, unused = (
        load(connected, table),
        load(connected, table, version=1),
        load(connected, table),
    )
    assert used.count() == 20
    table.append(table.to_arrow())
    assert used.count() == 20
    assert used.where("i < 3").count() == 3
    assert used.union(used.where("i >= 15")).count() == 25
    assert named.count() == 20
    assert unused.count() == 40


def test_rows_are_written_and_views_are_inserted_into(connected: Any, table: lw.Table) -> None:
    load(connected, table, filter="i < 5").write.format("lance").mode("append").save(table.uri)
    assert lw.open(table.uri).count_rows() == 25
    connected.sql(f"CREATE OR REPLACE TEMP VIEW t USING lance OPTIONS (path '{table.uri}')")
    connected.sql("INSERT INTO t SELECT i FROM t WHERE i = 19").collect()
    assert connected.sql("SELECT count(*) AS n FROM t").collect()[0].n == 25
    assert lw.open(table.uri).count_rows() == 26
    import lance

    lance.dataset(table.uri).validate()


@pytest.mark.campaign
def test_metadata_tables_come_through_both_doors(connected: Any, table: lw.Table) -> None:
    for kind, rows in (("fragments", 3), ("refs", 0)):
        fast = metadata(connected, table.uri, kind)  # type: ignore[arg-type]
        assert fast.count() == rows
        assert load(connected, table, metadata=kind).collect() == fast.collect()


def test_an_unknown_option_is_told_by_name(connected: Any, table: lw.Table) -> None:
    with pytest.raises(Exception, match=r"option 'brnach' is not known .* mean 'branch'"):
        load(connected, table, brnach="exp").count()
