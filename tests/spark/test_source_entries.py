"""Entries of Spark's catalog for ``format("lance")`` in a session without the columnar door: behind
them stands Spark's Python source, which is not told the path of a table.

In a process of their own, where Java never saw the door.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lancewood as lw

pytest.importorskip("pyspark", reason="pyspark is not installed")

from tests.spark.needs import needs
from tests.spark.ways import without_the_door

from lancewood.spark.abilities import SOURCES

pytestmark = [
    pytest.mark.spark,
    pytest.mark.xdist_group("spark"),
    needs(SOURCES),
    without_the_door,
]


@pytest.fixture
def table(tmp_path: Path) -> lw.Table:
    return lw.create(tmp_path / "t.lance", pa.table({"id": range(20)}))


def test_a_table_of_the_catalog_is_refused_because_spark_forgets_its_path(
    spark: Any, table: lw.Table
) -> None:
    with pytest.raises(Exception, match="CREATE TEMP VIEW"):
        spark.sql(f"CREATE TABLE forgotten USING lance OPTIONS (path '{table.uri}')")
    assert not spark.catalog.tableExists("forgotten")


@pytest.mark.sliced(3, at=2)
@pytest.mark.parametrize("how", ["columns", "columns and a location", "saveAsTable"])
def test_an_entry_that_spark_makes_without_asking_is_told_at_every_use_and_can_be_dropped(
    spark: Any, table: lw.Table, how: str
) -> None:
    """Spark 4.3 does not make the source there; if this fails it does, and the docs can say so."""
    before = table.count_rows()
    if how == "saveAsTable":
        write = spark.createDataFrame([(20,)], "id long").write.format("lance").mode("append")
        with pytest.raises(Exception, match="CREATE TEMP VIEW"):
            write.saveAsTable("dead")
        assert not spark.catalog.tableExists("dead")
        write.option("path", table.uri).saveAsTable("dead")
        before += 1
    else:
        where = f"LOCATION '{table.uri}'" if "location" in how else ""
        spark.sql(f"CREATE TABLE dead (id long) USING lance {where}")
    try:
        for use in ("SELECT * FROM dead", "INSERT INTO dead SELECT * FROM dead"):
            with pytest.raises(Exception, match="DROP TABLE removes its entry, and no rows"):
                spark.sql(use).collect()
    finally:
        spark.sql("DROP TABLE dead")
    assert not spark.catalog.tableExists("dead")
    assert table.latest().count_rows() == before
